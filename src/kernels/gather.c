/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/gather.c - the kernels of an all-gather on a stream: they signal and wait, post to
 * queues, and copy small blocks.
 *
 * Compiled twice: as C, which gives the kernel its name (and a body for the CPU), and by nvcc into
 * the library's image.  All except ORI_GATHER_ALL are one block of one warp.  An error becomes the
 * failure of the request's words.  Every later kernel of the request then returns at once.
 *
 * Order: as in coll/allgather/run.c.  Copies of the stream run between kernels.  They start after
 * the kernel before them ends, and end before the next kernel starts.
 */
#include "gather.h"

/*
 * Waits until all n peers have reached `want` on that word.  The lanes divide the peers among them.
 */
ORIEL_DEV int ori_gather_wait_all(const struct oriel_window_dev *w, struct oriel_group g,
				  const int32_t *peers, int n, int id, uint64_t want)
{
	uint32_t lanes = ori_group_lanes(g);
	int err = 0;

	for (int i = (int)g.thread; g.thread < lanes && i < n && !err; i += (int)lanes)
		err = ori_signal_wait(w, g, peers[i], id, ORIEL_GE, want);
	return ori_group_agree_any(g, err);
}

/*
 * Called after the group met.  The lanes divide mapped peers among them; the leader signals queued
 * peers.
 */
ORIEL_DEV int ori_gather_tell(const struct oriel_window_dev *w, struct oriel_group g,
			      const int32_t *peers, int n, int id, int mapped)
{
	int lanes = mapped ? (int)ori_group_lanes(g) : 1, err = 0;

	for (int i = (int)g.thread; (int)g.thread < lanes && i < n && !err; i += lanes)
		err = ori_signal_peer(w, g, peers[i], id, ORIEL_ADD, 1);
	return err;
}

/* Called by the leader: sends an item to all its flows, in pieces. */
ORIEL_DEV int ori_gather_send(const struct ori_gather_op *a, int item)
{
	const struct ori_gather_table *t = &a->plan;
	uint64_t off = (uint64_t)t->block[item] * a->bytes, at, n;
	int err = 0;

	for (int s = t->send_first[item]; s < t->send_first[item + 1] && !err; s++)
		for (uint64_t k = 0; k < a->pieces && !err; k++) {
			uint64_t seq = (uint64_t)t->send_place[s] * a->pieces + k;

			at = k * a->chunk;
			n = a->bytes - at < a->chunk ? a->bytes - at : a->chunk;
			err = ori_gather_put(&a->view, &a->words, t->out_peer[t->send_flow[s]],
					     (uint32_t)(seq % a->lanes), off + at, n);
		}
	return err;
}

/* Waits until all pieces of an item are here. */
ORIEL_DEV int ori_gather_arrived(const struct ori_gather_op *a, struct oriel_group g, int item)
{
	const struct ori_gather_table *t = &a->plan;
	int peer = t->in_peer[t->from[item]], err = 0;
	uint64_t all = ((uint64_t)t->place[item] + 1) * a->pieces;

	for (uint32_t l = 0; l < a->lanes && !err; l++)
		err = oriel_wait_signal_from(&a->words, g, peer, ORI_GATHER_NET + (int)l, ORIEL_GE,
					     ori_gather_share(all, a->lanes, l));
	return err;
}

ORIEL_DEV int ori_gather_step(const struct ori_gather_op *a, struct oriel_group g, int item)
{
	int err = ori_gather_arrived(a, g, item);

	if (!err && oriel_group_is_leader(g))
		err = ori_gather_send(a, item);
	return ori_group_agree(g, err);
}

/* Called after the group met: signals READY to all ranks that will write here. */
ORIEL_DEV int ori_gather_ready(const struct ori_gather_op *a, struct oriel_group g)
{
	int err = ori_gather_tell(&a->words, g, a->plan.mapped, a->plan.nmapped, ORI_GATHER_READY,
				  1);

	return err ? err :
		     ori_gather_tell(&a->words, g, a->plan.in_peer, a->plan.nin, ORI_GATHER_READY,
				     0);
}

/* Waits until queued peers may be written to, and sends them the own block. */
ORIEL_DEV int ori_gather_start(const struct ori_gather_op *a, struct oriel_group g)
{
	int err = 0;

	if (a->guarded)
		err = ori_gather_wait_all(&a->words, g, a->plan.out_peer, a->plan.nout,
					  ORI_GATHER_READY, 1);
	if (!err && oriel_group_is_leader(g))
		err = ori_gather_send(a, 0);
	return ori_group_agree(g, err);
}

ORIEL_DEV int ori_gather_begin(const struct ori_gather_op *a, struct oriel_group g)
{
	int err = ori_agree_window(&a->words, g);

	if (!err && a->guarded)
		err = ori_gather_ready(a, g);
	err = ori_group_agree_any(g, err);
	if (!err)
		err = ori_gather_start(a, g);
	if (!err && a->guarded)
		err = ori_gather_wait_all(&a->words, g, a->plan.mapped, a->plan.nmapped,
					  ORI_GATHER_READY, 1);
	return err;
}

/*
 * Called by the lanes: the next exec counts from the end of this one, with `local` LOCALs from each
 * mapped peer.
 */
ORIEL_DEV void ori_gather_advance_all(const struct ori_gather_op *a, struct oriel_group g,
				      uint64_t local)
{
	const struct ori_gather_table *t = &a->plan;
	int lanes = (int)ori_group_lanes(g), i;

	for (i = (int)g.thread; (int)g.thread < lanes && i < t->nmapped; i += lanes) {
		ori_gather_advance(&a->words, t->mapped[i], ORI_GATHER_READY, a->guarded);
		ori_gather_advance(&a->words, t->mapped[i], ORI_GATHER_LOCAL, local);
	}
	for (int f = 0; f < t->nout && oriel_group_is_leader(g); f++)
		ori_gather_advance(&a->words, t->out_peer[f], ORI_GATHER_READY, a->guarded);
	for (int f = 0; f < t->nin && oriel_group_is_leader(g); f++)
		for (uint32_t l = 0; l < a->lanes; l++)
			ori_gather_advance(&a->words, t->in_peer[f], ORI_GATHER_NET + (int)l,
					   ori_gather_share((uint64_t)t->in_items[f] * a->pieces,
							    a->lanes, l));
}

/*
 * Everything has been sent.  When everything has also arrived, the exec ends.  told: mapped peers
 * already know that all data from this rank is there.
 */
ORIEL_DEV int ori_gather_finish(const struct ori_gather_op *a, struct oriel_group g, int told,
				uint64_t local)
{
	const struct ori_gather_table *t = &a->plan;
	int err = ori_agree_window(&a->words, g);

	if (!err && !told)
		err = ori_gather_tell(&a->words, g, t->mapped, t->nmapped, ORI_GATHER_LOCAL, 1);
	if (!err)
		err = ori_gather_wait_all(&a->words, g, t->mapped, t->nmapped, ORI_GATHER_LOCAL,
					  local);
	if (!err && oriel_group_is_leader(g))
		for (int f = 0; f < t->nout && !err; f++)
			err = ori_gather_flush(&a->words, t->out_peer[f], a->lanes);
	err = ori_group_agree(g, err);
	if (!err)
		ori_gather_advance_all(a, g, local);
	return err;
}

ORIEL_DEV int ori_gather_end(const struct ori_gather_op *a, struct oriel_group g)
{
	int err = ori_agree_window(&a->words, g);

	for (int i = a->first; i < a->plan.nitems && !err; i++)
		err = ori_gather_step(a, g, i);
	return err ? err : ori_gather_finish(a, g, 0, 1);
}

/* ---- small blocks: copies too --------------------------------------------------------------- */

/* Item n: stores a slice of the own block at its target, a mapped peer or self. */
ORIEL_DEV int ori_gather_store(const struct ori_gather_op *a, struct oriel_group g, uint32_t n)
{
	const struct ori_gather_table *t = &a->plan;
	uint32_t targets = (uint32_t)t->nmapped + 1, which = n % targets;
	uint64_t cut = (a->bytes + a->slices - 1) / a->slices, at;
	uint64_t own = (uint64_t)(uint32_t)a->words.comm.rank * a->bytes, bytes;
	int self = which == targets - 1, err = 0;
	uint8_t *to;

	cut = (cut + 15) & ~(uint64_t)15;
	at = cut * (n / targets);
	bytes = at < a->bytes ? (a->bytes - at < cut ? a->bytes - at : cut) : 0;
	if (a->guarded && !self)
		err = oriel_wait_signal_from(&a->words, g, t->mapped[which], ORI_GATHER_READY,
					     ORIEL_GE, 1);
	if (err)
		return err;
	to = (self ? a->view.buffer : a->view.mapped[t->mapped[which]]) + own + at;
	if (bytes && to != a->send + at)
		ori_group_copy(g, to, a->send + at, bytes);
	err = ori_agree_window(&a->words, g);
	if (!err && !self && oriel_group_is_leader(g))
		err = ori_signal_peer(&a->words, g, t->mapped[which], ORI_GATHER_LOCAL, ORIEL_ADD,
				      1);
	return ori_group_agree(g, err);
}

/* Stores this block's items, for any number of blocks. */
ORIEL_DEV int ori_gather_share_out(const struct ori_gather_op *a, struct oriel_group g)
{
	uint32_t items = ((uint32_t)a->plan.nmapped + 1) * a->slices, n;
	int err = ori_agree_window(&a->words, g);

	if (!err && a->guarded && g.block == 0)
		err = ori_gather_ready(a, g);
	err = ori_group_agree_any(g, err);
	for (n = g.block; n < items && !err; n += g.nblocks)
		err = ori_gather_store(a, g, n);
	return err;
}

/* Forwards a block that came from another node to all ranks of this node. */
ORIEL_DEV int ori_gather_relay(const struct ori_gather_op *a, struct oriel_group g, int item)
{
	const struct ori_gather_table *t = &a->plan;
	uint64_t off = (uint64_t)t->block[item] * a->bytes;
	int err = ori_gather_step(a, g, item);

	for (int i = 0; a->relay && i < t->nmapped && !err; i++)
		ori_group_copy(g, a->view.mapped[t->mapped[i]] + off, a->view.buffer + off,
			       a->bytes);
	return err;
}

/* Is this the last block of the grid?  It sees what all others did. */
ORIEL_DEV int ori_gather_is_last(const struct ori_gather_op *a, struct oriel_group g)
{
	uint64_t before = 0;

	(void)oriel_group_sync(g);
	/*
	 * [AGK1] acq_rel, device scope; its own partner.  Publishes a block's stores, and its
	 * failure if any, to the last block.  Without it the last block could tell peers of data
	 * that other blocks' stores have not yet delivered.
	 */
	if (oriel_group_is_leader(g)) {
		before = ori_fetch_add32_acq_rel(a->blocks_done, 1);
		if (before + 1 == g.nblocks)
			*a->blocks_done = 0; /* for the next launch */
	}
	(void)ori_group_agree_value(g, 0, &before);
	return before + 1 == g.nblocks;
}

/*
 * The blocks divide the stores among them.  The last block to end does the rest.  A failed block
 * counts too.
 */
ORIEL_DEV int ori_gather_all(const struct ori_gather_op *a, struct oriel_group g)
{
	int err = ori_gather_share_out(a, g);

	/* the last block finds the failure in the words, because it is stored before the count */
	if (err && oriel_group_is_leader(g))
		ori_gather_give_up(&a->words, err, a->words.comm.rank);
	if (!ori_gather_is_last(a, g))
		return 0;
	err = ori_agree_window(&a->words, g);
	if (!err)
		err = ori_gather_start(a, g);
	/* every mapped peer is ready, because a block has written to each */
	for (int i = 1; i < a->plan.nitems && !err; i++)
		err = ori_gather_relay(a, g, i);
	/*
	 * one LOCAL per slice, and one more if blocks of other nodes were forwarded; the same on
	 * all ranks
	 */
	return err ? err : ori_gather_finish(a, g, !a->relay, a->slices + (a->relay != 0));
}

ORIEL_DEV int ori_gather_op_run(const struct ori_gather_op *a, struct oriel_group g)
{
	switch (a->code) {
	case ORI_GATHER_BEGIN:
		return ori_gather_begin(a, g);
	case ORI_GATHER_STEP:
		return ori_gather_step(a, g, a->first);
	case ORI_GATHER_END:
		return ori_gather_end(a, g);
	default:
		return ori_gather_all(a, g);
	}
}

ORIEL_KERNEL(ori_gather_ops, struct ori_gather_op)
{
	struct oriel_group g = oriel_group_block();
	int err = ori_gather_op_run(a, g);

	if (err && oriel_group_is_leader(g))
		ori_gather_give_up(&a->words, err, a->words.comm.rank);
	return err;
}

#ifndef ORIEL_KERNEL_IMAGE
const struct oriel_kernel *ori_gather_kernel(void)
{
	return &ori_gather_ops;
}
#endif
