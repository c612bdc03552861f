/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/team_cells.h - where a team's channel has its marked cells, and what their mark is.
 *
 * A rank has two places per source, used in turn by the rounds of the channel.  A place has two
 * cells for the terms of the call, then the data of a short round (coll_cells.h).  Its last two
 * cells are for sizes of an all-to-all-v (coll_v_cells.h).  The mark is the number of the round.
 *
 * A place may be written again two rounds later without any credit: its writer has then seen every
 * rank in the round between, and a rank enters that one after its threads have taken their cells
 * and met.
 *
 * Not every round writes every cell, and a mark has 31 bits of the number.  So a cell that was last
 * written 2^31 rounds ago would look new.  Each rank clears its places before that.  It does so at
 * the end of a round: no rank writes the place of this round again before this rank has entered the
 * next one.
 */
#ifndef ORIEL_DEVICE_TEAM_CELLS_H
#define ORIEL_DEVICE_TEAM_CELLS_H

#include "packet_cells.h"
#include "team.h"

#define ORI_ROUND_MARKS 0x7fffffffu
#define ORI_ROUND_CLEAR 0x3fffffffu /* both places are cleared when these bits are 0, then 1 */

/* Offset of the place that `source` writes in every rank's window; `base` is the channel's. */
ORIEL_DEV uint64_t ori_place_off(const struct oriel_team_dev *t, uint64_t base, uint64_t round,
				 int source)
{
	uint64_t place = (ORI_TERMS_CELLS + t->cell_bytes / 8u) * 16u;

	return base + t->cells_off + (2 * (uint64_t)(uint32_t)source + (round & 1u)) * place;
}

ORIEL_DEV uint32_t ori_round_mark(const struct oriel_team_dev *t, uint64_t round)
{
	return 0x80000000u | ((uint32_t)(round + t->first_round) & ORI_ROUND_MARKS);
}

/* Of the sources first, first + step and so on. */
ORIEL_DEV_OUT void ori_places_clear(const struct oriel_team_dev *t, ORI_VALUE(oriel_group) g,
				    uint64_t base, uint64_t round, int first, int step)
{
	uint64_t place = (ORI_TERMS_CELLS + t->cell_bytes / 8u) * 16u, i;
	int r;

	for (r = first; r < t->win.comm.nranks; r += step)
		for (i = 8u * g.thread; i < place; i += 8u * g.size)
			ori_store_relaxed_sys((uint64_t *)(void *)(t->win.buffer + i +
								   ori_place_off(t, base, round,
										 r)),
					      0);
	/* Before the cell of the next round, which lets its peer write the place again. */
	ori_fence_sys(); /* no acquire of ours: it orders stores to one place */
	(void)oriel_group_sync(g);
}

/* Are places cleared at the end of this round? */
ORIEL_DEV int ori_round_clears(const struct oriel_team_dev *t, uint64_t round)
{
	return t->cell_bytes && ((round + t->first_round) & ORI_ROUND_CLEAR) <= 1;
}

#endif
