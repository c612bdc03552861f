/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/path.c - contract of paths: puts with a signal to one peer, alone and mixed with
 * the calls of put.c and signal.c.
 */
#include "contract.h"

#define SIGNALS c.window.signals = 4, c.window.bytes = 8192

/* Which calls a rank makes. */
enum { PATHS, CALLS };

ORIEL_DEV uint64_t bytes_of(int i)
{
	const uint64_t sizes[8] = { 8, 0, 1, 64, 40, 4096, 48, 1029 };

	return sizes[i % 8];
}

/* One rank's four directions: data to the right one, from the left one, and both acknowledged. */
struct ways {
	struct oriel_path out, in, ack_out, ack_in;
};

/* The first signal of the two that a case uses. */
ORIEL_DEV int first_signal(const struct contract_args *a)
{
	return a->id;
}

ORIEL_DEV int ways_open(const struct contract_args *a, struct oriel_group g, struct ways *x)
{
	int right = contract_right(&a->win, 1), left = contract_left(&a->win, 1), err;
	int data = first_signal(a), ack = data + 1;

	err = oriel_path_open(&x->out, &a->win, g, right, &a->src, data);
	if (!err)
		err = oriel_path_open(&x->in, &a->win, g, left, &a->src, data);
	if (!err)
		err = oriel_path_open(&x->ack_out, &a->win, g, left, &a->src, ack);
	return err ? err : oriel_path_open(&x->ack_in, &a->win, g, right, &a->src, ack);
}

/* By a path or by the call; a sum of ones is the same as the number of the round. */
ORIEL_DEV int strike(const struct contract_args *a, struct oriel_group g, struct oriel_path *path,
		     uint64_t off, uint64_t bytes, uint64_t round)
{
	int op = first_signal(a) ? ORIEL_ADD : ORIEL_SET;
	uint64_t value = op == ORIEL_ADD ? 1 : round;

	if (a->mode == PATHS)
		return oriel_path_put_signal(path, g, off, off, bytes, op, value);
	return oriel_put_signal(&a->win, g, path->peer, off, &a->src, off, bytes, path->signal, op,
				value);
}

ORIEL_DEV int await(const struct contract_args *a, struct oriel_group g, struct oriel_path *path,
		    uint64_t round)
{
	if (a->mode == PATHS)
		return oriel_path_wait(path, g, round);
	return oriel_wait_signal_from(&a->win, g, path->peer, path->signal, ORIEL_GE, round);
}

CONTRACT_KERNEL(ring_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w), i;
	uint64_t wrong = 0, bytes, off;
	struct ways x;
	int err = ways_open(a, g, &x);

	for (i = 1; i <= a->rounds && !err; i++) {
		bytes = bytes_of(i);
		off = i % 3 == 2 ? 5 : 16;
		contract_fill(g, a->local + off, bytes, (uint64_t)i, me, right);
		err = oriel_group_sync(g);
		if (!err)
			err = strike(a, g, &x.out, off, bytes, (uint64_t)i);
		if (!err)
			err = await(a, g, &x.in, (uint64_t)i);
		if (!err)
			wrong += contract_wrong(g, w->buffer + off, bytes, (uint64_t)i, left, me);
		if (!err)
			err = oriel_group_sync(g);
		if (!err)
			err = strike(a, g, &x.ack_out, 0, 0, (uint64_t)i);
		if (!err)
			err = await(a, g, &x.ack_in, (uint64_t)i);
		if (!err) /* delivered is not complete: a NIC may still read the source */
			err = oriel_flush(w, g, right);
	}
	contract_report(a, g, err, wrong);
}

/* Even ranks use `even`, the others `odd`; signals are set, then added to. */
static void ring(struct contract_env *e, int even, int odd)
{
	for (int first = 0; first < 4; first += 2) {
		struct contract_args a = contract_args(e);

		a.mode = e->rank % 2 ? odd : even;
		a.id = first;
		a.rounds = contract_rounds(e, 48);
		contract_launch(e, &ring_kernel, 1, &a);
	}
}

CASE(path_both_ends, c.shape = CONTRACT_FULL, SIGNALS)
{
	ring(e, PATHS, PATHS);
}

CASE(path_and_calls, SIGNALS)
{
	ring(e, PATHS, CALLS);
}

CASE(path_counts_wrap, SIGNALS, c.window.first_count = UINT64_MAX - 20)
{
	ring(e, PATHS, PATHS);
}

CONTRACT_KERNEL(refused_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	struct oriel_path path;
	uint64_t wrong = 0;
	int me = oriel_rank(w);

	wrong += oriel_path_open(&path, w, g, w->comm.nranks, &a->src, 0) != ORIEL_ERANGE;
	wrong += oriel_path_open(&path, w, g, -1, &a->src, 0) != ORIEL_ERANGE;
	wrong += oriel_path_open(&path, w, g, me, &a->src, 4) != ORIEL_ERANGE;
	wrong += oriel_path_open(&path, w, g, me, &a->src, -1) != ORIEL_ERANGE;
	/* no source: it can signal and wait */
	wrong += oriel_path_open(&path, w, g, me, NULL, 3) != 0;
	wrong += oriel_path_put_signal(&path, g, 0, 0, 0, ORIEL_SET, 7) != 0;
	wrong += oriel_path_wait(&path, g, 7) != 0;
	contract_report(a, g, 0, wrong);
}

CASE(path_checked, SIGNALS, c.window.checked = 1)
{
	ring(e, PATHS, PATHS);
}

CASE(path_refused, SIGNALS)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &refused_kernel, 1, &a);
}

/* Nobody signals: the wait ends at its deadline, with the status of the ordinary one. */
CONTRACT_KERNEL(late_kernel)
{
	struct oriel_group late = oriel_group_within(g, 300);
	struct oriel_path path;
	int err = oriel_path_open(&path, &a->win, g, contract_left(&a->win, 1), &a->src, 3);

	if (!err)
		err = oriel_path_wait(&path, late, 1);
	contract_report(a, g, err == ORIEL_ETIMEDOUT ? 0 : err ? err : ORIEL_EINVAL, 0);
}

CASE(path_deadline, SIGNALS)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &late_kernel, 1, &a);
}
