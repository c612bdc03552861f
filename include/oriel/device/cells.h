/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/cells.h - marked cells of a box: one cell, and runs of cells that lie side by side.
 *
 * packet_cells.h says why relaxed accesses are right here.
 */
#ifndef ORIEL_DEVICE_CELLS_H
#define ORIEL_DEVICE_CELLS_H

#include "packet_memory.h"

#define ORI_CELLS_UNROLL 4

/* ---- one cell -------------------------------------------------------------------------------- */

/*
 * The cells of a box.  It is passed by value: every store to a cell would make the compiler load
 * the members of a window again.
 */
struct ori_ring {
	uint8_t *cells;
	uint32_t mask; /* cells of the ring, less one */
	uint32_t laps; /* the lap of a count: its bits from here on */
};

ORIEL_DEV struct ori_ring ori_ring_of(const struct oriel_window_dev *win, struct oriel_box *box)
{
	struct ori_ring r;

	r.cells = ori_box_data(box);
	r.mask = win->cell_mask;
	r.laps = win->cell_laps;
	return r;
}

ORIEL_DEV uint64_t *ori_ring_cell(struct ori_ring r, uint64_t count)
{
	return (uint64_t *)(void *)(r.cells + (count & r.mask) * 16u);
}

/*
 * The mark of a cell: bit 31, 7 bits of the lap, 24 bits of the packet's size.  Every lap writes
 * every cell of the ring.  So a cell that is waited for holds zeros or the mark of the lap before,
 * and 7 bits are enough for ever.  Memory of zeros holds no mark, because of bit 31.
 */
ORIEL_DEV uint32_t ori_ring_mark(struct ori_ring r, uint64_t count, uint64_t bytes)
{
	return 0x80000000u | ((uint32_t)(count >> r.laps) & 0x7fu) << 24 | (uint32_t)bytes;
}

ORIEL_DEV void ori_cell_store(uint64_t *cell, uint64_t word, uint32_t mark)
{
	uint64_t high = (uint64_t)mark << 32;

	ori_store_pair_relaxed_sys(cell, high | (uint32_t)word, high | word >> 32);
}

/* Returns the mark, or 0 if the two words have different ones.  *word is the data. */
ORIEL_DEV uint32_t ori_cell_look(const uint64_t *cell, uint64_t *word)
{
	uint64_t low, high;

	ori_load_pair_relaxed_sys(cell, &low, &high);
	*word = (uint32_t)low | high << 32;
	return low >> 32 == high >> 32 ? (uint32_t)(low >> 32) : 0;
}

/* One look at a cell: 0 if it has the mark.  Then *word is its data. */
ORIEL_DEV uint32_t ori_cell_missing(const uint64_t *cell, uint32_t mark, uint64_t *word)
{
	uint64_t low, high;

	ori_load_pair_relaxed_sys(cell, &low, &high);
	*word = (uint32_t)low | high << 32;
	return ((uint32_t)(low >> 32) ^ mark) | ((uint32_t)(high >> 32) ^ mark);
}

/* Is it a mark of the same lap, but of a packet of another size? */
ORIEL_DEV int ori_cell_differs(uint32_t mark, uint32_t want)
{
	return mark != want && mark >> 24 == want >> 24;
}

/*
 * Cells of a packet that lie side by side: those of one lap, so all have one mark.  A packet is one
 * run, or two if the ring begins again inside it.
 */
struct ori_run {
	uint8_t *cells;
	uint32_t n, mark;
};

ORIEL_DEV struct ori_run ori_run_of(struct ori_ring r, uint64_t count, uint32_t left,
				    uint64_t bytes)
{
	uint32_t first = (uint32_t)count & r.mask, room = r.mask + 1 - first;
	struct ori_run run;

	run.cells = r.cells + (uint64_t)first * 16u;
	run.n = left < room ? left : room;
	run.mark = ori_ring_mark(r, count, bytes);
	return run;
}

#endif
