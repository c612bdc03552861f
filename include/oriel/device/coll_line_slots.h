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

/* Called by one lane that has looked in vain: waits until `peer` has come to this round. */
ORIEL_DEV_OUT int ori_line_await_out(const struct ori_exchange *x, int peer)
{
	int err = ori_exchange_wait(x, peer);

	return err ? ori_exchange_give_up_out(x, err, peer) : 0;
}

ORIEL_DEV int ori_line_await(const struct oriel_coll_line *l, struct oriel_group g, int peer)
{
	const struct oriel_window_dev *win = &l->x.team->win;
	uint64_t want = win->first_count + l->x.round + 1;
	const uint64_t *word = &win->signal_words[ori_signal_index(win, peer, (int)l->x.channel)];
	struct ori_exchange copy;
	uint32_t polls;

	ORI_ROLLED
	for (polls = ORI_SPIN_POLLS; polls && !ori_reached(ori_poll_sys(word), want);)
		polls--;
	/* [SIG2] acquire, system scope, with the polls; partner [ROUND2]. */
	ori_poll_end();
	if (polls)
		return 0;
	copy = l->x;
	copy.g = g;
	return ORI_RARE(ori_line_await_out)(&copy, peer);
}

/* Called by one lane when the group must not go on: no rank may wait for this one any longer. */
ORIEL_DEV int ori_line_give_up(const struct oriel_coll_line *l, struct oriel_group g, int err)
{
	struct ori_exchange copy = l->x;

	copy.g = g;
	return ori_exchange_give_up(&copy, err, l->x.team->win.comm.rank);
}

/*
 * Called by the group: shows to the ranks of its part what it has written, and waits until they
 * have shown the same.  The loads of the failure words run while the group meets.
 */
ORIEL_DEV int ori_line_meet(struct oriel_coll_line *l, struct oriel_group g)
{
	const struct oriel_window_dev *win = &l->x.team->win;
	uint32_t ranks = ori_part_ranks(&l->x), lanes = ori_group_lanes(g), i;
	uint64_t want = win->first_count + l->x.round + 1;
	struct ori_failures look = { 0, 0 };
	int err, peer;

	if (lanes > ranks)
		lanes = ranks;
	if (g.thread < lanes)
		look = ori_failures_of_window(win);
	err = oriel_group_sync(g);
	if (g.thread < lanes) {
		/* The first half of [ROUND2]; the second one is the store below. */
		ori_release_begin();
		ori_release_hold(g, (int)lanes);
		if (err || ori_failures_any(look))
			err = ori_line_give_up(l, g, err ? err : ori_failures_status(look));
		for (i = g.thread; i < ranks && !err; i += lanes) {
			struct oriel_window_peer p;

			peer = ori_part_rank(&l->x, i);
			p = ori_window_entry(win, peer);
			if (peer == win->comm.rank)
				continue;
			/*
			 * [ROUND2] release, system scope; partner [SIG2] in ori_line_await().
			 * Publishes what the group wrote into its slot or into the peer's window.
			 * Without it the peer reads the data of an older round.
			 */
			ori_release_store(p.signals + l->x.channel, want);
			ori_wake(p.waiters);
		}
		for (i = g.thread; i < ranks && !err; i += lanes) {
			peer = ori_part_rank(&l->x, i);
			if (peer != win->comm.rank)
				err = ori_line_await(l, g, peer);
		}
	}
	return ori_group_agree_any(g, err);
}

/* Called by the group after ori_line_meet(), and after it has read what was shown. */
ORIEL_DEV void ori_line_met(struct oriel_coll_line *l, struct oriel_group g)
{
	if (ori_round_clears(l->x.team, l->x.round))
		ORI_RARE(ori_places_clear)
		(l->x.team, g, l->x.base, l->x.round, ori_part_first(&l->x), l->x.parts);
	ori_line_end(l, g);
}

/* ---- through slots --------------------------------------------------------------------------- */

/* Where rank r's piece is among those of a part. */
ORIEL_DEV uint32_t ori_line_index(const struct oriel_coll_line *l, int r)
{
	return (uint32_t)r / (uint32_t)l->x.parts;
}

/* The most bytes of a block in one round. */
ORIEL_DEV uint64_t ori_line_piece(const struct oriel_coll_line *l)
{
	uint32_t ranks = (uint32_t)l->x.team->win.comm.nranks, parts = (uint32_t)l->x.parts;
	uint32_t units = (uint32_t)(l->x.team->slot_bytes / 64u);

	if (l->x.call.kind == ORI_COLL_ALLTOALL)
		units /= (ranks + parts - 1) / parts;
	return (uint64_t)units * 64u;
}

/* One round of an all-to-all or an all-gather: n bytes of each block. */
ORIEL_DEV int ori_line_swap(struct oriel_coll_line *l, struct oriel_group g, const uint8_t *send,
			    uint8_t *recv, uint64_t n)
{
	int ranks = (int)ori_part_ranks(&l->x), all = l->x.call.kind != ORI_COLL_ALLTOALL;
	uint64_t slot = ori_exchange_slot_off(&l->x, l->x.round) + sizeof(struct ori_show), mine;
	int me = l->x.team->win.comm.rank, i, r, err;
	struct ori_coll_part p = ori_coll_part(g, ranks);
	uint64_t piece = all ? 0 : ori_line_piece(l);
	const uint8_t *from;

	if (all)
		ori_coll_copy(g, l->x.team->win.buffer + slot, send, n);
	for (i = p.first; i < ranks && !all; i += p.step) {
		r = ori_coll_rank(&l->x, i);
		if (r != me)
			ori_coll_copy(p.g,
				      l->x.team->win.buffer + slot + ori_line_index(l, r) * piece,
				      send + (uint64_t)(uint32_t)r * l->bytes, n);
	}
	err = ori_line_meet(l, g);
	if (err)
		return err;
	mine = all ? 0 : (uint64_t)(uint32_t)me * l->bytes;
	for (i = p.first; i < ranks; i += p.step) {
		r = ori_coll_rank(&l->x, i);
		from = r == me ? send + mine :
				 ori_window_entry(&l->x.team->win, r).buffer + slot +
					 ori_line_index(l, me) * piece;
		if (recv + (uint64_t)(uint32_t)r * l->bytes != from)
			ori_coll_copy(p.g, recv + (uint64_t)(uint32_t)r * l->bytes, from, n);
	}
	ori_line_met(l, g);
	return oriel_group_sync(g); /* the next one is the first meeting of the next round */
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

/* The combining of a round, for any addresses and lengths. */
ORIEL_DEV_OUT int ori_line_combine(const struct ori_exchange *x, ORI_VALUE(ori_reducer) how,
				   uint8_t *recv, uint64_t n)
{
	struct ori_sources from = ori_exchange_sources(x, x->round, 0, 0);

	ori_reducer_run(how, x->g, recv, &from, ori_coll_elements(how, n));
	return 0;
}

/* One round of an all-reduce: every rank shows n bytes, and combines those of all ranks. */
ORIEL_DEV int ori_line_pull(struct oriel_coll_line *l, struct oriel_group g, const uint8_t *send,
			    uint8_t *recv, uint64_t n)
{
	uint64_t slot = ori_exchange_slot_off(&l->x, l->x.round) + sizeof(struct ori_show), i;
	const struct oriel_window_dev *win = &l->x.team->win;
	int ranks = win->comm.nranks, r, err;
	struct ori_row low = { { 0 } }, high = { { 0 } };
	struct ori_exchange copy;

	ori_coll_copy(g, win->buffer + slot, send, n);
	err = ori_line_meet(l, g);
	if (err)
		return err;
	if (!ORIEL_ON_GPU || ranks > ORI_WORD_SOURCES || ((uintptr_t)recv | n) & 15u) {
		copy = l->x;
		copy.g = g;
		(void)ORI_RARE(ori_line_combine)(&copy, l->how, recv, n);
	} else {
		for (i = 16u * g.thread; i < n; i += 16u * g.size) {
			ORI_UNROLL
			for (r = 0; r < ORI_WORD_SOURCES; r++)
				if (r < ranks)
					ori_pair_load(win->inline_peers[r].buffer + slot + i,
						      &low.word[r], &high.word[r]);
			ori_pair_store(recv + i, ori_reducer_word(l->how, low, ranks),
				       ori_reducer_word(l->how, high, ranks));
		}
	}
	ori_line_met(l, g);
	return oriel_group_sync(g);
}

/* ---- straight into a window ------------------------------------------------------------------ */

ORIEL_DEV int ori_line_push(struct oriel_coll_line *l, struct oriel_group g, const uint8_t *send)
{
	int ranks = (int)ori_part_ranks(&l->x), all = l->x.call.kind != ORI_COLL_ALLTOALL, i, r;
	uint64_t to = l->into_off + (uint64_t)(uint32_t)l->x.team->win.comm.rank * l->bytes;
	struct ori_coll_part p = ori_coll_part(g, ranks);
	int err = ori_line_meet(l, g); /* places may be written */
	const uint8_t *from;
	uint8_t *at;

	if (err)
		return err;
	ori_line_met(l, g);
	for (i = p.first; i < ranks; i += p.step) {
		r = ori_coll_rank(&l->x, i);
		at = ori_window_entry(l->into, r).buffer + to;
		from = send + (all ? 0 : (uint64_t)(uint32_t)r * l->bytes);
		if (at != from)
			ori_coll_copy(p.g, at, from, l->bytes);
	}
	err = ori_line_meet(l, g); /* they have come */
	if (!err)
		ori_line_met(l, g);
	return err;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Can a line use this file?  All ranks come to the same result. */
ORIEL_DEV int ori_line_is_mapped(const struct oriel_coll_line *l)
{
	const struct oriel_team_dev *t = l->x.team;

	if (t->row_bytes || ori_coll_is_short(t, &l->x.call, l->bytes, ori_line_cells(l)))
		return 0;
	/*
	 * Every rank reads all elements of all ranks.  On an H200 with 8 ranks that is faster than
	 * two rounds up to 64 KiB; with two ranks both ways move as much: see coll_long.h.
	 */
	return !l->x.call.type || t->win.comm.nranks <= 2 ||
	       l->bytes <= (ORIEL_ON_GPU ? 8u : 1u) * (uint64_t)t->once_bytes;
}

/* Called by the group. */
ORIEL_DEV int ori_line_long(struct oriel_coll_line *l, struct oriel_group g, const uint8_t *send,
			    uint8_t *recv)
{
	uint64_t most, at, n;
	int err;

	if (l->into)
		return ori_line_push(l, g, send);
	most = ori_line_piece(l);
	err = oriel_group_sync(g); /* any thread may have written the source */
	for (at = 0; at < l->bytes && !err; at += n) {
		n = ori_coll_least(l->bytes - at, most);
		if (l->how.type)
			err = ori_line_pull(l, g, send + at, recv + at, n);
		else
			err = ori_line_swap(l, g, send + at, recv + at, n);
	}
	return err;
}

#endif
