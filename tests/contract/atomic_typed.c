/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/atomic_typed.c - contract of atomics on elements of 1, 2, 4 and 8 bytes: all
 * operations of all types, nothing lost between ranks, and neighbours in the same 8 bytes stay as
 * they are.
 */
#include "contract.h"

/* Each transport is atomic only within itself: the ranks behind queues have words of their own. */
#define APART 4096

ORIEL_DEV uint64_t at_peer(const struct contract_args *a, int peer, uint64_t offset)
{
	return offset + (oriel_peer_kind(&a->win, peer) == ORIEL_PEER_QUEUED ? (uint64_t)APART : 0);
}

/* ---- sums ---------------------------------------------------------------------------------- */

/* One element of each type and width; the narrow ones share 8 bytes. */
struct element {
	uint64_t offset;
	int32_t type;
};

#define ELEMENTS 9
ORIEL_DEV struct element element_of(int i)
{
	static const int8_t offsets[ELEMENTS] = { 0, 1, 2, 4, 8, 12, 16, 24, 32 };
	static const int8_t types[ELEMENTS] = { ORIEL_TYPE_INT8,  ORIEL_TYPE_UINT8,
						ORIEL_TYPE_INT16, ORIEL_TYPE_UINT32,
						ORIEL_TYPE_FLOAT, ORIEL_TYPE_INT32,
						ORIEL_TYPE_INT64, ORIEL_TYPE_DOUBLE,
						ORIEL_TYPE_UINT16 };
	struct element e;

	e.offset = (uint64_t)offsets[i];
	e.type = types[i];
	return e;
}

/* The bits of 1 and of -1 in the type. */
ORIEL_DEV uint64_t bits_of(int type, int number)
{
	float f = (float)number;
	double d = number;
	uint32_t low;
	uint64_t bits;

	if (type == ORIEL_TYPE_FLOAT) {
		memcpy(&low, &f, sizeof(low));
		return low;
	}
	memcpy(&bits, &d, sizeof(bits));
	return type == ORIEL_TYPE_DOUBLE ? bits : (uint64_t)(int64_t)number;
}

CONTRACT_KERNEL(sum_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int n = oriel_nranks(w), err = 0, i, k, e;

	for (i = 0; i < a->rounds && !err; i++)
		for (k = 0; k < n && !err; k++)
			for (e = 0; e < ELEMENTS && !err; e++) {
				struct element el = element_of(e);
				int peer = contract_right(w, k);

				err = oriel_atomic(w, g, peer, at_peer(a, peer, el.offset), el.type,
						   ORIEL_ATOMIC_ADD, 0, bits_of(el.type, 1), NULL);
			}
	contract_report(a, g, err, 0);
}

static void check_element(struct contract_env *e, int i, uint64_t base, uint64_t count)
{
	struct element el = element_of(i);
	uint64_t have = 0, want = bits_of(el.type, (int)count);

	contract_read(e, &have, e->buffer + base + el.offset, oriel_type_bytes(el.type));
	CHECK_EQ(ori_type_extend(el.type, have), ori_type_extend(el.type, want));
}

/* Sums of int8 wrap in long runs, which is part of the contract. */
static void sum_all(struct contract_env *e, int nblocks, int n)
{
	struct contract_args a = contract_args(e);
	uint64_t near = (uint64_t)oriel_comm_node_size(e->comm, e->rank), each;
	uint64_t far = (uint64_t)e->nranks - near;

	a.rounds = contract_rounds(e, n);
	each = (uint64_t)a.rounds * (uint64_t)nblocks;
	contract_launch(e, &sum_kernel, nblocks, &a);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	for (int i = 0; i < ELEMENTS; i++) {
		check_element(e, i, 0, near * each);
		check_element(e, i, APART, far * each);
	}
	CHECK_EQ(contract_bytes_not(e, e->buffer + 3, 0, 1), 0); /* between two of them */
	CHECK_EQ(contract_bytes_not(e, e->buffer + 34, 0, 6), 0);
}

CASE(typed_sum, c.shape = CONTRACT_FULL)
{
	sum_all(e, 1, 20);
}

CASE(typed_sum_from_blocks, c.blocks = 4)
{
	sum_all(e, 4, 6);
}

/* ---- every operation ----------------------------------------------------------------------- */

/* The kernel makes the steps on a word of its own at each peer; the old values are known. */
ORIEL_DEV uint64_t step(const struct contract_args *a, struct oriel_group g, int peer, int type,
			uint64_t offset, int op, uint64_t expected, uint64_t value, uint64_t old,
			int *err)
{
	uint64_t have = 0x1111;

	if (*err)
		return 0;
	*err = oriel_atomic(&a->win, g, peer, offset, type, op, expected, value, &have);
	return !*err && have != ori_type_extend(type, old);
}

ORIEL_DEV uint64_t integer_steps(const struct contract_args *a, struct oriel_group g, int peer,
				 int type, uint64_t at, int *err)
{
	uint64_t wrong = 0;

	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_FETCH, 0, 99, 0, err);
	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_SET, 0, 0x5c, 0, err);
	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_AND, 0, 0x3f, 0x5c, err);
	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_OR, 0, 0x21, 0x1c, err);
	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_XOR, 0, (uint64_t)-1, 0x3d, err);
	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_ADD, 0, 2, ~0x3dull, err);
	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_COMPARE_SWAP, 5, 6, ~0x3bull, err);
	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_COMPARE_SWAP, ~0x3bull, 7, ~0x3bull, err);
	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_SWAP, 0, (uint64_t)-3, 7, err);
	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_FETCH, 0, 0, (uint64_t)-3, err);
	return wrong;
}

ORIEL_DEV uint64_t floating_steps(const struct contract_args *a, struct oriel_group g, int peer,
				  int type, uint64_t at, int *err)
{
	uint64_t one = bits_of(type, 1), two = bits_of(type, 2), wrong = 0;

	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_SET, 0, two, 0, err);
	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_ADD, 0, bits_of(type, -5), two, err);
	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_FETCH, 0, 0, bits_of(type, -3), err);
	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_COMPARE_SWAP, one, two, bits_of(type, -3),
		      err);
	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_COMPARE_SWAP, bits_of(type, -3), one,
		      bits_of(type, -3), err);
	wrong += step(a, g, peer, type, at, ORIEL_ATOMIC_SWAP, 0, bits_of(type, 9), one, err);
	return wrong;
}

#define STEPS_OFF 1024
#define STEPS_STRIDE 128 /* words of a rank */

CONTRACT_KERNEL(steps_kernel)
{
	uint64_t wrong = 0, base = STEPS_OFF + STEPS_STRIDE * (uint64_t)oriel_rank(&a->win), at;
	int err = 0, k, type;

	for (k = 0; k < oriel_nranks(&a->win) && !err; k++)
		for (type = ORIEL_TYPE_INT8; type <= ORIEL_TYPE_DOUBLE && !err; type++) {
			/* in the middle of 8 bytes, and at their end */
			at = base + (uint64_t)(type - 1) * 8 + 8 - oriel_type_bytes(type);
			if (type == ORIEL_TYPE_HALF || type == ORIEL_TYPE_BFLOAT16)
				continue;
			if (type <= ORIEL_TYPE_UINT64)
				wrong += integer_steps(a, g, k, type, at, &err);
			else
				wrong += floating_steps(a, g, k, type, at, &err);
		}
	contract_report(a, g, err, wrong);
}

CASE(typed_steps, c.shape = CONTRACT_FULL)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &steps_kernel, 1, &a);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	for (int r = 0; r < e->nranks; r++) {
		uint8_t *mine = e->buffer + STEPS_OFF + STEPS_STRIDE * r;

		/* the other 7 bytes around the int8, and the other 4 around the float */
		CHECK_EQ(contract_bytes_not(e, mine, 0, 7), 0);
		CHECK_EQ(contract_bytes_not(e, mine + 80, 0, 4), 0);
	}
}

/* ---- from the host ------------------------------------------------------------------------- */

CASE(typed_host, c.shape = CONTRACT_HOST)
{
	/* 8 bytes per rank: mapped and queued ranks must not share them */
	uint64_t *old = (uint64_t *)(void *)(e->local + 40000), off = 8 * (uint64_t)e->rank + 2;

	for (int k = 0; k < e->nranks; k++) {
		REQUIRE_OK(oriel_window_atomic(e->window, k, off, ORIEL_TYPE_INT16,
					       ORIEL_ATOMIC_SET, 0, 0xfff0, old, NULL));
		CHECK_EQ(contract_word(e, old), 0);
		REQUIRE_OK(oriel_window_atomic(e->window, k, off, ORIEL_TYPE_INT16,
					       ORIEL_ATOMIC_ADD, 0, 0x11, old, NULL));
		CHECK_EQ(contract_word(e, old), (uint64_t)-16);
		REQUIRE_OK(oriel_window_atomic(e->window, k, off, ORIEL_TYPE_UINT16,
					       ORIEL_ATOMIC_OR, 0, 0x100, NULL, NULL));
	}
	REQUIRE_OK(oriel_comm_sync(e->comm, NULL));
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	for (int k = 0; k < e->nranks; k++) {
		uint16_t have = 0;

		contract_read(e, &have, e->buffer + 8 * k + 2, sizeof(have));
		CHECK_EQ(have, 0x101);
	}
}

CASE(typed_refused, c.shape = CONTRACT_HOST)
{
	struct oriel_window *w = e->window;
	int n = e->nranks, t32 = ORIEL_TYPE_INT32, add = ORIEL_ATOMIC_ADD;

	CHECK_EQ(oriel_window_atomic(NULL, 0, 0, t32, add, 0, 1, NULL, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_atomic(w, n, 0, t32, add, 0, 1, NULL, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_atomic(w, -1, 0, t32, add, 0, 1, NULL, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_atomic(w, 0, e->bytes, t32, add, 0, 1, NULL, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_atomic(w, n - 1, 2, t32, add, 0, 1, NULL, NULL), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "aligned to its size");
	CHECK_EQ(oriel_window_atomic(w, 0, 0, t32, 0, 0, 1, NULL, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_atomic(w, 0, 0, t32, 9, 0, 1, NULL, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_atomic(w, 0, 0, ORIEL_TYPE_HALF, add, 0, 1, NULL, NULL),
		 ORIEL_EINVAL);
	CHECK_EQ(oriel_window_atomic(w, 0, 0, 0, add, 0, 1, NULL, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_atomic(w, 0, 0, ORIEL_TYPE_DOUBLE, ORIEL_ATOMIC_XOR, 0, 1, NULL,
				     NULL),
		 ORIEL_EINVAL);
	CHECK_EQ(oriel_window_status(w), 0);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	CHECK_EQ(contract_bytes_not(e, e->buffer, 0, e->bytes), 0);
}

/* A NIC needs the whole 8 bytes; a mapped peer does not. */
CASE(typed_at_the_end, c.shape = CONTRACT_HOST, c.no_window = 1)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w;

	o.bytes = 20;
	REQUIRE_OK(oriel_window_create(e->comm, &o, &w));
	for (int k = 0; k < e->nranks; k++) {
		int queued = oriel_comm_peer_kind(e->comm, k) == ORIEL_PEER_QUEUED;

		CHECK_EQ(oriel_window_atomic(w, k, 16, ORIEL_TYPE_INT32, ORIEL_ATOMIC_OR, 0, 1,
					     NULL, NULL),
			 queued ? ORIEL_EINVAL : 0);
		if (queued)
			CHECK_HAS(oriel_last_error(), "pass an end");
		REQUIRE_OK(oriel_window_atomic(w, k, 12, ORIEL_TYPE_INT32, ORIEL_ATOMIC_OR, 0, 1,
					       NULL, NULL));
	}
	REQUIRE_OK(oriel_comm_sync(e->comm, NULL));
	REQUIRE_OK(oriel_window_destroy(w));
}
