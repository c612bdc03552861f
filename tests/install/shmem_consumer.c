/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/install/shmem_consumer.c - an OpenSHMEM program of a user, as C and as C++.
 *
 * Each PE puts its number to the next one, into a global and into the heap, and adds to a word of
 * PE 0.  shmem_test.sh compiles it outside of the tree.
 */
#include <shmem.h>
#include <stdio.h>

static long from_left = -1;
static long sum;

int main(void)
{
	int me, n;
	long *heap;

	shmem_init();
	me = shmem_my_pe();
	n = shmem_n_pes();
	heap = (long *)shmem_malloc(sizeof(*heap));
	if (!heap)
		return 1;
	*heap = -1;
	shmem_barrier_all();
	shmem_long_p(&from_left, 100 + me, (me + 1) % n);
	shmem_long_p(heap, 200 + me, (me + 1) % n);
	shmem_long_atomic_add(&sum, me + 1, 0);
	shmem_barrier_all();
	printf("PE %d of %d got %ld and %ld, sum %ld\n", me, n, from_left, *heap, sum);
	shmem_free(heap);
	shmem_finalize();
	return 0;
}
