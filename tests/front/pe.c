/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/front/pe.c - what a program of OpenSHMEM does, once: for front_test.py, in which calls
 * of the library below fail.
 *
 * Prints "unharmed" at its end.
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 3000

static unsigned char target[BYTES];
static uint64_t ready;
static long mine = 5, sum;

static void expect(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "pe: wrong: %s\n", what);
	shmem_global_exit(3);
}

int main(void)
{
	static unsigned char source[BYTES];
	int me, npes, next;
	shmem_team_t team;
	shmem_ctx_t ctx;
	long *heap;

	shmem_init();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	next = (me + 1) % npes;
	memset(source, 'a' + me, BYTES);
	shmem_putmem_signal(target, source, BYTES, &ready, 1, SHMEM_SIGNAL_SET, next);
	shmem_signal_wait_until(&ready, SHMEM_CMP_EQ, 1);
	expect(target[BYTES - 1] == 'a' + (me + npes - 1) % npes, "bytes of the put");
	heap = shmem_malloc(sizeof(*heap) * (size_t)npes);
	/* a NULL is how this call says that there is no memory */
	if (!heap) {
		fprintf(stderr, "pe: shmem_malloc returned NULL\n");
		shmem_global_exit(4);
	}
	shmem_long_fcollect(SHMEM_TEAM_WORLD, heap, &mine, 1);
	expect(heap[npes - 1] == 5, "values of the collect");
	shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &mine, 1);
	expect(sum == 5 * npes, "the sum");
	/* both may refuse */
	if (!shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, NULL, 0, &team) &&
	    team != SHMEM_TEAM_INVALID)
		shmem_team_destroy(team);
	if (!shmem_ctx_create(0, &ctx)) {
		shmem_ctx_long_atomic_inc(ctx, heap, next);
		shmem_ctx_destroy(ctx);
	}
	shmem_barrier_all();
	shmem_free(heap);
	shmem_finalize();
	puts("unharmed");
	return 0;
}
