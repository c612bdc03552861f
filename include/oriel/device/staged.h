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
	int err = ori_check_id(win, g, call, "staging channel out of range", channel,
			       win->staging_channels);

	return err ? err : ori_check_peer(win, g, call, peer);
}

/* The stream me -> peer (sending) or peer -> me, as this end sees it. */
ORIEL_DEV void ori_staged_channel(const struct oriel_window_dev *win, int peer, int channel,
				  int sending, struct oriel_mapped_channel *ch)
{
	const struct oriel_window_peer *p = ori_window_peer(win, peer);
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
	ch->lengths = words;
	ch->ready = words + win->staging_depth;
	ch->cursor = win->staging_cursors + n * ORI_STAGING_LINE_WORDS + (sending ? 0 : 1);
	ch->slot_bytes = win->staging_slot_bytes;
	ch->depth = win->staging_depth;
	ch->peer = peer;
}

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
	if (!ori_peer_is_mapped(ori_window_peer(win, peer)))
		return ORIEL_ENOTCONN;
	ori_staged_channel(win, peer, channel, 1, &ch);
	err = ori_channel_send(&win->comm, win->failure, g, &ch, channel, win->number, src, bytes);
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
	if (!ori_peer_is_mapped(ori_window_peer(win, peer)))
		return ORIEL_ENOTCONN;
	ori_staged_channel(win, peer, channel, 0, &ch);
	err = ori_channel_recv(&win->comm, win->failure, g, &ch, channel, win->number, dst, bytes);
	if (err == ORIEL_EMISMATCH)
		ori_refuse(win, g, err, "recv", "sender's message has another size; expected",
			   bytes, 0);
	return oriel_group_is_leader(g) ? ori_fail_window(win, err, peer) : err;
}

#endif
