/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/order.c - contract of order and completion: signal after put, fence, flush and
 * tickets.  Each round has different bytes, so data that comes too early or too late is seen.
 */
#include "contract.h"

#define MESSAGE 72
#define DEPTH 4

enum {
	PUT_SIGNAL,
	PUT_THEN_SIGNAL,
	VALUE_THEN_SIGNAL,
	PUT_FENCE_SIGNAL,
	PUT_FLUSH_SIGNAL,
	PUT_SET,
	PUT_THEN_SET,
};

/* Message number `n` at `off`, and that it is there on signal `id`. */
ORIEL_DEV int pass(const struct contract_args *a, struct oriel_group g, int peer, uint64_t off,
		   int id, uint64_t n)
{
	const struct oriel_window_dev *w = &a->win;
	int err;

	if (a->mode == PUT_SIGNAL)
		return oriel_put_signal(w, g, peer, off, &a->src, off, a->bytes, id, ORIEL_ADD, 1);
	if (a->mode == PUT_SET)
		return oriel_put_signal(w, g, peer, off, &a->src, off, a->bytes, id, ORIEL_SET, n);
	if (a->mode == VALUE_THEN_SIGNAL)
		err = oriel_put_value(w, g, peer, off, a->local + off, a->bytes);
	else
		err = oriel_put(w, g, peer, off, &a->src, off, a->bytes);
	if (!err && a->mode == PUT_FENCE_SIGNAL)
		err = oriel_fence(w, g, peer);
	if (!err && a->mode == PUT_FLUSH_SIGNAL)
		err = oriel_flush(w, g, peer);
	if (!err && a->mode == PUT_THEN_SET)
		return oriel_signal(w, g, peer, id, ORIEL_SET, n);
	return err ? err : oriel_signal(w, g, peer, id, ORIEL_ADD, 1);
}

/*
 * Message passing to the right through four places of the block; the way back (id + 1) frees them.
 */
CONTRACT_KERNEL(litmus_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w);
	int err = 0, i, id = 2 * (int)g.block;
	uint64_t wrong = 0, off;

	for (i = 0; i < a->rounds && !err; i++) {
		off = ((uint64_t)g.block * DEPTH + (uint64_t)(i % DEPTH)) * MESSAGE;
		if (i >= DEPTH)
			err = oriel_wait_signal_from(w, g, right, id + 1, ORIEL_GE,
						     (uint64_t)(i - DEPTH + 1));
		/* delivered is not complete: a NIC may still read the sources of the last lap */
		if (!err && i % DEPTH == 0)
			err = oriel_flush(w, g, right);
		if (!err) {
			contract_fill(g, a->local + off, a->bytes, (uint64_t)i, me, right);
			err = oriel_group_sync(g);
		}
		if (!err)
			err = pass(a, g, right, off, id, (uint64_t)i + 1);
		if (!err)
			err = oriel_wait_signal_from(w, g, left, id, ORIEL_GE, (uint64_t)i + 1);
		if (!err)
			wrong += contract_wrong(g, w->buffer + off, a->bytes, (uint64_t)i, left,
						me);
		if (!err)
			err = oriel_signal(w, g, left, id + 1, ORIEL_ADD, 1);
	}
	contract_report(a, g, err, wrong);
}

static void litmus(struct contract_env *e, int mode, int rounds, int nblocks)
{
	struct contract_args a = contract_args(e);

	a.mode = mode;
	a.bytes = mode == VALUE_THEN_SIGNAL ? 28 : MESSAGE;
	a.rounds = contract_rounds(e, rounds);
	contract_launch(e, &litmus_kernel, nblocks, &a);
}

CASE(order_put_signal, c.shape = CONTRACT_FULL)
{
	litmus(e, PUT_SIGNAL, 2000, 1);
}

CASE(order_put_then_signal, 0)
{
	litmus(e, PUT_THEN_SIGNAL, 2000, 1);
}

CASE(order_value_then_signal, 0)
{
	litmus(e, VALUE_THEN_SIGNAL, 500, 1);
}

CASE(order_put_fence_signal, 0)
{
	litmus(e, PUT_FENCE_SIGNAL, 500, 1);
}

CASE(order_put_flush_signal, 0)
{
	litmus(e, PUT_FLUSH_SIGNAL, 500, 1);
}

CASE(order_put_set, 0)
{
	litmus(e, PUT_SET, 500, 1);
}

CASE(order_put_then_set, 0)
{
	litmus(e, PUT_THEN_SET, 500, 1);
}

/* Blocks use different lanes, and so different NICs where there are several. */
CASE(order_blocks_put_signal, c.blocks = 4)
{
	litmus(e, PUT_SIGNAL, 200, 4);
}

CASE(order_blocks_put_set, c.blocks = 4)
{
	litmus(e, PUT_SET, 200, 4);
}

/*
 * SET and ADD of a block take different paths.  A reader that sees the later one sees the earlier
 * one.
 */
CONTRACT_KERNEL(set_add_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), id = 2 * (int)g.block;
	int err = 0, i;
	uint64_t wrong = 0, n;

	for (i = 1; i <= a->rounds && !err; i++) {
		n = (uint64_t)i;
		err = oriel_signal(w, g, right, id, ORIEL_SET, n);
		if (!err)
			err = oriel_signal(w, g, right, id + 1, ORIEL_ADD, 1);
		if (!err)
			err = oriel_wait_signal_from(w, g, left, id + 1, ORIEL_GE, n);
		wrong += !err && oriel_read_signal_from(w, left, id) < n;
	}
	contract_report(a, g, err, wrong);
}

CASE(order_blocks_set_then_add, c.blocks = 4)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 100);
	contract_launch(e, &set_add_kernel, 4, &a);
}

/* ---- puts over puts, puts over gets -------------------------------------------------------- */

/*
 * Two puts to the same bytes: the later one stays, whatever their sizes; with a fence between if
 * asked.
 */
CONTRACT_KERNEL(overwrite_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w);
	int err = 0, i;
	uint64_t wrong = 0, old, fresh;

	for (i = 1; i <= a->rounds && !err; i++) {
		old = (uint64_t)i * 2;
		fresh = old + 1;
		contract_fill(g, a->local, 6000, old, me, right);
		contract_fill(g, a->local + 8192, 3000, fresh, me, right);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_put(w, g, right, 0, &a->src, 0, 6000);
		if (!err && a->mode)
			err = oriel_fence(w, g, right);
		if (!err)
			err = oriel_put(w, g, right, 0, &a->src, 8192, 3000);
		if (!err)
			err = oriel_signal(w, g, right, 0, ORIEL_ADD, 1);
		if (!err)
			err = oriel_wait_signal_from(w, g, left, 0, ORIEL_GE, (uint64_t)i);
		if (!err) {
			uint64_t k;

			wrong += contract_wrong(g, w->buffer, 3000, fresh, left, me);
			for (k = 3000 + g.thread; k < 6000; k += g.size)
				wrong += w->buffer[k] != contract_byte(old, left, me, k);
			err = oriel_barrier(w, g, 0);
		}
	}
	contract_report(a, g, err, wrong);
}

static int is_unordered(struct contract_env *e, const struct oriel_comm_peer *where)
{
	struct oriel_comm_peer peer;
	struct oriel_link link;

	contract_read(e, &peer, where, sizeof(peer));
	if (!peer.link)
		return 0;
	contract_read(e, &link, peer.link, sizeof(link));
	return !(link.flags & ORIEL_LINK_WRITES_ORDERED);
}

/* Is there a peer behind a NIC that does not keep order? */
static int unordered(struct contract_env *e)
{
	struct oriel_comm_dev dev;

	if (oriel_comm_device(e->comm, &dev))
		return 0;
	for (int r = 0; r < e->nranks; r++)
		if (is_unordered(e, &dev.peers[r]))
			return 1;
	return 0;
}

CASE(order_put_over_put, 0)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 30);
	a.mode = unordered(e);
	contract_launch(e, &overwrite_kernel, 1, &a);
}

CASE(order_put_fence_put, 0)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 30);
	a.mode = 1;
	contract_launch(e, &overwrite_kernel, 1, &a);
}

/* Takes the neighbour's bytes and, after a fence, puts new ones over them. */
CONTRACT_KERNEL(read_write_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w);
	int err, i;
	uint64_t wrong = 0;

	contract_fill(g, w->buffer, a->bytes, 0, left, me);
	err = oriel_barrier(w, g, 0);
	for (i = 1; i <= a->rounds && !err; i++) {
		contract_fill(g, a->local, a->bytes, (uint64_t)i, me, right);
		contract_set(g, a->local + 16384, a->bytes, CONTRACT_GUARD);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_get_nbi(w, g, right, 0, &a->src, 16384, a->bytes);
		if (!err)
			err = oriel_fence(w, g, right);
		if (!err)
			err = oriel_put(w, g, right, 0, &a->src, 0, a->bytes);
		if (!err)
			err = oriel_flush(w, g, right);
		if (!err) /* what was there before my put */
			wrong += contract_wrong(g, a->local + 16384, a->bytes, (uint64_t)i - 1, me,
						right);
		/* and after a fence a get sees my put */
		if (!err)
			err = oriel_group_sync(g);
		if (!err)
			err = oriel_get(w, g, right, 0, &a->src, 16384, a->bytes);
		if (!err)
			wrong += contract_wrong(g, a->local + 16384, a->bytes, (uint64_t)i, me,
						right);
		if (!err)
			err = oriel_barrier(w, g, 0);
		if (!err)
			wrong += contract_wrong(g, w->buffer, a->bytes, (uint64_t)i, left, me);
		if (!err)
			err = oriel_barrier(w, g, 0);
	}
	contract_report(a, g, err, wrong);
}

CASE(order_put_over_get_after_fence, 0)
{
	struct contract_args a = contract_args(e);

	a.bytes = 5003;
	a.rounds = contract_rounds(e, 30);
	contract_launch(e, &read_write_kernel, 1, &a);
}

/* ---- flush: third parties ------------------------------------------------------------------ */

/* I put to my right neighbour, flush, and tell my left one, who reads it there. */
CONTRACT_KERNEL(third_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w);
	int teller = right, where = contract_right(w, 2), err = 0, i;
	uint64_t wrong = 0;

	for (i = 1; i <= a->rounds && !err; i++) {
		contract_fill(g, a->local, a->bytes, (uint64_t)i, me, right);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_put(w, g, right, 0, &a->src, 0, a->bytes);
		if (!err)
			err = i % 2 ? oriel_flush(w, g, right) : oriel_flush_all(w, g);
		if (!err)
			err = oriel_signal(w, g, left, 0, ORIEL_ADD, 1);
		if (!err)
			err = oriel_wait_signal_from(w, g, teller, 0, ORIEL_GE, (uint64_t)i);
		if (!err)
			err = oriel_get(w, g, where, 0, &a->src, 16384, a->bytes);
		if (!err)
			wrong += contract_wrong(g, a->local + 16384, a->bytes, (uint64_t)i, teller,
						where);
		if (!err)
			err = oriel_barrier(w, g, 0);
	}
	contract_report(a, g, err, wrong);
}

CASE(order_flush_shows_third_parties, 0)
{
	struct contract_args a = contract_args(e);

	a.bytes = 1500;
	a.rounds = contract_rounds(e, 40);
	contract_launch(e, &third_kernel, 1, &a);
}

/* ---- tickets ------------------------------------------------------------------------------- */

/* Two puts with a ticket each; after waiting for one its source is written over. */
CONTRACT_KERNEL(ticket_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w);
	struct oriel_ticket first, second;
	int err = 0, i;
	uint64_t wrong = 0;

	for (i = 1; i <= a->rounds && !err; i++) {
		contract_fill(g, a->local, a->bytes, (uint64_t)i, me, right);
		contract_fill(g, a->local + 16384, a->bytes, (uint64_t)i + 5000, me, right);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_put(w, g, right, 0, &a->src, 0, a->bytes);
		if (!err)
			err = oriel_take_ticket(w, g, right, &first);
		if (!err)
			err = oriel_put(w, g, right, 16384, &a->src, 16384, a->bytes);
		if (!err)
			err = oriel_take_ticket(w, g, right, &second);
		if (!err)
			err = oriel_wait_local(w, g, &first, 10000000000ull);
		if (!err)
			contract_set(g, a->local, a->bytes, CONTRACT_GUARD);
		if (!err)
			err = oriel_wait_local(w, g, &second, 10000000000ull);
		if (!err)
			contract_set(g, a->local + 16384, a->bytes, CONTRACT_GUARD);
		if (!err) /* a ticket may be waited for again */
			err = oriel_wait_local(w, g, &first, 10000000000ull);
		if (!err)
			err = oriel_barrier(w, g, 0);
		if (!err) {
			wrong += contract_wrong(g, w->buffer, a->bytes, (uint64_t)i, left, me);
			wrong += contract_wrong(g, w->buffer + 16384, a->bytes, (uint64_t)i + 5000,
						left, me);
			err = oriel_barrier(w, g, 0);
		}
	}
	contract_report(a, g, err, wrong);
}

CASE(order_tickets, 0)
{
	struct contract_args a = contract_args(e);

	a.bytes = 4097;
	a.rounds = contract_rounds(e, 30);
	contract_launch(e, &ticket_kernel, 1, &a);
}

/* A ticket of nothing, and flushes of nothing, are there at once. */
CONTRACT_KERNEL(nothing_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	struct oriel_ticket t;
	int err = 0, k;

	for (k = 0; k < oriel_nranks(w) && !err; k++) {
		err = oriel_take_ticket(w, g, k, &t);
		if (!err)
			err = oriel_wait_local(w, g, &t, 1000000000ull);
		if (!err)
			err = oriel_fence(w, g, k);
		if (!err)
			err = oriel_flush(w, g, k);
	}
	if (!err)
		err = oriel_flush_all(w, g);
	contract_report(a, g, err, 0);
}

CASE(order_of_nothing, 0)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &nothing_kernel, 1, &a);
}
