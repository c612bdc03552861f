/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/ops_completion.c - the cost of waiting until a put is complete.
 *
 * completion: one put at a time.  The block waits by a ticket (it polls the queue) or by a counter
 * (it polls a word to which the NIC adds).  fanout: puts to several peers at once.  The block waits
 * for the sum of a counter, or polls the queue of each peer in turn.  A verification pass reads the
 * counter after each wait; the value must be exact.  It ends with a barrier, so that all data has
 * arrived and can be checked.
 * Called by: oriel_launch() through measure.c, on the threads of the launch.
 */
#include "kernel.h"
#include "perf.h"

ORIEL_DEV int await_ticket(const struct perf_args *a, struct oriel_group g, int peer)
{
	struct oriel_ticket ticket;
	int err = oriel_take_ticket(&a->win, g, peer, &ticket);

	return err ? err : oriel_wait_local(&a->win, g, &ticket, 0);
}

ORIEL_DEV int put_ticket(const struct perf_args *a, struct oriel_group g, uint64_t off,
			 uint64_t bytes)
{
	int err = oriel_put(&a->win, g, a->to, off, &a->local, off, bytes);

	return err ? err : await_ticket(a, g, a->to);
}

ORIEL_DEV int put_count(const struct perf_args *a, struct oriel_group g, struct perf_state *s,
			uint64_t off, uint64_t bytes)
{
	int id = (int)g.block;
	int err = oriel_put_counter(&a->win, g, a->to, off, &a->local, off, bytes, id);

	s->seen++;
	if (!err)
		err = oriel_wait_counter(&a->win, g, a->to, id, ORIEL_GE, s->seen);
	if (!err && a->check && oriel_group_is_leader(g) &&
	    oriel_read_counter(&a->win, a->to, id) != s->seen)
		s->wrong++;
	return err;
}

ORIEL_DEV int completion_batch(const struct perf_args *a, struct oriel_group g,
			       struct perf_state *s, uint32_t n)
{
	struct perf_piece p = perf_piece(a->bytes, g);
	uint64_t off = PERF_DATA_OFF + p.begin;
	int err = 0;
	uint32_t i;

	for (i = 0; !err && i < n; i++)
		err = a->variant == PERF_COUNTER ? put_count(a, g, s, off, p.bytes) :
						   put_ticket(a, g, off, p.bytes);
	return err || !a->check ? err : oriel_barrier(&a->win, g, (int)g.block);
}

ORIEL_DEV int fan_peer(const struct perf_args *a, uint32_t j)
{
	int n = a->win.comm.nranks;

	return (a->win.comm.rank + perf_fan_shift(n, (int)a->shift, (int)j)) % n;
}

ORIEL_DEV int fan_post(const struct perf_args *a, struct oriel_group g, uint32_t j)
{
	struct perf_piece p = perf_piece(PERF_FAN_BYTES, g);
	uint64_t off = PERF_DATA_OFF + (uint64_t)j * PERF_FAN_BYTES + p.begin;

	if (a->variant == PERF_COUNTER)
		return oriel_put_counter(&a->win, g, fan_peer(a, j), off, &a->local, off, p.bytes,
					 (int)g.block);
	return oriel_put(&a->win, g, fan_peer(a, j), off, &a->local, off, p.bytes);
}

ORIEL_DEV int fan_await(const struct perf_args *a, struct oriel_group g, struct perf_state *s)
{
	uint64_t sum = 0;
	uint32_t j;
	int err = 0;

	if (a->variant != PERF_COUNTER) {
		for (j = 0; !err && j < a->fan; j++)
			err = await_ticket(a, g, fan_peer(a, j));
		return err;
	}
	s->seen += a->fan;
	err = oriel_wait_counter_all(&a->win, g, (int)g.block, s->seen);
	if (err || !a->check || !oriel_group_is_leader(g))
		return err;
	for (j = 0; j < (uint32_t)a->win.comm.nranks; j++)
		sum += oriel_read_counter(&a->win, (int)j, (int)g.block);
	s->wrong += sum != s->seen;
	return 0;
}

ORIEL_DEV int fanout_batch(const struct perf_args *a, struct oriel_group g, struct perf_state *s,
			   uint32_t n)
{
	int err = 0;
	uint32_t i, j;

	for (i = 0; !err && i < n; i++) {
		for (j = 0; !err && j < a->fan; j++)
			err = fan_post(a, g, j);
		if (!err)
			err = fan_await(a, g, s);
	}
	return err || !a->check ? err : oriel_barrier(&a->win, g, (int)g.block);
}

ORIEL_KERNEL(completion_kernel, struct perf_args)
{
	return perf_loop(a, completion_batch);
}

ORIEL_KERNEL(fanout_kernel, struct perf_args)
{
	return perf_loop(a, fanout_batch);
}

#ifndef ORIEL_KERNEL_IMAGE

const struct perf_op perf_op_completion = {
	.name = "completion",
	.legend = "one put at a time, then a wait for its ticket or counter; time of put and wait",
	.type = "uint8",
	.elem_bytes = 1,
	.sized = 1,
	.to_window = 1,
	.far = 1,
	.element = "uint8",
	.typed = 1,
	.variants = { "ticket", "counter" },
	.kernel = &completion_kernel,
};

const struct perf_op perf_op_fanout = {
	.name = "fanout",
	.legend = "puts of 64 KiB to 1, 2, ... peers, then waits for all tickets or one counter",
	.type = "uint8",
	.elem_bytes = 1,
	.to_window = 1,
	.far = 1,
	.fan = 1,
	.element = "uint8",
	.typed = 1,
	.variants = { "ticket", "counter" },
	.with = &perf_op_completion,
	.kernel = &fanout_kernel,
};

#endif
