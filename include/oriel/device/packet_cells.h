/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/packet_cells.h - packets in marked cells, for mapped peers of a GPU.
 *
 * The data announces itself, so neither side fences and no signal follows the data.  All accesses
 * to cells and credits are relaxed.  What makes that right:
 *
 *   A word of a cell is indivisible and has data and mark.  A thread that finds the mark has the
 *   data.  It reads no other memory because of the mark, so it needs no acquire.
 *   The cell of a lap is not written again before the credit came.  The receiver gives the credit
 *   after all its threads have found their marks and met, so no read is left to disturb.
 *   A packet publishes only its own bytes.  For other memory there are signals.
 *
 * Sending: each thread loads the counts and its words, stores its cells, and only then looks at
 * what it need not wait for: failures and the credit.  Two meetings follow.  Before the first all
 * threads have read counts and source; before the second the leader stores the new counts, so the
 * next call finds them.  Receiving: only the leader loads the count, while the packet is probably
 * still under way; one meeting follows the cells.
 *
 * On the CPU this form serves tests and the fake driver: the leader receives alone.
 *
 * Model: models/packets.pml
 */
#ifndef ORIEL_DEVICE_PACKET_CELLS_H
#define ORIEL_DEVICE_PACKET_CELLS_H

#include "cells.h"

/* ---- sending --------------------------------------------------------------------------------- */

/*
 * Threads with several cells: their loads are in flight together.  That needs whole words; a test
 * of each word would put a branch between the loads.  `n` is the number of the thread's cells: in a
 * whole batch the constant ORI_CELLS_UNROLL, so that no cell needs a test.  (A block of 16 warps
 * takes 4 cycles for each instruction.)
 */
ORIEL_DEV void ori_run_put_batch(uint8_t *cell, uint32_t size, uint32_t n, uint32_t mark,
				 const uint8_t *src)
{
	uint64_t word[ORI_CELLS_UNROLL];
	uint32_t k;

	ORI_UNROLL
	for (k = 0; k < ORI_CELLS_UNROLL; k++)
		if (k < n)
			word[k] = ori_user_word(src + k * size * 8u);
	ORI_UNROLL
	for (k = 0; k < ORI_CELLS_UNROLL; k++)
		if (k < n)
			ori_cell_store((uint64_t *)(void *)(cell + k * size * 16u), word[k], mark);
}

/* How many of `left` cells are this thread's: thread, thread + size and so on. */
ORIEL_DEV uint32_t ori_cells_of_thread(uint32_t left, uint32_t thread, uint32_t size)
{
	uint32_t k, n = 0;

	ORI_UNROLL
	for (k = 0; k < ORI_CELLS_UNROLL; k++)
		n += thread + k * size < left;
	return n;
}

ORIEL_DEV void ori_run_put_words(struct ori_run run, uint32_t thread, uint32_t size,
				 const uint8_t *src)
{
	uint32_t batch = ORI_CELLS_UNROLL * size, left = run.n;
	uint8_t *cell = run.cells + thread * 16u;

	src += thread * 8u;
	for (; left >= batch; left -= batch) {
		ori_run_put_batch(cell, size, ORI_CELLS_UNROLL, run.mark, src);
		cell += batch * 16u;
		src += batch * 8u;
	}
	if (left)
		ori_run_put_batch(cell, size, ori_cells_of_thread(left, thread, size), run.mark,
				  src);
}

ORIEL_DEV void ori_cells_put_words(struct ori_ring out, uint32_t thread, uint32_t size,
				   uint64_t count, const uint8_t *src, uint64_t bytes)
{
	uint32_t left = (uint32_t)(bytes / 8);
	struct ori_run run;

	for (; left; left -= run.n) {
		run = ori_run_of(out, count, left, bytes);
		ori_run_put_words(run, thread, size, src);
		src += (uint64_t)run.n * 8u;
		count += run.n;
	}
}

ORIEL_DEV_OUT void ori_cells_put_odd(ORI_VALUE(ori_ring) out, uint32_t thread, uint32_t size,
				     uint64_t count, const void *src, uint64_t bytes)
{
	uint64_t cells = ori_packet_cells(bytes), i;

	for (i = thread; i < cells; i += size)
		ori_cell_store(ori_ring_cell(out, count + i),
			       bytes ? ori_cell_load(src, i, bytes) : 0,
			       ori_ring_mark(out, count + i, bytes));
}

ORIEL_DEV void ori_cells_put(struct ori_ring out, struct oriel_group g, uint64_t count,
			     const void *src, uint64_t bytes)
{
	if (ori_user_words_are_whole(src, bytes))
		ori_cells_put_words(out, g.thread, g.size, count, (const uint8_t *)src, bytes);
	else
		ori_cells_put_odd(out, g.thread, g.size, count, src, bytes);
}

/* The word of cell i of a packet with at most one cell per thread. */
ORIEL_DEV uint64_t ori_cells_word(const void *src, uint32_t i, uint64_t bytes)
{
	if (ori_user_words_are_whole(src, bytes))
		return ori_user_word((const uint8_t *)src + (uint64_t)i * 8u);
	return bytes ? ori_cell_load(src, i, bytes) : 0;
}

/* By value: a pointer to it would force the sender's count into memory. */
struct ori_cells_room {
	uint64_t freed;
	int32_t err;
};

/* Called by the group: waits until the credit is `want`. */
ORIEL_DEV_OUT struct ori_cells_room ori_cells_wait_room(const struct oriel_window_dev *win,
							ORI_VALUE(oriel_group) g, int peer, int box,
							uint64_t want)
{
	const uint64_t *credit = &ori_box_mine(win, peer, box)->credit;
	struct ori_cells_room room = { 0, 0 };
	struct ori_spin s;

	if (oriel_group_is_leader(g)) {
		ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_PACKET_SEND, peer, box,
			       win->number, want);
		ori_spin_within(&s, g);
		while (!ori_reached(room.freed = ori_load_relaxed_sys(credit), want) && !room.err)
			room.err = ori_spin(&s, room.freed);
		ori_spin_end(&s);
	}
	room.err = ori_group_agree_value(g, room.err, &room.freed);
	return room;
}

/* What the leader loads beside the cells, and uses after it has stored its own. */
struct ori_cells_beside {
	uint64_t credit;
	struct ori_failures look;
};

/* After the cells: the group learns of failures, and the leader moves the counts. */
ORIEL_DEV int ori_cells_sent(struct oriel_group g, const struct oriel_window_peer *p,
			     struct oriel_box *mine, uint64_t count, uint64_t freed,
			     struct ori_cells_beside beside)
{
	int err = ori_group_agree_failures(g, beside.look);

	if (!err && oriel_group_is_leader(g)) {
		ori_wake(p->waiters);
		ori_store_pair(&mine->sent, count,
			       ori_reached(beside.credit, freed) ? beside.credit : freed);
	}
	(void)oriel_group_sync(g);
	return err;
}

ORIEL_DEV int ori_cells_send(const struct oriel_window_dev *win, struct oriel_group g,
			     const struct oriel_window_peer *p, int peer, int box, const void *src,
			     uint64_t bytes)
{
	struct oriel_box *mine = ori_box_mine(win, peer, box);
	struct ori_ring out = ori_ring_of(win, ori_box_theirs(win, p, box));
	uint64_t cells = ori_packet_cells(bytes), count, freed, want, word = 0;
	struct ori_cells_beside beside = { 0, { 0, 0 } };
	struct ori_cells_room room;

	ori_load_pair(&mine->sent, &count, &freed);
	if (cells <= g.size && 8u * g.thread < bytes)
		word = ori_cells_word(src, g.thread, bytes);
	if (oriel_group_is_leader(g)) {
		beside.credit = ori_load_relaxed_sys(&mine->credit);
		beside.look = ori_failures_of_window(win);
	}
	want = count + cells - out.mask - 1;
	if (!ori_reached(freed, want)) {
		room = ORI_RARE(ori_cells_wait_room)(win, g, peer, box, want);
		if (room.err)
			return room.err;
		freed = room.freed;
	}
	if (cells > g.size)
		ori_cells_put(out, g, count, src, bytes);
	else if (g.thread < cells)
		ori_cell_store(ori_ring_cell(out, count + g.thread), word,
			       ori_ring_mark(out, count + g.thread, bytes));
	return ori_cells_sent(g, p, mine, count + cells, freed, beside);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/*
 * Gives the leader's value to all threads of the group.  The group must meet before it calls this
 * again: then all of them have read it.
 */
ORIEL_DEV uint64_t ori_group_tell(struct oriel_group g, uint64_t value)
{
#if ORIEL_ON_GPU
	if (g.scope == ORIEL_GROUP_WARP)
		return __shfl_sync(ori_warp_mask(g.size), (unsigned long long)value, 0);
	if (g.scope == ORIEL_GROUP_BLOCK) {
		if (g.thread == 0)
			ori_block_words()->told = value;
		__syncthreads();
		return ori_block_words()->told;
	}
#endif
	(void)g;
	return value; /* CPU: the leader receives alone */
}

/* Threads of the group that take cells. */
ORIEL_DEV uint32_t ori_cells_takers(struct oriel_group g)
{
	return ORIEL_ON_GPU ? g.size : 1u;
}

/* By value, as struct ori_cells_room. */
struct ori_cell_taken {
	uint64_t word;
	int32_t err;
};

/*
 * Called by one thread: waits for the cell.  Not inlined: the fast path polls by itself for a while
 * and needs no struct ori_spin, whose registers every caller would pay for.
 */
ORIEL_DEV_OUT struct ori_cell_taken ori_cell_wait(const struct oriel_window_dev *win,
						  ORI_VALUE(oriel_group) g, int peer, int box,
						  uint64_t count, const uint64_t *cell,
						  uint32_t mark)
{
	struct ori_cell_taken t = { 0, 0 };
	uint32_t have, more;
	struct ori_spin s;

	ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_PACKET_RECV, peer, box, win->number,
		       count + 1);
	ori_spin_within(&s, g);
	have = ori_cell_look(cell, &t.word);
	while (have != mark && !t.err) {
		t.err = ori_cell_differs(have, mark) ?
				ORI_RARE(ori_packet_mismatch)(win, peer, mark & 0xffffffu) :
				ori_spin(&s, count);
		have = ori_cell_look(cell, &t.word);
		for (more = ori_spin_polls(&s); more && have != mark; more--)
			have = ori_cell_look(cell, &t.word);
	}
	ori_spin_end(&s);
	t.err = have == mark ? 0 : t.err;
	return t;
}

/* Called by one thread: waits for the n cells that it looks at together. */
ORIEL_DEV_OUT int ori_run_wait(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
			       int peer, int box, uint64_t count, const uint8_t *cell, uint32_t n,
			       uint32_t mark)
{
	struct ori_cell_taken t = { 0, 0 };
	uint32_t k, step = ori_cells_takers(g) * 16u;

	for (k = 0; k < n && !t.err; k++, cell += step)
		t = ORI_RARE(ori_cell_wait)(win, g, peer, box, count,
					    (const uint64_t *)(const void *)cell, mark);
	return t.err;
}

/* One look at n cells that are `step` bytes apart.  Returns 0 if all of them are there. */
ORIEL_DEV uint32_t ori_run_look(const uint8_t *cell, uint32_t step, uint32_t n, uint32_t mark,
				uint64_t *word)
{
	uint32_t missing = 0, k;

	ORI_UNROLL
	for (k = 0; k < ORI_CELLS_UNROLL; k++)
		if (k < n)
			missing |=
				ori_cell_missing((const uint64_t *)(const void *)(cell + k * step),
						 mark, &word[k]);
	return missing;
}

/* Waits for n cells of this thread; their data goes to `word`. */
ORIEL_DEV int ori_run_await(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			    int box, uint64_t count, const uint8_t *cell, uint32_t n, uint32_t mark,
			    uint64_t *word)
{
	uint32_t step = ori_cells_takers(g) * 16u, polls = ORI_SPIN_POLLS, missing;
	int err;

	ORI_ROLLED
	do
		missing = ori_run_look(cell, step, n, mark, word);
	while (missing && --polls);
	if (!missing)
		return 0;
	err = ORI_RARE(ori_run_wait)(win, g, peer, box, count, cell, n, mark);
	if (!err)
		(void)ori_run_look(cell, step, n, mark, word); /* all are there */
	return err;
}

/* Whole words of the user's, `step` bytes apart. */
ORIEL_DEV void ori_run_store(uint8_t *to, uint32_t step, uint32_t n, const uint64_t *word)
{
	uint32_t k;

	ORI_UNROLL
	for (k = 0; k < ORI_CELLS_UNROLL; k++)
		if (k < n)
			ori_user_word_store(to + k * step, word[k]);
}

/* n cells of this thread; the first is number `at` of the packet. */
ORIEL_DEV int ori_run_take_batch(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				 int box, uint64_t count, const uint8_t *cell, uint32_t n,
				 uint32_t mark, uint32_t at, void *dst, uint64_t bytes)
{
	uint32_t size = ori_cells_takers(g), k;
	uint64_t word[ORI_CELLS_UNROLL];
	int err = ori_run_await(win, g, peer, box, count, cell, n, mark, word);

	if (err)
		return err;
	if (ori_user_words_are_whole(dst, bytes)) {
		ori_run_store((uint8_t *)dst + at * 8u, size * 8u, n, word);
		return 0;
	}
	ORI_UNROLL
	for (k = 0; k < ORI_CELLS_UNROLL; k++)
		if (k < n)
			ori_cell_deliver(dst, at + k * size, bytes, word[k]);
	return 0;
}

/* Called by one thread: takes its cells of a packet that has more cells than takers. */
ORIEL_DEV int ori_cells_take_many(const struct oriel_window_dev *win, struct ori_ring in,
				  struct oriel_group g, int peer, int box, uint64_t count,
				  void *dst, uint64_t bytes)
{
	uint32_t cells = (uint32_t)ori_packet_cells(bytes), size = ori_cells_takers(g);
	uint32_t batch = ORI_CELLS_UNROLL * size, first = 0, left, at;
	const uint8_t *cell;
	struct ori_run run;
	int err = 0;

	for (; first < cells && !err; first += run.n) {
		run = ori_run_of(in, count + first, cells - first, bytes);
		cell = run.cells + g.thread * 16u;
		at = first + g.thread;
		for (left = run.n; left >= batch && !err; left -= batch) {
			err = ori_run_take_batch(win, g, peer, box, count, cell, ORI_CELLS_UNROLL,
						 run.mark, at, dst, bytes);
			cell += batch * 16u;
			at += batch;
		}
		if (left && !err)
			err = ori_run_take_batch(win, g, peer, box, count, cell,
						 ori_cells_of_thread(left, g.thread, size),
						 run.mark, at, dst, bytes);
	}
	return err;
}

/* Called by one thread that takes cell number g.thread of the packet, if there is one. */
ORIEL_DEV int ori_cells_take_one(const struct oriel_window_dev *win, struct ori_ring in,
				 struct oriel_group g, int peer, int box, uint64_t count, void *dst,
				 uint64_t bytes)
{
	const uint64_t *cell = ori_ring_cell(in, count + g.thread);
	uint32_t mark = ori_ring_mark(in, count + g.thread, bytes), polls;
	/* before the cell is there, while nothing else can be done */
	uint32_t whole = ori_now32((uint32_t)ori_user_words_are_whole(dst, bytes));
	uint8_t *to = ori_now_pointer((uint8_t *)dst + (uint64_t)g.thread * 8u);
	struct ori_cell_taken t = { 0, 0 };

	if (g.thread >= (uint32_t)ori_packet_cells(bytes))
		return 0;
	/* The wait is not called inside this loop: on an H200 that took 0.1 us longer. */
	ORI_ROLLED
	for (polls = ORI_SPIN_POLLS; polls && ori_cell_missing(cell, mark, &t.word);)
		polls--;
	if (!polls)
		t = ORI_RARE(ori_cell_wait)(win, g, peer, box, count, cell, mark);
	if (t.err)
		return t.err;
	if (whole)
		ori_user_word_store(to, t.word);
	else if (bytes)
		ori_cell_deliver(dst, g.thread, bytes, t.word);
	return 0;
}

/* Called by all threads of the group: those that take cells wait for theirs and deliver them. */
ORIEL_DEV int ori_cells_take(const struct oriel_window_dev *win, struct ori_ring in,
			     struct oriel_group g, int peer, int box, uint64_t count, void *dst,
			     uint64_t bytes)
{
	uint32_t takers = ori_cells_takers(g);

	if (g.thread >= takers)
		return 0;
	if (ori_packet_cells(bytes) > takers)
		return ori_cells_take_many(win, in, g, peer, box, count, dst, bytes);
	return ori_cells_take_one(win, in, g, peer, box, count, dst, bytes);
}

ORIEL_DEV int ori_cells_recv(const struct oriel_window_dev *win, struct oriel_group g,
			     const struct oriel_window_peer *p, int peer, int box, void *dst,
			     uint64_t bytes)
{
	struct oriel_box *mine = ori_box_mine(win, peer, box);
	uint64_t cells = ori_packet_cells(bytes), count = 0, returned = 0;
	struct ori_failures look = { 0, 0 };
	int err;

	if (oriel_group_is_leader(g)) {
		ori_load_pair(&mine->taken, &count, &returned);
		look = ori_failures_of_window(win);
	}
	count = ori_group_tell(g, count);
	err = ori_cells_take(win, ori_ring_of(win, mine), g, peer, box, count, dst, bytes);
	if (!err)
		err = ori_failures_status(look);
	/* Here every thread has its cells.  Credits before this meeting would let cells be lost. */
	err = ori_group_agree_any(g, err);
	if (err || !oriel_group_is_leader(g))
		return err;
	count += cells;
	if (count - returned > win->cell_mask / ORI_BOX_PACKETS) {
		returned = count;
		ori_store_relaxed_sys(&ori_box_theirs(win, p, box)->credit, count);
		ori_wake(p->waiters);
	}
	ori_store_pair(&mine->taken, count, returned);
	return 0;
}

#endif
