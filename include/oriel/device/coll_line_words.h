/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_line_words.h - short calls of a line, in whole words of 8 bytes: see
 * coll_line.h.
 *
 * Cells, marks and places are those of coll_cells.h, without the terms.  A place is written again
 * two rounds later.  Its writer has then taken the receiver's cells of the round between, and those
 * were sent after the receiver's threads had taken their cells and met.  So this holds for each
 * pair of ranks, whatever the others do.
 *
 * A thread polls for a while.  If a cell has not come then, the group waits by
 * ori_line_wait_out(), and takes all its cells again.
 *
 * Model: models/rounds.pml
 */
#ifndef ORIEL_DEVICE_COLL_LINE_WORDS_H
#define ORIEL_DEVICE_COLL_LINE_WORDS_H

#include "coll_line_share.h"

/* Called when the line is open: which cells are this thread's? */
ORIEL_DEV void ori_line_share_words(struct oriel_coll_line *l, struct oriel_group g)
{
	const struct oriel_team_dev *t = l->x.team;
	uint64_t place = ori_line_half(l), at = l->x.base + t->cells_off;
	uint32_t words = (uint32_t)(l->bytes / 8u), lane, step;
	int peer;

	/* On a CPU only what the leader has found counts. */
	if (l->bytes % 8u ||
	    (!ORIEL_ON_GPU && (g.size > 1 || (!l->how.type && ori_line_ranks(l) > 1))))
		return;
	l->words = words;
	if (l->how.type) {
		if (t->win.comm.nranks <= ORI_WORD_SOURCES &&
		    words <= (uint32_t)ORI_WORDS_ROWS * g.size)
			l->way = ORI_LINE_WORDS;
		return;
	}
	l->lanes = ori_words_lanes(ori_line_ranks(l), g.size);
	if (!l->lanes)
		return;
	l->way = ORI_LINE_WORDS;
	lane = g.thread & (l->lanes - 1);
	step = g.thread >> ori_high_bit(l->lanes);
	l->words = 0;
	if (step >= ori_part_ranks(&l->x) || lane >= words)
		return;
	peer = ori_part_rank(&l->x, step);
	l->words = words - lane;
	at += (ORI_TERMS_CELLS + lane) * 16u;
	l->out = ori_window_entry(&t->win, peer).buffer + at +
		 2 * place * (uint32_t)t->win.comm.rank;
	l->in = t->win.buffer + at + 2 * place * (uint32_t)peer;
	l->to = l->bytes * (uint32_t)peer + lane * 8u;
	l->from = l->x.call.kind == ORI_COLL_ALLTOALL ? l->to : lane * 8u;
}

/* ---- waits ----------------------------------------------------------------------------------- */

/* Called by the group: waits until all cells of this round have come. */
ORIEL_DEV_OUT int ori_line_wait_out(const struct ori_exchange *x, uint32_t words)
{
	uint32_t cells = words * ori_part_ranks(x), i;
	struct ori_cell_taken t = { 0, 0 };

	for (i = x->g.thread; i < cells && !t.err; i += ori_cells_takers(x->g))
		t = ori_short_wait_out(x, ori_part_rank(x, i / words), ORI_TERMS_CELLS + i % words);
	/* that rank makes another call on this channel */
	return ori_group_agree_any(x->g, t.err == ORI_TERMS_STOP ? ORIEL_EMISMATCH : t.err);
}

/* ---- calls that move data -------------------------------------------------------------------- */

ORIEL_DEV void ori_line_put(const struct oriel_coll_line *l, const uint8_t *send, uint8_t *out,
			    uint32_t mark, int most)
{
	uint64_t word[ORI_CELLS_UNROLL];
	uint32_t i, at;
	int k;

	for (i = 0; i < l->words; i += (uint32_t)most * l->lanes) {
		ORI_UNROLL
		for (k = 0; k < most; k++) {
			at = i + (uint32_t)k * l->lanes;
			if (at < l->words)
				word[k] = ori_user_word(send + (uint64_t)at * 8u);
		}
		ORI_UNROLL
		for (k = 0; k < most; k++) {
			at = i + (uint32_t)k * l->lanes;
			if (at < l->words)
				ori_round_store((uint64_t *)(void *)(out + (uint64_t)at * 16u),
						word[k], mark);
		}
		if (most == 1) /* then a thread has one cell, and there is no loop */
			break;
	}
}

/* One look at cells i, i + lanes and so on.  Returns 0 if all of them are there. */
ORIEL_DEV uint32_t ori_line_look(const struct oriel_coll_line *l, const uint8_t *in, uint32_t i,
				 uint32_t mark, uint64_t *word, int most)
{
	uint32_t missing = 0, at;
	int k;

	ORI_UNROLL
	for (k = 0; k < most; k++) {
		at = i + (uint32_t)k * l->lanes;
		if (at < l->words)
			missing |= ori_words_missing(in + (uint64_t)at * 16u, mark, &word[k]);
	}
	return missing;
}

/* Returns 0 if all cells of the thread have come, and were delivered. */
ORIEL_DEV uint32_t ori_line_take(const struct oriel_coll_line *l, const uint8_t *in, uint8_t *recv,
				 uint32_t mark, int most)
{
	uint64_t word[ORI_CELLS_UNROLL];
	uint32_t i, at, polls, missing;
	int k;

	for (i = 0; i < l->words; i += (uint32_t)most * l->lanes) {
		polls = ORI_WORDS_POLLS;
		ORI_ROLLED
		do
			missing = ori_line_look(l, in, i, mark, word, most);
		while (missing && --polls);
		if (missing)
			return missing;
		ORI_UNROLL
		for (k = 0; k < most; k++) {
			at = i + (uint32_t)k * l->lanes;
			if (at < l->words)
				ori_user_word_store(recv + (uint64_t)at * 8u, word[k]);
		}
		if (most == 1)
			break;
	}
	return 0;
}

/* `most`: a constant, the cells of a thread in flight together. */
ORIEL_DEV int ori_line_move(const struct oriel_coll_line *l, struct oriel_group g,
			    const uint8_t *send, uint8_t *recv, int sent, int most)
{
	uint32_t half = (uint32_t)l->x.round & 1u ? ori_line_half(l) : 0;
	uint32_t mark = ori_round_mark(l->x.team, l->x.round), missing;

	if (!sent)
		ori_line_put(l, send + l->from, l->out + half, mark, most);
	ori_team_wake(l->x.team);
	missing = ori_line_take(l, l->in + half, recv + l->to, mark, most);
	return ori_group_any(g, missing != 0);
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* The own cells of this round, in the place for rank 0's. */
ORIEL_DEV uint64_t ori_line_cells_off(const struct oriel_coll_line *l)
{
	return l->x.base + l->x.team->cells_off +
	       ((uint32_t)l->x.round & 1u) * (uint64_t)ori_line_half(l) + ORI_TERMS_CELLS * 16u;
}

/* Word i of this rank's block to all ranks. */
ORIEL_DEV void ori_line_spread(const struct oriel_coll_line *l, const uint8_t *send, uint32_t i,
			       uint32_t mark)
{
	const struct oriel_window_dev *win = &l->x.team->win;
	uint64_t at = ori_line_cells_off(l) + i * 16u +
		      2 * (uint64_t)ori_line_half(l) * (uint32_t)win->comm.rank;
	uint64_t word = ori_user_word(send + (uint64_t)i * 8u);
	int r;

	ORI_UNROLL
	for (r = 0; r < ORI_WORD_SOURCES; r++)
		if (r < win->comm.nranks)
			ori_round_store((uint64_t *)(void *)(ori_window_entry(win, r).buffer + at),
					word, mark);
}

/* Polls until word i of all ranks is there.  Returns 0 then. */
ORIEL_DEV uint32_t ori_line_row(const struct oriel_coll_line *l, uint32_t i, uint32_t mark,
				struct ori_row *row)
{
	const struct oriel_window_dev *win = &l->x.team->win;
	const uint8_t *in = win->buffer + ori_line_cells_off(l) + i * 16u;
	uint32_t polls = ORI_WORDS_POLLS, place = 2 * ori_line_half(l), missing;
	int r;

	ORI_ROLLED
	do {
		missing = 0;
		ORI_UNROLL
		for (r = 0; r < ORI_WORD_SOURCES; r++)
			if (r < win->comm.nranks)
				missing |= ori_words_missing(in + (uint64_t)place * (uint32_t)r,
							     mark, &row->word[r]);
	} while (missing && --polls);
	return missing;
}

/* A thread has words of the result, each with the cells of all ranks. */
ORIEL_DEV uint32_t ori_line_rows(const struct oriel_coll_line *l, struct oriel_group g,
				 uint8_t *recv, uint32_t mark, int most)
{
	struct ori_row row = { { 0 } };
	uint32_t i, missing = 0;
	int k;

	ORI_UNROLL
	for (k = 0; k < most; k++) {
		i = g.thread + (uint32_t)k * g.size;
		if (i >= l->words)
			continue;
		missing |= ori_line_row(l, i, mark, &row);
		if (!missing)
			ori_user_word_store(recv + (uint64_t)i * 8u,
					    ori_reducer_word(l->how, row,
							     l->x.team->win.comm.nranks));
	}
	return missing;
}

ORIEL_DEV int ori_line_reduce(const struct oriel_coll_line *l, struct oriel_group g,
			      const uint8_t *send, uint8_t *recv, int sent, int most)
{
	uint32_t mark = ori_round_mark(l->x.team, l->x.round), i;
	int k;

	ORI_UNROLL
	for (k = 0; k < most; k++) {
		i = g.thread + (uint32_t)k * g.size;
		if (i < l->words && !sent)
			ori_line_spread(l, send, i, mark);
	}
	ori_team_wake(l->x.team);
	return ori_group_any(g, ori_line_rows(l, g, recv, mark, most) != 0);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Called by the group.  `sent`: again, after ORI_LINE_HELP. */
ORIEL_DEV int ori_line_words(struct oriel_coll_line *l, struct oriel_group g, const uint8_t *send,
			     uint8_t *recv, int sent)
{
	int odd;

	if (l->how.type && ORI_WORDS_ROWS > 1 && l->words > g.size)
		odd = ori_line_reduce(l, g, send, recv, sent, ORI_WORDS_ROWS);
	else if (l->how.type)
		odd = ori_line_reduce(l, g, send, recv, sent, 1);
	else if (l->bytes <= 8u * l->lanes)
		odd = ori_line_move(l, g, send, recv, sent, 1);
	else
		odd = ori_line_move(l, g, send, recv, sent, ORI_CELLS_UNROLL);
	if (odd)
		return ORI_LINE_HELP;
	ori_line_end(l, g);
	return 0;
}

#endif
