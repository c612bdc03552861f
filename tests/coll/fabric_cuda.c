/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/fabric_cuda.c - ranks of two hosts and an NVLink fabric, on the fake driver.
 *
 * Tests which peers are mapped and why; windows, buffers and collectives across hosts; two fabrics;
 * and a fabric for which no memory can be created.
 *
 * Hosts are network namespaces (ranks.h), so descriptors that a process passes over a socket do not
 * cross them.  Queued peers are reached by the mlx5 stub.  Single operations, and ranks that die,
 * are in the contract suite (contract.*.fabric).
 */
#include "alltoallv_bed.h"
#include "fake_cuda/fake_cuda.h"

#define WORDS 300u

/* What the GPUs of the two hosts are on. */
struct world {
	const char *knobs[2];
	int nodes;
	int mapped;      /* ranks of different hosts are */
	const char *why; /* part of the reason */
};

static void make_comm(struct rank_env *env)
{
	const struct world *w = env->arg;
	struct oriel_comm_options o = ORIEL_COMM_OPTIONS_INIT;
	char knobs[64];

	snprintf(knobs, sizeof(knobs), "guard=0,sms=4,threads=2,%s",
		 w->knobs[env->rank * 2 / env->nranks]);
	fake_cuda_knobs(knobs);
	REQUIRE_OK(oriel_comm_create(env->boot, &o, &env->comm));
}

static void look_at_peers(struct rank_env *env)
{
	const struct world *w = env->arg;
	int other = (env->rank + env->nranks / 2) % env->nranks;

	CHECK_EQ(oriel_comm_nodes(env->comm), w->nodes);
	CHECK_EQ(oriel_comm_peer_kind(env->comm, other),
		 w->mapped ? ORIEL_PEER_MAPPED : ORIEL_PEER_QUEUED);
	if (!strstr(oriel_comm_peer_reason(env->comm, other), w->why))
		check_fail(__FILE__, __LINE__, "reason \"%s\" without \"%s\"",
			   oriel_comm_peer_reason(env->comm, other), w->why);
}

static uint64_t word_of(int rank, uint64_t i, int exec)
{
	return bed_mix((uint64_t)rank * 1000003 + i * 17 + (uint64_t)exec);
}

static void gather(struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	size_t n = (size_t)env->nranks, bytes = n * WORDS * 8;
	uint64_t *mine = malloc(WORDS * 8), *all = malloc(bytes), *send;
	struct oriel_allgather_request *req;
	struct oriel_window *window;
	uint64_t wrong = 0;

	o.bytes = bytes;
	REQUIRE_OK(oriel_window_create(env->comm, &o, &window));
	REQUIRE_OK(oriel_allgather_create(env->comm, window, NULL, &req));
	REQUIRE_OK(oriel_alloc(env->comm, WORDS * 8, (void **)&send));
	for (int k = 0; k < 4; k++) {
		for (uint64_t i = 0; i < WORDS; i++)
			mine[i] = word_of(env->rank, i, k);
		REQUIRE_OK(oriel_copy(env->comm, send, mine, WORDS * 8));
		REQUIRE_OK(oriel_allgather_exec(req, send, WORDS, 8, NULL));
		REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
		REQUIRE_OK(oriel_allgather_status(req));
		REQUIRE_OK(oriel_copy(env->comm, all, oriel_window_buffer(window), bytes));
		for (uint64_t i = 0; i < n * WORDS; i++)
			wrong += all[i] != word_of((int)(i / WORDS), i % WORDS, k);
	}
	CHECK_EQ(wrong, 0);
	REQUIRE_OK(oriel_allgather_destroy(req));
	REQUIRE_OK(oriel_window_destroy(window));
	REQUIRE_OK(oriel_free(env->comm, send));
	free(mine);
	free(all);
}

/* Small ones and ones that several blocks share. */
static uint64_t sizes(uint64_t seed, uint64_t call, int from, int to)
{
	uint64_t x = bed_random(seed, call, from, to);

	return x % 5 == 0 ? 0 : x % 3 ? x % 40 : x % 6000;
}

static void exchange(struct rank_env *env)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct ori_a2a_plan plan = bed_plan(2, 2, 4096, 0, 0);
	struct bed b;

	o.slot_bytes = 6016;
	o.send_bytes = 65536;
	REQUIRE_OK(bed_open(&b, env, &o, sizes, 11));
	REQUIRE_OK(ori_alltoallv_plan_set(b.request, &plan));
	for (int i = 0; i < 8; i++)
		bed_call(&b, i % BED_WAYS);
	bed_close(&b);
}

/* Bytes of a registered buffer of a mapped peer, as this process has them. */
static void look_into_buffers(struct rank_env *env)
{
	int other = (env->rank + env->nranks / 2) % env->nranks;
	uint64_t mine = word_of(env->rank, 0, 9), theirs = 0;
	struct oriel_buffer *buffer;
	void *memory, *there;

	REQUIRE_OK(oriel_alloc(env->comm, 3 << 20, &memory));
	REQUIRE_OK(oriel_copy(env->comm, (char *)memory + (2 << 20), &mine, sizeof(mine)));
	REQUIRE_OK(oriel_buffer_register(env->comm, (char *)memory + 4096, 2 << 20, &buffer));
	REQUIRE_OK(oriel_buffer_exchange(env->comm, buffer));
	there = oriel_buffer_mapped(buffer, other);
	if (!there)
		check_fail(__FILE__, __LINE__, "rank %d has no address of rank %d's buffer",
			   env->rank, other);
	else
		CHECK_EQ(oriel_copy(env->comm, &theirs, (char *)there + (2 << 20) - 4096,
				    sizeof(theirs)),
			 0);
	CHECK_EQ(theirs, word_of(other, 0, 9));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	REQUIRE_OK(oriel_buffer_release(buffer));
	REQUIRE_OK(oriel_free(env->comm, memory));
}

/* Memory of cudaMalloc has no fabric handle: said so, and the comm is as good as before. */
static void refuse_ipc(struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;

	o.bytes = 4096;
	o.buffer = fake_cuda_malloc(0, FAKE_CUDA_MALLOC, 4096);
	CHECK_EQ(oriel_window_create(env->comm, &o, &window), ORIEL_EEXPORT);
	if (!strstr(oriel_last_error(), "on another host of the NVLink fabric"))
		check_fail(__FILE__, __LINE__, "%s", oriel_last_error());
	fake_cuda_free(o.buffer);
}

/* Splits inherit nodes, and reach across hosts all the same. */
static void gather_in_split(struct rank_env *env)
{
	struct oriel_comm *whole = env->comm;

	REQUIRE_OK(oriel_comm_split(whole, env->rank % 2, env->rank, &env->comm));
	if (env->nranks == 4) {
		struct rank_env part = *env;

		part.rank = env->rank / 2;
		part.nranks = 2;
		gather(&part);
	}
	REQUIRE_OK(oriel_comm_destroy(env->comm));
	env->comm = whole;
}

static void world_rank(struct rank_env *env)
{
	const struct world *w = env->arg;

	make_comm(env);
	if (!env->comm)
		return;
	look_at_peers(env);
	gather(env);
	exchange(env);
	if (w->nodes > 1)
		return;
	look_into_buffers(env);
	refuse_ipc(env);
	gather_in_split(env);
}

static void run_world(const struct world *w, int nranks)
{
	struct ranks_options o = {
		.nranks = nranks, .processes = 1, .hosts = 2, .no_comm = 1, .timeout_s = 60
	};

	ranks_run(&o, world_rank, (void *)(uintptr_t)w);
}

TEST(one_fabric)
{
	struct world w = { { "fabric=1,cluster=7,clique=3", "fabric=1,cluster=7,clique=3" },
			   1,
			   1,
			   "one NVLink fabric, clique 3" };

	run_world(&w, 2);
	run_world(&w, 4);
}

/* A queue's engine on a machine without one is no business of this test. */
static int queues_are_there(void)
{
	if (getenv("MLX5_STUB_WIRE"))
		return 1;
	check_skip("no engine for queued peers on two hosts: the mlx5 stub is not built");
	return 0;
}

TEST(two_fabrics)
{
	struct world w = { { "fabric=1,cluster=7", "fabric=1,cluster=8" }, 2, 0, "two fabrics" };

	if (queues_are_there())
		run_world(&w, 4);
}

TEST(two_cliques)
{
	struct world w = { { "fabric=1,cluster=7,clique=1", "fabric=1,cluster=7,clique=2" },
			   2,
			   0,
			   "two cliques" };

	if (queues_are_there())
		run_world(&w, 2);
}

/* No IMEX channel on one host: found when the comm is made, and its ranks are queued. */
TEST(a_fabric_that_takes_no_memory)
{
	struct world w = { { "fabric=1,cluster=7", "fabric=1,cluster=7,imex=0" },
			   2,
			   0,
			   "the fabric takes no memory of rank" };

	if (queues_are_there())
		run_world(&w, 4);
}

/* ... or the driver knows no fabric handles. */
TEST(a_driver_without_fabric_handles)
{
	struct world w = { { "fabric=0,cluster=7", "fabric=1,cluster=7" },
			   2,
			   0,
			   "the fabric takes no memory of rank" };

	if (queues_are_there())
		run_world(&w, 2);
}

TEST(no_fabric)
{
	struct world w = { { "fabric=1", "fabric=1" }, 2, 0, "no fabric" };

	if (queues_are_there())
		run_world(&w, 2);
}
