/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock.c - locks around data that nothing else protects; test_lock; many locks at once; threads.
 */
#include <pthread.h>

#include "pe.h"

#define ROUNDS 40
#define LOCKS 5

static long locks[LOCKS], counts[LOCKS];
static long one, held;
static int me, npes;

/* A counter at a PE that is not the lock's: read, add, write, all under the lock. */
static void count_under(int n)
{
	int at = (n + 1) % npes;
	long value;

	shmem_set_lock(&locks[n]);
	value = shmem_long_g(&counts[n], at);
	shmem_long_p(&counts[n], value + 1, at);
	shmem_clear_lock(&locks[n]);
}

static void *another(void *unused)
{
	int i;

	(void)unused;
	for (i = 0; i < ROUNDS; i++)
		count_under(i % LOCKS);
	return NULL;
}

static void test_lock(void)
{
	shmem_barrier_all();
	if (me == 0) {
		CHECK_EQ(shmem_test_lock(&one), 0);
		CHECK_EQ(shmem_test_lock(&one), 1);
	}
	shmem_barrier_all();
	if (me != 0)
		CHECK_EQ(shmem_test_lock(&one), 1);
	shmem_barrier_all();
	if (me == 0)
		shmem_clear_lock(&one);
	shmem_barrier_all();
	/* one after the other */
	while (shmem_test_lock(&one))
		;
	held++;
	shmem_clear_lock(&one);
	shmem_barrier_all();
	/* a lock that nobody uses is 0, as at the start */
	CHECK_EQ(one, 0);
}

int main(void)
{
	pthread_t thread;
	int i, n;

	shmem_init();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	CHECK(!pthread_create(&thread, NULL, another, NULL));
	for (i = 0; i < ROUNDS; i++)
		count_under((i + me) % LOCKS);
	pthread_join(thread, NULL);
	shmem_barrier_all();
	for (n = 0; n < LOCKS; n++) {
		CHECK_EQ(counts[n], me == (n + 1) % npes ? 2 * npes * ROUNDS / LOCKS : 0);
		CHECK_EQ(locks[n], 0);
	}
	test_lock();
	CHECK_EQ(held, 1);
	shmem_finalize();
	return 0;
}
