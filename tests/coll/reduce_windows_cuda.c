/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/reduce_windows_cuda.c - all-reduce of buffers that lie in windows of CUDA ranks (the
 * fake driver): data goes straight between them, and through the team where a rank has no such
 * buffer.  scatter_windows_cuda.c does the same for reduce-scatter and broadcast.
 */
#include <signal.h>
#include <unistd.h>

#include "windows_bed.h"

#define COUNT WINDOWS_COUNT

/* One call from `send` to `recv`, checked; `way`: how it must go. */
static void reduce(struct windows *w, uint8_t *send, uint8_t *recv, int type, int op,
		   uint64_t count, int way)
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
	end_call(w, way);
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
		reduce(&w, a, a + half, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, STRAIGHT);
		reduce(&w, a, a, ORIEL_TYPE_INT32, ORIEL_REDUCE_XOR, COUNT, STRAIGHT);
		reduce(&w, a, b, ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_MAX, COUNT, STRAIGHT);
		reduce(&w, b + own, a + own, ORIEL_TYPE_HALF, ORIEL_REDUCE_SUM, 2 * COUNT + 8,
		       STRAIGHT);
		/* a rank has other memory, another window, or memory that is not aligned */
		reduce(&w, odd ? w.plain : a, b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, STAGED);
		reduce(&w, a, odd ? w.plain : b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, STAGED);
		reduce(&w, odd ? b : a, odd ? a : b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT,
		       STAGED);
		reduce(&w, a + (odd ? 4 : 0), b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, STAGED);
		reduce(&w, a, b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT + 1, STAGED);
		reduce(&w, w.plain, w.plain + half, ORIEL_TYPE_INT64, ORIEL_REDUCE_SUM, COUNT,
		       STAGED);
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

/* A rank that is alone, and calls of all lengths without a wait between them. */
static void alone_rank(struct rank_env *env)
{
	struct windows w;
	uint8_t *a;

	open_windows(&w, env);
	a = (uint8_t *)oriel_window_buffer(w.first);
	reduce(&w, a, a + 8 * COUNT, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, STRAIGHT);
	reduce(&w, w.plain + 1, w.plain + 1, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, STAGED);
	for (uint64_t i = 0; i < 20; i++)
		CHECK_EQ(oriel_allreduce(env->comm, a, a + 8 * COUNT, i % 3 ? COUNT : 1 + 9 * i,
					 ORIEL_TYPE_FLOAT, ORIEL_REDUCE_MIN, NULL),
			 0);
	reduce(&w, a, a, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, STRAIGHT);
	close_windows(&w);
}

TEST(short_and_long_calls_and_a_lone_rank)
{
	const struct bed_row rows[] = { { "one", 1, 1, NULL }, { "four", 4, 1, NULL } };

	bed_rows(rows, ORI_COUNT(rows), alone_rank, NULL);
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
				reduce(&w, a, a, type, op, 2u * 65536u / model_bytes(type),
				       STRAIGHT);
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
	reduce(&w, w.plain + 4, w.plain + 4, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, count, STAGED);
	reduce(&w, w.plain + 1, w.plain + 1, ORIEL_TYPE_UINT32, ORIEL_REDUCE_MAX, count, STAGED);
	CHECK_EQ(oriel_free(env->comm, w.plain), 0);
	free(w.b.host);
}

TEST(more_than_the_stage)
{
	const struct bed_row rows[] = { { "three", 3, 1, NULL } };

	bed_rows(rows, ORI_COUNT(rows), long_rank, NULL);
}

/* Queued ranks have no window of each other: everything goes through slots of the team. */
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
	reduce(&w, a, a, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, STRAIGHT);
	CHECK_EQ(oriel_allreduce(env->comm, a, a, count, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, NULL),
		 0);
	err = oriel_comm_sync(env->comm, NULL);
	CHECK_EQ(err, ORIEL_EMISMATCH);
	/* one block here, several there */
	count = env->rank == 0 ? 64 : COUNT;
	CHECK_EQ(oriel_allreduce(env->comm, a, a, count, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, NULL),
		 0);
	CHECK_EQ(oriel_comm_sync(env->comm, NULL), ORIEL_EMISMATCH);
	reduce(&w, a, a, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, STRAIGHT);
	close_windows(&w);
}

TEST(calls_that_differ)
{
	const struct bed_row rows[] = { { "three", 3, 1, NULL } };

	bed_rows(rows, ORI_COUNT(rows), differ_rank, NULL);
}

/* Rank 1 makes another call than the long one of all others.  Each rank learns it. */
static int make_other_call(struct rank_env *env, int which, uint8_t *m)
{
	struct oriel_comm *c = env->comm;

	if (env->rank != 1)
		which = -1;
	switch (which) {
	case 0:
		return oriel_broadcast(c, m, 16, 4, 0, NULL);
	case 1:
		return oriel_broadcast(c, m, 16, 4, 1, NULL);
	case 2:
		return oriel_reducescatter(c, m, m, COUNT / 16, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM,
					   NULL);
	case 3:
		return oriel_allreduce(c, m, m, COUNT, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_MAX, NULL);
	case 4:
		return oriel_allreduce(c, m, m, 2, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, NULL);
	case 5:
		return oriel_allreduce(c, m, m, COUNT, 99, ORIEL_REDUCE_SUM, NULL);
	default:
		return oriel_allreduce(c, m, m, COUNT, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, NULL);
	}
}

#define OTHER_CALLS 6

static void other_rank(struct rank_env *env)
{
	struct windows w;
	uint8_t *a;
	int err;

	open_windows(&w, env);
	a = (uint8_t *)oriel_window_buffer(w.first);
	for (int i = 0; i < 2 * OTHER_CALLS && !check_failures; i++) {
		int which = i % OTHER_CALLS;

		err = make_other_call(env, which, a);
		if (!err)
			err = oriel_comm_sync(env->comm, NULL);
		CHECK_EQ(err, which == 5 ? ORIEL_EINVAL : ORIEL_EMISMATCH);
		reduce(&w, a, a, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, STRAIGHT);
		reduce(&w, w.plain, w.plain, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, STAGED);
	}
	close_windows(&w);
}

TEST(another_call_on_one_rank)
{
	const struct bed_row rows[] = { { "three", 3, 1, NULL }, { "eight", 8, 1, NULL } };

	bed_rows(rows, ORI_COUNT(rows), other_rank, NULL);
}

/* So long, because the ranks that do come must come within it. */
#define LATE_NS 2000000000u

/* Rank 2 does not make the second call. */
static void missing_rank(struct rank_env *env)
{
	struct scene *scene = (struct scene *)env->arg;
	struct windows w;
	uint8_t *a;
	int err;

	open_windows(&w, env);
	a = (uint8_t *)oriel_window_buffer(w.first);
	reduce(&w, a, a, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, COUNT, STRAIGHT);
	if (!scene->dies)
		ori_team_of_calls(env->comm)->dev.win.comm.timeout_ns = LATE_NS;
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	if (env->rank == 2 && scene->dies)
		raise(SIGKILL);
	if (env->rank == 2) {
		while (__atomic_load_n(&scene->over, __ATOMIC_ACQUIRE) + 1 < (uint32_t)env->nranks)
			usleep(1000);
	} else {
		err = oriel_allreduce(env->comm, a, a, COUNT, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM,
				      NULL);
		if (!err)
			err = oriel_comm_sync(env->comm, NULL);
		CHECK_EQ(err, scene->dies ? ORIEL_EPEER : ORIEL_ETIMEDOUT);
		__atomic_add_fetch(&scene->over, 1, __ATOMIC_RELEASE);
	}
	if (scene->dies) /* the comm has failed, and keeps them */
		free(w.b.host);
	else
		close_windows(&w);
}

TEST(a_late_rank_ends_the_call)
{
	struct ranks_options o = { .nranks = 3, .processes = 1, .deadline_s = 60, .timeout_s = 30 };

	ranks_run(&o, missing_rank, ranks_shared(sizeof(struct scene)));
}

TEST(a_dead_rank_ends_the_call)
{
	struct ranks_options o = {
		.nranks = 3, .processes = 1, .deadline_s = 60, .timeout_s = 30, .expect_killed = 4
	};
	struct scene *scene = (struct scene *)ranks_shared(sizeof(*scene));

#if defined(__SANITIZE_THREAD__)
	check_skip("ThreadSanitizer does not see what orders processes");
	return;
#endif
	scene->dies = 1;
	ranks_run(&o, missing_rank, scene);
}
