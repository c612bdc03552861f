/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/staged.h - bodies of device.h: send and recv through a window's staging slots.
 *
 * Lays the window's staging memory out as streams of mapped.h.  For each (source, channel) at the
 * receiver: `depth` slots, and a row of words: depth lengths, then `ready`.  For each (peer, channel)
 * at the sender: a free count.  Cursors of both directions are local.
 */
#ifndef ORIEL_DEVICE_STAGED_H
#define ORIEL_DEVICE_STAGED_H

#include "barrier.h"
#include "window.h"

/* Words from one channel's free count, or pair of cursors, to the next: a line apart. */
#define ORI_STAGING_LINE_WORDS (ORIEL_LINE_BYTES / 8u)

/* Words of one channel's row: lengths and ready, rounded up to lines. */
ORIEL_DEV uint64_t ori_staging_row_words(uint32_t depth)
{
	return ((uint64_t)depth + 1 + ORI_STAGING_LINE_WORDS - 1) / ORI_STAGING_LINE_WORDS *
	       ORI_STAGING_LINE_WORDS;
}

ORIEL_DEV int ori_check_channel(const struct oriel_window_dev *win, struct oriel_group g,
				const char *call, int peer, int channel)
{
	int err = ori_check_id(win, g, call, "channel", channel, win->staging_channels);

	return err ? err : ori_check_peer(win, g, call, peer);
}

/* The stream me -> peer (sending) or peer -> me, as this end sees it. */
ORIEL_DEV void ori_staged_channel(const struct oriel_window_dev *win, int peer, int channel,
				  int sending, struct oriel_mapped_channel *ch)
{
	const struct oriel_window_peer *p = ori_peer_entry(win, peer);
	uint64_t row = ori_staging_row_words(win->staging_depth);
	uint64_t block = win->staging_depth * win->staging_slot_bytes;
	uint64_t n = (uint64_t)peer * win->staging_channels + (uint64_t)channel;
	uint64_t c = (uint64_t)channel;
	uint64_t *words;

	if (sending) {
		ch->slots = p->staging + c * block;
		words = p->staging_words + c * row;
		ch->free_count = win->staging_free + n * ORI_STAGING_LINE_WORDS;
	} else {
		ch->slots = win->staging + n * block;
		words = win->staging_words + n * row;
		ch->free_count = p->staging_free + c * ORI_STAGING_LINE_WORDS;
	}
	if (!sending && !ori_peer_is_mapped(p)) {
		ch->slots = (uint8_t *)ori_host_half(&win->comm, ch->slots);
		words = (uint64_t *)ori_host_half(&win->comm, words);
	}
	ch->lengths = words;
	ch->ready = words + win->staging_depth;
	ch->cursor = win->staging_cursors + n * ORI_STAGING_LINE_WORDS + (sending ? 0 : 1);
	ch->slot_bytes = win->staging_slot_bytes;
	ch->depth = win->staging_depth;
	ch->peer = peer;
}

/* ---- queued peers: the same streams, the slots and counts written by puts -------------------------- */

/* One word of the peer's control memory, on the channel's lane. */
ORIEL_DEV void ori_staged_word(const struct oriel_window_link *l, uint64_t offset, uint64_t value,
			       struct ori_post *post)
{
	post->signal = ORIEL_SET;
	post->word = offset;
	post->word_key = l->control_key;
	post->signal_value = value;
}

/* By one thread: the piece in my slot, what is left of the message, then `ready`, all in order. */
ORIEL_DEV_OUT int ori_staged_post(const struct oriel_window_dev *win,
				  const struct oriel_window_link *l, int channel, uint64_t slot,
				  const uint8_t *piece, uint64_t bytes, uint64_t left,
				  uint64_t cursor, uint64_t *posted)
{
	uint64_t row = ori_staging_row_words(win->staging_depth) * 8;
	uint64_t words = l->staging_words + (uint64_t)channel * row;
	uint64_t at = ((uint64_t)channel * win->staging_depth + slot) * win->staging_slot_bytes;
	uint32_t lane = (uint32_t)channel % l->link->nlanes;
	struct ori_op_context scope = ori_window_context(win);
	struct ori_post post;
	int err;

	ori_post_init(&post);
	post.remote = l->staging + at;
	post.rkey = l->control_key;
	post.local = (uint64_t)(piece - win->control);
	post.lkey = win->control_key;
	post.bytes = bytes;
	ori_staged_word(l, words + 8 * slot, left, &post);
	post.tells = 0; /* `ready` does, below */
	err = ori_queue_post(&scope, l->link, lane, &post);
	if (err)
		return err;
	*posted = ori_load_acquire_sys(&l->link->lanes[lane].main->produced);
	ori_post_init(&post);
	ori_staged_word(l, words + 8 * (uint64_t)win->staging_depth, cursor + 1, &post);
	return ori_queue_post(&scope, l->link, lane, &post);
}

ORIEL_DEV_OUT int ori_send_queued(ORI_WIN, int peer, int channel, const void *src, uint64_t bytes)
{
	const struct oriel_window_link *l = ori_peer_entry(win, peer)->link;
	uint64_t n = (uint64_t)peer * win->staging_channels + (uint64_t)channel;
	uint64_t *my_cursor = win->staging_cursors + n * ORI_STAGING_LINE_WORDS;
	uint64_t *posted = win->staging_posted + n * win->staging_depth;
	uint64_t *free_count =
		(uint64_t *)ori_host_half(&win->comm,
					  win->staging_free + n * ORI_STAGING_LINE_WORDS);
	struct ori_op_context scope = ori_window_context(win);
	uint64_t cursor = 0, sent = 0;
	struct ori_spin s;
	int over = 0, err = 0;

	if (!l)
		return ORIEL_ENOTCONN;
	if (oriel_group_is_leader(g)) {
		err = ori_failed(&win->comm, win->failure);
		cursor = ori_load_relaxed_sys(my_cursor);
	}
	err = ori_group_agree_value(g, err, &cursor);
	while (!err && !over) {
		uint64_t left = bytes - sent;
		uint64_t piece = left < win->staging_slot_bytes ? left : win->staging_slot_bytes;
		uint64_t slot = cursor % win->staging_depth;
		uint8_t *out = win->staging_out +
			       (n * win->staging_depth + slot) * win->staging_slot_bytes;

		if (oriel_group_is_leader(g)) {
			ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_SEND, peer, channel,
				       win->number, cursor + 1 - win->staging_depth);
			ori_spin_within(&s, g);
			ori_spin_host(&s, win->comm.host_shift != 0);
			err = ori_word_wait_count(&s, free_count);
			ori_spin_end(&s);
			/* The peer has it, but the NIC may still send it again until it is complete. */
			if (!err)
				err = ori_queue_wait(&scope,
						     l->link->lanes[(uint32_t)channel %
								    l->link->nlanes]
							     .main,
						     posted[slot]);
		}
		err = ori_group_agree(g, err);
		if (err)
			break;
		/* `out` names the slot; the bytes go where the engine reads them. */
		ori_group_copy(g, ori_host_half(&win->comm, out), (const uint8_t *)src + sent,
			       piece);
		err = ori_agree_window(win, g);
		if (!err && oriel_group_is_leader(g)) {
			err = ori_staged_post(win, l, channel, slot, out, piece, left, cursor,
					      &posted[slot]);
			ori_store_relaxed_sys(my_cursor, cursor + 1);
		}
		err = ori_group_agree(g, err);
		sent += piece;
		over = sent == bytes;
		cursor++;
	}
	return err;
}

/* By one thread: tells the sender that I have emptied `count` slots. */
ORIEL_DEV_OUT int ori_staged_free(const struct oriel_window_dev *win,
				  const struct oriel_window_link *l, int channel, uint64_t count)
{
	struct ori_op_context scope = ori_window_context(win);
	struct ori_post post;

	ori_post_init(&post);
	ori_staged_word(l, l->staging_free + (uint64_t)channel * ORIEL_LINE_BYTES, count, &post);
	return ori_queue_post(&scope, l->link, (uint32_t)channel % l->link->nlanes, &post);
}

ORIEL_DEV_OUT int ori_recv_queued(ORI_WIN, int peer, int channel, void *dst, uint64_t bytes)
{
	const struct oriel_window_link *l = ori_peer_entry(win, peer)->link;
	struct oriel_mapped_channel ch;
	uint64_t cursor = 0, got = 0;
	struct ori_spin s;
	int over = 0, err = 0;

	if (!l)
		return ORIEL_ENOTCONN;
	ori_staged_channel(win, peer, channel, 0, &ch);
	if (oriel_group_is_leader(g)) {
		err = ori_failed(&win->comm, win->failure);
		cursor = ori_load_relaxed_sys(ch.cursor);
	}
	err = ori_group_agree_value(g, err, &cursor);
	while (!err && !over) {
		uint64_t piece = bytes - got < ch.slot_bytes ? bytes - got : ch.slot_bytes;
		uint64_t slot = cursor % ch.depth;

		if (oriel_group_is_leader(g)) {
			ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_RECV, peer, channel,
				       win->number, cursor + 1);
			ori_spin_within(&s, g);
			ori_spin_host(&s, win->comm.host_shift != 0);
			err = ori_word_wait_count(&s, ch.ready);
			ori_spin_end(&s);
			/* relaxed: the wait acquired what was placed before `ready` */
			if (!err && ori_load_relaxed_sys(&ch.lengths[slot]) != bytes - got)
				err = ORIEL_EMISMATCH;
		}
		err = ori_group_agree(g, err);
		if (err)
			break;
		ori_group_copy(g, (uint8_t *)dst + got, ch.slots + slot * ch.slot_bytes, piece);
		err = ori_agree_window(win, g);
		got += piece;
		over = got == bytes;
		cursor++;
		if (!err && oriel_group_is_leader(g)) {
			err = ori_staged_free(win, l, channel, cursor);
			ori_store_relaxed_sys(ch.cursor, cursor);
		}
		err = ori_group_agree(g, err);
	}
	return err;
}

/* ---- public --------------------------------------------------------------------------------------- */

ORIEL_DEV int oriel_send(ORI_WIN, int peer, int channel, const void *src, uint64_t bytes)
{
	struct oriel_mapped_channel ch;
	int err = 0;

	if (!win->staging_slot_bytes)
		return ori_refuse(win, g, ORIEL_EUNSUPPORTED, "send",
				  "window was created without staging", 0, 0);
	if (win->checked)
		err = ori_check_channel(win, g, "send", peer, channel);
	if (err)
		return err;
	if (ori_peer_is_mapped(ori_peer_entry(win, peer))) {
		ori_staged_channel(win, peer, channel, 1, &ch);
		err = ori_channel_send(&win->comm, win->failure, g, &ch, channel, win->number, src,
				       bytes);
	} else {
		err = ori_send_queued(win, g, peer, channel, src, bytes);
	}
	return oriel_group_is_leader(g) ? ori_fail_window(win, err, peer) : err;
}

ORIEL_DEV int oriel_recv(ORI_WIN, int peer, int channel, void *dst, uint64_t bytes)
{
	struct oriel_mapped_channel ch;
	int err = 0;

	if (!win->staging_slot_bytes)
		return ori_refuse(win, g, ORIEL_EUNSUPPORTED, "recv",
				  "window was created without staging", 0, 0);
	if (win->checked)
		err = ori_check_channel(win, g, "recv", peer, channel);
	if (err)
		return err;
	if (ori_peer_is_mapped(ori_peer_entry(win, peer))) {
		ori_staged_channel(win, peer, channel, 0, &ch);
		err = ori_channel_recv(&win->comm, win->failure, g, &ch, channel, win->number, dst,
				       bytes);
	} else {
		err = ori_recv_queued(win, g, peer, channel, dst, bytes);
	}
	if (err == ORIEL_EMISMATCH)
		ori_refuse(win, g, err, "recv", "sender's message has another size; expected",
			   bytes, 0);
	return oriel_group_is_leader(g) ? ori_fail_window(win, err, peer) : err;
}

#endif
