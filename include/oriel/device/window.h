/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/window.h - bodies of device.h: gets, completion and order.
 *
 * As with puts, an operation on a failed window does nothing, and all threads return the same
 * status.  Here the paths of mapped and queued peers separate.  A call on a mapped peer ends when
 * its group has met.  A call on a queued peer continues in window_queued.h.
 */
#ifndef ORIEL_DEVICE_WINDOW_H
#define ORIEL_DEVICE_WINDOW_H

#include "put.h"

/* ---- gets ------------------------------------------------------------------------------------ */

ORIEL_DEV int ori_get_move(const struct oriel_window_dev *win, struct oriel_group g,
			   struct ori_transfer t, int blocking)
{
	const struct oriel_window_peer *p = ori_peer_entry(win, t.peer);

	if (!ori_peer_is_mapped(p))
		return ori_get_queued(win, g, p->link, t, blocking);
	/*
	 * A mapped peer's bytes have arrived when the copy ends, so a flush has nothing to wait
	 * for.
	 */
	if (t.bytes)
		ori_group_copy(g, (uint8_t *)(uintptr_t)ori_transfer_local(t), p->buffer + t.offset,
			       t.bytes);
	return ori_agree_window(win, g);
}

ORIEL_DEV_OUT int ori_get_bytes(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				const char *call, ORI_VALUE(ori_transfer) t, int blocking)
{
	int err = ori_window_is_checked(win) ? ori_check_transfer(win, g, call, t) : 0;
	struct ori_trace_note n;

	if (err)
		return err;
	n = ori_trace_note_of(ORIEL_TRACE_GET, ori_trace_begin(&win->comm, g), t.peer, -1,
			      win->number);
	n.bytes = t.bytes;
	err = ori_get_move(win, g, t, blocking);
	ori_trace_end(&win->comm, g, n, err);
	return err;
}

ORIEL_DEV int oriel_get(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			uint64_t src_off, const struct oriel_source *dst, uint64_t dst_off,
			uint64_t bytes)
{
	return ori_get_bytes(win, g, "get", ori_transfer_of(peer, src_off, dst, dst_off, bytes), 1);
}

ORIEL_DEV int oriel_get_nbi(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			    uint64_t src_off, const struct oriel_source *dst, uint64_t dst_off,
			    uint64_t bytes)
{
	return ori_get_bytes(win, g, "get_nbi", ori_transfer_of(peer, src_off, dst, dst_off, bytes),
			     0);
}

/*
 * Called by one thread: reads `bytes` of the window buffer of a mapped or queued peer into `words`.
 */
ORIEL_DEV int ori_get_words(const struct oriel_window_dev *win, struct oriel_group g,
			    const struct oriel_window_peer *p, uint64_t src_off, uint64_t *words,
			    uint64_t bytes)
{
	struct ori_op_context context;
	struct ori_fetch fetch;
	int err = ori_failed(&win->comm, win->failure);

	if (err)
		return err;
	if (ori_peer_is_mapped(p)) {
		memcpy(words, p->buffer + src_off, ori_seen_bytes(bytes));
		return 0;
	}
	context = ori_call_context(win, ORIEL_CALL_GET);
	fetch = ori_window_fetch(p->link, g, src_off);
	return ori_fetch_bytes(&context, &fetch, words, bytes);
}

ORIEL_DEV int oriel_get_value(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			      uint64_t src_off, void *out, uint64_t bytes)
{
	const struct oriel_window_peer *p;
	uint64_t words[4] = { 0, 0, 0, 0 };
	int err = 0;
	uint32_t i;

	if (ori_window_is_checked(win))
		err = ori_check_value(win, g, "get_value", peer, src_off, bytes);
	if (err)
		return err;
	p = ori_peer_entry(win, peer);
	if (!ori_peer_is_mapped(p) && !p->link)
		return ORIEL_ENOTCONN;
	/*
	 * The leader reads for all: so all threads get the same bytes, even if the peer is writing.
	 */
	if (oriel_group_is_leader(g))
		err = ori_get_words(win, g, p, src_off, words, bytes);
	for (i = 0; i < (bytes + 7) / 8; i++)
		err = ori_group_agree_value(g, err, &words[i]);
	if (!err)
		memcpy(out, words, bytes);
	return err;
}

/* ---- completion and order -------------------------------------------------------------------- */

/*
 * Mapped peers and self: a fence orders each thread's own stores (docs/decisions/0007), then the
 * group meets.
 */
ORIEL_DEV int oriel_fence(const struct oriel_window_dev *win, struct oriel_group g, int peer)
{
	const struct oriel_window_peer *p;
	struct ori_op_context context;
	int err = 0;

	if (ori_window_is_checked(win))
		err = ori_check_peer(win, g, "fence", peer);
	ori_fence_sys(); /* no partner of ours: it orders the user's puts */
	if (!err)
		err = ori_agree_window(win, g);
	if (err)
		return err;
	p = ori_peer_entry(win, peer);
	if (ori_peer_is_mapped(p))
		return 0;
	if (!p->link)
		return ORIEL_ENOTCONN;
	if (oriel_group_is_leader(g)) {
		context = ori_call_context(win, ORIEL_CALL_FENCE);
		err = ori_lane_fence(&context, p->link->link, ori_lane_of(p->link->link, g));
	}
	return ori_group_agree(g, err);
}

ORIEL_DEV int oriel_flush(const struct oriel_window_dev *win, struct oriel_group g, int peer)
{
	const struct oriel_window_peer *p;
	int err = 0;

	if (ori_window_is_checked(win))
		err = ori_check_peer(win, g, "flush", peer);
	ori_fence_sys(); /* no partner of ours: it orders the user's puts */
	if (!err)
		err = ori_agree_window(win, g);
	if (err)
		return err;
	p = ori_peer_entry(win, peer);
	if (ori_peer_is_mapped(p))
		return 0;
	if (oriel_group_is_leader(g))
		err = ori_flush_queued(win, g, p->link);
	return ori_group_agree(g, err);
}

/* Called by one thread. */
ORIEL_DEV_OUT int ori_flush_queued_all(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g)
{
	int peer, err = 0;

	for (peer = 0; peer < win->comm.nranks && !err && win->queued_peers; peer++)
		/* nothing was posted to a peer without queues */
		if (ori_peer_entry(win, peer)->link)
			err = ori_flush_queued(win, g, ori_peer_entry(win, peer)->link);
	return err;
}

ORIEL_DEV int oriel_flush_all(const struct oriel_window_dev *win, struct oriel_group g)
{
	int err = 0;

	if (ori_window_is_checked(win))
		err = ori_check_live(win, g, "flush_all");
	ori_fence_sys(); /* no partner of ours: it orders the user's puts */
	if (!err)
		err = ori_agree_window(win, g);
	if (err || !win->queued_peers)
		return err;
	if (oriel_group_is_leader(g))
		err = ori_flush_queued_all(win, g);
	return ori_group_agree(g, err);
}

ORIEL_DEV int oriel_take_ticket(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				struct oriel_ticket *ticket)
{
	const struct oriel_window_peer *p;
	int err = 0;

	if (ori_window_is_checked(win))
		err = ori_check_peer(win, g, "take_ticket", peer);
	if (err)
		return err;
	p = ori_peer_entry(win, peer);
	ticket->peer = peer;
	ticket->lane = 0;
	ticket->index = 0;
	if (ori_peer_is_mapped(p))
		return 0;
	if (!p->link)
		return ORIEL_ENOTCONN;
	ticket->lane = ori_lane_of(p->link->link, g);
	if (oriel_group_is_leader(g))
		ticket->index = ori_queue_rung(p->link->link->lanes[ticket->lane].main);
	return ori_group_agree_value(g, 0, &ticket->index);
}

ORIEL_DEV int oriel_wait_local(const struct oriel_window_dev *win, struct oriel_group g,
			       const struct oriel_ticket *ticket, uint64_t timeout_ns)
{
	const struct oriel_window_peer *p;
	struct ori_op_context context;
	int err = 0;

	if (ori_window_is_checked(win))
		err = ori_check_peer(win, g, "wait_local", ticket->peer);
	if (!err)
		err = ori_agree_window(win, g);
	if (err)
		return err;
	p = ori_peer_entry(win, ticket->peer);
	if (ori_peer_is_mapped(p))
		return 0;
	if (!p->link)
		return ORIEL_ENOTCONN;
	if (oriel_group_is_leader(g)) {
		context = ori_call_context(win, ORIEL_CALL_WAIT_LOCAL);
		if (timeout_ns)
			context.timeout_ns = timeout_ns;
		err = ori_queue_wait(&context, p->link->link->lanes[ticket->lane].main,
				     ticket->index);
	}
	return ori_group_agree(g, err);
}

#endif
