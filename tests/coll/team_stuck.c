/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/team_stuck.c - a rank that does not come, dies or aborts inside each collective of a
 * running kernel: the other ranks get the status, and nobody hangs.
 *
 * What the reports say of a late rank is tested in team.c and lines.c.
 */
#include <signal.h>

#include <oriel/device/coll.h>

#include "reduce_bed.h"

const struct oriel_kernel *fake_cuda_kernel(const struct oriel_kernel *) __attribute__((weak));

/* Single calls, then lines. */
enum { BROADCAST, GATHER, EXCHANGE, EXCHANGE_V, REDUCE, SCATTER, LINES };
#define LINE_EXCHANGE LINES
#define LINE_GATHER (LINES + 1)
#define LINE_REDUCE (LINES + 2)
#define LINE_EXCHANGE_INTO (LINES + 3) /* they receive in a window */
#define LINE_GATHER_INTO (LINES + 4)
#define KINDS (LINES + 5)

#define VICTIM 1
#define LATE_MS 200 /* deadline of a call that a rank does not make */
#define SHORT 40u
#define LONG 30000u
#define SHARED 600000u /* nodes share what they receive: device/coll_nodes.h */

struct args {
	struct oriel_team_dev team;
	struct oriel_window_dev win; /* of lines that receive in it */
	uint8_t *memory;
	uint64_t *sizes; /* all-to-all-v: to send, then received */
	uint64_t bytes, recv_off;
	uint32_t timeout_ms;
	int32_t kind, calls, root;
	int32_t dies; /* before this call, on this rank; none: -1 */
	int32_t reserved;
};

/*
 * The process ends in the middle of its kernel, while its other block is in a call.  On a GPU the
 * kernel leaves, and dying_rank ends the process.
 */
ORIEL_DEV void die(void)
{
#ifndef __CUDA_ARCH__
	raise(SIGKILL);
#endif
}

ORIEL_DEV int call_once(const struct args *a, struct oriel_group g, uint8_t *send, uint8_t *recv)
{
	const struct oriel_team_dev *t = &a->team;

	switch (a->kind) {
	case BROADCAST:
		return oriel_coll_broadcast(t, g, 0, recv, a->bytes, a->root);
	case GATHER:
		return oriel_coll_allgather(t, g, 0, send, recv, a->bytes);
	case EXCHANGE:
		return oriel_coll_alltoall(t, g, 0, send, recv, a->bytes);
	case EXCHANGE_V:
		return oriel_coll_alltoallv(t, g, 0, send, a->sizes, recv,
					    a->sizes + t->win.comm.nranks, a->bytes);
	case REDUCE:
		return oriel_coll_allreduce(t, g, 0, send, recv, a->bytes / 4, ORIEL_TYPE_FLOAT,
					    ORIEL_REDUCE_SUM);
	default:
		return oriel_coll_reducescatter(t, g, 0, send, recv, a->bytes / 4, ORIEL_TYPE_FLOAT,
						ORIEL_REDUCE_SUM);
	}
}

ORIEL_DEV int open_line(const struct args *a, struct oriel_group g, struct oriel_coll_line *line)
{
	int err;

	if (a->kind == LINE_REDUCE)
		return oriel_coll_open_allreduce(line, &a->team, g, 0, a->bytes / 4,
						 ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM);
	if (a->kind == LINE_EXCHANGE || a->kind == LINE_EXCHANGE_INTO)
		err = oriel_coll_open_alltoall(line, &a->team, g, 0, a->bytes, 0, 1);
	else
		err = oriel_coll_open_allgather(line, &a->team, g, 0, a->bytes, 0, 1);
	if (!err && a->kind >= LINE_EXCHANGE_INTO)
		err = oriel_coll_into(line, g, &a->win, 0);
	return err;
}

ORIEL_KERNEL(stuck_kernel, struct args)
{
	struct oriel_group g = oriel_group_within(oriel_group_block(), a->timeout_ms);
	uint8_t *send = a->memory, *recv = a->memory + a->recv_off;
	struct oriel_coll_line line;
	int err = 0, closed, i;

	if (a->kind >= LINES)
		err = open_line(a, g, &line);
	for (i = 0; i < a->calls && !err; i++) {
		if (i == a->dies) {
			die();
			return 0;
		}
		if (a->kind < LINES)
			err = call_once(a, g, send, recv);
		else
			err = oriel_coll_again(&line, g, send,
					       a->kind >= LINE_EXCHANGE_INTO ? NULL : recv);
	}
	if (a->kind >= LINES) {
		closed = oriel_coll_close(&line, g);
		err = err ? err : closed;
	}
	return err;
}

/* ---- the host -------------------------------------------------------------------------------- */

struct job {
	struct bed bed;
	struct oriel_team *team;
	struct oriel_window *window;
	struct args args;
};

/* Ranks that do not map each other have no cells.  On CUDA only processes are ranks. */
static const struct bed_row with_cells[] = { { "three threads", 3, 0, NULL },
					     { "three processes", 3, 1, NULL } };

/* What a test does; in memory that forked ranks inherit. */
struct scene {
	uint32_t cells;
	int kind;
	uint64_t bytes;
};

/* Bytes of a block in scene i of a kind, or 0 if it has no such scene. */
static uint64_t bytes_of(int kind, int i)
{
	if (i == 0)
		return kind >= LINE_EXCHANGE_INTO ? 0 : SHORT;
	return i == 1 ? LONG : kind == BROADCAST || kind == REDUCE ? SHARED : 0;
}

#define SCENES 3

static void open_window(struct job *j, const struct scene *s)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = (uint64_t)j->bed.env->nranks * s->bytes;
	REQUIRE_OK(oriel_window_create(j->bed.env->comm, &o, &j->window));
	REQUIRE_OK(oriel_window_device(j->window, &j->args.win));
}

static void open_job(struct job *j, struct rank_env *env, const struct scene *s)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	uint64_t n = (uint64_t)env->nranks;

	memset(j, 0, sizeof(*j));
	bed_open(&j->bed, env, 16 * n + 2 * n * s->bytes);
	o.cells = s->cells;
	o.slot_bytes = 8192; /* so that long calls have many rounds */
	REQUIRE_OK(oriel_team_create(env->comm, &o, &j->team));
	REQUIRE_OK(oriel_team_device(j->team, &j->args.team));
	if (s->kind >= LINE_EXCHANGE_INTO)
		open_window(j, s);
	memset(j->bed.host, 0, j->bed.bytes);
	for (uint64_t r = 0; r < n; r++)
		memcpy(j->bed.host + 8 * r, &s->bytes, sizeof(s->bytes));
	bed_push(&j->bed);
	j->args.sizes = (uint64_t *)(void *)j->bed.memory;
	j->args.memory = j->bed.memory + 16 * n;
	j->args.recv_off = n * s->bytes;
	j->args.bytes = s->bytes;
	j->args.kind = s->kind;
	j->args.root = s->bytes == SHORT ? VICTIM : 0;
	j->args.dies = -1;
}

static void close_job(struct job *j)
{
	CHECK_EQ(oriel_window_destroy(j->window), 0);
	CHECK_EQ(oriel_team_destroy(j->team), 0);
	bed_close(&j->bed);
}

/*
 * Many calls, because the root of a broadcast may be several ahead of the others before it waits
 * for them.
 */
static int launch(struct job *j, int calls)
{
	const struct oriel_kernel *kernel = &stuck_kernel;
	int err, synced;

	j->args.calls = calls;
	if (bed_on_cuda() && fake_cuda_kernel)
		kernel = fake_cuda_kernel(kernel);
	err = oriel_launch(j->bed.env->comm, kernel, 1, 2, &j->args, sizeof(j->args), NULL);
	synced = oriel_comm_sync(j->bed.env->comm, NULL);
	return err ? err : synced;
}

/*
 * Of all kinds, with short and long blocks; with cells and without.  On a GPU, where the start of
 * processes takes seconds, with long blocks and cells.
 */
static void each_scene(void (*run)(struct scene *))
{
	int few = bed_on_cuda() && !fake_cuda_kernel;
	struct scene s;

	for (s.cells = few ? ORIEL_CELLS_IF_POSSIBLE : ORIEL_CELLS_NEVER;
	     s.cells <= ORIEL_CELLS_IF_POSSIBLE; s.cells++)
		for (s.kind = 0; s.kind < KINDS; s.kind++)
			for (int i = few; i < (few ? 2 : SCENES) && !check_failures; i++) {
				s.bytes = bytes_of(s.kind, i);
				if (s.bytes)
					run(&s);
				if (check_failures)
					printf("... kind %d, %" PRIu64 " bytes, cells %u\n", s.kind,
					       s.bytes, s.cells);
			}
}

/* ---- late ------------------------------------------------------------------------------------ */

static void late_scene(struct rank_env *env, const struct scene *s)
{
	struct job j;

	open_job(&j, env, s);
	CHECK_EQ(launch(&j, 3), 0);
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	j.args.timeout_ms = LATE_MS;
	if (env->rank != VICTIM) {
		CHECK_EQ(launch(&j, 50), ORIEL_ETIMEDOUT);
		CHECK_EQ(oriel_team_status(j.team), ORIEL_ETIMEDOUT);
	}
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	/* the team has failed on the late rank too, the comm has not */
	CHECK_EQ(oriel_team_status(j.team), ORIEL_ETIMEDOUT);
	CHECK_EQ(oriel_comm_status(env->comm), 0);
	close_job(&j);
}

static void late_rank(struct rank_env *env)
{
	struct scene s = *(struct scene *)env->arg;

	for (s.kind = 0; s.kind < KINDS && !check_failures; s.kind++)
		for (int i = 0; i < SCENES && !check_failures; i++) {
			s.bytes = bytes_of(s.kind, i);
			if (s.bytes)
				late_scene(env, &s);
			if (check_failures)
				printf("... kind %d, %" PRIu64 " bytes\n", s.kind, s.bytes);
		}
}

TEST(a_late_rank)
{
	const struct bed_row rows[] = { { "three threads", 3, 0, NULL },
					{ "mixed processes", 4, 1, "2x2" } };
	struct scene s = { .cells = ORIEL_CELLS_NEVER };

	bed_rows(rows, ORI_COUNT(rows), late_rank, &s);
	s.cells = ORIEL_CELLS_IF_POSSIBLE;
	if (!check_failures)
		bed_rows(with_cells, ORI_COUNT(with_cells), late_rank, &s);
}

/* ---- dead ------------------------------------------------------------------------------------ */

static void dying_rank(struct rank_env *env)
{
	struct job j;
	int err;

	open_job(&j, env, (const struct scene *)env->arg);
	CHECK_EQ(launch(&j, 2), 0);
	if (env->rank == VICTIM)
		j.args.dies = 5;
	err = launch(&j, 100);
	if (env->rank == VICTIM)
		raise(SIGKILL);
	CHECK_EQ(err, ORIEL_EPEER);
	CHECK(bed_on_cuda() || strstr(oriel_last_error(), "rank 1"));
	bed_close(&j.bed); /* the comm destroys the team */
}

static void run_dying(struct scene *s)
{
	struct ranks_options o = { .nranks = 3, .processes = 1, .expect_killed = 1 << VICTIM };

	o.deadline_s = 60;
	o.timeout_s = 30;
	ranks_run(&o, dying_rank, s);
	o.nranks = 4;
	o.topology = "2x2";
	if (!check_failures && s->cells == ORIEL_CELLS_NEVER)
		ranks_run(&o, dying_rank, s);
}

TEST(a_dead_rank)
{
#if defined(__SANITIZE_THREAD__)
	check_skip("ranks are threads");
#else
	each_scene(run_dying);
#endif
}

/* ---- abort ----------------------------------------------------------------------------------- */

static void aborting_rank(struct rank_env *env)
{
	struct job j;

	open_job(&j, env, (const struct scene *)env->arg);
	CHECK_EQ(launch(&j, 2), 0);
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	if (env->rank == VICTIM)
		CHECK_EQ(oriel_comm_abort(env->comm, ORIEL_EINVAL), 0);
	else
		CHECK_EQ(launch(&j, 50), ORIEL_EABORTED);
	bed_close(&j.bed);
}

static void run_aborting(struct scene *s)
{
	const struct bed_row rows[] = { { "three threads", 3, 0, NULL },
					{ "mixed processes", 4, 1, "2x2" } };

	if (s->cells == ORIEL_CELLS_NEVER)
		bed_rows(rows, ORI_COUNT(rows), aborting_rank, s);
	else
		bed_rows(with_cells, ORI_COUNT(with_cells), aborting_rank, s);
}

TEST(an_abort)
{
	each_scene(run_aborting);
}
