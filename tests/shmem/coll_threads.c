/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_threads.c - two threads of every PE make collectives at the same time, on two teams and on
 * two active sets.  PEs begin in different orders, and the sets are used for the first time here.
 */
#include <pthread.h>

#include "pe.h"

#define ROUNDS 60

static int me, npes;
static long psync[2][SHMEM_REDUCE_SYNC_SIZE];

struct side {
	pthread_t thread;
	shmem_team_t team;
	int number;
	long *source, *dest; /* symmetric, npes elements */
};

/* The sum over the PEs first .. first + n of what they give in a round. */
static long sum_of(int first, int n, long number)
{
	long sum = 0;
	int pe;

	for (pe = first; pe < first + n; pe++)
		sum += pe + number;
	return sum;
}

/* Side 0 uses the first PEs, side 1 the last ones; most PEs are in both. */
static void use_active(const struct side *s, int round)
{
	int first = s->number, n = npes - 1;
	long number = 1000 * s->number + round;

	if (npes < 3 || me < first || me >= first + n)
		return;
	*s->source = me + number;
	shmem_long_sum_to_all(s->dest, s->source, 1, first, 0, n, s->source, psync[s->number]);
	CHECK_EQ(*s->dest, sum_of(first, n, number));
}

static void use_team(const struct side *s, int round)
{
	long number = 100000 * (s->number + 1) + round;
	int pe;

	*s->source = me + number;
	shmem_long_sum_reduce(s->team, s->dest, s->source, 1);
	CHECK_EQ(*s->dest, sum_of(0, npes, number));
	shmem_long_fcollect(s->team, s->dest, s->source, 1);
	for (pe = 0; pe < npes; pe++)
		CHECK_EQ(s->dest[pe],
			 shmem_team_translate_pe(s->team, pe, SHMEM_TEAM_WORLD) + number);
	CHECK_EQ(shmem_team_sync(s->team), 0);
}

static void *side_main(void *arg)
{
	const struct side *s = arg;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		use_active(s, i);
		use_team(s, i);
	}
	return NULL;
}

int main(void)
{
	struct side sides[2];
	int provided, i;

	CHECK_EQ(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided), 0);
	CHECK_EQ(provided, SHMEM_THREAD_MULTIPLE);
	me = shmem_my_pe();
	npes = shmem_n_pes();
	for (i = 0; i < 2; i++) {
		sides[i].number = i;
		sides[i].source = shmem_malloc(sizeof(long));
		sides[i].dest = shmem_malloc((size_t)npes * sizeof(long));
		CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, i ? npes - 1 : 0, i ? -1 : 1,
						  npes, NULL, 0, &sides[i].team),
			 0);
	}
	for (i = 0; i < 2; i++)
		CHECK(!pthread_create(&sides[(i + me) % 2].thread, NULL, side_main,
				      &sides[(i + me) % 2]));
	for (i = 0; i < 2; i++)
		pthread_join(sides[i].thread, NULL);
	shmem_finalize();
	return 0;
}
