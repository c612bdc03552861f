/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * set_threads.c - threads of every PE make teams and active sets of the same PEs at the same time.
 * PEs make them in different orders, and shmem_finalize closes them.
 */
#include <pthread.h>
#include <unistd.h>

#include "pe.h"

#define SPLITS 8
#define HEAD_START 50000 /* microseconds */

static int me, npes;
static long psync[SHMEM_BARRIER_SYNC_SIZE];

struct side {
	pthread_t thread;
	shmem_team_t parent; /* all PEs; of this side alone */
};

static void *side_main(void *arg)
{
	const struct side *s = arg;
	shmem_team_t team;
	int i;

	/* These teams live until shmem_finalize. */
	for (i = 0; i < SPLITS; i++) {
		CHECK_EQ(shmem_team_split_strided(s->parent, 0, 1, npes, NULL, 0, &team), 0);
		CHECK_EQ(shmem_team_sync(team), 0);
	}
	return NULL;
}

static void *sync_first_pes(void *n)
{
	shmem_sync(0, 0, *(int *)n, psync);
	return NULL;
}

/* A team and an active set of the same PEs: even PEs begin with the set, odd ones with the team. */
static void cross(void)
{
	int n = npes > 1 ? npes - 1 : 1;
	shmem_team_t team;
	pthread_t thread;

	if (me % 2 == 0) {
		CHECK(!pthread_create(&thread, NULL, sync_first_pes, &n));
		usleep(HEAD_START);
	}
	CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &team), 0);
	if (me % 2)
		CHECK(!pthread_create(&thread, NULL, sync_first_pes, &n));
	CHECK_EQ(shmem_team_sync(team), me < n ? 0 : -1);
	pthread_join(thread, NULL);
}

int main(void)
{
	struct side sides[2];
	int provided, i;

	CHECK_EQ(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided), 0);
	CHECK_EQ(provided, SHMEM_THREAD_MULTIPLE);
	me = shmem_my_pe();
	npes = shmem_n_pes();
	cross();
	for (i = 0; i < 2; i++)
		CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, NULL, 0,
						  &sides[i].parent),
			 0);
	for (i = 0; i < 2; i++)
		CHECK(!pthread_create(&sides[i].thread, NULL, side_main, &sides[i]));
	for (i = 0; i < 2; i++)
		pthread_join(sides[i].thread, NULL);
	shmem_finalize();
	return 0;
}
