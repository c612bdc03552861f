/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/failure_lines.c - contract of failure in lines and on paths: deadlines, abort, a
 * killed rank.
 *
 * Lines have marked cells where peers are mapped.  Elsewhere they make the packet calls.
 */
#include "failure_bed.h"

/* ---- deadlines ----------------------------------------------------------------------------- */

/* The comm's deadline ends the call.  Only the call fails, and what came in time is not lost. */
CASE(failure_line_deadline, c.no_window = 1)
{
	struct setup s;

	if (!set_up(e, LONG_S, &s)) {
		s.a.peer = (e->rank + e->nranks - 1) % e->nranks;
		set_deadline(&s, SHORT_S);
		CHECK(timed(e, &s, LINE, ORIEL_ETIMEDOUT) > SHORT_S * 0.9);
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		s.a.peer = (e->rank + 1) % e->nranks;
		CHECK(timed(e, &s, LINE_ROOM, ORIEL_ETIMEDOUT) > SHORT_S * 0.9);
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		set_deadline(&s, LONG_S);
		CHECK_EQ(oriel_window_status(s.window), 0);
		CHECK_EQ(oriel_comm_status(s.comm), 0);
		s.a.peer = (e->rank + e->nranks - 1) % e->nranks;
		timed(e, &s, LINE, 0);
	}
	tear_down(&s);
}

CASE(failure_path_deadline, c.no_window = 1)
{
	struct setup s;

	if (!set_up(e, LONG_S, &s)) {
		s.a.value = 1;
		s.a.peer = (e->rank + e->nranks - 1) % e->nranks;
		set_deadline(&s, SHORT_S);
		CHECK(timed(e, &s, PATH, ORIEL_ETIMEDOUT) > SHORT_S * 0.9);
		set_deadline(&s, LONG_S);
		CHECK_EQ(oriel_window_status(s.window), 0);
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		s.a.peer = (e->rank + 1) % e->nranks;
		timed(e, &s, PATH_PUT, 0);
		s.a.peer = (e->rank + e->nranks - 1) % e->nranks;
		timed(e, &s, PATH, 0);
	}
	tear_down(&s);
}

/* ---- abort --------------------------------------------------------------------------------- */

CASE(failure_abort_ends_lines, c.no_window = 1)
{
	aborted(e, LINE);
}

CASE(failure_abort_ends_full_lines, c.no_window = 1)
{
	aborted(e, LINE_ROOM);
}

CASE(failure_abort_ends_paths, c.no_window = 1)
{
	aborted(e, PATH);
}

/* Calls that need not wait tell of it too: a line when it is closed. */
CASE(failure_abort_is_told, c.no_window = 1)
{
	struct setup s;

	if (!set_up(e, LONG_S, &s)) {
		CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
		timed(e, &s, LINE_ONE, 0);
		timed(e, &s, PATH_PUT, 0);
		CHECK_EQ(oriel_comm_barrier(s.comm, ORIEL_WORLD), 0);
		if (e->rank == 0)
			CHECK_EQ(oriel_comm_abort(s.comm, ORIEL_EABORTED), 0);
		check_learns(s.comm, ORIEL_EABORTED);
		timed(e, &s, LINE_ONE, ORIEL_EABORTED);
		timed(e, &s, PATH_PUT, ORIEL_EABORTED);
		CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
	}
	tear_down(&s);
}

/* ---- a killed rank ------------------------------------------------------------------------- */

CASE(failure_killed_in_line, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	killed(e, LINE);
}

CASE(failure_killed_before_a_full_line, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	killed(e, LINE_ROOM);
}

CASE(failure_killed_in_path, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	killed(e, PATH);
}

/* ---- in the middle of a conversation --------------------------------------------------------- */

/* Round i: a packet and a put go to the right neighbour, the left one's come. */
CONTRACT_KERNEL(busy_kernel_of_lines)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), same = right == left;
	int err = 0, last = 0, i;
	struct oriel_path to, from;
	struct oriel_line out, in;

	err = oriel_line_open(&out, w, g, right, CELLS_BOX);
	if (!same)
		last = oriel_line_open(&in, w, g, left, CELLS_BOX);
	err = err ? err : last;
	if (!err)
		err = oriel_path_open(&to, w, g, right, &a->src, 0);
	if (!err)
		err = oriel_path_open(&from, w, g, left, &a->src, 0);
	for (i = 1; i <= a->rounds && !err; i++) {
		err = oriel_line_send(&out, g, a->local + 64, 64);
		if (!err)
			err = oriel_line_recv(same ? &out : &in, g, a->local + 128, 64);
		if (!err)
			err = oriel_path_put_signal(&to, g, 0, 0, 64, ORIEL_ADD, 1);
		if (!err)
			err = oriel_path_wait(&from, g, (uint64_t)i);
	}
	last = oriel_line_close(&out, g);
	if (!same)
		last = oriel_line_close(&in, g);
	contract_report(a, g, err ? err : last, 0);
}

CASE(failure_abort_at_work_with_lines, c.no_window = 1)
{
	ended_at_work(e, &busy_kernel_of_lines, ORIEL_EABORTED);
}

CASE(failure_killed_at_work_with_lines, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	ended_at_work(e, &busy_kernel_of_lines, ORIEL_EPEER);
}
