/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/signal_many.c - contract of signals over time and over many groups: resets while
 * signals are in flight, advances without end, blocks and threads that signal at once.
 */
#include "contract.h"

/* ---- reset, advance ------------------------------------------------------------------------ */

/* Phases that each start from zero, although nobody stores zero. */
CONTRACT_KERNEL(phases_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), err = 0, i, k;
	uint64_t wrong = 0;

	for (i = 0; i < a->rounds && !err; i++) {
		for (k = 0; k < n && !err; k++)
			err = oriel_signal(w, g, contract_right(w, k), 0, ORIEL_ADD, 2);
		if (!err)
			err = oriel_wait_signal(w, g, 0, 2 * (uint64_t)n);
		for (k = 0; k < n && !err; k++)
			err = oriel_wait_signal_from(w, g, k, 0, ORIEL_EQ, 2);
		if (!err)
			err = oriel_barrier_arrive_wait(w, g, 0);
		if (!err)
			err = oriel_reset_signal(w, g, 0);
		wrong += !err && oriel_read_signal(w, 0) != 0;
		for (k = 0; k < n && !err; k++)
			wrong += oriel_read_signal_from(w, k, 0) != 0;
		if (!err)
			err = oriel_barrier_arrive_wait(w, g, 0);
	}
	contract_report(a, g, err, wrong);
}

CASE(signal_reset_between_phases, 0)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 30);
	contract_launch(e, &phases_kernel, 1, &a);
}

/*
 * A reset at any time loses no later signal and brings back no earlier one.  Between resets counts
 * only grow, and afterwards 5 more signals are exactly 5.
 */
CONTRACT_KERNEL(in_flight_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), err = 0, i;
	uint64_t wrong = 0, last = 0, now;

	for (i = 0; i < a->rounds && !err; i++) {
		err = oriel_signal(w, g, right, 0, ORIEL_ADD, 1);
		now = oriel_read_signal_from(w, left, 0);
		wrong += now < last || now > (uint64_t)a->rounds;
		last = now;
		if (!err && i % 3 == 2) {
			err = oriel_reset_signal(w, g, 0);
			last = 0;
		}
	}
	/* after the stream, on its way: the last of it has arrived when this has */
	if (!err)
		err = oriel_signal(w, g, right, 1, ORIEL_ADD, 1);
	if (!err)
		err = oriel_wait_signal_from(w, g, left, 1, ORIEL_GE, 1);
	if (!err)
		err = oriel_reset_signal(w, g, 0);
	wrong += !err && oriel_read_signal(w, 0) != 0;
	if (!err)
		err = oriel_barrier_arrive_wait(w, g, 0);
	for (i = 0; i < 5 && !err; i++)
		err = oriel_signal(w, g, right, 0, ORIEL_ADD, 1);
	if (!err)
		err = oriel_wait_signal_from(w, g, left, 0, ORIEL_GE, 5);
	if (!err)
		err = oriel_barrier_arrive_wait(w, g, 0);
	wrong += !err && oriel_read_signal_from(w, left, 0) != 5;
	wrong += !err && oriel_read_signal(w, 0) != 5;
	contract_report(a, g, err, wrong);
}

static void reset_in_flight(struct contract_env *e)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 300);
	contract_launch(e, &in_flight_kernel, 1, &a);
}

CASE(signal_reset_in_flight, 0)
{
	reset_in_flight(e);
}

/* Here a zero stored to a word would be a huge count. */
CASE(signal_reset_in_flight_over_64_bits, c.window.first_count = UINT64_MAX - 20)
{
	reset_in_flight(e);
}

/* "One more" again and again: the wait names the same value for ever. */
CONTRACT_KERNEL(advance_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), n = oriel_nranks(w);
	int err = 0, i;
	uint64_t wrong = 0;

	for (i = 0; i < a->rounds && !err; i++) {
		err = oriel_signal(w, g, right, 0, ORIEL_ADD, 1);
		if (!err)
			err = oriel_wait_signal_from(w, g, left, 0, ORIEL_GE, 1);
		if (!err)
			err = oriel_signal_advance_from(w, g, left, 0, 1);
		if (!err)
			err = oriel_signal_all(w, g, 1, ORIEL_ADD, 4);
		if (!err)
			err = oriel_wait_signal(w, g, 1, (uint64_t)(n - 1) * 4);
		if (!err)
			err = oriel_signal_advance(w, g, 1, (uint64_t)(n - 1) * 4);
	}
	if (!err)
		err = oriel_barrier_arrive_wait(w, g, 0);
	wrong += !err && oriel_read_signal_from(w, left, 0) != 0;
	wrong += !err && oriel_read_signal(w, 0) != 0;
	wrong += !err && oriel_read_signal(w, 1) != 0;
	if (!err)
		err = oriel_barrier_arrive_wait(w, g, 0);
	contract_report(a, g, err, wrong);
}

static void advance(struct contract_env *e)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 50);
	contract_launch(e, &advance_kernel, 1, &a);
	contract_launch(e, &advance_kernel, 1, &a); /* the start is kept between launches */
}

CASE(signal_advance_for_ever, 0)
{
	advance(e);
}

CASE(signal_advance_over_64_bits, c.window.first_count = UINT64_MAX - 20)
{
	advance(e);
}

/* ---- many groups --------------------------------------------------------------------------- */

#define IDS 8
#define CHUNK 96

/* Every block has eight ids of its own and a chunk of data behind each signal. */
CONTRACT_KERNEL(blocks_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w);
	int err = 0, i, k;
	uint64_t wrong = 0;

	for (i = 0; i < a->rounds && !err; i++) {
		for (k = 0; k < IDS && !err; k++) {
			int id = (int)g.block * IDS + k;
			uint64_t off = (uint64_t)id * CHUNK;

			contract_fill(g, a->local + off, CHUNK, (uint64_t)(i * 1000 + id), me,
				      right);
			err = oriel_group_sync(g);
			if (!err)
				err = oriel_put_signal(w, g, right, off, &a->src, off, CHUNK, id,
						       ORIEL_ADD, (uint64_t)(k + 1));
		}
		for (k = IDS - 1; k >= 0 && !err; k--) {
			int id = (int)g.block * IDS + k;

			err = oriel_wait_signal_from(w, g, left, id, ORIEL_GE,
						     (uint64_t)(k + 1) * (uint64_t)(i + 1));
			if (!err)
				wrong += contract_wrong(g, w->buffer + id * CHUNK, CHUNK,
							(uint64_t)(i * 1000 + id), left, me);
		}
		if (!err)
			err = oriel_barrier_arrive_wait(w, g, (int)g.block);
		for (k = 0; k < IDS && !err; k++)
			wrong += oriel_read_signal(w, (int)g.block * IDS + k) !=
				 (uint64_t)(k + 1) * (uint64_t)(i + 1);
		if (!err)
			err = oriel_barrier_arrive_wait(w, g, (int)g.block);
	}
	contract_report(a, g, err, wrong);
}

CASE(signal_4_blocks, c.blocks = 4, c.window.signals = 64)
{
	struct contract_args a = contract_args(e);

	a.rounds = 5;
	contract_launch(e, &blocks_kernel, 4, &a);
}

CASE(signal_8_blocks, c.blocks = 8, c.window.signals = 64)
{
	struct contract_args a = contract_args(e);

	a.rounds = e->nranks * e->threads > 8 ? 2 : 5;
	contract_launch(e, &blocks_kernel, 8, &a);
}

/* Blocks of one rank share a word: every ADD counts. */
CONTRACT_KERNEL(shared_word_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), err = 0, i, k;
	uint64_t wrong = 0, each = (uint64_t)a->rounds * g.nblocks;

	for (i = 0; i < a->rounds && !err; i++)
		for (k = 0; k < n && !err; k++)
			err = oriel_signal(w, g, contract_right(w, k), 0, ORIEL_ADD, 1);
	for (k = 0; k < n && !err; k++)
		err = oriel_wait_signal_from(w, g, k, 0, ORIEL_GE, each);
	if (!err)
		err = oriel_wait_signal(w, g, 0, each * (uint64_t)n);
	wrong += !err && oriel_read_signal(w, 0) != each * (uint64_t)n;
	contract_report(a, g, err, wrong);
}

CASE(signal_blocks_share_a_word, c.blocks = 4)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 40);
	contract_launch(e, &shared_word_kernel, 4, &a);
}

/* Threads of a block as groups of one, each with its own calls. */
ORIEL_KERNEL(lone_threads_kernel, struct contract_args)
{
	struct oriel_group block = oriel_group_block(), g = oriel_group_thread();
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), err = 0, i, k;
	uint64_t wrong = 0, each = (uint64_t)a->rounds * block.size;

	for (i = 0; i < a->rounds && !err; i++)
		for (k = 0; k < n && !err; k++)
			err = oriel_signal(w, g, contract_right(w, k), 0, ORIEL_ADD, 1);
	for (k = 0; k < n && !err; k++)
		err = oriel_wait_signal_from(w, g, contract_left(w, k), 0, ORIEL_EQ, each);
	wrong += !err && oriel_read_signal(w, 0) != each * (uint64_t)n;
	contract_report(a, block, err, wrong);
	return err;
}

CASE(signal_by_lone_threads, 0)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 40);
	contract_launch(e, &lone_threads_kernel, 1, &a);
}

/* Half the blocks signal, the other half wait; ping and pong in both directions at once. */
ORIEL_KERNEL(ping_pong_kernel, struct contract_args)
{
	struct oriel_group block = oriel_group_block(), g = oriel_group_warp();
	const struct oriel_window_dev *w = &a->win;
	int peer = contract_right(w, 1), from = contract_left(w, 1), id = (int)g.block, err = 0;
	uint64_t i, rounds = (uint64_t)a->rounds;

	if (block.thread >= 32) { /* of a GPU's larger blocks the first warp plays */
		contract_report(a, block, 0, 0);
		return 0;
	}
	for (i = 1; i <= rounds && !err; i++) {
		err = oriel_signal(w, g, peer, id, ORIEL_ADD, 1);
		if (!err)
			err = oriel_wait_signal_from(w, g, from, id, ORIEL_GE, i);
		if (!err) /* back to where it came from */
			err = oriel_signal(w, g, from, 8 + id, ORIEL_SET, i);
		if (!err)
			err = oriel_wait_signal_from(w, g, peer, 8 + id, ORIEL_GE, i);
	}
	contract_report(a, g, err, !err && oriel_read_signal_from(w, peer, 8 + id) != rounds);
	return err;
}

CASE(signal_ping_pong, c.blocks = 2)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 100);
	contract_launch(e, &ping_pong_kernel, 2, &a);
}
