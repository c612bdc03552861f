/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/staged.h - bodies of device.h: send and recv through a window's staging slots.
 *
 * It lays out the window's staging memory as streams of mapped.h.  For each (source, channel) the
 * receiver has `depth` slots and a row of words: `depth` lengths, then `ready`.  For each (peer,
 * channel) the sender has a free count.  Cursors of both directions are local.
 *
 * Model: models/staged.pml
 */
#ifndef ORIEL_DEVICE_STAGED_H
#define ORIEL_DEVICE_STAGED_H

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

/* The stream from this rank to the peer (sending), or from the peer, as seen by this end. */
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

/* ---- queued peers: the same streams, slots and counts written by puts ------------------------ */

/* One word of the peer's control memory, on the channel's lane. */
ORIEL_DEV void ori_staged_word(const struct oriel_window_link *l, uint64_t offset, uint64_t value,
			       struct ori_post *post)
{
	post->signal = ORIEL_SET;
	post->word = offset;
	post->word_key = l->control_key;
	post->signal_value = value;
}

/* This end of a stream to a queued peer. */
struct ori_staged_out {
	const struct oriel_window_link *link;
	uint64_t *cursor, *free_count;
	uint64_t *posted; /* [slot]: the queue's count that ends its use */
	uint8_t *slots;   /* in the device's half; the bytes go to the host's half */
	uint32_t lane;
	int32_t peer, channel;
};

ORIEL_DEV struct ori_staged_out ori_staged_out_of(const struct oriel_window_dev *win,
						  const struct oriel_window_link *l, int peer,
						  int channel)
{
	uint64_t n = (uint64_t)peer * win->staging_channels + (uint64_t)channel;
	uint64_t line = n * ORI_STAGING_LINE_WORDS;
	struct ori_staged_out out;

	out.link = l;
	out.cursor = win->staging_cursors + line;
	out.free_count = (uint64_t *)ori_host_half(&win->comm, win->staging_free + line);
	out.posted = win->staging_posted + n * win->staging_depth;
	out.slots = win->staging_out + n * win->staging_depth * win->staging_slot_bytes;
	out.lane = (uint32_t)channel % l->link->nlanes;
	out.peer = peer;
	out.channel = channel;
	return out;
}

/* Called by one thread: waits until the slot of `cursor` may be filled again. */
ORIEL_DEV_OUT int ori_staged_wait_free(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				       const struct ori_staged_out *out, uint64_t cursor)
{
	struct ori_op_context context = ori_call_context(win, ORIEL_CALL_SEND);
	int err = ori_channel_wait(&context, g, ORIEL_OP_SEND, out->peer, out->channel,
				   out->free_count, cursor + 1 - win->staging_depth,
				   win->comm.host_shift != 0);

	if (err)
		return err;
	ori_context_within(&context, g);
	/* The peer has it, but the NIC may send it again until its WQE is complete. */
	return ori_queue_wait(&context, out->link->link->lanes[out->lane].main,
			      out->posted[cursor % win->staging_depth]);
}

/*
 * Called by one thread: posts the data in the slot of `cursor`, then the remaining length of the
 * message, then `ready`, in this order.
 */
ORIEL_DEV_OUT int ori_staged_post(const struct oriel_window_dev *win,
				  const struct ori_staged_out *out, uint64_t cursor, uint64_t bytes,
				  uint64_t left)
{
	const struct oriel_window_link *l = out->link;
	uint64_t channel = (uint64_t)out->channel, slot = cursor % win->staging_depth;
	uint64_t row = ori_staging_row_words(win->staging_depth) * 8;
	uint64_t words = l->staging_words + channel * row;
	uint64_t at = (channel * win->staging_depth + slot) * win->staging_slot_bytes;
	struct ori_op_context context = ori_call_context(win, ORIEL_CALL_SEND);
	struct ori_post post;
	int err;

	ori_post_init(&post);
	post.remote = l->staging + at;
	post.rkey = l->control_key;
	post.local = (uint64_t)(out->slots + slot * win->staging_slot_bytes - win->control);
	post.lkey = win->control_key;
	post.bytes = bytes;
	ori_staged_word(l, words + 8 * slot, left, &post);
	post.tells = 0; /* the post of `ready` below announces the data */
	err = ori_queue_post(&context, l->link, out->lane, &post);
	if (err)
		return err;
	out->posted[slot] = ori_queue_rung(l->link->lanes[out->lane].main);
	ori_post_init(&post);
	ori_staged_word(l, words + 8 * (uint64_t)win->staging_depth, cursor + 1, &post);
	return ori_queue_post(&context, l->link, out->lane, &post);
}

ORIEL_DEV_OUT int ori_send_queued(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				  int peer, int channel, const void *src, uint64_t bytes)
{
	const struct oriel_window_link *l = ori_peer_entry(win, peer)->link;
	struct ori_op_context context = ori_call_context(win, ORIEL_CALL_SEND);
	uint64_t cursor, sent = 0, slot_bytes = win->staging_slot_bytes, piece;
	struct ori_staged_out out;
	int err, over = 0;

	if (!l)
		return ORIEL_ENOTCONN;
	out = ori_staged_out_of(win, l, peer, channel);
	err = ori_channel_begin(&context, g, out.cursor, &cursor);
	for (; !err && !over; sent += piece, over = sent == bytes, cursor++) {
		piece = bytes - sent < slot_bytes ? bytes - sent : slot_bytes;
		if (oriel_group_is_leader(g))
			err = ori_staged_wait_free(win, g, &out, cursor);
		err = ori_group_agree(g, err);
		if (err)
			break;
		ori_group_copy(g,
			       ori_host_half(&win->comm,
					     out.slots + cursor % win->staging_depth * slot_bytes),
			       (const uint8_t *)src + sent, piece);
		err = ori_agree_window(win, g);
		if (!err && oriel_group_is_leader(g)) {
			err = ori_staged_post(win, &out, cursor, piece, bytes - sent);
			ori_store_relaxed_sys(out.cursor, cursor + 1);
		}
		err = ori_group_agree(g, err);
	}
	return err;
}

/* Called by one thread: tells the sender that this rank has emptied `count` slots. */
ORIEL_DEV_OUT int ori_staged_free(const struct oriel_window_dev *win,
				  const struct oriel_window_link *l, int channel, uint64_t count)
{
	struct ori_op_context context = ori_call_context(win, ORIEL_CALL_RECV);
	struct ori_post post;

	ori_post_init(&post);
	ori_staged_word(l, l->staging_free + (uint64_t)channel * ORIEL_LINE_BYTES, count, &post);
	return ori_queue_post(&context, l->link, (uint32_t)channel % l->link->nlanes, &post);
}

ORIEL_DEV_OUT int ori_recv_queued(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				  int peer, int channel, void *dst, uint64_t bytes)
{
	const struct oriel_window_link *l = ori_peer_entry(win, peer)->link;
	struct ori_op_context context = ori_call_context(win, ORIEL_CALL_RECV);
	struct oriel_mapped_channel ch;
	uint64_t cursor, got = 0, piece;
	int err, over = 0;

	if (!l)
		return ORIEL_ENOTCONN;
	ori_staged_channel(win, peer, channel, 0, &ch);
	err = ori_channel_begin(&context, g, ch.cursor, &cursor);
	for (; !err && !over; got += piece, over = got == bytes) {
		piece = bytes - got < ch.slot_bytes ? bytes - got : ch.slot_bytes;
		if (oriel_group_is_leader(g))
			err = ori_channel_wait_filled(&context, g, &ch, channel, cursor,
						      bytes - got, win->comm.host_shift != 0);
		err = ori_group_agree(g, err);
		if (err)
			break;
		ori_group_copy(g, (uint8_t *)dst + got,
			       ch.slots + cursor % ch.depth * ch.slot_bytes, piece);
		err = ori_agree_window(win, g);
		cursor++;
		if (!err && oriel_group_is_leader(g)) {
			err = ori_staged_free(win, l, channel, cursor);
			ori_store_relaxed_sys(ch.cursor, cursor);
		}
		err = ori_group_agree(g, err);
	}
	return err;
}

/* ---- public ---------------------------------------------------------------------------------- */

ORIEL_DEV int oriel_send(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			 int channel, const void *src, uint64_t bytes)
{
	struct oriel_mapped_channel ch;
	int err = 0;

	if (!win->staging_slot_bytes)
		return ori_refuse(win, g, ORIEL_EUNSUPPORTED, "send",
				  "window was created without staging", 0, 0);
	if (ori_window_is_checked(win))
		err = ori_check_channel(win, g, "send", peer, channel);
	if (err)
		return err;
	if (ori_peer_is_mapped(ori_peer_entry(win, peer))) {
		ori_staged_channel(win, peer, channel, 1, &ch);
		err = ori_channel_send(ori_window_context(win), g, &ch, channel, src, bytes);
	} else {
		err = ori_send_queued(win, g, peer, channel, src, bytes);
	}
	return oriel_group_is_leader(g) ? ori_fail_window(win, err, peer) : err;
}

ORIEL_DEV int oriel_recv(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			 int channel, void *dst, uint64_t bytes)
{
	struct oriel_mapped_channel ch;
	int err = 0;

	if (!win->staging_slot_bytes)
		return ori_refuse(win, g, ORIEL_EUNSUPPORTED, "recv",
				  "window was created without staging", 0, 0);
	if (ori_window_is_checked(win))
		err = ori_check_channel(win, g, "recv", peer, channel);
	if (err)
		return err;
	if (ori_peer_is_mapped(ori_peer_entry(win, peer))) {
		ori_staged_channel(win, peer, channel, 0, &ch);
		err = ori_channel_recv(ori_window_context(win), g, &ch, channel, dst, bytes);
	} else {
		err = ori_recv_queued(win, g, peer, channel, dst, bytes);
	}
	if (err == ORIEL_EMISMATCH)
		ori_refuse(win, g, err, "recv", "sender's message has another size; expected",
			   bytes, 0);
	return oriel_group_is_leader(g) ? ori_fail_window(win, err, peer) : err;
}

#endif
