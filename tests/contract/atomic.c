/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/atomic.c - contract of fetch_add, swap and compare_swap on window words: nothing
 * is lost between ranks and blocks, and every thread of the group gets the old value.
 */
#include "contract.h"

#define WORD(i) ((uint64_t)(i)*8)

/*
 * A word is atomic among operations of one transport: a NIC is atomic within itself, not with a CPU
 * or a GPU.  So the ranks on other nodes use words of their own.
 */
#define APART 48 /* words from here on, for peers behind queues */

ORIEL_DEV uint64_t word_for(const struct contract_args *a, int peer, int word)
{
	int apart = oriel_peer_kind(&a->win, peer) == ORIEL_PEER_QUEUED;

	return WORD(word + (apart ? APART : 0));
}

/* The ranks that work on rank 0's words: all, or only the queued ones if there are any. */
static int takes_part(struct contract_env *e, int rank)
{
	int nodes = oriel_comm_nodes(e->comm);

	return nodes == 1 || oriel_comm_node(e->comm, rank) != oriel_comm_node(e->comm, 0);
}

static int parts(struct contract_env *e)
{
	int n = 0;

	for (int r = 0; r < e->nranks; r++)
		n += takes_part(e, r);
	return n;
}

/* ---- fetch_add ----------------------------------------------------------------------------- */

/* Everyone adds 1 to word 0 of everyone; out[0] sums the old values of each thread. */
CONTRACT_KERNEL(add_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), err = 0, i, k;
	uint64_t old, sum = 0, last = 0;

	for (i = 0; i < a->rounds && !err; i++)
		for (k = 0; k < n && !err; k++) {
			int peer = contract_right(w, k);

			old = UINT64_MAX;
			err = oriel_fetch_add(w, g, peer, word_for(a, peer, 0), 1, &old);
			sum += old;
			/* the old values one group sees at one word grow */
			if (!err && peer == 0 && i > 0 && old <= last)
				a->out[contract_slot(g) * CONTRACT_OUT + 1]++;
			if (peer == 0)
				last = old;
			if (!err) /* nobody asked for the old value of word 1 */
				err = oriel_fetch_add(w, g, peer, word_for(a, peer, 1), 3, NULL);
		}
	a->out[contract_slot(g) * CONTRACT_OUT] = sum;
	contract_report(a, g, err, 0);
}

/* Each of n additions at a word saw another old value, 0 .. n - 1. */
static uint64_t sum_below(uint64_t n)
{
	return n ? n * (n - 1) / 2 : 0;
}

static uint64_t sum_of_mine(struct contract_env *e, int nblocks)
{
	uint64_t mine = 0;

	for (int b = 0; b < nblocks; b++)
		for (int t = 0; t < e->threads; t++) {
			const uint64_t *out = &e->out[(b * CONTRACT_THREADS + t) * CONTRACT_OUT];

			CHECK_EQ(out[1], 0);
			CHECK_EQ(out[0], e->out[b * CONTRACT_THREADS * CONTRACT_OUT]);
			mine += t == 0 ? out[0] : 0;
		}
	return mine;
}

/* `each` additions by every rank at every rank; those that came by queues went to other words. */
static void check_sums(struct contract_env *e, int nblocks, uint64_t each)
{
	uint64_t mine = sum_of_mine(e, nblocks), all[8] = { 0 }, sum = 0, want = 0;

	REQUIRE_OK(oriel_comm_allgather(e->comm, ORIEL_WORLD, &mine, all, sizeof(mine)));
	for (int r = 0; r < e->nranks; r++) {
		uint64_t near = (uint64_t)oriel_comm_node_size(e->comm, r) * each;
		uint64_t far = (uint64_t)e->nranks * each - near;

		sum += all[r];
		want += sum_below(near) + sum_below(far);
		if (r != e->rank)
			continue;
		CHECK_EQ(contract_word(e, e->buffer + WORD(0)), near);
		CHECK_EQ(contract_word(e, e->buffer + WORD(1)), 3 * near);
		CHECK_EQ(contract_word(e, e->buffer + WORD(2)), 0);
		CHECK_EQ(contract_word(e, e->buffer + WORD(APART)), far);
		CHECK_EQ(contract_word(e, e->buffer + WORD(APART + 1)), 3 * far);
	}
	CHECK_EQ(sum, want);
}

static void add_all(struct contract_env *e, int nblocks, int n)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, n);
	contract_launch(e, &add_kernel, nblocks, &a);
	check_sums(e, nblocks, (uint64_t)a.rounds * (uint64_t)nblocks);
}

CASE(atomic_add, c.shape = CONTRACT_FULL)
{
	add_all(e, 1, 50);
}

CASE(atomic_add_from_blocks, c.blocks = 4)
{
	add_all(e, 4, 20);
}

/* ---- swap ---------------------------------------------------------------------------------- */

/* Tokens go round: what is put in comes out exactly once, or is still there. */
CONTRACT_KERNEL(swap_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int err = 0, i;
	uint64_t old, in = 0, out = 0, token;

	for (i = 0; i < a->rounds && !err; i++) {
		token = 1 + ((uint64_t)oriel_rank(w) << 32) + ((uint64_t)g.block << 24) +
			(uint64_t)i;
		token = token * 0x9e3779b97f4a7c15ull; /* so that no other set has this sum */
		old = 0;
		err = oriel_swap(w, g, 0, WORD(4), token, &old);
		in += token;
		out += old;
	}
	a->out[contract_slot(g) * CONTRACT_OUT] = in - out;
	contract_report(a, g, err, 0);
}

CASE(atomic_swap, c.blocks = 4)
{
	struct contract_args a = contract_args(e);
	uint64_t mine = 0, all[8] = { 0 }, left = 0;

	a.rounds = takes_part(e, e->rank) ? contract_rounds(e, 40) : 0;
	contract_launch(e, &swap_kernel, 4, &a);
	for (int b = 0; b < 4; b++) {
		mine += e->out[b * CONTRACT_THREADS * CONTRACT_OUT];
		for (int t = 1; t < e->threads; t++)
			CHECK(e->out[(b * CONTRACT_THREADS + t) * CONTRACT_OUT] ==
			      e->out[b * CONTRACT_THREADS * CONTRACT_OUT]);
	}
	REQUIRE_OK(oriel_comm_allgather(e->comm, ORIEL_WORLD, &mine, all, sizeof(mine)));
	for (int r = 0; r < e->nranks; r++)
		left += all[r];
	if (e->rank == 0)
		CHECK(contract_word(e, e->buffer + WORD(4)) == left);
}

/* ---- compare_swap -------------------------------------------------------------------------- */

#define LOCK_TRIES 1000000000 /* a bound, some 30 s; preempted holders need a while */

/* A lock at rank 0 around bytes that nothing else protects. */
CONTRACT_KERNEL(lock_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	uint64_t me = (uint64_t)oriel_rank(w) * 16 + g.block + 1, old, count, wrong = 0;
	int err = 0, i, tries;

	for (i = 0; i < a->rounds && !err; i++) {
		old = 1;
		for (tries = 0; old != 0 && tries < LOCK_TRIES && !err; tries++)
			err = oriel_compare_swap(w, g, 0, WORD(8), 0, me, &old);
		wrong += !err && old != 0; /* never got it */
		if (!err)
			err = oriel_get_value(w, g, 0, WORD(16), &count, sizeof(count));
		count++;
		if (!err)
			err = oriel_put_value(w, g, 0, WORD(16), &count, sizeof(count));
		if (!err)
			err = oriel_flush(w, g, 0);
		if (!err)
			err = oriel_compare_swap(w, g, 0, WORD(8), me, 0, &old);
		wrong += !err && old != me; /* someone else was inside */
	}
	contract_report(a, g, err, wrong);
}

static void lock_and_count(struct contract_env *e, int nblocks, int n)
{
	struct contract_args a = contract_args(e);
	int rounds = contract_rounds(e, n);

	a.rounds = takes_part(e, e->rank) ? rounds : 0;
	contract_launch(e, &lock_kernel, nblocks, &a);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	if (e->rank == 0)
		CHECK_EQ(contract_word(e, e->buffer + WORD(16)), rounds * parts(e) * nblocks);
}

CASE(atomic_lock, 0)
{
	lock_and_count(e, 1, 40);
}

CASE(atomic_lock_of_blocks, c.blocks = 2)
{
	lock_and_count(e, 2, 20);
}

/* A compare_swap that does not match changes nothing and returns the current value. */
CONTRACT_KERNEL(compare_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), err = 0, k;
	uint64_t old, wrong = 0, off, big = 0x8000000000000001ull;

	for (k = 0; k < n && !err; k++) {
		off = WORD(32 + oriel_rank(w)); /* my own word at each peer */
		old = 77;
		err = oriel_compare_swap(w, g, k, off, 5, 6, &old);
		wrong += !err && old != 0;
		if (!err)
			err = oriel_compare_swap(w, g, k, off, 0, big, &old);
		wrong += !err && old != 0;
		if (!err)
			err = oriel_compare_swap(w, g, k, off, 1, 9, &old);
		wrong += !err && old != big;
		if (!err)
			err = oriel_compare_swap(w, g, k, off, big, 11, NULL);
		if (!err)
			err = oriel_swap(w, g, k, off, 12, &old);
		wrong += !err && old != 11;
		if (!err)
			err = oriel_fetch_add(w, g, k, off, UINT64_MAX, &old); /* minus one */
		wrong += !err && old != 12;
		if (!err)
			err = oriel_get_value(w, g, k, off, &old, sizeof(old));
		wrong += !err && old != 11;
	}
	contract_report(a, g, err, wrong);
}

CASE(atomic_compare_swap, 0)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &compare_kernel, 1, &a);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	for (int r = 0; r < e->nranks; r++)
		CHECK_EQ(contract_word(e, e->buffer + WORD(32 + r)), 11);
}

/* Who sees the new value sees what was put before it. */
CONTRACT_KERNEL(publish_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w);
	int err = 0, i, tries;
	uint64_t wrong = 0, seen;

	for (i = 1; i <= a->rounds && !err; i++) {
		contract_fill(g, a->local, 200, (uint64_t)i, me, right);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_put(w, g, right, 1024, &a->src, 0, 200);
		if (!err)
			err = oriel_fetch_add(w, g, right, WORD(64), 1, NULL);
		for (seen = 0, tries = 0; seen < (uint64_t)i && tries < LOCK_TRIES && !err; tries++)
			err = oriel_fetch_add(w, g, me, WORD(64), 0, &seen);
		wrong += seen != (uint64_t)i;
		if (!err)
			wrong += contract_wrong(g, w->buffer + 1024, 200, (uint64_t)i, left, me);
		if (!err)
			err = oriel_barrier(w, g, 0);
	}
	contract_report(a, g, err, wrong);
}

CASE(atomic_publishes_puts, 0)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 30);
	contract_launch(e, &publish_kernel, 1, &a);
}
