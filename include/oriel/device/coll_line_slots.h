/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_line_slots.h - long calls of a line between mapped ranks: see coll_line.h.
 *
 * Two ways.  In the first one a rank copies its blocks into its own slot of the channel and shows
 * it; its peers copy from there.  A slot is filled again two rounds later: see exchange.h.  This
 * holds for each pair of ranks, so a line with several parts meets only the ranks of its part.
 *
 * In the second one the ranks receive in a window (oriel_coll_into).  A call has two rounds.  With
 * the first one a rank says that its place may be written.  Then data goes straight there, and the
 * second round says that it has come.
 *
 * These rounds have no data of queued peers, and compare nothing.  So they are short, and what they
 * hardly ever need is called, not inlined: see exchange.h for the general way.
 */
#ifndef ORIEL_DEVICE_COLL_LINE_SLOTS_H
#define ORIEL_DEVICE_COLL_LINE_SLOTS_H

#include "coll_line_share.h"

/* ---- the meeting of a round ------------------------------------------------------------------ */

/*
 * Called by the group if something is unusual: a peer is late, or the window has failed.  What was
 * shown before is shown again.
 */
ORIEL_DEV_OUT int ori_line_meet_out(const struct ori_exchange *x)
{
	const struct oriel_window_dev *win = &x->team->win;
	uint32_t ranks = ori_part_ranks(x), lanes = ori_group_lanes(x->g), i;
	int err = ori_agree_window(win, x->g), peer;

	if (err && oriel_group_is_leader(x->g))
		(void)ori_exchange_give_up_out(x, err, win->comm.rank); /* as in exchange.h */
	if (err)
		return err;
	for (i = x->g.thread; i < ranks && x->g.thread < lanes; i += lanes) {
		peer = ori_part_rank(x, i);
		if (peer != win->comm.rank)
			/* [SIG1] inside; partner [SIG2] in ori_exchange_wait() */
			(void)ori_signal_peer(win, x->g, peer, (int)x->channel, ORIEL_SET,
					      x->round + 1);
	}
	for (i = x->g.thread; i < ranks && x->g.thread < lanes && !err; i += lanes) {
		peer = ori_part_rank(x, i);
		if (peer != win->comm.rank)
			err = ori_exchange_wait(x, peer);
		if (err)
			(void)ori_exchange_give_up_out(x, err, peer);
	}
	return ori_group_agree_any(x->g, err);
}

/*
 * Called by the group, which has a lane for every rank of its part: shows them what it has written,
 * and polls until they have shown the same.  Returns 0, or that something is unusual; then
 * ori_line_meet_out() follows.  The lanes find out addresses and load the failure words before the
 * group meets: every instruction after the fence delays all ranks.
 */
ORIEL_DEV int ori_line_meet(const struct oriel_coll_line *l, struct oriel_group g)
{
	const struct oriel_window_dev *win = &l->x.team->win;
	uint32_t ranks = ori_part_ranks(&l->x), polls = ORI_WORDS_POLLS;
	uint64_t want = win->first_count + l->x.round + 1, *there = NULL;
	struct ori_failures look = { 0, 0 };
	struct oriel_waiters *waiters = NULL;
	const uint64_t *here = NULL;
	int odd, late = 0;

	if (g.thread < ranks) {
		int peer = ori_part_rank(&l->x, g.thread);
		struct oriel_window_peer p = ori_window_entry(win, peer);

		look = ori_failures_of_window(win);
		if (peer != win->comm.rank)
			there = p.signals + l->x.channel;
		waiters = p.waiters;
		here = &win->signal_words[ori_signal_index(win, peer, (int)l->x.channel)];
	}
	odd = oriel_group_sync(g);
	if (g.thread < ranks) {
		/* The first half of [ROUND2]; the second one is the store below. */
		ori_release_begin();
		ori_release_hold(g, (int)ranks);
		odd |= ori_failures_any(look);
		if (!odd && there) {
			/*
			 * [ROUND2] release, system scope; partner [SIG2] below.  Publishes what the
			 * group wrote into its slot or into the peer's window.  Without it the peer
			 * reads the data of an older round.
			 */
			ori_release_store(there, want);
			ori_wake(waiters);
			ORI_ROLLED
			do
				late = !ori_reached(ori_poll_sys(here), want);
			while (late && --polls);
		}
		/* [SIG2] acquire, system scope, with the polls; partner [ROUND2]. */
		ori_poll_end();
	}
	return ori_group_any(g, odd | late);
}

/* ---- the usual calls: whole chunks of 16 bytes ----------------------------------------------- */

/* Offset of this round's data in every rank's window. */
ORIEL_DEV uint64_t ori_line_slot_off(const struct oriel_coll_line *l, uint64_t round)
{
	return ori_exchange_slot_off(&l->x, round) + sizeof(struct ori_show);
}

/* The most bytes of a block in one round. */
ORIEL_DEV uint64_t ori_line_piece(const struct oriel_coll_line *l)
{
	uint32_t units = (uint32_t)(l->x.team->slot_bytes / 64u);

	if (l->x.call.kind == ORI_COLL_ALLTOALL)
		units /= ori_line_ranks(l);
	return (uint64_t)units * 64u;
}

/* Where rank r's piece is among those of a part. */
ORIEL_DEV uint32_t ori_line_index(const struct oriel_coll_line *l, int r)
{
	return l->x.call.kind == ORI_COLL_ALLTOALL ? (uint32_t)r / (uint32_t)l->x.parts : 0;
}

/* The threads that move the data of one rank. */
ORIEL_DEV struct oriel_group ori_line_movers(const struct oriel_coll_line *l, struct oriel_group g)
{
	g.thread &= l->lanes - 1;
	g.size = l->lanes;
	return g;
}

/* A call has fewer rounds.  None of them may clear places: see team_cells.h. */
#define ORI_LINE_ROUNDS (1u << 16)

/* Called when the line is open: what does this thread move? */
ORIEL_DEV void ori_line_share_slots(struct oriel_coll_line *l, struct oriel_group g)
{
	const struct oriel_window_dev *win = &l->x.team->win;
	uint64_t piece = ori_line_piece(l), slot = ori_line_slot_off(l, 0);
	int peer, me = win->comm.rank;
	uint32_t step;

	if (l->bytes % 16u || g.scope != ORIEL_GROUP_BLOCK ||
	    ori_line_ranks(l) > ori_group_lanes(g) || l->bytes / piece >= ORI_LINE_ROUNDS - 1)
		return;
	l->units = (uint32_t)(piece / 64u);
	if (l->how.type) {
		if (ORIEL_ON_GPU && win->comm.nranks <= ORI_WORD_SOURCES)
			l->way = ORI_LINE_SLOTS;
		return;
	}
	l->lanes = ori_words_lanes(ori_line_ranks(l), g.size);
	/* On a CPU the threads of a group copy together, so they have one rank. */
	if (ORIEL_ON_GPU ? l->lanes < 32u : l->lanes != g.size || ori_line_ranks(l) > 1)
		return;
	l->way = ORI_LINE_SLOTS;
	step = g.thread >> ori_high_bit(l->lanes);
	l->words = step < ori_part_ranks(&l->x);
	if (!l->words)
		return;
	peer = ori_part_rank(&l->x, step);
	l->out = win->buffer + slot + piece * ori_line_index(l, peer);
	l->in = ori_window_entry(win, peer).buffer + slot + piece * ori_line_index(l, me);
	l->to = l->bytes * (uint32_t)peer;
	l->from = l->x.call.kind == ORI_COLL_ALLTOALL ? l->to : 0;
}

ORIEL_DEV void ori_line_copy(struct oriel_group g, uint8_t *to, const uint8_t *from, uint64_t n)
{
#if ORIEL_ON_GPU
	ori_copy_chunks(g, to, from, n / 16u);
#else
	ori_group_copy(g, to, from, n);
#endif
}

/* One round of an all-to-all or an all-gather: n bytes of each block. */
ORIEL_DEV int ori_line_swap(struct oriel_coll_line *l, struct oriel_group g, const uint8_t *send,
			    uint8_t *recv, uint64_t n)
{
	uint64_t half = (uint32_t)l->x.round & 1u ?
				sizeof(struct ori_show) + l->x.team->slot_bytes :
				0;
	struct oriel_group movers = ori_line_movers(l, g);
	int all = l->x.call.kind == ORI_COLL_ALLGATHER;

	if (all)
		ori_line_copy(g, l->x.team->win.buffer + ori_line_slot_off(l, l->x.round), send, n);
	else if (l->words)
		ori_line_copy(movers, l->out + half, send + l->from, n);
	if (ori_line_meet(l, g))
		return ORI_LINE_HELP;
	if (l->words)
		ori_line_copy(movers, recv + l->to, l->in + half, n);
	ori_line_end(l, g);
	return oriel_group_sync(g);
}

/* Two words of 8 bytes, at a multiple of 16. */
ORIEL_DEV void ori_pair_load(const uint8_t *from, uint64_t *low, uint64_t *high)
{
#if ORIEL_ON_GPU
	asm volatile("ld.global.v2.u64 {%0, %1}, [%2];" : "=l"(*low), "=l"(*high) : "l"(from));
#else
	memcpy(low, from, 8);
	memcpy(high, from + 8, 8);
#endif
}

ORIEL_DEV void ori_pair_store(uint8_t *to, uint64_t low, uint64_t high)
{
#if ORIEL_ON_GPU
	asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(low), "l"(high) : "memory");
#else
	memcpy(to, &low, 8);
	memcpy(to + 8, &high, 8);
#endif
}

/* One round of an all-reduce: every rank shows n bytes, and combines those of all ranks. */
ORIEL_DEV int ori_line_pull(struct oriel_coll_line *l, struct oriel_group g, const uint8_t *send,
			    uint8_t *recv, uint64_t n)
{
	const struct oriel_window_dev *win = &l->x.team->win;
	uint64_t slot = ori_line_slot_off(l, l->x.round), i;
	struct ori_row low = { { 0 } }, high = { { 0 } };
	int r;

	ori_line_copy(g, win->buffer + slot, send, n);
	if (ori_line_meet(l, g))
		return ORI_LINE_HELP;
	for (i = 16u * g.thread; i < n; i += 16u * g.size) {
		ORI_UNROLL
		for (r = 0; r < ORI_WORD_SOURCES; r++)
			if (r < win->comm.nranks)
				ori_pair_load(ori_window_entry(win, r).buffer + slot + i,
					      &low.word[r], &high.word[r]);
		ori_pair_store(recv + i, ori_reducer_word(l->how, low, win->comm.nranks),
			       ori_reducer_word(l->how, high, win->comm.nranks));
	}
	ori_line_end(l, g);
	return oriel_group_sync(g);
}

/* Straight into the window.  *step: where the call is, if it needs help. */
ORIEL_DEV int ori_line_push(struct oriel_coll_line *l, struct oriel_group g, const uint8_t *send,
			    uint64_t *step)
{
	/* first: places may be written; then: data has come */
	ORI_ROLLED
	for (*step = 0; *step < 2; *step += 1) {
		if (ori_line_meet(l, g))
			return ORI_LINE_HELP;
		ori_line_end(l, g);
		if (l->words && !*step && l->out != send + l->from)
			ori_line_copy(ori_line_movers(l, g), l->out, send + l->from, l->bytes);
	}
	return 0;
}

ORIEL_DEV int ori_line_is_usual(const struct oriel_coll_line *l, const uint8_t *send,
				const uint8_t *recv)
{
	uint32_t next = (uint32_t)(l->x.round + l->x.team->first_round) & ORI_ROUND_CLEAR;

	return !(((uintptr_t)send | (uintptr_t)recv) & 15u) &&
	       (!l->x.team->cell_bytes || (next > 1 && next < ORI_ROUND_CLEAR - ORI_LINE_ROUNDS));
}

/* Called by the group.  *at: where the call is, if it needs help. */
ORIEL_DEV int ori_line_slots(struct oriel_coll_line *l, struct oriel_group g, const uint8_t *send,
			     uint8_t *recv, uint64_t *at)
{
	uint64_t most = (uint64_t)l->units * 64u, n;
	int err = 0;

	if (l->way == ORI_LINE_PUSH)
		return ori_line_push(l, g, send, at);
	for (*at = 0; *at < l->bytes && !err; *at += err ? 0 : n) {
		n = ori_coll_least(l->bytes - *at, most);
		if (l->how.type)
			err = ori_line_pull(l, g, send + *at, recv + *at, n);
		else
			err = ori_line_swap(l, g, send + *at, recv + *at, n);
	}
	return err;
}

/* ---- the same for any group, address and length ---------------------------------------------- */

ORIEL_DEV void ori_line_end_any(struct oriel_coll_line *l, struct oriel_group g)
{
	if (ori_round_clears(l->x.team, l->x.round))
		ori_places_clear(l->x.team, g, l->x.base, l->x.round, ori_part_first(&l->x),
				 l->x.parts);
	ori_line_end(l, g);
}

/* `shown`: the data is in the slot already. */
ORIEL_DEV int ori_line_swap_any(struct oriel_coll_line *l, struct oriel_group g,
				const uint8_t *send, uint8_t *recv, uint64_t n, int shown)
{
	int ranks = (int)ori_part_ranks(&l->x), all = l->x.call.kind == ORI_COLL_ALLGATHER, i, r;
	uint64_t slot = ori_line_slot_off(l, l->x.round), piece = ori_line_piece(l);
	const struct oriel_window_dev *win = &l->x.team->win;
	struct ori_coll_part p = ori_coll_part(g, ranks);
	const uint8_t *mine;
	int err;

	if (all && !shown)
		ori_group_copy(g, win->buffer + slot, send, n);
	for (i = p.first; i < ranks && !all && !shown; i += p.step) {
		r = ori_coll_rank(&l->x, i);
		ori_group_copy(p.g, win->buffer + slot + ori_line_index(l, r) * piece,
			       send + (uint64_t)(uint32_t)r * l->bytes, n);
	}
	err = ori_line_meet_out(&l->x);
	if (err)
		return err;
	for (i = p.first; i < ranks; i += p.step) {
		r = ori_coll_rank(&l->x, i);
		mine = ori_window_entry(win, r).buffer + slot;
		ori_group_copy(p.g, recv + (uint64_t)(uint32_t)r * l->bytes,
			       mine + ori_line_index(l, win->comm.rank) * piece, n);
	}
	ori_line_end_any(l, g);
	return oriel_group_sync(g);
}

ORIEL_DEV int ori_line_pull_any(struct oriel_coll_line *l, struct oriel_group g,
				const uint8_t *send, uint8_t *recv, uint64_t n, int shown)
{
	struct ori_sources from;
	int err;

	if (!shown)
		ori_group_copy(g, l->x.team->win.buffer + ori_line_slot_off(l, l->x.round), send,
			       n);
	err = ori_line_meet_out(&l->x);
	if (err)
		return err;
	from = ori_exchange_sources(&l->x, l->x.round, 0, 0);
	ori_reducer_run(l->how, g, recv, &from, ori_coll_elements(l->how, n));
	ori_line_end_any(l, g);
	return oriel_group_sync(g);
}

ORIEL_DEV int ori_line_push_any(struct oriel_coll_line *l, struct oriel_group g,
				const uint8_t *send, uint64_t step)
{
	int ranks = (int)ori_part_ranks(&l->x), all = l->x.call.kind == ORI_COLL_ALLGATHER, i, r;
	uint64_t to = l->into_off + (uint64_t)(uint32_t)l->x.team->win.comm.rank * l->bytes;
	struct ori_coll_part p = ori_coll_part(g, ranks);
	const uint8_t *from;
	uint8_t *at;
	int err;

	for (; step < 2; step++) {
		err = ori_line_meet_out(&l->x);
		if (err)
			return err;
		ori_line_end_any(l, g);
		for (i = p.first; i < ranks && !step; i += p.step) {
			r = ori_coll_rank(&l->x, i);
			at = ori_window_entry(l->into, r).buffer + to;
			from = send + (all ? 0 : (uint64_t)(uint32_t)r * l->bytes);
			if (at != from)
				ori_group_copy(p.g, at, from, l->bytes);
		}
	}
	return 0;
}

/* Do the calls of a line take the ways of this file?  All ranks come to the same result. */
ORIEL_DEV int ori_line_is_long(const struct oriel_coll_line *l)
{
	const struct oriel_team_dev *t = l->x.team;

	if (!l->bytes || t->row_bytes ||
	    ori_coll_is_short(t, &l->x.call, l->bytes, ori_line_cells(l)))
		return 0;
	/*
	 * Every rank reads all elements of all ranks.  On an H200 with 8 ranks that is faster than
	 * two rounds up to 64 KiB; with two ranks both ways move as much: see coll_long.h.
	 */
	return !l->x.call.type || t->win.comm.nranks <= 2 ||
	       l->bytes <= (ORIEL_ON_GPU ? 8u : 1u) * (uint64_t)t->once_bytes;
}

/* The whole call, or what is left of it from `at` on: its data is shown, but not all ranks came. */
ORIEL_DEV_OUT int ori_line_slots_any(struct oriel_coll_line *l, ORI_VALUE(oriel_group) g,
				     const uint8_t *send, uint8_t *recv, uint64_t at, int shown)
{
	uint64_t most = ori_line_piece(l), n;
	int err = 0;

	if (l->into)
		return ori_line_push_any(l, g, send, at);
	for (; at < l->bytes && !err; at += n, shown = 0) {
		n = ori_coll_least(l->bytes - at, most);
		if (l->how.type)
			err = ori_line_pull_any(l, g, send + at, recv + at, n, shown);
		else
			err = ori_line_swap_any(l, g, send + at, recv + at, n, shown);
	}
	return err;
}

#endif
