/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/signal_send.h - bodies of device.h: signals at their sender.  signal.h says what a
 * signal is and has the receiver's calls.
 */
#ifndef ORIEL_DEVICE_SIGNAL_SEND_H
#define ORIEL_DEVICE_SIGNAL_SEND_H

#include "signal.h"

/* Called by one thread after its group met. */
ORIEL_DEV int ori_signal_peer(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			      int id, int op, uint64_t value)
{
	struct oriel_window_peer p = ori_window_entry(win, peer);

	if (!ori_peer_is_mapped(&p))
		return ori_signal_queued(win, g, p.link, peer, id, op, value);
	if (op == ORIEL_ADD && p.flags & ORIEL_PEER_NO_ATOMICS)
		ori_signal_in_turn(win, peer, id, value);
	else
		ori_word_signal(&p.signals[id], op,
				op == ORIEL_SET ? win->first_count + value : value, p.waiters);
	return 0;
}

ORIEL_DEV int ori_signal_one(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			     int id, int op, uint64_t value)
{
	struct oriel_window_peer p;
	int err = ori_agree_window(win, g);

	if (err)
		return err;
	if (oriel_group_is_leader(g))
		err = ori_signal_peer(win, g, peer, id, op, value);
	p = ori_window_entry(win, peer);
	/* Storing to a mapped word cannot fail; posting can. */
	return ori_peer_is_mapped(&p) ? 0 : ori_group_agree(g, err);
}

/* Notes a signal; n has its beginning. */
ORIEL_DEV void ori_trace_signal(const struct oriel_window_dev *win, struct oriel_group g, int op,
				uint64_t value, struct ori_trace_note n, int status)
{
	n.op = op;
	n.value = value;
	ori_trace_end(&win->comm, g, n, status);
}

ORIEL_DEV_OUT int ori_watch_signal(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				   int peer, int id, int op, uint64_t value)
{
	struct ori_trace_note n;
	int err = 0;

	if (ori_window_is_checked(win)) {
		err = ori_check_signal(win, g, "signal", id, op);
		if (!err)
			err = ori_check_peer(win, g, "signal", peer);
		if (!err)
			err = ori_check_mixed(win, g, "signal", peer, id, op);
	}
	if (err || !ori_traced_beside(&win->comm))
		return err;
	n = ori_trace_note_of(ORIEL_TRACE_SIGNAL, ori_trace_begin(&win->comm, g), peer, id,
			      win->number);
	err = ori_signal_one(win, g, peer, id, op, value);
	ori_trace_signal(win, g, op, value, n, err);
	return err ? err : ORI_WATCHED;
}

/* On a GPU it notes itself, as ori_put_noted(). */
ORIEL_DEV int ori_signal_noted(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			       int id, int op, uint64_t value)
{
	struct ori_trace_note n = ori_trace_start(&win->comm, g, ORIEL_TRACE_SIGNAL, peer, id,
						  win->number);
	int err = ori_signal_one(win, g, peer, id, op, value);

	ori_trace_signal(win, g, op, value, n, err);
	return err;
}

ORIEL_DEV int oriel_signal(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			   int id, int op, uint64_t value)
{
	int err = ori_window_goes_beside(win) ? ori_watch_signal(win, g, peer, id, op, value) : 0;

	return err ? ori_watched_status(err) : ori_signal_noted(win, g, peer, id, op, value);
}

ORIEL_DEV int ori_signal_all(const struct oriel_window_dev *win, struct oriel_group g, int id,
			     int op, uint64_t value)
{
	/* signals all of them or none */
	int peer, err = win->absent_peers ? ORIEL_ENOTCONN : 0;

	if (!err)
		err = ori_agree_window(win, g);
	if (err)
		return err;
	for (peer = (int)g.thread; peer < win->comm.nranks; peer += (int)g.size)
		if (peer != win->comm.rank && ori_peer_is_mapped(ori_peer_entry(win, peer)))
			ori_signal_peer(win, g, peer, id, op, value);
	if (!win->queued_peers)
		return 0;
	for (peer = 0; peer < win->comm.nranks && !err && oriel_group_is_leader(g); peer++)
		if (!ori_peer_is_mapped(ori_peer_entry(win, peer)))
			err = ori_signal_peer(win, g, peer, id, op, value);
	return ori_group_agree(g, err);
}

ORIEL_DEV_OUT int ori_watch_signal_all(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				       int id, int op, uint64_t value)
{
	struct ori_trace_note n;
	int err = 0;

	if (ori_window_is_checked(win)) {
		err = ori_check_signal(win, g, "signal_all", id, op);
		if (!err)
			err = ori_check_live(win, g, "signal_all");
		if (!err)
			err = ori_check_mixed_all(win, g, "signal_all", id, op);
	}
	if (err || !ori_traced_beside(&win->comm))
		return err;
	n = ori_trace_note_of(ORIEL_TRACE_SIGNAL, ori_trace_begin(&win->comm, g), -1, id,
			      win->number);
	err = ori_signal_all(win, g, id, op, value);
	ori_trace_signal(win, g, op, value, n, err);
	return err ? err : ORI_WATCHED;
}

ORIEL_DEV int ori_signal_all_noted(const struct oriel_window_dev *win, struct oriel_group g, int id,
				   int op, uint64_t value)
{
	struct ori_trace_note n = ori_trace_start(&win->comm, g, ORIEL_TRACE_SIGNAL, -1, id,
						  win->number);
	int err = ori_signal_all(win, g, id, op, value);

	ori_trace_signal(win, g, op, value, n, err);
	return err;
}

ORIEL_DEV int oriel_signal_all(const struct oriel_window_dev *win, struct oriel_group g, int id,
			       int op, uint64_t value)
{
	int err = ori_window_goes_beside(win) ? ori_watch_signal_all(win, g, id, op, value) : 0;

	return err ? ori_watched_status(err) : ori_signal_all_noted(win, g, id, op, value);
}

#endif
