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
 * Model: models/rounds.pml
 */
#ifndef ORIEL_DEVICE_COLL_LINE_WORDS_H
#define ORIEL_DEVICE_COLL_LINE_WORDS_H

#include "coll_line_share.h"

/* Called when the line is open: which cells are this thread's? */
ORIEL_DEV void ori_line_share(struct oriel_coll_line *l, struct oriel_group g)
{
	const struct oriel_team_dev *t = l->x.team;
	uint32_t ranks = (uint32_t)(t->win.comm.nranks + l->x.parts - 1) / (uint32_t)l->x.parts;
	uint64_t place = ori_line_half(l), at;
	uint32_t words = (uint32_t)(l->bytes / 8u), lane, step;

	/* On a CPU only what the leader has found counts. */
	if (!l->bytes || l->bytes % 8u ||
	    (!ORIEL_ON_GPU && (g.size > 1 || (!l->how.type && ranks > 1))) ||
	    !ori_coll_is_short(t, &l->x.call, l->bytes, ori_line_cells(l)))
		return;
	at = l->x.base + t->cells_off;
	if (l->how.type) {
		l->lanes = t->win.comm.nranks <= ORI_WORD_SOURCES &&
			   words <= (uint32_t)ORI_WORDS_ROWS * g.size;
		l->words = words;
		return;
	}
	l->lanes = ori_words_lanes(ranks, g.size);
	if (!l->lanes)
		return;
	lane = g.thread & (l->lanes - 1);
	step = g.thread >> ori_high_bit(l->lanes);
	if (step >= ori_part_ranks(&l->x) || lane >= words)
		return;
	l->peer = ori_part_rank(&l->x, step);
	l->words = words - lane;
	at += (ORI_TERMS_CELLS + lane) * 16u;
	l->out = ori_window_entry(&t->win, l->peer).buffer + at +
		 2 * place * (uint32_t)t->win.comm.rank;
	l->in = t->win.buffer + at + 2 * place * (uint32_t)l->peer;
	l->to = l->bytes * (uint32_t)l->peer + lane * 8u;
	l->from = l->x.call.kind == ORI_COLL_ALLTOALL ? l->to : lane * 8u;
}

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

ORIEL_DEV int ori_line_take(const struct oriel_coll_line *l, struct oriel_group g,
			    const uint8_t *in, uint8_t *recv, uint32_t mark, int most)
{
	uint32_t i, at, polls, first = g.thread & (l->lanes - 1);
	uint64_t word[ORI_CELLS_UNROLL];
	int k, err = 0;

	for (i = 0; i < l->words; i += (uint32_t)most * l->lanes) {
		ORI_ROLLED
		for (polls = ORI_SPIN_POLLS; polls && ori_line_look(l, in, i, mark, word, most);)
			polls--;
		/* The wait is not called inside this loop: see packet_cells.h. */
		for (k = 0; !polls && k < most && !err; k++)
			if (i + (uint32_t)k * l->lanes < l->words)
				err = ori_line_wait(l, g, l->peer,
						    first + i + (uint32_t)k * l->lanes);
		if (err)
			return err;
		if (!polls)
			(void)ori_line_look(l, in, i, mark, word, most);
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
			    const uint8_t *send, uint8_t *recv, int most)
{
	uint32_t half = (uint32_t)l->x.round & 1u ? ori_line_half(l) : 0;
	uint32_t mark = ori_round_mark(l->x.team, l->x.round);

	ori_line_put(l, send + l->from, l->out + half, mark, most);
	ori_team_wake(l->x.team);
	return ori_line_take(l, g, l->in + half, recv + l->to, mark, most);
}

/* A thread has words of the result, each with the cells of all ranks: see coll_words.h. */
ORIEL_DEV int ori_line_reduce(const struct oriel_coll_line *l, struct oriel_group g,
			      const uint8_t *send, uint8_t *recv, int most)
{
	const struct oriel_team_dev *t = l->x.team;
	struct ori_row row = { { 0 } };
	struct ori_words s;
	uint32_t i;
	int k, r, err = 0;

	memset(&s, 0, sizeof(s));
	s.team = t;
	s.send = send;
	s.place = 2 * ori_line_half(l);
	s.in = l->x.base + t->cells_off + ((uint32_t)l->x.round & 1u) * ori_line_half(l);
	s.words = l->words;
	s.mark = ori_round_mark(t, l->x.round);
	ORI_UNROLL
	for (k = 0; k < most; k++) {
		i = g.thread + (uint32_t)k * g.size;
		if (i < s.words)
			ori_words_spread(s, i);
	}
	ori_team_wake(t);
	ORI_UNROLL
	for (k = 0; k < most; k++) {
		i = g.thread + (uint32_t)k * g.size;
		if (i >= s.words)
			continue;
		if (ori_words_row(s, i, &row)) {
			for (r = 0; r < t->win.comm.nranks && !err; r++)
				err = ori_line_wait(l, g, r, i);
			if (err)
				return err;
			(void)ori_words_row(s, i, &row);
		}
		ori_user_word_store(recv + (uint64_t)i * 8u,
				    ori_reducer_word(l->how, row, t->win.comm.nranks));
	}
	return 0;
}

/* Called by the group. */
ORIEL_DEV int ori_line_words(struct oriel_coll_line *l, struct oriel_group g, const uint8_t *send,
			     uint8_t *recv)
{
	int err = oriel_group_sync(g);

	if (err)
		return err;
	if (l->how.type && ORI_WORDS_ROWS > 1 && l->words > g.size)
		err = ori_line_reduce(l, g, send, recv, ORI_WORDS_ROWS);
	else if (l->how.type)
		err = ori_line_reduce(l, g, send, recv, 1);
	else if (l->bytes <= 8u * l->lanes)
		err = ori_line_move(l, g, send, recv, 1);
	else
		err = ori_line_move(l, g, send, recv, ORI_CELLS_UNROLL);
	err = ori_group_agree_any(g, err);
	if (!err)
		ori_line_end(l, g);
	return err;
}

#endif
