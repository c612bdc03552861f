/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/ops_packet.c - packets as a ping-pong of rank pairs.
 *
 * The roles are those of put_signal (ops_latency.c).  Each block has a box of its own.  A packet is
 * loaded from local memory and delivered into the window buffer, which here is only memory.  With
 * --line a kernel opens its box once, and keeps counts and addresses.
 * Called by: oriel_launch() through measure.c, on the threads of the launch.
 */
#include "kernel.h"
#include "perf.h"

ORIEL_DEV int packet_batch(const struct perf_args *a, struct oriel_group g, struct perf_state *s,
			   uint32_t n)
{
	struct perf_piece p = perf_piece(a->bytes, g);
	const uint8_t *src = (const uint8_t *)(uintptr_t)a->local.address + PERF_DATA_OFF + p.begin;
	uint8_t *dst = a->win.buffer + PERF_DATA_OFF + p.begin;
	int box = (int)g.block, err = 0;
	uint32_t i;

	(void)s;
	for (i = 0; !err && i < n; i++) {
		if (a->turn == PERF_ANSWERS)
			err = oriel_packet_recv(&a->win, g, a->from, box, dst, p.bytes);
		if (!err)
			err = oriel_packet_send(&a->win, g, a->to, box, src, p.bytes);
		if (!err && a->turn != PERF_ANSWERS)
			err = oriel_packet_recv(&a->win, g, a->from, box, dst, p.bytes);
	}
	return err;
}

ORIEL_KERNEL(packet_kernel, struct perf_args)
{
	return perf_loop(a, packet_batch);
}

/* The state of the batches comes first, so that a batch finds the line behind it. */
struct packet_line {
	struct perf_state state;
	struct oriel_line line;
};

ORIEL_DEV int packet_line_batch(const struct perf_args *a, struct oriel_group g,
				struct perf_state *s, uint32_t n)
{
	struct oriel_line *line = &((struct packet_line *)(void *)s)->line;
	struct perf_piece p = perf_piece(a->bytes, g);
	const uint8_t *src = (const uint8_t *)(uintptr_t)a->local.address + PERF_DATA_OFF + p.begin;
	uint8_t *dst = a->win.buffer + PERF_DATA_OFF + p.begin;
	int err = 0;
	uint32_t i;

	for (i = 0; !err && i < n; i++) {
		if (a->turn == PERF_ANSWERS)
			err = oriel_line_recv(line, g, dst, p.bytes);
		if (!err)
			err = oriel_line_send(line, g, src, p.bytes);
		if (!err && a->turn != PERF_ANSWERS)
			err = oriel_line_recv(line, g, dst, p.bytes);
	}
	return err;
}

/* One line serves both directions: in a ping-pong `to` and `from` are the partner. */
ORIEL_KERNEL(packet_line_kernel, struct perf_args)
{
	struct oriel_group g = oriel_group_block();
	struct packet_line p;
	int err = oriel_line_open(&p.line, &a->win, g, a->to, (int)g.block), closed;

	if (!err)
		err = perf_loop_with(a, g, packet_line_batch, &p.state);
	closed = oriel_line_close(&p.line, g);
	return err ? err : closed;
}

#ifndef ORIEL_KERNEL_IMAGE

const struct perf_op perf_op_packet = {
	.name = "packet",
	.legend = "ranks 2i and 2i+1 play ping-pong with packets up to 64 KiB; one-way time",
	.type = "uint8",
	.elem_bytes = 1,
	.sized = 1,
	.pairs = 1,
	.to_window = 1,
	.most_bytes = PERF_PACKET_BYTES,
	.boxed = 1,
	.kernel = &packet_kernel,
	.on_line = &packet_line_kernel,
};

#endif
