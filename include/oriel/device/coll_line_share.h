/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_line_share.h - a line of coll_line.h: what a thread keeps of it, and its waits.
 */
#ifndef ORIEL_DEVICE_COLL_LINE_SHARE_H
#define ORIEL_DEVICE_COLL_LINE_SHARE_H

#include "coll_long.h"

/*
 * One thread's copy of a line.  The members belong to the calls.  It has few, because a thread
 * holds them in registers between the calls.
 */
struct oriel_coll_line {
	struct ori_exchange x; /* `first` is 0: the terms were compared */
	struct ori_reducer how;
	uint64_t bytes; /* of a rank's block */
	/* Calls in whole words.  Addresses are those of even rounds, and of the thread's first cell. */
	uint8_t *out;
	const uint8_t *in;
	uint64_t from, to; /* offset of the thread's first word in send and recv */
	uint32_t words;    /* of the block that this thread helps to move, behind its first one */
	uint32_t lanes;    /* threads that move a block together; 0: calls have other ways */
	/* Blocks that go straight into a window: oriel_coll_into() */
	const struct oriel_window_dev *into;
	uint64_t into_off;
	uint32_t opened; /* low bits of its first round */
	int32_t peer;
	int32_t err; /* the line has failed */
};

/*
 * Which blocks a line sends in cells.  All ranks must come to the same result, so it depends only
 * on what they have compared.  On an H200 with 512 threads cells are faster while a thread has up
 * to 12 of them; in a reduction, while a word of all ranks is read by few threads.
 */
#define ORI_LINE_MOVED (48u << 10)
#define ORI_LINE_REDUCED (24u << 10)

ORIEL_DEV uint32_t ori_line_cells(const struct oriel_coll_line *l)
{
	uint32_t ranks = (uint32_t)l->x.team->win.comm.nranks, parts = (uint32_t)l->x.parts, most;

	most = (l->x.call.type ? ORI_LINE_REDUCED : ORI_LINE_MOVED) / ((ranks + parts - 1) / parts);
	return l->x.team->cell_bytes < most ? l->x.team->cell_bytes : most;
}

/* From the cells of an even round to those of an odd one. */
ORIEL_DEV uint32_t ori_line_half(const struct oriel_coll_line *l)
{
	return (ORI_TERMS_CELLS + l->x.team->cell_bytes / 8u) * 16u;
}

/* Called by the group: the round is over on this rank. */
ORIEL_DEV void ori_line_end(struct oriel_coll_line *l, struct oriel_group g)
{
	l->x.round++;
	/* so that a line that nobody closes does not make later calls take old cells */
	if (oriel_group_is_leader(g))
		ori_exchange_state(&l->x)->rounds = l->x.round;
}

/* ---- waits ----------------------------------------------------------------------------------- */

/* Called by one thread that has looked in vain: waits for a cell of `source`. */
ORIEL_DEV_OUT int ori_line_wait_out(const struct ori_exchange *x, int source, uint32_t cell)
{
	struct ori_cell_taken t = ori_short_wait_out(x, source, ORI_TERMS_CELLS + cell);

	/* that rank makes another call on this channel */
	return t.err == ORI_TERMS_STOP ? ORIEL_EMISMATCH : t.err;
}

ORIEL_DEV int ori_line_wait(const struct oriel_coll_line *l, struct oriel_group g, int source,
			    uint32_t cell)
{
	struct ori_exchange copy = l->x;

	copy.g = g;
	return ORI_RARE(ori_line_wait_out)(&copy, source, cell);
}

#endif
