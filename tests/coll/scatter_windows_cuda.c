/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/scatter_windows_cuda.c - long reduce-scatters and broadcasts of CUDA ranks (the fake
 * driver): straight between windows, and through the stage where a rank has no such buffer.
 */
#include <signal.h>
#include <unistd.h>

#include "windows_bed.h"

#define FLOAT ORIEL_TYPE_FLOAT
#define SUM ORIEL_REDUCE_SUM

/* Elements of a rank in a reduce-scatter of all `WINDOWS_COUNT` floats, in units of 16 bytes. */
static uint64_t block_of(const struct windows *w)
{
	return WINDOWS_COUNT / (uint64_t)w->b.env->nranks & ~(uint64_t)3;
}

/* One call with a block of `count` elements per rank, checked; `way`: how it must go. */
static void scatter(struct windows *w, uint8_t *send, uint8_t *recv, int type, int op,
		    uint64_t count, int way)
{
	uint64_t n = (uint64_t)w->b.env->nranks, own = (uint64_t)w->b.env->rank * count;
	uint64_t bytes = count * model_bytes(type);
	struct oriel_comm *c = w->b.env->comm;
	uint8_t tail = BED_POISON;

	bed_fill(&w->b, 0, type, 0, n * count);
	CHECK_EQ(oriel_copy(c, send, w->b.host, n * bytes), 0);
	/* behind a result in place are elements that the others still need */
	if (recv < send || recv >= send + n * bytes)
		CHECK_EQ(oriel_copy(c, recv + bytes, &tail, 1), 0);
	CHECK_EQ(oriel_reducescatter(c, send, recv, count, type, op, NULL), 0);
	CHECK_EQ(oriel_comm_sync(c, NULL), 0);
	CHECK_EQ(oriel_copy(c, w->b.host, recv, bytes + 1), 0);
	if (recv >= send && recv < send + n * bytes)
		w->b.host[bytes] = BED_POISON;
	bed_check(&w->b, 0, type, op, own, count);
	end_call(w, way);
}

static void cast(struct windows *w, uint8_t *data, uint64_t bytes, int root, int way)
{
	struct oriel_comm *c = w->b.env->comm;
	uint64_t wrong = 0;

	memset(w->b.host, BED_POISON, bytes + 1);
	for (uint64_t i = 0; i < bytes && w->b.env->rank == root; i++)
		w->b.host[i] = (uint8_t)model_mix(w->b.seed + i);
	CHECK_EQ(oriel_copy(c, data, w->b.host, bytes + 1), 0);
	CHECK_EQ(oriel_broadcast(c, data, bytes, 1, root, NULL), 0);
	CHECK_EQ(oriel_comm_sync(c, NULL), 0);
	CHECK_EQ(oriel_copy(c, w->b.host, data, bytes + 1), 0);
	for (uint64_t i = 0; i < bytes; i++)
		wrong += w->b.host[i] != (uint8_t)model_mix(w->b.seed + i);
	CHECK_EQ(wrong, 0);
	CHECK_EQ(w->b.host[bytes], BED_POISON);
	end_call(w, way);
}

/* ---- ways ------------------------------------------------------------------------------------ */

static void scatter_rank(struct rank_env *env)
{
	uint64_t rank = (uint64_t)env->rank, own, count, half = 8 * WINDOWS_COUNT;
	int odd = env->rank == 1;
	struct windows w;
	uint8_t *a, *b;

	open_windows(&w, env);
	a = (uint8_t *)oriel_window_buffer(w.first);
	b = (uint8_t *)oriel_window_buffer(w.second);
	count = block_of(&w);
	own = 4 * count * rank;
	for (int i = 0; i < 2 && !check_failures; i++) {
		scatter(&w, a, b, FLOAT, SUM, count, STRAIGHT);
		scatter(&w, a, a + own, FLOAT, SUM, count, STRAIGHT);
		scatter(&w, a + 4096 * rank, w.plain, ORIEL_TYPE_INT32, ORIEL_REDUCE_XOR, count,
			STRAIGHT);
		scatter(&w, b, a + half, ORIEL_TYPE_HALF, SUM, 2 * count + 8, STRAIGHT);
		/* other memory, another window, not aligned, in the block of rank 0 */
		scatter(&w, odd ? w.plain : a, b, FLOAT, SUM, count, STAGED);
		scatter(&w, odd ? b : a, odd ? a : b, FLOAT, SUM, count, STAGED);
		scatter(&w, a, b + (odd ? 4 : 0), FLOAT, SUM, count, STAGED);
		scatter(&w, a, b, FLOAT, SUM, count + 1, STAGED);
		scatter(&w, a, a, FLOAT, SUM, count, STAGED);
		scatter(&w, w.plain + 1, w.plain + 1 + own, FLOAT, SUM, count, STAGED);
	}
	close_windows(&w);
}

static void cast_rank(struct rank_env *env)
{
	uint64_t bytes = 4 * WINDOWS_COUNT;
	int odd = env->rank == 1;
	struct windows w;
	uint8_t *a, *b;

	open_windows(&w, env);
	a = (uint8_t *)oriel_window_buffer(w.first);
	b = (uint8_t *)oriel_window_buffer(w.second);
	for (int root = 0; root < env->nranks && !check_failures; root++) {
		cast(&w, a, bytes, root, STRAIGHT);
		cast(&w, b + 4096 * env->rank, bytes + 16, root, STRAIGHT);
		cast(&w, odd ? w.plain : a, bytes, root, STAGED);
		cast(&w, odd ? b : a, bytes, root, STAGED);
		cast(&w, a + (odd ? 3 : 0), bytes, root, STAGED);
		cast(&w, a, bytes + 5, root, STAGED);
	}
	close_windows(&w);
}

static const struct bed_row rows[] = { { "two", 2, 1, NULL },
				       { "three", 3, 1, NULL },
				       { "eight", 8, 1, NULL } };

TEST(a_reduce_scatter_between_windows_and_through_the_stage)
{
	bed_rows(rows, ORI_COUNT(rows), scatter_rank, NULL);
}

TEST(a_broadcast_between_windows_and_through_the_stage)
{
	bed_rows(rows, ORI_COUNT(rows), cast_rank, NULL);
}

static void kinds_rank(struct rank_env *env)
{
	struct windows w;
	uint8_t *a, *b;

	open_windows(&w, env);
	a = (uint8_t *)oriel_window_buffer(w.first);
	b = (uint8_t *)oriel_window_buffer(w.second);
	for (int type = 1; type <= MODEL_TYPES && !check_failures; type++)
		for (int op = 1; op <= MODEL_OPS && !check_failures; op++)
			if (model_is_valid(type, op))
				scatter(&w, a, b, type, op, 49152u / model_bytes(type), STRAIGHT);
	close_windows(&w);
}

TEST(every_type_and_operator_straight)
{
	const struct bed_row few[] = { { "three", 3, 1, NULL } };

	bed_rows(few, ORI_COUNT(few), kinds_rank, NULL);
}

/* Many rounds of the stage, at any alignment and place. */
static void long_rank(struct rank_env *env)
{
	uint64_t room = 3 * (uint64_t)ORI_COLL_STAGE_BYTES + 64, n = (uint64_t)env->nranks;
	uint64_t count = room / 4 / n - 16;
	struct windows w;

	memset(&w, 0, sizeof(w));
	w.b.env = env;
	w.b.seed = 9;
	w.b.bytes = room;
	w.b.host = (uint8_t *)malloc(room);
	REQUIRE_OK(oriel_alloc(env->comm, room, (void **)&w.plain));
	scatter(&w, w.plain + 4, w.plain + 4, FLOAT, SUM, count, STAGED);
	scatter(&w, w.plain + 1, w.plain + 1 + 4 * count * (uint64_t)env->rank, ORIEL_TYPE_UINT32,
		ORIEL_REDUCE_MAX, count, STAGED);
	cast(&w, w.plain + 3, room - 40, env->nranks - 1, STAGED);
	CHECK_EQ(oriel_free(env->comm, w.plain), 0);
	free(w.b.host);
}

TEST(more_than_the_stage)
{
	const struct bed_row few[] = { { "one", 1, 1, NULL }, { "three", 3, 1, NULL } };

	bed_rows(few, ORI_COUNT(few), long_rank, NULL);
}

/* ---- one after the other --------------------------------------------------------------------- */

#define TURNS 8
#define GIVEN (4 * (uint64_t)WINDOWS_COUNT) /* bytes of a rank's elements */
#define PLACE (GIVEN + 64)
#define TURN_BYTES (3 * PLACE) /* of a turn: results of a reduce-scatter and an all-reduce, data */

static uint8_t cast_byte(uint64_t turn, int rank, uint64_t i)
{
	return (uint8_t)model_mix(77 + i + (turn << 32) + ((uint64_t)rank << 48));
}

/* Where turn t has its data: two turns in windows of all ranks, two beside them, and so on. */
static uint8_t *turn_of(uint8_t *in, uint8_t *out, uint64_t t)
{
	return (t / 2 % 2 ? out : in) + GIVEN + t * TURN_BYTES;
}

/* A turn in five is short. */
static uint64_t turn_count(const struct rank_env *env, uint64_t t)
{
	return t % 5 == 4 ? 9 : WINDOWS_COUNT / (uint64_t)env->nranks & ~(uint64_t)3;
}

static void make_turn(struct rank_env *env, uint8_t *in, uint8_t *out, uint64_t t)
{
	uint64_t count = turn_count(env, t), all = count * (uint64_t)env->nranks;
	uint8_t *given = t / 2 % 2 ? out : in, *to = turn_of(in, out, t);
	struct oriel_comm *c = env->comm;

	CHECK_EQ(oriel_reducescatter(c, given, to, count, FLOAT, ORIEL_REDUCE_MIN, NULL), 0);
	CHECK_EQ(oriel_broadcast(c, to + 2 * PLACE, all, 4, (int)t % env->nranks, NULL), 0);
	CHECK_EQ(oriel_allreduce(c, given, to + PLACE, all, FLOAT, SUM, NULL), 0);
}

static void check_turn(struct bed *b, uint8_t *in, uint8_t *out, uint64_t t)
{
	uint64_t count = turn_count(b->env, t), all = count * (uint64_t)b->env->nranks, wrong = 0;

	CHECK_EQ(oriel_copy(b->env->comm, b->host, turn_of(in, out, t), TURN_BYTES), 0);
	bed_check(b, 0, FLOAT, ORIEL_REDUCE_MIN, (uint64_t)b->env->rank * count, count);
	bed_check(b, PLACE, FLOAT, SUM, 0, all);
	for (uint64_t i = 0; i < 4 * all; i++)
		wrong += b->host[2 * PLACE + i] != cast_byte(t, (int)t % b->env->nranks, i);
	CHECK_EQ(wrong, 0);
	CHECK_EQ(b->host[2 * PLACE + 4 * all], BED_POISON);
}

/* Calls of all kinds, ways and lengths follow each other without a wait; then all are checked. */
static void mixed_rank(struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	uint64_t room = GIVEN + TURNS * TURN_BYTES;
	struct oriel_window *w;
	uint8_t *in, *out;
	struct bed b;

	memset(&b, 0, sizeof(b));
	b.env = env;
	b.seed = 21;
	b.bytes = room;
	b.host = (uint8_t *)malloc(room);
	o.bytes = room;
	REQUIRE_OK(oriel_window_create(env->comm, &o, &w));
	REQUIRE_OK(oriel_alloc(env->comm, room, (void **)&out));
	in = (uint8_t *)oriel_window_buffer(w);
	memset(b.host, BED_POISON, room);
	bed_fill(&b, 0, FLOAT, 0, WINDOWS_COUNT);
	for (uint64_t t = 0; t < TURNS; t++)
		for (uint64_t i = 0; i < 4 * turn_count(env, t) * (uint64_t)env->nranks; i++)
			b.host[GIVEN + t * TURN_BYTES + 2 * PLACE + i] = cast_byte(t, env->rank, i);
	CHECK_EQ(oriel_copy(env->comm, in, b.host, room), 0);
	CHECK_EQ(oriel_copy(env->comm, out, b.host, room), 0);
	for (uint64_t t = 0; t < TURNS; t++)
		make_turn(env, in, out, t);
	CHECK_EQ(oriel_comm_sync(env->comm, NULL), 0);
	for (uint64_t t = 0; t < TURNS && !check_failures; t++)
		check_turn(&b, in, out, t);
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	CHECK_EQ(oriel_free(env->comm, out), 0);
	CHECK_EQ(oriel_window_destroy(w), 0);
	free(b.host);
}

TEST(all_kinds_and_lengths_in_turn)
{
	const struct bed_row few[] = { { "one", 1, 1, NULL }, { "four", 4, 1, NULL } };

	bed_rows(few, ORI_COUNT(few), mixed_rank, NULL);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static int make_call(struct rank_env *env, int which, uint8_t *m)
{
	uint64_t n = (uint64_t)env->nranks, block = WINDOWS_COUNT / n & ~(uint64_t)3;
	struct oriel_comm *c = env->comm;

	switch (which) {
	case 0:
		return oriel_broadcast(c, m, WINDOWS_COUNT, 4, 0, NULL);
	case 1:
		return oriel_reducescatter(c, m, m + 4 * block * (uint64_t)env->rank, block, FLOAT,
					   SUM, NULL);
	case 2:
		return oriel_allreduce(c, m, m, WINDOWS_COUNT, FLOAT, SUM, NULL);
	case 3: /* another root */
		return oriel_broadcast(c, m, WINDOWS_COUNT, 4, 1, NULL);
	case 4: /* another size */
		return oriel_broadcast(c, m, WINDOWS_COUNT - 4, 4, 0, NULL);
	case 5: /* short, with one block */
		return oriel_broadcast(c, m, 5, 4, 0, NULL);
	case 6:
		return oriel_reducescatter(c, m, m + 4 * block * (uint64_t)env->rank, block, FLOAT,
					   ORIEL_REDUCE_MIN, NULL);
	case 7:
		return oriel_reducescatter(c, m, m, 3, FLOAT, SUM, NULL);
	case 8:
		return oriel_reducescatter(c, m, m, block, 99, SUM, NULL);
	default:
		return oriel_broadcast(c, m, WINDOWS_COUNT, 4, env->nranks, NULL);
	}
}

#define CALLS 10
#define REFUSED 8 /* from here on the arguments are wrong */

static int is_refused(int which)
{
	return which >= REFUSED;
}

/* Rank 1 makes another call than the long one of all others.  Each rank learns it. */
static void other_rank(struct rank_env *env)
{
	struct windows w;
	uint8_t *a;
	int err;

	open_windows(&w, env);
	a = (uint8_t *)oriel_window_buffer(w.first);
	for (int all = 0; all < 2; all++)
		for (int one = 0; one < CALLS && !check_failures; one++) {
			if (one == all)
				continue;
			err = make_call(env, env->rank == 1 ? one : all, a);
			if (!err)
				err = oriel_comm_sync(env->comm, NULL);
			CHECK_EQ(err, !is_refused(one) ? ORIEL_EMISMATCH :
				      one == REFUSED   ? ORIEL_EINVAL :
							 ORIEL_ERANGE);
			scatter(&w, a, w.plain, FLOAT, SUM, block_of(&w), STRAIGHT);
			cast(&w, w.plain, 4 * WINDOWS_COUNT, one % env->nranks, STAGED);
		}
	close_windows(&w);
}

TEST(another_call_on_one_rank)
{
	const struct bed_row few[] = { { "three", 3, 1, NULL }, { "eight", 8, 1, NULL } };

	bed_rows(few, ORI_COUNT(few), other_rank, NULL);
}

/* So long, because the ranks that do come must come within it. */
#define LATE_NS 2000000000u

/* Rank 2 does not make the last call. */
static void missing_rank(struct rank_env *env)
{
	struct scene *scene = (struct scene *)env->arg;
	struct windows w;
	uint8_t *a;
	int err;

	open_windows(&w, env);
	a = (uint8_t *)oriel_window_buffer(w.first);
	scatter(&w, a, w.plain, FLOAT, SUM, block_of(&w), STRAIGHT);
	cast(&w, a, 4 * WINDOWS_COUNT, 1, STRAIGHT);
	if (!scene->dies)
		ori_team_of_calls(env->comm)->dev.win.comm.timeout_ns = LATE_NS;
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	if (env->rank == 2 && scene->dies)
		raise(SIGKILL);
	if (env->rank == 2) {
		while (__atomic_load_n(&scene->over, __ATOMIC_ACQUIRE) + 1 < (uint32_t)env->nranks)
			usleep(1000);
	} else {
		err = make_call(env, scene->call, a);
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

static void lose_rank(int call, int dies)
{
	struct ranks_options o = { .nranks = 3, .processes = 1, .deadline_s = 60, .timeout_s = 30 };
	struct scene *scene = (struct scene *)ranks_shared(sizeof(*scene));

	scene->call = call;
	scene->dies = dies;
	o.expect_killed = dies ? 4 : 0;
	ranks_run(&o, missing_rank, scene);
}

TEST(a_late_rank_ends_a_broadcast)
{
	lose_rank(0, 0);
}

TEST(a_dead_rank_ends_a_reduce_scatter)
{
	lose_rank(1, 1);
}
