/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/atomic_typed.h - bodies of device.h: atomics on elements of 1, 2, 4 and 8 bytes of a
 * peer's window buffer.
 *
 * Mapped peers: the CPU has an instruction for every width; floating-point sums are loops of
 * compare-swap.  A GPU makes all of them as loops of compare-swap on the 4 or 8 aligned bytes that
 * hold the element.  Queued peers: a NIC adds to and compares 8 bytes only.  So all but these two
 * are loops of compare-swap on the 8 aligned bytes that hold the element.
 */
#ifndef ORIEL_DEVICE_ATOMIC_TYPED_H
#define ORIEL_DEVICE_ATOMIC_TYPED_H

#include "atomic.h"
#include "word.h"

/* The arguments; passed by value. */
struct ori_typed_args {
	int32_t peer, type, op;
	uint32_t bytes; /* of the element */
	uint64_t offset, expected, value;
};

/* ---- tests of a checked window --------------------------------------------------------------- */

ORIEL_DEV int ori_atomic_is_valid(int type, int op)
{
	int bits = op >= ORIEL_ATOMIC_AND && op <= ORIEL_ATOMIC_XOR;

	if (op < ORIEL_ATOMIC_FETCH || op > ORIEL_ATOMIC_XOR)
		return 0;
	return ori_type_is_integer(type) ||
	       (!bits && (type == ORIEL_TYPE_FLOAT || type == ORIEL_TYPE_DOUBLE));
}

/* Where the address of the peer's first byte lies between multiples of 8. */
ORIEL_DEV uint64_t ori_window_skew(const struct oriel_window_peer *p)
{
	return p->link ? p->link->buffer_skew : (uint64_t)(uintptr_t)p->buffer;
}

ORIEL_DEV_OUT int ori_check_typed(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				  ORI_VALUE(ori_typed_args) args)
{
	const struct oriel_window_peer *p;
	uint64_t at, begin;
	int err;

	if (!ori_atomic_is_valid(ORIEL_TYPE_INT64, args.op))
		return ori_refuse(win, g, ORIEL_EINVAL, "atomic",
				  "the operation must be one of ORIEL_ATOMIC_FETCH to _XOR, not",
				  (uint64_t)(int64_t)args.op, 0);
	if (!ori_atomic_is_valid(args.type, args.op))
		return ori_refuse(win, g, ORIEL_EINVAL, "atomic",
				  "there is no such operation on elements of type",
				  (uint64_t)(int64_t)args.type, 0);
	err = ori_check_range(win, g, "atomic", "end of the window", args.offset, args.bytes,
			      win->bytes);
	if (!err)
		err = ori_check_peer(win, g, "atomic", args.peer);
	if (err)
		return err;
	p = ori_peer_entry(win, args.peer);
	at = ori_window_skew(p) + args.offset;
	if (at & (args.bytes - 1u))
		return ori_refuse(win, g, ORIEL_EINVAL, "atomic",
				  "the word must be aligned to its size; its offset is",
				  args.offset, 0);
	begin = at & ~7ull;
	if (p->link && (begin < ori_window_skew(p) || begin + 8u > ori_window_skew(p) + win->bytes))
		return ori_refuse(win, g, ORIEL_EINVAL, "atomic",
				  "the 8 aligned bytes that hold the word pass an end of the "
				  "window; its offset is",
				  args.offset, 0);
	return 0;
}

/* ---- the new value --------------------------------------------------------------------------- */

ORIEL_DEV uint64_t ori_add_floating(int type, uint64_t a, uint64_t b)
{
	float x, y;
	double dx, dy;
	uint32_t low, add;

	if (type == ORIEL_TYPE_FLOAT) {
		low = (uint32_t)a;
		add = (uint32_t)b;
		memcpy(&x, &low, sizeof(x));
		memcpy(&y, &add, sizeof(y));
		x += y;
		memcpy(&low, &x, sizeof(low));
		return low;
	}
	memcpy(&dx, &a, sizeof(dx));
	memcpy(&dy, &b, sizeof(dy));
	dx += dy;
	memcpy(&a, &dx, sizeof(a));
	return a;
}

/* The element after the operation, from its bits before; upper bits are not defined. */
ORIEL_DEV uint64_t ori_typed_apply(struct ori_typed_args args, uint64_t before)
{
	switch (args.op) {
	case ORIEL_ATOMIC_FETCH:
		return before;
	case ORIEL_ATOMIC_COMPARE_SWAP:
		return ori_type_extend(args.type, before) ==
				       ori_type_extend(args.type, args.expected) ?
			       args.value :
			       before;
	case ORIEL_ATOMIC_ADD:
		return ori_type_is_integer(args.type) ?
			       before + args.value :
			       ori_add_floating(args.type, before, args.value);
	case ORIEL_ATOMIC_AND:
		return before & args.value;
	case ORIEL_ATOMIC_OR:
		return before | args.value;
	case ORIEL_ATOMIC_XOR:
		return before ^ args.value;
	default:
		return args.value; /* SET and SWAP */
	}
}

/* The same for the word that holds the element, `shift` bits above the lowest. */
ORIEL_DEV uint64_t ori_typed_apply_in(struct ori_typed_args args, uint64_t word, uint32_t shift)
{
	uint64_t mask = args.bytes == 8 ? ~0ull : (1ull << 8u * args.bytes) - 1u;
	uint64_t after = ori_typed_apply(args, word >> shift & mask) & mask;

	return (word & ~(mask << shift)) | after << shift;
}

/* ---- mapped peers ---------------------------------------------------------------------------- */

/* The element lies in 8 aligned bytes of its own, or in 4. */
ORIEL_DEV int ori_typed_loop(struct ori_typed_args args, uint8_t *at, uint64_t *before)
{
	uint64_t holder = args.bytes == 8 ? 8 : 4;
	uint64_t *word = (uint64_t *)((uintptr_t)at & ~(uintptr_t)(holder - 1));
	uint32_t shift = 8u * (uint32_t)((uintptr_t)at & (holder - 1)), tries;
	uint64_t guess, old, next;

	/* acquire without a partner: only a first guess */
	guess = ori_load_word_acquire_sys(word, (uint32_t)holder);
	for (tries = 0; tries < ORI_SWAP_TRIES; tries++) {
		next = ori_typed_apply_in(args, guess, shift);
		/* [WORD2] release and acquire, system scope, as in ori_typed_mapped(). */
		old = holder == 8 ? ori_compare_swap_acq_rel_sys(word, guess, next) :
				    ori_compare_swap32_acq_rel_sys((uint32_t *)(void *)word,
								   (uint32_t)guess, (uint32_t)next);
		if (old == guess) {
			*before = old >> shift;
			return 0;
		}
		guess = old;
	}
	return ORIEL_ETIMEDOUT;
}

/*
 * Called by one thread after its group met.
 *
 * [WORD2] release and acquire, system scope; partner: [WORD2] or [FETCH3] of another rank on the
 * same word, and [WORD1] of its owner.  Publishes what the group wrote.  Without it a wait for the
 * word could end before the data it announces is visible.
 */
ORIEL_DEV int ori_typed_mapped(struct ori_typed_args args, uint8_t *at, uint64_t *before)
{
#if !ORIEL_ON_GPU
	if (args.op != ORIEL_ATOMIC_ADD || ori_type_is_integer(args.type)) {
		if (args.bytes == 1)
			*before = ori_atomic8_acq_rel_sys(at, args.op, args.expected, args.value);
		else if (args.bytes == 2)
			*before = ori_atomic16_acq_rel_sys((uint16_t *)(void *)at, args.op,
							   args.expected, args.value);
		/* [WORD2] again, for the wider ones */
		else if (args.bytes == 4)
			*before = ori_atomic32_acq_rel_sys((uint32_t *)(void *)at, args.op,
							   args.expected, args.value);
		else
			*before = ori_atomic64_acq_rel_sys((uint64_t *)(void *)at, args.op,
							   args.expected, args.value);
		return 0;
	}
#endif
	return ori_typed_loop(args, at, before);
}

/* ---- queued peers ---------------------------------------------------------------------------- */

/* Called by one thread. */
ORIEL_DEV_OUT int ori_typed_queued(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				   const struct oriel_window_link *l,
				   ORI_VALUE(ori_typed_args) args, uint64_t *before)
{
	struct ori_op_context context = ori_call_context(win, ORIEL_CALL_TYPED_ATOMIC);
	struct ori_fetch fetch = ori_window_fetch(l, g, args.offset);
	uint32_t shift = 8u * (uint32_t)(fetch.remote & 7u), tries;
	int whole = args.bytes == 8 && ori_type_is_integer(args.type), err;
	uint64_t guess = 0, old = 0;

	fetch.remote &= ~7ull;
	if (args.op == ORIEL_ATOMIC_FETCH || (whole && args.op == ORIEL_ATOMIC_ADD)) {
		err = ori_fetch_atomic(&context, &fetch, 0, 0,
				       args.op == ORIEL_ATOMIC_ADD ? args.value : 0, &old);
		*before = old >> shift;
		return err;
	}
	if (whole && args.op == ORIEL_ATOMIC_COMPARE_SWAP)
		return ori_fetch_atomic(&context, &fetch, 1, args.expected, args.value, before);
	for (tries = 0; tries < ORI_SWAP_TRIES; tries++) {
		err = ori_fetch_atomic(&context, &fetch, 1, guess,
				       ori_typed_apply_in(args, guess, shift), &old);
		if (err)
			return err;
		if (old == guess) {
			*before = old >> shift;
			return 0;
		}
		guess = old;
	}
	return ORIEL_ETIMEDOUT;
}

/* ---- any peer -------------------------------------------------------------------------------- */

/* Does the peer's transport have atomics? */
ORIEL_DEV_OUT int ori_typed_refused(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				    const struct oriel_window_peer *p, int peer)
{
	if (ori_peer_is_mapped(p))
		return p->flags & ORIEL_PEER_NO_ATOMICS ?
			       ori_refuse(win, g, ORIEL_EUNSUPPORTED, "atomic",
					  "no native atomics between this GPU and the peer's; rank",
					  (uint64_t)(uint32_t)peer, 0) :
			       0;
	if (!p->link)
		return ORIEL_ENOTCONN;
	return p->link->link->flags & ORIEL_LINK_ATOMICS ?
		       0 :
		       ori_refuse(win, g, ORIEL_EUNSUPPORTED, "atomic",
				  "the NIC has no atomics; window", (uint64_t)win->number, 0);
}

ORIEL_DEV_OUT int ori_atomic_typed(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				   ORI_VALUE(ori_typed_args) args, uint64_t *old)
{
	int err = ori_window_is_checked(win) ? ori_check_typed(win, g, args) : 0;
	const struct oriel_window_peer *p;
	uint64_t before = 0;

	if (err)
		return err;
	p = ori_peer_entry(win, args.peer);
	err = ori_typed_refused(win, g, p, args.peer);
	if (!err)
		err = ori_agree_window(win, g);
	if (err)
		return err;
	if (oriel_group_is_leader(g)) {
		if (!ori_peer_is_mapped(p)) {
			err = ori_typed_queued(win, g, p->link, args, &before);
		} else {
			err = ori_typed_mapped(args, p->buffer + args.offset, &before);
			if (args.op != ORIEL_ATOMIC_FETCH)
				ori_wake(p->waiters);
		}
	}
	err = ori_group_agree_value(g, err, &before);
	if (!err && old)
		*old = ori_type_extend(args.type, before);
	return err;
}

ORIEL_DEV int oriel_atomic(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			   uint64_t offset, int type, int op, uint64_t expected, uint64_t value,
			   uint64_t *old)
{
	struct ori_typed_args args;

	args.peer = peer;
	args.type = type;
	args.op = op;
	args.bytes = oriel_type_bytes(type);
	args.offset = offset;
	args.expected = expected;
	args.value = value;
	return ori_atomic_typed(win, g, args, old);
}

#endif
