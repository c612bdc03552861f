/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/node.h - what the kernels for long calls share (reduce_node.c, scatter_node.c): how ranks
 * that are all mapped peers of each other find out that they make the same call, and how they meet.
 *
 * First each rank shows its call and where its buffers are (coll_desk.h).  Every block reads the
 * records of all ranks, so blocks need not meet.  If all ranks have their buffers in the same
 * windows, these are the memory, and a meeting at the end says that all is there.  If not, the
 * memory is the stage of the team, which has two parts.
 *
 * A meeting: each block adds 1 to its rank's MET at all ranks, and waits until all blocks of each
 * rank have done so, also of its own.  Ranks that make the same call have equally many blocks.
 *
 * The two kernels use one stage and one count of meetings.  No rank uses them for a call before all
 * ranks have shown that call, and a rank shows it after its last kernel has ended.
 *
 * Included by: node_move.h.
 */
#ifndef ORI_KERNELS_NODE_H
#define ORI_KERNELS_NODE_H

#include "coll_desk.h"

static_assert(ORI_COLL_STAGE_RANKS <= ORI_WORD_SOURCES, "a thread loads of all ranks at once");

/*
 * Addresses of all ranks' memory, as this rank maps it.  A block of a GPU shares them: each lane
 * finds those of one rank.  On a CPU each thread has its own.
 */
struct ori_node_reach {
	uint8_t *send[ORI_WORD_SOURCES], *recv[ORI_WORD_SOURCES];
};

/* The counts at the start of the call. */
struct ori_node_base {
	uint64_t calls, met;
};

ORIEL_DEV struct ori_coll_desk *ori_node_desk(const struct ori_node_op *a)
{
	return a->near[a->comm.rank].desk;
}

/* The lanes divide the ranks: one begins with rank `lane`.  Other threads have none. */
ORIEL_DEV int ori_node_lanes(struct oriel_group g)
{
	return (int)ori_group_lanes(g);
}

ORIEL_DEV int ori_node_lane(struct oriel_group g)
{
	return g.thread < ori_group_lanes(g) ? (int)g.thread : ORI_COLL_STAGE_RANKS;
}

ORIEL_DEV uint64_t ori_node_bytes(const struct ori_node_op *a)
{
	return a->call.size * oriel_type_bytes(a->call.type);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Only a CPU wakes sleepers. */
ORIEL_DEV struct oriel_waiters *ori_node_waiters(const struct ori_node_op *a, int peer)
{
	return ORIEL_ON_GPU ? NULL : a->team->win.peers[peer].waiters;
}

/* Called when a wait has failed: no rank may wait for this one any longer. */
ORIEL_DEV_OUT void ori_node_give_up(const struct ori_node_op *a, int err, int late)
{
	uint64_t failure = ORIEL_FAILURE_LATE(err, late, a->comm.rank);
	int p;

	if (err != ORIEL_ETIMEDOUT)
		return; /* window or comm have failed: all ranks know */
	/* acq_rel without a partner: no other data depends on a failure word */
	(void)ori_compare_swap_acq_rel_sys(a->failure, 0, failure);
	for (p = 0; p < a->comm.nranks; p++)
		if (p != a->comm.rank)
			(void)ori_fail_window(&a->team->win, err, p);
}

/* Called by one thread: waits until `peer` has brought its word here to `want`. */
ORIEL_DEV int ori_node_await(const struct ori_node_op *a, int peer, uint32_t id, uint64_t want)
{
	int err, name = (a->number & ((1 << ORI_COLL_SHIFT) - 1)) | (int)a->call.kind
									    << ORI_COLL_SHIFT;
	struct ori_spin s;

	ori_spin_begin(&s, &a->comm, a->failure, ORIEL_OP_SIGNAL, peer, (int)id, name, want);
	/* [SIG2] inside; partner [SIG1] in ori_coll_desk_put() and ori_node_arrive() */
	err = ori_word_wait(&s, &a->signal_words[(uint32_t)peer * a->signal_stride + id], 0,
			    ORIEL_GE);
	if (err)
		ori_node_give_up(a, err, peer);
	return err;
}

/* Called by all threads: this block has come to a meeting. */
ORIEL_DEV int ori_node_arrive(const struct ori_node_op *a, struct oriel_group g)
{
	int err = oriel_group_sync(g), r;

	for (r = ori_node_lane(g); r < a->comm.nranks && !err; r += ori_node_lanes(g))
		/* [SIG1] inside: all that the block has read and stored; partner [SIG2] above */
		ori_word_signal(a->near[r].signals + a->met, ORIEL_ADD, 1, ori_node_waiters(a, r));
	return err;
}

/*
 * Called by all threads: waits until all blocks of all ranks have come to `n` meetings.  met: the
 * count at the start of the call.
 */
ORIEL_DEV int ori_node_meet(const struct ori_node_op *a, struct oriel_group g, uint64_t met,
			    uint64_t n)
{
	int err = 0, r;

	for (r = ori_node_lane(g); r < a->comm.nranks && !err; r += ori_node_lanes(g))
		err = ori_node_await(a, r, a->met, met + n * g.nblocks);
	return ori_group_agree_any(g, err);
}

/*
 * Called by all threads after they have read the counts and met.  The last block moves them: the
 * next call counts from the end of this one.  On a GPU the second warp does that while the first
 * one waits.
 */
ORIEL_DEV void ori_node_done(const struct ori_node_op *a, struct oriel_group g,
			     const struct ori_node_base *b, int way, uint64_t meetings)
{
	struct ori_coll_desk *desk = ori_node_desk(a);

	/*
	 * [RNK1] acq_rel, device scope; its own partner.  Publishes that a block has read the
	 * counts to the block that moves them.  Without it a slow block could take the counts of
	 * the next call for its own.
	 */
	if (g.thread != (ORIEL_ON_GPU && g.size > 32u ? 32u : 0u) ||
	    ori_fetch_add32_acq_rel(&desk->done, 1) + 1 != g.nblocks)
		return;
	desk->calls = b->calls + 1;
	desk->met = b->met + meetings * g.nblocks;
	desk->way = (uint32_t)way;
	desk->done = 0; /* for the next launch */
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* Called by one thread of block 0 for each other rank. */
ORIEL_DEV void ori_node_show(const struct ori_node_op *a, uint64_t number, int peer)
{
	struct ori_coll_record record = { 0 };

	record.number = number;
	record.call = a->call;
	record.places = a->places;
	ori_coll_desk_put(a->near[peer].desk, a->near[peer].signals + a->ready,
			  ori_node_waiters(a, peer), a->comm.rank, &record);
}

/*
 * Called by one thread: waits for the record of a rank.  *way: what it makes necessary.  rooted: a
 * constant, the call may have a root.
 */
ORIEL_DEV int ori_node_look(const struct ori_node_op *a, uint64_t number, int peer, int *way,
			    int rooted)
{
	const struct ori_coll_record *r = &ori_node_desk(a)->from[peer];
	int err = ori_node_await(a, peer, a->ready, number);

	if (err)
		return err;
	if (r->number != number || r->call.size != a->call.size || r->call.kind != a->call.kind ||
	    r->call.type != a->call.type || r->call.op != a->call.op || r->call.refused ||
	    (rooted && r->call.root != a->call.root))
		*way = ORI_NODE_DIFFERS;
	else if (*way == ORI_NODE_DIRECT && (r->places.send_window != a->places.send_window ||
					     r->places.recv_window != a->places.recv_window))
		*way = ORI_NODE_STAGED;
	return 0;
}

/* Where the buffers of a rank are, in windows. */
ORIEL_DEV void ori_node_place(const struct ori_node_op *a, int peer, struct ori_node_reach *reach)
{
	const struct ori_coll_places *p = &ori_node_desk(a)->from[peer].places;

	if (peer == a->comm.rank)
		p = &a->places;
	reach->send[peer] = a->near[peer].send + p->send_off;
	reach->recv[peer] = a->near[peer].recv + p->recv_off;
}

/* Called by all threads: *way is how the call goes, the same for all blocks of all ranks. */
ORIEL_DEV int ori_node_begin(const struct ori_node_op *a, struct oriel_group g,
			     const struct ori_node_base *b, struct ori_node_reach *reach, int *way,
			     int rooted)
{
	int mine = a->places.send_window < 0 ? ORI_NODE_STAGED : ORI_NODE_DIRECT;
	int r, n = a->comm.nranks, err = 0;

	for (r = ori_node_lane(g); r < n && !g.block; r += ori_node_lanes(g))
		if (r != a->comm.rank)
			ori_node_show(a, b->calls + 1, r);
	for (r = ori_node_lane(g); r < n && !err; r += ori_node_lanes(g)) {
		if (r != a->comm.rank)
			err = ori_node_look(a, b->calls + 1, r, &mine, rooted);
		if (ORIEL_ON_GPU && !err && mine == ORI_NODE_DIRECT)
			ori_node_place(a, r, reach);
	}
	*way = ORI_NODE_DIRECT;
	if (ori_group_any(g, err || mine != ORI_NODE_DIRECT)) {
		err = ori_group_agree_any(g, err);
		*way = ori_group_any(g, mine == ORI_NODE_DIFFERS) ? ORI_NODE_DIFFERS :
								    ORI_NODE_STAGED;
	} else if (!ORIEL_ON_GPU) {
		for (r = 0; r < n; r++)
			ori_node_place(a, r, reach);
	}
	return err;
}

/*
 * Ranks have made different calls.  When all blocks know that, block 0 meets the other ranks where
 * their calls wait, and learns what differs.
 */
ORIEL_DEV_OUT int ori_node_differs(const struct ori_node_op *a, ORI_VALUE(oriel_group) g)
{
	int err = oriel_grid_sync(&a->team->win, g, ORI_COLL_GRID);
	struct ori_exchange x;

	if (err || g.block)
		return err;
	err = ori_exchange_begin(&x, a->team, g, 0, &a->call);
	if (!err)
		err = ori_coll_compare(&x);
	return err ? err : ORIEL_EMISMATCH;
}

#endif
