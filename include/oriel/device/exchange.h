/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/exchange.h - rounds of a team's channel: the one way in which collectives move data
 * between ranks.
 *
 * A collective uses it as follows.  All threads of the group make each call.
 *
 *	err = ori_exchange_begin(&x, team, g, channel, &call);
 *	for (each step) {
 *		err = ori_exchange_open(&x);		the slot may be filled
 *		copy data to ori_exchange_slot(&x);
 *		err = ori_exchange_meet(&x, piece, ...);	all ranks have shown theirs
 *		read the others' data: ori_exchange_pieces(), ori_exchange_commons();
 *	}
 *
 * A slot is filled again two rounds later.  Its owner has then seen all ranks in the round between,
 * and a rank enters that one after it has read the slot.  So no other handshake is needed.  The
 * data of queued peers moves by puts; a ticket tells when their source may be written again.
 *
 * Edges: data is published by signals, [SIG1], and found by [SIG2] of mapped.h.
 */
#ifndef ORIEL_DEVICE_EXCHANGE_H
#define ORIEL_DEVICE_EXCHANGE_H

#include "../device.h"
#include "sources.h"
#include "team_cells.h"

/* One call on a channel.  Every thread of the group has its own copy, all alike. */
struct ori_exchange {
	const struct oriel_team_dev *team;
	struct oriel_group g;
	struct ori_terms call;
	uint32_t channel;
	int32_t first;  /* the next round is the first one of this call */
	uint64_t round; /* number of the next round */
	uint64_t base;  /* offset of the channel in the window */
};

/* The data of a round: pieces for each rank from the start of the slot on, and a part for all. */
struct ori_parts {
	uint64_t piece;      /* bytes from one rank's piece to the next; 0: no pieces */
	uint64_t pieces;     /* bytes of all pieces together: the last ones may be shorter */
	uint64_t common_off; /* in the slot */
	uint64_t common;     /* bytes */
};

/* ---- places ---------------------------------------------------------------------------------- */

ORIEL_DEV struct ori_channel *ori_exchange_state(const struct ori_exchange *x)
{
	return (struct ori_channel *)(void *)(x->team->win.buffer + x->base);
}

/* Offset of the head of this round's slot in every rank's window. */
ORIEL_DEV uint64_t ori_exchange_slot_off(const struct ori_exchange *x, uint64_t round)
{
	return x->base + sizeof(struct ori_channel) +
	       (round & 1u) * (sizeof(struct ori_show) + x->team->slot_bytes);
}

/* Offset of the head of the row of rank `source`. */
ORIEL_DEV uint64_t ori_exchange_row_off(const struct ori_exchange *x, uint64_t round, int source)
{
	return x->base + sizeof(struct ori_channel) +
	       2 * (sizeof(struct ori_show) + x->team->slot_bytes) +
	       (2 * (uint64_t)(uint32_t)source + (round & 1u)) *
		       (sizeof(struct ori_show) + x->team->row_bytes);
}

/* The number of the last WQE of this round's puts to a queued peer. */
ORIEL_DEV uint64_t *ori_exchange_posted(const struct ori_exchange *x, int peer)
{
	uint64_t rows = ori_exchange_row_off(x, 0, x->team->win.comm.nranks);

	return (uint64_t *)(void *)(x->team->win.buffer + rows) +
	       (2 * (uint64_t)(uint32_t)peer + (x->round & 1u));
}

/* Where this rank's data of the next round goes. */
ORIEL_DEV uint8_t *ori_exchange_slot(const struct ori_exchange *x)
{
	return x->team->win.buffer + ori_exchange_slot_off(x, x->round) + sizeof(struct ori_show);
}

ORIEL_DEV struct ori_sources ori_exchange_sources(const struct ori_exchange *x, uint64_t round,
						  uint64_t slot_off, uint64_t row_off)
{
	struct ori_sources s;

	s.win = &x->team->win;
	s.own = x->team->win.comm.rank;
	s.n = x->team->win.comm.nranks;
	s.mapped_off = ori_exchange_slot_off(x, round) + sizeof(struct ori_show) + slot_off;
	s.mine = x->team->win.buffer + s.mapped_off;
	s.queued_off = ori_exchange_row_off(x, round, 0) + sizeof(struct ori_show) + row_off;
	s.queued_bytes = 2 * (sizeof(struct ori_show) + x->team->row_bytes);
	s.rows = NULL;
	s.row_bytes = 0;
	s.table = NULL;
	return s;
}

/* What every rank has shown for this rank in the round that was met last. */
ORIEL_DEV struct ori_sources ori_exchange_pieces(const struct ori_exchange *x,
						 struct ori_parts parts)
{
	return ori_exchange_sources(x, x->round - 1, parts.piece * (uint32_t)x->team->win.comm.rank,
				    0);
}

/* What every rank has shown for all.  A row holds it behind the piece of its rank. */
ORIEL_DEV struct ori_sources ori_exchange_commons(const struct ori_exchange *x,
						  struct ori_parts parts)
{
	return ori_exchange_sources(x, x->round - 1, parts.common_off, parts.piece);
}

/* ---- before the round ------------------------------------------------------------------------ */

/*
 * A group of one thread that posts.  It stands for block `channel`, whichever block uses the
 * channel: so all its posts to a peer use one lane, and are executed in order.
 */
ORIEL_DEV struct oriel_group ori_exchange_poster(const struct ori_exchange *x)
{
	struct oriel_group one = oriel_group_thread();

	one.block = x->channel;
	one.timeout_ms = x->g.timeout_ms;
	return one;
}

ORIEL_DEV int ori_exchange_is_queued(const struct ori_exchange *x, int peer)
{
	return x->team->win.queued_peers && ori_peer_is_queued(&x->team->win, peer);
}

/* Called by one thread when a round cannot end: no rank may wait for this one any longer. */
ORIEL_DEV_OUT int ori_exchange_give_up(const struct ori_exchange *x, int err, int late)
{
	const struct oriel_window_dev *win = &x->team->win;
	uint64_t failure = ORIEL_FAILURE_LATE(err, late, win->comm.rank);
	int p;

	if (err != ORIEL_ETIMEDOUT)
		return err; /* window or comm have failed: all ranks know */
	/* acq_rel without a partner: no other data depends on a failure word */
	(void)ori_compare_swap_acq_rel_sys(win->failure, 0, failure);
	for (p = 0; p < win->comm.nranks; p++)
		if (p != win->comm.rank)
			(void)ori_fail_window(win, err, p);
	return err;
}

/* Called by the leader: waits until the puts of two rounds ago have left their source. */
ORIEL_DEV_OUT int ori_exchange_complete(const struct ori_exchange *x)
{
	const struct oriel_window_dev *win = &x->team->win;
	struct oriel_group one = ori_exchange_poster(x);
	struct oriel_ticket ticket;
	int p, err = 0;

	for (p = 0; p < win->comm.nranks && !err; p++) {
		ticket.index = ori_exchange_is_queued(x, p) ? *ori_exchange_posted(x, p) : 0;
		if (!ticket.index)
			continue;
		ticket.peer = p;
		ticket.lane = ori_lane_of(ori_peer_entry(win, p)->link->link, one);
		err = oriel_wait_local(win, one, &ticket, 0);
		if (err)
			(void)ori_exchange_give_up(x, err, p);
	}
	return err;
}

/* Called by the whole group.  After it the slot of the next round may be filled. */
ORIEL_DEV int ori_exchange_open(const struct ori_exchange *x)
{
	int err = 0;

	if (!x->team->win.queued_peers)
		return 0;
	if (oriel_group_is_leader(x->g))
		err = ori_exchange_complete(x);
	return ori_group_agree(x->g, err);
}

/* ---- the round ------------------------------------------------------------------------------- */

/*
 * Called by one thread: puts the parts of a queued peer, then its signal.  sizes: see
 * ori_exchange_meet_sized().
 */
ORIEL_DEV_OUT int ori_exchange_post(const struct ori_exchange *x, const struct ori_parts *parts,
				    const uint64_t *sizes, uint64_t shown, int peer)
{
	const struct oriel_team_dev *t = x->team;
	const struct oriel_window_dev *win = &t->win;
	struct oriel_group one = ori_exchange_poster(x);
	uint64_t from = ori_exchange_slot_off(x, x->round);
	uint64_t to = ori_exchange_row_off(x, x->round, win->comm.rank);
	uint64_t data = from + sizeof(struct ori_show), at = parts->piece * (uint32_t)peer;
	struct oriel_ticket ticket;
	uint64_t piece = at < parts->pieces ? parts->pieces - at : 0;
	int err = 0;

	if (piece > parts->piece)
		piece = parts->piece;
	if (sizes && sizes[peer] < shown + piece)
		piece = sizes[peer] > shown ? sizes[peer] - shown : 0;
	if (x->first)
		err = oriel_put_value(win, one, peer, to, &x->call, sizeof(x->call));
	to += sizeof(struct ori_show);
	if (!err && piece)
		err = oriel_put(win, one, peer, to, &t->source, data + at, piece);
	if (!err && parts->common)
		err = oriel_put(win, one, peer, to + parts->piece, &t->source,
				data + parts->common_off, parts->common);
	if (!err)
		err = oriel_signal(win, one, peer, (int)x->channel, ORIEL_ADD, 1);
	if (!err)
		err = oriel_take_ticket(win, one, peer, &ticket);
	if (!err)
		*ori_exchange_posted(x, peer) = ticket.index;
	return err;
}

/* Called by all lanes after the group met: tells every rank that the slot is filled. */
ORIEL_DEV int ori_exchange_show(const struct ori_exchange *x, const struct ori_parts *parts,
				const uint64_t *sizes, uint64_t shown)
{
	const struct oriel_window_dev *win = &x->team->win;
	int p, err = 0;

	for (p = (int)x->g.thread; p < win->comm.nranks; p += (int)ori_group_lanes(x->g))
		if (p != win->comm.rank && !ori_exchange_is_queued(x, p))
			/* [SIG1] inside; partner [SIG2] in ori_exchange_wait() */
			(void)ori_signal_peer(win, x->g, p, (int)x->channel, ORIEL_SET,
					      x->round + 1);
	for (p = 0; p < win->comm.nranks && !err && oriel_group_is_leader(x->g); p++) {
		if (p == win->comm.rank || !ori_exchange_is_queued(x, p))
			continue;
		err = ori_exchange_post(x, parts, sizes, shown, p);
		if (err)
			(void)ori_exchange_give_up(x, err, p);
	}
	return err;
}

/* The number of the window, with the collective in its upper bits: reports name it. */
ORIEL_DEV int ori_exchange_name(const struct ori_exchange *x)
{
	return (x->team->win.number & ((1 << ORI_COLL_SHIFT) - 1)) | (int)x->call.kind
									     << ORI_COLL_SHIFT;
}

/* Called by one thread: waits until `peer` has shown its slot.  Reports name the collective. */
ORIEL_DEV int ori_exchange_wait(const struct ori_exchange *x, int peer)
{
	const struct oriel_window_dev *win = &x->team->win;
	uint64_t i = ori_signal_index(win, peer, (int)x->channel);
	int queued = ori_exchange_is_queued(x, peer);
	struct ori_nic_words words;
	struct ori_spin s;

	ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_SIGNAL, peer, (int)x->channel,
		       ori_exchange_name(x), x->round + 1);
	ori_spin_within(&s, x->g);
	if (!queued)
		/* [SIG2] inside; partner [SIG1] in ori_exchange_show() */
		return ori_word_wait(&s, &win->signal_words[i], win->first_count, ORIEL_GE);
	ori_spin_host(&s, 1);
	words.first = (uint64_t *)ori_host_half(&win->comm, &win->signal_words[i]);
	words.stride = ori_signal_plane(win);
	words.n = win->word_nics;
	return ori_nic_words_wait(&s, &words, ori_load_relaxed_sys(&win->signal_base[i]), ORIEL_GE);
}

/* Called by all lanes. */
ORIEL_DEV int ori_exchange_await(const struct ori_exchange *x)
{
	const struct oriel_window_dev *win = &x->team->win;
	int i, p, err = 0, n = win->comm.nranks;

	/* from the next rank on, so that ranks do not all wait for the same one */
	for (i = (int)x->g.thread + 1; i < n && !err; i += (int)ori_group_lanes(x->g)) {
		p = win->comm.rank + i < n ? win->comm.rank + i : win->comm.rank + i - n;
		err = ori_exchange_wait(x, p);
		if (err)
			(void)ori_exchange_give_up(x, err, p);
	}
	return err;
}

/* ---- the ranks compare their calls ----------------------------------------------------------- */

ORIEL_DEV int ori_terms_differ(const struct ori_terms *a, const struct ori_terms *b)
{
	return a->size != b->size || a->kind != b->kind || a->type != b->type || a->op != b->op ||
	       a->root != b->root;
}

/* The call of rank r, as it is shown in the round that was met last. */
ORIEL_DEV struct ori_terms ori_exchange_call(const struct ori_exchange *x, int r)
{
	struct ori_sources s = ori_exchange_sources(x, x->round - 1, 0, 0);
	struct ori_terms call;

	memcpy(&call, ori_source(&s, r) - sizeof(struct ori_show), sizeof(call));
	return call;
}

/*
 * What the leader finds when it looks at the calls of all ranks, from rank 0 on.  Every rank sees
 * all calls, so all come to the same result: the status of the first rank that refuses, else
 * ORIEL_EMISMATCH.
 */
struct ori_compared {
	struct ori_terms first, other; /* of rank 0, and of the rank `bad` */
	int32_t bad;                   /* -1: all make the same call */
	int32_t err;                   /* not 0: a rank refuses, and the others need no look */
};

ORIEL_DEV void ori_compared_add(struct ori_compared *c, int rank, const struct ori_terms *call)
{
	if (rank == 0) {
		c->first = *call;
		c->bad = -1;
		c->err = 0;
	}
	if (call->refused)
		c->err = -(int)call->refused;
	if (call->refused || (c->bad < 0 && ori_terms_differ(&c->first, call))) {
		c->other = *call;
		c->bad = rank;
	}
}

/* Returns the result.  The host can read in the channel why a call was refused. */
ORIEL_DEV_OUT int ori_compared_end(const struct ori_exchange *x, const struct ori_compared *c)
{
	struct ori_channel *state = ori_exchange_state(x);
	int err = c->err ? c->err : ORIEL_EMISMATCH;

	if (c->bad < 0)
		return 0;
	if (!state->refused) {
		state->first = c->first;
		state->other = c->other;
		state->refused = ORIEL_FAILURE(err, c->bad);
	}
	return err;
}

/* Called by the leader: do all ranks make the same call? */
ORIEL_DEV_OUT int ori_exchange_compare(const struct ori_exchange *x)
{
	struct ori_compared c;
	struct ori_terms call;
	int r;

	c.err = 0;
	for (r = 0; r < x->team->win.comm.nranks && !c.err; r++) {
		call = ori_exchange_call(x, r);
		ori_compared_add(&c, r, &call);
	}
	return ori_compared_end(x, &c);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/*
 * Called by the whole group: begins a call.  A rank with bad arguments begins it too, with their
 * status in call.refused, so that the other ranks learn of it.
 */
ORIEL_DEV int ori_exchange_begin(struct ori_exchange *x, const struct oriel_team_dev *team,
				 struct oriel_group g, uint32_t channel,
				 const struct ori_terms *call)
{
	uint64_t rounds = 0;
	int err = 0;

	x->team = team;
	x->g = g;
	x->call = *call;
	x->channel = channel;
	x->first = 1;
	x->round = 0;
	x->base = channel * team->channel_bytes;
	/* no channel, so the other ranks cannot be told */
	if (channel >= team->channels)
		return ORIEL_ERANGE;
	if (oriel_group_is_leader(g)) {
		err = ori_failed(&team->win.comm, team->win.failure);
		rounds = ori_exchange_state(x)->rounds;
		/* The rank that failed may not reach a rank that waits for this one. */
		if (err)
			(void)ori_exchange_give_up(x, err, team->win.comm.rank);
	}
	err = ori_group_agree_value(g, err, &rounds);
	x->round = rounds;
	return err;
}

/* Called by the whole group: the round is over on this rank. */
ORIEL_DEV void ori_exchange_end(struct ori_exchange *x)
{
	ori_places_end(x->team, x->g, x->base, x->round);
	x->round++;
	if (oriel_group_is_leader(x->g))
		ori_exchange_state(x)->rounds = x->round;
}

/*
 * Called by the whole group after it filled the slot: shows it to all ranks, and waits until all
 * have shown theirs.  The first round of a call also compares the calls.
 *
 * sizes: not NULL if rank r's piece ends with its message of sizes[r] bytes, of which `shown` were
 * shown in earlier rounds.
 */
ORIEL_DEV int ori_exchange_meet_sized(struct ori_exchange *x, struct ori_parts parts,
				      const uint64_t *sizes, uint64_t shown)
{
	int err;

	if (x->first && oriel_group_is_leader(x->g))
		memcpy(x->team->win.buffer + ori_exchange_slot_off(x, x->round), &x->call,
		       sizeof(x->call));
	err = ori_agree_window(&x->team->win, x->g);
	if (err && oriel_group_is_leader(x->g))
		(void)ori_exchange_give_up(x, err, x->team->win.comm.rank); /* as in begin */
	if (err)
		return err;
	if (x->g.thread < ori_group_lanes(x->g)) {
		err = ori_exchange_show(x, &parts, sizes, shown);
		if (!err)
			err = ori_exchange_await(x);
	}
	err = ori_group_agree_any(x->g, err);
	if (err)
		return err;
	ori_exchange_end(x);
	if (x->first && oriel_group_is_leader(x->g))
		err = ori_exchange_compare(x);
	if (x->first)
		err = ori_group_agree(x->g, err);
	x->first = 0;
	return err;
}

/* The same with whole pieces. */
ORIEL_DEV int ori_exchange_meet(struct ori_exchange *x, struct ori_parts parts)
{
	return ori_exchange_meet_sized(x, parts, NULL, 0);
}

#endif
