/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/sources.h - where the data of each rank lies in one step of a collective.
 *
 * The data of this rank may lie anywhere.  The data of a mapped peer lies in that peer's window, at
 * the same offset for all of them.  The data of a queued peer was put into this rank's own window,
 * into the row of that peer.  Callers that know the addresses themselves give a table.
 */
#ifndef ORIEL_DEVICE_SOURCES_H
#define ORIEL_DEVICE_SOURCES_H

#include "handle.h"

struct ori_sources {
	const struct oriel_window_dev *win;
	const uint8_t *mine;   /* this rank's */
	uint64_t mapped_off;   /* in the window of a mapped peer */
	uint64_t queued_off;   /* in the own window: row 0 */
	uint64_t queued_bytes; /* from one row to the next */
	const uint8_t *rows;   /* not NULL: the data of all ranks lies here, in rows */
	uint64_t row_bytes;
	const uint8_t *const *table; /* CPU, not NULL: where the data of each rank lies */
	int32_t own;                 /* this rank */
	int32_t n;                   /* ranks */
};

ORIEL_DEV const uint8_t *ori_source(const struct ori_sources *s, int r)
{
	struct oriel_window_peer p;

	if (!ORIEL_ON_GPU && s->table)
		return s->table[r];
	if (s->rows)
		return s->rows + (uint64_t)(uint32_t)r * s->row_bytes;
	if (r == s->own)
		return s->mine;
	p = ori_window_entry(s->win, r);
	if (ori_peer_is_mapped(&p))
		return p.buffer + s->mapped_off;
	return s->win->buffer + s->queued_off + (uint64_t)(uint32_t)r * s->queued_bytes;
}

#endif
