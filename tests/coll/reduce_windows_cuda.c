/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/reduce_windows_cuda.c - all-reduce of buffers that lie in windows of CUDA ranks (the
 * fake driver): data goes straight between them, and through the team where a rank has no such
 * buffer.
 */
#include "coll/team/team.h"
#include "kernels/coll.h"
#include "reduce_bed.h"

#define COUNT 49152u /* floats: three blocks of a kernel, and a multiple of 16 bytes per rank */
#define ROOM (2 * 8 * COUNT + 65536u)

struct windows {
	struct bed b;
	struct oriel_window *first, *second;
	uint8_t *plain;
};

static void create(struct rank_env *env, struct oriel_window **w)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = ROOM;
	REQUIRE_OK(oriel_window_create(env->comm, &o, w));
}

static void open_windows(struct windows *w, struct rank_env *env)
{
	memset(w, 0, sizeof(*w));
	w->b.env = env;
	w->b.bytes = ROOM;
	w->b.seed = 5;
	w->b.cuda = 1;
	w->b.host = (uint8_t *)malloc(ROOM);
	create(env, &w->first);
	create(env, &w->second);
	REQUIRE_OK(oriel_alloc(env->comm, ROOM, (void **)&w->plain));
}

static void close_windows(struct windows *w)
{
	struct oriel_comm *c = w->b.env->comm;

	CHECK_EQ(oriel_free(c, w->plain), 0);
	CHECK_EQ(oriel_window_destroy(w->second), 0);
	CHECK_EQ(oriel_window_destroy(w->first), 0);
	free(w->b.host);
}

/* One call from `send` to `recv`, checked; `direct`: which way it must go. */
static void reduce(struct windows *w, uint8_t *send, uint8_t *recv, int type, int op,
		   uint64_t count, int direct)
{
	uint64_t bytes = count * model_bytes(type);
	struct oriel_comm *c = w->b.env->comm;
	uint8_t tail = BED_POISON;

	bed_fill(&w->b, 0, type, 0, count);
	CHECK_EQ(oriel_copy(c, send, w->b.host, bytes), 0);
	CHECK_EQ(oriel_copy(c, recv + bytes, &tail, 1), 0);
	CHECK_EQ(oriel_allreduce(c, send, recv, count, type, op, NULL), 0);
	CHECK_EQ(oriel_comm_sync(c, NULL), 0);
	CHECK_EQ(oriel_copy(c, w->b.host, recv, bytes + 1), 0);
	bed_check(&w->b, 0, type, op, 0, count);
	CHECK_EQ(ori_team_was_direct(c), direct);
	w->b.seed = model_mix(w->b.seed);
	/* no rank fills its buffers for the next call while another one still checks these */
	CHECK_EQ(oriel_comm_barrier(c, ORIEL_WORLD), 0);
}

static void ways_rank(struct rank_env *env)
{
	uint64_t own = 4096u * (uint64_t)env->rank, half = 8 * COUNT;
	struct windows w;
	uint8_t *a, *b;
	int odd = env->rank == 1;

	open_windows(&w, env);
	a = (uint8_t *)oriel_window_buffer(w.first);
	b = (uint8_t *)oriel_window_buffer(w.second);
	for (int i = 0; i < 2 && !check_failures; i++) {
		reduce(&w, a, a + half, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, 1);
		reduce(&w, a, a, ORIEL_TYPE_INT32, ORIEL_REDUCE_XOR, COUNT, 1);
		reduce(&w, a, b, ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_MAX, COUNT, 1);
		reduce(&w, b + own, a + own, ORIEL_TYPE_HALF, ORIEL_REDUCE_SUM, 2 * COUNT + 8, 1);
		/* a rank has other memory, another window, or memory that is not aligned */
		reduce(&w, odd ? w.plain : a, b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, 0);
		reduce(&w, a, odd ? w.plain : b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, 0);
		reduce(&w, odd ? b : a, odd ? a : b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, 0);
		reduce(&w, a + (odd ? 4 : 0), b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, 0);
		reduce(&w, a, b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT + 1, 0);
		reduce(&w, w.plain, w.plain + half, ORIEL_TYPE_INT64, ORIEL_REDUCE_SUM, COUNT, 0);
	}
	close_windows(&w);
}

TEST(straight_between_windows_and_through_the_team)
{
	const struct bed_row rows[] = { { "two", 2, 1, NULL },
					{ "three", 3, 1, NULL },
					{ "eight", 8, 1, NULL } };

	bed_rows(rows, ORI_COUNT(rows), ways_rank, NULL);
}

static void kinds_rank(struct rank_env *env)
{
	struct windows w;
	uint8_t *a;

	open_windows(&w, env);
	a = (uint8_t *)oriel_window_buffer(w.first);
	for (int type = 1; type <= MODEL_TYPES && !check_failures; type++)
		for (int op = 1; op <= MODEL_OPS && !check_failures; op++)
			if (model_is_valid(type, op))
				reduce(&w, a, a, type, op, 2u * 65536u / model_bytes(type), 1);
	close_windows(&w);
}

TEST(every_type_and_operator_straight)
{
	const struct bed_row rows[] = { { "three", 3, 1, NULL } };

	bed_rows(rows, ORI_COUNT(rows), kinds_rank, NULL);
}

/* More than the stage holds, at any alignment. */
static void long_rank(struct rank_env *env)
{
	uint64_t count = 3 * (uint64_t)ORI_COLL_STAGE_BYTES / 8 + 5;
	struct windows w;

	memset(&w, 0, sizeof(w));
	w.b.env = env;
	w.b.seed = 9;
	w.b.bytes = 4 * count + 64;
	w.b.host = (uint8_t *)malloc(w.b.bytes);
	REQUIRE_OK(oriel_alloc(env->comm, w.b.bytes, (void **)&w.plain));
	reduce(&w, w.plain + 4, w.plain + 4, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, count, 0);
	reduce(&w, w.plain + 1, w.plain + 1, ORIEL_TYPE_UINT32, ORIEL_REDUCE_MAX, count, 0);
	CHECK_EQ(oriel_free(env->comm, w.plain), 0);
	free(w.b.host);
}

TEST(more_than_the_stage)
{
	const struct bed_row rows[] = { { "three", 3, 1, NULL } };

	bed_rows(rows, ORI_COUNT(rows), long_rank, NULL);
}

/* Queued ranks have no window of each other: everything goes through the team. */
static void queued_rank(struct rank_env *env)
{
	struct windows w;
	uint8_t *a;

	open_windows(&w, env);
	a = (uint8_t *)oriel_window_buffer(w.first);
	reduce(&w, a, a, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, 0);
	close_windows(&w);
}

TEST(queued_ranks_use_the_team)
{
	const struct bed_row rows[] = { { "mixed", 4, 1, "2x2" } };

	bed_rows(rows, ORI_COUNT(rows), queued_rank, NULL);
}

/* Ranks that differ learn it, and the next call is right. */
static void differ_rank(struct rank_env *env)
{
	uint64_t count = env->rank == 0 ? COUNT : COUNT + 64;
	struct windows w;
	uint8_t *a;
	int err;

	open_windows(&w, env);
	a = (uint8_t *)oriel_window_buffer(w.first);
	reduce(&w, a, a, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, 1);
	CHECK_EQ(oriel_allreduce(env->comm, a, a, count, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, NULL),
		 0);
	err = oriel_comm_sync(env->comm, NULL);
	CHECK_EQ(err, ORIEL_EMISMATCH);
	/* one block here, several there */
	count = env->rank == 0 ? 64 : COUNT;
	CHECK_EQ(oriel_allreduce(env->comm, a, a, count, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, NULL),
		 0);
	CHECK_EQ(oriel_comm_sync(env->comm, NULL), ORIEL_EMISMATCH);
	reduce(&w, a, a, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, 1);
	close_windows(&w);
}

TEST(calls_that_differ)
{
	const struct bed_row rows[] = { { "three", 3, 1, NULL } };

	bed_rows(rows, ORI_COUNT(rows), differ_rank, NULL);
}
