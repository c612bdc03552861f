/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * signal.c - put with signal: the data is there when the signal is, on every context; signals of
 * many PEs on one word add up, also with atomics on that word.
 */
#include "pe.h"

#define ROUNDS 30
#define BYTES 20000

static unsigned char data[2][BYTES], local[BYTES];
static uint64_t ready[2], sum;
static int me, npes;

static unsigned char byte_of(int from, int round, int i)
{
	return (unsigned char)(from * 37 + round * 11 + i);
}

/* Two halves in turn: the next PE has seen round r - 2 when it has put round r - 1. */
static void rounds(shmem_ctx_t ctx, int nbi, size_t bytes)
{
	int next = (me + 1) % npes, before = (me + npes - 1) % npes, r;
	size_t i;

	ready[0] = ready[1] = 0;
	shmem_barrier_all();
	for (r = 1; r <= ROUNDS; r++) {
		unsigned char *half = data[r & 1];
		uint64_t *word = &ready[r & 1], got;

		for (i = 0; i < bytes; i++)
			local[i] = byte_of(me, r, (int)i);
		if (nbi)
			shmem_ctx_uchar_put_signal_nbi(ctx, half, local, bytes, word, (uint64_t)r,
						       SHMEM_SIGNAL_SET, next);
		else
			shmem_ctx_putmem_signal(ctx, half, local, bytes, word, (uint64_t)r,
						SHMEM_SIGNAL_SET, next);
		got = shmem_signal_wait_until(word, SHMEM_CMP_GE, (uint64_t)r);
		CHECK_EQ(got, r);
		CHECK_EQ(shmem_signal_fetch(word), r);
		for (i = 0; i < bytes; i++)
			CHECK_EQ(half[i], byte_of(before, r, (int)i));
		shmem_ctx_quiet(ctx);
		if (npes > 2)
			shmem_sync_all();
	}
	shmem_barrier_all();
}

/* Everyone signals everyone by ADD, and adds 1 by an atomic. */
static void sums(void)
{
	long one = 1;
	static long target[64];
	int k, r;

	for (r = 0; r < ROUNDS; r++)
		for (k = 0; k < npes; k++) {
			shmem_long_put_signal(&target[me], &one, 1, &sum, 2, SHMEM_SIGNAL_ADD, k);
			shmem_uint64_atomic_inc(&sum, k);
		}
	shmem_signal_wait_until(&sum, SHMEM_CMP_EQ, (uint64_t)(3 * ROUNDS * npes));
	for (k = 0; k < npes; k++)
		CHECK_EQ(target[k], 1);
	shmem_barrier_all();
	/* no data: the signal alone */
	shmem_put64_signal(&target[me], &one, 0, &sum, 1, SHMEM_SIGNAL_SET, (me + 1) % npes);
	shmem_signal_wait_until(&sum, SHMEM_CMP_EQ, 1);
	shmem_barrier_all();
}

int main(void)
{
	shmem_ctx_t ctx;

	shmem_init();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
	rounds(SHMEM_CTX_DEFAULT, 0, BYTES);
	rounds(SHMEM_CTX_DEFAULT, 1, 24);
	rounds(ctx, 0, 200);
	rounds(ctx, 1, BYTES);
	sums();
	shmem_ctx_destroy(ctx);
	shmem_finalize();
	return 0;
}
