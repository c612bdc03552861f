/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * once.c - a put stores the word that a PE waits for once.  That PE sets the word to 0 as soon as
 * it has come, and then it stays 0 until the next put.
 *
 * Two PEs play ping-pong, each with puts of several sizes.  A second store of the same put brings
 * back the number of an old round, or hides a reset.
 */
#include "pe.h"

#define ROUNDS 2000
#define LONGS_MOST 16

static long target[LONGS_MOST];

static void put_round(long round, size_t longs, int pe)
{
	long source[LONGS_MOST];

	for (size_t i = 0; i < longs; i++)
		source[i] = round;
	shmem_putmem(target, source, longs * sizeof(long), pe);
}

static void take_round(long round, size_t longs)
{
	long *last = &target[longs - 1];

	shmem_long_wait_until(last, SHMEM_CMP_NE, 0);
	CHECK_EQ(*last, round);
	*last = 0;
}

static void play(int me, size_t longs)
{
	shmem_barrier_all();
	for (long round = 1; round <= ROUNDS && me < 2; round++) {
		if (me == 1)
			take_round(round, longs);
		put_round(round, longs, !me);
		if (me == 0)
			take_round(round, longs);
	}
	shmem_barrier_all();
	for (size_t i = 0; i < LONGS_MOST; i++)
		target[i] = 0;
}

int main(void)
{
	shmem_init();
	if (shmem_n_pes() > 1)
		for (size_t longs = 1; longs <= LONGS_MOST; longs *= 2)
			play(shmem_my_pe(), longs);
	shmem_finalize();
	return 0;
}
