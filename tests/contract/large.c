/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/large.c - contract of transfers over 2^31 bytes: one put and one get, complete and
 * at the right place.
 *
 * A row has one pair of ranks, because it needs 4 GiB.  Every 8-byte word is checked.
 */
#include "contract.h"

#define LARGE ((1ull << 31) + 4096 + 8)
#define NEEDED_KIB (8ull << 20)

ORIEL_DEV uint64_t stamp(uint64_t word, uint64_t round)
{
	return (word + 1) * 0x9e3779b97f4a7c15ull + round;
}

/* Every thread of every block takes each nth word: stores the stamp, or counts where it is not. */
CONTRACT_KERNEL(words_kernel)
{
	uint64_t *words = (uint64_t *)(void *)a->local;
	uint64_t i, step = (uint64_t)g.size * g.nblocks, wrong = 0;

	for (i = (uint64_t)g.block * g.size + g.thread; i < LARGE / 8; i += step)
		if (a->mode)
			words[i] = stamp(i, a->value);
		else
			wrong += words[i] != stamp(i, a->value);
	contract_report(a, g, 0, wrong);
}

static void on_words(struct contract_env *e, void *words, uint64_t round, int store)
{
	struct contract_args a = contract_args(e);

	a.local = (uint8_t *)words;
	a.value = round;
	a.mode = store;
	contract_launch(e, &words_kernel, e->cuda ? CONTRACT_BLOCKS : 1, &a);
}

static int move(struct contract_env *e, struct oriel_window *w, void *mine)
{
	void *buffer = oriel_window_buffer(w);
	struct oriel_source source;
	int err = 0;

	if (e->rank == 0) {
		on_words(e, mine, 1, 1);
		err = oriel_window_source(w, mine, LARGE, &source);
		if (!err)
			err = oriel_window_put_signal(w, 1, 0, &source, 0, LARGE, 0, ORIEL_ADD, 1,
						      NULL);
		if (!err)
			err = oriel_window_wait_signal(w, 1, 0, ORIEL_GE, 1, NULL);
		if (!err)
			err = oriel_window_get(w, 1, 0, &source, 0, LARGE, NULL);
		on_words(e, mine, 2, 0);
		return err;
	}
	err = oriel_window_wait_signal(w, 0, 0, ORIEL_GE, 1, NULL);
	on_words(e, buffer, 1, 0);
	on_words(e, buffer, 2, 1);
	return err ? err : oriel_window_signal(w, 0, 0, ORIEL_ADD, 1, NULL);
}

CASE(large_over_31_bits, c.shape = CONTRACT_HOST, c.no_window = 1, c.only_processes = 1,
     c.min_ranks = 2, c.max_ranks = 2)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL;
	uint64_t kib = check_free_kib(), all[2];
	void *mine = NULL;

	REQUIRE_OK(oriel_comm_allgather(e->comm, ORIEL_WORLD, &kib, all, sizeof(kib)));
	if (all[0] < NEEDED_KIB || all[1] < NEEDED_KIB) {
		check_skip("needs 8 GiB of free memory, there are %llu KiB",
			   (unsigned long long)kib);
		return;
	}
	if (e->cuda && !contract_is_fake())
		e->threads = e->launched = CONTRACT_THREADS;
	o.bytes = LARGE;
	REQUIRE_OK(oriel_window_create(e->comm, &o, &w));
	REQUIRE_OK(oriel_alloc(e->comm, LARGE, &mine));
	CHECK_EQ(move(e, w, mine), 0);
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
	CHECK_EQ(oriel_window_destroy(w), 0);
	CHECK_EQ(oriel_free(e->comm, mine), 0);
}
