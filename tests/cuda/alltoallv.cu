/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/cuda/alltoallv.cu - all-to-all-v on a GPU: random splits from a seed, by calls on a stream
 * and replayed from a graph with sizes that the device changes between replays; what is refused;
 * every byte checked.
 *
 * A call is three kernels on one stream: the first makes the sizes and the data of the next call
 * and fills the receive buffer with another byte, the second is the call, the third counts what is
 * wrong.  So nothing of it needs the host, and a graph of the three is a new call in every replay.
 */
#include "gpu.h"

#include <oriel/coll.h>

#define MOST 40000u /* bytes from one rank to another */
#define CALLS 60
#define REPLAYS 1000
#define DEPTH 50 /* replays under way at once */
#define POISON 0xa5
#define THREADS 512
/* A call that expects so much has shares that follow the sizes, in a kernel of its own. */
#define EXPECT_LONG (4u << 20)

/* What words[] counts. */
#define BEGUN 0
#define CHECKED 1
#define WRONG_BYTES 2
#define WRONG_SIZES 3
#define FAILED 4
#define WORDS 8

struct turn {
	uint64_t seed;
	uint64_t slot_stride; /* 0: packed */
	uint64_t recv_bytes;
	uint8_t *send, *recv;
	uint64_t *sizes, *recv_sizes, *recv_offsets; /* [nranks] */
	uint64_t *words;
	int32_t rank, nranks;
};

/* splitmix64's finaliser */
ORIEL_DEV uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

ORIEL_DEV uint64_t stamp_of(const struct turn *a, uint64_t call, int from, int to)
{
	return mix(a->seed * 0x9e3779b97f4a7c15ull +
		   mix(call * 4096 + (uint64_t)from * 64 + (uint64_t)to + 1));
}

/* Nothing, less than there are blocks, what an inbox takes or a little more, anything. */
ORIEL_DEV uint64_t size_of(const struct turn *a, uint64_t call, int from, int to)
{
	uint64_t x = stamp_of(a, call, from, to), n = x >> 8;

	switch (x & 3u) {
	case 0:
		return 0;
	case 1:
		return n % 33;
	case 2:
		return n % 9000;
	default:
		return n % (MOST + 1);
	}
}

ORIEL_DEV uint8_t byte_of(uint64_t stamp, uint64_t i)
{
	return (uint8_t)((stamp ^ (i * 0x9e3779b97f4a7c15ull)) >> 29);
}

/* Sizes and data of the next call, and a receive buffer in which all that comes is found. */
ORIEL_KERNEL(next_kernel, struct turn)
{
	struct oriel_group g = oriel_group_block();
	uint64_t call = a->words[BEGUN] + 1, at = 0, i;
	int err = oriel_group_sync(g);

	for (int to = 0; to < a->nranks; to++) {
		uint64_t bytes = size_of(a, call, a->rank, to);
		uint64_t stamp = stamp_of(a, call, a->rank, to);

		for (i = g.thread; i < bytes; i += g.size)
			a->send[at + i] = byte_of(stamp, i);
		if (oriel_group_is_leader(g)) {
			a->sizes[to] = bytes;
			a->recv_sizes[to] = a->recv_offsets[to] = ~0ull;
		}
		at += bytes;
	}
	for (i = g.thread; i < a->recv_bytes; i += g.size)
		a->recv[i] = POISON;
	if (oriel_group_is_leader(g)) {
		a->words[BEGUN] = call;
		a->words[FAILED] += err != 0;
	}
	return err;
}

ORIEL_DEV uint64_t not_poison(const struct turn *a, struct oriel_group g, uint64_t from,
			      uint64_t to)
{
	uint64_t wrong = 0;

	for (uint64_t i = from + g.thread; i < to; i += g.size)
		wrong += a->recv[i] != POISON;
	return wrong;
}

ORIEL_KERNEL(check_kernel, struct turn)
{
	struct oriel_group g = oriel_group_block();
	uint64_t call = a->words[BEGUN], end = 0, wrong = 0, sizes = 0, i;

	for (int from = 0; from < a->nranks; from++) {
		uint64_t bytes = size_of(a, call, from, a->rank);
		uint64_t stamp = stamp_of(a, call, from, a->rank);
		uint64_t place = a->slot_stride ? (uint64_t)from * a->slot_stride : end;

		sizes += a->recv_sizes[from] != bytes || a->recv_offsets[from] != place;
		for (i = g.thread; i < bytes; i += g.size)
			wrong += a->recv[place + i] != byte_of(stamp, i);
		end = place + bytes;
		if (a->slot_stride)
			wrong += not_poison(a, g, end, place + a->slot_stride);
	}
	if (!a->slot_stride)
		wrong += not_poison(a, g, end, a->recv_bytes);
	if (wrong)
		(void)ori_fetch_add_acq_rel_sys(a->words + WRONG_BYTES, wrong);
	if (oriel_group_is_leader(g)) {
		a->words[WRONG_SIZES] += sizes;
		a->words[CHECKED]++;
	}
	return 0;
}

/* ---- a request and its memory ---------------------------------------------------------------- */

struct bed {
	struct rank_env *env;
	struct oriel_alltoallv_request *request;
	struct turn turn;
	struct oriel_alltoallv_args args;
	uint8_t *memory; /* sizes, what came, where it is, words; then the send memory */
};

static const struct oriel_alltoallv_options no_options = ORIEL_ALLTOALLV_OPTIONS_INIT;
static const struct oriel_alltoallv_args no_args = ORIEL_ALLTOALLV_ARGS_INIT;

static int bed_open(struct bed *b, struct rank_env *env, int packed, uint64_t seed)
{
	struct oriel_alltoallv_options o = no_options;
	uint64_t n = (uint64_t)env->nranks, zero[WORDS] = { 0 };
	void *memory = NULL;
	int err;

	memset(b, 0, sizeof(*b));
	b->env = env;
	b->args = no_args;
	if (packed)
		o.recv_bytes = n * MOST;
	else
		o.slot_bytes = MOST;
	err = oriel_alltoallv_create(env->comm, &o, &b->request);
	if (!err)
		err = oriel_alloc(env->comm, (3 * n + WORDS) * 8 + n * MOST, &memory);
	if (err)
		return err;
	b->memory = (uint8_t *)memory;
	b->turn.sizes = (uint64_t *)memory;
	b->turn.recv_sizes = b->turn.sizes + n;
	b->turn.recv_offsets = b->turn.sizes + 2 * n;
	b->turn.words = b->turn.sizes + 3 * n;
	b->turn.send = (uint8_t *)(b->turn.words + WORDS);
	b->turn.recv = (uint8_t *)oriel_alltoallv_recv_buffer(b->request);
	b->turn.slot_stride = packed ? 0 :
				       (uint64_t)((uint8_t *)oriel_alltoallv_slot(b->request, 1) -
						  (uint8_t *)oriel_alltoallv_slot(b->request, 0));
	b->turn.recv_bytes = packed ? n * MOST : n * b->turn.slot_stride;
	b->turn.seed = seed;
	b->turn.rank = env->rank;
	b->turn.nranks = env->nranks;
	b->args.send = b->turn.send;
	b->args.send_sizes = b->turn.sizes;
	b->args.recv_sizes = b->turn.recv_sizes;
	b->args.recv_offsets = b->turn.recv_offsets;
	return oriel_copy(env->comm, b->turn.words, zero, sizeof(zero));
}

static int bed_close(struct bed *b)
{
	int err = oriel_alltoallv_destroy(b->request);

	return err ? err : oriel_free(b->env->comm, b->memory);
}

/* From the request's own send buffer, or the caller's memory. */
static void bed_send_from(struct bed *b, int own)
{
	b->turn.send = own ? (uint8_t *)(b->turn.words + WORDS) :
			     (uint8_t *)oriel_alltoallv_send_buffer(b->request);
	b->args.send = own ? b->turn.send : NULL;
}

static int bed_launch(struct bed *b, const struct oriel_kernel *kernel, void *stream)
{
	return oriel_launch(b->env->comm, kernel, 1, THREADS, &b->turn, sizeof(b->turn), stream);
}

/* All three kernels of a call. */
static int bed_call(struct bed *b, void *stream)
{
	int err = bed_launch(b, &next_kernel, stream);

	if (!err)
		err = oriel_alltoallv_exec(b->request, &b->args, stream);
	return err ? err : bed_launch(b, &check_kernel, stream);
}

/* `calls` of them were made since the last look, and nothing of them was wrong. */
static void bed_look(struct bed *b, uint64_t calls, const char *what)
{
	uint64_t words[WORDS], zero = 0;

	REQUIRE_OK(oriel_alltoallv_status(b->request));
	REQUIRE_OK(oriel_copy(b->env->comm, words, b->turn.words, sizeof(words)));
	if (words[CHECKED] != calls || words[WRONG_BYTES] || words[WRONG_SIZES] || words[FAILED])
		check_fail(__FILE__, __LINE__,
			   "%s: rank %d of %d: %llu of %llu calls checked, %llu wrong bytes, %llu "
			   "wrong sizes, %llu failed",
			   what, b->env->rank, b->env->nranks, (unsigned long long)words[CHECKED],
			   (unsigned long long)calls, (unsigned long long)words[WRONG_BYTES],
			   (unsigned long long)words[WRONG_SIZES],
			   (unsigned long long)words[FAILED]);
	REQUIRE_OK(oriel_copy(b->env->comm, b->turn.words + CHECKED, &zero, sizeof(zero)));
}

/* ---- calls on a stream ----------------------------------------------------------------------- */

/* Ranks are cut differently, and every rank differently from call to call. */
static void random_calls(struct rank_env *env, int packed, uint64_t seed)
{
	static const uint64_t expected[] = { 0, 1u << 10, 64u << 10, 256u << 10, EXPECT_LONG };
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, packed, seed));
	for (int i = 0; i < CALLS; i++) {
		bed_send_from(&b, i % 2);
		b.args.expect_bytes = expected[(i / 3 + env->rank) % 5];
		REQUIRE_OK(bed_call(&b, NULL));
	}
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	bed_look(&b, CALLS, packed ? "packed" : "slots");
	REQUIRE_OK(bed_close(&b));
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void graph_of(struct rank_env *env, int packed, uint64_t expect, uint64_t seed)
{
	cudaGraphExec_t exec;
	cudaStream_t stream;
	cudaGraph_t graph;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, packed, seed));
	b.args.expect_bytes = expect;
	REQUIRE_OK(bed_call(&b, NULL)); /* one that is not of the graph */
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	GPU_OK(cudaSetDevice(0));
	GPU_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	GPU_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	REQUIRE_OK(bed_call(&b, stream));
	GPU_OK(cudaStreamEndCapture(stream, &graph));
	GPU_OK(gpu_graph_make(graph, stream, &exec));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	for (int i = 0; i < REPLAYS; i++) {
		GPU_OK(cudaGraphLaunch(exec, stream));
		/*
		 * a launch that finds the stream's queue full waits inside the driver, where other
		 * ranks may be too
		 */
		if (i % DEPTH == DEPTH - 1)
			REQUIRE_OK(oriel_comm_sync(env->comm, stream));
	}
	REQUIRE_OK(oriel_comm_sync(env->comm, stream));
	bed_look(&b, 1 + REPLAYS, "replayed");
	GPU_OK(cudaGraphExecDestroy(exec));
	GPU_OK(cudaGraphDestroy(graph));
	GPU_OK(cudaStreamDestroy(stream));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	REQUIRE_OK(bed_close(&b));
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void wrong_options(struct rank_env *env)
{
	struct oriel_alltoallv_options o = no_options;
	struct oriel_alltoallv_request *a = NULL;

	CHECK_EQ(oriel_alltoallv_create(env->comm, NULL, &a), ORIEL_EINVAL);
	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, &a), ORIEL_EINVAL);
	o.slot_bytes = 64;
	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, NULL), ORIEL_EINVAL);
	o.elem_bytes = 0;
	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, &a), ORIEL_EINVAL);
	o.elem_bytes = 1;
	o.slot_bytes = 1ull << 60;
	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, &a), ORIEL_ERANGE);
	/* one rank's mistake is everybody's */
	o.slot_bytes = env->rank == 1 ? 128 : 64;
	CHECK_EQ(oriel_alltoallv_create(env->comm, &o, &a), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "slot_bytes");
	CHECK(a == NULL);
}

/*
 * One call for which `spoils` has put another number where the kernel reads a size: refused
 * everywhere, told once.
 */
static void refused_call(struct bed *b, int spoils, uint64_t size)
{
	uint64_t words[WORDS];

	REQUIRE_OK(bed_launch(b, &next_kernel, NULL));
	REQUIRE_OK(oriel_comm_sync(b->env->comm, NULL));
	if (spoils)
		REQUIRE_OK(oriel_copy(b->env->comm, b->turn.sizes + b->env->nranks - 1, &size,
				      sizeof(size)));
	REQUIRE_OK(oriel_alltoallv_exec(b->request, &b->args, NULL));
	REQUIRE_OK(oriel_comm_sync(b->env->comm, NULL));
	CHECK_EQ(oriel_alltoallv_status(b->request), ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "refused");
	CHECK_EQ(oriel_alltoallv_status(b->request), 0);
	REQUIRE_OK(oriel_copy(b->env->comm, words, b->turn.words, sizeof(words)));
	CHECK_EQ(words[FAILED], 0);
}

static void refusals(struct rank_env *env, int packed, uint64_t seed)
{
	struct oriel_alltoallv_args args = no_args;
	struct oriel_alltoallv_request *stale;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, packed, seed));
	stale = b.request;
	CHECK_EQ(oriel_alltoallv_exec(b.request, NULL, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_alltoallv_exec(b.request, &args, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_alltoallv_exec(NULL, &b.args, NULL), ORIEL_EINVAL);
	for (int i = 0; i < env->nranks; i++) {
		b.args.expect_bytes = i % 2 ? EXPECT_LONG : 0;
		refused_call(&b, env->rank == i, packed ? env->nranks * MOST + 1ull : MOST + 1ull);
		REQUIRE_OK(bed_call(&b, NULL)); /* the request is as good as before */
		refused_call(&b, env->rank == i, ~0ull);
	}
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	bed_look(&b, (uint64_t)env->nranks, "between refused calls");
	REQUIRE_OK(bed_close(&b));
	CHECK_EQ(oriel_alltoallv_status(stale), ORIEL_ESTALE);
	CHECK_EQ(oriel_alltoallv_destroy(stale), ORIEL_ESTALE);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void calls_of(struct rank_env *env)
{
	uint64_t seed = 7 + (uint64_t)env->nranks;

	random_calls(env, 0, seed);
	random_calls(env, 1, seed + 100);
	wrong_options(env);
	refusals(env, 0, seed + 200);
	refusals(env, 1, seed + 300);
}

static void all_of_it(struct rank_env *env)
{
	calls_of(env);
	graph_of(env, 0, 0, 400 + (uint64_t)env->nranks);
	graph_of(env, 0, EXPECT_LONG, 450 + (uint64_t)env->nranks);
	graph_of(env, 1, 0, 500 + (uint64_t)env->nranks);
}

TEST(processes_2)
{
	gpu_run(2, 1, NULL, all_of_it, NULL);
}

TEST(processes_4)
{
	gpu_run(4, 1, NULL, all_of_it, NULL);
}

TEST(processes_8)
{
	gpu_run(8, 1, NULL, all_of_it, NULL);
}

TEST(mixed_processes)
{
	gpu_run(4, 1, "2x2", all_of_it, NULL);
}

TEST(threads_4)
{
	gpu_run(4, 0, NULL, all_of_it, NULL);
}

TEST(threads_8)
{
	gpu_run(8, 0, NULL, calls_of, NULL);
}

TEST(mixed_threads)
{
	gpu_run(4, 0, "2x2", calls_of, NULL);
}
