/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/atomic.h - bodies of device.h: 8-byte atomics on a peer's window buffer.
 *
 * The leader makes the atomic once, and the old value reaches every thread of the group.  Its
 * order is release and acquire at system scope, so a compare_swap can be a lock.
 */
#ifndef ORIEL_DEVICE_ATOMIC_H
#define ORIEL_DEVICE_ATOMIC_H

#include "window.h"

#define ORI_ATOMIC_ADD 1
#define ORI_ATOMIC_SWAP 2
#define ORI_ATOMIC_COMPARE_SWAP 3
/*
 * Each failed try means that another rank succeeded.  A million in a row is no longer contention.
 */
#define ORI_SWAP_TRIES 1000000u

ORIEL_DEV int ori_check_atomic(const struct oriel_window_dev *win, struct oriel_group g,
			       const char *call, int peer, uint64_t offset)
{
	const struct oriel_window_peer *p;
	uint64_t skew;
	int err = ori_check_range(win, g, call, "end of the window", offset, 8, win->bytes);

	if (!err)
		err = ori_check_peer(win, g, call, peer);
	if (err)
		return err;
	p = ori_peer_entry(win, peer);
	skew = p->link ? p->link->buffer_skew : (uint64_t)(uintptr_t)p->buffer;
	if (((skew + offset) & 7u) != 0)
		err = ori_refuse(win, g, ORIEL_EINVAL, call,
				 "the word must be 8-byte aligned; its offset is", offset, 0);
	return err;
}

/* The arguments of an atomic. */
struct ori_atomic_args {
	int32_t what; /* ORI_ATOMIC_* */
	int32_t peer;
	uint64_t offset, expected, value;
};

ORIEL_DEV struct ori_atomic_args ori_atomic_args_of(int what, int peer, uint64_t offset,
						    uint64_t expected, uint64_t value)
{
	struct ori_atomic_args args;

	args.what = what;
	args.peer = peer;
	args.offset = offset;
	args.expected = expected;
	args.value = value;
	return args;
}

/*
 * Called by one thread.  No WQE of one block can swap, so it tries compare-swap until no other rank
 * changed the word in between.
 */
ORIEL_DEV_OUT int ori_swap_queued(const struct ori_op_context *context,
				  const struct ori_fetch *fetch, uint64_t value, uint64_t *old)
{
	uint64_t guess = 0;
	uint32_t tries;
	int err;

	for (tries = 0; tries < ORI_SWAP_TRIES; tries++) {
		err = ori_fetch_atomic(context, fetch, 1, guess, value, old);
		if (err || *old == guess)
			return err;
		guess = *old;
	}
	return ORIEL_ETIMEDOUT;
}

ORIEL_DEV_OUT int ori_atomic_queued(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				    const struct oriel_window_link *l,
				    ORI_VALUE(ori_atomic_args) args, uint64_t *before)
{
	struct ori_op_context context;
	struct ori_fetch fetch;
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
		context = ori_call_context(win, ORIEL_CALL_ATOMIC);
		fetch = ori_window_fetch(l, g, args.offset);
		if (args.what == ORI_ATOMIC_SWAP)
			err = ori_swap_queued(&context, &fetch, args.value, before);
		else
			err = ori_fetch_atomic(&context, &fetch,
					       args.what == ORI_ATOMIC_COMPARE_SWAP, args.expected,
					       args.value, before);
	}
	return ori_group_agree_value(g, err, before);
}

ORIEL_DEV int ori_atomic_mapped(const struct oriel_window_dev *win, struct oriel_group g,
				const struct oriel_window_peer *p, struct ori_atomic_args args,
				uint64_t *before)
{
	uint64_t *word = (uint64_t *)(void *)(p->buffer + args.offset);
	/* The group's earlier work comes before the atomic, as with a signal. */
	int err = ori_agree_window(win, g);

	if (err)
		return err;
	if (oriel_group_is_leader(g)) {
		/*
		 * [FETCH3] release and acquire, system scope; partner: [FETCH3] or [WORD2] of
		 * another rank on this word, and [WORD1] of its owner.  Publishes what the group
		 * wrote, and orders what it does next.  Without it a lock made of compare_swap
		 * would let its holder read old data.
		 */
		if (args.what == ORI_ATOMIC_ADD)
			*before = ori_fetch_add_acq_rel_sys(word, args.value);
		else if (args.what == ORI_ATOMIC_SWAP)
			*before = ori_swap_acq_rel_sys(word, args.value);
		else
			*before = ori_compare_swap_acq_rel_sys(word, args.expected, args.value);
	}
	return ori_group_agree_value(g, 0, before);
}

ORIEL_DEV_OUT int ori_atomic(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
			     const char *call, ORI_VALUE(ori_atomic_args) args, uint64_t *old)
{
	const struct oriel_window_peer *p;
	uint64_t before = 0;
	int err = ori_window_is_checked(win) ?
			  ori_check_atomic(win, g, call, args.peer, args.offset) :
			  0;

	if (err)
		return err;
	p = ori_peer_entry(win, args.peer);
	if (!ori_peer_is_mapped(p))
		err = ori_atomic_queued(win, g, p->link, args, &before);
	else if (p->flags & ORIEL_PEER_NO_ATOMICS)
		err = ori_refuse(win, g, ORIEL_EUNSUPPORTED, call,
				 "no native atomics between this GPU and the peer's; rank",
				 (uint64_t)args.peer, 0);
	else
		err = ori_atomic_mapped(win, g, p, args, &before);
	if (!err && old)
		*old = before;
	return err;
}

ORIEL_DEV int oriel_fetch_add(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			      uint64_t offset, uint64_t value, uint64_t *old)
{
	return ori_atomic(win, g, "fetch_add",
			  ori_atomic_args_of(ORI_ATOMIC_ADD, peer, offset, 0, value), old);
}

ORIEL_DEV int oriel_swap(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			 uint64_t offset, uint64_t value, uint64_t *old)
{
	return ori_atomic(win, g, "swap",
			  ori_atomic_args_of(ORI_ATOMIC_SWAP, peer, offset, 0, value), old);
}

ORIEL_DEV int oriel_compare_swap(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				 uint64_t offset, uint64_t expected, uint64_t value, uint64_t *old)
{
	return ori_atomic(win, g, "compare_swap",
			  ori_atomic_args_of(ORI_ATOMIC_COMPARE_SWAP, peer, offset, expected,
					     value),
			  old);
}

#endif
