/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/counter.h - bodies of device.h: counters.
 *
 * One word per (peer, id) in this rank's memory counts the complete operations to the peer that
 * named the counter.  A reset moves a base, as with signals, because a NIC may write the word.
 */
#ifndef ORIEL_DEVICE_COUNTER_H
#define ORIEL_DEVICE_COUNTER_H

#include "window.h"

/*
 * Each lane has its own word, since two NICs must not add to one word.  The counter is their sum.
 */
ORIEL_DEV uint64_t ori_counter_sum(const struct oriel_window_dev *win, int peer, int id)
{
	uint64_t sum = 0;
	uint32_t lane;

	for (lane = 0; lane < win->counter_lanes; lane++)
		/* [SIG4] acquire, system scope; partner [SIG1], or [SOFT7], [PROXY7] or the NIC. */
		sum += ori_load_acquire_sys(ori_counter_word(win, peer, lane, id));
	return sum;
}

ORIEL_DEV uint64_t *ori_counter_base(const struct oriel_window_dev *win, int peer, int id)
{
	return &win->counter_base[(uint64_t)peer * win->counter_stride + (uint64_t)id];
}

ORIEL_DEV uint64_t oriel_read_counter(const struct oriel_window_dev *win, int peer, int id)
{
	return ori_counter_sum(win, peer, id) -
	       ori_load_relaxed_sys(ori_counter_base(win, peer, id));
}

/*
 * After the count is reached: did all counted operations succeed?  Only needed if the NIC also
 * counts failed operations.
 */
ORIEL_DEV int ori_counter_verify(const struct oriel_window_dev *win, int peer)
{
	const struct oriel_window_link *l = NULL;
	uint32_t n;
	int err = 0;

	if (ori_peer_is_queued(win, peer))
		l = ori_peer_entry(win, peer)->link;
	if (!l || !l->link || !(l->link->flags & ORIEL_LINK_SILENT))
		return 0;
	for (n = 0; n < l->link->nlanes && !err; n++)
		err = ori_queue_verify(l->link->lanes[n].main);
	return err;
}

ORIEL_DEV int oriel_wait_counter(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				 int id, int cmp, uint64_t value)
{
	struct ori_spin s;
	uint64_t have;
	int err = 0;

	if (ori_window_is_checked(win)) {
		err = ori_check_id(win, g, "wait_counter", "counter", id, win->counters);
		if (!err)
			err = ori_check_compare(win, g, "wait_counter", cmp);
		if (!err)
			err = ori_check_peer(win, g, "wait_counter", peer);
		if (err)
			return err;
	}
	if (oriel_group_is_leader(g)) {
		ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_COUNTER, peer, id,
			       win->number, value);
		ori_spin_within(&s, g);
		ori_spin_host(&s, ori_words_are_host(win, peer));
		err = ori_failed(&win->comm, win->failure);
		while (!err) {
			have = oriel_read_counter(win, peer, id);
			if (ori_compare(have, cmp, value))
				break;
			err = ori_spin(&s, have);
		}
		/*
		 * Some NICs count failed operations too.  Their failure is visible before the
		 * count.
		 */
		if (!err)
			err = ori_failed(&win->comm, win->failure);
		if (!err)
			err = ori_counter_verify(win, peer);
		ori_spin_end(&s);
	}
	return ori_group_agree(g, err);
}

ORIEL_DEV int oriel_wait_counter_all(const struct oriel_window_dev *win, struct oriel_group g,
				     int id, uint64_t value)
{
	struct ori_spin s;
	uint64_t have;
	int peer, err = 0;

	if (ori_window_is_checked(win)) {
		err = ori_check_id(win, g, "wait_counter_all", "counter", id, win->counters);
		if (!err)
			err = ori_check_live(win, g, "wait_counter_all");
		if (err)
			return err;
	}
	if (oriel_group_is_leader(g)) {
		ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_COUNTER, -1, id, win->number,
			       value);
		ori_spin_within(&s, g);
		ori_spin_host(&s, win->queued_peers != 0);
		err = ori_failed(&win->comm, win->failure);
		while (!err) {
			have = 0;
			for (peer = 0; peer < win->comm.nranks; peer++)
				have += oriel_read_counter(win, peer, id);
			if (ori_reached(have, value))
				break;
			err = ori_spin(&s, have);
		}
		if (!err)
			err = ori_failed(&win->comm, win->failure);
		for (peer = 0; peer < win->comm.nranks && win->queued_peers && !err; peer++)
			err = ori_counter_verify(win, peer);
		ori_spin_end(&s);
	}
	return ori_group_agree(g, err);
}

ORIEL_DEV int oriel_reset_counter(const struct oriel_window_dev *win, struct oriel_group g,
				  int peer, int id)
{
	int err = 0;

	if (ori_window_is_checked(win)) {
		err = ori_check_id(win, g, "reset_counter", "counter", id, win->counters);
		if (!err)
			err = ori_check_peer(win, g, "reset_counter", peer);
	}
	if (!err)
		err = ori_agree_window(win, g);
	if (err)
		return err;
	if (oriel_group_is_leader(g))
		ori_store_relaxed_sys(ori_counter_base(win, peer, id),
				      ori_counter_sum(win, peer, id));
	return ori_group_agree(g, 0);
}

#endif
