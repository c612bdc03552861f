/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * contexts.c - contexts complete their own operations, many may live at once, and several threads
 * of a PE communicate at the same time.
 */
#include <pthread.h>

#include "pe.h"

#define THREADS 4
#define ROUNDS 15
#define N 1000

static int me, npes, next, before;
static long slots[THREADS][N];
static pthread_barrier_t meeting;

static void many(void)
{
	shmem_ctx_t ctx[40];
	shmem_team_t team;
	static long words[40];
	int i;

	for (i = 0; i < 40; i++) {
		CHECK_EQ(shmem_ctx_create(i % 2 ? SHMEM_CTX_PRIVATE : SHMEM_CTX_SERIALIZED,
					  &ctx[i]),
			 0);
		CHECK(ctx[i] != SHMEM_CTX_INVALID);
		CHECK_EQ(shmem_ctx_get_team(ctx[i], &team), 0);
		CHECK(team == SHMEM_TEAM_WORLD);
	}
	for (i = 0; i < 40; i++)
		shmem_ctx_long_p(ctx[i], &words[i], 100 * me + i, next);
	for (i = 0; i < 40; i += 2)
		shmem_ctx_quiet(ctx[i]);
	for (i = 1; i < 40; i += 2)
		shmem_ctx_destroy(ctx[i]); /* completes too */
	for (i = 0; i < 40; i++)
		CHECK_EQ(shmem_long_g(&words[i], next), 100 * me + i);
	for (i = 0; i < 40; i += 2)
		shmem_ctx_destroy(ctx[i]);
	shmem_ctx_quiet(SHMEM_CTX_INVALID); /* these three do nothing */
	shmem_ctx_fence(SHMEM_CTX_INVALID);
	shmem_ctx_destroy(SHMEM_CTX_INVALID);
	CHECK(shmem_ctx_get_team(SHMEM_CTX_INVALID, &team) != 0);
	CHECK(team == SHMEM_TEAM_INVALID);
	CHECK_EQ(shmem_ctx_get_team(SHMEM_CTX_DEFAULT, &team), 0);
	CHECK(team == SHMEM_TEAM_WORLD);
}

/* Each thread has a context and its own part of memory. */
static void *work(void *arg)
{
	int t = *(int *)arg, round, i;
	long mine[N], back[N];
	shmem_ctx_t ctx;

	CHECK_EQ(shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx), 0);
	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < N; i++)
			mine[i] = (round * THREADS + t) * N + i + me;
		shmem_ctx_long_put_nbi(ctx, slots[t], mine, N / 2, next);
		shmem_ctx_long_put(ctx, slots[t] + N / 2, mine + N / 2, N / 2, next);
		shmem_ctx_quiet(ctx);
		shmem_ctx_long_get(ctx, back, slots[t], N, next);
		for (i = 0; i < N; i++)
			CHECK_EQ(back[i], mine[i]);
	}
	pthread_barrier_wait(&meeting);
	shmem_ctx_destroy(ctx);
	return NULL;
}

static void threads(void)
{
	pthread_t thread[THREADS];
	int number[THREADS], i;

	pthread_barrier_init(&meeting, NULL, THREADS);
	for (i = 0; i < THREADS; i++) {
		number[i] = i;
		CHECK(!pthread_create(&thread[i], NULL, work, &number[i]));
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	shmem_barrier_all();
	for (i = 0; i < THREADS; i++)
		CHECK_EQ(slots[i][5], ((ROUNDS - 1) * THREADS + i) * N + 5 + before);
	pthread_barrier_destroy(&meeting);
}

int main(void)
{
	int provided = -1;

	CHECK_EQ(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided), 0);
	CHECK_EQ(provided, SHMEM_THREAD_MULTIPLE);
	shmem_query_thread(&provided);
	CHECK_EQ(provided, SHMEM_THREAD_MULTIPLE);
	me = shmem_my_pe();
	npes = shmem_n_pes();
	next = (me + 1) % npes;
	before = (me + npes - 1) % npes;
	many();
	threads();
	shmem_finalize();
	return 0;
}
