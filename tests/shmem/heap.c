/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap.c - allocation: the same offsets on all PEs, alignment, zeros, contents after a realloc, and
 * pieces that join again when they are free.
 */
#include "pe.h"

#define BLOCKS 40

static int me, npes;
static uint64_t state = 1;

static unsigned int chance(unsigned int below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(state >> 33) % below;
}

/* All PEs put the address difference of two blocks to PE 0: it is the same everywhere. */
static void check_same_place(const char *base, const char *block)
{
	static long where[64];
	int i;

	shmem_long_p(&where[me], block - base, 0);
	shmem_barrier_all();
	for (i = 0; me == 0 && i < npes; i++)
		CHECK_EQ(where[i], block - base);
	shmem_barrier_all();
}

/* Takes and gives blocks in any order; no two of them overlap. */
static void random_blocks(void)
{
	char *block[BLOCKS] = { NULL }, *base = shmem_malloc(1);
	size_t bytes[BLOCKS], i, at;
	int round;

	for (round = 0; round < 150; round++) {
		i = chance(BLOCKS);
		if (block[i]) {
			for (at = 0; at < bytes[i]; at++)
				CHECK_EQ(block[i][at], (char)i);
			shmem_free(block[i]);
			block[i] = NULL;
			continue;
		}
		bytes[i] = 1 + chance(chance(10) ? 300 : 40000);
		block[i] = chance(3) ? shmem_malloc(bytes[i]) :
				       shmem_align((size_t)1 << chance(14), bytes[i]);
		CHECK(block[i] != NULL);
		memset(block[i], (char)i, bytes[i]);
	}
	for (i = 0; i < BLOCKS; i++)
		if (block[i]) {
			check_same_place(base, block[i]);
			shmem_free(block[i]);
		}
	shmem_free(base);
}

static void alignment(void)
{
	size_t a;

	for (a = 1; a <= (size_t)16 << 20; a *= 2) {
		char *p = shmem_align(a, 10), *q = shmem_align(a, 10);

		CHECK(p && q && p != q);
		CHECK_EQ((uintptr_t)p % a, 0);
		CHECK_EQ((uintptr_t)q % a, 0);
		shmem_free(p);
		shmem_free(q);
	}
	CHECK(!shmem_align(0, 10));
	CHECK(!shmem_align(63, 10));
	CHECK(!shmem_align((size_t)1 << 40, 10));
}

static void zeros_and_nothing(void)
{
	char *p;
	int i;

	p = shmem_malloc(5000);
	memset(p, 1, 5000);
	shmem_free(p);
	p = shmem_calloc(50, 100);
	for (i = 0; i < 5000; i++)
		CHECK_EQ(p[i], 0);
	shmem_free(p);
	CHECK(!shmem_malloc(0));
	CHECK(!shmem_calloc(0, 8));
	CHECK(!shmem_calloc(SIZE_MAX / 2, 8));
	shmem_free(NULL);
}

static void growing(void)
{
	char *p = shmem_realloc(NULL, 100);
	size_t bytes, i;

	memset(p, 7, 100);
	for (bytes = 200; bytes <= 100000; bytes *= 3) {
		p = shmem_realloc(p, bytes);
		CHECK(p != NULL);
		for (i = 0; i < 100; i++)
			CHECK_EQ(p[i], 7);
	}
	p = shmem_realloc(p, 50);
	for (i = 0; i < 50; i++)
		CHECK_EQ(p[i], 7);
	CHECK(!shmem_realloc(p, 0));
}

/* The whole heap: too much is NULL on all PEs, and nothing is lost. */
static void all_of_it(void)
{
	size_t most = (size_t)64 << 20;
	void *p, *q;

	while (!(p = shmem_malloc(most)))
		most /= 2;
	CHECK(most >= (size_t)32 << 20);
	CHECK(!shmem_malloc(most * 2));
	q = shmem_malloc_with_hints(1000, SHMEM_MALLOC_ATOMICS_REMOTE);
	shmem_free(p);
	shmem_free(q);
	p = shmem_malloc(most);
	CHECK(p != NULL);
	shmem_free(p);
}

int main(void)
{
	shmem_init();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	random_blocks();
	alignment();
	zeros_and_nothing();
	growing();
	all_of_it();
	shmem_finalize();
	return 0;
}
