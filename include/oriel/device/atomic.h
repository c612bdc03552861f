/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/atomic.h - bodies of device.h: 8-byte atomics on a peer's window buffer.
 *
 * The leader does it once; the old value reaches every thread of the group.  acq_rel at system
 * scope, so a compare_swap can be a lock.
 */
#ifndef ORIEL_DEVICE_ATOMIC_H
#define ORIEL_DEVICE_ATOMIC_H

#include "window.h"

#define ORI_ATOMIC_ADD 1
#define ORI_ATOMIC_SWAP 2
#define ORI_ATOMIC_COMPARE_SWAP 3
/* Each failed try means that another rank succeeded; a million in a row is no longer contention. */
#define ORI_SWAP_TRIES 1000000u

ORIEL_DEV int ori_check_atomic(const struct oriel_window_dev *win, struct oriel_group g,
			       const char *call, int peer, uint64_t offset)
{
	const struct oriel_window_peer *p;
	uint64_t skew;
	int err = ori_check_range(win, g, call, "end of the window passed", offset, 8, win->bytes);

	if (!err)
		err = ori_check_peer(win, g, call, peer);
	if (err)
		return err;
	p = ori_peer_entry(win, peer);
	skew = p->link ? p->link->buffer_skew : (uint64_t)(uintptr_t)p->buffer;
	if (((skew + offset) & 7u) != 0)
		err = ori_refuse(win, g, ORIEL_EINVAL, call, "word is not 8-byte aligned; offset",
				 offset, 8);
	return err;
}

/* By one thread.  A NIC has no swap of one block: compare-swap until nobody came in between. */
ORIEL_DEV_OUT int ori_swap_queued(const struct ori_op_context *context,
				  const struct oriel_link *link, uint32_t lane, uint32_t block,
				  uint64_t offset, const uint32_t *key, uint64_t value,
				  uint64_t *old)
{
	uint64_t guess = 0;
	uint32_t tries;
	int err;

	for (tries = 0; tries < ORI_SWAP_TRIES; tries++) {
		err = ori_fetch_atomic(context, link, lane, block, 1, offset, key, guess, value,
				       old);
		if (err || *old == guess)
			return err;
		guess = *old;
	}
	return ORIEL_ETIMEDOUT;
}

ORIEL_DEV_OUT int ori_atomic_queued(ORI_WIN, const struct oriel_window_link *l, int what,
				    uint64_t offset, uint64_t expected, uint64_t value,
				    uint64_t *old)
{
	struct ori_op_context context;
	uint64_t before = 0;
	uint32_t lane;
	int err;

	if (!l)
		return ORIEL_ENOTCONN;
	if (!(l->link->flags & ORIEL_LINK_ATOMICS))
		return ori_refuse(win, g, ORIEL_EUNSUPPORTED, "atomic",
				  "the NIC has no atomics; window", (uint64_t)win->number, 0);
	err = ori_agree_window(win, g);
	if (err)
		return err;
	if (oriel_group_is_leader(g)) {
		context = ori_window_context(win);
		lane = ori_lane_of(l->link, g);
		offset += l->buffer_skew;
		if (what == ORI_ATOMIC_SWAP)
			err = ori_swap_queued(&context, l->link, lane, g.block, offset,
					      l->buffer_key, value, &before);
		else
			err = ori_fetch_atomic(&context, l->link, lane, g.block,
					       what == ORI_ATOMIC_COMPARE_SWAP, offset,
					       l->buffer_key, expected, value, &before);
	}
	err = ori_group_agree_value(g, err, &before);
	if (!err && old)
		*old = before;
	return err;
}

ORIEL_DEV_OUT int ori_atomic(ORI_WIN, const char *call, int what, int peer, uint64_t offset,
			     uint64_t expected, uint64_t value, uint64_t *old)
{
	const struct oriel_window_peer *p;
	uint64_t *word, before = 0;
	int err = 0;

	if (win->checked)
		err = ori_check_atomic(win, g, call, peer, offset);
	if (err)
		return err;
	p = ori_peer_entry(win, peer);
	if (!ori_peer_is_mapped(p))
		return ori_atomic_queued(win, g, p->link, what, offset, expected, value, old);
	if (p->flags & ORIEL_PEER_NO_ATOMICS)
		return ori_refuse(win, g, ORIEL_EUNSUPPORTED, call,
				  "no native atomics between this GPU and the peer's; rank",
				  (uint64_t)peer, 0);
	/* The group's earlier work comes before the atomic, as with a signal. */
	err = ori_agree_window(win, g);
	if (err)
		return err;
	if (oriel_group_is_leader(g)) {
		word = (uint64_t *)(void *)(p->buffer + offset);
		/*
		 * [FETCH3] release and acquire, system scope; partner: [FETCH3] of another rank on
		 * this word.  Publishes what the group wrote, and orders what it does next.  Without
		 * it a lock made of compare_swap would let its holder read old data.
		 */
		if (what == ORI_ATOMIC_ADD)
			before = ori_fetch_add_acq_rel_sys(word, value);
		else if (what == ORI_ATOMIC_SWAP)
			before = ori_swap_acq_rel_sys(word, value);
		else
			before = ori_compare_swap_acq_rel_sys(word, expected, value);
	}
	err = ori_group_agree_value(g, 0, &before);
	if (!err && old)
		*old = before;
	return err;
}

ORIEL_DEV int oriel_fetch_add(ORI_WIN, int peer, uint64_t offset, uint64_t value, uint64_t *old)
{
	return ori_atomic(win, g, "fetch_add", ORI_ATOMIC_ADD, peer, offset, 0, value, old);
}

ORIEL_DEV int oriel_swap(ORI_WIN, int peer, uint64_t offset, uint64_t value, uint64_t *old)
{
	return ori_atomic(win, g, "swap", ORI_ATOMIC_SWAP, peer, offset, 0, value, old);
}

ORIEL_DEV int oriel_compare_swap(ORI_WIN, int peer, uint64_t offset, uint64_t expected,
				 uint64_t value, uint64_t *old)
{
	return ori_atomic(win, g, "compare_swap", ORI_ATOMIC_COMPARE_SWAP, peer, offset, expected,
			  value, old);
}

#endif
