/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/line.h - bodies of device.h: a box that a group holds open.
 *
 * A line keeps in registers what a packet call loads each time: addresses, counts, credits.  Its
 * calls then touch only the cells and the user's memory.  Three rules make that right.
 *
 *   While a line is open, no other call uses the box in either direction.  So the counts in memory
 *   may be old.  oriel_line_close() stores them.
 *   Every thread has its own copy of the line, and all copies are equal.  Counts move by sizes that
 *   all threads know.  The credit moves only where the group meets: in ori_cells_wait_room(), or
 *   with a packet that is received.
 *   A send has no meeting.  Each thread waits for nothing but room, and no thread writes a cell of
 *   another one.
 *
 * Cells, marks and memory order are those of packet_cells.h.  Slots and queued peers use the packet
 * calls: there the counts belong to memory, and loading them is not what takes the time.
 */
#ifndef ORIEL_DEVICE_LINE_H
#define ORIEL_DEVICE_LINE_H

#include "packet.h"

/* One thread's copy of a line.  The members belong to the calls. */
struct oriel_line {
	const struct oriel_window_dev *win;
	struct oriel_box *mine; /* counts and credit; NULL: the packet calls are used */
	uint64_t *credit;       /* the peer's: what this rank has taken */
	struct oriel_waiters *waiters;
	struct ori_ring in, out; /* cells that the peer writes, and that this rank writes */
	uint64_t sent, freed;    /* cells written, and cells that the peer has given back */
	uint64_t taken, returned;
	int32_t peer, box;
};

/* Do marked cells serve this peer? */
ORIEL_DEV int ori_line_has_cells(const struct oriel_window_dev *win,
				 const struct oriel_window_peer *p)
{
	return ori_peer_is_mapped(p) && win->box_marked;
}

ORIEL_DEV int oriel_line_open(struct oriel_line *line, const struct oriel_window_dev *win,
			      struct oriel_group g, int peer, int box)
{
	struct oriel_window_peer p;
	struct oriel_box *theirs;
	int err = 0;

	/* First: a line whose opening failed may be closed too. */
	memset(line, 0, sizeof(*line));
	line->win = win;
	line->peer = peer;
	line->box = box;
	if (!win->boxes)
		return ORI_RARE(ori_packet_refuse)(win, g, "line_open", 0);
	if (ori_window_is_checked(win))
		err = ORI_RARE(ori_check_packet)(win, g, "line_open", peer, box);
	/* The leader of a packet call before this one may be about to store the counts. */
	if (!err)
		err = oriel_group_sync(g);
	if (err)
		return err;
	p = ori_window_entry(win, peer);
	if (!ori_line_has_cells(win, &p))
		return 0;
	line->waiters = p.waiters;
	line->mine = ori_box_mine(win, peer, box);
	theirs = ori_box_theirs(win, &p, box);
	line->credit = &theirs->credit;
	line->in = ori_ring_of(win, line->mine);
	line->out = ori_ring_of(win, theirs);
	ori_load_pair(&line->mine->sent, &line->sent, &line->freed);
	ori_load_pair(&line->mine->taken, &line->taken, &line->returned);
	return 0;
}

/* Without cells.  Not inlined: their registers would be taken from the way with cells. */
ORIEL_DEV_OUT int ori_line_send_call(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				     int peer, int box, const void *src, uint64_t bytes)
{
	return oriel_packet_send(win, g, peer, box, src, bytes);
}

ORIEL_DEV_OUT int ori_line_recv_call(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				     int peer, int box, void *dst, uint64_t bytes)
{
	return oriel_packet_recv(win, g, peer, box, dst, bytes);
}

/*
 * Each thread of the block has as many cells as are in flight together, all of one lap, with whole
 * words of the user's: 16 KiB with 512 threads.  Such a packet needs no loops and no tests of
 * single cells.  A block of 16 warps takes 4 cycles for each instruction.
 */
ORIEL_DEV int ori_line_is_batch(struct ori_run run, uint32_t cells, struct oriel_group g,
				const void *users, uint64_t bytes)
{
	return run.n == cells && cells == ORI_CELLS_UNROLL * g.size &&
	       ori_user_words_are_whole(users, bytes);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* The counts are less than 2^31 apart: their low halves are enough. */
ORIEL_DEV int ori_line_is_full(const struct oriel_line *line, uint32_t cells)
{
	return (uint32_t)line->sent + cells - (uint32_t)line->freed > line->out.mask + 1;
}

ORIEL_DEV int ori_line_wait_room(struct oriel_line *line, struct oriel_group g, uint32_t cells)
{
	struct ori_cells_room room =
		ORI_RARE(ori_cells_wait_room)(line->win, g, line->peer, line->box,
					      line->sent + cells - line->out.mask - 1);

	if (!room.err)
		line->freed = room.freed;
	return room.err;
}

/* A packet with more cells than the group has threads. */
ORIEL_DEV int ori_line_send_long(struct oriel_line *line, struct oriel_group g, const void *src,
				 uint64_t bytes, uint32_t cells)
{
	struct ori_run run = ori_run_of(line->out, line->sent, cells, bytes);
	int err = ori_line_is_full(line, cells) ? ori_line_wait_room(line, g, cells) : 0;

	if (err)
		return err;
	if (ori_line_is_batch(run, cells, g, src, bytes))
		ori_run_put_batch(run.cells + g.thread * 16u, g.size, ORI_CELLS_UNROLL, run.mark,
				  (const uint8_t *)src + g.thread * 8u);
	else
		ori_cells_put(line->out, g, line->sent, src, bytes);
	return 0;
}

ORIEL_DEV int ori_line_send_short(struct oriel_line *line, struct oriel_group g, const void *src,
				  uint64_t bytes, uint32_t cells)
{
	uint64_t at = line->sent + g.thread, word = 0;
	int err = 0;

	if (g.thread < cells)
		word = ori_cells_word(src, g.thread, bytes); /* on its way beside the next test */
	if (ori_line_is_full(line, cells))
		err = ori_line_wait_room(line, g, cells);
	if (!err && g.thread < cells)
		ori_cell_store(ori_ring_cell(line->out, at), word,
			       ori_ring_mark(line->out, at, bytes));
	return err;
}

ORIEL_DEV int ori_line_send_cells(struct oriel_line *line, struct oriel_group g, const void *src,
				  uint64_t bytes)
{
	uint32_t cells = (uint32_t)ori_packet_cells(bytes);
	int err = cells > g.size ? ori_line_send_long(line, g, src, bytes, cells) :
				   ori_line_send_short(line, g, src, bytes, cells);

	if (err)
		return err;
	line->sent += cells;
	if (oriel_group_is_leader(g))
		ori_wake(line->waiters);
	return 0;
}

ORIEL_DEV int oriel_line_send(struct oriel_line *line, struct oriel_group g, const void *src,
			      uint64_t bytes)
{
	if (!line->mine)
		return ORI_RARE(ori_line_send_call)(line->win, g, line->peer, line->box, src,
						    bytes);
	if (!ori_packet_fits(line->win, bytes))
		return ORI_RARE(ori_packet_refuse)(line->win, g, "line_send", bytes);
	return ori_line_send_cells(line, g, src, bytes);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/*
 * Should this receive look for credit?  It does if the next long packet may find no room, so that
 * no send needs a wait with its own meetings.  All threads come to the same answer.  Receives of
 * short packets do not look: they would take longer, and their sends wait rarely.
 */
ORIEL_DEV int ori_line_wants_credit(const struct oriel_line *line)
{
	return (uint32_t)line->sent - (uint32_t)line->freed >
	       line->out.mask - line->out.mask / ORI_BOX_PACKETS;
}

/* The leader tells before the group meets, and all threads hear after it. */
ORIEL_DEV void ori_line_tell_credit(struct oriel_group g, uint64_t credit)
{
#if ORIEL_ON_GPU
	if (oriel_group_is_leader(g))
		ori_block_words()->credit = credit;
#endif
	(void)g;
	(void)credit;
}

ORIEL_DEV void ori_line_hear_credit(struct oriel_line *line, struct oriel_group g)
{
#if ORIEL_ON_GPU
	line->freed = ori_block_words()->credit;
#endif
	(void)line;
	(void)oriel_group_sync(g); /* the leader may tell the credit of another line next */
}

/* Will credit be due after this receive? */
ORIEL_DEV uint32_t ori_line_is_due(const struct oriel_line *line, uint32_t cells)
{
	return (uint32_t)line->taken + cells - (uint32_t)line->returned >
	       line->in.mask / ORI_BOX_PACKETS;
}

/* After the meeting of a receive: counts it, and gives credit if it is due. */
ORIEL_DEV int ori_line_took(struct oriel_line *line, struct oriel_group g, uint32_t cells,
			    uint32_t due)
{
	line->taken += cells;
	if (!due)
		return 0;
	line->returned = line->taken;
	if (oriel_group_is_leader(g)) {
		ori_store_relaxed_sys(line->credit, line->taken);
		ori_wake(line->waiters);
	}
	return 0;
}

/* One batch.  All that can be computed before its cells are there is computed before. */
ORIEL_DEV int ori_line_take_batch(struct oriel_line *line, struct oriel_group g, struct ori_run run,
				  void *dst)
{
	uint8_t *to = ori_now_pointer((uint8_t *)dst + g.thread * 8u);
	uint64_t word[ORI_CELLS_UNROLL];
	int err = ori_run_await(line->win, g, line->peer, line->box, line->taken,
				run.cells + g.thread * 16u, ORI_CELLS_UNROLL, run.mark, word);

	if (!err)
		ori_run_store(to, g.size * 8u, ORI_CELLS_UNROLL, word);
	return err;
}

/* A packet with more cells than the block has threads. */
ORIEL_DEV int ori_line_recv_long(struct oriel_line *line, struct oriel_group g, void *dst,
				 uint64_t bytes, uint32_t cells)
{
	struct ori_run run = ori_run_of(line->in, line->taken, cells, bytes);
	uint32_t due = ori_now32(ori_line_is_due(line, cells));
	int wants = (int)ori_now32((uint32_t)ori_line_wants_credit(line)), err;
	uint64_t credit = 0;

	if (wants && oriel_group_is_leader(g))
		credit = ori_load_relaxed_sys(&line->mine->credit);
	if (ori_line_is_batch(run, cells, g, dst, bytes))
		err = ori_line_take_batch(line, g, run, dst);
	else
		err = ori_cells_take_many(line->win, line->in, g, line->peer, line->box,
					  line->taken, dst, bytes);
	if (wants)
		ori_line_tell_credit(g, credit);
	/* Here every thread has its cells.  Credits before this meeting would let cells be lost. */
	err = ori_group_agree_any(g, err);
	if (wants)
		ori_line_hear_credit(line, g);
	return err ? err : ori_line_took(line, g, cells, due);
}

ORIEL_DEV int ori_line_recv_cells(struct oriel_line *line, struct oriel_group g, void *dst,
				  uint64_t bytes)
{
	uint32_t cells = ori_now32((uint32_t)ori_packet_cells(bytes)), due;
	int err;

	if (ORIEL_ON_GPU && g.scope == ORIEL_GROUP_BLOCK && cells > g.size)
		return ori_line_recv_long(line, g, dst, bytes, cells);
	due = ori_now32(ori_line_is_due(line, cells));
	err = ori_cells_take(line->win, line->in, g, line->peer, line->box, line->taken, dst,
			     bytes);
	/* Here every thread has its cells.  Credits before this meeting would let cells be lost. */
	err = ori_group_agree_any(g, err);
	return err ? err : ori_line_took(line, g, cells, due);
}

ORIEL_DEV int oriel_line_recv(struct oriel_line *line, struct oriel_group g, void *dst,
			      uint64_t bytes)
{
	if (!line->mine)
		return ORI_RARE(ori_line_recv_call)(line->win, g, line->peer, line->box, dst,
						    bytes);
	if (!ori_packet_fits(line->win, bytes))
		return ORI_RARE(ori_packet_refuse)(line->win, g, "line_recv", bytes);
	return ori_line_recv_cells(line, g, dst, bytes);
}

/* ---- the end --------------------------------------------------------------------------------- */

ORIEL_DEV int oriel_line_close(struct oriel_line *line, struct oriel_group g)
{
	struct ori_failures look = { 0, 0 };

	/* A call that refuses its arguments meets nobody: threads may still be in open. */
	(void)oriel_group_sync(g);
	if (oriel_group_is_leader(g)) {
		look = ori_failures_of_window(line->win);
		if (line->mine) {
			ori_store_pair(&line->mine->sent, line->sent, line->freed);
			ori_store_pair(&line->mine->taken, line->taken, line->returned);
		}
	}
	/* The next call of any thread reads the counts. */
	return ori_group_agree_failures(g, look);
}

#endif
