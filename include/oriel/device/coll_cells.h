/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_cells.h - short rounds of a team's channel, in marked cells.
 *
 * A round of exchange.h is a copy, a fence, a signal and a read of the peer's memory, one after the
 * other.  A short round has one step: every rank stores its data into all ranks' memory, in cells
 * that have their mark with them (packet_cells.h).  Teams use cells on GPUs that all map each other
 * (oriel_team_dev.cell_bytes); the choice depends on nothing that ranks may pass differently.
 *
 * Also the long calls send their terms in cells.  So ranks whose calls differ learn of it, whatever
 * each of them is about to do.
 */
#ifndef ORIEL_DEVICE_COLL_CELLS_H
#define ORIEL_DEVICE_COLL_CELLS_H

#include "exchange.h"

#define ORI_ROUND_CELLS 8 /* of one thread, in flight together */

/* The data of a short round. */
struct ori_short {
	const uint8_t *send;
	uint8_t *recv;
	uint64_t send_stride; /* from one rank's block to the next; 0: the same for all */
	uint64_t recv_stride;
	uint32_t bytes;   /* of a block; 0: only the terms */
	int32_t root;     /* only this rank sends data; -1: all do */
	uint64_t inverse; /* of the cells of a block: more than 2^32 / cells, by at most 1 */
};

/* ---- places ---------------------------------------------------------------------------------- */

/* A cell of the place that `source` writes at this rank. */
ORIEL_DEV const uint64_t *ori_cell_from(const struct ori_exchange *x, int source, uint32_t cell)
{
	uint64_t at = ori_place_off(x->team, x->base, x->round, source) + cell * 16u;

	return (const uint64_t *)(const void *)(x->team->win.buffer + at);
}

/* The rank of a step, so that ranks do not all begin with the same one. */
ORIEL_DEV int ori_rank_of_step(const struct ori_exchange *x, uint32_t step)
{
	uint32_t r = (uint32_t)x->team->win.comm.rank + step, n;

	n = (uint32_t)x->team->win.comm.nranks;
	return (int)(r < n ? r : r - n);
}

/* The same among the ranks of a part. */
ORIEL_DEV int ori_part_rank(const struct ori_exchange *x, uint32_t step)
{
	return x->parts == 1 ? ori_rank_of_step(x, step) : ori_part_first(x) + (int)step * x->parts;
}

/* i / cells of a block.  Exact while i times the cells is below 2^32. */
ORIEL_DEV uint32_t ori_short_step(const struct ori_short *s, uint32_t i)
{
	return (uint32_t)(i * s->inverse >> 32);
}

ORIEL_DEV uint32_t ori_short_cells(const struct ori_short *s)
{
	return (s->bytes + 7u) / 8u;
}

/* ---- cells of a round ------------------------------------------------------------------------ */

/*
 * A round also tells that this rank has read what others showed in the round before: they may
 * write there again.  On a GPU no fence is needed for that.  The values of those reads were stored
 * elsewhere before the group met, and the cell is stored after the meeting.  A CPU may execute a
 * load after a later store.
 */
ORIEL_DEV void ori_round_store(uint64_t *cell, uint64_t word, uint32_t mark)
{
#if ORIEL_ON_GPU
	ori_cell_store(cell, word, mark);
#else
	uint64_t high = (uint64_t)mark << 32;

	/*
	 * [CELL1] release, CPU only; partner [CELL2].  Comes after all reads of the last rounds.
	 * Without it the reader of this cell could write over what this rank still reads.
	 */
	ori_store_release_sys(cell, high | (uint32_t)word);
	ori_store_release_sys(cell + 1, high | word >> 32);
#endif
}

/* As ori_cell_look(). */
ORIEL_DEV uint32_t ori_round_look(const uint64_t *cell, uint64_t *word)
{
#if ORIEL_ON_GPU
	return ori_cell_look(cell, word);
#else
	/* [CELL2] acquire, CPU only; partner [CELL1]. */
	uint64_t low = ori_load_acquire_sys(cell), high = ori_load_acquire_sys(cell + 1);

	*word = (uint32_t)low | high << 32;
	return low >> 32 == high >> 32 ? (uint32_t)(low >> 32) : 0;
#endif
}

/* ---- sending --------------------------------------------------------------------------------- */

/* The 8 bytes of the terms that cell 0 or 1 carries. */
ORIEL_DEV uint64_t ori_terms_word(const struct ori_terms *call, uint32_t cell)
{
	uint64_t words[2];

	memcpy(words, call, sizeof(words));
	return cell ? words[1] : words[0]; /* an index would put them into memory */
}

ORIEL_DEV struct ori_terms ori_terms_join(uint64_t first, uint64_t second)
{
	uint64_t words[ORI_TERMS_CELLS];
	struct ori_terms call;

	words[0] = first;
	words[1] = second;
	memcpy(&call, words, sizeof(call));
	return call;
}

ORIEL_DEV void ori_cell_send(const struct ori_exchange *x, int peer, uint32_t cell, uint64_t word)
{
	uint64_t at = ori_place_off(x->team, x->base, x->round, x->team->win.comm.rank);
	/* From the table: a warp sends to many peers, and constants at many addresses are slow. */
	uint8_t *to = ORIEL_ON_GPU ? x->team->win.peers[peer].buffer :
				     ori_window_entry(&x->team->win, peer).buffer;

	ori_round_store((uint64_t *)(void *)(to + at + cell * 16u), word,
			ori_round_mark(x->team, x->round));
}

/* Called by all threads of the group: this rank's terms to all ranks, itself included. */
ORIEL_DEV void ori_terms_send(const struct ori_exchange *x)
{
	uint32_t i, n = ORI_TERMS_CELLS * (uint32_t)x->team->win.comm.nranks;

	for (i = x->g.thread; i < n; i += x->g.size)
		ori_cell_send(x, ori_rank_of_step(x, i / ORI_TERMS_CELLS), i % ORI_TERMS_CELLS,
			      ori_terms_word(&x->call, i % ORI_TERMS_CELLS));
}

/* Called by all threads of the group: the data. */
ORIEL_DEV void ori_short_send(const struct ori_exchange *x, const struct ori_short *s)
{
	uint32_t cells = ori_short_cells(s), i, n = cells * ori_part_ranks(x);
	int peer;

	if (s->root >= 0 && s->root != x->team->win.comm.rank)
		n = 0;
	for (i = x->g.thread; i < n; i += x->g.size) {
		uint32_t step = ori_short_step(s, i), cell = i - step * cells;

		peer = ori_part_rank(x, step);
		ori_cell_send(x, peer, ORI_TERMS_CELLS + cell,
			      ori_cell_load(s->send + (uint32_t)peer * s->send_stride, cell,
					    s->bytes));
	}
}

/* Called by all threads after the cells: on CPUs other ranks may sleep. */
ORIEL_DEV void ori_team_wake(const struct oriel_team_dev *team)
{
	int r;

	for (r = 0; !ORIEL_ON_GPU && r < team->win.comm.nranks; r++)
		ori_wake(ori_window_entry(&team->win, r).waiters);
}

/* ---- the terms of all ranks ------------------------------------------------------------------ */

ORIEL_DEV struct ori_terms ori_terms_from(const struct ori_exchange *x, int source)
{
	struct ori_terms call;
	uint64_t words[2];

	(void)ori_round_look(ori_cell_from(x, source, 0), &words[0]);
	(void)ori_round_look(ori_cell_from(x, source, 1), &words[1]);
	memcpy(&call, words, sizeof(call));
	return call;
}

/* Have the terms of `source` come, and are they others than this rank's, or refused? */
ORIEL_DEV_OUT int ori_terms_stop(const struct ori_exchange *x, int source)
{
	uint32_t mark = ori_round_mark(x->team, x->round);
	struct ori_terms call;
	uint64_t word;

	if (ori_round_look(ori_cell_from(x, source, 0), &word) != mark ||
	    ori_round_look(ori_cell_from(x, source, 1), &word) != mark)
		return 0;
	call = ori_terms_from(x, source);
	return call.refused || ori_terms_differ(&call, &x->call);
}

/* What a round ends with beside a status: the calls of the ranks differ, or one refuses. */
#define ORI_TERMS_STOP 1

/*
 * Called by one thread: waits for a cell of `source`.  A rank with other terms may never send it,
 * so the wait ends if those have come.
 */
ORIEL_DEV_OUT struct ori_cell_taken ori_short_wait_out(const struct ori_exchange *x, int source,
						       uint32_t cell)
{
	const struct oriel_window_dev *win = &x->team->win;
	const uint64_t *at = ori_cell_from(x, source, cell);
	struct ori_cell_taken t = { 0, 0 };
	uint32_t mark = ori_round_mark(x->team, x->round);
	struct ori_spin s;

	ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_SIGNAL, source, (int)x->channel,
		       ori_exchange_name(x), x->round + 1);
	ori_spin_within(&s, x->g);
	while (ori_round_look(at, &t.word) != mark && !t.err) {
		t.err = ori_spin(&s, x->round);
		if (!t.err && ori_terms_stop(x, source))
			t.err = ORI_TERMS_STOP;
	}
	ori_spin_end(&s);
	if (t.err < 0)
		(void)ori_exchange_give_up_out(x, t.err, source);
	return t;
}

ORIEL_DEV struct ori_cell_taken ori_short_wait(const struct ori_exchange *x, int source,
					       uint32_t cell)
{
	struct ori_exchange copy = *x;

	return ORI_RARE(ori_short_wait_out)(&copy, source, cell);
}

/* Called by the takers: waits for the terms of all ranks.  Returns 0, a status, ORI_TERMS_STOP. */
ORIEL_DEV int ori_terms_wait(const struct ori_exchange *x)
{
	uint32_t i, polls, n = ORI_TERMS_CELLS * (uint32_t)x->team->win.comm.nranks;
	uint32_t mark = ori_round_mark(x->team, x->round);
	struct ori_cell_taken t = { 0, 0 };

	for (i = x->g.thread; i < n && !t.err; i += ori_cells_takers(x->g)) {
		int source = ori_rank_of_step(x, i / ORI_TERMS_CELLS);
		const uint64_t *cell = ori_cell_from(x, source, i % ORI_TERMS_CELLS);

		ORI_ROLLED
		for (polls = ORI_SPIN_POLLS; polls && ori_round_look(cell, &t.word) != mark;)
			polls--;
		if (!polls)
			t = ori_short_wait(x, source, i % ORI_TERMS_CELLS);
		if (!t.err && t.word != ori_terms_word(&x->call, i % ORI_TERMS_CELLS))
			t.err = ORI_TERMS_STOP;
	}
	return !t.err && x->call.refused ? ORI_TERMS_STOP : t.err;
}

/* Called by the leader: waits for the terms of all ranks, and compares them. */
ORIEL_DEV_OUT int ori_terms_compare(const struct ori_exchange *x)
{
	uint32_t i, n = ORI_TERMS_CELLS * (uint32_t)x->team->win.comm.nranks, mark;
	struct ori_cell_taken t = { 0, 0 };
	struct ori_compared c;
	struct ori_terms call;
	int r;

	mark = ori_round_mark(x->team, x->round);
	for (i = 0; i < n; i++)
		while (ori_round_look(ori_cell_from(x, (int)(i / 2), i % 2), &t.word) != mark) {
			t = ori_short_wait_out(x, (int)(i / 2), i % 2);
			if (t.err < 0)
				return t.err;
		}
	c.err = 0;
	for (r = 0; r < x->team->win.comm.nranks && !c.err; r++) {
		call = ori_terms_from(x, r);
		ori_compared_add(&c, r, &call);
	}
	return ori_compared_end(x, &c);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* The rank whose cells are taken in a step. */
ORIEL_DEV int ori_short_source(const struct ori_exchange *x, const struct ori_short *s,
			       uint32_t step)
{
	return s->root >= 0 ? s->root : ori_part_rank(x, step);
}

/* Called by the takers: one pass of at most ORI_ROUND_CELLS cells per thread, from `i` on. */
ORIEL_DEV int ori_short_take(const struct ori_exchange *x, const struct ori_short *s, uint32_t i,
			     uint32_t n, uint64_t *word)
{
	uint32_t cells = ori_short_cells(s), step = ori_cells_takers(x->g), mark, missing, polls;
	const uint64_t *cell[ORI_ROUND_CELLS];
	struct ori_cell_taken t = { 0, 0 };
	int k;

	mark = ori_round_mark(x->team, x->round);
	ORI_UNROLL
	for (k = 0; k < ORI_ROUND_CELLS; k++) {
		uint32_t at = i + (uint32_t)k * step, q = ori_short_step(s, at);

		if (at < n)
			cell[k] = ori_cell_from(x, ori_short_source(x, s, q),
						ORI_TERMS_CELLS + at - q * cells);
	}
	polls = ORI_SPIN_POLLS;
	ORI_ROLLED
	do {
		missing = 0;
		ORI_UNROLL
		for (k = 0; k < ORI_ROUND_CELLS; k++)
			if (i + (uint32_t)k * step < n)
				missing |= ori_round_look(cell[k], &word[k]) ^ mark;
	} while (missing && --polls);
	ORI_UNROLL
	for (k = 0; k < ORI_ROUND_CELLS; k++) {
		uint32_t at = i + (uint32_t)k * step, q = ori_short_step(s, at);

		if (missing && at < n && !t.err) {
			t = ORI_RARE(ori_short_wait)(x, ori_short_source(x, s, q),
						     ORI_TERMS_CELLS + at - q * cells);
			word[k] = t.word;
		}
	}
	return t.err;
}

ORIEL_DEV void ori_short_deliver(const struct ori_exchange *x, const struct ori_short *s,
				 uint32_t i, uint32_t n, const uint64_t *word)
{
	uint32_t cells = ori_short_cells(s), step = ori_cells_takers(x->g);
	int k;

	ORI_UNROLL
	for (k = 0; k < ORI_ROUND_CELLS; k++) {
		uint32_t at = i + (uint32_t)k * step, q = ori_short_step(s, at);

		if (at < n)
			ori_cell_deliver(s->recv + (s->root >= 0 ? 0u :
								   (uint32_t)ori_part_rank(x, q)) *
							   s->recv_stride,
					 at - q * cells, s->bytes, word[k]);
	}
}

/* ---- the round ------------------------------------------------------------------------------- */

/*
 * Called by the group after it agreed on what its threads have found.  If terms are not all the
 * same, the round is over on all ranks.
 */
ORIEL_DEV_OUT int ori_terms_end_out(struct ori_exchange *x, int verdict)
{
	int err = verdict;

	if (err == ORI_TERMS_STOP) {
		err = oriel_group_is_leader(x->g) ? ori_terms_compare(x) : 0;
		if (oriel_group_is_leader(x->g) && !err)
			err = ORIEL_EMISMATCH; /* a rank has changed its terms meanwhile */
		err = ori_group_agree(x->g, err);
		ori_exchange_end(x);
	}
	return err;
}

ORIEL_DEV int ori_terms_end(const struct ori_exchange *x, int verdict)
{
	struct ori_exchange copy = *x; /* the call is over, so nobody needs the round after it */

	return ORI_RARE(ori_terms_end_out)(&copy, verdict);
}

/* Called by the group: this rank's terms were sent.  Waits for those of all ranks. */
ORIEL_DEV int ori_terms_meet(struct ori_exchange *x)
{
	int err = x->g.thread < ori_cells_takers(x->g) ? ori_terms_wait(x) : 0;

	err = ori_group_agree_any(x->g, err);
	x->first = 0;
	return err ? ori_terms_end(x, err) : 0;
}

ORIEL_DEV int ori_short_round(struct ori_exchange *x, const struct ori_short *s)
{
	uint32_t i, n = ori_short_cells(s), first;
	int err = 0, taker = x->g.thread < ori_cells_takers(x->g);
	uint64_t word[ORI_ROUND_CELLS];

	if (s->root < 0)
		n *= ori_part_ranks(x);
	else if (s->root == x->team->win.comm.rank)
		n = 0;
	if (x->first)
		ori_terms_send(x);
	ori_short_send(x, s);
	ori_team_wake(x->team);
	first = taker ? x->g.thread : n;
	if (taker && x->first)
		err = ori_terms_wait(x);
	if (!err && first < n)
		err = ori_short_take(x, s, first, n, word);
	/* Nothing is delivered before all threads know that all ranks make the same call. */
	err = ori_group_agree_any(x->g, err);
	if (err == ORI_TERMS_STOP && !x->first)
		return ORIEL_EMISMATCH; /* another call on the channel of a line */
	if (err)
		return ori_terms_end(x, err);
	for (i = first; i < n && !err;) {
		ori_short_deliver(x, s, i, n, word);
		i += ORI_ROUND_CELLS * ori_cells_takers(x->g);
		if (i < n)
			err = ori_short_take(x, s, i, n, word);
	}
	err = ori_group_agree_any(x->g, err);
	if (err == ORI_TERMS_STOP)
		return ORIEL_EMISMATCH; /* likewise */
	if (!err)
		ori_exchange_end(x);
	return err;
}

#endif
