/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/lines.c - collectives that a kernel holds open (device/coll_line.h): many calls, each
 * with other data, every byte checked in the kernel; parts; rounds in which marks repeat; calls
 * before and after a line; refusals, deadlines.
 *
 * Rows as in team.c.  Each is run with and without cells.
 */
#include "lines_bed.h"

static const struct bed_row rows[] = {
	{ "alone", 1, 0, NULL },
	{ "two processes", 2, 1, NULL },
	{ "three threads", 3, 0, NULL },
	{ "five processes", 5, 1, NULL },
	{ "eight threads", 8, 0, NULL },
	{ "mixed threads", 4, 0, "2x2" },
	{ "mixed processes", 4, 1, "2x2" },
	{ "queued", 3, 0, "3x1" },
};

/* ---- every line ------------------------------------------------------------------------------ */

static void every_rank(struct rank_env *env)
{
	static const uint64_t counts[] = { 0, 1, 16, 1000, 4096, 5000, 20000 };
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	int real = bed_on_cuda() && !fake_cuda_kernel, threads;
	struct job j;

	o.slot_bytes = 16384; /* so that calls have several rounds */
	o.line_bytes = 8192;
	open_job(&j, env, &o, 2000000);
	for (size_t i = 0; i < ORI_COUNT(counts) && !check_failures; i++) {
		threads = real ? 96 << i % 3 : 1 + (int)i % 3;
		j.args.calls = 3;
		call_lines(&j, ORI_COLL_ALLTOALL, counts[i], 0, 1, threads);
		call_lines(&j, ORI_COLL_ALLGATHER, counts[i], 0, 1, real ? threads : 1);
		call_lines(&j, ORI_COLL_ALLREDUCE, counts[i], 0, 1, real ? threads : 1);
		call_lines(&j, ORI_COLL_ALLTOALL, counts[i], 1, 1, threads);
		call_lines(&j, ORI_COLL_ALLREDUCE, counts[i], ODD_SOME, 1, real ? threads : 1);
		call_lines(&j, ORI_COLL_ALLREDUCE, counts[i], ODD_WORDS, 1, real ? threads : 1);
	}
	close_job(&j);
}

TEST(every_line)
{
	bed_both_ways(rows, ORI_COUNT(rows), every_rank);
}

/* ---- straight into a window ------------------------------------------------------------------ */

static void open_window(struct job *j, uint64_t bytes)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = bytes;
	REQUIRE_OK(oriel_window_create(j->bed.env->comm, &o, &j->window));
	REQUIRE_OK(oriel_window_device(j->window, &j->args.win));
}

/* Every part receives in the window, and no byte behind its places changes. */
static void into_rank(struct rank_env *env)
{
#ifdef __SANITIZE_THREAD__ /* it looks at every access */
	static const uint64_t counts[] = { 0, 8, 1027, 9000 };
#else
	static const uint64_t counts[] = { 0, 8, 1027, 9000, 60000 };
#endif
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	int real = bed_on_cuda() && !fake_cuda_kernel;
	uint64_t n = (uint64_t)env->nranks, most = n * n * counts[ORI_COUNT(counts) - 1];
	uint64_t bytes = most + 128 * n + 4096, end, at;
	uint8_t *host, *there;
	struct job j;

	o.line_bytes = 8192;
	open_job(&j, env, &o, 2 * most + 128 * n);
	open_window(&j, bytes);
	host = (uint8_t *)calloc(1, bytes);
	there = (uint8_t *)oriel_window_buffer(j.window);
	/* a part, some, and one for each rank */
	for (int parts = 1; parts <= env->nranks && host;
	     parts = parts < 2 || parts == env->nranks ? parts + 1 : env->nranks)
		for (size_t i = 0; i < ORI_COUNT(counts) && !check_failures; i++) {
			j.args.parts = parts;
			j.args.calls = 2 + ((int)i + parts) % 3;
			j.args.into = (n * counts[i] + 127) & ~(uint64_t)63;
			memset(host, BED_POISON, bytes);
			REQUIRE_OK(oriel_copy(env->comm, there, host, bytes));
			CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
			call_lines(&j, i % 2 ? ORI_COLL_ALLTOALL : ORI_COLL_ALLGATHER, counts[i],
				   counts[i] % 8 ? 1 : 0, parts, real ? 128 : 1 + parts % 2);
			REQUIRE_OK(oriel_copy(env->comm, host, there, bytes));
			end = 64 + (uint64_t)parts * j.args.into;
			CHECK_EQ(host[0], BED_POISON);
			for (at = end; at < bytes && host[at] == BED_POISON;)
				at++;
			CHECK_EQ(at, bytes);
			CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
		}
	free(host);
	close_job(&j);
}

TEST(a_line_into_a_window)
{
	bed_both_ways(rows, ORI_COUNT(rows), into_rank);
}

/* Other windows, offsets and sizes are refused by all ranks, and lose nothing. */
static void into_refused_rank(struct rank_env *env)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct job j;

	open_job(&j, env, &o, 400000);
	open_window(&j, 4096);
	j.args.calls = 1;
	j.args.lines = 1;
	j.args.into = 4096;
	set_call(&j, ORI_COLL_ALLTOALL, 4096, 0); /* more than the window has */
	CHECK_EQ(launch(&j, 1, 1), ORIEL_ERANGE);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_ERANGE);
	set_call(&j, ORI_COLL_ALLTOALL, 64, env->rank == 1);
	CHECK_EQ(launch(&j, 1, 1), ORIEL_EMISMATCH);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "same window, at the same offset");
	set_call(&j, ORI_COLL_ALLREDUCE, 64, 0);
	CHECK_EQ(launch(&j, 1, 1), ORIEL_EINVAL);
	CHECK_EQ(oriel_team_status(j.team), 0); /* nobody was asked */
	call_lines(&j, ORI_COLL_ALLTOALL, 64, 0, 1, 1);
	close_job(&j);
}

TEST(refused_windows_lose_nothing)
{
	const struct bed_row few[] = { { "three threads", 3, 0, NULL },
				       { "mixed processes", 4, 1, "2x2" } };

	bed_both_ways(few, ORI_COUNT(few), into_refused_rank);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* From one part to a part per rank; each block is one. */
static void parts_rank(struct rank_env *env)
{
	static const uint64_t counts[] = { 8, 128, 1027, 9000 };
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	int real = bed_on_cuda() && !fake_cuda_kernel;
	struct job j;

	o.line_bytes = 8192;
	open_job(&j, env, &o, 2000000);
	j.args.lines = 3;
	for (int parts = 1; parts <= env->nranks; parts++)
		for (size_t i = 0; i < ORI_COUNT(counts) && !check_failures; i++) {
			j.args.parts = parts;
			/* an odd number of rounds ends with one more */
			j.args.calls = 1 + ((int)i + parts) % 4;
			call_lines(&j, i % 2 ? ORI_COLL_ALLGATHER : ORI_COLL_ALLTOALL, counts[i],
				   ODD_SOME, parts, real ? 64 : 1 + parts % 2);
		}
	close_job(&j);
}

/* A part per rank, and blocks of several rounds; some ranks have odd addresses. */
static void rounds_rank(struct rank_env *env)
{
#ifdef __SANITIZE_THREAD__ /* it looks at every access */
	static const uint64_t counts[] = { 6016 };
#else
	static const uint64_t counts[] = { 4096, 6016, 40000 };
#endif
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	int real = bed_on_cuda() && !fake_cuda_kernel;
	struct job j;

	o.slot_bytes = 4096;
	open_job(&j, env, &o, 8000000);
	j.args.parts = env->nranks;
	j.args.calls = 3;
	for (size_t i = 0; i < ORI_COUNT(counts) && !check_failures; i++) {
		int threads = real ? 128 : 1 + (int)i;

		call_lines(&j, ORI_COLL_ALLTOALL, counts[i], 0, env->nranks, threads);
		call_lines(&j, ORI_COLL_ALLGATHER, counts[i], ODD_SOME, env->nranks, threads);
		call_lines(&j, ORI_COLL_ALLTOALL, counts[i], ODD_WORDS, env->nranks, threads);
	}
	close_job(&j);
}

TEST(parts_with_rounds)
{
	bed_both_ways(rows, ORI_COUNT(rows), rounds_rank);
}

TEST(parts_of_a_line)
{
	bed_both_ways(rows, ORI_COUNT(rows), parts_rank);
}

/* Places are cleared before a mark repeats; words of slots wrap. */
static void wrap_rank(struct rank_env *env)
{
	static const uint64_t first[] = { (1ull << 30) - 6, (1ull << 31) - 7, UINT64_MAX - 8 };
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct job j;

	for (size_t i = 0; i < ORI_COUNT(first) && !check_failures; i++) {
		o.first_count = first[i];
		open_job(&j, env, &o, 400000);
		j.args.calls = 9;
		j.args.parts = env->nranks;
		call_lines(&j, ORI_COLL_ALLTOALL, 64, 0, env->nranks, 1);
		call_lines(&j, ORI_COLL_ALLGATHER, 8192, 0, env->nranks, 1); /* slots */
		close_job(&j);
	}
}

TEST(marks_wrap_in_a_line)
{
	const struct bed_row few[] = { { "two threads", 2, 0, NULL },
				       { "three processes", 3, 1, NULL },
				       { "mixed processes", 4, 1, "2x2" } };

	bed_both_ways(few, ORI_COUNT(few), wrap_rank);
}

/* ---- refusals and deadlines ------------------------------------------------------------------ */

static void refused_rank(struct rank_env *env)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct job j;

	open_job(&j, env, &o, 200000);
	j.args.calls = 2;
	j.args.lines = 1;
	set_call(&j, ORI_COLL_ALLTOALL, env->rank == 1 ? 64 : 72, 0);
	CHECK_EQ(launch(&j, 1, 1), ORIEL_EMISMATCH);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_EMISMATCH);
	set_call(&j, ORI_COLL_ALLTOALL, 64, 0);
	j.args.parts = env->rank == 1 ? 2 : 1;
	CHECK_EQ(launch(&j, 1, 1), ORIEL_EMISMATCH);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "the same part and parts");
	j.args.parts = 2;
	j.args.first_part = env->rank == 1;
	CHECK_EQ(launch(&j, 1, 1), ORIEL_EMISMATCH);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_EMISMATCH);
	j.args.parts = 2;
	j.args.first_part = env->rank == 0 ? 2 : 0; /* there are 0 and 1 */
	CHECK_EQ(launch(&j, 1, 1), ORIEL_ERANGE);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_ERANGE);
	j.args.first_part = 0;
	j.args.parts = env->nranks + 1;
	CHECK_EQ(launch(&j, 1, 1), ORIEL_ERANGE);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_ERANGE);
	j.args.parts = 1;
	call_lines(&j, ORI_COLL_ALLTOALL, 64, 0, 1, 1);
	close_job(&j);
}

TEST(refused_lines_lose_nothing)
{
	const struct bed_row few[] = { { "three threads", 3, 0, NULL },
				       { "mixed processes", 4, 1, "2x2" } };

	bed_both_ways(few, ORI_COUNT(few), refused_rank);
}

/* Rank 0 makes fewer calls.  The others give up after their own deadline, and name it. */
static void late_rank(struct rank_env *env)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct job j;
	int err;

	open_job(&j, env, &o, 200000);
	set_call(&j, ORI_COLL_ALLGATHER, 64, 0);
	j.args.calls = env->rank ? 9 : 6;
	j.args.lines = 1;
	j.args.between = 0;
	j.args.timeout_ms = 3000;
	err = launch(&j, 1, 1);
	if (env->rank == 0)
		CHECK(err == 0 || err == ORIEL_ETIMEDOUT); /* it may close after the deadline */
	else
		CHECK_EQ(err, ORIEL_ETIMEDOUT);
	if (env->rank == 1) {
		CHECK_EQ(oriel_team_status(j.team), ORIEL_ETIMEDOUT);
		CHECK_HAS(oriel_last_error(), "rank 0");
	}
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	CHECK_EQ(oriel_team_status(j.team), ORIEL_ETIMEDOUT);
	close_job(&j);
}

TEST(a_deadline_in_a_line)
{
	const struct bed_row few[] = { { "two threads", 2, 0, NULL },
				       { "mixed processes", 4, 1, "2x2" } };

	bed_both_ways(few, ORI_COUNT(few), late_rank);
}

/* Rank 0 leaves its line early and makes another call there.  Nobody succeeds, or hangs. */
static void other_call_rank(struct rank_env *env)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct job j;
	int err;

	open_job(&j, env, &o, 400000);
	set_call(&j, ORI_COLL_ALLGATHER, 1000, env->rank % 2);
	j.args.calls = env->rank ? 9 : 6;
	j.args.lines = 1;
	j.args.timeout_ms = 1000;
	err = launch(&j, 1, 1);
	CHECK(err == ORIEL_EMISMATCH || err == ORIEL_ETIMEDOUT);
	(void)oriel_comm_barrier(env->comm, ORIEL_WORLD);
	(void)oriel_team_status(j.team);
	close_job(&j);
}

TEST(another_call_on_the_channel_of_a_line)
{
	const struct bed_row few[] = { { "three threads", 3, 0, NULL } };

	/* without them the other call may pass for the line's */
	bed_cells = ORIEL_CELLS_IF_POSSIBLE;
	bed_rows(few, ORI_COUNT(few), other_call_rank, NULL);
}
