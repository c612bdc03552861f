/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/barrier.c - contract of sync, barrier, their halves and barrier_peer: no rank
 * leaves early, and data that was put before the barrier is there after it.
 *
 * Every round carries data, so a barrier that lets a rank through too early shows as a stale byte.
 */
#include <unistd.h>

#include "contract.h"

#define STAMP 40 /* bytes each rank puts at each other per round */

enum { SYNC, BARRIER, ARRIVE_WAIT, PEERS, MIXED };

/* All pairs in the same order on all ranks, so there is no cycle of waits.  Self needs no wait. */
ORIEL_DEV int every_peer(const struct oriel_window_dev *w, struct oriel_group g, int id)
{
	int n = oriel_nranks(w), me = oriel_rank(w), err, x, y;

	err = oriel_barrier_peer(w, g, me, id);
	for (x = 0; x < n && !err; x++)
		for (y = x + 1; y < n && !err; y++)
			if (me == x || me == y)
				err = oriel_barrier_peer(w, g, me == x ? y : x, id);
	return err;
}

ORIEL_DEV int meet(const struct oriel_window_dev *w, struct oriel_group g, int how, int id)
{
	int err;

	switch (how) {
	case SYNC:
		return oriel_barrier_arrive_wait(w, g, id);
	case BARRIER:
		return oriel_barrier(w, g, id);
	case ARRIVE_WAIT:
		err = oriel_barrier_arrive(w, g, id);
		return err ? err : oriel_barrier_wait(w, g, id);
	default:
		return every_peer(w, g, id);
	}
}

/* Where rank `from` writes at me in this round: two sets, so that round i + 1 leaves i alone. */
ORIEL_DEV uint64_t stamp_off(const struct oriel_window_dev *w, int from, int round, uint32_t block)
{
	return (((uint64_t)block * 2 + (uint64_t)(round & 1)) * (uint64_t)oriel_nranks(w) +
		(uint64_t)from) *
	       STAMP;
}

/* Puts this round's stamp at every rank. */
ORIEL_DEV int put_stamps(const struct contract_args *a, struct oriel_group g, int round)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), me = oriel_rank(w), err = 0, k;

	for (k = 0; k < n; k++)
		contract_fill(g, a->local + stamp_off(w, k, round, g.block), STAMP, (uint64_t)round,
			      me, k);
	err = oriel_group_sync(g);
	for (k = 0; k < n && !err; k++)
		err = oriel_put(w, g, contract_right(w, k), stamp_off(w, me, round, g.block),
				&a->src, stamp_off(w, contract_right(w, k), round, g.block), STAMP);
	return err;
}

ORIEL_DEV uint64_t stamps_wrong(const struct contract_args *a, struct oriel_group g, int round)
{
	const struct oriel_window_dev *w = &a->win;
	uint64_t wrong = 0;
	int k;

	for (k = 0; k < oriel_nranks(w); k++)
		wrong += contract_wrong(g, w->buffer + stamp_off(w, k, round, g.block), STAMP,
					(uint64_t)round, k, oriel_rank(w));
	return wrong;
}

/* Rounds value, value + 1, ... on the block's id; MIXED changes the way of meeting each round. */
CONTRACT_KERNEL(rounds_kernel)
{
	int err = 0, i, round, id = (int)g.block + a->id;
	uint64_t wrong = 0;

	for (i = 0; i < a->rounds && !err; i++) {
		round = (int)a->value + i;
		err = put_stamps(a, g, round);
		if (!err)
			err = meet(&a->win, g, a->mode == MIXED ? round % 4 : a->mode, id);
		if (!err)
			wrong += stamps_wrong(a, g, round);
	}
	contract_report(a, g, err, wrong);
}

static void rounds(struct contract_env *e, int mode, int n, int nblocks)
{
	struct contract_args a = contract_args(e);

	a.mode = mode;
	a.rounds = contract_rounds(e, n);
	contract_launch(e, &rounds_kernel, nblocks, &a);
}

/* One block of the launch, a->id, meets the others on id 0. */
CONTRACT_KERNEL(turn_kernel)
{
	int err = 0, round = (int)a->value;
	uint64_t wrong = 0;

	if (g.block == (uint32_t)a->id) {
		err = put_stamps(a, g, round);
		if (!err)
			err = oriel_barrier_arrive_wait(&a->win, g, 0);
		if (!err)
			wrong = stamps_wrong(a, g, round);
		if (!err)
			err = oriel_barrier_arrive_wait(&a->win, g, 0);
	}
	contract_report(a, g, err, wrong);
}

/*
 * Blocks use an id one after the other: each arrives by its own lane, and by another NIC perhaps.
 */
CASE(barrier_blocks_take_turns, c.blocks = 3)
{
	struct contract_args a = contract_args(e);

	for (int i = 0; i < contract_rounds(e, 30); i++) {
		a.id = i % 3;
		a.value = (uint64_t)i;
		contract_launch(e, &turn_kernel, 3, &a);
	}
}

CASE(barrier_sync, c.shape = CONTRACT_FULL)
{
	rounds(e, SYNC, 200, 1);
}

CASE(barrier_barrier, 0)
{
	rounds(e, BARRIER, 200, 1);
}

CASE(barrier_arrive_and_wait, 0)
{
	rounds(e, ARRIVE_WAIT, 100, 1);
}

CASE(barrier_peer_all_pairs, 0)
{
	rounds(e, PEERS, 60, 1);
}

CASE(barrier_mixed_on_one_id, 0)
{
	rounds(e, MIXED, 100, 1);
}

CASE(barrier_8_blocks_8_ids, c.blocks = 8)
{
	rounds(e, MIXED, e->nranks > 3 ? 16 : 40, 8);
}

CASE(barrier_over_64_bits, c.window.first_count = UINT64_MAX - 7)
{
	rounds(e, MIXED, 60, 1);
}

CASE(barrier_over_32_bits, c.window.first_count = UINT32_MAX - 7)
{
	rounds(e, MIXED, 60, 1);
}

/* Over half of the 64 bits, where a signed comparison turns round. */
CASE(barrier_over_63_bits, c.window.first_count = INT64_MAX - 7)
{
	rounds(e, SYNC, 60, 1);
}

/* ---- many launches, late ranks ------------------------------------------------------------- */

/* One id for ever: an old arrival must not let a rank through that should wait for the late one. */
CASE(barrier_many_launches_one_id, 0)
{
	struct contract_args a = contract_args(e);
	int launches = contract_rounds(e, 40), n = 0;

	for (int i = 0; i < launches; i++) {
		a.mode = i % 3 == 2 ? MIXED : SYNC;
		a.rounds = 1 + i % 3; /* one launch may meet more often than the last */
		a.value = (uint64_t)n;
		if (i % e->nranks == e->rank && i % 4 == 0)
			usleep(3000);
		contract_launch(e, &rounds_kernel, 1, &a);
		n += a.rounds;
	}
}

/* ---- several ids --------------------------------------------------------------------------- */

/* Ids used a different number of times in one kernel, and halves of two ids woven together. */
CONTRACT_KERNEL(ids_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int err = 0, i, k, round = 0;
	uint64_t wrong = 0;

	for (i = 0; i < a->rounds && !err; i++) {
		for (k = 0; k < 4 && !err; k++, round++) {
			err = put_stamps(a, g, round);
			if (!err) /* 0, 1, 1, 2 and again */
				err = oriel_barrier(w, g, k == 2 ? 1 : k == 3 ? 2 : k);
			if (!err)
				wrong += stamps_wrong(a, g, round);
		}
		if (!err)
			err = put_stamps(a, g, round);
		if (!err)
			err = oriel_barrier_arrive(w, g, 3);
		if (!err)
			err = oriel_barrier_arrive(w, g, 4);
		if (!err)
			err = every_peer(w, g, 5);
		if (!err)
			err = oriel_barrier_wait(w, g, 4);
		if (!err)
			wrong += stamps_wrong(a, g, round);
		if (!err)
			err = oriel_barrier_wait(w, g, 3);
		round++;
		/* two arrivals ahead would write a set that is being read */
		if (!err)
			err = oriel_barrier_arrive_wait(w, g, 15);
	}
	contract_report(a, g, err, wrong);
}

CASE(barrier_several_ids, 0)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 30);
	contract_launch(e, &ids_kernel, 1, &a);
}

/* ---- third parties ------------------------------------------------------------------------- */

/* I put to my neighbour; after the barrier any rank that reads my neighbour sees it. */
CONTRACT_KERNEL(third_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), err = 0, i, c, from;
	uint64_t wrong = 0, off;

	for (i = 0; i < a->rounds && !err; i++) {
		err = put_stamps(a, g, i);
		if (!err)
			err = oriel_barrier(w, g, 0);
		for (c = 0; c < n && !err; c++)
			for (from = 0; from < n && !err; from++) {
				off = stamp_off(w, from, i, 0);
				/* local memory past the stamps' sources */
				err = oriel_get(w, g, c, off, &a->src, 32768, STAMP);
				if (!err)
					wrong += contract_wrong(g, a->local + 32768, STAMP,
								(uint64_t)i, from, c);
				if (!err) /* all have looked before the next get */
					err = oriel_group_sync(g);
			}
		if (!err)
			err = oriel_barrier(w, g, 0);
	}
	contract_report(a, g, err, wrong);
}

CASE(barrier_third_party_sees, 0)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 20);
	contract_launch(e, &third_kernel, 1, &a);
}

/* ---- pairs alone --------------------------------------------------------------------------- */

/* Two ranks meet often while the others are not there; then everybody meets on the same id. */
CONTRACT_KERNEL(pair_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int me = oriel_rank(w), err = 0, i;
	uint64_t wrong = 0;

	for (i = 0; i < a->rounds && !err && me < 2; i++) {
		contract_fill(g, a->local, STAMP, (uint64_t)i, me, 1 - me);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_put(w, g, 1 - me, (uint64_t)(i & 1) * STAMP, &a->src, 0, STAMP);
		if (!err)
			err = oriel_barrier_peer(w, g, 1 - me, 0);
		if (!err)
			wrong += contract_wrong(g, w->buffer + (i & 1) * STAMP, STAMP, (uint64_t)i,
						1 - me, me);
	}
	if (!err)
		err = oriel_barrier(w, g, 0);
	if (!err)
		err = oriel_barrier_arrive_wait(w, g, 0);
	contract_report(a, g, err, wrong);
}

CASE(barrier_peer_one_pair, c.min_ranks = 2)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 50);
	contract_launch(e, &pair_kernel, 1, &a);
}
