/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/mapped.h - the half of the transport layer for peers that can be loaded and stored.
 *
 * It is for people who build their own collectives: puts, signals, waits and staged streams on
 * memory of the caller (oriel_alloc + oriel_buffer_exchange give the pointers).  The window is one
 * user of it.  `comm` is the handle of oriel_comm_device().
 *
 * All calls depend on one edge:
 *   [SIG1] release store or add of a word, after the group's copies;
 *   [SIG2] acquire of that word by the waiting leader, before the group continues: polls, and
 *          ori_poll_end() after the last one.
 * Group barriers [GROUP1] extend it to the other threads on both sides.
 *
 * On a GPU a release is a fence of 0.5 us and a store.  The inputs of the store (the failure words,
 * a count) need not be loaded when the fence begins.  So the fast paths write [SIG1] as two halves
 * by the same thread: ori_release_begin(), then ori_release_store() or ori_release_add().  This is
 * the release pattern of the PTX memory model, which is as strong as st.release.  On the CPU the
 * first half is empty and the second is the release operation.
 */
#ifndef ORIEL_DEVICE_MAPPED_H
#define ORIEL_DEVICE_MAPPED_H

#include "copy.h"
#include "handle.h"

/*
 * Called between the halves by the first n threads of a group.  A compiler could move the use of a
 * value, loaded before the fence, up to the fence and wait for it there.  No compiler moves it
 * across a barrier of the warp.
 */
ORIEL_DEV void ori_release_hold(struct oriel_group g, int n)
{
#if ORIEL_ON_GPU
	if (g.scope != ORIEL_GROUP_THREAD)
		__syncwarp(ori_warp_mask((uint32_t)n));
#endif
	(void)g;
	(void)n;
}

/* The second half of a signal, after ori_release_begin().  `at` is ori_release_at(word). */
ORIEL_DEV void ori_publish(uint64_t *at, int op, uint64_t value, struct oriel_waiters *waiters)
{
	if (op == ORIEL_ADD)
		ori_release_add(at, value);
	else
		ori_release_store(at, value);
	ori_wake(waiters);
}

/* Called by one thread after its group agreed: publishes everything the group wrote before. */
ORIEL_DEV void ori_word_signal(uint64_t *word, int op, uint64_t value,
			       struct oriel_waiters *waiters)
{
	uint64_t *at = ori_release_at(word);

	/*
	 * [SIG1] release, system scope; partner [SIG2], or [SIG3] and [SIG4] of single reads.
	 * Publishes all that the group wrote before it met [GROUP1].  System scope: the reader is
	 * another device or a CPU.  Without it the peer finds the new word beside old data.
	 */
	ori_release_begin();
	ori_publish(at, op, value, waiters);
}

/*
 * Called by one thread: waits until *word - base compares.  Returns 0 or why the wait ended.
 * Publishes nothing.  On a failed window no wait succeeds, even if its word already compares.
 */
ORIEL_DEV int ori_word_wait(struct ori_spin *s, const uint64_t *word, uint64_t base, int cmp)
{
	struct ori_failures look = ori_failures_load(s->comm, s->window_failure);
	uint64_t have = ori_poll_sys(word) - base; /* loaded together with the failure words */
	int err = ori_failures_status(look);
	uint32_t more;

	while (!err && !ori_compare(have, cmp, s->want)) {
		err = ori_spin(s, have);
		have = ori_poll_sys(word) - base;
		for (more = ori_spin_polls(s); more && !ori_compare(have, cmp, s->want); more--)
			have = ori_poll_sys(word) - base;
	}
	/*
	 * [SIG2] acquire, system scope, with the polls; partner [SIG1] or [BARRIER1], or [SOFT7],
	 * [SOFT9], [PROXY7] of an engine, or the NIC.  After a failure it is not needed but
	 * harmless.
	 */
	ori_poll_end();
	ori_spin_end(s);
	return err;
}

/* The same for a count that may wrap: waits until it reaches s->want.  The caller ends the spin. */
ORIEL_DEV int ori_word_wait_count(struct ori_spin *s, const uint64_t *word)
{
	uint32_t more;
	uint64_t have;
	int err = 0;

	for (;;) {
		have = ori_poll_sys(word);
		for (more = ori_spin_polls(s); more && !ori_reached(have, s->want); more--)
			have = ori_poll_sys(word);
		if (ori_reached(have, s->want))
			break;
		err = ori_spin(s, have);
		if (err)
			break;
	}
	/* [SIG2] acquire, system scope, with the polls; partner [SIG1], [BARRIER1] or [ROUND1]. */
	ori_poll_end();
	return err;
}

/*
 * A count that comes through several NICs: one word per NIC, `stride` words apart.  The count is
 * their sum.  Each word only grows, so no sum is ever too high.
 */
struct ori_nic_words {
	const uint64_t *first;
	uint64_t stride;
	uint32_t n;
};

ORIEL_DEV uint64_t ori_nic_words_poll(const struct ori_nic_words *w)
{
	uint64_t sum = ori_poll_sys(w->first);
	uint32_t i;

	for (i = 1; i < w->n; i++)
		sum += ori_poll_sys(w->first + i * w->stride);
	return sum;
}

/* As ori_word_wait().  Not inlined, because only queued peers use it. */
ORIEL_DEV_OUT int ori_nic_words_wait(struct ori_spin *s, const struct ori_nic_words *w,
				     uint64_t base, int cmp)
{
	int err = ori_failed(s->comm, s->window_failure);
	uint64_t have = ori_nic_words_poll(w) - base;
	uint32_t more;

	while (!err && !ori_compare(have, cmp, s->want)) {
		err = ori_spin(s, have);
		have = ori_nic_words_poll(w) - base;
		for (more = ori_spin_polls(s); more && !ori_compare(have, cmp, s->want); more--)
			have = ori_nic_words_poll(w) - base;
	}
	/* [SIG2] acquire, system scope, with the polls; partner [SOFT7] or the NIC's add. */
	ori_poll_end();
	ori_spin_end(s);
	return err;
}

/* As ori_word_wait_count(); the caller ends the spin. */
ORIEL_DEV_OUT int ori_nic_words_wait_count(struct ori_spin *s, const struct ori_nic_words *w)
{
	uint64_t have = ori_nic_words_poll(w);
	uint32_t more;
	int err = 0;

	while (!err && !ori_reached(have, s->want)) {
		err = ori_spin(s, have);
		have = ori_nic_words_poll(w);
		for (more = ori_spin_polls(s); more && !ori_reached(have, s->want); more--)
			have = ori_nic_words_poll(w);
	}
	/* [SIG2] acquire, system scope, with the polls; partner [SOFT7] or the NIC's add. */
	ori_poll_end();
	return err;
}

/* ---- public: caller-owned memory ------------------------------------------------------------- */

/* Copies.  On return the source may be written again.  The next signal delivers the data. */
ORIEL_DEV int oriel_mapped_put(const struct oriel_comm_dev *comm, struct oriel_group g, void *dst,
			       const void *src, uint64_t bytes)
{
	ori_group_copy(g, dst, src, bytes);
	return ori_agree_failure(comm, NULL, g);
}

/*
 * Signals an 8-byte aligned word of the peer that only signals write.  Delivers what the group put
 * before.  ORIEL_ADD is ORIEL_EUNSUPPORTED if this GPU has no native atomics on the peer's GPU.
 * The total cannot be kept here either, because others may add to the word too.
 */
ORIEL_DEV int oriel_mapped_signal(const struct oriel_comm_dev *comm, struct oriel_group g, int peer,
				  uint64_t *word, int op, uint64_t value)
{
	int err = ori_agree_failure(comm, NULL, g);

	if (!err && op == ORIEL_ADD && comm->flags & ORIEL_PEER_NO_ATOMICS &&
	    comm->peers[peer].flags & ORIEL_PEER_NO_ATOMICS)
		return ORIEL_EUNSUPPORTED;
	if (!err && oriel_group_is_leader(g))
		ori_word_signal(word, op, value, comm->peers[peer].waiters);
	return err;
}

/* oriel_mapped_put(), then oriel_mapped_signal(). */
ORIEL_DEV int oriel_mapped_put_signal(const struct oriel_comm_dev *comm, struct oriel_group g,
				      int peer, void *dst, const void *src, uint64_t bytes,
				      uint64_t *word, int op, uint64_t value)
{
	ori_group_copy(g, dst, src, bytes);
	return oriel_mapped_signal(comm, g, peer, word, op, value);
}

/*
 * Waits until *word compares.  `peer` is the rank that should write it; reports name it when it is
 * late.
 */
ORIEL_DEV int oriel_mapped_wait(const struct oriel_comm_dev *comm, struct oriel_group g, int peer,
				const uint64_t *word, int cmp, uint64_t value)
{
	struct ori_spin s;
	int err = 0;

	if (oriel_group_is_leader(g)) {
		ori_spin_begin(&s, comm, NULL, ORIEL_OP_WORD, peer, 0, -1, value);
		ori_spin_within(&s, g);
		err = ori_word_wait(&s, word, 0, cmp);
	}
	return ori_group_agree(g, err);
}

/* ---- staged streams -------------------------------------------------------------------------- */

/*
 * A stream of slots in the receiver's memory.  The sender fills slot `cursor % depth` once the
 * receiver has emptied it, then raises `ready` [SIG1].  The receiver copies the data out, then
 * raises `free_count` in the sender's memory [SIG1].  Both counts only grow, so nothing is ever
 * reset.  Each slot has a length, so that two ends that disagree fail instead of mixing messages.
 * A message of 0 bytes is one empty slot.
 */

/* Called by the group: reads this end's cursor, or returns the first failure. */
ORIEL_DEV int ori_channel_begin(const struct ori_op_context *context, struct oriel_group g,
				const uint64_t *word, uint64_t *cursor)
{
	int err = 0;

	*cursor = 0;
	if (oriel_group_is_leader(g)) {
		err = ori_failed(context->comm, context->window_failure);
		*cursor = ori_load_relaxed_sys(word);
	}
	return ori_group_agree_value(g, err, cursor);
}

/* Called by the leader: waits until a count of the stream with `peer` reaches `want`. */
ORIEL_DEV int ori_channel_wait(const struct ori_op_context *context, struct oriel_group g, int op,
			       int peer, int id, const uint64_t *count, uint64_t want, int host)
{
	struct ori_spin s;
	int err;

	ori_spin_begin(&s, context->comm, context->window_failure, op, peer, id, context->window,
		       want);
	ori_spin_within(&s, g);
	ori_spin_host(&s, host);
	err = ori_word_wait_count(&s, count);
	ori_spin_end(&s);
	return err;
}

/* Called by the leader: waits until the slot of `cursor` holds the expected rest of the message. */
ORIEL_DEV int ori_channel_wait_filled(const struct ori_op_context *context, struct oriel_group g,
				      const struct oriel_mapped_channel *ch, int id,
				      uint64_t cursor, uint64_t left, int host)
{
	int err = ori_channel_wait(context, g, ORIEL_OP_RECV, ch->peer, id, ch->ready, cursor + 1,
				   host);

	/* Relaxed: the wait acquired what was written before `ready`. */
	if (!err && ori_load_relaxed_sys(&ch->lengths[cursor % ch->depth]) != left)
		err = ORIEL_EMISMATCH;
	return err;
}

ORIEL_DEV_OUT int ori_channel_send(ORI_VALUE(ori_op_context) context, ORI_VALUE(oriel_group) g,
				   const struct oriel_mapped_channel *ch, int id, const void *src,
				   uint64_t bytes)
{
	struct oriel_waiters *waiters = context.comm->peers[ch->peer].waiters;
	uint64_t cursor, sent = 0, slot, piece;
	int err = ori_channel_begin(&context, g, ch->cursor, &cursor), over = 0;

	for (; !err && !over; sent += piece, over = sent == bytes) {
		piece = bytes - sent < ch->slot_bytes ? bytes - sent : ch->slot_bytes;
		slot = cursor % ch->depth;
		if (oriel_group_is_leader(g))
			err = ori_channel_wait(&context, g, ORIEL_OP_SEND, ch->peer, id,
					       ch->free_count, cursor + 1 - ch->depth, 0);
		err = ori_group_agree(g, err);
		if (err)
			break;
		ori_group_copy(g, ch->slots + slot * ch->slot_bytes, (const uint8_t *)src + sent,
			       piece);
		err = ori_agree_failure(context.comm, context.window_failure, g);
		if (err)
			break;
		cursor++;
		if (oriel_group_is_leader(g)) {
			/*
			 * The remaining bytes of the message.  Relaxed: the next line publishes it.
			 */
			ori_store_relaxed_sys(&ch->lengths[slot], bytes - sent);
			ori_word_signal(ch->ready, ORIEL_SET, cursor, waiters);
			ori_store_relaxed_sys(ch->cursor, cursor);
		}
	}
	return err;
}

ORIEL_DEV_OUT int ori_channel_recv(ORI_VALUE(ori_op_context) context, ORI_VALUE(oriel_group) g,
				   const struct oriel_mapped_channel *ch, int id, void *dst,
				   uint64_t bytes)
{
	struct oriel_waiters *waiters = context.comm->peers[ch->peer].waiters;
	uint64_t cursor, got = 0, slot, piece;
	int err = ori_channel_begin(&context, g, ch->cursor, &cursor), over = 0;

	for (; !err && !over; got += piece, over = got == bytes) {
		piece = bytes - got < ch->slot_bytes ? bytes - got : ch->slot_bytes;
		slot = cursor % ch->depth;
		if (oriel_group_is_leader(g))
			err = ori_channel_wait_filled(&context, g, ch, id, cursor, bytes - got, 0);
		err = ori_group_agree(g, err);
		if (err)
			break;
		ori_group_copy(g, (uint8_t *)dst + got, ch->slots + slot * ch->slot_bytes, piece);
		err = ori_agree_failure(context.comm, context.window_failure, g);
		if (err)
			break;
		cursor++;
		if (oriel_group_is_leader(g)) {
			ori_word_signal(ch->free_count, ORIEL_SET, cursor, waiters);
			ori_store_relaxed_sys(ch->cursor, cursor);
		}
	}
	return err;
}

/* For a channel that the caller laid out in exchanged memory.  Zero it before the first use. */
ORIEL_DEV int oriel_mapped_send(const struct oriel_comm_dev *comm, struct oriel_group g,
				const struct oriel_mapped_channel *channel, const void *src,
				uint64_t bytes)
{
	return ori_channel_send(ori_comm_context(comm), g, channel, 0, src, bytes);
}

ORIEL_DEV int oriel_mapped_recv(const struct oriel_comm_dev *comm, struct oriel_group g,
				const struct oriel_mapped_channel *channel, void *dst,
				uint64_t bytes)
{
	return ori_channel_recv(ori_comm_context(comm), g, channel, 0, dst, bytes);
}

#endif
