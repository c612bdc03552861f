/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/failure.c - contract of failure: deadlines, abort, a killed rank.
 *
 * Every wait ends in time with the right status on every thread, the first cause is kept, and
 * everything can be destroyed.  Lines and paths: failure_lines.c.
 */
#include "failure_bed.h"

/* ---- deadlines ----------------------------------------------------------------------------- */

/* A wait that ends by its deadline takes nothing with it: the next one works. */
CASE(failure_wait_deadline, c.no_window = 1)
{
	struct setup s;

	if (!set_up(e, LONG_S, &s)) {
		s.a.peer = (e->rank + 1) % e->nranks;
		s.a.value = 1;
		set_deadline(&s, SHORT_S);
		for (int mode = WAIT_FROM; mode <= WAIT_COUNTERS; mode++) {
			double took = timed(e, &s, mode, ORIEL_ETIMEDOUT);

			CHECK(took > SHORT_S * 0.9 && took < AT_ONCE_S);
		}
		set_deadline(&s, LONG_S);
		CHECK_EQ(oriel_window_status(s.window), 0);
		CHECK_EQ(oriel_comm_status(s.comm), 0);
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		timed(e, &s, SIGNAL, 0);
		s.a.peer = (e->rank + e->nranks - 1) % e->nranks;
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		timed(e, &s, WAIT_FROM, 0);
		timed(e, &s, WAIT_SUM, 0);
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		timed(e, &s, SYNC, 0);
	}
	tear_down(&s);
}

/*
 * The host's wait has the comm's deadline.  One rank alone has nobody to wait for when it is made.
 */
CASE(failure_host_wait_deadline, c.no_window = 1, c.max_ranks = 1, c.shape = CONTRACT_HOST)
{
	struct setup s;
	double start, took;

	if (e->cuda) {
		check_skip("on CUDA it is the window's failure: tests/cuda/failure.cu");
	} else if (!set_up(e, WHOLE_S, &s)) {
		start = contract_now();
		CHECK_EQ(oriel_window_wait_signal(s.window, 0, 0, ORIEL_GE, 1, NULL),
			 ORIEL_ETIMEDOUT);
		took = contract_now() - start;
		CHECK(took > WHOLE_S * 0.9 && took < AT_ONCE_S);
		CHECK_EQ(oriel_window_status(s.window), 0);
		CHECK_EQ(oriel_comm_status(s.comm), 0);
		REQUIRE_OK(oriel_window_signal(s.window, 0, 0, ORIEL_ADD, 1, NULL));
		CHECK_EQ(oriel_window_wait_signal(s.window, 0, 0, ORIEL_GE, 1, NULL), 0);
		tear_down(&s);
	}
}

/* A barrier that the last rank never enters: only the window is lost, on the ranks that entered. */
static void barrier_deadline(struct contract_env *e, int mode)
{
	struct setup s;

	if (!set_up(e, LONG_S, &s) && e->rank != e->nranks - 1) {
		double took;

		s.a.peer = e->nranks - 1;
		set_deadline(&s, SHORT_S);
		took = timed(e, &s, mode, ORIEL_ETIMEDOUT);
		CHECK(took > SHORT_S * 0.9 && took < AT_ONCE_S);
		CHECK_EQ(oriel_window_status(s.window), ORIEL_ETIMEDOUT);
		set_deadline(&s, LONG_S);
		s.a.id = 1; /* another id, another call: the same first cause, at once */
		CHECK(timed(e, &s, SYNC, ORIEL_ETIMEDOUT) < AT_ONCE_S);
		timed(e, &s, PUT, ORIEL_ETIMEDOUT);
		timed(e, &s, SIGNAL, ORIEL_ETIMEDOUT);
		timed(e, &s, WAIT_FROM, ORIEL_ETIMEDOUT);
		timed(e, &s, WAIT_COUNTER, ORIEL_ETIMEDOUT);
		CHECK_EQ(contract_issued(e, s.comm, s.window,
					 oriel_window_signal(s.window, 0, 0, ORIEL_ADD, 1, NULL)),
			 ORIEL_ETIMEDOUT);
		CHECK_EQ(contract_issued(e, s.comm, s.window,
					 oriel_window_barrier(s.window, 2, NULL)),
			 ORIEL_ETIMEDOUT);
	}
	CHECK_EQ(oriel_comm_status(s.comm), 0);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD)); /* the late one is here */
	tear_down(&s);
}

CASE(failure_sync_deadline, c.no_window = 1, c.min_ranks = 2)
{
	barrier_deadline(e, SYNC);
}

CASE(failure_barrier_deadline, c.no_window = 1, c.min_ranks = 2)
{
	barrier_deadline(e, BARRIER);
}

CASE(failure_barrier_peer_deadline, c.no_window = 1, c.min_ranks = 2)
{
	barrier_deadline(e, PEER);
}

CASE(failure_recv_deadline, c.no_window = 1, c.min_ranks = 2)
{
	barrier_deadline(e, RECV);
}

/* ---- abort --------------------------------------------------------------------------------- */

CASE(failure_abort_ends_waits, c.no_window = 1)
{
	aborted(e, WAIT_FROM);
}

CASE(failure_abort_ends_sums, c.no_window = 1)
{
	aborted(e, WAIT_SUM);
}

CASE(failure_abort_ends_barriers, c.no_window = 1)
{
	aborted(e, SYNC);
}

CASE(failure_abort_ends_recv, c.no_window = 1)
{
	aborted(e, RECV);
}

CASE(failure_abort_ends_packets, c.no_window = 1)
{
	aborted(e, PACKET);
}

CASE(failure_abort_ends_full_boxes, c.no_window = 1)
{
	aborted(e, PACKET_ROOM);
}

/* Aborted without cleaning up: windows and buffers go with the comm. */
CASE(failure_abort_then_destroy_comm, c.no_window = 1, c.shape = CONTRACT_HOST)
{
	struct setup s;

	if (!set_up(e, LONG_S, &s)) {
		CHECK_EQ(oriel_comm_destroy(s.comm), ORIEL_EBUSY);
		CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
		if (e->rank == e->nranks - 1)
			CHECK_EQ(oriel_comm_abort(s.comm, ORIEL_EBOOT), 0);
		/* a host wait ends as well */
		CHECK(oriel_comm_barrier(s.comm, ORIEL_WORLD) < 0);
		CHECK_EQ(oriel_comm_status(s.comm) < 0, 1);
		s.window = NULL; /* not destroyed by us */
	}
	tear_down(&s);
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
}

/* Signals itself and waits for that, in a comm of its own. */
static void check_works(struct contract_env *e)
{
	struct setup s;

	if (!set_up(e, LONG_S, &s)) {
		CHECK_EQ(oriel_window_signal(s.window, e->rank, 1, ORIEL_ADD, 3, NULL), 0);
		CHECK_EQ(oriel_window_wait_signal(s.window, e->rank, 1, ORIEL_EQ, 3, NULL), 0);
		CHECK_EQ(oriel_comm_sync(s.comm, NULL), 0);
	}
	tear_down(&s);
}

/*
 * A failed comm is destroyed while a kernel waits in it, with its window or after it.  The kernel
 * ends, and the other objects of the rank still work.
 */
CASE(failure_destroyed_under_a_wait, c.no_window = 1, c.min_ranks = 2, c.shape = CONTRACT_HOST)
{
	struct setup s;
	double start;
	int err;

	if (set_up(e, LONG_S, &s))
		goto err_set_up;
	start = contract_now();
	if (e->rank == 0) {
		usleep(SOON_US);
		CHECK_EQ(oriel_comm_abort(s.comm, ORIEL_EABORTED), 0);
	} else {
		err = oriel_window_wait_signal(s.window, 0, 1, ORIEL_EQ, 1, NULL);
		CHECK(err == ORIEL_EABORTED || (!err && e->cuda));
		while (!oriel_comm_status(s.comm) && contract_now() - start < AT_ONCE_S)
			usleep(100);
	}
	CHECK_EQ(oriel_comm_status(s.comm), ORIEL_EABORTED);
	if (e->rank % 2)
		s.window = NULL; /* goes with the comm */
	tear_down(&s);
	CHECK(contract_now() - start < AT_ONCE_S);
	check_works(e);
	return;
err_set_up:
	tear_down(&s);
}

/* ---- a killed rank ------------------------------------------------------------------------- */

CASE(failure_killed_in_wait, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	killed(e, WAIT_FROM);
}

CASE(failure_killed_in_barrier, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	killed(e, BARRIER);
}

CASE(failure_killed_in_packet, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	killed(e, PACKET);
}

CASE(failure_killed_before_a_full_box, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	killed(e, PACKET_ROOM);
}

/* Everyone is in the middle of the window's work when it happens. */
CONTRACT_KERNEL(busy_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int err = 0, i, k;

	for (i = 0; i < a->rounds && !err; i++) {
		for (k = 0; k < oriel_nranks(w) && !err; k++)
			err = oriel_put(w, g, k, (uint64_t)oriel_rank(w) * 64, &a->src, 0, 64);
		if (!err)
			err = oriel_barrier(w, g, 0);
	}
	contract_report(a, g, err, 0);
}

CASE(failure_killed_at_work, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	ended_at_work(e, &busy_kernel, ORIEL_EPEER);
}
