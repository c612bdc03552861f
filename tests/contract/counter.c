/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/counter.c - contract of counters: one completion per operation whatever the size
 * of the group, one word per (peer, id), every comparison, resets, handles by value and by pointer.
 */
#include "contract.h"

/*
 * k + 1 puts to peer k each round, half of them of no bytes, on the id of the block.  `wait` makes
 * sure all are counted; the exact number shows that none is counted twice.
 */
ORIEL_DEV int count_puts(const struct contract_args *a, const struct oriel_window_dev *w,
			 struct oriel_group g, uint64_t *wrong)
{
	int n = oriel_nranks(w), id = (int)g.block, err = 0, i, j, k;
	uint64_t off = (uint64_t)oriel_rank(w) * 64 + (uint64_t)g.block * 8, want;

	for (i = 1; i <= a->rounds && !err; i++) {
		for (k = 0; k < n; k++)
			for (j = 0; j <= k && !err; j++) {
				if ((i + j) % 2)
					err = oriel_put_counter(w, g, k, off, &a->src, off,
								j % 4 ? 8 : 0, id);
				else
					err = oriel_put_signal_counter(w, g, k, off, &a->src, off,
								       8, id, ORIEL_ADD, 1, id);
			}
		for (k = 0; k < n && !err; k++) {
			want = (uint64_t)(k + 1) * (uint64_t)i;
			err = oriel_wait_counter(w, g, k, id, ORIEL_GE, want);
			*wrong += !err && oriel_read_counter(w, k, id) != want;
		}
		if (!err)
			err = oriel_wait_counter_all(w, g, id,
						     (uint64_t)n * (uint64_t)(n + 1) / 2 *
							     (uint64_t)i);
		/* the next round's counts must not come before all threads have read these */
		if (!err)
			err = oriel_group_sync(g);
	}
	return err;
}

CONTRACT_KERNEL(by_value_kernel)
{
	struct oriel_window_dev mine = a->win;
	uint64_t wrong = 0;
	int err = count_puts(a, &mine, g, &wrong);

	contract_report(a, g, err, wrong);
}

CONTRACT_KERNEL(by_pointer_kernel)
{
	uint64_t wrong = 0;
	int err = count_puts(a, a->win_ptr, g, &wrong);

	contract_report(a, g, err, wrong);
}

static void check_totals(struct contract_env *e, int nblocks, int rounds)
{
	for (int id = 0; id < 16; id++)
		for (int k = 0; k < e->nranks; k++)
			CHECK_EQ(contract_counter(e, &e->win, k, id),
				 id < nblocks ? (k + 1) * rounds : 0);
}

CASE(counter_once_by_value, c.shape = CONTRACT_FULL)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 20);
	contract_launch(e, &by_value_kernel, 1, &a);
	check_totals(e, 1, a.rounds);
}

CASE(counter_once_by_pointer, 0)
{
	struct contract_args a = contract_args(e);
	void *shared = contract_alloc(e, sizeof(e->win));

	REQUIRE(shared);
	contract_write(e, shared, &e->win, sizeof(e->win));
	a.win_ptr = (const struct oriel_window_dev *)shared;
	memset(&a.win, 0, sizeof(a.win)); /* nothing comes from the copy */
	a.rounds = contract_rounds(e, 20);
	contract_launch(e, &by_pointer_kernel, 1, &a);
	check_totals(e, 1, a.rounds);
}

CASE(counter_blocks_with_own_ids, c.blocks = 4)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 12);
	contract_launch(e, &by_value_kernel, 4, &a);
	check_totals(e, 4, a.rounds);
}

CASE(counter_over_64_bits, c.window.first_count = UINT64_MAX - 20)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 30);
	contract_launch(e, &by_value_kernel, 1, &a);
	check_totals(e, 1, a.rounds);
}

/* ---- one word for many blocks -------------------------------------------------------------- */

CONTRACT_KERNEL(shared_counter_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int peer = contract_right(w, 1), err = 0, i;
	uint64_t off = (uint64_t)g.block * 16, total = (uint64_t)a->rounds * g.nblocks;

	for (i = 0; i < a->rounds && !err; i++)
		err = oriel_put_counter(w, g, peer, off, &a->src, off, 16, 7);
	if (!err)
		err = oriel_wait_counter(w, g, peer, 7, ORIEL_EQ, total);
	contract_report(a, g, err, !err && oriel_read_counter(w, peer, 7) != total);
}

CASE(counter_blocks_share_a_word, c.blocks = 4)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 40);
	contract_launch(e, &shared_counter_kernel, 4, &a);
}

/* ---- comparisons, reset -------------------------------------------------------------------- */

CONTRACT_KERNEL(compare_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), err = 0, i, k;
	uint64_t wrong = 0;

	for (k = 0; k < n && !err; k++) {
		for (i = 0; i < 3 && !err; i++)
			err = oriel_put_counter(w, g, k, 0, &a->src, 0, 0, 1);
		if (!err)
			err = oriel_wait_counter(w, g, k, 1, ORIEL_EQ, 3);
		if (!err)
			err = oriel_wait_counter(w, g, k, 1, ORIEL_NE, 2);
		if (!err)
			err = oriel_wait_counter(w, g, k, 1, ORIEL_GT, 2);
		if (!err)
			err = oriel_wait_counter(w, g, k, 1, ORIEL_GE, 3);
		if (!err)
			err = oriel_wait_counter(w, g, k, 1, ORIEL_LT, 4);
		if (!err)
			err = oriel_wait_counter(w, g, k, 1, ORIEL_LE, 3);
	}
	/* an id nobody used stands at 0 and compares at once */
	for (k = 0; k < n && !err; k++) {
		err = oriel_wait_counter(w, g, k, 2, ORIEL_EQ, 0);
		wrong += !err && oriel_read_counter(w, k, 2) != 0;
	}
	contract_report(a, g, err, wrong);
}

CASE(counter_each_comparison, 0)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &compare_kernel, 1, &a);
}

/* A reset counter starts again from 0; its neighbours keep their counts. */
CONTRACT_KERNEL(reset_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), err = 0, i, k;
	uint64_t wrong = 0;

	for (i = 1; i <= a->rounds && !err; i++) {
		for (k = 0; k < n && !err; k++) {
			err = oriel_put_counter(w, g, k, 0, &a->src, 0, 0, 3);
			if (!err)
				err = oriel_put_counter(w, g, k, 0, &a->src, 0, 0, 4);
			if (!err)
				err = oriel_put_counter(w, g, k, 0, &a->src, 0, 0, 4);
			if (!err)
				err = oriel_wait_counter(w, g, k, 4, ORIEL_EQ, 2);
			if (!err)
				err = oriel_reset_counter(w, g, k, 4);
			wrong += !err && oriel_read_counter(w, k, 4) != 0;
			if (!err)
				err = oriel_wait_counter(w, g, k, 3, ORIEL_EQ, (uint64_t)i);
		}
		if (!err) /* what was reset counts in no sum */
			err = oriel_wait_counter_all(w, g, 3, (uint64_t)n * (uint64_t)i);
		wrong += !err && oriel_read_counter(w, n - 1, 3) != (uint64_t)i;
	}
	contract_report(a, g, err, wrong);
}

CASE(counter_reset, 0)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 20);
	contract_launch(e, &reset_kernel, 1, &a);
}

/* A counted source may be written again: the receiver still gets what was there. */
CONTRACT_KERNEL(reuse_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w);
	int err = 0, i;
	uint64_t wrong = 0;

	for (i = 1; i <= a->rounds && !err; i++) {
		contract_fill(g, a->local, a->bytes, (uint64_t)i, me, right);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_put_signal_counter(w, g, right, 0, &a->src, 0, a->bytes, 0,
						       ORIEL_ADD, 1, 0);
		if (!err)
			err = oriel_wait_counter(w, g, right, 0, ORIEL_GE, (uint64_t)i);
		if (!err)
			contract_set(g, a->local, a->bytes, CONTRACT_GUARD);
		if (!err)
			err = oriel_wait_signal_from(w, g, left, 0, ORIEL_GE, (uint64_t)i);
		if (!err)
			wrong += contract_wrong(g, w->buffer, a->bytes, (uint64_t)i, left, me);
		if (!err)
			err = oriel_barrier(w, g, 0);
	}
	contract_report(a, g, err, wrong);
}

CASE(counter_source_may_be_reused, 0)
{
	struct contract_args a = contract_args(e);

	a.bytes = 10007;
	a.rounds = contract_rounds(e, 40);
	contract_launch(e, &reuse_kernel, 1, &a);
}
