/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/large_cuda.c - the host's collectives with blocks above 2^31 bytes, between two CUDA
 * ranks: straight between windows, through the team, and queued.  Every byte that comes is
 * compared.  CPU ranks, and calls inside a kernel: large_long.c.
 *
 * Word i of a rank is a function of the rank and of all 64 bits of i.  A truncated size or offset
 * finds other words.
 */
#include "coll/team/team.h"
#include "kernels/coll.h"
#include "reduce_bed.h"

#define NRANKS 2
#define WORDS ((1ull << 29) + 1024)   /* elements of 4 bytes in a block */
#define BLOCK (4 * WORDS)             /* bytes: 4 KiB above 2^31 */
#define PIECE ((uint64_t)(16u << 20)) /* of a copy between the host and the device */
#define GUARD 64u                     /* bytes behind a result, which stay as they are */
#define NEEDED_KIB (16ull << 20)

struct large {
	struct oriel_comm *comm;
	int rank;
	uint32_t *piece;
};

/* Word i of what `from` has; from NRANKS: the sum over all ranks. */
static uint32_t word_of(int from, uint64_t i)
{
	uint32_t base = (uint32_t)i * 2654435761u ^ (uint32_t)(i >> 21);

	return from == NRANKS ? word_of(0, i) + word_of(1, i) : base + (uint32_t)from * 7919u;
}

/* Words first .. first + count of a source come to `to`; from -1: zeros. */
static void fill(struct large *l, uint8_t *to, int from, uint64_t first, uint64_t count)
{
	uint64_t most = PIECE / 4, n;

	for (uint64_t i = 0; i < count; i += n) {
		n = count - i < most ? count - i : most;
		for (uint64_t k = 0; k < n; k++)
			l->piece[k] = from < 0 ? 0 : word_of(from, first + i + k);
		REQUIRE_OK(oriel_copy(l->comm, to + 4 * i, l->piece, 4 * n));
	}
}

static void check(struct large *l, const uint8_t *at, int from, uint64_t first, uint64_t count)
{
	uint64_t most = PIECE / 4, wrong = 0, n;

	for (uint64_t i = 0; i < count; i += n) {
		n = count - i < most ? count - i : most;
		REQUIRE_OK(oriel_copy(l->comm, l->piece, at + 4 * i, 4 * n));
		for (uint64_t k = 0; k < n; k++)
			wrong += l->piece[k] != word_of(from, first + i + k);
	}
	CHECK_EQ(wrong, 0);
}

static void check_guard(struct large *l, const uint8_t *at)
{
	REQUIRE_OK(oriel_copy(l->comm, l->piece, at, GUARD));
	for (uint32_t k = 0; k < GUARD / 4; k++)
		CHECK_EQ(l->piece[k], 0);
}

static void end_call(struct large *l, int err, int way)
{
	REQUIRE_OK(err);
	REQUIRE_OK(oriel_comm_sync(l->comm, NULL));
	if (way >= 0)
		CHECK_EQ(ori_team_last_way(l->comm), way);
}

/* No rank writes its memory for the next call while another one still checks. */
static void next_call(struct large *l)
{
	CHECK_EQ(oriel_comm_barrier(l->comm, ORIEL_WORLD), 0);
}

static void reduce(struct large *l, uint8_t *from, uint8_t *to, int way)
{
	fill(l, from, l->rank, 0, WORDS);
	fill(l, to + BLOCK, -1, 0, GUARD / 4);
	end_call(l,
		 oriel_allreduce(l->comm, from, to, WORDS, ORIEL_TYPE_UINT32, ORIEL_REDUCE_SUM,
				 NULL),
		 way);
	check(l, to, NRANKS, 0, WORDS);
	check_guard(l, to + BLOCK);
	next_call(l);
}

static void scatter(struct large *l, uint8_t *from, uint8_t *to, int way)
{
	fill(l, from, l->rank, 0, NRANKS * WORDS);
	fill(l, to + BLOCK, -1, 0, GUARD / 4);
	end_call(l,
		 oriel_reducescatter(l->comm, from, to, WORDS, ORIEL_TYPE_UINT32, ORIEL_REDUCE_SUM,
				     NULL),
		 way);
	check(l, to, NRANKS, (uint64_t)l->rank * WORDS, WORDS);
	check_guard(l, to + BLOCK);
	next_call(l);
}

static void broadcast(struct large *l, uint8_t *data, int root, int way)
{
	fill(l, data, l->rank == root ? root : -1, 0, WORDS);
	fill(l, data + BLOCK, -1, 0, GUARD / 4);
	end_call(l, oriel_broadcast(l->comm, data, WORDS, 4, root, NULL), way);
	check(l, data, root, 0, WORDS);
	check_guard(l, data + BLOCK);
	next_call(l);
}

/* Kernels of an all-gather take blocks up to 2 GiB; copy engines move longer ones. */
static void gather(struct large *l, struct oriel_window *window, uint8_t *from, uint64_t count,
		   int policy)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	uint8_t *to = (uint8_t *)oriel_window_buffer(window);
	struct oriel_allgather_request *request;

	o.policy = policy;
	REQUIRE_OK(oriel_allgather_create(l->comm, window, &o, &request));
	fill(l, from, l->rank, 0, count);
	fill(l, to, -1, 0, NRANKS * count + GUARD / 4);
	next_call(l);
	end_call(l, oriel_allgather_exec(request, from, count, 4, NULL), -1);
	for (int r = 0; r < NRANKS; r++)
		check(l, to + 4 * count * (uint64_t)r, r, 0, count);
	check_guard(l, to + 4 * count * NRANKS);
	CHECK_EQ(oriel_allgather_destroy(request), 0);
	next_call(l);
}

/* Rank 0 sends rank 1 more than 2^31 bytes, and rank 1 sends some to both. */
static void exchange(struct large *l)
{
	uint64_t sizes[NRANKS] = { l->rank ? 5 : 0, l->rank ? 300 : WORDS }, got[NRANKS], *words;
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	struct oriel_alltoallv_request *request;
	uint64_t all = sizes[0] + sizes[1];

	o.slot_bytes = BLOCK;
	o.send_bytes = BLOCK;
	o.elem_bytes = 4;
	REQUIRE_OK(oriel_alltoallv_create(l->comm, &o, &request));
	REQUIRE_OK(oriel_alloc(l->comm, 2 * sizeof(sizes), (void **)&words));
	REQUIRE_OK(oriel_copy(l->comm, words, sizes, sizeof(sizes)));
	fill(l, (uint8_t *)oriel_alltoallv_send_buffer(request), l->rank, 0, all);
	args.send_sizes = words;
	args.recv_sizes = words + NRANKS;
	args.expect_bytes = BLOCK;
	end_call(l, oriel_alltoallv_exec(request, &args, NULL), -1);
	CHECK_EQ(oriel_alltoallv_status(request), 0);
	REQUIRE_OK(oriel_copy(l->comm, got, words + NRANKS, sizeof(got)));
	CHECK_EQ(got[0], l->rank ? WORDS : 0);
	CHECK_EQ(got[1], l->rank ? 300 : 5);
	check(l, (uint8_t *)oriel_alltoallv_slot(request, 0), 0, 0, got[0]);
	check(l, (uint8_t *)oriel_alltoallv_slot(request, 1), 1, l->rank ? 5 : 0, got[1]);
	CHECK_EQ(oriel_free(l->comm, words), 0);
	CHECK_EQ(oriel_alltoallv_destroy(request), 0);
}

static void open_large(struct large *l, struct rank_env *env)
{
	l->comm = env->comm;
	l->rank = env->rank;
	l->piece = (uint32_t *)malloc(PIECE);
	REQUIRE(l->piece);
}

static void windows_rank(struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int straight = oriel_comm_nodes(env->comm) == 1 ? ORI_NODE_DIRECT : -1;
	struct oriel_window *window;
	struct large l;
	uint8_t *a;

	open_large(&l, env);
	o.bytes = (NRANKS + 1) * (BLOCK + GUARD);
	REQUIRE_OK(oriel_window_create(env->comm, &o, &window));
	a = (uint8_t *)oriel_window_buffer(window);
	reduce(&l, a, a + BLOCK, straight);
	scatter(&l, a, a + NRANKS * BLOCK, straight);
	broadcast(&l, a, 1, straight);
	gather(&l, window, a + NRANKS * BLOCK + GUARD, WORDS, ORIEL_GATHER_FASTEST);
	gather(&l, window, a + NRANKS * BLOCK + GUARD, 1ull << 29, ORIEL_GATHER_FASTEST);
	CHECK_EQ(oriel_window_destroy(window), 0);
	free(l.piece);
}

static void team_rank(struct rank_env *env)
{
	int staged = oriel_comm_nodes(env->comm) == 1 ? ORI_NODE_STAGED : -1;
	struct large l;
	uint8_t *a;

	open_large(&l, env);
	REQUIRE_OK(oriel_alloc(env->comm, (NRANKS + 1) * BLOCK + GUARD, (void **)&a));
	reduce(&l, a, a, staged);
	broadcast(&l, a, 0, staged);
	scatter(&l, a, a + NRANKS * BLOCK, staged);
	CHECK_EQ(oriel_free(env->comm, a), 0);
	exchange(&l);
	free(l.piece);
}

static void run_both(rank_fn *fn)
{
	struct ranks_options o = {
		.nranks = NRANKS, .processes = 1, .deadline_s = 500, .timeout_s = 400
	};

	if (check_free_kib() < NEEDED_KIB) {
		check_skip("needs 16 GiB of free memory, there are %llu KiB",
			   (unsigned long long)check_free_kib());
		return;
	}
	for (int i = 0; i < 2 && !check_failures; i++) {
		o.topology = i ? "2x1" : NULL;
		ranks_run(&o, fn, NULL);
	}
}

TEST(calls_in_windows)
{
	run_both(windows_rank);
}

TEST(calls_in_other_memory)
{
	run_both(team_rank);
}
