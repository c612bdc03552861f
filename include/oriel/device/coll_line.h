/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_line.h - a collective that a group holds open on a channel of a team.
 *
 * A kernel that makes the same call again and again opens a line for it.  The ranks compare their
 * calls once, when it is opened.  Then every thread keeps in registers what other calls find out
 * each time: the round, its peer, addresses.  A short call is then one step with one meeting of the
 * group: store cells, take cells (coll_line_words.h).
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
 * A call does not begin with a meeting of the group, as other collectives do.  If other threads
 * have written what a thread sends, or may still read what the last call received in the same
 * place, the group meets before the call: oriel_group_sync().  A call ends with a meeting: all
 * threads see what has come, and may write send again.
 *
 * Parts.  Several blocks can divide the peers of an all-to-all or an all-gather.  Each opens its
 * own line, on its own channel, as one of `parts` parts.  Part p exchanges data with the ranks r of
 * which (rank + r) % parts is p: with as many parts as ranks, each with one.  A line moves only the
 * blocks of its part in send and recv, and a call waits only for those ranks.
 *
 * Long blocks of mapped ranks are copied twice, through a slot of the team.  If all ranks receive
 * in a window, they are copied once: oriel_coll_into(), coll_line_slots.h.
 *
 * Ranks that exchange nothing in a part have last met when the line was opened.  One of them may
 * still read what another one sent then.  So the first round after such a line must use the other
 * places and slots: if the number of rounds is odd, the line ends with one of its own.  Also they
 * cannot clear the places that they have for each other (team_cells.h).  So these are cleared when
 * the line is opened, at the end of two rounds.
 *
 * Model: models/rounds.pml
 *
 * Queued peers, teams without cells, other groups and odd addresses take the ways of coll_long.h
 * and coll_short.h, with the same calls.
 */
#ifndef ORIEL_DEVICE_COLL_LINE_H
#define ORIEL_DEVICE_COLL_LINE_H

#include "coll_line_slots.h"
#include "coll_line_words.h"

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
 * From now on the line receives in a window: block r of its part at offset + r x bytes.  All ranks
 * make this call right after they have opened the line, with the same window and offset.  The
 * window has the ranks of the team.  Long data then goes straight to its place.  A peer may write
 * there from the moment the owner makes the call of the line.  If it is refused, all ranks get the
 * same status, and the line can only be closed.  Of an all-reduce, and after the first call of a
 * line: ORIEL_EINVAL, and nothing changes.
 */
ORIEL_DEV int oriel_coll_into(struct oriel_coll_line *line, struct oriel_group g,
			      const struct oriel_window_dev *win, uint64_t offset);
/*
 * Makes the call of a line.  The group is the one that opened it.  Buffers are as in the call with
 * the same name in coll.h, and may be others each time.  After oriel_coll_into() `recv` is NULL or
 * the address of the place.  A line that has failed returns its status, and part of recv may have
 * been written: ORIEL_ETIMEDOUT, or ORIEL_EMISMATCH if another rank makes another call on the
 * channel.  Such a channel is out of step, and so is the team.
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

/* By value: a pointer to it would force the line into memory. */
struct ori_line_compared {
	uint64_t round; /* the next one */
	int32_t err;
};

/* Called by the group: the ranks compare their lines. */
ORIEL_DEV_LONG struct ori_line_compared ori_line_compare(const struct oriel_team_dev *team,
							 ORI_VALUE(oriel_group) g, int channel,
							 uint64_t terms0, uint64_t terms1,
							 int parts)
{
	struct ori_terms call = ori_terms_join(terms0, terms1);
	int rounds = parts > 1 && team->cell_bytes ? 2 : 1, i;
	struct ori_line_compared met;
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
	struct ori_line_compared met;
	uint64_t terms[2];

	if (!right && !call.refused)
		call.refused = (uint8_t)-ORIEL_ERANGE;
	call.root = right ? ORI_LINE_ROOT(part, parts, ranks) : -2;
	memcpy(terms, &call, sizeof(terms));
	met = ORI_RARE(ori_line_compare)(team, g, channel, terms[0], terms[1], parts);
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
	if (met.err || !l->bytes)
		return met.err;
	if (ori_coll_is_short(team, &call, l->bytes, ori_line_cells(l)))
		ori_line_share_words(l, g);
	else if (ori_line_is_long(l))
		ori_line_share_slots(l, g);
	return 0;
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

ORIEL_DEV int oriel_coll_into(struct oriel_coll_line *line, struct oriel_group g,
			      const struct oriel_window_dev *win, uint64_t offset)
{
	const struct oriel_window_dev *own = &line->x.team->win;
	uint64_t all = line->bytes * (uint32_t)own->comm.nranks, terms[2];
	struct ori_terms call = line->x.call;
	struct ori_line_compared met;
	int peer;

	/* All ranks come to the same result here. */
	if (line->err || call.type || (uint32_t)line->x.round != line->opened)
		return line->err ? line->err : ORIEL_EINVAL;
	call.size = offset;
	call.root = ORI_INTO_ROOT(win->number);
	if (win->comm.nranks != own->comm.nranks || win->comm.rank != own->comm.rank ||
	    all > win->bytes || offset > win->bytes - all)
		call.refused = (uint8_t)-ORIEL_ERANGE;
	else if (win->queued_peers > own->queued_peers)
		call.refused = (uint8_t)-ORIEL_EUNSUPPORTED;
	memcpy(terms, &call, sizeof(terms));
	met = ORI_RARE(ori_line_compare)(line->x.team, g, (int)line->x.channel, terms[0], terms[1],
					 line->x.parts);
	line->x.round = met.round;
	line->opened = (uint32_t)met.round;
	line->into = win;
	line->into_off = offset;
	line->place = win->buffer + offset;
	if (line->way >= ORI_LINE_SLOTS) {
		line->way = ORI_LINE_PUSH;
		if (line->words) {
			peer = ori_part_rank(&line->x, g.thread >> ori_high_bit(line->lanes));
			line->out = ori_window_entry(win, peer).buffer + offset +
				    line->bytes * (uint32_t)own->comm.rank;
		}
	}
	line->err = met.err;
	return met.err;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Called by the group: a call that coll_line_slots.h does not make. */
ORIEL_DEV_LONG int ori_line_general(struct ori_exchange *x, ORI_VALUE(ori_reducer) how,
				    const uint8_t *send, uint8_t *recv, uint64_t bytes,
				    uint32_t cells)
{
	struct ori_exchange mine = *x; /* see exchange.h */
	int err = 0;

	if (bytes)
		err = ori_coll_rounds(&mine, how, send, recv, bytes, bytes, cells);
	x->round = mine.round;
	return err;
}

/*
 * Any call, or help for one that needs it.  `line`: a copy; its round is moved on.  Returns a
 * status, or ORI_LINE_HELP: cells have come, and are to be taken.
 */
ORIEL_DEV_OUT int ori_line_rounds(struct oriel_coll_line *line, ORI_VALUE(oriel_group) g,
				  const uint8_t *send, uint8_t *recv, uint64_t at, int help)
{
	int err;

	line->x.g = g;
	if (ori_line_is_long(line))
		return ori_line_slots_any(line, g, send, recv, at, help);
	if (!help)
		return ori_line_general(&line->x, line->how, send, recv, line->bytes,
					ori_line_cells(line));
	err = ori_line_wait_out(&line->x, (uint32_t)(line->bytes / 8u));
	return err ? err : ORI_LINE_HELP;
}

ORIEL_DEV int ori_line_help(struct oriel_coll_line *l, struct oriel_group g, const uint8_t *send,
			    uint8_t *recv, uint64_t at, int help)
{
	struct oriel_coll_line copy = *l;
	int err = ORI_RARE(ori_line_rounds)(&copy, g, send, recv, at, help);

	l->x.round = copy.x.round;
	return err;
}

/* Called by the group. */
ORIEL_DEV int ori_line_call(struct oriel_coll_line *l, struct oriel_group g, const uint8_t *send,
			    uint8_t *recv)
{
	int err, help = 0;
	uint64_t at = 0;

	/* Places are cleared at the end of some rounds: team_cells.h. */
	if (l->way == ORI_LINE_WORDS && !(((uintptr_t)send | (uintptr_t)recv) & 7u) &&
	    !ori_round_clears(l->x.team, l->x.round)) {
		err = ori_line_words(l, g, send, recv, 0);
		ORI_ROLLED
		while (err == ORI_LINE_HELP) {
			err = ori_line_help(l, g, send, recv, 0, 1);
			if (err == ORI_LINE_HELP)
				err = ori_line_words(l, g, send, recv, 1);
		}
		return err;
	}
	if (l->way >= ORI_LINE_SLOTS && ori_line_is_usual(l, send, recv)) {
		err = ori_line_slots(l, g, send, recv, &at);
		if (err != ORI_LINE_HELP)
			return err;
		help = 1;
	}
	return ori_line_help(l, g, send, recv, at, help);
}

ORIEL_DEV int oriel_coll_again(struct oriel_coll_line *line, struct oriel_group g, const void *send,
			       void *recv)
{
	struct ori_trace_note n = ori_coll_note(line->x.team, g, line->x.channel, &line->x.call,
						ORIEL_TRACE_COLL);
	uint8_t *to = line->place ? line->place : (uint8_t *)recv;
	const uint8_t *from = (const uint8_t *)send;

	if (line->err)
		return line->err;
	if (line->place && recv && recv != to)
		return ORIEL_EINVAL;
	line->err = ori_line_call(line, g, from, to);
	ori_trace_end(&line->x.team->win.comm, g, n, line->err);
	return line->err;
}

ORIEL_DEV int oriel_coll_close(struct oriel_coll_line *line, struct oriel_group g)
{
	struct ori_failures look = { 0, 0 };
	int err;

	/* A call that refuses its arguments meets nobody: threads may still be in it. */
	(void)oriel_group_sync(g);
	if (!line->err && line->x.parts > 1 && !line->x.team->row_bytes &&
	    (((uint32_t)line->x.round ^ line->opened) & 1u)) {
		struct ori_exchange copy = line->x;

		copy.g = g;
		line->err = ORI_RARE(ori_line_meet_out)(&copy);
		if (!line->err)
			ori_line_end_any(line, g);
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
