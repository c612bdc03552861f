/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/signal.c - contract of signals: ADD and SET, every comparison, one word per
 * (source, id), sums, signal_all, and self as a peer.  Resets, advances and many blocks are in
 * signal_many.c.
 */
#include "contract.h"

/* Everyone adds rank + 1 at everyone, itself included; words and sum are exact. */
CONTRACT_KERNEL(add_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), me = oriel_rank(w), err = 0, i, k;
	uint64_t wrong = 0, sum = 0;

	for (i = 1; i <= a->rounds && !err; i++) {
		for (k = 0; k < n && !err; k++)
			err = oriel_signal(w, g, contract_right(w, k), 3, ORIEL_ADD,
					   (uint64_t)me + 1);
		for (k = 0, sum = 0; k < n && !err; k++) {
			sum += (uint64_t)(k + 1) * (uint64_t)i;
			err = oriel_wait_signal_from(w, g, k, 3, ORIEL_GE,
						     (uint64_t)(k + 1) * (uint64_t)i);
		}
		if (!err)
			err = oriel_wait_signal(w, g, 3, sum);
		/* nobody adds again before all have compared */
		if (!err)
			err = oriel_barrier_arrive_wait(w, g, 0);
		for (k = 0; k < n && !err; k++)
			wrong += oriel_read_signal_from(w, k, 3) != (uint64_t)(k + 1) * (uint64_t)i;
		wrong += !err && oriel_read_signal(w, 3) != sum;
		if (!err)
			err = oriel_barrier_arrive_wait(w, g, 0);
	}
	contract_report(a, g, err, wrong);
}

static void add_and_wait(struct contract_env *e)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 50);
	contract_launch(e, &add_kernel, 1, &a);
}

CASE(signal_add, c.shape = CONTRACT_FULL)
{
	add_and_wait(e);
}

CASE(signal_add_over_64_bits, c.window.first_count = UINT64_MAX - 20)
{
	add_and_wait(e);
}

CASE(signal_add_over_32_bits, c.window.first_count = UINT32_MAX - 20)
{
	add_and_wait(e);
}

/* ---- one word per (source, id) ------------------------------------------------------------- */

ORIEL_DEV int uses(int source, int target, int id)
{
	return (source + 2 * target + id) % 3 == 0;
}

CONTRACT_KERNEL(isolation_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), me = oriel_rank(w), ids = (int)w->signals, err = 0, id, k;
	uint64_t wrong = 0, sum, want;

	for (k = 0; k < n && !err; k++)
		for (id = 0; id < ids && !err; id++)
			if (uses(me, k, id))
				err = oriel_signal(w, g, k, id, ORIEL_ADD,
						   (uint64_t)(1000 * me + 10 * id + 1));
	if (!err)
		err = oriel_barrier_arrive_wait(w, g, 0);
	for (id = 0; id < ids && !err; id++) {
		for (k = 0, sum = 0; k < n; k++) {
			want = uses(k, me, id) ? (uint64_t)(1000 * k + 10 * id + 1) : 0;
			wrong += oriel_read_signal_from(w, k, id) != want;
			sum += want;
		}
		wrong += oriel_read_signal(w, id) != sum;
	}
	contract_report(a, g, err, wrong);
}

CASE(signal_slots_are_isolated, c.window.signals = 5)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &isolation_kernel, 1, &a);
}

/* The first and the last id of rows that are not whole lines. */
CASE(signal_odd_row, c.window.signals = 17)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &isolation_kernel, 1, &a);
}

/* ---- SET and the comparisons --------------------------------------------------------------- */

/* For each comparison with 100: a value that must not end the wait, and one that must. */
ORIEL_DEV uint64_t bad_value(int cmp)
{
	const uint64_t bad[7] = { 0, 99, 100, 100, 99, 100, 101 };

	return bad[cmp];
}

ORIEL_DEV uint64_t good_value(int cmp)
{
	const uint64_t good[7] = { 0, 100, 5, 101, 100, 99, 100 };

	return good[cmp];
}

/*
 * To the right: a value that does not compare on id 0; when the neighbour says (id 2) that it is
 * about to wait, the one that does.  The word stays until all have read it.
 */
CONTRACT_KERNEL(compare_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), err = 0, cmp;
	uint64_t wrong = 0, round = 0;

	for (cmp = ORIEL_EQ; cmp <= ORIEL_LE && !err; cmp++) {
		round++;
		err = oriel_signal(w, g, right, 0, ORIEL_SET, bad_value(cmp));
		if (!err)
			err = oriel_barrier_arrive_wait(w, g, 0);
		if (!err)
			err = oriel_signal(w, g, left, 2, ORIEL_ADD, 1);
		if (!err)
			err = oriel_wait_signal_from(w, g, right, 2, ORIEL_GE, round);
		if (!err)
			err = oriel_signal(w, g, right, 0, ORIEL_SET, good_value(cmp));
		if (!err)
			err = oriel_wait_signal_from(w, g, left, 0, cmp, 100);
		wrong += !err && oriel_read_signal_from(w, left, 0) != good_value(cmp);
		if (!err)
			err = oriel_barrier_arrive_wait(w, g, 0);
	}
	contract_report(a, g, err, wrong);
}

CASE(signal_set_each_comparison, 0)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &compare_kernel, 1, &a);
}

/* The waiter is there first: nothing compares until it has told so and waited a while. */
CONTRACT_KERNEL(early_waiter_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int peer = 1 - oriel_rank(w), err = 0, cmp, i;
	uint64_t wrong = 0, round = 0;

	for (cmp = ORIEL_EQ; cmp <= ORIEL_LE && !err; cmp++) {
		round++;
		if (oriel_rank(w) == 0) {
			err = oriel_wait_signal_from(w, g, peer, 1, ORIEL_GE, round);
			/* time for a waiter that does not wait to come out with the bad value */
			for (i = 0; i < a->rounds && !err; i++)
				err = oriel_fence(w, g, 0);
			if (!err)
				err = oriel_signal(w, g, peer, 0, ORIEL_SET, good_value(cmp));
		} else {
			err = oriel_wait_signal_from(w, g, 0, 0, ORIEL_EQ, bad_value(cmp));
			if (!err)
				err = oriel_signal(w, g, 0, 1, ORIEL_ADD, 1);
			if (!err)
				err = oriel_wait_signal_from(w, g, 0, 0, cmp, 100);
			wrong += !err && oriel_read_signal_from(w, 0, 0) != good_value(cmp);
		}
		if (!err)
			err = oriel_barrier_arrive_wait(w, g, 0);
		if (!err && oriel_rank(w) == 0 && cmp < ORIEL_LE)
			err = oriel_signal(w, g, peer, 0, ORIEL_SET, bad_value(cmp + 1));
	}
	contract_report(a, g, err, wrong);
}

CASE(signal_early_waiter, c.min_ranks = 2, c.max_ranks = 2)
{
	struct contract_args a = contract_args(e);

	a.rounds = 200;
	if (e->rank == 0)
		CHECK_EQ(oriel_window_signal(e->window, 1, 0, ORIEL_SET, bad_value(ORIEL_EQ), NULL),
			 0);
	contract_launch(e, &early_waiter_kernel, 1, &a);
}

/* A set word may go down again: it is the last value, not the largest. */
CONTRACT_KERNEL(set_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), me = oriel_rank(w), err = 0, i, k;
	uint64_t wrong = 0, value;

	for (i = 0; i < a->rounds && !err; i++) {
		value = i % 2 ? 7 : UINT64_MAX - 100;
		for (k = 0; k < n && !err; k++)
			err = oriel_signal(w, g, k, 1, ORIEL_SET, value - (uint64_t)me);
		for (k = 0; k < n && !err; k++)
			err = oriel_wait_signal_from(w, g, k, 1, ORIEL_EQ, value - (uint64_t)k);
		/* the same by put_signal with no bytes */
		for (k = 0; k < n && !err; k++)
			err = oriel_put_signal(w, g, k, 0, &a->src, 0, 0, 2, ORIEL_SET, value);
		for (k = 0; k < n && !err; k++)
			err = oriel_wait_signal_from(w, g, k, 2, ORIEL_EQ, value);
		if (!err)
			err = oriel_barrier_arrive_wait(w, g, 0);
		for (k = 0; k < n && !err; k++)
			wrong += oriel_read_signal_from(w, k, 1) != value - (uint64_t)k;
		if (!err)
			err = oriel_barrier_arrive_wait(w, g, 0);
	}
	contract_report(a, g, err, wrong);
}

CASE(signal_set, 0)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 20);
	contract_launch(e, &set_kernel, 1, &a);
}

/* ---- sums, all ----------------------------------------------------------------------------- */

/* signal_all reaches every rank but this one, once each whatever the size of the group. */
CONTRACT_KERNEL(all_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), me = oriel_rank(w), err = 0, i, k;
	uint64_t wrong = 0, total;

	for (i = 1; i <= a->rounds && !err; i++) {
		total = (uint64_t)(n - 1) * 3 * (uint64_t)i;
		err = oriel_signal_all(w, g, 0, ORIEL_ADD, 3);
		if (!err)
			err = oriel_wait_signal(w, g, 0, total);
		if (!err)
			err = oriel_signal_all(w, g, 1, ORIEL_SET, (uint64_t)(i * 100 + me));
		if (!err)
			err = oriel_barrier_arrive_wait(w, g, 0);
		wrong += !err && oriel_read_signal(w, 0) != total;
		for (k = 0; k < n && !err; k++) {
			wrong += oriel_read_signal_from(w, k, 0) != (k == me ? 0 : 3 * (uint64_t)i);
			wrong += oriel_read_signal_from(w, k, 1) !=
				 (k == me ? 0 : (uint64_t)(i * 100 + k));
		}
		if (!err)
			err = oriel_barrier_arrive_wait(w, g, 0);
	}
	contract_report(a, g, err, wrong);
}

CASE(signal_all_but_self, 0)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 40);
	contract_launch(e, &all_kernel, 1, &a);
}

/* Both kinds of wait on one id see the same words. */
CONTRACT_KERNEL(both_waits_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), err = 0, k;
	uint64_t v, wrong = 0;

	for (v = 1; v <= 5 && !err; v++) { /* growing values, nothing reset */
		err = oriel_signal_all(w, g, 0, ORIEL_ADD, 1);
		if (!err)
			err = oriel_signal(w, g, oriel_rank(w), 0, ORIEL_ADD, 2);
		for (k = 0; k < n && !err; k++)
			err = oriel_wait_signal_from(w, g, k, 0, ORIEL_GE,
						     k == oriel_rank(w) ? 2 * v : v);
		if (!err)
			err = oriel_wait_signal(w, g, 0, ((uint64_t)n + 1) * v);
	}
	if (!err)
		err = oriel_barrier_arrive_wait(w, g, 0);
	wrong += !err && oriel_read_signal(w, 0) != ((uint64_t)n + 1) * 5;
	contract_report(a, g, err, wrong);
}

CASE(signal_monotonic_waits, 0)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &both_waits_kernel, 1, &a);
}
