/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/reduce_node.c - a long all-reduce of ranks that are all mapped peers of each other.
 *
 * A rank combines its piece of the elements straight from the memory of all ranks, in their order,
 * and stores the result straight into the memory of all.  No other rank touches that piece, so send
 * and receive buffers may be the same.
 *
 * Through the stage (node.h) each rank copies its elements to the first part, and takes the result
 * from the second one.  Both are used again and again for calls of more elements.  A rank fills the
 * first part after a meeting at which all have finished reading it.  It comes to a meeting, after
 * which the others fill its second part, after it has taken the result.
 *
 * Compiled twice, as gather.c is.  Launched by coll/team/node.c.
 */
#include "node_move.h"

/*
 * All sums but the most usual one.  Not inlined: their code is longer than all the rest of the
 * kernel, and it lay between the steps of a call.  Not called through a pointer (ORI_RARE()): then
 * ptxas takes it for a target of such calls in ori_coll too.  The functions for words, which it
 * calls, would have to save registers there, in every word of a short call.
 */
ORIEL_DEV_OUT void ori_reduce_node_other(const struct ori_node_op *a, ORI_VALUE(oriel_group) g,
					 const struct ori_node_reach *reach, uint64_t i,
					 uint64_t end)
{
	struct ori_node_task task = { 0, i, end, NULL };

	ori_node_unusual(a, g, reach, task);
}

/* Called by all threads: combines this rank's piece of `all` units. */
ORIEL_DEV void ori_reduce_node_move(const struct ori_node_op *a, struct oriel_group g,
				    const struct ori_node_reach *reach, uint64_t all)
{
	uint32_t nranks = (uint32_t)a->comm.nranks;
	uint64_t share = (all + nranks - 1) / nranks, i = share * (uint32_t)a->comm.rank;
	uint64_t end = ori_coll_least(i + share, all);
	struct ori_node_task task = { 0, i, end, NULL };

	if (ori_node_usual(&a->call) == ORI_REDUCE_SUM_FLOAT)
		ori_node_loop(a, g, reach, task, ORI_REDUCE_SUM_FLOAT);
	else
		ori_reduce_node_other(a, g, reach, i, end);
}

/* How many meetings a call through the stage has. */
ORIEL_DEV uint64_t ori_reduce_node_meetings(const struct ori_node_op *a)
{
	uint64_t bytes = ori_node_bytes(a);

	return 2 * ((bytes + ORI_COLL_STAGE_BYTES - 1) / ORI_COLL_STAGE_BYTES);
}

/* Through the stage.  met: the count at the start.  Not inlined, as ori_reduce_node_other(). */
ORIEL_DEV_OUT int ori_reduce_node_staged(const struct ori_node_op *a, ORI_VALUE(oriel_group) g,
					 uint64_t met, struct ori_node_reach *reach)
{
	uint64_t bytes = ori_node_bytes(a), at, n, meetings = 0;
	uint8_t *own = (uint8_t *)(ori_node_desk(a) + 1);
	int r, err;

	for (r = ORIEL_ON_GPU ? ori_node_lane(g) : 0; r < a->comm.nranks;
	     r += ORIEL_ON_GPU ? ori_node_lanes(g) : 1) {
		reach->send[r] = (uint8_t *)(a->near[r].desk + 1);
		reach->recv[r] = reach->send[r] + ORI_COLL_STAGE_BYTES;
	}
	err = oriel_group_sync(g);
	for (at = 0; at < bytes && !err; at += n) {
		n = ori_coll_least(bytes - at, ORI_COLL_STAGE_BYTES);
		ori_node_copy(g, own, a->send + at, n);
		err = ori_node_arrive(a, g);
		if (!err)
			err = ori_node_meet(a, g, met, ++meetings);
		if (err)
			break;
		ori_reduce_node_move(a, g, reach, (n + 15u) / 16u);
		err = ori_node_arrive(a, g);
		if (!err)
			err = ori_node_meet(a, g, met, ++meetings);
		if (!err)
			ori_node_copy(g, a->recv + at, own + ORI_COLL_STAGE_BYTES, n);
	}
	return err;
}

ORIEL_DEV int ori_reduce_node_run(const struct ori_node_op *a, struct oriel_group g,
				  struct ori_node_reach *reach)
{
	uint64_t meetings = 0;
	struct ori_node_base b;
	int err, way;

	b.calls = ori_load_relaxed_sys(&ori_node_desk(a)->calls);
	b.met = ori_load_relaxed_sys(&ori_node_desk(a)->met);
	err = ori_node_begin(a, g, &b, reach, &way, 0);
	if (err)
		return err;
	if (way == ORI_NODE_DIRECT) {
		ori_reduce_node_move(a, g, reach, ori_node_bytes(a) / 16u);
		err = ori_node_arrive(a, g);
		meetings = 1;
	} else if (way == ORI_NODE_STAGED) {
		err = ori_reduce_node_staged(a, g, b.met, reach);
		meetings = ori_reduce_node_meetings(a);
	} else {
		err = ORI_RARE(ori_node_differs)(a, g);
	}
	ori_node_done(a, g, &b, way, meetings);
	/* the kernel ends after its last block, so it is enough if one waits */
	if (!err && way == ORI_NODE_DIRECT && !g.block)
		err = ori_node_meet(a, g, b.met, 1);
	return err;
}

ORIEL_KERNEL(ori_reduce_node, struct ori_node_op)
{
	struct oriel_group g = oriel_group_block();
#if ORIEL_ON_GPU
	__shared__ struct ori_node_reach reach;
#else
	struct ori_node_reach reach;
#endif
	int err = ori_reduce_node_run(a, g, &reach);

	if (err && oriel_group_is_leader(g))
		ori_kernel_failed(a->launch, g.block, err);
	return err;
}

#ifndef ORIEL_KERNEL_IMAGE
const struct oriel_kernel *ori_reduce_node_kernel(void)
{
	return &ori_reduce_node;
}
#endif
