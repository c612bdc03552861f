/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/coll_direct.h - a long all-reduce of ranks that map each other.
 *
 * A rank combines its piece of the elements straight from the memory of all ranks, in their order,
 * and stores the result straight into the memory of all.  No other rank touches that piece.
 *
 * In the first round of the call each rank shows where its buffers are.  If all have them in the
 * same windows, these are the memory, and send and receive buffers may be the same.  A second round
 * says that all pieces are there.
 *
 * If not, the memory is the stage: two parts of the team's window.  Each rank copies its elements
 * to the first part, and takes the result from the second one.  Both are used again and again for
 * calls of more elements.  A rank fills the first part after a round in which all have finished
 * reading it.  It enters a round, after which the others fill its second part, after it has taken
 * the result.
 *
 * Included by coll.c.
 */
#ifndef ORI_KERNELS_COLL_DIRECT_H
#define ORI_KERNELS_COLL_DIRECT_H

#include <oriel/device/coll.h>

#include "coll.h"

static_assert(ORI_COLL_STAGE_RANKS <= ORI_WORD_SOURCES, "a thread loads of all ranks at once");

/* Addresses of all ranks' buffers, as this rank maps them. */
struct ori_coll_reach {
	uint8_t *send[ORI_WORD_SOURCES], *recv[ORI_WORD_SOURCES];
};

/* May the call go this way?  All ranks come to the same result. */
ORIEL_DEV int ori_coll_may_be_direct(const struct ori_coll_args *a)
{
	return a->call.kind == ORI_COLL_ALLREDUCE && !a->call.refused && a->stage_bytes;
}

/* Block 0 keeps the addresses for the others behind the places in its own slot. */
ORIEL_DEV struct ori_coll_reach *ori_coll_reach_kept(const struct ori_coll_args *a)
{
	uint64_t off = sizeof(struct ori_channel) + sizeof(struct ori_show) + 64u;

	return (struct ori_coll_reach *)(void *)(a->team.win.buffer + off);
}

/* Where rank r shows its buffers; after the round. */
ORIEL_DEV const struct ori_coll_places *ori_coll_places_of(const struct ori_exchange *x,
							   struct ori_parts parts, int r)
{
	struct ori_sources from = ori_exchange_commons(x, parts);

	return (const struct ori_coll_places *)(const void *)ori_source(&from, r);
}

/*
 * Called by block 0 in place of ori_coll_compare().  *way, the leader's: ORI_COLL_IS_DIRECT if all
 * ranks have shown the same windows, ORI_COLL_IS_FILLED if all have shown none.
 */
ORIEL_DEV int ori_coll_show_places(struct ori_exchange *x, const struct ori_coll_args *a,
				   uint64_t *way)
{
	struct ori_parts parts = ori_coll_parts(0, 0, 0, sizeof(a->places));
	struct ori_coll_reach *kept = ori_coll_reach_kept(a);
	const struct ori_coll_places *p;
	int r, err, nranks = a->team.win.comm.nranks;

	if (a->team.cell_bytes) { /* as in ori_coll_rounds() */
		ori_terms_send(x);
		ori_team_wake(&a->team);
	}
	if (oriel_group_is_leader(x->g))
		memcpy(ori_exchange_slot(x), &a->places, sizeof(a->places));
	err = ori_coll_meet(x, parts);
	if (err || !oriel_group_is_leader(x->g))
		return err;
	*way = a->places.send_window >= 0 ? ORI_COLL_IS_DIRECT : ORI_COLL_IS_FILLED;
	/* every rank has entered the round, so nobody reads the slot of the round before */
	for (r = 0; r < nranks && *way; r++) {
		p = ori_coll_places_of(x, parts, r);
		if (p->send_window != a->places.send_window ||
		    p->recv_window != a->places.recv_window)
			*way = 0;
		if (*way != ORI_COLL_IS_DIRECT)
			continue;
		kept->send[r] = a->send_peers[r].buffer + p->send_off;
		kept->recv[r] = a->recv_peers[r].buffer + p->recv_off;
	}
	return 0;
}

/* Called by all blocks after they met: combines this rank's piece of `all` units of 16 bytes. */
ORIEL_DEV void ori_coll_direct_move(const struct ori_coll_args *a, struct oriel_group g,
				    const struct ori_coll_reach *reach, struct ori_reducer how,
				    uint64_t all)
{
	uint64_t step = (uint64_t)g.nblocks * g.size, end, i;
	int r, nranks = a->team.win.comm.nranks;
	struct ori_row low = { { 0 } }, high = { { 0 } };

	end = (all + (uint32_t)nranks - 1) / (uint32_t)nranks;
	i = end * (uint32_t)a->team.win.comm.rank;
	end = ori_coll_least(i + end, all);
	for (i += (uint64_t)g.block * g.size + g.thread; i < end; i += step) {
		uint64_t first, second;

		ORI_UNROLL
		for (r = 0; r < ORI_WORD_SOURCES; r++)
			if (r < nranks)
				ori_pair_load(reach->send[r] + 16u * i, &low.word[r],
					      &high.word[r]);
		first = ori_reducer_word(how, low, nranks);
		second = ori_reducer_word(how, high, nranks);
		ORI_UNROLL
		for (r = 0; r < ORI_WORD_SOURCES; r++)
			if (r < nranks)
				ori_pair_store(reach->recv[r] + 16u * i, first, second);
	}
}

/* ---- rounds of all blocks -------------------------------------------------------------------- */

ORIEL_DEV uint64_t *ori_coll_verdict_word(const struct ori_coll_args *a)
{
	return &((struct ori_channel *)(void *)a->team.win.buffer)->verdict;
}

/* Called by all blocks after block 0 stored the word: all read it. */
ORIEL_DEV int ori_coll_hear(const struct ori_coll_args *a, struct oriel_group g, uint64_t *verdict)
{
	int met = oriel_grid_sync(&a->team.win, g, ORI_COLL_GRID);

	*verdict = 0;
	if (!met && oriel_group_is_leader(g))
		*verdict = *ori_coll_verdict_word(a); /* [GRID3] has ordered it after the store */
	met = ori_group_agree_value(g, met, verdict);
	return met ? met : -(int)(uint32_t)*verdict;
}

/*
 * Called by all blocks: a round of all ranks.  [GRID1] to [GRID3] pass the stores of all blocks to
 * block 0, whose round publishes them, and what it finds to all blocks.  `last`: only block 0 need
 * learn that the round is over.
 */
ORIEL_DEV int ori_coll_round(const struct ori_coll_args *a, struct oriel_group g, int last)
{
	struct ori_exchange x;
	uint64_t verdict;
	int err = oriel_grid_sync(&a->team.win, g, ORI_COLL_GRID);

	if (err || (last && g.block))
		return err;
	if (g.block == 0) {
		err = ori_exchange_begin(&x, &a->team, g, 0, &a->call);
		x.first = 0; /* calls were compared */
		if (!err)
			err = ori_coll_meet(&x, ori_coll_parts(0, 0, 0, 0));
		if (last)
			return err;
		if (oriel_group_is_leader(g))
			*ori_coll_verdict_word(a) = (uint64_t)(uint32_t)-err;
	}
	return ori_coll_hear(a, g, &verdict);
}

/* ---- between windows ------------------------------------------------------------------------- */

/*
 * Called by all blocks: the whole call after its first round.  Not inlined: short calls of the same
 * kernel would pay for its registers.
 */
ORIEL_DEV_OUT int ori_coll_direct(const struct ori_coll_args *a, ORI_VALUE(oriel_group) g,
				  ORI_VALUE(ori_reducer) how)
{
	uint64_t units = a->call.size * oriel_type_bytes(a->call.type) / 16u;
#if ORIEL_ON_GPU
	__shared__ struct ori_coll_reach reach;

	if (g.thread < ORI_WORD_SOURCES) {
		reach.send[g.thread] = ori_coll_reach_kept(a)->send[g.thread];
		reach.recv[g.thread] = ori_coll_reach_kept(a)->recv[g.thread];
	}
	__syncthreads();
#else
	struct ori_coll_reach reach = *ori_coll_reach_kept(a);
#endif
	ori_coll_direct_move(a, g, &reach, how, units);
	return ori_coll_round(a, g, 1);
}

/* ---- through the stage ----------------------------------------------------------------------- */

/* This block's share of n bytes, in whole lines of 128. */
ORIEL_DEV void ori_coll_copy_share(struct oriel_group g, uint8_t *to, const uint8_t *from,
				   uint64_t n)
{
	uint64_t share = (n / g.nblocks + 128u) & ~(uint64_t)127, begin = share * g.block;

	if (begin < n)
		ori_group_copy(g, to + begin, from + begin, ori_coll_least(n - begin, share));
}

/* Called by all blocks: the next elements of this rank to its part of the stage. */
ORIEL_DEV void ori_coll_stage_in(const struct ori_coll_args *a, struct oriel_group g, uint64_t at)
{
	uint64_t bytes = a->call.size * oriel_type_bytes(a->call.type);

	ori_coll_copy_share(g, a->team.win.buffer + a->stage_off, a->send + at,
			    ori_coll_least(bytes - at, a->stage_bytes));
}

/*
 * Called by all blocks: the whole call after its first round.  `filled`: all ranks have filled the
 * stage before that round.
 */
ORIEL_DEV_OUT int ori_coll_staged(const struct ori_coll_args *a, ORI_VALUE(oriel_group) g,
				  ORI_VALUE(ori_reducer) how, int filled)
{
	uint64_t bytes = a->call.size * oriel_type_bytes(a->call.type), at, n;
	const struct oriel_window_dev *win = &a->team.win;
	int r, err = 0;
#if ORIEL_ON_GPU
	__shared__ struct ori_coll_reach reach;

	r = (int)g.thread;
	if (r < win->comm.nranks) {
		reach.send[r] = ori_window_entry(win, r).buffer + a->stage_off;
		reach.recv[r] = reach.send[r] + a->stage_bytes;
	}
	__syncthreads();
#else
	struct ori_coll_reach reach;

	for (r = 0; r < win->comm.nranks; r++) {
		reach.send[r] = ori_window_entry(win, r).buffer + a->stage_off;
		reach.recv[r] = reach.send[r] + a->stage_bytes;
	}
#endif
	for (at = 0; at < bytes && !err; at += n, filled = 0) {
		n = ori_coll_least(bytes - at, a->stage_bytes);
		if (!filled) {
			ori_coll_stage_in(a, g, at);
			err = ori_coll_round(a, g, 0);
		}
		if (err)
			break;
		ori_coll_direct_move(a, g, &reach, how, (n + 15u) / 16u);
		err = ori_coll_round(a, g, 0);
		if (!err)
			ori_coll_copy_share(g, a->recv + at,
					    win->buffer + a->stage_off + a->stage_bytes, n);
	}
	return err;
}

#endif
