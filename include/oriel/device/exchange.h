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
 * Edges: data is published by signals, [SIG1] or [ROUND1], and found by [SIG2] of mapped.h.
 */
#ifndef ORIEL_DEVICE_EXCHANGE_H
#define ORIEL_DEVICE_EXCHANGE_H

#include "exchange_terms.h"

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

/*
 * Functions that are not inlined get a copy of the call.  A pointer to the caller's own would force
 * that into memory, and on a GPU every acquire drops the cache that such memory is in.
 */

ORIEL_DEV_OUT int ori_exchange_give_up_out(const struct ori_exchange *x, int err, int late)
{
	const struct oriel_window_dev *win = &x->team->win;
	uint64_t failure = ORIEL_FAILURE_LATE(err, late, win->comm.rank);
	int p;

	/* Several lanes may store this, all the same. */
	ori_store_relaxed_sys(&ori_exchange_state(x)->rounds, x->round | ORI_ROUNDS_FAILED);
	if (err != ORIEL_ETIMEDOUT)
		return err; /* window or comm have failed: all ranks know */
	/* acq_rel without a partner: no other data depends on a failure word */
	(void)ori_compare_swap_acq_rel_sys(win->failure, 0, failure);
	for (p = 0; p < win->comm.nranks; p++)
		if (p != win->comm.rank)
			(void)ori_fail_window(win, err, p);
	return err;
}

/* Called by one thread when a round cannot end: no rank may wait for this one any longer. */
ORIEL_DEV int ori_exchange_give_up(const struct ori_exchange *x, int err, int late)
{
	struct ori_exchange copy = *x;

	return ORI_RARE(ori_exchange_give_up_out)(&copy, err, late);
}

ORIEL_DEV_OUT int ori_exchange_complete_out(const struct ori_exchange *x)
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
			(void)ori_exchange_give_up_out(x, err, p);
	}
	return err;
}

/* Called by the leader: waits until the puts of two rounds ago have left their source. */
ORIEL_DEV int ori_exchange_complete(const struct ori_exchange *x)
{
	struct ori_exchange copy = *x;

	return ORI_RARE(ori_exchange_complete_out)(&copy);
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

/* With sizes NULL: queued peers get only their shares of the common part, see ori_nodes_share(). */
#define ORI_IN_SHARES 1u

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
	uint64_t piece = at < parts->pieces ? parts->pieces - at : 0, common = parts->common;
	uint64_t common_off = parts->common_off;
	struct ori_share share;
	int err = 0;

	if (piece > parts->piece)
		piece = parts->piece;
	if (!sizes && shown == ORI_IN_SHARES) {
		share = ori_nodes_share(ori_team_places(t)[peer], common);
		common_off += share.begin;
		common = share.bytes;
	}
	if (!ori_part_has(x, peer))
		piece = common = 0;
	if (sizes && sizes[peer] < shown + piece)
		piece = sizes[peer] > shown ? sizes[peer] - shown : 0;
	if (x->first)
		err = oriel_put_value(win, one, peer, to, &x->call, sizeof(x->call));
	to += sizeof(struct ori_show);
	if (!err && piece)
		err = oriel_put(win, one, peer, to, &t->source, data + at, piece);
	if (!err && common)
		err = oriel_put(win, one, peer, to + parts->piece, &t->source, data + common_off,
				common);
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

/*
 * Called by the group after it filled the slot, if all ranks are mapped and each has its own lane:
 * shows the slot and waits for all, as ori_barrier_lanes() does.  The loads of entry and failure
 * words run while the group meets.
 */
ORIEL_DEV int ori_exchange_lanes(const struct ori_exchange *x)
{
	const struct oriel_window_dev *win = &x->team->win;
	int peer = (int)x->g.thread, n = win->comm.nranks, err;
	uint64_t *there = NULL, want = win->first_count + x->round + 1;
	struct ori_failures look = { 0, 0 };
	struct oriel_waiters *waiters = NULL;
	struct ori_spin s;

	if (peer < n) {
		const struct oriel_window_peer *p = ORIEL_ON_GPU ? &win->peers[peer] :
								   ori_peer_entry(win, peer);

		look = ori_failures_of_window(win);
		there = p->signals + x->channel;
		waiters = p->waiters;
	}
	err = oriel_group_sync(x->g);
	if (peer < n) {
		/* The first half of [ROUND1]; the second one is the store below. */
		ori_release_begin();
		ori_release_hold(x->g, n);
		if (err || ori_failures_any(look)) {
			err = err ? err : ori_failures_status(look);
			(void)ori_exchange_give_up(x, err, win->comm.rank); /* as in begin */
		} else if (peer != win->comm.rank) {
			/*
			 * [ROUND1] release, system scope; partner [SIG2] in ori_word_wait_count().
			 * Publishes what the group wrote into its slot.  Without it the peer reads
			 * the data of an older round.
			 */
			ori_release_store(there, want);
			ori_wake(waiters);
			ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_SIGNAL, peer,
				       (int)x->channel, ori_exchange_name(x), want);
			ori_spin_within(&s, x->g);
			err = ori_word_wait_count(&s, &win->signal_words
							       [ori_signal_index(win, peer,
										 (int)x->channel)]);
			ori_spin_end(&s);
			if (err)
				(void)ori_exchange_give_up(x, err, peer);
		}
	}
	return ori_group_agree_any(x->g, err);
}

/* The same in any team. */
ORIEL_DEV_OUT int ori_exchange_any(const struct ori_exchange *x, const struct ori_parts *parts,
				   const uint64_t *sizes, uint64_t shown)
{
	int err = ori_agree_window(&x->team->win, x->g);

	if (err && oriel_group_is_leader(x->g))
		(void)ori_exchange_give_up(x, err, x->team->win.comm.rank); /* as in begin */
	if (err)
		return err;
	if (x->g.thread < ori_group_lanes(x->g)) {
		err = ori_exchange_show(x, parts, sizes, shown);
		if (!err)
			err = ori_exchange_await(x);
	}
	return ori_group_agree_any(x->g, err);
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
	x->part = 0;
	x->parts = 1;
	x->round = 0;
	x->base = channel * team->channel_bytes;
	/* no channel, so the other ranks cannot be told */
	if (channel >= team->channels)
		return ORIEL_ERANGE;
	if (oriel_group_is_leader(g)) {
		err = ori_failed(&team->win.comm, team->win.failure);
		rounds = ori_exchange_state(x)->rounds & ~ORI_ROUNDS_FAILED;
		x->round = rounds;
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
	if (ori_round_clears(x->team, x->round))
		ori_places_clear(x->team, x->g, x->base, x->round, ori_part_first(x), x->parts);
	x->round++;
	if (oriel_group_is_leader(x->g))
		ori_exchange_state(x)->rounds = x->round;
}

/*
 * Called by the whole group after it filled the slot: shows it to all ranks, and waits until all
 * have shown theirs.  The first round of a call also compares the calls.
 *
 * sizes: not NULL if rank r's piece ends with its message of sizes[r] bytes, of which `shown` were
 * shown in earlier rounds.  Without sizes, `shown` is 0 or ORI_IN_SHARES.
 */
ORIEL_DEV int ori_exchange_meet_sized(struct ori_exchange *x, struct ori_parts parts,
				      const uint64_t *sizes, uint64_t shown)
{
	const struct oriel_window_dev *win = &x->team->win;
	struct ori_exchange copy;
	struct ori_parts whole;
	int err;

	if (x->first && oriel_group_is_leader(x->g)) {
		copy = *x;
		memcpy(win->buffer + ori_exchange_slot_off(x, x->round), &copy.call,
		       sizeof(copy.call));
	}
	if (!win->queued_peers && win->comm.nranks <= (int)ori_group_lanes(x->g)) {
		err = ori_exchange_lanes(x);
	} else {
		copy = *x;
		whole = parts;
		err = ori_exchange_any(&copy, &whole, sizes, shown);
	}
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
