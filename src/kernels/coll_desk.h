/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/coll_desk.h - a rank tells the others which call of the host it makes.
 *
 * A long call (node.h) waits for these records only.  If they differ, it compares the calls on
 * channel 0 too, as all other calls do: there each rank learns what differs.
 *
 * There is one record per rank.  Nobody overwrites it while another rank reads it, because on a
 * separate device no call ends on a rank before all ranks have come to it.
 *
 * Included by: coll.c, node.h.
 */
#ifndef ORI_KERNELS_COLL_DESK_H
#define ORI_KERNELS_COLL_DESK_H

#include <oriel/device/coll.h>

#include "coll.h"

/* Called by one thread: puts a record into the desk of a rank. */
ORIEL_DEV void ori_coll_desk_put(struct ori_coll_desk *desk, uint64_t *ready,
				 struct oriel_waiters *waiters, int rank,
				 const struct ori_coll_record *record)
{
	desk->from[rank] = *record;
	/*
	 * [SIG1] inside, release, system scope; partner [SIG2] in ori_node_await().
	 * Publishes the record, and what this rank's stream did before this call: its elements are
	 * there, and its receive buffer may be written.
	 */
	ori_word_signal(ready, ORIEL_SET, record->number, waiters);
}

/*
 * Called by all threads of block 0, for a call that goes another way.  Nobody here waits for it, so
 * on a GPU the second warp does it.
 */
ORIEL_DEV void ori_coll_desk_tell(const struct ori_coll_args *a, struct oriel_group g)
{
	uint32_t lanes = ori_group_lanes(g), first = g.size >= 2 * lanes ? lanes : 0, r;
	const struct oriel_window_dev *win = &a->team.win;
	struct ori_coll_desk *own = (struct ori_coll_desk *)(void *)(win->buffer + a->stage_off);
	struct ori_coll_record record = { 0 };

	if (!a->stage_off || g.thread < first || g.thread >= first + lanes)
		return;
	record.number = own->calls + 1;
	record.call = a->call;
	record.places.send_window = record.places.recv_window = -1;
	(void)ori_lanes_status(lanes, 0); /* all have read the count */
	if (g.thread == first)
		own->calls = record.number;
	for (r = g.thread - first; r < (uint32_t)win->comm.nranks; r += lanes) {
		struct oriel_window_peer p = ori_window_entry(win, (int)r);

		if ((int)r != win->comm.rank)
			ori_coll_desk_put((struct ori_coll_desk *)(void *)(p.buffer + a->stage_off),
					  p.signals + ORI_COLL_READY(a->team.channels), p.waiters,
					  win->comm.rank, &record);
	}
}

#endif
