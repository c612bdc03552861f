/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/word.c - contract of waits for words of the own window buffer: every width, signed
 * and unsigned, all comparisons, any of several words, what the waiter sees, and what it says when
 * it gives up.
 */
#include "contract.h"

#define TYPES 8 /* ORIEL_TYPE_INT8 to ORIEL_TYPE_UINT64 */
#define DATA_OFF 1024
#define DATA_BYTES 200

/* Each type has 16 bytes of its own. */
ORIEL_DEV uint64_t word_off(int type)
{
	return (uint64_t)type * 16;
}

/* ---- one word ------------------------------------------------------------------------------ */

/* Round i: data to the right, then the word; wait for the left's word, and look at its data. */
CONTRACT_KERNEL(ring_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int right = contract_right(w, 1), left = contract_left(w, 1), me = oriel_rank(w);
	uint64_t wrong = 0, value;
	int err = 0, i, type;

	for (i = 1; i <= a->rounds && !err; i++)
		for (type = 1; type <= TYPES && !err; type++) {
			/* signed words go down from -1, unsigned ones up from 1 */
			value = (type & 1) ? (uint64_t)-i : (uint64_t)i;
			contract_fill(g, a->local, DATA_BYTES, value, me, right);
			err = oriel_group_sync(g);
			if (!err)
				err = oriel_put(w, g, right, DATA_OFF, &a->src, 0, DATA_BYTES);
			if (!err && a->mode)
				err = oriel_atomic(w, g, right, word_off(type), type,
						   ORIEL_ATOMIC_SET, 0, value, NULL);
			if (!err && !a->mode) {
				err = oriel_fence(w, g, right);
				if (!err)
					err = oriel_put_value(w, g, right, word_off(type), &value,
							      oriel_type_bytes(type));
				if (oriel_group_is_leader(g))
					oriel_wake(w, right);
			}
			if (!err)
				err = oriel_wait_word(w, g, word_off(type), type,
						      (type & 1) ? ORIEL_LE : ORIEL_GE, value);
			if (!err && oriel_read_word(w, word_off(type), type) != value)
				wrong++;
			if (!err)
				wrong += contract_wrong(g, w->buffer + DATA_OFF, DATA_BYTES, value,
							left, me);
			if (!err)
				err = oriel_barrier(w, g, 0);
		}
	contract_report(a, g, err, wrong);
}

/* ThreadSanitizer does not see the order that a fence makes, so it gets the atomics only. */
CASE(word_ring, c.shape = CONTRACT_FULL)
{
	struct contract_args a = contract_args(e);

	a.rounds = contract_rounds(e, 8);
	a.mode = 1;
	contract_launch(e, &ring_kernel, 1, &a);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	contract_fill_bytes(e, e->buffer, 0, word_off(TYPES + 1));
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	a.mode = 0;
#ifndef __SANITIZE_THREAD__
	contract_launch(e, &ring_kernel, 1, &a);
#endif
}

struct comparison {
	int type;
	uint64_t have, want;
	int order; /* have - want: -1, 0, 1 */
};

static const struct comparison comparisons[] = {
	{ ORIEL_TYPE_INT8, (uint64_t)-1, 1, -1 },
	{ ORIEL_TYPE_UINT8, 255, 1, 1 },
	{ ORIEL_TYPE_UINT8, 255, (uint64_t)-1, 0 }, /* upper bits do not count */
	{ ORIEL_TYPE_INT16, 0x7fff, (uint64_t)-32768, 1 },
	{ ORIEL_TYPE_UINT16, 0x7fff, 0x8000, -1 },
	{ ORIEL_TYPE_INT32, 5, 5, 0 },
	{ ORIEL_TYPE_UINT32, 0xffffffff, 0x7fffffff, 1 },
	{ ORIEL_TYPE_INT64, 1ull << 63, INT64_MAX, -1 },
	{ ORIEL_TYPE_UINT64, 1ull << 63, INT64_MAX, 1 },
	{ ORIEL_TYPE_UINT64, UINT64_MAX, 0, 1 },
};

static int holds(int order, int cmp)
{
	switch (cmp) {
	case ORIEL_EQ:
		return order == 0;
	case ORIEL_NE:
		return order != 0;
	case ORIEL_GT:
		return order > 0;
	case ORIEL_GE:
		return order >= 0;
	case ORIEL_LT:
		return order < 0;
	default:
		return order <= 0;
	}
}

/* Neighbours of the word have other bytes, so a load of a wrong width is seen. */
CASE(word_comparisons, c.shape = CONTRACT_HOST, c.max_ranks = 2)
{
	uint64_t off = 256, value = 0;

	for (size_t i = 0; i < sizeof(comparisons) / sizeof(comparisons[0]); i++) {
		const struct comparison *t = &comparisons[i];

		contract_fill_bytes(e, e->buffer + off, 0x5a, 24);
		contract_write(e, e->buffer + off + 8, &t->have, oriel_type_bytes(t->type));
		for (int cmp = ORIEL_EQ; cmp <= ORIEL_LE; cmp++) {
			int err;

			if (holds(t->order, cmp)) {
				REQUIRE_OK(oriel_window_wait_word(e->window, off + 8, t->type, cmp,
								  t->want, NULL));
				continue;
			}
			if (contract_on_cuda()) /* a deadline fails the window there */
				continue;
			err = oriel_window_wait_word_timeout(e->window, off + 8, t->type, cmp,
							     t->want, 0.001, NULL);
			CHECK_EQ(err, ORIEL_ETIMEDOUT);
		}
		if (!contract_on_cuda()) {
			REQUIRE_OK(oriel_window_read_word(e->window, off + 8, t->type, &value));
			CHECK_EQ(value, t->have);
		}
	}
	REQUIRE_OK(oriel_comm_sync(e->comm, NULL));
}

/* The line of a wait that gives up names the window, the offset, the value and the wish. */
CASE(word_late_text, c.shape = CONTRACT_HOST, c.max_ranks = 2)
{
	struct oriel_words words = { 64, 3, ORIEL_TYPE_UINT32, ORIEL_NE, 0, NULL, NULL };
	int32_t minus = -7;
	uint64_t index = 77;
	int err;

	if (contract_on_cuda())
		return; /* a kernel cannot print */
	contract_write(e, e->buffer + 96, &minus, sizeof(minus));
	err = oriel_window_wait_word_timeout(e->window, 96, ORIEL_TYPE_INT32, ORIEL_GT, 3, 0.01,
					     NULL);
	CHECK_EQ(err, ORIEL_ETIMEDOUT);
	CHECK_HAS(oriel_last_error(), "word at offset 96 of window");
	CHECK_HAS(oriel_last_error(), "have -7, want more than 3");
	err = oriel_window_wait_word_timeout(e->window, 96, ORIEL_TYPE_UINT32, ORIEL_LE, 3, 0.01,
					     NULL);
	CHECK_EQ(err, ORIEL_ETIMEDOUT);
	CHECK_HAS(oriel_last_error(), "have 4294967289, want at most 3");
	err = oriel_window_wait_any_word_timeout(e->window, &words, 0, 0.01, &index);
	CHECK_EQ(err, ORIEL_ETIMEDOUT);
	CHECK_HAS(oriel_last_error(), "any of 3 words at offset 64 of window");
	CHECK_EQ(index, 77);
	CHECK_EQ(oriel_window_status(e->window), 0);
}

/* ---- any of several words ------------------------------------------------------------------ */

/*
 * Every rank sets word (its rank) of every rank.  Each takes the words one after the other, and
 * leaves out those it has seen.
 */
CASE(word_any, c.shape = CONTRACT_HOST)
{
	struct oriel_words words = { 512, 0, ORIEL_TYPE_UINT16, ORIEL_EQ, 0, NULL, NULL };
	int skip[9] = { 0 }, seen = 0;
	uint16_t values[9];
	uint64_t index = 99;

	if (contract_on_cuda()) {
		words.count = 1;
		CHECK_EQ(oriel_window_wait_any_word(e->window, &words, 0, &index),
			 ORIEL_EUNSUPPORTED);
		return;
	}
	for (int r = 0; r < 9; r++)
		values[r] = (uint16_t)(1000 + r);
	words.count = (uint64_t)e->nranks + 1; /* nobody sets the last one */
	words.values = values;
	words.skip = skip;
	for (int k = 0; k < e->nranks; k++)
		REQUIRE_OK(oriel_window_atomic(e->window, (e->rank + k) % e->nranks,
					       512 + 2 * (uint64_t)e->rank, ORIEL_TYPE_UINT16,
					       ORIEL_ATOMIC_SET, 0, values[e->rank], NULL, NULL));
	while (seen < e->nranks) {
		REQUIRE_OK(oriel_window_wait_any_word(e->window, &words, (uint64_t)seen, &index));
		REQUIRE(index < (uint64_t)e->nranks);
		CHECK_EQ(skip[index], 0);
		skip[index] = 1;
		seen++;
	}
	CHECK_EQ(oriel_window_wait_any_word_timeout(e->window, &words, 0, 0.001, &index),
		 ORIEL_ETIMEDOUT);
	skip[e->nranks] = -1; /* nothing is left: no wait */
	REQUIRE_OK(oriel_window_wait_any_word(e->window, &words, 0, &index));
	CHECK_EQ(index, words.count);
	words.values = NULL;
	words.skip = NULL;
	words.value = values[0];
	REQUIRE_OK(oriel_window_wait_any_word(e->window, &words, 1, &index));
	CHECK_EQ(index, 0);
}

/* Both threads of the group get the same index. */
CONTRACT_KERNEL(any_kernel)
{
	struct oriel_words words;
	uint64_t index = 99;
	int err;

	words.offset = word_off(10);
	words.count = 4;
	words.type = ORIEL_TYPE_INT32;
	words.cmp = ORIEL_LT;
	words.value = (uint64_t)-1;
	words.values = NULL;
	words.skip = NULL;
	err = oriel_atomic(&a->win, g, contract_right(&a->win, 1), word_off(10) + 8,
			   ORIEL_TYPE_INT32, ORIEL_ATOMIC_SET, 0, (uint64_t)-2, NULL);
	if (!err)
		err = oriel_wait_any_word(&a->win, g, &words, 0, &index);
	a->out[contract_slot(g) * CONTRACT_OUT] = index;
	contract_report(a, g, err, err ? 0 : oriel_find_word(&a->win, &words, 3) != 2);
}

CASE(word_any_in_a_kernel, 0)
{
	struct contract_args a = contract_args(e);

	contract_launch(e, &any_kernel, 1, &a);
	for (int t = 0; t < e->threads; t++)
		CHECK_EQ(e->out[t * CONTRACT_OUT], 2);
}

/* ---- sleep and wake ------------------------------------------------------------------------ */

#ifndef __SANITIZE_THREAD__
/* Longer than a wait yields, so the waiter sleeps when the word comes. */
static void pause_ms(double ms)
{
	double end = contract_now() + ms * 1e-3;

	while (contract_now() < end)
		oriel_cpu_yield();
}

/* A store and a wake end the sleep; a lost wake would cost only time, so this is no race test. */
CASE(word_store_and_wake, c.shape = CONTRACT_HOST, c.min_ranks = 2)
{
	int next = (e->rank + 1) % e->nranks, rounds = contract_rounds(e, 6);
	struct oriel_window_dev win;
	uint32_t *word;

	if (contract_on_cuda())
		return; /* the host does not store into a GPU's window */
	REQUIRE_OK(oriel_window_device(e->window, &win));
	word = (uint32_t *)oriel_mapped_address(&win, next, 128);
	for (int i = 1; i <= rounds; i++) {
		int turn = (i - 1) % e->nranks;

		if (e->rank == turn)
			pause_ms(2);
		if (e->rank == turn && word) {
			__atomic_store_n(word, (uint32_t)i, __ATOMIC_RELEASE);
			oriel_wake(&win, next);
		} else if (e->rank == turn) {
			uint32_t value = (uint32_t)i;

			REQUIRE_OK(oriel_put_value(&win, oriel_group_thread(), next, 128, &value,
						   sizeof(value)));
		}
		if (e->rank == (turn + 1) % e->nranks)
			REQUIRE_OK(oriel_window_wait_word(e->window, 128, ORIEL_TYPE_UINT32,
							  ORIEL_EQ, (uint64_t)i, NULL));
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
	}
}
#endif

/* ---- refused ------------------------------------------------------------------------------- */

CASE(word_refused, c.shape = CONTRACT_HOST)
{
	struct oriel_words words = { 0, 1, ORIEL_TYPE_INT32, ORIEL_EQ, 0, NULL, NULL };
	struct oriel_window *w = e->window;
	uint64_t value = 5, index = 5;
	int t32 = ORIEL_TYPE_INT32;

	CHECK_EQ(oriel_window_wait_word(NULL, 0, t32, ORIEL_EQ, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_wait_word(w, 2, t32, ORIEL_EQ, 0, NULL), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "aligned to its size");
	CHECK_EQ(oriel_window_wait_word(w, 0, ORIEL_TYPE_FLOAT, ORIEL_EQ, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_wait_word(w, 0, 0, ORIEL_EQ, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_wait_word(w, 0, t32, 0, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_wait_word(w, 0, t32, 7, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_wait_word(w, e->bytes, t32, ORIEL_EQ, 0, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_wait_word(w, UINT64_MAX - 3, t32, ORIEL_EQ, 0, NULL), ORIEL_ERANGE);
	CHECK_EQ(oriel_window_wait_word_timeout(w, 0, t32, ORIEL_EQ, 0, 0, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_window_wait_word_timeout(w, 0, t32, ORIEL_EQ, 0, -1, NULL), ORIEL_EINVAL);
	if (!contract_on_cuda()) {
		CHECK_EQ(oriel_window_read_word(w, 3, t32, &value), ORIEL_EINVAL);
		CHECK_EQ(oriel_window_read_word(w, 0, t32, NULL), ORIEL_EINVAL);
		CHECK_EQ(oriel_window_wait_any_word(w, NULL, 0, &index), ORIEL_EINVAL);
		CHECK_EQ(oriel_window_wait_any_word(w, &words, 0, NULL), ORIEL_EINVAL);
		words.count = e->bytes;
		CHECK_EQ(oriel_window_wait_any_word(w, &words, 0, &index), ORIEL_ERANGE);
		words.count = UINT64_MAX;
		CHECK_EQ(oriel_window_wait_any_word(w, &words, 0, &index), ORIEL_ERANGE);
		words.count = 1;
		words.cmp = 9;
		CHECK_EQ(oriel_window_wait_any_word_timeout(w, &words, 0, 1, &index), ORIEL_EINVAL);
		CHECK_EQ(oriel_window_wait_any_word_timeout(w, &words, 0, 0, &index), ORIEL_EINVAL);
	}
	CHECK_EQ(value, 5);
	CHECK_EQ(index, 5);
	CHECK_EQ(oriel_window_status(w), 0);
}
