/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_line.h - a collective that a group holds open on a channel of a team.
 *
 * A kernel that makes the same call again and again opens a line for it.  The ranks compare their
 * calls once, when it is opened.  Then every thread keeps in registers what other calls find out
 * each time: the round, its peer, addresses.  A short call is then one step with two meetings of
 * the group: store cells, take cells.
 *
 *	struct oriel_coll_line line;
 *	int err = oriel_coll_open_alltoall(&line, &a->team, g, 0, 1024, 0, 1);
 *
 *	for (i = 0; i < n && !err; i++)
 *		err = oriel_coll_again(&line, g, send, recv);
 *	closed = oriel_coll_close(&line, g);
 *
 * All ranks make the same number of calls on a line, and close it.
 *
 * Parts.  Several blocks can divide the peers of an all-to-all or an all-gather.  Each opens its
 * own line, on its own channel, as one of `parts` parts.  Part p exchanges data with the ranks r of
 * which (rank + r) % parts is p: with as many parts as ranks, each with one.  A line moves only the
 * blocks of its part in send and recv, and a call waits only for those ranks.
 *
 * Cells, marks and places are those of coll_cells.h, without the terms.  A place is written again
 * two rounds later.  Its writer has then taken the receiver's cells of the round between, and those
 * were sent after the receiver's threads had taken their cells and met.  So this holds for each
 * pair of ranks, whatever the others do.
 *
 * Ranks that exchange nothing in a part have last met when the line was opened.  One of them may
 * still read what another one sent then.  So the first round after such a line must use the other
 * places: if the number of rounds is odd, the line ends with one of its own.  Also they cannot
 * clear the places that they have for each other (team_cells.h).  So these are cleared when the
 * line is opened, at the end of two rounds.
 *
 * Model: models/rounds.pml
 *
 * Longer data, teams without cells, other groups and odd addresses take the ways of coll_long.h and
 * coll_short.h, with the same calls.
 */
#ifndef ORIEL_DEVICE_COLL_LINE_H
#define ORIEL_DEVICE_COLL_LINE_H

#include "coll_long.h"

/* One thread's copy of a line.  The members belong to the calls. */
struct oriel_coll_line {
	struct ori_exchange x; /* `first` is 0: the terms were compared */
	struct ori_reducer how;
	uint64_t bytes; /* of a rank's block */
	/* Calls in whole words; the addresses are those of even rounds. */
	uint8_t *out;
	const uint8_t *in;
	uint64_t from, to; /* offset of the peer's block in send and recv */
	uint32_t half;     /* from the cells of an even round to those of an odd one */
	uint32_t words;    /* of the block that this thread helps to move; 0: it has none */
	uint32_t lane, lanes;
	uint32_t opened; /* low bits of its first round */
	int32_t peer;
	int32_t quick; /* can calls be made in whole words? */
	int32_t err;   /* the line has failed */
};

/*
 * Opens a line for an all-to-all.  Block r of `bytes` of send goes to rank r.  All ranks open the
 * same lines.  Waits for the other ranks, and gives all of them the same status.  While a line is
 * open, no other call uses its channel.
 */
ORIEL_DEV int oriel_coll_open_alltoall(struct oriel_coll_line *line,
				       const struct oriel_team_dev *team, struct oriel_group g,
				       int channel, uint64_t bytes, int part, int parts);
/* Opens a line for an all-gather.  `bytes` of send go to all ranks. */
ORIEL_DEV int oriel_coll_open_allgather(struct oriel_coll_line *line,
					const struct oriel_team_dev *team, struct oriel_group g,
					int channel, uint64_t bytes, int part, int parts);
/* Opens a line for an all-reduce.  It has `count` elements: see oriel_coll_allreduce(). */
ORIEL_DEV int oriel_coll_open_allreduce(struct oriel_coll_line *line,
					const struct oriel_team_dev *team, struct oriel_group g,
					int channel, uint64_t count, int type, int op);
/*
 * Makes the call of a line.  The group is the one that opened it.  Buffers are as in the call with
 * the same name in coll.h, and may be others each time.  A line that has failed returns its status,
 * and part of recv may have been written: ORIEL_ETIMEDOUT, or ORIEL_EMISMATCH if another rank makes
 * another call on the channel.  Such a channel is out of step, and so is the team.
 */
ORIEL_DEV int oriel_coll_again(struct oriel_coll_line *line, struct oriel_group g, const void *send,
			       void *recv);
/*
 * Closes a line: other calls may use the channel again.  A line with several parts may wait for the
 * ranks of its part; if it is not closed, the next call on the channel may never end.  A line whose
 * opening failed may be closed too.
 */
ORIEL_DEV int oriel_coll_close(struct oriel_coll_line *line, struct oriel_group g);

/* ---- opening --------------------------------------------------------------------------------- */

/*
 * Terms of a line have no root.  A number below -1 tells them from those of other calls, and the
 * ranks compare the part with it.
 */
#define ORI_LINE_ROOT(part, parts, ranks) (-1 - ((parts) + (part) * ((ranks) + 1)))

/* Called when the line is open: which cells are this thread's? */
ORIEL_DEV void ori_line_share(struct oriel_coll_line *l, struct oriel_group g)
{
	const struct oriel_team_dev *t = l->x.team;
	uint32_t ranks = (uint32_t)(t->win.comm.nranks + l->x.parts - 1) / (uint32_t)l->x.parts;
	uint64_t place = (ORI_TERMS_CELLS + t->cell_bytes / 8u) * 16u, at, step;
	uint32_t words = (uint32_t)(l->bytes / 8u);

	/* On a CPU only what the leader has found counts. */
	if (!l->bytes || l->bytes % 8u ||
	    (!ORIEL_ON_GPU && (g.size > 1 || (!l->how.type && ranks > 1))) ||
	    !ori_coll_is_short(t, &l->x.call, l->bytes, t->cell_bytes))
		return;
	l->half = (uint32_t)place;
	at = l->x.base + t->cells_off;
	if (l->how.type) {
		l->quick = t->win.comm.nranks <= ORI_WORD_SOURCES &&
			   words <= (uint32_t)ORI_WORDS_ROWS * g.size;
		l->words = words;
		return;
	}
	l->lanes = ori_words_lanes(ranks, g.size);
	l->quick = l->lanes > 0;
	if (!l->quick)
		return;
	l->lane = g.thread & (l->lanes - 1);
	step = g.thread >> ori_high_bit(l->lanes);
	if (step >= ori_part_ranks(&l->x))
		return;
	l->peer = ori_part_rank(&l->x, (uint32_t)step);
	l->words = words;
	at += ORI_TERMS_CELLS * 16u;
	l->out = ori_window_entry(&t->win, l->peer).buffer + at +
		 2 * place * (uint32_t)t->win.comm.rank;
	l->in = t->win.buffer + at + 2 * place * (uint32_t)l->peer;
	l->to = l->bytes * (uint32_t)l->peer;
	l->from = l->x.call.kind == ORI_COLL_ALLTOALL ? l->to : 0;
}

/* By value: a pointer to it would force the line into memory. */
struct ori_line_met {
	uint64_t round; /* the next one */
	int32_t err;
};

/* Called by the group: the ranks compare their lines. */
ORIEL_DEV_LONG struct ori_line_met ori_line_meet(const struct oriel_team_dev *team,
						 ORI_VALUE(oriel_group) g, int channel,
						 uint64_t terms0, uint64_t terms1, int parts)
{
	struct ori_terms call = ori_terms_join(terms0, terms1);
	int rounds = parts > 1 && team->cell_bytes ? 2 : 1, i;
	struct ori_line_met met;
	struct ori_exchange x;

	met.err = ori_exchange_begin(&x, team, g, (uint32_t)channel, &call);
	for (i = 0; i < rounds && !met.err; i++) {
		met.err = ori_coll_compare(&x);
		if (!met.err && rounds > 1)
			ori_places_clear(team, g, x.base, x.round - 1, 0, 1);
	}
	met.round = x.round;
	return met;
}

ORIEL_DEV int ori_line_open(struct oriel_coll_line *l, const struct oriel_team_dev *team,
			    struct oriel_group g, int channel, struct ori_terms call,
			    struct ori_reducer how, int part, int parts)
{
	int ranks = team->win.comm.nranks, right = part >= 0 && part < parts && parts <= ranks;
	struct ori_line_met met;
	uint64_t terms[2];

	if (!right && !call.refused)
		call.refused = (uint8_t)-ORIEL_ERANGE;
	call.root = right ? ORI_LINE_ROOT(part, parts, ranks) : -2;
	memcpy(terms, &call, sizeof(terms));
	met = ORI_RARE(ori_line_meet)(team, g, channel, terms[0], terms[1], parts);
	memset(l, 0, sizeof(*l));
	l->x.team = team;
	l->x.g = g;
	l->x.call = call;
	l->x.channel = (uint32_t)channel;
	l->x.round = met.round;
	l->x.base = (uint32_t)channel * team->channel_bytes;
	l->x.part = part;
	l->x.parts = right ? parts : 1;
	l->opened = (uint32_t)met.round;
	l->how = how;
	l->bytes = call.size * (call.type ? oriel_type_bytes(call.type) : 1);
	l->err = met.err;
	if (!met.err)
		ori_line_share(l, g);
	return met.err;
}

ORIEL_DEV int oriel_coll_open_alltoall(struct oriel_coll_line *line,
				       const struct oriel_team_dev *team, struct oriel_group g,
				       int channel, uint64_t bytes, int part, int parts)
{
	return ori_line_open(line, team, g, channel, ori_terms_of(ORI_COLL_ALLTOALL, bytes),
			     ori_reducer_of(0, 0), part, parts);
}

ORIEL_DEV int oriel_coll_open_allgather(struct oriel_coll_line *line,
					const struct oriel_team_dev *team, struct oriel_group g,
					int channel, uint64_t bytes, int part, int parts)
{
	return ori_line_open(line, team, g, channel, ori_terms_of(ORI_COLL_ALLGATHER, bytes),
			     ori_reducer_of(0, 0), part, parts);
}

ORIEL_DEV int oriel_coll_open_allreduce(struct oriel_coll_line *line,
					const struct oriel_team_dev *team, struct oriel_group g,
					int channel, uint64_t count, int type, int op)
{
	return ori_line_open(line, team, g, channel,
			     ori_terms_reduce(ORI_COLL_ALLREDUCE, count, type, op),
			     ori_reducer_of(type, op), 0, 1);
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

/* ---- calls in whole words -------------------------------------------------------------------- */

ORIEL_DEV void ori_line_put(const struct oriel_coll_line *l, const uint8_t *send, uint8_t *out,
			    uint32_t mark, int most)
{
	uint64_t word[ORI_CELLS_UNROLL];
	uint32_t i, at;
	int k;

	for (i = l->lane; i < l->words; i += (uint32_t)most * l->lanes) {
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
	uint64_t word[ORI_CELLS_UNROLL];
	uint32_t i, at, polls;
	int k, err = 0;

	for (i = l->lane; i < l->words; i += (uint32_t)most * l->lanes) {
		for (polls = ORI_SPIN_POLLS; polls && ori_line_look(l, in, i, mark, word, most);)
			polls--;
		/* The wait is not called inside this loop: see packet_cells.h. */
		for (k = 0; !polls && k < most && !err; k++)
			if (i + (uint32_t)k * l->lanes < l->words)
				err = ori_line_wait(l, g, l->peer, i + (uint32_t)k * l->lanes);
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
	uint32_t half = ((uint32_t)l->x.round & 1u) * l->half;
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
	s.place = 2 * l->half;
	s.in = l->x.base + t->cells_off + ((uint32_t)l->x.round & 1u) * l->half;
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

/* ---- the call -------------------------------------------------------------------------------- */

/* Any call.  `x`: a copy; its round is moved on. */
ORIEL_DEV_LONG int ori_line_rounds(struct ori_exchange *x, ORI_VALUE(ori_reducer) how,
				   const uint8_t *send, uint8_t *recv, uint64_t bytes)
{
	struct ori_exchange mine = *x; /* see exchange.h */
	int err = oriel_group_sync(mine.g);

	if (!err && bytes)
		err = ori_coll_rounds(&mine, how, send, recv, bytes, bytes, mine.team->cell_bytes);
	x->round = mine.round;
	return err;
}

ORIEL_DEV int ori_line_any(struct oriel_coll_line *l, struct oriel_group g, const uint8_t *send,
			   uint8_t *recv)
{
	struct ori_exchange copy = l->x;
	int err;

	copy.g = g;
	err = ORI_RARE(ori_line_rounds)(&copy, l->how, send, recv, l->bytes);
	l->x.round = copy.round;
	return err;
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
	else if (l->words <= l->lanes)
		err = ori_line_move(l, g, send, recv, 1);
	else
		err = ori_line_move(l, g, send, recv, ORI_CELLS_UNROLL);
	err = ori_group_agree_any(g, err);
	l->x.round += !err;
	/* so that a line that nobody closes does not make later calls take old cells */
	if (!err && oriel_group_is_leader(g))
		ori_exchange_state(&l->x)->rounds = l->x.round;
	return err;
}

ORIEL_DEV int oriel_coll_again(struct oriel_coll_line *line, struct oriel_group g, const void *send,
			       void *recv)
{
	struct ori_trace_note n = ori_coll_note(line->x.team, g, line->x.channel, &line->x.call,
						ORIEL_TRACE_COLL);
	if (line->err)
		return line->err;
	/* Places are cleared at the end of some rounds: team_cells.h. */
	if (line->quick && !(((uintptr_t)send | (uintptr_t)recv) & 7u) &&
	    !ori_round_clears(line->x.team, line->x.round))
		line->err = ori_line_words(line, g, (const uint8_t *)send, (uint8_t *)recv);
	else
		line->err = ori_line_any(line, g, (const uint8_t *)send, (uint8_t *)recv);
	ori_trace_end(&line->x.team->win.comm, g, n, line->err);
	return line->err;
}

/*
 * Called by the group: one more round among the ranks of the part, with a word that nobody needs.
 * It lies in the channel's own slot, which short rounds do not use.
 */
ORIEL_DEV_LONG int ori_line_last(struct ori_exchange *x)
{
	struct ori_exchange mine = *x; /* see exchange.h */
	struct ori_short s;
	int err;

	s.send = ori_exchange_slot(&mine);
	s.recv = ori_exchange_slot(&mine) + 64;
	s.send_stride = 0;
	s.recv_stride = 8;
	s.bytes = 8;
	s.root = -1;
	s.inverse = (1ull << 32) / ori_short_cells(&s) + 1;
	err = ori_short_round(&mine, &s);
	x->round = mine.round;
	return err;
}

ORIEL_DEV int oriel_coll_close(struct oriel_coll_line *line, struct oriel_group g)
{
	struct ori_failures look = { 0, 0 };
	int err;

	/* A call that refuses its arguments meets nobody: threads may still be in it. */
	(void)oriel_group_sync(g);
	if (!line->err && line->x.parts > 1 && line->x.team->cell_bytes &&
	    (((uint32_t)line->x.round ^ line->opened) & 1u)) {
		struct ori_exchange copy = line->x;

		copy.g = g;
		line->err = ORI_RARE(ori_line_last)(&copy);
		line->x.round = copy.round;
	}
	if (oriel_group_is_leader(g)) {
		look = ori_failures_of_window(&line->x.team->win);
		if (!line->err)
			ori_exchange_state(&line->x)->rounds = line->x.round;
	}
	/* The next call of any thread reads the number. */
	err = ori_group_agree_failures(g, look);
	err = line->err ? line->err : err;
	line->err = ORIEL_EINVAL; /* it is of no use any more */
	return err;
}

#endif
