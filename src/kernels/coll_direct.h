/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/coll_direct.h - a long all-reduce between buffers that lie in windows.
 *
 * All ranks map each other's windows.  So a rank combines its piece of the elements straight from
 * the send buffers of all ranks, in their order, and stores the result straight into all receive
 * buffers.  No other rank touches that piece, so send and receive buffers may be the same.
 *
 * In the first round of the call each rank shows where its buffers are.  All ranks are in the call
 * then, so data may move.  If a rank has none in a window, or in another one, the data of all goes
 * through the team's slots.  A second round says that all pieces are there.
 *
 * Included by coll.c.
 */
#ifndef ORI_KERNELS_COLL_DIRECT_H
#define ORI_KERNELS_COLL_DIRECT_H

#include <oriel/device/coll.h>

#include "coll.h"

/* Addresses of all ranks' buffers, as this rank maps them. */
struct ori_coll_reach {
	uint8_t *send[ORI_WORD_SOURCES], *recv[ORI_WORD_SOURCES];
};

/* May the call go this way?  All ranks come to the same result. */
ORIEL_DEV int ori_coll_may_be_direct(const struct ori_coll_args *a)
{
	return a->call.kind == ORI_COLL_ALLREDUCE && !a->call.refused && !a->team.row_bytes &&
	       a->team.win.comm.nranks <= ORI_WORD_SOURCES;
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
 * Called by block 0 in place of ori_coll_compare().  *direct, the leader's: all ranks have shown
 * the same windows.
 */
ORIEL_DEV int ori_coll_show_places(struct ori_exchange *x, const struct ori_coll_args *a,
				   int *direct)
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
	*direct = a->places.send_window >= 0;
	/* every rank has entered the round, so nobody reads the slot of the round before */
	for (r = 0; r < nranks; r++) {
		p = ori_coll_places_of(x, parts, r);
		*direct &= p->send_window == a->places.send_window &&
			   p->recv_window == a->places.recv_window;
		if (!*direct)
			break;
		kept->send[r] = a->send_peers[r].buffer + p->send_off;
		kept->recv[r] = a->recv_peers[r].buffer + p->recv_off;
	}
	return 0;
}

/* Called by all blocks after they met: moves the data of this rank's piece. */
ORIEL_DEV void ori_coll_direct_move(const struct ori_coll_args *a, struct oriel_group g,
				    const struct ori_coll_reach *reach, struct ori_reducer how)
{
	uint64_t all = a->call.size * oriel_type_bytes(a->call.type) / 16u, end, i;
	uint64_t step = (uint64_t)g.nblocks * g.size;
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

/*
 * Called by all blocks: the whole call after its first round.  Not inlined: short calls of the same
 * kernel would pay for its registers.
 */
ORIEL_DEV_OUT int ori_coll_direct(const struct ori_coll_args *a, ORI_VALUE(oriel_group) g,
				  ORI_VALUE(ori_reducer) how)
{
	struct ori_exchange x;
	int err;
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
	ori_coll_direct_move(a, g, &reach, how);
	/* [GRID1] to [GRID3] pass the stores of all blocks to block 0, whose round publishes them */
	err = oriel_grid_sync(&a->team.win, g, ORI_COLL_GRID);
	if (err || g.block)
		return err;
	err = ori_exchange_begin(&x, &a->team, g, 0, &a->call);
	x.first = 0; /* calls were compared */
	return err ? err : ori_coll_meet(&x, ori_coll_parts(0, 0, 0, 0));
}

#endif
