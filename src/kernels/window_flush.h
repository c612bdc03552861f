/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/window_flush.h - how a host-issued operation becomes complete and delivered.
 *
 * A kernel's flush covers the operations of its own block.  Host code issues operations one by one
 * and must not know about blocks and lanes.  So these functions cover all lanes, and the companion
 * queues too: when they return, counters have counted what was complete.
 *
 * Device code.  Called by: kernels/window_ops.c.
 */
#ifndef ORI_KERNELS_WINDOW_FLUSH_H
#define ORI_KERNELS_WINDOW_FLUSH_H

#include <oriel/device.h>

/* Called by one thread: all lanes of a queued peer. */
ORIEL_DEV_OUT int ori_flush_lanes(const struct oriel_window_dev *win,
				  const struct oriel_window_link *l)
{
	struct ori_op_context context = ori_call_context(win, ORIEL_CALL_FLUSH);
	uint32_t n;
	int err = 0;

	for (n = 0; n < l->link->nlanes && !err; n++) {
		struct oriel_queue *companion = l->link->lanes[n].companion;

		err = ori_queue_wait(&context, l->link->lanes[n].main,
				     ori_queue_rung(l->link->lanes[n].main));
		if (!err)
			err = ori_queue_wait(&context, companion, ori_queue_rung(companion));
	}
	return err;
}

/*
 * All operations to the peer that this rank posted before, in any block: peer < 0 for all peers.
 * Blocks that are still running may post more meanwhile.
 */
ORIEL_DEV int ori_flush_blocks(const struct oriel_window_dev *win, struct oriel_group g, int peer)
{
	int first = peer < 0 ? 0 : peer, last = peer < 0 ? win->comm.nranks - 1 : peer;
	int err = peer < 0 ? oriel_flush_all(win, g) : oriel_flush(win, g, peer);

	if (err || !win->queued_peers)
		return err;
	for (; first <= last && !err && oriel_group_is_leader(g); first++)
		if (ori_peer_entry(win, first)->link)
			err = ori_flush_lanes(win, ori_peer_entry(win, first)->link);
	return ori_group_agree(g, err);
}

/* Waits until the counters have counted what this block posted to the peer and is complete. */
ORIEL_DEV int ori_flush_counts(const struct oriel_window_dev *win, struct oriel_group g, int peer)
{
	const struct oriel_window_link *l = ori_peer_entry(win, peer)->link;
	struct ori_op_context context;
	struct oriel_queue *q;
	int err = 0;

	if (!l)
		return 0;
	if (oriel_group_is_leader(g)) {
		context = ori_call_context(win, ORIEL_CALL_FLUSH);
		q = l->link->lanes[ori_lane_of(l->link, g)].companion;
		err = ori_queue_wait(&context, q, ori_queue_rung(q));
	}
	return ori_group_agree(g, err);
}

#endif
