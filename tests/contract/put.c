/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/put.c - contract of puts and gets: sizes, alignment, addressed bytes only, every
 * peer and self, values, several blocks.  Order and completion are order.c and counter.c.
 */
#include "contract.h"

#define GUARD 64 /* bytes before and after every region that must stay as they were */
#define MAX_SIZE 4097
#define REGION 4352 /* GUARD + 8 + MAX_SIZE + 8 + GUARD, rounded */

enum { PUT, PUT_SIGNAL, PUT_COUNTER, PUT_SIGNAL_COUNTER, GET, GET_NBI };

/* round -> size and offsets; 8 sizes times 6 pairs of offsets */
ORIEL_DEV uint64_t size_of(int round)
{
	const uint64_t sizes[8] = { 0, 1, 15, 16, 17, 4095, 4096, 4097 };

	return sizes[round % 8];
}

ORIEL_DEV uint64_t src_off_of(int round)
{
	const uint64_t offs[6] = { 0, 1, 0, 3, 8, 1 };

	return offs[(round / 8 + round) % 6];
}

ORIEL_DEV uint64_t dst_off_of(int round)
{
	const uint64_t offs[6] = { 0, 0, 3, 1, 8, 8 };

	return offs[(round / 8 + round) % 6];
}

ORIEL_DEV int move_one(const struct contract_args *a, struct oriel_group g, int peer, int round)
{
	const struct oriel_window_dev *w = &a->win;
	uint64_t dst = (uint64_t)oriel_rank(w) * REGION + GUARD + dst_off_of(round);
	uint64_t src = (uint64_t)peer * REGION + GUARD + src_off_of(round);
	uint64_t bytes = size_of(round);

	switch (a->mode) {
	case PUT:
		return oriel_put(w, g, peer, dst, &a->src, src, bytes);
	case PUT_SIGNAL:
		return oriel_put_signal(w, g, peer, dst, &a->src, src, bytes, 1, ORIEL_ADD, 1);
	case PUT_COUNTER:
		return oriel_put_counter(w, g, peer, dst, &a->src, src, bytes, 2);
	case PUT_SIGNAL_COUNTER:
		return oriel_put_signal_counter(w, g, peer, dst, &a->src, src, bytes, 1, ORIEL_ADD,
						1, 2);
	case GET: /* the peer's region of me, into my region of it */
		return oriel_get(w, g, peer, dst, &a->src, src, bytes);
	default:
		return oriel_get_nbi(w, g, peer, dst, &a->src, src, bytes);
	}
}

/* What must have happened before the receiver looks, without any barrier. */
ORIEL_DEV int arrived(const struct contract_args *a, struct oriel_group g, int from, int to,
		      uint64_t count)
{
	int err = 0;

	if (a->mode == PUT_SIGNAL || a->mode == PUT_SIGNAL_COUNTER)
		err = oriel_wait_signal_from(&a->win, g, from, 1, ORIEL_GE, count);
	if (!err && (a->mode == PUT_COUNTER || a->mode == PUT_SIGNAL_COUNTER))
		err = oriel_wait_counter(&a->win, g, to, 2, ORIEL_EQ, count);
	return err;
}

/* `memory` holds one region for each peer; here the one of `from`. */
ORIEL_DEV uint64_t region_wrong(struct oriel_group g, const uint8_t *region, uint64_t off,
				int round, int from, int to)
{
	uint64_t bytes = size_of(round), wrong;

	wrong = contract_not(g, region, GUARD + off, CONTRACT_GUARD);
	wrong += contract_wrong(g, region + GUARD + off, bytes, (uint64_t)round, from, to);
	wrong += contract_not(g, region + GUARD + off + bytes, REGION - GUARD - off - bytes,
			      CONTRACT_GUARD);
	return wrong;
}

/* Fills the side that is read from and guards the side that is written. */
ORIEL_DEV void prepare(const struct contract_args *a, struct oriel_group g, int round)
{
	int gets = a->mode >= GET, me = oriel_rank(&a->win), peer;
	uint64_t off = gets ? dst_off_of(round) : src_off_of(round);
	uint8_t *from = gets ? a->win.buffer : a->local, *to = gets ? a->local : a->win.buffer;

	for (peer = 0; peer < oriel_nranks(&a->win); peer++) {
		contract_set(g, to + (uint64_t)peer * REGION, REGION, CONTRACT_GUARD);
		contract_fill(g, from + (uint64_t)peer * REGION + GUARD + off, size_of(round),
			      (uint64_t)round, me, peer);
	}
}

/* Every rank moves to (from) every rank, itself included; a stale or misplaced byte is seen. */
CONTRACT_KERNEL(move_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), me = oriel_rank(w), gets = a->mode >= GET, err = 0, i, k;
	uint64_t wrong = 0;

	for (i = 0; i < a->rounds && !err; i++) {
		int round = i * (int)a->value; /* a step coprime to the table's 48 rows */

		prepare(a, g, round);
		err = oriel_barrier(w, g, 0);
		for (k = 0; k < n && !err; k++)
			err = move_one(a, g, contract_right(w, k), round);
		for (k = 0; k < n && !err; k++)
			err = arrived(a, g, contract_left(w, k), contract_right(w, k),
				      (uint64_t)i + 1);
		if (!err && (a->mode == GET_NBI))
			err = oriel_flush_all(w, g);
		if (!err && (a->mode == PUT || a->mode == PUT_COUNTER))
			err = oriel_barrier(w, g, 0);
		for (k = 0; k < n && !err; k++)
			wrong += region_wrong(g,
					      (gets ? a->local : w->buffer) + (uint64_t)k * REGION,
					      gets ? src_off_of(round) : dst_off_of(round), round,
					      k, me);
		/* nobody guards or fills again before all have looked */
		if (!err)
			err = oriel_barrier(w, g, 1);
	}
	contract_report(a, g, err, wrong);
}

static void move_all(struct contract_env *e, int mode)
{
	struct contract_args a = contract_args(e);

	a.mode = mode;
	a.rounds = contract_rounds(e, 48);
	if (a.rounds < 8 && e->nranks * e->threads <= 64)
		a.rounds = 8;
	a.value = a.rounds < 48 ? 5 : 1;
	contract_launch(e, &move_kernel, 1, &a);
}

CASE(put_sizes, c.shape = CONTRACT_FULL)
{
	move_all(e, PUT);
}

CASE(put_signal_sizes, 0)
{
	move_all(e, PUT_SIGNAL);
}

CASE(put_counter_sizes, 0)
{
	move_all(e, PUT_COUNTER);
}

CASE(put_signal_counter_sizes, 0)
{
	move_all(e, PUT_SIGNAL_COUNTER);
}

CASE(get_sizes, 0)
{
	move_all(e, GET);
}

CASE(get_nbi_sizes, 0)
{
	move_all(e, GET_NBI);
}

/* ---- large, and up to the last byte of the window ------------------------------------------ */

#define LARGE ((1u << 20) / (CONTRACT_SLOW * CONTRACT_SLOW))

/* Puts `bytes` to the right at dst_off, then reads the same bytes back with a get. */
CONTRACT_KERNEL(large_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w), err;
	uint64_t wrong = 0, end = a->dst_off + a->bytes;

	contract_set(g, w->buffer, w->bytes, CONTRACT_GUARD);
	contract_fill(g, a->local + a->src_off, a->bytes, 7, me, right);
	err = oriel_barrier(w, g, 0);
	if (!err)
		err = oriel_put_signal(w, g, right, a->dst_off, &a->src, a->src_off, a->bytes, 0,
				       ORIEL_ADD, 1);
	if (!err)
		err = oriel_wait_signal_from(w, g, left, 0, ORIEL_GE, a->value);
	if (!err) {
		wrong += contract_not(g, w->buffer, a->dst_off, CONTRACT_GUARD);
		wrong += contract_wrong(g, w->buffer + a->dst_off, a->bytes, 7, left, me);
		wrong += contract_not(g, w->buffer + end, w->bytes - end, CONTRACT_GUARD);
		err = oriel_flush(w, g, right); /* the source is mine again */
	}
	if (!err) {
		contract_set(g, a->local, a->src.bytes, 0);
		err = oriel_group_sync(g);
	}
	if (!err)
		err = oriel_get(w, g, right, a->dst_off, &a->src, a->src_off, a->bytes);
	if (!err) {
		wrong += contract_wrong(g, a->local + a->src_off, a->bytes, 7, me, right);
		err = oriel_barrier(w, g, 0);
	}
	contract_report(a, g, err, wrong);
}

CASE(put_large, c.window.bytes = LARGE + 64)
{
	const uint64_t offs[4][2] = { { 0, 0 }, { 1, 0 }, { 0, 3 }, { 3, 8 } };
	struct contract_args a = contract_args(e);
	int n = e->nranks * e->threads > 64 ? 2 : 4;

	for (int i = 0; i < n; i++) {
		a.src_off = offs[i][0];
		a.dst_off = offs[i][1];
		a.bytes = LARGE - (uint64_t)i;
		a.value = (uint64_t)i + 1;
		contract_launch(e, &large_kernel, 1, &a);
	}
}

CASE(put_to_the_last_byte, c.window.bytes = 4099)
{
	const uint64_t bytes[4] = { 4099, 4098, 16, 1 };
	struct contract_args a = contract_args(e);

	for (int i = 0; i < 4; i++) {
		a.bytes = bytes[i];
		a.src_off = a.dst_off = e->bytes - a.bytes;
		a.value = (uint64_t)i + 1;
		contract_launch(e, &large_kernel, 1, &a);
	}
}

/* ---- values -------------------------------------------------------------------------------- */

/* Slot k of my buffer belongs to rank k: 28 bytes and guards on both sides. */
CONTRACT_KERNEL(value_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), me = oriel_rank(w), err = 0, i, k, b, bytes;
	uint64_t wrong = 0;
	uint8_t value[28];

	for (i = 0; i < a->rounds && !err; i++) {
		bytes = 1 + (i * 5) % 28;
		contract_set(g, w->buffer, (uint64_t)n * 64, CONTRACT_GUARD);
		err = oriel_barrier(w, g, 0);
		for (k = 0; k < n && !err; k++) {
			/* only the leader's bytes count */
			for (b = 0; b < 28; b++)
				value[b] =
					(uint8_t)(contract_byte((uint64_t)i, me, k, (uint64_t)b) +
						  g.thread);
			err = oriel_put_value(w, g, k, (uint64_t)me * 64 + 16 + (uint64_t)(i % 5),
					      value, (uint64_t)bytes);
		}
		if (!err)
			err = oriel_barrier(w, g, 0);
		for (k = 0; k < n && !err; k++) {
			const uint8_t *slot = w->buffer + k * 64 + 16 + i % 5;

			wrong += contract_not(g, slot - 16 - i % 5, (uint64_t)(16 + i % 5),
					      CONTRACT_GUARD);
			wrong += contract_wrong(g, slot, (uint64_t)bytes, (uint64_t)i, k, me);
			wrong += contract_not(g, slot + bytes, (uint64_t)(48 - i % 5 - bytes),
					      CONTRACT_GUARD);
		}
		/* every thread gets every byte of what I put to each peer, and no more */
		for (k = 0; k < n && !err; k++) {
			memset(value, CONTRACT_GUARD, sizeof(value));
			err = oriel_get_value(w, g, k, (uint64_t)me * 64 + 16 + (uint64_t)(i % 5),
					      value, (uint64_t)bytes);
			for (b = 0; b < 28 && !err; b++)
				wrong += value[b] != (b < bytes ? contract_byte((uint64_t)i, me, k,
										(uint64_t)b) :
								  CONTRACT_GUARD);
		}
		if (!err)
			err = oriel_barrier(w, g, 0);
	}
	contract_report(a, g, err, wrong);
}

CASE(values, 0)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 28);
	contract_launch(e, &value_kernel, 1, &a);
}

/* ---- blocks -------------------------------------------------------------------------------- */

#define TILE 3001

/* Each block moves its own tile to the right and nothing of its neighbours'. */
CONTRACT_KERNEL(tile_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w);
	int id = (int)g.block, err = 0, i;
	uint64_t off = (uint64_t)g.block * TILE, round, wrong = 0;

	for (i = 0; i < a->rounds && !err; i++) {
		round = (uint64_t)i * 100 + g.block;
		contract_fill(g, a->local + off, TILE, round, me, right);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_put_signal(w, g, right, off, &a->src, off, TILE, id, ORIEL_ADD,
					       1);
		if (!err)
			err = oriel_wait_signal_from(w, g, left, id, ORIEL_GE, (uint64_t)i + 1);
		if (!err) {
			wrong += contract_wrong(g, w->buffer + off, TILE, round, left, me);
			err = oriel_barrier(w, g, id);
		}
	}
	contract_report(a, g, err, wrong);
}

CASE(put_tiles_of_blocks, c.blocks = 8)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 20);
	contract_launch(e, &tile_kernel, 8, &a);
	CHECK_EQ(contract_bytes_not(e, e->buffer + 8 * TILE, 0, e->bytes - 8 * TILE), 0);
}
