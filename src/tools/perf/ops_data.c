/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/ops_data.c - put, get and staged sendrecv between ring neighbours.
 *
 * All ranks work at the same time: each puts to, or gets from, its right neighbour.  A single rank
 * uses itself.  With several blocks each moves its piece and uses its own signal id.
 * Called by: oriel_launch() through measure.c, on the threads of the launch.
 */
#include "kernel.h"
#include "perf.h"

/* n puts, then a signal: when the left neighbour's signal is here, its data is here. */
ORIEL_DEV int put_batch(const struct perf_args *a, struct oriel_group g, struct perf_state *s,
			uint32_t n)
{
	struct perf_piece p = perf_piece(a->bytes, g);
	uint64_t off = PERF_DATA_OFF + p.begin;
	int err = 0;
	uint32_t i;

	for (i = 0; !err && i < n; i++)
		err = oriel_put(&a->win, g, a->to, off, &a->local, off, p.bytes);
	if (!err)
		err = oriel_flush(&a->win, g, a->to);
	if (!err)
		err = oriel_signal(&a->win, g, a->to, (int)g.block, ORIEL_ADD, 1);
	s->seen++;
	if (!err)
		err = oriel_wait_signal_from(&a->win, g, a->from, (int)g.block, ORIEL_GE, s->seen);
	return err;
}

ORIEL_DEV int get_batch(const struct perf_args *a, struct oriel_group g, struct perf_state *s,
			uint32_t n)
{
	struct perf_piece p = perf_piece(a->bytes, g);
	uint64_t off = PERF_DATA_OFF + p.begin;
	int err = 0;
	uint32_t i;

	(void)s;
	for (i = 0; !err && i < n; i++)
		err = oriel_get(&a->win, g, a->to, off, &a->local, off, p.bytes);
	if (!err)
		err = oriel_flush(&a->win, g, a->to);
	return err;
}

/*
 * All ranks send before they receive, so a send must fit into the free slots: no receiver empties
 * any meanwhile.  A larger message is sent in several parts of `chunk` bytes.
 */
ORIEL_DEV int exchange(const struct perf_args *a, struct oriel_group g, struct perf_piece p)
{
	const uint8_t *src = a->win.buffer + PERF_DATA_OFF + p.begin;
	uint8_t *dst = (uint8_t *)(uintptr_t)a->local.address + PERF_DATA_OFF + p.begin;
	uint64_t off, bytes;
	int err = 0;

	for (off = 0; !err && off < p.bytes; off += bytes) {
		bytes = p.bytes - off < a->chunk ? p.bytes - off : a->chunk;
		err = oriel_send(&a->win, g, a->to, (int)g.block, src + off, bytes);
		if (!err)
			err = oriel_recv(&a->win, g, a->from, (int)g.block, dst + off, bytes);
	}
	return err;
}

ORIEL_DEV int sendrecv_batch(const struct perf_args *a, struct oriel_group g, struct perf_state *s,
			     uint32_t n)
{
	struct perf_piece p = perf_piece(a->bytes, g);
	int err = 0;
	uint32_t i;

	(void)s;
	for (i = 0; !err && i < n; i++)
		err = exchange(a, g, p);
	return err;
}

ORIEL_KERNEL(put_kernel, struct perf_args)
{
	return perf_loop(a, put_batch);
}

ORIEL_KERNEL(get_kernel, struct perf_args)
{
	return perf_loop(a, get_batch);
}

ORIEL_KERNEL(sendrecv_kernel, struct perf_args)
{
	return perf_loop(a, sendrecv_batch);
}

#ifndef ORIEL_KERNEL_IMAGE

const struct perf_op perf_op_put = {
	.name = "put",
	.legend =
		"every rank puts into its right neighbour's window, back to back; time of one put",
	.type = "uint8",
	.elem_bytes = 1,
	.sized = 1,
	.to_window = 1,
	.copies = 1,
	.kernel = &put_kernel,
};

const struct perf_op perf_op_get = {
	.name = "get",
	.legend =
		"every rank gets from its right neighbour's window, back to back; time of one get",
	.type = "uint8",
	.elem_bytes = 1,
	.sized = 1,
	.from_right = 1,
	.copies = 1,
	.kernel = &get_kernel,
};

const struct perf_op perf_op_sendrecv = {
	.name = "sendrecv",
	.legend = "staged: every rank sends right and receives from the left; time of one exchange",
	.type = "uint8",
	.elem_bytes = 1,
	.sized = 1,
	.staged = 1,
	.kernel = &sendrecv_kernel,
};

#endif
