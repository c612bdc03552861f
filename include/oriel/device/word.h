/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/word.h - bodies of device.h: reads of and waits for words of this rank's own window
 * buffer, and the call that wakes such waits at a peer.
 *
 * The words are the program's own.  Peers write them by puts, by atomics, or (mapped peers) by
 * plain stores.  A put makes no promise about the order of its bytes.  So the writer of a word that
 * announces data makes a fence between the data and the word, or writes the word by an atomic.
 */
#ifndef ORIEL_DEVICE_WORD_H
#define ORIEL_DEVICE_WORD_H

#include "access_words.h"
#include "check.h"
#include "element.h"

/*
 * Reports of a wait: the board has `id` and `peer` for the offset of a word, because no rank is
 * known to be late.  `id` has the lower 32 bits of the offset.  `peer` is -1 minus this number: the
 * upper bits of the offset, the comparison from bit 24 on, and bit 27 for signed values.  A wait
 * for any of several words has comparison 0, and `want` is the number of words.
 */
#define ORI_WORD_PEER(offset, cmp, is_signed)                                                      \
	(-1 - (int32_t)(((uint32_t)((offset) >> 32) & 0xffffffu) | (uint32_t)(cmp) << 24 |         \
			(uint32_t)(is_signed) << 27))
#define ORI_WORD_OFFSET(peer, id)                                                                  \
	((uint64_t)((uint32_t)(-1 - (peer)) & 0xffffffu) << 32 | (uint32_t)(id))
#define ORI_WORD_CMP(peer) (int)(((uint32_t)(-1 - (peer)) >> 24) & 7u)
#define ORI_WORD_SIGNED(peer) (int)(((uint32_t)(-1 - (peer)) >> 27) & 1u)

/* Both values are extended to 64 bits: ori_type_extend(). */
ORIEL_DEV int ori_word_compare(int type, uint64_t have, int cmp, uint64_t want)
{
	/* With the sign turned, signed values are in the order of unsigned ones. */
	uint64_t turn = ori_type_is_signed(type) ? 1ull << 63 : 0;
	uint64_t h = have ^ turn, w = want ^ turn;

	switch (cmp) {
	case ORIEL_EQ:
		return h == w;
	case ORIEL_NE:
		return h != w;
	case ORIEL_GT:
		return h > w;
	case ORIEL_GE:
		return h >= w;
	case ORIEL_LT:
		return h < w;
	default:
		return h <= w;
	}
}

ORIEL_DEV uint64_t oriel_read_word(const struct oriel_window_dev *win, uint64_t offset, int type)
{
	/*
	 * [WORD1] acquire, system scope; partner [WORD2] or [FETCH3] of a mapped peer, [SOFT7] or
	 * [SOFT9] of an engine, the NIC, or a release of the program itself.
	 */
	uint64_t bits = ori_load_word_acquire_sys(win->buffer + offset, oriel_type_bytes(type));

	return ori_type_extend(type, bits);
}

/* ---- tests of a checked window --------------------------------------------------------------- */

/* A range of this rank's own buffer that holds `n` aligned words. */
ORIEL_DEV_OUT int ori_check_words(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				  const char *call, uint64_t offset, int type, int cmp, uint64_t n)
{
	uint64_t bytes = oriel_type_bytes(type);
	int err = ori_check_compare(win, g, call, cmp);

	if (err)
		return err;
	if (!ori_type_is_integer(type))
		return ori_refuse(win, g, ORIEL_EINVAL, call,
				  "the type must be an integer, ORIEL_TYPE_INT8 to _UINT64, not",
				  (uint64_t)(int64_t)type, 0);
	if (n > win->bytes / bytes)
		return ori_refuse(win, g, ORIEL_ERANGE, call,
				  "the window is too small for this number of words:", n, 0);
	err = ori_check_range(win, g, call, "end of the window", offset, n * bytes, win->bytes);
	if (!err && (((uintptr_t)win->buffer + offset) & (bytes - 1)))
		err = ori_refuse(win, g, ORIEL_EINVAL, call,
				 "the word must be aligned to its size; its offset is", offset, 0);
	return err ? err : ori_check_live(win, g, call);
}

/* ---- one word -------------------------------------------------------------------------------- */

/* Called by one thread. */
ORIEL_DEV_OUT int ori_word_await(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				 uint64_t offset, int type, int cmp, uint64_t want)
{
	int err = ori_failed(&win->comm, win->failure);
	struct ori_spin s;
	uint64_t have;

	ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_WORD,
		       ORI_WORD_PEER(offset, cmp, ori_type_is_signed(type)),
		       (int32_t)(uint32_t)offset, win->number, want);
	ori_spin_within(&s, g);
	while (!err) {
		have = oriel_read_word(win, offset, type); /* [WORD1] inside */
		if (ori_word_compare(type, have, cmp, want))
			break;
		err = ori_spin(&s, have);
	}
	ori_spin_end(&s);
	return err;
}

ORIEL_DEV int oriel_wait_word(const struct oriel_window_dev *win, struct oriel_group g,
			      uint64_t offset, int type, int cmp, uint64_t value)
{
	int err = 0;

	if (ori_window_is_checked(win))
		err = ori_check_words(win, g, "wait_word", offset, type, cmp, 1);
	if (err)
		return err;
	if (oriel_group_is_leader(g))
		err = ori_word_await(win, g, offset, type, cmp, ori_type_extend(type, value));
	return ori_group_agree(g, err);
}

/* ---- any of several words -------------------------------------------------------------------- */

/* The value that word `i` is compared with. */
ORIEL_DEV uint64_t ori_words_want(const struct oriel_words *words, uint64_t i)
{
	uint64_t bytes = oriel_type_bytes(words->type), value = 0;

	if (!words->values)
		return ori_type_extend(words->type, words->value);
	memcpy(&value, (const uint8_t *)words->values + i * bytes, bytes);
	return ori_type_extend(words->type, value);
}

ORIEL_DEV uint64_t oriel_find_word(const struct oriel_window_dev *win,
				   const struct oriel_words *words, uint64_t first)
{
	uint64_t bytes = oriel_type_bytes(words->type), i, n, have;

	if (first >= words->count)
		first = 0;
	for (n = 0, i = first; n < words->count; n++, i = i + 1 == words->count ? 0 : i + 1) {
		if (words->skip && words->skip[i])
			continue;
		have = oriel_read_word(win, words->offset + i * bytes, words->type); /* [WORD1] */
		if (ori_word_compare(words->type, have, words->cmp, ori_words_want(words, i)))
			return i;
	}
	return words->count;
}

/* Does a wait have a word to wait for? */
ORIEL_DEV int ori_words_left(const struct oriel_words *words)
{
	uint64_t i;

	for (i = 0; i < words->count; i++)
		if (!words->skip || !words->skip[i])
			return 1;
	return 0;
}

/* Called by one thread. */
ORIEL_DEV_OUT int ori_words_await(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				  const struct oriel_words *words, uint64_t first, uint64_t *index)
{
	int err = ori_failed(&win->comm, win->failure);
	struct ori_spin s;

	*index = words->count;
	if (err || !ori_words_left(words))
		return err;
	ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_WORD,
		       ORI_WORD_PEER(words->offset, 0, 0), (int32_t)(uint32_t)words->offset,
		       win->number, words->count);
	ori_spin_within(&s, g);
	while (!err) {
		*index = oriel_find_word(win, words, first); /* [WORD1] inside */
		if (*index < words->count)
			break;
		err = ori_spin(&s, 0);
	}
	ori_spin_end(&s);
	return err;
}

ORIEL_DEV int oriel_wait_any_word(const struct oriel_window_dev *win, struct oriel_group g,
				  const struct oriel_words *words, uint64_t first, uint64_t *index)
{
	uint64_t found = words->count;
	int err = 0;

	if (ori_window_is_checked(win))
		err = ori_check_words(win, g, "wait_any_word", words->offset, words->type,
				      words->cmp, words->count);
	if (err)
		return err;
	if (oriel_group_is_leader(g))
		err = ori_words_await(win, g, words, first, &found);
	err = ori_group_agree_value(g, err, &found);
	if (!err)
		*index = found;
	return err;
}

/* ---- the other side -------------------------------------------------------------------------- */

ORIEL_DEV void oriel_wake(const struct oriel_window_dev *win, int peer)
{
	const struct oriel_window_peer *p = ori_peer_entry(win, peer);

	if (ori_peer_is_mapped(p))
		ori_wake(p->waiters);
}

#endif
