/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/cards.c - collectives of the host among CPU ranks that map each other
 * (src/coll/team/cards.c): roots that run ahead, errors that are told late, buffers in windows.
 *
 * reduce.c and reduce_errors.c test the same calls on every transport.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "coll/team/team.h"
#include "reduce_bed.h"

static const struct bed_row rows[] = { { "threads", 3, 0, NULL },
				       { "processes", 3, 1, NULL },
				       { "two processes", 2, 1, NULL } };

static int says(const char *part)
{
	if (strstr(oriel_last_error(), part))
		return 1;
	printf("the text is: %s\n", oriel_last_error());
	return 0;
}

/* ---- roots that run ahead -------------------------------------------------------------------- */

#define AHEAD 20

/* The others begin when the root has made all its broadcasts.  A root that waits would be late. */
static void ahead_rank(struct rank_env *env)
{
	uint32_t *done = env->arg;
	uint64_t value = 0;

	CHECK_EQ(oriel_allreduce(env->comm, NULL, &value, 1, ORIEL_TYPE_UINT64, ORIEL_REDUCE_SUM,
				 NULL),
		 0);
	while (env->rank && !__atomic_load_n(done, __ATOMIC_ACQUIRE))
		usleep(1000);
	for (uint64_t i = 1; i <= AHEAD; i++) {
		value = env->rank ? 0 : i;
		CHECK_EQ(oriel_broadcast(env->comm, &value, 1, sizeof(value), 0, NULL), 0);
		CHECK_EQ(value, i);
	}
	if (!env->rank)
		__atomic_store_n(done, 1, __ATOMIC_RELEASE);
}

TEST(the_root_of_a_short_broadcast_does_not_wait)
{
	for (size_t i = 0; i < ORI_COUNT(rows) && !check_failures; i++)
		bed_rows(&rows[i], 1, ahead_rank, ranks_shared(sizeof(uint32_t)));
}

/* Cards and areas are used again many times, by roots that take turns and among other calls. */
static void many_rank(struct rank_env *env)
{
	struct bed b;

	bed_open(&b, env, 100000);
	for (int i = 0; i < 600 && !check_failures; i++) {
		int root = i / 70 % env->nranks;

		bed_broadcast(&b, i % 7 ? (uint64_t)(i * 37 % 4097) : 8, 1, root);
		if (i % 97 == 0)
			bed_allreduce(&b, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM, 100, 0, 0);
		if (i % 61 == 0)
			bed_broadcast(&b, 9000, 0, root);
		if (i % 89 == 0)
			bed_reducescatter(&b, ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_MAX, 600, 0, 0);
	}
	bed_close(&b);
}

TEST(many_calls_of_all_kinds)
{
	bed_rows(rows, ORI_COUNT(rows), many_rank, NULL);
}

/* ---- errors of a broadcast that others have left --------------------------------------------- */

/* The next meeting fails on all ranks, writes nothing, and the call after it works. */
static void expect_late(struct bed *b, int status, const char *text)
{
	int32_t value = 7;

	CHECK_EQ(oriel_allreduce(b->env->comm, NULL, &value, 1, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM,
				 NULL),
		 status);
	CHECK(says("oriel_allreduce: not made"));
	CHECK(says(text));
	CHECK_EQ(value, 7);
	bed_allreduce(b, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM, 100, 0, 0);
}

static void late_rank(struct rank_env *env)
{
	int last = env->nranks - 1, odd = env->rank == last, err;
	struct bed b;
	char text[64];

	bed_open(&b, env, 100000);
	snprintf(text, sizeof(text), "an earlier broadcast failed on rank %d", last);

	/* the last rank refuses the call */
	err = oriel_broadcast(env->comm, b.memory, 10, odd ? 0 : 4, 0, NULL);
	CHECK_EQ(err, odd ? ORIEL_EINVAL : 0);
	CHECK(!odd || says("elements of 0 bytes"));
	expect_late(&b, ORIEL_EINVAL, text);

	/* the last rank expects more than the root gives */
	memset(b.memory, 7, b.bytes);
	err = oriel_broadcast(env->comm, b.memory, odd ? 11 : 10, 4, 0, NULL);
	CHECK_EQ(err, odd ? ORIEL_EMISMATCH : 0);
	CHECK(!odd || says("differ in their bytes: 40 and 44"));
	for (uint64_t i = 0; i < b.bytes; i++)
		CHECK_EQ(b.memory[i], 7);
	expect_late(&b, ORIEL_EMISMATCH, text);

	/* two ranks are the root, and neither waits */
	err = oriel_broadcast(env->comm, b.memory, 10, 4, odd ? last : 0, NULL);
	CHECK_EQ(err, 0);
	snprintf(text, sizeof(text), "rank 0 and rank %d made different broadcasts", last);
	expect_late(&b, ORIEL_EMISMATCH, text);

	/* a meeting that has an error of its own does not hide the earlier one */
	snprintf(text, sizeof(text), "an earlier broadcast failed on rank %d", last);
	err = oriel_broadcast(env->comm, b.memory, 10, odd ? 0 : 4, 0, NULL);
	CHECK_EQ(err, odd ? ORIEL_EINVAL : 0);
	err = oriel_allreduce(env->comm, NULL, b.memory, odd ? 11 : 10, ORIEL_TYPE_INT32,
			      ORIEL_REDUCE_SUM, NULL);
	CHECK_EQ(err, ORIEL_EMISMATCH);
	CHECK(says("counts: 10 and 11"));
	expect_late(&b, ORIEL_EINVAL, text);
	bed_close(&b);
}

TEST(an_error_that_others_have_left_is_told_by_the_next_meeting)
{
	bed_rows(rows, ORI_COUNT(rows), late_rank, NULL);
}

/* Errors that all ranks see are told once: the next call works. */
static void known_rank(struct rank_env *env)
{
	int first = env->rank == 0, odd = env->rank == env->nranks - 1, err;
	struct bed b;

	bed_open(&b, env, 100000);
	err = oriel_broadcast(env->comm, b.memory, 10, first ? 0 : 4, 0, NULL);
	CHECK_EQ(err, ORIEL_EINVAL);
	CHECK(first || says("rank 0 refused the call"));
	bed_allreduce(&b, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM, 100, 0, 0);
	if (odd)
		err = oriel_broadcast(env->comm, b.memory, 40, 1, 0, NULL);
	else
		err = oriel_allreduce(env->comm, NULL, b.memory, 10, ORIEL_TYPE_FLOAT,
				      ORIEL_REDUCE_SUM, NULL);
	CHECK_EQ(err, ORIEL_EMISMATCH);
	CHECK(says("calls: all-reduce and broadcast"));
	bed_allreduce(&b, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM, 5000, 0, 0);
	bed_close(&b);
}

TEST(an_error_that_all_ranks_see_is_told_once)
{
	bed_rows(rows, ORI_COUNT(rows), known_rank, NULL);
}

/* Without any other call a late error comes with the broadcast that is a meeting. */
static void forced_rank(struct rank_env *env)
{
	int odd = env->rank == env->nranks - 1, failed = 0;
	uint64_t value = 0;

	CHECK_EQ(oriel_broadcast(env->comm, odd ? NULL : &value, 1, 8, 0, NULL),
		 odd ? ORIEL_EINVAL : 0);
	for (uint64_t i = 1; i <= 100; i++) {
		uint64_t got = env->rank ? 0 : i;
		int err = oriel_broadcast(env->comm, &got, 1, 8, 0, NULL);

		if (err) {
			CHECK_EQ(err, ORIEL_EINVAL);
			CHECK(says("oriel_broadcast: not made, because an earlier broadcast"));
			failed++;
		}
		CHECK_EQ(got, err && env->rank ? 0 : i);
		CHECK(!err || i < 32);
	}
	CHECK_EQ(failed, 1);
}

TEST(a_late_error_comes_without_another_call)
{
	bed_rows(rows, ORI_COUNT(rows), forced_rank, NULL);
}

/* With ORIEL_CHECKED on any rank every call is a meeting. */
static void checked_rank(struct rank_env *env)
{
	int odd = env->rank == env->nranks - 1;
	struct bed b;

	bed_open(&b, env, 100000);
	CHECK_EQ(oriel_broadcast(env->comm, b.memory, 10, odd ? 0 : 4, 0, NULL), ORIEL_EINVAL);
	CHECK(odd || says("refused the call"));
	bed_broadcast(&b, 40, 0, 0);
	bed_close(&b);
}

TEST(checked_ranks_meet_in_every_broadcast)
{
	setenv("ORIEL_CHECKED", "1", 1);
	bed_rows(rows, ORI_COUNT(rows), checked_rank, NULL);
	unsetenv("ORIEL_CHECKED");
}

/* A root that runs ahead finds a dead rank in the next meeting, or before. */
static void dead_rank(struct rank_env *env)
{
	uint64_t value = 1;
	int err = oriel_broadcast(env->comm, &value, 1, 8, 0, NULL);

	CHECK_EQ(err, 0);
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	if (env->rank == 2)
		raise(SIGKILL);
	for (int i = 0; i < 31 && !err; i++)
		err = oriel_broadcast(env->comm, &value, 1, 8, 0, NULL);
	CHECK_EQ(err, ORIEL_EPEER);
	CHECK(says("rank 2"));
}

TEST(a_dead_rank_ends_a_row_of_broadcasts)
{
	struct ranks_options o = {
		.nranks = 3, .processes = 1, .deadline_s = 60, .timeout_s = 20, .expect_killed = 4
	};

#if defined(__SANITIZE_THREAD__)
	check_skip("ThreadSanitizer does not see what orders processes");
	return;
#endif
	ranks_run(&o, dead_rank, NULL);
}

/* ---- buffers in windows ---------------------------------------------------------------------- */

#define WINDOW_BYTES (2u << 20)

/* Which ranks have their buffers in a window: the others use memory that no peer can map. */
enum where { NOBODY, ALL, ONLY_FIRST, ALL_BUT_FIRST };

static void place_buffers(struct bed *b, struct oriel_window *w, enum where where)
{
	int in_window = where == ALL || (where == ONLY_FIRST && b->env->rank == 0) ||
			(where == ALL_BUT_FIRST && b->env->rank > 0);

	b->memory = in_window ? oriel_window_buffer(w) : malloc(b->bytes);
}

static void window_rank(struct rank_env *env)
{
	static const uint64_t counts[] = { 65, 513, 5000, 16000, 70000 };
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w;
	struct bed b;

	options.bytes = WINDOW_BYTES;
	REQUIRE_OK(oriel_window_create(env->comm, &options, &w));
	bed_open(&b, env, WINDOW_BYTES - 64);
	for (int where = NOBODY; where <= ALL_BUT_FIRST && !check_failures; where++) {
		free(b.memory);
		place_buffers(&b, w, (enum where)where);
		for (size_t i = 0; i < ORI_COUNT(counts); i++) {
			bed_allreduce(&b, ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_SUM, counts[i], 8, 0);
			bed_allreduce(&b, ORIEL_TYPE_HALF, ORIEL_REDUCE_SUM, counts[i], 2, 1);
			bed_broadcast(&b, counts[i] * 8 + 3, 1, (int)i % env->nranks);
			bed_reducescatter(&b, ORIEL_TYPE_INT32, ORIEL_REDUCE_MIN,
					  counts[i] / (uint64_t)env->nranks, 4, (int)i % 3);
		}
		if (b.memory == oriel_window_buffer(w))
			b.memory = NULL;
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	}
	bed_close(&b);
	CHECK_EQ(oriel_window_destroy(w), 0);
}

TEST(buffers_in_windows)
{
	bed_rows(rows, ORI_COUNT(rows), window_rank, NULL);
}

/* A buffer belongs to its rank as soon as the call returns: it is changed at once. */
static void reuse_rank(struct rank_env *env)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	enum { WORDS = 40000 };
	struct oriel_window *w;
	uint64_t *data;

	options.bytes = WORDS * sizeof(*data);
	REQUIRE_OK(oriel_window_create(env->comm, &options, &w));
	data = oriel_window_buffer(w);
	for (uint64_t round = 1; round <= 40 && !check_failures; round++) {
		/* in place, or over a belt */
		uint64_t wrong = 0, words = round % 5 > 2 ? WORDS : WORDS / 8;
		int root = (int)(round % (uint64_t)env->nranks);

		for (uint64_t i = 0; i < words; i++)
			data[i] = env->rank == root ? round : 0;
		CHECK_EQ(oriel_broadcast(env->comm, data, words, sizeof(*data), root, NULL), 0);
		for (uint64_t i = 0; i < words; i++)
			wrong += data[i] != round;
		memset(data, 0xff, words * sizeof(*data));
		for (uint64_t i = 0; i < words; i++)
			data[i] = round;
		CHECK_EQ(oriel_allreduce(env->comm, NULL, data, words, ORIEL_TYPE_UINT64,
					 ORIEL_REDUCE_SUM, NULL),
			 0);
		for (uint64_t i = 0; i < words; i++)
			wrong += data[i] != round * (uint64_t)env->nranks;
		CHECK_EQ(wrong, 0);
	}
	CHECK_EQ(oriel_window_destroy(w), 0);
}

TEST(a_buffer_may_change_when_the_call_returns)
{
	bed_rows(rows, ORI_COUNT(rows), reuse_rank, NULL);
}

/* One root in a row, in a window: it does not wait for its readers, and fills two belts in turn. */
static void belt_rank(struct rank_env *env)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	enum { WORDS = 5000 };
	struct oriel_window *w;
	uint64_t *data, wrong = 0;

	options.bytes = WORDS * sizeof(*data);
	REQUIRE_OK(oriel_window_create(env->comm, &options, &w));
	data = oriel_window_buffer(w);
	for (uint64_t round = 1; round <= 300 && !check_failures; round++) {
		uint64_t words = round % 3 ? WORDS : WORDS / 5;

		for (uint64_t i = 0; i < words; i++)
			data[i] = env->rank ? 0 : round * WORDS + i;
		CHECK_EQ(oriel_broadcast(env->comm, data, words, sizeof(*data), 0, NULL), 0);
		for (uint64_t i = 0; i < words; i++)
			wrong += data[i] != round * WORDS + i;
	}
	CHECK_EQ(wrong, 0);
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	CHECK_EQ(oriel_window_destroy(w), 0);
}

TEST(a_root_runs_ahead_of_its_readers)
{
	bed_rows(rows, ORI_COUNT(rows), belt_rank, NULL);
}

/* ---- counts ---------------------------------------------------------------------------------- */

/*
 * Steps carry the lower 32 bits of the call's number.  The calls come to both ends of that.  Then
 * each time a long call follows 2^31 short ones.
 */
static void wrap_rank(struct rank_env *env)
{
	static const uint64_t ends[] = { (1ull << 31) - 4, (1ull << 32) - 5 };
	uint64_t count = 0;
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	uint8_t *plain, *both[2];
	struct oriel_window *w;
	struct bed b;

	options.bytes = WINDOW_BYTES;
	REQUIRE_OK(oriel_window_create(env->comm, &options, &w));
	bed_open(&b, env, 200000);
	both[0] = plain = b.memory;
	both[1] = oriel_window_buffer(w);
	bed_allreduce(&b, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM, 9000, 0, 0);
	for (size_t i = 0; i < 10 && !check_failures; i++) {
		count = i < ORI_COUNT(ends) ? ends[i] : count + (1ull << 31) + 100;
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
		ori_team_count_calls(env->comm, count);
		for (int k = 0; k < 8 && !check_failures; k++) {
			b.memory = both[k / 2 % 2];
			bed_allreduce(&b, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM, 9000, 0, 0);
			bed_broadcast(&b, 70000, 0, k % env->nranks);
			if (k % 3 == 0)
				bed_broadcast(&b, 8, 0, 0);
		}
	}
	b.memory = plain;
	bed_close(&b);
	CHECK_EQ(oriel_window_destroy(w), 0);
}

TEST(numbers_of_calls_wrap)
{
	bed_rows(rows, ORI_COUNT(rows), wrap_rank, NULL);
}
