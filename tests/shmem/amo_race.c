/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * amo_race.c - all PEs, the owner included, hammer the same words with atomics of both widths and
 * of all kinds.  PEs that reach a word in different ways (its owner, a mapped PE, a queued PE) must
 * not lose each other's updates.
 */
#include <pthread.h>

#include "pe.h"

#define ROUNDS 150
#define THREADS 2

static long added, unique, swapped, compared;
static int narrow, bits;
static unsigned int narrow_compared;
static char seen[8 * ROUNDS * 8 + 1];

static int me, npes;

/* Old values of a fetch_add by 1 are all different; each PE marks its own at PE 0. */
static void add_round(int pe, int last)
{
	long old;

	shmem_long_atomic_add(&added, 3, pe);
	shmem_int_atomic_inc(&narrow, pe);
	old = shmem_long_atomic_fetch_inc(&unique, pe);
	if (pe == last) {
		CHECK(old >= 0 && old < (long)sizeof(seen));
		shmem_char_p(&seen[old], 1, pe);
	}
}

/* An increment by compare_swap: it must have succeeded exactly once per call. */
static void compare_round(int pe)
{
	long have = shmem_long_atomic_fetch(&compared, pe), old;
	unsigned int now = shmem_uint_atomic_fetch(&narrow_compared, pe), before;

	while ((old = shmem_long_atomic_compare_swap(&compared, have, have + 1, pe)) != have)
		have = old;
	while ((before = shmem_uint_atomic_compare_swap(&narrow_compared, now, now + 1, pe)) != now)
		now = before;
}

/* Tokens: what goes in comes out once, or is still there.  Flips: an even number leaves 0. */
static long swap_round(int pe, int round)
{
	long token = 1 + me + (long)round * 64;

	shmem_int32_atomic_xor(&bits, 1 << me, pe);
	token -= shmem_long_atomic_swap(&swapped, token, pe);
	shmem_int32_atomic_xor(&bits, 1 << me, pe);
	return token;
}

static void *another(void *arg)
{
	int pe = *(int *)arg, i;

	for (i = 0; i < ROUNDS; i++)
		shmem_long_atomic_add(&added, 3, pe);
	return NULL;
}

static void hammer(int pe)
{
	static long inside[8];
	pthread_t threads[THREADS];
	long tokens = 0, sum = 0;
	int i;

	added = unique = swapped = compared = 0;
	narrow = bits = 0;
	narrow_compared = 0;
	memset(seen, 0, sizeof(seen));
	shmem_barrier_all();
	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, another, &pe));
	for (i = 0; i < ROUNDS; i++) {
		add_round(pe, pe);
		compare_round(pe);
		tokens += swap_round(pe, i);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	shmem_long_p(&inside[me], tokens, pe);
	shmem_barrier_all();
	if (me == pe) {
		CHECK_EQ(added, 3l * ROUNDS * npes * (1 + THREADS));
		CHECK_EQ(narrow, ROUNDS * npes);
		CHECK_EQ(unique, ROUNDS * npes);
		CHECK_EQ(compared, ROUNDS * npes);
		CHECK_EQ(narrow_compared, ROUNDS * npes);
		CHECK_EQ(bits, 0);
		for (i = 0; i < ROUNDS * npes; i++)
			CHECK_EQ(seen[i], 1);
		for (i = 0; i < npes; i++)
			sum += inside[i];
		CHECK_EQ(sum, swapped);
	}
	shmem_barrier_all();
}

int main(void)
{
	int provided;

	CHECK_EQ(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided), 0);
	CHECK_EQ(provided, SHMEM_THREAD_MULTIPLE);
	me = shmem_my_pe();
	npes = shmem_n_pes();
	CHECK(npes <= 8);
	hammer(0);
	if (npes > 1)
		hammer(npes - 1);
	shmem_finalize();
	return 0;
}
