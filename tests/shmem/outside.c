/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outside.c - all PEs make calls on the active set of the even PEs.  Odd PEs are not in it: their
 * calls return at once and write nothing.  With ORIEL_CHECKED=1 such a call ends the job instead
 * (ends/coll.sh).
 */
#include "pe.h"

#define MOST 8

static long psync[4][SHMEM_ALLTOALLS_SYNC_SIZE + SHMEM_REDUCE_SYNC_SIZE];
static long pwrk[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
static long from[MOST], to[MOST];

/* Sets `to` to -1 everywhere, and `from` to the number of the PE, before all PEs meet. */
static void begin(int me)
{
	for (int i = 0; i < MOST; i++) {
		from[i] = me;
		to[i] = -1;
	}
	shmem_barrier_all();
}

static void check_block(int inside, int block, long want)
{
	CHECK_EQ(to[block], inside ? want : -1);
}

int main(void)
{
	int me, evens, inside;

	for (int i = 0; i < 4; i++)
		for (size_t k = 0; k < sizeof(psync[0]) / sizeof(long); k++)
			psync[i][k] = SHMEM_SYNC_VALUE;
	shmem_init();
	me = shmem_my_pe();
	inside = me % 2 == 0;
	evens = (shmem_n_pes() + 1) / 2;
	CHECK(evens <= MOST);

	begin(me);
	shmem_long_sum_to_all(to, from, 1, 0, 1, evens, pwrk, psync[0]);
	check_block(inside, 0, (long)evens * (evens - 1));
	begin(me);
	shmem_fcollect64(to, from, 1, 0, 1, evens, psync[1]);
	for (int i = 0; i < evens; i++)
		check_block(inside, i, 2 * i);
	begin(me);
	shmem_collect64(to, from, 1, 0, 1, evens, psync[2]);
	for (int i = 0; i < evens; i++)
		check_block(inside, i, 2 * i);
	begin(me);
	shmem_alltoall64(to, from, 1, 0, 1, evens, psync[3]);
	for (int i = 0; i < evens; i++)
		check_block(inside, i, 2 * i);
	begin(me);
	shmem_alltoalls64(to, from, 1, 1, 1, 0, 1, evens, psync[0]);
	for (int i = 0; i < evens; i++)
		check_block(inside, i, 2 * i);
	begin(me);
	shmem_broadcast64(to, from, 1, 0, 0, 1, evens, psync[1]);
	check_block(inside && me, 0, 0); /* the root's own memory stays as it is */
	begin(me);
	shmem_sync(0, 1, evens, psync[2]);
	shmem_barrier(0, 1, evens, psync[3]);
	shmem_finalize();
	return 0;
}
