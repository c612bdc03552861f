/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_words.h - short calls whose blocks are whole words of 8 bytes: the usual ones.
 *
 * Cells, marks and places are those of coll_cells.h.  A thread has at most ORI_WORDS_MOST cells of
 * a peer, and all it needs in registers.  A call has three meetings of the group:
 *
 *   before	any thread may have written the source; the leader of the last call has stored its
 *		round.  Each thread then sends its cells, and takes those that come to it.
 *   between	the group learns whether anything is unusual: a cell that does not come soon, other
 *		terms than this rank's, a failure.  Then coll_short.h makes the call again, from its
 *		beginning: the same cells are sent once more, and nobody has changed the source.
 *		So this file has no waits, and reports nothing.
 *   after	the result is there.
 *
 * In a call that only moves data the threads divide the peers, and then the cells of a peer.  In a
 * reduction a thread has words of the result, each with the cells of all ranks (a row).
 *
 * On a GPU the time of a call is the number of its instructions, one after the other.  So the
 * number of cells of a thread is a constant in each of three variants.
 */
#ifndef ORIEL_DEVICE_COLL_WORDS_H
#define ORIEL_DEVICE_COLL_WORDS_H

#include "coll_cells.h"
#include "reduce.h"

/*
 * On a CPU this file serves tests: a group is one thread, which has the cells of all peers.  In
 * Triton's bitcode a thread has one row, because all types and operators are compiled for it.
 */
#define ORI_WORDS_PEERS (ORIEL_ON_GPU ? 1 : 64)
#define ORI_WORDS_ROWS (!ORIEL_ON_GPU ? ORI_WORDS_MOST : ORI_NAMES_LOOPS ? 2 : 1)
#define ORI_WORDS_MOST 9     /* with 64 threads per peer: 4 KiB, and the terms */
#define ORI_WORDS_AGAIN 1    /* not a status: the call is made by coll_short.h */
#define ORI_WORDS_POLLS 512u /* longer than a call by coll_short.h takes on another rank */

/* What a thread needs in a call.  It is passed by value, and the compiler folds it away. */
struct ori_words {
	const struct oriel_team_dev *team;
	const uint8_t *send;
	uint8_t *recv;
	uint64_t send_stride; /* from one rank's block to the next; 0: the same for all */
	uint64_t recv_stride;
	uint64_t terms[ORI_TERMS_CELLS];
	uint64_t *rounds;
	uint64_t round;
	uint64_t in;    /* offset of the place of rank 0; a place per rank follows */
	uint32_t place; /* from the place of a rank to that of the next */
	uint32_t words; /* of a block; the cells behind them have the terms */
	uint32_t mark;
	int32_t root; /* only this rank sends data; -1: all do */
};

ORIEL_DEV uint32_t ori_words_cells(struct ori_words s)
{
	return s.words + ORI_TERMS_CELLS;
}

/* Bytes from the start of a place to cell i. */
ORIEL_DEV uint32_t ori_words_at(struct ori_words s, uint32_t i)
{
	return (i < s.words ? ORI_TERMS_CELLS + i : i - s.words) * 16u;
}

/* Where this rank writes at a peer, and where the peer writes here. */
ORIEL_DEV uint8_t *ori_words_out(struct ori_words s, int peer)
{
	return ori_window_entry(&s.team->win, peer).buffer + s.in +
	       (uint32_t)s.team->win.comm.rank * s.place;
}

ORIEL_DEV const uint8_t *ori_words_in(struct ori_words s, int peer)
{
	return s.team->win.buffer + s.in + (uint32_t)peer * s.place;
}

/* The word of cell i for a peer whose block is `block`. */
ORIEL_DEV uint64_t ori_words_load(struct ori_words s, const uint8_t *block, uint32_t i)
{
	if (i < s.words)
		return ori_user_word(block + (uint64_t)i * 8u);
	return i == s.words ? s.terms[0] : s.terms[1];
}

/* One look at a cell: 0 if it has the mark.  Then *word is its data. */
ORIEL_DEV uint32_t ori_words_missing(const uint8_t *at, uint32_t mark, uint64_t *word)
{
	const uint64_t *cell = (const uint64_t *)(const void *)at;

#if ORIEL_ON_GPU
	return ori_cell_missing(cell, mark, word);
#else
	return ori_round_look(cell, word) ^ mark;
#endif
}

ORIEL_DEV int ori_words_peer(struct ori_words s, uint32_t step)
{
	uint32_t r = (uint32_t)s.team->win.comm.rank + step, n = (uint32_t)s.team->win.comm.nranks;

	return (int)(r < n ? r : r - n);
}

/* ---- the meetings ---------------------------------------------------------------------------- */

/* What the leader loads beside the cells, and uses after it has taken its own. */
ORIEL_DEV struct ori_failures ori_words_look(struct ori_words s, struct oriel_group g)
{
	struct ori_failures none = { 0, 0 };

	return oriel_group_is_leader(g) ? ori_failures_of_window(&s.team->win) : none;
}

/* The second meeting.  On a CPU only the leader has looked. */
ORIEL_DEV int ori_words_agree(struct oriel_group g, struct ori_failures look, uint64_t odd)
{
	return ori_group_agree_any(g, (odd | look.window | look.comm) ? ORI_WORDS_AGAIN : 0);
}

/* The third meeting. */
ORIEL_DEV int ori_words_end(struct ori_words s, struct oriel_group g)
{
	if (oriel_group_is_leader(g))
		*s.rounds = s.round + 1;
	return oriel_group_sync(g);
}

/* ---- calls that move data -------------------------------------------------------------------- */

/* The threads of a peer: powers of two, because a division takes as long as a third of a call. */
struct ori_words_part {
	uint32_t lane, lanes;
	uint32_t step; /* the peer, in steps from this rank on; all ranks: this thread has none */
};

ORIEL_DEV uint32_t ori_words_lanes(uint32_t ranks, uint32_t size)
{
	uint32_t shift;

	if (size < ranks)
		return ORIEL_ON_GPU ? 0 : 1;
	shift = ori_high_bit(size) - ori_high_bit(ranks);
	return 1u << (shift && ranks << shift > size ? shift - 1 : shift);
}

ORIEL_DEV struct ori_words_part ori_words_part(struct oriel_group g, uint32_t lanes, uint32_t ranks)
{
	struct ori_words_part p;

	p.lanes = lanes;
	p.lane = g.thread & (lanes - 1);
	p.step = (g.thread - p.lane) >> ori_high_bit(lanes);
	if (p.step > ranks)
		p.step = ranks;
	return p;
}

/* Is cell i sent to a peer, and does it come from there?  Terms always do. */
ORIEL_DEV int ori_words_is_sent(struct ori_words s, uint32_t i)
{
	return i < s.words ? s.root < 0 || s.root == s.team->win.comm.rank : i < ori_words_cells(s);
}

ORIEL_DEV int ori_words_is_taken(struct ori_words s, uint32_t i, int peer)
{
	return i < s.words ? s.root < 0 || (s.root == peer && peer != s.team->win.comm.rank) :
			     i < ori_words_cells(s);
}

/* Called by all threads.  `most` is a constant: cells of a thread. */
ORIEL_DEV void ori_words_send(struct ori_words s, struct ori_words_part p, int peer, int most)
{
	const uint8_t *block = s.send + (uint32_t)peer * s.send_stride;
	uint8_t *out = ori_words_out(s, peer);
	uint64_t word[ORI_WORDS_MOST];
	uint32_t i;
	int k;

	ORI_UNROLL
	for (k = 0; k < most; k++) {
		i = p.lane + (uint32_t)k * p.lanes;
		if (ori_words_is_sent(s, i))
			word[k] = ori_words_load(s, block, i);
	}
	ORI_UNROLL
	for (k = 0; k < most; k++) {
		i = p.lane + (uint32_t)k * p.lanes;
		if (ori_words_is_sent(s, i))
			ori_round_store((uint64_t *)(void *)(out + ori_words_at(s, i)), word[k],
					s.mark);
	}
}

/* Polls until all cells of the thread are there.  Returns 0, or that something is unusual. */
ORIEL_DEV uint64_t ori_words_take(struct ori_words s, struct ori_words_part p, int peer, int most,
				  uint64_t *word)
{
	const uint8_t *in = ori_words_in(s, peer);
	uint32_t polls = ORI_WORDS_POLLS, missing, i;
	uint64_t odd;
	int k;

	do {
		missing = 0;
		ORI_UNROLL
		for (k = 0; k < most; k++) {
			i = p.lane + (uint32_t)k * p.lanes;
			if (ori_words_is_taken(s, i, peer))
				missing |= ori_words_missing(in + ori_words_at(s, i), s.mark,
							     &word[k]);
		}
	} while (missing && --polls);
	odd = missing;
	ORI_UNROLL
	for (k = 0; k < most; k++) {
		i = p.lane + (uint32_t)k * p.lanes - s.words;
		if (i < ORI_TERMS_CELLS)
			odd |= word[k] ^ (i ? s.terms[1] : s.terms[0]);
	}
	return odd;
}

ORIEL_DEV void ori_words_deliver(struct ori_words s, struct ori_words_part p, int peer, int most,
				 const uint64_t *word)
{
	uint8_t *block = s.recv + (s.root < 0 ? (uint32_t)peer * s.recv_stride : 0);
	uint32_t i;
	int k;

	ORI_UNROLL
	for (k = 0; k < most; k++) {
		i = p.lane + (uint32_t)k * p.lanes;
		if (i < s.words && ori_words_is_taken(s, i, peer))
			ori_user_word_store(block + (uint64_t)i * 8u, word[k]);
	}
}

/* From one peer of a thread to the next: on a GPU it has only one. */
ORIEL_DEV uint32_t ori_words_next(uint32_t step, uint32_t ranks)
{
	return ORIEL_ON_GPU ? ranks : step + 1;
}

/* Called by the group.  `most` is a constant. */
ORIEL_DEV int ori_words_move(struct ori_words s, struct oriel_group g, uint32_t lanes, int most)
{
	uint32_t ranks = (uint32_t)s.team->win.comm.nranks, i;
	struct ori_words_part p = ori_words_part(g, lanes, ranks);
	uint64_t word[ORI_WORDS_PEERS][ORI_WORDS_MOST], odd = 0;
	struct ori_failures look;
	int err;

	for (i = p.step; i < ranks; i = ori_words_next(i, ranks))
		ori_words_send(s, p, ori_words_peer(s, i), most);
	ori_team_wake(s.team);
	look = ori_words_look(s, g);
	for (i = p.step; i < ranks; i = ori_words_next(i, ranks))
		odd |= ori_words_take(s, p, ori_words_peer(s, i), most, word[ORIEL_ON_GPU ? 0 : i]);
	err = ori_words_agree(g, look, odd);
	if (err)
		return err;
	for (i = p.step; i < ranks; i = ori_words_next(i, ranks))
		ori_words_deliver(s, p, ori_words_peer(s, i), most, word[ORIEL_ON_GPU ? 0 : i]);
	return ori_words_end(s, g);
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* Called by all threads: word i of this rank's blocks, or of the terms, to all ranks. */
ORIEL_DEV void ori_words_spread(struct ori_words s, uint32_t i)
{
	uint32_t ranks = (uint32_t)s.team->win.comm.nranks, at = ori_words_at(s, i);
	uint64_t word = ori_words_load(s, s.send + (uint32_t)s.team->win.comm.rank * s.send_stride,
				       i);
	int k, peer;

	ORI_UNROLL
	for (k = 0; k < ORI_WORD_SOURCES; k++) {
		peer = ori_words_peer(s, (uint32_t)k);
		if (k && s.send_stride && (uint32_t)k < ranks)
			word = ori_words_load(s, s.send + (uint32_t)peer * s.send_stride, i);
		if ((uint32_t)k < ranks)
			ori_round_store((uint64_t *)(void *)(ori_words_out(s, peer) + at), word,
					s.mark);
	}
}

/* Polls until cell i of all ranks is there.  Returns 0, or that something is unusual. */
ORIEL_DEV uint64_t ori_words_row(struct ori_words s, uint32_t i, struct ori_row *row)
{
	uint32_t polls = ORI_WORDS_POLLS, missing, at = ori_words_at(s, i);
	uint64_t odd;
	int r;

	do {
		missing = 0;
		ORI_UNROLL
		for (r = 0; r < ORI_WORD_SOURCES; r++)
			if (r < s.team->win.comm.nranks)
				missing |= ori_words_missing(ori_words_in(s, r) + at, s.mark,
							     &row->word[r]);
	} while (missing && --polls);
	odd = missing;
	ORI_UNROLL
	for (r = 0; r < ORI_WORD_SOURCES; r++)
		if (i >= s.words && r < s.team->win.comm.nranks)
			odd |= row->word[r] ^ (i > s.words ? s.terms[1] : s.terms[0]);
	return odd;
}

/* Called by the group.  `most` is a constant: rows of a thread, at most ORI_WORDS_ROWS. */
ORIEL_DEV int ori_words_reduce(struct ori_words s, struct oriel_group g, int most,
			       struct ori_reducer how)
{
	uint64_t result[ORI_WORDS_ROWS], odd = 0;
	uint32_t i, n = ori_words_cells(s);
	struct ori_row row = { { 0 } };
	struct ori_failures look;
	int k, err;

	ORI_UNROLL
	for (k = 0; k < most; k++) {
		i = g.thread + (uint32_t)k * g.size;
		if (i < n)
			ori_words_spread(s, i);
	}
	ori_team_wake(s.team);
	look = ori_words_look(s, g);
	ORI_UNROLL
	for (k = 0; k < most; k++) {
		i = g.thread + (uint32_t)k * g.size;
		if (i < n)
			odd |= ori_words_row(s, i, &row);
		if (i < s.words)
			result[k] = ori_reducer_word(how, row, s.team->win.comm.nranks);
	}
	err = ori_words_agree(g, look, odd);
	if (err)
		return err;
	ORI_UNROLL
	for (k = 0; k < most; k++) {
		i = g.thread + (uint32_t)k * g.size;
		if (i < s.words)
			ori_user_word_store(s.recv + (uint64_t)i * 8u, result[k]);
	}
	return ori_words_end(s, g);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Is a short call one for this file?  Ranks may differ in that: cells and rounds are the same. */
ORIEL_DEV int ori_coll_is_words(const struct oriel_team_dev *team, struct oriel_group g,
				const struct ori_terms *call, const void *send, const void *recv,
				uint64_t stride, uint64_t bytes)
{
	uint32_t cells = (uint32_t)bytes / 8u + ORI_TERMS_CELLS;

	if (call->refused || !bytes)
		return 0;
	/* On a CPU only what the leader has found counts. */
	if (!ORIEL_ON_GPU && (g.size > 1 || team->win.comm.nranks > ORI_WORDS_PEERS))
		return 0;
	if (((uintptr_t)send | (uintptr_t)recv | stride | bytes) & 7u)
		return 0;
	if (call->type)
		return team->win.comm.nranks <= ORI_WORD_SOURCES &&
		       cells <= (uint32_t)ORI_WORDS_ROWS * g.size;
	return cells <= ORI_WORDS_MOST * ori_words_lanes((uint32_t)team->win.comm.nranks, g.size);
}

/* `stride`: from one rank's block in send or recv to the next.  Returns ORI_WORDS_AGAIN as well. */
ORIEL_DEV int ori_coll_words(const struct oriel_team_dev *team, struct oriel_group g, int channel,
			     const struct ori_terms *call, struct ori_reducer how,
			     const uint8_t *send, uint8_t *recv, uint64_t stride, uint64_t bytes)
{
	int personal = call->kind == ORI_COLL_ALLTOALL || call->kind == ORI_COLL_REDUCESCATTER;
	uint64_t base = (uint32_t)channel * team->channel_bytes;
	uint32_t lanes;
	struct ori_words s;
	int err = oriel_group_sync(g); /* the first meeting */

	if (err)
		return err;
	s.team = team;
	s.send = send;
	s.recv = recv;
	s.send_stride = personal ? stride : 0;
	s.recv_stride = stride;
	memcpy(s.terms, call, sizeof(s.terms));
	s.rounds = &((struct ori_channel *)(void *)(team->win.buffer + base))->rounds;
	s.round = *s.rounds;
	/* All threads have the same number.  Not on a failed team, nor if places are cleared. */
	if ((s.round & ORI_ROUNDS_FAILED) || ori_round_clears(team, s.round))
		return ORI_WORDS_AGAIN;
	s.place = (ORI_TERMS_CELLS + team->cell_bytes / 8u) * 32u;
	s.in = base + team->cells_off + ((uint32_t)s.round & 1u) * (s.place / 2);
	s.words = (uint32_t)bytes / 8u;
	s.mark = ori_round_mark(team, s.round);
	s.root = call->kind == ORI_COLL_BROADCAST ? call->root : -1;
	if (call->type)
		return ORI_WORDS_ROWS == 1 || (ORIEL_ON_GPU && ori_words_cells(s) <= g.size) ?
			       ori_words_reduce(s, g, 1, how) :
			       ori_words_reduce(s, g, ORI_WORDS_ROWS, how);
	lanes = ori_words_lanes((uint32_t)team->win.comm.nranks, g.size);
	if (ORIEL_ON_GPU && ori_words_cells(s) <= lanes)
		return ori_words_move(s, g, lanes, 1);
	if (ORIEL_ON_GPU && ori_words_cells(s) <= 3 * lanes)
		return ori_words_move(s, g, lanes, 3);
	return ori_words_move(s, g, lanes, ORI_WORDS_MOST);
}

#endif
