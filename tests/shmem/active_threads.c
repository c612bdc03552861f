/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * active_threads.c - two threads of every PE use active sets of the same PEs at the same time, each
 * with its own pSync.  A third one uses SHMEM_TEAM_WORLD.  PEs begin in different orders, and
 * shmem_finalize closes the sets.
 */
#include <pthread.h>
#include <unistd.h>

#include "pe.h"

#define ROUNDS 40
#define HEAD_START 50000 /* microseconds */

static int me, npes;

struct side {
	pthread_t thread;
	int number;
	long source, *dest; /* dest has npes elements */
	long reduce[2][SHMEM_REDUCE_SYNC_SIZE], barrier[2][SHMEM_BARRIER_SYNC_SIZE];
};

static struct side sides[2]; /* global, so symmetric */

/* Both threads use the first n PEs, each with a pSync of its own. */
static void use_active(struct side *s, int n, int round)
{
	long number = 1000 * (s->number + 1) + round, sum = 0;
	int pe;

	if (me >= n)
		return;
	for (pe = 0; pe < n; pe++)
		sum += pe + number;
	s->source = me + number;
	shmem_long_sum_to_all(s->dest, &s->source, 1, 0, 0, n, NULL, s->reduce[n < npes]);
	CHECK_EQ(*s->dest, sum);
	shmem_fcollect64(s->dest, &s->source, 1, 0, 0, n, s->reduce[n < npes]);
	for (pe = 0; pe < n; pe++)
		CHECK_EQ(s->dest[pe], pe + number);
	/* Neighbours look at each other's source between two barriers. */
	shmem_barrier(0, 0, n, s->barrier[n < npes]);
	CHECK_EQ(shmem_long_g(&s->source, (me + 1) % n), (me + 1) % n + number);
	shmem_sync(0, 0, n, s->barrier[n < npes]);
}

static void *side_main(void *arg)
{
	struct side *s = arg;
	int i;

	/* Side 0 comes first on even PEs, side 1 on odd ones. */
	if ((me + s->number) % 2)
		usleep(HEAD_START);
	for (i = 0; i < ROUNDS; i++) {
		use_active(s, npes, i);
		use_active(s, npes > 1 ? npes - 1 : 1, i);
	}
	return NULL;
}

static void use_world(int round)
{
	static long source, sum;

	source = round;
	CHECK_EQ(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &source, 1), 0);
	CHECK_EQ(sum, (long)npes * round);
	shmem_sync_all();
}

int main(void)
{
	int provided, i;

	CHECK_EQ(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided), 0);
	CHECK_EQ(provided, SHMEM_THREAD_MULTIPLE);
	me = shmem_my_pe();
	npes = shmem_n_pes();
	for (i = 0; i < 2; i++) {
		sides[i].number = i;
		sides[i].dest = shmem_malloc((size_t)npes * sizeof(long));
	}
	for (i = 0; i < 2; i++)
		CHECK(!pthread_create(&sides[i].thread, NULL, side_main, &sides[i]));
	for (i = 0; i < ROUNDS; i++)
		use_world(i);
	for (i = 0; i < 2; i++)
		pthread_join(sides[i].thread, NULL);
	shmem_finalize();
	return 0;
}
