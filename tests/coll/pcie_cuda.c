/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/pcie_cuda.c - GPUs that can access each other's memory but have no atomics there, as
 * over PCIe, on the fake driver: signals of many blocks, refused atomics, collectives.
 *
 * This file and the library's kernels in this program are built so that the fake driver sees every
 * atomic (fake_cuda/atomic.h).  An atomic on a peer's memory ends the program.  Ranks are processes
 * with one GPU each.  Single operations are in contract.pcie.
 */
#include <oriel/device.h>

#include "alltoallv_bed.h"
#include "fake_cuda/fake_cuda.h"

#define KNOBS "gpus=4,sms=4,threads=2,atomics=0"
#define BLOCKS 12
#define ROUNDS 60
#define WORDS 500u

/* ---- signals of many blocks to one word ------------------------------------------------------ */

struct add_args {
	struct oriel_window_dev win;
	struct oriel_source src;
	uint64_t *reports; /* [block] what went wrong */
	int32_t rounds, id;
};

/*
 * Every block puts its round number to its place at the right neighbour and adds 1 to one word
 * there, by put and signal, put_signal and put_signal_counter in turn.
 */
static void add_rounds(const struct add_args *a, struct oriel_group g)
{
	int right = (a->win.comm.rank + 1) % a->win.comm.nranks, err = 0;
	uint64_t place = 8u * g.block;

	for (int k = 1; k <= a->rounds && !err; k++) {
		if (oriel_group_is_leader(g))
			*(uint64_t *)(uintptr_t)(a->src.address + place) = (uint64_t)k;
		err = oriel_group_sync(g);
		if (!err && k % 3 == 0)
			err = oriel_put(&a->win, g, right, place, &a->src, place, 8);
		if (!err && k % 3 == 0)
			err = oriel_signal(&a->win, g, right, a->id, ORIEL_ADD, 1);
		else if (!err && k % 3 == 1)
			err = oriel_put_signal(&a->win, g, right, place, &a->src, place, 8, a->id,
					       ORIEL_ADD, 1);
		else if (!err)
			err = oriel_put_signal_counter(&a->win, g, right, place, &a->src, place, 8,
						       a->id, ORIEL_ADD, 1, 0);
	}
	if (oriel_group_is_leader(g))
		a->reports[g.block] = (uint64_t)(uint32_t)-err;
}

/* The word never goes back, and what it tells of is there. */
static void watch_word(const struct add_args *a, struct oriel_group g)
{
	int left = (a->win.comm.rank + a->win.comm.nranks - 1) % a->win.comm.nranks;
	uint64_t last = 0, now, sum, all = (uint64_t)a->rounds * BLOCKS, wrong = 0;
	int err = oriel_wait_signal_from(&a->win, g, left, a->id, ORIEL_GE, 1);

	while (!err && last < all && oriel_group_is_leader(g)) {
		now = oriel_read_signal_from(&a->win, left, a->id);
		sum = 0;
		for (int b = 0; b < BLOCKS; b++)
			sum += ori_load_relaxed_sys((uint64_t *)(void *)a->win.buffer + b);
		wrong += now < last || sum < now;
		last = now;
		if (last < all)
			err = oriel_wait_signal_from(&a->win, oriel_group_thread(), left, a->id,
						     ORIEL_GT, last);
	}
	if (oriel_group_is_leader(g))
		a->reports[BLOCKS] = wrong + (uint64_t)(uint32_t)-err * 1000;
}

ORIEL_KERNEL(add_kernel, struct add_args)
{
	struct oriel_group g = oriel_group_block();

	if (g.block == BLOCKS)
		watch_word(a, g);
	else
		add_rounds(a, g);
	return 0;
}

static void open_comm(struct rank_env *env)
{
	struct oriel_comm_options o = ORIEL_COMM_OPTIONS_INIT;

	fake_cuda_knobs(env->arg ? env->arg : KNOBS);
	REQUIRE_OK(oriel_comm_create(env->boot, &o, &env->comm));
}

static void run_ranks(rank_fn *fn, const char *knobs)
{
	struct ranks_options o = {
		.nranks = 3, .processes = 1, .no_comm = 1, .deadline_s = 120, .timeout_s = 60
	};

	ranks_run(&o, fn, (void *)(uintptr_t)knobs);
}

static void look_at_peers(struct rank_env *env, int atomics)
{
	for (int r = 0; r < env->nranks; r++) {
		const char *why = oriel_comm_peer_reason(env->comm, r);

		if (r == env->rank)
			continue;
		CHECK_EQ(oriel_comm_peer_kind(env->comm, r), ORIEL_PEER_MAPPED);
		if (!strstr(why, "peer access") ||
		    (strstr(why, "without atomics") == NULL) != atomics)
			check_fail(__FILE__, __LINE__, "reason \"%s\"", why);
	}
}

static int make_window(struct rank_env *env, uint64_t first, struct oriel_window **window)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = 4096;
	o.signals = 4;
	o.counters = 1;
	o.barriers = 1;
	o.first_count = first;
	return oriel_window_create(env->comm, &o, window);
}

static void add_launch(struct rank_env *env, struct add_args *a)
{
	uint64_t reports[BLOCKS + 1];

	memset(reports, 0xff, sizeof(reports));
	REQUIRE_OK(oriel_copy(env->comm, a->reports, reports, sizeof(reports)));
	REQUIRE_OK(oriel_launch(env->comm, fake_cuda_kernel(&add_kernel), BLOCKS + 1, 2, a,
				sizeof(*a), NULL));
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	REQUIRE_OK(oriel_copy(env->comm, reports, a->reports, sizeof(reports)));
	for (int b = 0; b <= BLOCKS; b++)
		if (reports[b])
			check_fail(__FILE__, __LINE__, "rank %d, block %d of id %d: %" PRIu64,
				   env->rank, b, a->id, reports[b]);
	/* no rank starts again while a neighbour still checks the places of this launch */
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
}

/* Launch after launch; counts near the wrap; the window's signals are reset in between. */
static void add_in_window(struct rank_env *env, uint64_t first)
{
	struct add_args a = { .rounds = ROUNDS };
	struct oriel_window *window;
	void *memory;

	REQUIRE_OK(make_window(env, first, &window));
	REQUIRE_OK(oriel_alloc(env->comm, 8192, &memory));
	REQUIRE_OK(oriel_window_device(window, &a.win));
	REQUIRE_OK(oriel_window_source(window, memory, 4096, &a.src));
	a.reports = (uint64_t *)(void *)((char *)memory + 4096);
	for (a.id = 0; a.id < 3; a.id++)
		add_launch(env, &a);
	REQUIRE_OK(oriel_window_reset_signals(window, NULL));
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	a.id = 0;
	add_launch(env, &a);
	REQUIRE_OK(oriel_window_destroy(window));
	REQUIRE_OK(oriel_free(env->comm, memory));
}

static void add_rank(struct rank_env *env)
{
	open_comm(env);
	if (!env->comm)
		return;
	look_at_peers(env, env->arg != NULL);
	add_in_window(env, 0);
	add_in_window(env, UINT64_MAX - 100);
}

TEST(signals_of_many_blocks)
{
	run_ranks(add_rank, NULL);
}

/* The same where atomics are there. */
TEST(signals_with_atomics)
{
	run_ranks(add_rank, "gpus=4,sms=4,threads=2");
}

/* ---- atomics --------------------------------------------------------------------------------- */

struct atomic_args {
	struct oriel_window_dev win;
	uint64_t *word; /* the right neighbour's, exchanged */
	int32_t *status;
};

ORIEL_KERNEL(atomic_kernel, struct atomic_args)
{
	struct oriel_group g = oriel_group_block();
	int me = a->win.comm.rank, right = (me + 1) % a->win.comm.nranks;
	uint64_t old;
	int err[8];

	err[0] = oriel_fetch_add(&a->win, g, right, 0, 1, &old);
	err[1] = oriel_swap(&a->win, g, right, 0, 1, &old);
	err[2] = oriel_compare_swap(&a->win, g, right, 0, 0, 1, NULL);
	err[3] = oriel_mapped_signal(&a->win.comm, g, right, a->word, ORIEL_ADD, 1);
	err[4] = oriel_mapped_put_signal(&a->win.comm, g, right, a->word + 1, a->word + 1, 0,
					 a->word, ORIEL_ADD, 1);
	err[5] = oriel_fetch_add(&a->win, g, me, 8, 1, &old);
	err[6] = oriel_mapped_signal(&a->win.comm, g, right, a->word, ORIEL_SET, 5);
	err[7] = oriel_barrier(&a->win, g, 0);
	for (int i = 0; i < 8 && oriel_group_is_leader(g); i++)
		a->status[i] = err[i];
	return 0;
}

static void atomic_rank(struct rank_env *env)
{
	static const int want[8] = { ORIEL_EUNSUPPORTED,
				     ORIEL_EUNSUPPORTED,
				     ORIEL_EUNSUPPORTED,
				     ORIEL_EUNSUPPORTED,
				     ORIEL_EUNSUPPORTED,
				     0,
				     0,
				     0 };
	int32_t status[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	uint64_t words[2] = { 0 }, zeros[2] = { 0 };
	struct oriel_buffer *buffer;
	struct oriel_window *window;
	struct atomic_args a;
	void *memory;

	open_comm(env);
	if (!env->comm)
		return;
	REQUIRE_OK(make_window(env, 0, &window));
	REQUIRE_OK(oriel_window_device(window, &a.win));
	REQUIRE_OK(oriel_alloc(env->comm, 4096, &memory));
	REQUIRE_OK(oriel_copy(env->comm, oriel_window_buffer(window), zeros, sizeof(zeros)));
	REQUIRE_OK(oriel_buffer_register(env->comm, memory, 2048, &buffer));
	REQUIRE_OK(oriel_buffer_exchange(env->comm, buffer));
	a.word = oriel_buffer_mapped(buffer, (env->rank + 1) % env->nranks);
	a.status = (int32_t *)(void *)((char *)memory + 2048);
	REQUIRE_OK(oriel_launch(env->comm, fake_cuda_kernel(&atomic_kernel), 1, 2, &a, sizeof(a),
				NULL));
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	REQUIRE_OK(oriel_copy(env->comm, status, a.status, sizeof(status)));
	for (int i = 0; i < 8; i++)
		CHECK_EQ(status[i], want[i]);
	REQUIRE_OK(oriel_copy(env->comm, words, oriel_window_buffer(window), sizeof(words)));
	CHECK_EQ(words[0], 0); /* nobody's atomic came */
	CHECK_EQ(words[1], 1);
	REQUIRE_OK(oriel_copy(env->comm, words, memory, 8));
	CHECK_EQ(words[0], 5);
	REQUIRE_OK(oriel_buffer_release(buffer));
	REQUIRE_OK(oriel_window_destroy(window));
	REQUIRE_OK(oriel_free(env->comm, memory));
}

TEST(atomics_are_refused)
{
	run_ranks(atomic_rank, NULL);
}

/* ---- collectives ----------------------------------------------------------------------------- */

static uint64_t word_of(int rank, uint64_t i, int exec)
{
	return bed_mix((uint64_t)rank * 1000003 + i * 17 + (uint64_t)exec);
}

/* On a window; slices of several blocks. */
static void gather(struct rank_env *env, uint64_t count)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	size_t n = (size_t)env->nranks, bytes = n * count * 8;
	uint64_t *mine = malloc(count * 8), *all = malloc(bytes), *send, wrong = 0;
	struct oriel_allgather_request *req;
	struct oriel_window *window;

	o.bytes = bytes;
	REQUIRE_OK(oriel_window_create(env->comm, &o, &window));
	REQUIRE_OK(oriel_allgather_create(env->comm, window, NULL, &req));
	REQUIRE_OK(oriel_alloc(env->comm, count * 8, (void **)&send));
	for (int k = 0; k < 5; k++) {
		for (uint64_t i = 0; i < count; i++)
			mine[i] = word_of(env->rank, i, k);
		REQUIRE_OK(oriel_copy(env->comm, send, mine, count * 8));
		REQUIRE_OK(oriel_allgather_exec(req, send, count, 8, NULL));
		REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
		REQUIRE_OK(oriel_allgather_status(req));
		REQUIRE_OK(oriel_copy(env->comm, all, oriel_window_buffer(window), bytes));
		for (uint64_t i = 0; i < n * count; i++)
			wrong += all[i] != word_of((int)(i / count), i % count, k);
	}
	CHECK_EQ(wrong, 0);
	REQUIRE_OK(oriel_allgather_destroy(req));
	REQUIRE_OK(oriel_window_destroy(window));
	REQUIRE_OK(oriel_free(env->comm, send));
	free(mine);
	free(all);
}

static uint64_t sizes(uint64_t seed, uint64_t call, int from, int to)
{
	uint64_t x = bed_random(seed, call, from, to);

	return x % 5 == 0 ? 0 : x % 3 ? x % 40 : x % 6000;
}

/* The number of blocks that share a message changes from call to call. */
static void exchange(struct rank_env *env, int packed)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct ori_a2a_plan plans[] = { bed_plan(1, 1, 4096, 0, 0), bed_plan(3, 1, 512, 0, 0),
					bed_plan(2, 1, 4096, 64, 0) };
	struct bed b;

	if (packed)
		o.recv_bytes = 32768;
	else
		o.slot_bytes = 6016;
	o.send_bytes = 65536;
	REQUIRE_OK(bed_open(&b, env, &o, sizes, 13));
	for (int i = 0; i < 9; i++) {
		REQUIRE_OK(ori_alltoallv_plan_set(b.request, &plans[i % 3]));
		bed_call(&b, i % BED_WAYS);
	}
	bed_close(&b);
}

static void collective_rank(struct rank_env *env)
{
	open_comm(env);
	if (!env->comm)
		return;
	gather(env, 3);
	gather(env, WORDS);
	gather(env, 100000);
	exchange(env, 0);
	exchange(env, 1);
}

TEST(collectives)
{
	run_ranks(collective_rank, NULL);
}
