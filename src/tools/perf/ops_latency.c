/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/ops_latency.c - put_signal and signal as a ping-pong of rank pairs.
 *
 * Ranks 2i and 2i+1 are partners; a last rank without partner plays with itself.  A verification
 * pass reads the signal word after each wait.  The partner cannot have signalled again yet, so any
 * value other than the expected one is an early, lost or repeated signal.
 * Called by: oriel_launch() through measure.c, on the threads of the launch.
 */
#include "kernel.h"
#include "perf.h"

ORIEL_DEV int await(const struct perf_args *a, struct oriel_group g, struct perf_state *s)
{
	int err;

	s->seen++;
	err = oriel_wait_signal_from(&a->win, g, a->from, (int)g.block, ORIEL_GE, s->seen);
	if (!err && a->check && oriel_group_is_leader(g) &&
	    oriel_read_signal_from(&a->win, a->from, (int)g.block) != s->seen)
		s->wrong++;
	return err;
}

ORIEL_DEV int strike(const struct perf_args *a, struct oriel_group g, struct perf_piece p,
		     int with_data)
{
	uint64_t off = PERF_DATA_OFF + p.begin;

	if (!with_data)
		return oriel_signal(&a->win, g, a->to, (int)g.block, ORIEL_ADD, 1);
	return oriel_put_signal(&a->win, g, a->to, off, &a->local, off, p.bytes, (int)g.block,
				ORIEL_ADD, 1);
}

ORIEL_DEV int rally(const struct perf_args *a, struct oriel_group g, struct perf_state *s,
		    uint32_t n, int with_data)
{
	struct perf_piece p = perf_piece(a->bytes, g);
	int err = 0;
	uint32_t i;

	for (i = 0; !err && i < n; i++) {
		if (a->turn == PERF_ANSWERS)
			err = await(a, g, s);
		if (!err)
			err = strike(a, g, p, with_data);
		if (!err && a->turn != PERF_ANSWERS)
			err = await(a, g, s);
	}
	return err;
}

ORIEL_DEV int put_signal_batch(const struct perf_args *a, struct oriel_group g,
			       struct perf_state *s, uint32_t n)
{
	return rally(a, g, s, n, 1);
}

ORIEL_DEV int signal_batch(const struct perf_args *a, struct oriel_group g, struct perf_state *s,
			   uint32_t n)
{
	return rally(a, g, s, n, 0);
}

ORIEL_KERNEL(put_signal_kernel, struct perf_args)
{
	return perf_loop(a, put_signal_batch);
}

ORIEL_KERNEL(signal_kernel, struct perf_args)
{
	return perf_loop(a, signal_batch);
}

#ifndef ORIEL_KERNEL_IMAGE

const struct perf_op perf_op_put_signal = {
	.name = "put_signal",
	.legend = "ranks 2i and 2i+1 play ping-pong with data; one-way time, half a round trip",
	.type = "uint8",
	.elem_bytes = 1,
	.sized = 1,
	.pairs = 1,
	.to_window = 1,
	.copies = 1,
	.kernel = &put_signal_kernel,
};

const struct perf_op perf_op_signal = {
	.name = "signal",
	.legend = "the same with a signal and no data; #wrong counts waits that ended early",
	.type = "none",
	.pairs = 1,
	.kernel = &signal_kernel,
};

#endif
