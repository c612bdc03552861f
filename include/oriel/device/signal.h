/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/signal.h - bodies of device.h: signals.
 *
 * A word per (source, id) in the receiver's memory, written by that source alone and never stored
 * to by the receiver.  Where a read counts from is the receiver's own `signal_base` (per source)
 * and `signal_sum_base` (for sums); resets and advances move those.  Bases are read and written
 * with relaxed atomics: they order nothing, the words do ([S1]/[W1] of mapped.h).
 */
#ifndef ORIEL_DEVICE_SIGNAL_H
#define ORIEL_DEVICE_SIGNAL_H

#include "window.h"

ORIEL_DEV uint64_t ori_signal_index(const struct oriel_window_dev *win, int peer, int id)
{
	return (uint64_t)peer * win->signal_stride + (uint64_t)id;
}

/* Where the source's word lies. */
ORIEL_DEV uint64_t *ori_signal_word(const struct oriel_window_dev *win, int peer, int id)
{
	return ori_words_of(win, peer, &win->signal_words[ori_signal_index(win, peer, id)]);
}

/* By one thread, after its group met. */
ORIEL_DEV int ori_signal_peer(ORI_WIN, int peer, int id, int op, uint64_t value)
{
	struct oriel_window_peer p = ori_window_entry(win, peer);

	if (!ori_peer_is_mapped(&p))
		return ori_signal_queued(win, g, p.link, peer, id, op, value);
	ori_mapped_signal(&p.signals[id], op, op == ORIEL_SET ? win->first_count + value : value,
			  p.waiters);
	return 0;
}

ORIEL_DEV int oriel_signal(ORI_WIN, int peer, int id, int op, uint64_t value)
{
	struct oriel_window_peer p;
	int err = 0;

	if (win->checked) {
		err = ori_check_signal(win, g, "signal", id, op);
		if (!err)
			err = ori_check_peer(win, g, "signal", peer);
	}
	if (!err)
		err = ori_agree_window(win, g);
	if (err)
		return err;
	if (oriel_group_is_leader(g))
		err = ori_signal_peer(win, g, peer, id, op, value);
	p = ori_window_entry(win, peer);
	/* Storing to a mapped word cannot fail; posting can. */
	return ori_peer_is_mapped(&p) ? 0 : ori_group_agree(g, err);
}

ORIEL_DEV int oriel_signal_all(ORI_WIN, int id, int op, uint64_t value)
{
	int peer, err = 0;

	if (win->checked) {
		err = ori_check_signal(win, g, "signal_all", id, op);
		if (!err)
			err = ori_check_live(win, g, "signal_all");
	}
	if (!err)
		err = ori_agree_window(win, g);
	if (err)
		return err;
	for (peer = (int)g.thread; peer < win->comm.nranks; peer += (int)g.size)
		if (peer != win->comm.rank && ori_peer_is_mapped(ori_window_peer(win, peer)))
			ori_signal_peer(win, g, peer, id, op, value);
	if (!win->queued_peers)
		return 0;
	for (peer = 0; peer < win->comm.nranks && !err && oriel_group_is_leader(g); peer++)
		if (!ori_peer_is_mapped(ori_window_peer(win, peer)))
			err = ori_signal_peer(win, g, peer, id, op, value);
	return ori_group_agree(g, err);
}

ORIEL_DEV int oriel_wait_signal_from(ORI_WIN, int peer, int id, int cmp, uint64_t value)
{
	struct ori_spin s;
	uint64_t i;
	int err = 0;

	if (win->checked) {
		err = ori_check_id(win, g, "wait_signal_from", "signal id out of range", id,
				   win->signals);
		if (!err)
			err = ori_check_compare(win, g, "wait_signal_from", cmp);
		if (!err)
			err = ori_check_peer(win, g, "wait_signal_from", peer);
		if (err)
			return err;
	}
	if (oriel_group_is_leader(g)) {
		i = ori_signal_index(win, peer, id);
		ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_SIGNAL, peer, id, win->number,
			       value);
		ori_spin_host(&s, ori_words_are_host(win, peer));
		err = ori_mapped_wait(&s, ori_signal_word(win, peer, id),
				      ori_load_relaxed_sys(&win->signal_base[i]), cmp);
	}
	return ori_group_agree(g, err);
}

ORIEL_DEV uint64_t oriel_read_signal_from(const struct oriel_window_dev *win, int peer, int id)
{
	/* The base first: a load after an acquire waits for it. */
	uint64_t base = ori_load_relaxed_sys(&win->signal_base[ori_signal_index(win, peer, id)]);

	/* [W1] acquire; partner [S1]: who reads the value may read the data. */
	return ori_load_acquire_sys(ori_signal_word(win, peer, id)) - base;
}

ORIEL_DEV uint64_t oriel_read_signal(const struct oriel_window_dev *win, int id)
{
	uint64_t sum = 0;
	int peer;

	for (peer = 0; peer < win->comm.nranks; peer++)
		sum += oriel_read_signal_from(win, peer, id);
	return sum - ori_load_relaxed_sys(&win->signal_sum_base[id]);
}

/*
 * By every lane of the group: the rows are shared out among them, and all get the same sum.  The
 * base is taken off by one of them: lanes that saw different ones would part.
 */
ORIEL_DEV uint64_t ori_signal_sum(ORI_WIN, uint32_t lanes, int id)
{
	uint64_t have = 0;
	int peer;

	if (oriel_group_is_leader(g))
		have -= ori_load_relaxed_sys(&win->signal_sum_base[id]);
	for (peer = (int)g.thread; peer < win->comm.nranks; peer += (int)lanes)
		have += oriel_read_signal_from(win, peer, id);
	return ori_lanes_sum(lanes, (uint32_t)win->comm.nranks, have);
}

/* The lanes stay together: all leave the loop in the same round. */
ORIEL_DEV int ori_wait_sum(ORI_WIN, uint32_t lanes, int id, uint64_t value)
{
	struct ori_look look = ori_look_at(&win->comm, win->failure);
	struct ori_spin s;
	uint64_t have;
	int err, spun = 0;

	ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_SIGNAL_SUM, -1, id, win->number,
		       value);
	ori_spin_host(&s, win->queued_peers != 0);
	for (;;) {
		have = ori_signal_sum(win, g, lanes, id);
		err = ori_lanes_status(lanes, spun ? spun : ori_look_status(look));
		if (err || ori_reached(have, value))
			break;
		spun = ori_spin(&s, have);
	}
	ori_spin_end(&s);
	return err;
}

ORIEL_DEV int oriel_wait_signal(ORI_WIN, int id, uint64_t value)
{
	uint32_t lanes = ori_group_lanes(g);
	int err = 0;

	if (win->checked) {
		err = ori_check_id(win, g, "wait_signal", "signal id out of range", id,
				   win->signals);
		if (!err)
			err = ori_check_live(win, g, "wait_signal");
		if (err)
			return err;
	}
	if (g.thread < lanes)
		err = ori_wait_sum(win, g, lanes, id, value);
	return ori_group_agree(g, err);
}

ORIEL_DEV int oriel_reset_signal(ORI_WIN, int id)
{
	int err = 0;
	int peer;

	if (win->checked) {
		err = ori_check_id(win, g, "reset_signal", "signal id out of range", id,
				   win->signals);
		if (!err)
			err = ori_check_live(win, g, "reset_signal");
	}
	if (!err)
		err = ori_agree_window(win, g);
	if (err)
		return err;
	for (peer = (int)g.thread; peer < win->comm.nranks; peer += (int)g.size) {
		uint64_t i = ori_signal_index(win, peer, id);

		ori_store_relaxed_sys(&win->signal_base[i],
				      ori_load_acquire_sys(ori_signal_word(win, peer, id)));
	}
	if (oriel_group_is_leader(g))
		ori_store_relaxed_sys(&win->signal_sum_base[id], 0);
	return ori_group_agree(g, 0);
}

/* One group at a time advances or resets an id, so load and store need not be one operation. */
ORIEL_DEV int ori_advance(ORI_WIN, uint64_t *base, uint64_t value)
{
	int err = ori_agree_window(win, g);

	if (err)
		return err;
	if (oriel_group_is_leader(g))
		ori_store_relaxed_sys(base, ori_load_relaxed_sys(base) + value);
	return ori_group_agree(g, 0);
}

ORIEL_DEV int oriel_signal_advance(ORI_WIN, int id, uint64_t value)
{
	int err = 0;

	if (win->checked) {
		err = ori_check_id(win, g, "signal_advance", "signal id out of range", id,
				   win->signals);
		if (!err)
			err = ori_check_live(win, g, "signal_advance");
	}
	return err ? err : ori_advance(win, g, &win->signal_sum_base[id], value);
}

ORIEL_DEV int oriel_signal_advance_from(ORI_WIN, int peer, int id, uint64_t value)
{
	int err = 0;

	if (win->checked) {
		err = ori_check_id(win, g, "signal_advance_from", "signal id out of range", id,
				   win->signals);
		if (!err)
			err = ori_check_peer(win, g, "signal_advance_from", peer);
	}
	return err ? err :
		     ori_advance(win, g, &win->signal_base[ori_signal_index(win, peer, id)], value);
}

#endif
