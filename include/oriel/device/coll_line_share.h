/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_line_share.h - a line of coll_line.h: what a thread keeps of it, and its waits.
 */
#ifndef ORIEL_DEVICE_COLL_LINE_SHARE_H
#define ORIEL_DEVICE_COLL_LINE_SHARE_H

#include "coll_long.h"

/* How the calls of a line are made. */
enum ori_line_way {
	ORI_LINE_ANY,   /* by ori_line_rounds(), which can make every call */
	ORI_LINE_WORDS, /* short, coll_line_words.h */
	ORI_LINE_SLOTS, /* long, coll_line_slots.h */
	ORI_LINE_PUSH,  /* straight into a window, likewise */
};

/*
 * One thread's copy of a line.  The members belong to the calls.  They are few, because a thread
 * holds them in registers between the calls.  What a GPU's thread keeps on its stack is lost from
 * the cache with every acquire.
 */
struct oriel_coll_line {
	struct ori_exchange x; /* `first` is 0: the terms were compared */
	struct ori_reducer how;
	uint64_t bytes; /* of a rank's block */
	/*
	 * What this thread moves.  The threads of a group divide the ranks of the part, `lanes` for
	 * each.  In words: its cells at the peer and here, in even rounds, and its first word in
	 * send and recv.  Through slots: the peer's block in the own slot, the own block in the
	 * peer's slot, in even rounds, and the peer's block in send and recv.
	 */
	uint8_t *out;
	const uint8_t *in;
	uint64_t from, to;
	uint32_t words; /* of a block, from its first one on; slots: 1; 0: the thread has no rank */
	uint32_t lanes; /* a power of 2 */
	uint32_t units; /* slots: of 64 bytes, the most of a block in one round */
	/* oriel_coll_into() */
	uint8_t *place; /* NULL: there is none */
	const struct oriel_window_dev *into;
	uint64_t into_off;
	uint32_t opened; /* low bits of its first round */
	int32_t way;     /* enum ori_line_way */
	int32_t err;     /* the line has failed */
};

/*
 * Not a status: something is unusual in a call, and ori_line_rounds() must help.  It is called only
 * where nothing but the line must survive: what must would be kept on the stack all the time.
 */
#define ORI_LINE_HELP 1

/* Ranks of the largest part. */
ORIEL_DEV uint32_t ori_line_ranks(const struct oriel_coll_line *l)
{
	uint32_t ranks = (uint32_t)l->x.team->win.comm.nranks, parts = (uint32_t)l->x.parts;

	return (ranks + parts - 1) / parts;
}

/*
 * Which blocks a line sends in cells.  All ranks must come to the same result, so it depends only
 * on what they have compared.  On an H200 with 512 threads cells are faster while a thread has up
 * to 12 of them; in a reduction, while a word of all ranks is read by few threads.
 */
#define ORI_LINE_MOVED (48u << 10)
#define ORI_LINE_REDUCED (24u << 10)

ORIEL_DEV uint32_t ori_line_cells(const struct oriel_coll_line *l)
{
	uint32_t most = (l->x.call.type ? ORI_LINE_REDUCED : ORI_LINE_MOVED) / ori_line_ranks(l);

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

#endif
