/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/mapped.h - the transport layer's half for peers that can be loaded and stored.
 *
 * For people who build their own collectives: puts, signals, waits and staged streams on memory
 * the caller owns (oriel_alloc + oriel_buffer_exchange give the pointers).  The window is one
 * user of it.  `comm` is the handle of oriel_comm_device().
 *
 * The one edge everything rests on:
 *   [SIG1] release store or add of a word, after the group's copies;
 *   [SIG2] acquire of that word by the waiting leader, before the group goes on: polls, and
 *          ori_poll_end() after the last one.
 * Group barriers [GROUP1] carry it to the other threads on both sides.
 *
 * On a GPU a release is a fence of 0.5 us and a store, and what the store depends on (the failure
 * words, a count) need not be there when the fence begins.  So the short ways write [SIG1] as its
 * two halves, ori_release_begin() and ori_release_store() or ori_release_add(), by the same
 * thread: the release pattern of the PTX memory model, which is as good as st.release.  On the
 * CPU the first half is nothing and the second one is the release operation.
 */
#ifndef ORIEL_DEVICE_MAPPED_H
#define ORIEL_DEVICE_MAPPED_H

#include "copy.h"
#include "handle.h"

/*
 * Between the halves, by the first n threads of a group.  A compiler could move the use of a
 * value that was loaded before the fence up to the fence, and would wait for the value there.  No
 * compiler moves it over a barrier of the warp.
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

/* The second half of a signal: after ori_release_begin(); `at` is ori_release_at(word). */
ORIEL_DEV void ori_publish(uint64_t *at, int op, uint64_t value, struct oriel_waiters *waiters)
{
	if (op == ORIEL_ADD)
		ori_release_add(at, value);
	else
		ori_release_store(at, value);
	ori_wake(waiters);
}

/* By one thread, after its group agreed: publishes all the group wrote before. */
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
 * By one thread: until *word - base compares.  Returns 0 or why it ended; nothing is published.
 * On a failed window no wait succeeds, not even one whose word already compares.
 */
ORIEL_DEV int ori_word_wait(struct ori_spin *s, const uint64_t *word, uint64_t base, int cmp)
{
	struct ori_failures look = ori_failures_load(s->comm, s->window_failure);
	uint64_t have = ori_poll_sys(word) - base; /* on its way beside the look */
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
	 * [SOFT9], [PROXY7] of an engine, or the NIC.  After a failure it is made for nothing.
	 */
	ori_poll_end();
	ori_spin_end(s);
	return err;
}

/* The same for a count that may wrap: until it has reached s->want.  The caller ends the spin. */
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
	/* [SIG2] acquire, system scope, with the polls; partner [SIG1] or [BARRIER1]. */
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

/* As ori_word_wait(); out of line, because only queued peers take this way. */
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

/* Copy; on return the source may be written again.  Delivered by the next signal. */
ORIEL_DEV int oriel_mapped_put(const struct oriel_comm_dev *comm, struct oriel_group g, void *dst,
			       const void *src, uint64_t bytes)
{
	ori_group_copy(g, dst, src, bytes);
	return ori_agree_failure(comm, NULL, g);
}

/*
 * Signals a word of the peer, 8-byte aligned, that only signals write. Delivers what the group
 * put before.  ORIEL_ADD is ORIEL_EUNSUPPORTED on a peer whose GPU has no native atomics with
 * this one: it is not known here who else may add to the word.
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

/* Until *word compares; `peer` is who should write it, for the report when it is late. */
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
 * receiver has emptied it, then raises `ready` [SIG1].  The receiver copies out, then raises
 * `free_count` in the sender's memory [SIG1].  Both counts only grow, so nothing is ever reset. A
 * length goes with each slot, so that two ends which disagree fail instead of mixing messages.  A
 * message of 0 bytes is one empty slot.
 */

/* By the group: this end's cursor, or the first failure. */
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

/* By the leader: until a count of the stream with `peer` has reached `want`. */
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

/* By the leader: until the slot of `cursor` is filled with what is left of the same message. */
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

ORIEL_DEV_OUT int ori_channel_send(struct ori_op_context context, struct oriel_group g,
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
			/* What is left of the message; relaxed: published by the next line. */
			ori_store_relaxed_sys(&ch->lengths[slot], bytes - sent);
			ori_word_signal(ch->ready, ORIEL_SET, cursor, waiters);
			ori_store_relaxed_sys(ch->cursor, cursor);
		}
	}
	return err;
}

ORIEL_DEV_OUT int ori_channel_recv(struct ori_op_context context, struct oriel_group g,
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

/* On a channel the caller laid out in exchanged memory; zeroed before first use. */
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
