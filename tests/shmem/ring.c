/* SPDX-License-Identifier: BSD-3-Clause */
/* ring.c - the smallest program: every PE puts to the next one and gets from it. */
#include "pe.h"

#define BYTES 100000

static char local[BYTES];

int main(void)
{
	int me, npes, next, i;
	char *data;
	long *from;

	shmem_init();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	next = (me + 1) % npes;
	data = shmem_malloc(BYTES);
	from = shmem_calloc((size_t)npes, sizeof(*from));
	CHECK(data && from);
	memset(local, 'a' + me, BYTES);
	shmem_putmem(data, local, BYTES, next);
	for (i = 0; i < npes; i++)
		shmem_long_p(from + me, me + 1, i);
	shmem_barrier_all();
	for (i = 0; i < BYTES; i++)
		CHECK_EQ(data[i], 'a' + (me + npes - 1) % npes);
	for (i = 0; i < npes; i++)
		CHECK_EQ(from[i], i + 1);
	shmem_getmem(local, data, BYTES, next);
	for (i = 0; i < BYTES; i++)
		CHECK_EQ(local[i], 'a' + me);
	shmem_free(data);
	shmem_finalize();
	return 0;
}
