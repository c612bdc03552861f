/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/launch.c - contract of launches: the value that a kernel returns reaches the host
 * with a text, the blocks of a launch meet in oriel_grid_sync, and single calls have their own
 * deadlines.
 */
#include <unistd.h>

#include "contract.h"

#define LONG_S 60.0
#define SHORT_MS 20u
#define AT_ONCE_S (LONG_S / 2)

/* ---- what kernels return ------------------------------------------------------------------- */

/* The last thread of block a->id returns a->mode, all others 0. */
ORIEL_KERNEL(return_kernel, struct contract_args)
{
	struct oriel_group g = oriel_group_block();

	return (int)g.block == a->id && g.thread == g.size - 1 ? a->mode : 0;
}

static int launch_on(struct contract_env *e, struct oriel_comm *comm,
		     const struct oriel_kernel *kernel, int nblocks, const struct contract_args *a)
{
	return oriel_launch(comm, contract_kernel(kernel), nblocks, e->launched, a, sizeof(*a),
			    NULL);
}

/* On the CPU the launch returns it, too. */
static void check_returned(struct contract_env *e, int block, int status, const char *text)
{
	struct contract_args a = contract_args(e);
	char where[80];

	a.id = block;
	a.mode = status;
	snprintf(where, sizeof(where), "kernel \"return_kernel\", block %d returned %s", block,
		 text);
	CHECK_EQ(launch_on(e, e->comm, &return_kernel, 3, &a), e->cuda ? 0 : status);
	if (!e->cuda)
		CHECK_HAS(oriel_last_error(), where);
	CHECK_EQ(oriel_comm_sync(e->comm, NULL), status);
	CHECK_HAS(oriel_last_error(), where);
	CHECK_EQ(oriel_comm_sync(e->comm, NULL), 0);
}

CASE(launch_returns_a_status, c.blocks = 3)
{
	for (int block = 0; block < 3; block++) {
		check_returned(e, block, ORIEL_EMISMATCH, "ORIEL_EMISMATCH (");
		check_returned(e, block, -12345, "-12345");
		check_returned(e, block, 77, "77");
	}
}

/* Of several kernels the first failure is kept, and good ones between them change nothing. */
CASE(launch_keeps_the_first_failure, c.blocks = 3)
{
	static const int statuses[] = { 0, ORIEL_EREMOTE, 0, ORIEL_ESTALE, 0 };
	struct contract_args a = contract_args(e);

	a.id = 1;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 5; i++) {
			a.mode = statuses[i];
			CHECK_EQ(launch_on(e, e->comm, &return_kernel, 2 + round % 2, &a),
				 e->cuda ? 0 : statuses[i]);
		}
		CHECK_EQ(oriel_comm_sync(e->comm, NULL), ORIEL_EREMOTE);
		CHECK_EQ(oriel_comm_sync(e->comm, NULL), 0);
	}
}

/* Waits for a signal or at a barrier; its only status is what it returns. */
ORIEL_KERNEL(wait_kernel, struct contract_args)
{
	struct oriel_group g = oriel_group_within(oriel_group_block(), (uint32_t)a->value);

	if (a->mode)
		return oriel_barrier(&a->win, g, 0);
	return oriel_wait_signal_from(&a->win, g, a->peer, a->id, ORIEL_GE, 1);
}

struct setup {
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct contract_args a;
};

static int set_up(struct contract_env *e, struct setup *s)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int err;

	memset(s, 0, sizeof(*s));
	o.bytes = 4096;
	s->a = contract_args(e);
	err = contract_comm(e, LONG_S, &s->comm) || oriel_window_create(s->comm, &o, &s->window) ||
	      oriel_window_device(s->window, &s->a.win);
	if (err)
		check_fail(__FILE__, __LINE__, "rank %d: set up: %s", e->rank, oriel_last_error());
	return err;
}

static void tear_down(struct setup *s)
{
	if (s->window)
		CHECK_EQ(oriel_window_destroy(s->window), 0);
	if (s->comm)
		CHECK_EQ(oriel_comm_destroy(s->comm), 0);
}

static int run_on(struct contract_env *e, struct setup *s, const struct oriel_kernel *kernel,
		  int nblocks)
{
	int err = launch_on(e, s->comm, kernel, nblocks, &s->a);

	if (!err)
		return oriel_comm_sync(s->comm, NULL);
	CHECK_EQ(oriel_comm_sync(s->comm, NULL), err);
	return err;
}

/* A failure of the comm that ended the kernel is the reason in its text. */
CASE(launch_names_the_failed_comm, c.no_window = 1, c.min_ranks = 2)
{
	struct setup s;

	if (set_up(e, &s))
		goto err_set_up;
	if (e->rank == 0) {
		usleep(10000);
		CHECK_EQ(oriel_comm_abort(s.comm, ORIEL_EABORTED), 0);
	} else {
		CHECK_EQ(run_on(e, &s, &wait_kernel, 1), ORIEL_EABORTED);
		CHECK_HAS(oriel_last_error(),
			  "kernel \"wait_kernel\", block 0 returned ORIEL_EABORTED");
		CHECK_HAS(oriel_last_error(), "rank 0 aborted the comm");
	}
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
err_set_up:
	tear_down(&s);
}

/* The last rank does not come: the barrier's deadline fails the window; later kernels say so. */
CASE(launch_names_the_failed_window, c.no_window = 1, c.min_ranks = 2)
{
	struct setup s;

	if (!set_up(e, &s) && e->rank != e->nranks - 1) {
		s.a.mode = 1;
		s.a.value = SHORT_MS;
		CHECK_EQ(run_on(e, &s, &wait_kernel, 1), ORIEL_ETIMEDOUT);
		CHECK_HAS(oriel_last_error(), "returned ORIEL_ETIMEDOUT");
		s.a.mode = 0;
		s.a.value = 0;
		CHECK_EQ(run_on(e, &s, &wait_kernel, 1), ORIEL_ETIMEDOUT);
		CHECK_HAS(oriel_last_error(), "window 0 has failed: rank");
		CHECK_HAS(oriel_last_error(), "gave up waiting for rank");
	}
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
	tear_down(&s);
}

/* ---- grid sync ----------------------------------------------------------------------------- */

#define GRID_BLOCKS 8

/* What any block wrote before the sync all threads of all blocks see after it. */
ORIEL_KERNEL(grid_kernel, struct contract_args)
{
	struct oriel_group g = oriel_group_block();
	uint64_t *rows = (uint64_t *)(void *)a->local, wrong = 0;
	int err = 0, i;
	uint32_t b;

	for (i = 1; i <= a->rounds && !err; i++) {
		uint64_t *row = rows + (i & 1) * GRID_BLOCKS;

		if (g.thread == g.size - 1)
			row[g.block] = a->value + (uint64_t)i;
		err = oriel_grid_sync(&a->win, g, i % 3 ? 0 : 1);
		for (b = 0; b < g.nblocks && !err; b++)
			wrong += row[b] != a->value + (uint64_t)i;
		/* the row is written again two rounds later: all have read it by then */
	}
	contract_report(a, g, err, wrong);
	return err;
}

static void check_grid(struct contract_env *e)
{
	static const int blocks[] = { GRID_BLOCKS, 3, 1, 5, GRID_BLOCKS };
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 60);
	for (int i = 0; i < 5; i++) {
		a.value = 1000u * (uint64_t)(i + 1);
		contract_launch(e, &grid_kernel, blocks[i], &a);
	}
}

CASE(launch_grid_sync, c.blocks = GRID_BLOCKS)
{
	check_grid(e);
}

CASE(launch_grid_sync_where_counts_wrap, c.blocks = GRID_BLOCKS,
     c.window.first_count = UINT64_MAX - 20, c.window.checked = 1)
{
	check_grid(e);
}

/* Block 0 stays away if a->mode says so. */
ORIEL_KERNEL(absent_kernel, struct contract_args)
{
	struct oriel_group g = oriel_group_within(oriel_group_block(), (uint32_t)a->value);

	if (a->mode && g.block == 0)
		return 0;
	return oriel_grid_sync(&a->win, g, 0);
}

/* The deadline ends the wait and fails the window. */
CASE(launch_grid_sync_deadline, c.no_window = 1, c.blocks = 3)
{
	struct setup s;
	double start;

	if (!set_up(e, &s)) {
		CHECK_EQ(run_on(e, &s, &absent_kernel, 3), 0);
		s.a.mode = 1;
		s.a.value = SHORT_MS;
		start = contract_now();
		CHECK_EQ(run_on(e, &s, &absent_kernel, 3), ORIEL_ETIMEDOUT);
		CHECK(contract_now() - start < AT_ONCE_S);
		CHECK_HAS(oriel_last_error(),
			  e->cuda ? "window 0 has failed" : "blocks of this rank");
		CHECK_EQ(oriel_window_status(s.window), ORIEL_ETIMEDOUT);
		s.a.mode = 0;
		s.a.value = 0;
		CHECK_EQ(run_on(e, &s, &absent_kernel, 3), ORIEL_ETIMEDOUT);
	}
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
	tear_down(&s);
}

/* A failure of the comm ends it at once. */
CASE(launch_grid_sync_aborted, c.no_window = 1, c.min_ranks = 2, c.blocks = 3)
{
	struct setup s;
	double start;

	if (set_up(e, &s))
		goto err_set_up;
	start = contract_now();
	s.a.mode = 1;
	if (e->rank == 0) {
		usleep(10000);
		CHECK_EQ(oriel_comm_abort(s.comm, ORIEL_EABORTED), 0);
	} else {
		CHECK_EQ(run_on(e, &s, &absent_kernel, 3), ORIEL_EABORTED);
	}
	CHECK(contract_now() - start < AT_ONCE_S);
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
err_set_up:
	tear_down(&s);
}

/* ---- deadlines of single calls --------------------------------------------------------------- */

enum { FROM, SUM, COUNTER, COUNTERS, LOCAL_CALLS, BARRIER = LOCAL_CALLS, BARRIER_PEER, RECV };

/* One call that nobody answers, with a deadline of a->value milliseconds. */
CONTRACT_KERNEL(within_kernel)
{
	struct oriel_group soon = oriel_group_within(g, (uint32_t)a->value);
	const struct oriel_window_dev *w = &a->win;
	int err;

	switch (a->mode) {
	case FROM:
		err = oriel_wait_signal_from(w, soon, a->peer, 0, ORIEL_GE, 1);
		break;
	case SUM:
		err = oriel_wait_signal(w, soon, 0, 1);
		break;
	case COUNTER:
		err = oriel_wait_counter(w, soon, a->peer, 0, ORIEL_GE, 1);
		break;
	case COUNTERS:
		err = oriel_wait_counter_all(w, soon, 0, 1);
		break;
	case BARRIER:
		err = oriel_barrier(w, soon, 0);
		break;
	case BARRIER_PEER:
		err = oriel_barrier_peer(w, soon, a->peer, 0);
		break;
	default:
		err = oriel_recv(w, soon, a->peer, 0, a->local, 8);
	}
	contract_report(a, g, err, 0);
}

/* The comm's deadline is minutes: only the call's own can end these. */
CASE(launch_call_deadlines, 0)
{
	struct contract_args a = contract_args(e);

	a.peer = (e->rank + 1) % e->nranks;
	a.value = SHORT_MS;
	for (a.mode = 0; a.mode < LOCAL_CALLS; a.mode++) {
		double start = contract_now();

		contract_launch_expect(e, &within_kernel, 1, &a, ORIEL_ETIMEDOUT);
		CHECK(contract_now() - start > SHORT_MS * 0.0009);
		CHECK(contract_now() - start < AT_ONCE_S);
	}
	CHECK_EQ(oriel_window_status(e->window), 0);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	REQUIRE_OK(oriel_window_signal(e->window, a.peer, 0, ORIEL_ADD, 1, NULL));
	a.peer = (e->rank + e->nranks - 1) % e->nranks;
	a.value = (uint64_t)(LONG_S * 1e3);
	a.mode = FROM;
	contract_launch(e, &within_kernel, 1, &a);
}

/* A barrier and a receive without the last rank: only the window is lost. */
static void check_lost(struct contract_env *e, int mode)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct contract_args a = contract_args(e);
	struct oriel_window *w;
	double start = contract_now();

	o.bytes = 4096;
	o.staging_slot_bytes = 64;
	REQUIRE_OK(oriel_window_create(e->comm, &o, &w));
	REQUIRE_OK(oriel_window_device(w, &a.win));
	a.peer = e->nranks - 1;
	a.mode = mode;
	a.value = SHORT_MS;
	if (e->rank != a.peer) {
		contract_launch_expect(e, &within_kernel, 1, &a, ORIEL_ETIMEDOUT);
		CHECK_EQ(oriel_window_status(w), ORIEL_ETIMEDOUT);
	}
	CHECK(contract_now() - start < AT_ONCE_S);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	CHECK_EQ(oriel_comm_status(e->comm), 0);
	CHECK_EQ(oriel_window_destroy(w), 0);
}

CASE(launch_barrier_deadline, c.min_ranks = 2)
{
	check_lost(e, BARRIER);
	check_lost(e, BARRIER_PEER);
}

CASE(launch_recv_deadline, c.min_ranks = 2)
{
	check_lost(e, RECV);
}

/* The host's waits. */
CASE(launch_host_deadlines, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_window *w;
	struct setup s;
	double start;

	if (set_up(e, &s))
		goto err_set_up;
	w = s.window;
	CHECK_EQ(oriel_window_wait_signal_timeout(w, 0, 0, ORIEL_GE, 1, 0.0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_wait_signal_timeout(w, 0, 0, ORIEL_GE, 1, -1.0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_barrier_timeout(w, 0, 1e9, NULL), ORIEL_EINVAL);
	CHECK_EQ(contract_issued(e, s.comm, w, oriel_window_barrier_timeout(w, 0, LONG_S, NULL)),
		 0);
	start = contract_now();
	CHECK_EQ(contract_issued(e, s.comm, w,
				 oriel_window_wait_signal_timeout(w, e->rank, 0, ORIEL_GE, 1, 0.02,
								  NULL)),
		 ORIEL_ETIMEDOUT);
	CHECK(contract_now() - start < AT_ONCE_S);
	/* on CUDA the operation's failure is the window's */
	CHECK_EQ(oriel_window_status(w), e->cuda ? ORIEL_ETIMEDOUT : 0);
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
err_set_up:
	tear_down(&s);
}
