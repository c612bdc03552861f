/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/scatter_node.c - a long reduce-scatter or broadcast of ranks that are all mapped peers of
 * each other.
 *
 * Between windows: in a reduce-scatter a rank combines its block straight from the memory of all
 * ranks, in their order.  In a broadcast the ranks divide the bytes, all but the root: each reads
 * its piece from the root, and stores it to all the others.  So the root sends every byte once.
 *
 * Through the stage (node.h): its two parts take turns, so a round needs one meeting.  A rank
 * comes to a meeting only after it has read what was shown for the meeting before, so a part may be
 * filled again two rounds later.  In a
 * reduce-scatter a part has a piece for each rank, and behind them room for the result: other
 * blocks of the rank take it from there, after the next meeting, because a receive buffer may have
 * any alignment.  In a broadcast the others copy from the root's part.
 *
 * Compiled twice, as gather.c is.  Launched by coll/team/node.c.
 */
#include "node_move.h"

/* ---- between windows ------------------------------------------------------------------------- */

/* As ori_reduce_node_other(). */
ORIEL_DEV_OUT void ori_scatter_node_other(const struct ori_node_op *a, ORI_VALUE(oriel_group) g,
					  const struct ori_node_reach *reach, uint64_t off,
					  uint64_t units, uint8_t *to)
{
	struct ori_node_task task = { off, 0, units, to };

	ori_node_unusual(a, g, reach, task);
}

/* Called by all threads: combines units that begin at an offset of every rank's elements. */
ORIEL_DEV void ori_scatter_node_combine(const struct ori_node_op *a, struct oriel_group g,
					const struct ori_node_reach *reach, uint64_t off,
					uint64_t units, uint8_t *to)
{
	struct ori_node_task task = { off, 0, units, to };

	if (ori_node_usual(&a->call) == ORI_REDUCE_SUM_FLOAT)
		ori_node_loop(a, g, reach, task, ORI_REDUCE_SUM_FLOAT);
	else
		ori_scatter_node_other(a, g, reach, off, units, to);
}

/* A thread has this many units on their way from the root at a time. */
#define ORI_PASS_UNITS 4

/* Called by all threads: passes units from the root to all others, this thread's share of them. */
ORIEL_DEV void ori_scatter_node_pass(const struct ori_node_op *a, struct oriel_group g,
				     const struct ori_node_reach *reach, uint64_t i, uint64_t end)
{
	uint64_t step = (uint64_t)g.nblocks * g.size, low[ORI_PASS_UNITS], high[ORI_PASS_UNITS];
	const uint8_t *from = reach->send[a->call.root];
	uint8_t *to[ORI_WORD_SOURCES];
	int r, u, n = a->comm.nranks;

	ORI_UNROLL
	for (r = 0; r < ORI_WORD_SOURCES; r++)
		to[r] = r < n && r != a->call.root ? reach->recv[r] : NULL;
	for (i += (uint64_t)g.block * g.size + g.thread; i < end; i += ORI_PASS_UNITS * step) {
		ORI_UNROLL
		for (u = 0; u < ORI_PASS_UNITS; u++)
			if (i + (uint32_t)u * step < end)
				ori_pair_load(from + 16u * (i + (uint32_t)u * step), &low[u],
					      &high[u]);
		ORI_UNROLL
		for (r = 0; r < ORI_WORD_SOURCES; r++) {
			if (!to[r])
				continue;
			ORI_UNROLL
			for (u = 0; u < ORI_PASS_UNITS; u++)
				if (i + (uint32_t)u * step < end)
					ori_pair_store(to[r] + 16u * (i + (uint32_t)u * step),
						       low[u], high[u]);
		}
	}
}

/* This rank's piece of a broadcast of `all` units. */
ORIEL_DEV void ori_scatter_node_piece(const struct ori_node_op *a, struct oriel_group g,
				      const struct ori_node_reach *reach, uint64_t all)
{
	int rank = a->comm.rank, root = a->call.root;
	uint64_t takers = (uint32_t)a->comm.nranks - 1, share, i;

	if (rank == root)
		return;
	share = (all + takers - 1) / takers;
	i = share * (uint32_t)(rank < root ? rank : rank - 1);
	ori_scatter_node_pass(a, g, reach, i, ori_coll_least(i + share, all));
}

/* ---- through the stage ----------------------------------------------------------------------- */

/* The stage of a rank: the part of a round. */
ORIEL_DEV uint8_t *ori_scatter_node_part(const struct ori_node_op *a, int rank, uint64_t round)
{
	return (uint8_t *)(a->near[rank].desk + 1) + (round & 1) * ORI_COLL_STAGE_BYTES;
}

/* The most bytes of a rank's piece in a round. */
ORIEL_DEV uint64_t ori_scatter_node_most(const struct ori_node_op *a)
{
	if (a->call.kind == ORI_COLL_BROADCAST)
		return ORI_COLL_STAGE_BYTES;
	return ORI_COLL_STAGE_BYTES / ((uint32_t)a->comm.nranks + 1) & ~(uint64_t)127;
}

ORIEL_DEV uint64_t ori_scatter_node_rounds(const struct ori_node_op *a, uint64_t bytes)
{
	uint64_t most = ori_scatter_node_most(a);

	return (bytes + most - 1) / most;
}

/* All blocks of all ranks meet.  n: number of the meeting in this call, from 1 on. */
ORIEL_DEV int ori_scatter_node_turn(const struct ori_node_op *a, struct oriel_group g, uint64_t met,
				    uint64_t n)
{
	int err = ori_node_arrive(a, g);

	return err ? err : ori_node_meet(a, g, met, n);
}

ORIEL_DEV int ori_scatter_node_staged_broadcast(const struct ori_node_op *a, struct oriel_group g,
						uint64_t met, uint64_t bytes)
{
	uint64_t rounds = ori_scatter_node_rounds(a, bytes), most = ori_scatter_node_most(a);
	uint64_t round, n;
	uint8_t *part;
	int root = a->call.root, err = 0;

	for (round = 0; round < rounds && !err; round++) {
		n = ori_coll_least(bytes - round * most, most);
		part = ori_scatter_node_part(a, root, round);
		if (a->comm.rank == root)
			ori_node_copy(g, part, a->send + round * most, n);
		err = ori_scatter_node_turn(a, g, met, round + 1);
		if (!err && a->comm.rank != root)
			ori_node_copy(g, a->recv + round * most, part, n);
	}
	return err;
}

/* A round more than there are pieces: the last one takes the last result. */
ORIEL_DEV int ori_scatter_node_staged_reduce(const struct ori_node_op *a, struct oriel_group g,
					     uint64_t met, uint64_t bytes,
					     struct ori_node_reach *reach)
{
	uint64_t rounds = ori_scatter_node_rounds(a, bytes), most = ori_scatter_node_most(a);
	uint64_t ranks = (uint32_t)a->comm.nranks, round, n, last = 0, r, off;
	uint8_t *own;
	int err;

	for (r = ORIEL_ON_GPU ? (uint32_t)ori_node_lane(g) : 0; r < ranks;
	     r += ORIEL_ON_GPU ? (uint32_t)ori_node_lanes(g) : 1)
		reach->send[r] = ori_scatter_node_part(a, (int)r, 0);
	err = oriel_group_sync(g);
	for (round = 0; round <= rounds && !err; round++, last = n) {
		n = round < rounds ? ori_coll_least(bytes - round * most, most) : 0;
		own = ori_scatter_node_part(a, a->comm.rank, round);
		for (r = 0; r < ranks && n; r++)
			ori_node_copy(g, own + r * most, a->send + r * bytes + round * most, n);
		err = ori_scatter_node_turn(a, g, met, round + 1);
		if (err)
			break;
		if (last)
			ori_node_copy(g, a->recv + (round - 1) * most,
				      ori_scatter_node_part(a, a->comm.rank, round - 1) +
					      ranks * most,
				      last);
		off = (round & 1) * ORI_COLL_STAGE_BYTES + (uint32_t)a->comm.rank * most;
		if (n)
			ori_scatter_node_combine(a, g, reach, off, (n + 15u) / 16u,
						 own + ranks * most);
	}
	return err;
}

/* Not inlined, as ori_reduce_node_other(). */
ORIEL_DEV_OUT int ori_scatter_node_staged(const struct ori_node_op *a, ORI_VALUE(oriel_group) g,
					  uint64_t met, uint64_t bytes,
					  struct ori_node_reach *reach)
{
	if (a->call.kind == ORI_COLL_BROADCAST)
		return ori_scatter_node_staged_broadcast(a, g, met, bytes);
	return ori_scatter_node_staged_reduce(a, g, met, bytes, reach);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Of the receive buffer. */
ORIEL_DEV uint64_t ori_scatter_node_bytes(const struct ori_node_op *a)
{
	return a->call.kind == ORI_COLL_BROADCAST ? a->call.size : ori_node_bytes(a);
}

ORIEL_DEV int ori_scatter_node_run(const struct ori_node_op *a, struct oriel_group g,
				   struct ori_node_reach *reach)
{
	uint64_t bytes = ori_scatter_node_bytes(a), meetings = 0;
	struct ori_node_base b;
	int err, way;

	b.calls = ori_load_relaxed_sys(&ori_node_desk(a)->calls);
	b.met = ori_load_relaxed_sys(&ori_node_desk(a)->met);
	err = ori_node_begin(a, g, &b, reach, &way, 1);
	if (err)
		return err;
	if (way == ORI_NODE_DIRECT) {
		if (a->call.kind == ORI_COLL_BROADCAST)
			ori_scatter_node_piece(a, g, reach, bytes / 16u);
		else
			ori_scatter_node_combine(a, g, reach, (uint32_t)a->comm.rank * bytes,
						 bytes / 16u, a->recv);
		err = ori_node_arrive(a, g);
		meetings = 1;
	} else if (way == ORI_NODE_STAGED) {
		err = ori_scatter_node_staged(a, g, b.met, bytes, reach);
		meetings = ori_scatter_node_rounds(a, bytes) + (a->call.kind != ORI_COLL_BROADCAST);
	} else {
		err = ORI_RARE(ori_node_differs)(a, g);
	}
	ori_node_done(a, g, &b, way, meetings);
	/* as in reduce_node.c: other ranks have read this rank's memory, and stored all to it */
	if (!err && way == ORI_NODE_DIRECT && !g.block)
		err = ori_node_meet(a, g, b.met, 1);
	return err;
}

ORIEL_KERNEL(ori_scatter_node, struct ori_node_op)
{
	struct oriel_group g = oriel_group_block();
#if ORIEL_ON_GPU
	__shared__ struct ori_node_reach reach;
#else
	struct ori_node_reach reach;
#endif
	int err = ori_scatter_node_run(a, g, &reach);

	if (err && oriel_group_is_leader(g))
		ori_kernel_failed(a->launch, g.block, err);
	return err;
}

#ifndef ORIEL_KERNEL_IMAGE
const struct oriel_kernel *ori_scatter_node_kernel(void)
{
	return &ori_scatter_node;
}
#endif
