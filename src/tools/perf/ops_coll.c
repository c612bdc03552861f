/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/ops_coll.c - the collectives as calls inside a running kernel (--in-kernel).
 *
 * Each block has a channel of the team, and its share of every rank's data (perf_piece).  Shares
 * lie one behind the other; in a share the data of the ranks lies in rank order.  So with one block
 * the layout is that of the call.
 *
 * With --line a kernel opens its call once.  The blocks of an all-to-all or an all-gather then
 * divide the peers, and each moves whole blocks of data.
 * Called by: oriel_launch() through team.c, on the threads of the launch.
 */
#include "ops_coll.h"

#include <oriel/device/coll.h>

#include "coll.h"

ORIEL_DEV const struct perf_coll_args *coll_args(const struct perf_args *run)
{
	return (const struct perf_coll_args *)(const void *)run;
}

/* Bytes before share p, where it has a part per rank. */
ORIEL_DEV uint64_t before_share(const struct perf_coll_args *a, struct perf_piece p)
{
	return p.begin * (uint32_t)a->team.win.comm.nranks;
}

/* This rank's part in share p. */
ORIEL_DEV uint64_t own_part(const struct perf_coll_args *a, struct perf_piece p)
{
	return before_share(a, p) + p.bytes * (uint32_t)a->team.win.comm.rank;
}

ORIEL_DEV int broadcast_batch(const struct perf_args *run, struct oriel_group g,
			      struct perf_state *s, uint32_t n)
{
	const struct perf_coll_args *a = coll_args(run);
	struct perf_piece p = perf_piece(run->bytes, g);
	int err = 0;
	uint32_t i;

	(void)s;
	for (i = 0; !err && i < n; i++)
		err = oriel_coll_broadcast(&a->team, g, (int)g.block, a->recv + p.begin, p.bytes,
					   0);
	return err;
}

ORIEL_DEV int allgather_batch(const struct perf_args *run, struct oriel_group g,
			      struct perf_state *s, uint32_t n)
{
	const struct perf_coll_args *a = coll_args(run);
	struct perf_piece p = perf_piece(run->bytes, g);
	const uint8_t *send = a->in_place ? a->recv + own_part(a, p) : a->send + p.begin;
	int err = 0;
	uint32_t i;

	(void)s;
	for (i = 0; !err && i < n; i++)
		err = oriel_coll_allgather(&a->team, g, (int)g.block, send,
					   a->recv + before_share(a, p), p.bytes);
	return err;
}

ORIEL_DEV int alltoall_batch(const struct perf_args *run, struct oriel_group g,
			     struct perf_state *s, uint32_t n)
{
	const struct perf_coll_args *a = coll_args(run);
	struct perf_piece p = perf_piece(run->bytes, g);
	int err = 0;
	uint32_t i;

	(void)s;
	for (i = 0; !err && i < n; i++)
		err = oriel_coll_alltoall(&a->team, g, (int)g.block, a->send + before_share(a, p),
					  a->recv + before_share(a, p), p.bytes);
	return err;
}

/* Other sizes in each call, which only the device reads. */
ORIEL_DEV int alltoallv_batch(const struct perf_args *run, struct oriel_group g,
			      struct perf_state *s, uint32_t n)
{
	const struct perf_coll_args *a = coll_args(run);
	uint64_t ranks = (uint32_t)a->team.win.comm.nranks, at = g.block * ranks * a->cut;
	uint32_t i, split;
	int err = 0;

	(void)s;
	for (i = 0; !err && i < n; i++) {
		split = (a->first_split + i) % PERF_SPLITS;
		err = oriel_coll_alltoallv(&a->team, g, (int)g.block, a->send + at,
					   a->sizes + (split * g.nblocks + g.block) * ranks,
					   a->recv + at, a->came + g.block * ranks, a->cut);
	}
	return err;
}

ORIEL_DEV int allreduce_batch(const struct perf_args *run, struct oriel_group g,
			      struct perf_state *s, uint32_t n)
{
	const struct perf_coll_args *a = coll_args(run);
	struct perf_piece p = perf_piece(run->bytes, g);
	const uint8_t *send = (a->in_place ? a->recv : a->send) + p.begin;
	int err = 0;
	uint32_t i;

	(void)s;
	for (i = 0; !err && i < n; i++)
		err = oriel_coll_allreduce(&a->team, g, (int)g.block, send, a->recv + p.begin,
					   p.bytes / sizeof(float), ORIEL_TYPE_FLOAT,
					   ORIEL_REDUCE_SUM);
	return err;
}

ORIEL_DEV int reducescatter_batch(const struct perf_args *run, struct oriel_group g,
				  struct perf_state *s, uint32_t n)
{
	const struct perf_coll_args *a = coll_args(run);
	struct perf_piece p = perf_piece(run->bytes, g);
	uint8_t *recv = a->in_place ? a->send + own_part(a, p) : a->recv + p.begin;
	int err = 0;
	uint32_t i;

	(void)s;
	for (i = 0; !err && i < n; i++)
		err = oriel_coll_reducescatter(&a->team, g, (int)g.block,
					       a->send + before_share(a, p), recv,
					       p.bytes / sizeof(float), ORIEL_TYPE_FLOAT,
					       ORIEL_REDUCE_SUM);
	return err;
}

/* ---- on a line ------------------------------------------------------------------------------- */

/* The state of the batches comes first, so that a batch finds the line behind it. */
struct coll_line {
	struct perf_state state;
	struct oriel_coll_line line;
	const uint8_t *send;
	uint8_t *recv;
};

ORIEL_DEV int line_batch(const struct perf_args *run, struct oriel_group g, struct perf_state *s,
			 uint32_t n)
{
	struct coll_line *l = (struct coll_line *)(void *)s;
	int err = 0;
	uint32_t i;

	(void)run;
	for (i = 0; !err && i < n; i++)
		err = oriel_coll_again(&l->line, g, l->send, l->recv);
	return err;
}

/* err: of opening the line. */
ORIEL_DEV int use_line(const struct perf_coll_args *a, struct oriel_group g, struct coll_line *l,
		       int err)
{
	int closed;

	if (!err)
		err = perf_loop_with(&a->run, g, line_batch, &l->state);
	closed = oriel_coll_close(&l->line, g);
	return err ? err : closed;
}

ORIEL_KERNEL(allgather_line_kernel, struct perf_coll_args)
{
	struct oriel_group g = oriel_group_block();
	uint64_t own = a->run.bytes * (uint32_t)a->team.win.comm.rank;
	struct coll_line l;

	l.send = a->in_place ? a->recv + own : a->send;
	l.recv = a->recv;
	return use_line(a, g, &l,
			oriel_coll_open_allgather(&l.line, &a->team, g, (int)g.block, a->run.bytes,
						  (int)g.block, (int)g.nblocks));
}

ORIEL_KERNEL(alltoall_line_kernel, struct perf_coll_args)
{
	struct oriel_group g = oriel_group_block();
	struct coll_line l;

	l.send = a->send;
	l.recv = a->recv;
	return use_line(a, g, &l,
			oriel_coll_open_alltoall(&l.line, &a->team, g, (int)g.block, a->run.bytes,
						 (int)g.block, (int)g.nblocks));
}

ORIEL_KERNEL(allreduce_line_kernel, struct perf_coll_args)
{
	struct oriel_group g = oriel_group_block();
	struct perf_piece p = perf_piece(a->run.bytes, g);
	struct coll_line l;

	l.send = (a->in_place ? a->recv : a->send) + p.begin;
	l.recv = a->recv + p.begin;
	return use_line(a, g, &l,
			oriel_coll_open_allreduce(&l.line, &a->team, g, (int)g.block,
						  p.bytes / sizeof(float), ORIEL_TYPE_FLOAT,
						  ORIEL_REDUCE_SUM));
}

/* ---- single calls ---------------------------------------------------------------------------- */

/* One kernel per collective: nvcc inlines the whole call, as in a kernel of a user. */
ORIEL_KERNEL(broadcast_kernel, struct perf_coll_args)
{
	return perf_loop(&a->run, broadcast_batch);
}

ORIEL_KERNEL(allgather_kernel, struct perf_coll_args)
{
	return perf_loop(&a->run, allgather_batch);
}

ORIEL_KERNEL(alltoall_kernel, struct perf_coll_args)
{
	return perf_loop(&a->run, alltoall_batch);
}

ORIEL_KERNEL(alltoallv_kernel, struct perf_coll_args)
{
	return perf_loop(&a->run, alltoallv_batch);
}

ORIEL_KERNEL(allreduce_kernel, struct perf_coll_args)
{
	return perf_loop(&a->run, allreduce_batch);
}

ORIEL_KERNEL(reducescatter_kernel, struct perf_coll_args)
{
	return perf_loop(&a->run, reducescatter_batch);
}

#ifndef ORIEL_KERNEL_IMAGE

const struct perf_op perf_inside_broadcast = {
	.name = "broadcast",
	.legend = "rank 0 sends `size` bytes to every rank; time of one call inside a kernel",
	.type = "float",
	.elem_bytes = 4,
	.traffic = PERF_TRAFFIC_ONCE,
	.place = PERF_IN_PLACE,
	.sized = 1,
	.kernel = &broadcast_kernel,
	.run = perf_inside_run,
};

const struct perf_op perf_inside_allgather = {
	.name = "allgather",
	.legend = "every rank gets a block of `size` bytes from every rank; time of one call "
		  "inside a kernel, rates of all bytes a rank gets",
	.type = "uint8",
	.elem_bytes = 1,
	.traffic = PERF_TRAFFIC_BLOCKS,
	.place = PERF_EITHER_PLACE,
	.sized = 1,
	.kernel = &allgather_kernel,
	.on_line = &allgather_line_kernel,
	.parted = 1,
	.run = perf_inside_run,
};

const struct perf_op perf_inside_alltoall = {
	.name = "alltoall",
	.legend = "every rank sends every rank `size` bytes; time of one call inside a kernel, "
		  "rates of all bytes a rank sends",
	.type = "uint8",
	.elem_bytes = 1,
	.traffic = PERF_TRAFFIC_BLOCKS,
	.sized = 1,
	.kernel = &alltoall_kernel,
	.on_line = &alltoall_line_kernel,
	.parted = 1,
	.run = perf_inside_run,
};

const struct perf_op perf_inside_alltoallv = {
	.name = "alltoallv",
	.legend = "every rank sends every rank `size` bytes on average (--split); time of one call "
		  "inside a kernel, rates of all bytes a rank sends",
	.type = "uniform",
	.element = "uint8",
	.typed = 1,
	.elem_bytes = 1,
	.traffic = PERF_TRAFFIC_BLOCKS,
	.sized = 1,
	.kernel = &alltoallv_kernel,
	.run = perf_inside_v_run,
};

const struct perf_op perf_inside_allreduce = {
	.name = "allreduce",
	.legend = "every rank gets the sum of all ranks' `size` bytes of floats; time of one call "
		  "inside a kernel; busbw counts 2 (n - 1) / n of them",
	.type = "float",
	.elem_bytes = 4,
	.traffic = PERF_TRAFFIC_TWICE,
	.place = PERF_EITHER_PLACE,
	.sums = 1,
	.sized = 1,
	.kernel = &allreduce_kernel,
	.on_line = &allreduce_line_kernel,
	.run = perf_inside_run,
};

const struct perf_op perf_inside_reducescatter = {
	.name = "reducescatter",
	.legend = "every rank gets its block of `size` bytes of the sum of all ranks' floats; time "
		  "of one call inside a kernel, rates of all bytes a rank gives",
	.type = "float",
	.elem_bytes = 4,
	.traffic = PERF_TRAFFIC_BLOCKS,
	.place = PERF_EITHER_PLACE,
	.sums = 1,
	.sized = 1,
	.kernel = &reducescatter_kernel,
	.run = perf_inside_run,
};

#endif
