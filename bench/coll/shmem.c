/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/coll/shmem.c - the cases of bench/coll with shmem_fcollect64 and shmem_alltoall64.
 *
 * Usage, under oshrun:  versus_shmem_coll
 * OpenSHMEM has no all-to-all-v, so its all-to-all of equal parts is compared with Oriel's
 * all-to-all-v.  A barrier follows each call.  Without it, the next call of a fast rank overwrites
 * data that a slow rank has not read; MPI and Oriel prevent this.  Ranks are pinned as in the other
 * programs.  Rank 0 prints lines "shmem_gather8_64k value us".
 */
#include <shmem.h>

#include "coll.h"

#define PSYNC_LONGS                                                                                \
	(SHMEM_ALLTOALL_SYNC_SIZE > SHMEM_COLLECT_SYNC_SIZE ? SHMEM_ALLTOALL_SYNC_SIZE :           \
							      SHMEM_COLLECT_SYNC_SIZE)
#define REDUCE_LONGS                                                                               \
	(SHMEM_REDUCE_MIN_WRKDATA_SIZE > BENCH_BLOCKS ? SHMEM_REDUCE_MIN_WRKDATA_SIZE :            \
							BENCH_BLOCKS)

/* Symmetric: the same address on all ranks. */
static long psync[PSYNC_LONGS];
static long reduce_psync[2][SHMEM_REDUCE_SYNC_SIZE];
static double mine[BENCH_BLOCKS], slowest[BENCH_BLOCKS], work[REDUCE_LONGS];
static long wrong, all_wrong, long_work[REDUCE_LONGS];

static void call(const struct coll_case *c, uint8_t *send, uint8_t *recv, int nranks)
{
	if (c->op == COLL_GATHER)
		shmem_fcollect64(recv, send, c->bytes / 8, 0, 0, nranks, psync);
	else
		shmem_alltoall64(recv, send, c->bytes / 8, 0, 0, nranks, psync);
	shmem_barrier_all();
}

static void time_case(const struct coll_case *c, uint8_t *send, uint8_t *recv, int nranks)
{
	int n = coll_loops(c, nranks);

	for (int b = -1; b < BENCH_BLOCKS; b++) { /* the first is the warm-up */
		double start;

		shmem_barrier_all();
		start = bench_now();
		for (int i = 0; i < n; i++)
			call(c, send, recv, nranks);
		if (b >= 0)
			mine[b] = (bench_now() - start) * 1e6 / n;
	}
}

static int run_case(const struct coll_case *c, int rank, int nranks)
{
	uint8_t *send = shmem_align(COLL_ALIGN, coll_send_bytes(c, nranks));
	uint8_t *recv = shmem_align(COLL_ALIGN, coll_recv_bytes(c, nranks));

	if (!send || !recv) {
		fprintf(stderr, "versus_shmem_coll: the symmetric heap is too small\n");
		return 1;
	}
	memset(recv, 0, coll_recv_bytes(c, nranks));
	coll_fill(send, c, rank, nranks);
	time_case(c, send, recv, nranks);
	wrong = (long)coll_wrong(recv, c, rank, nranks);
	shmem_barrier_all();
	shmem_double_max_to_all(slowest, mine, BENCH_BLOCKS, 0, 0, nranks, work, reduce_psync[0]);
	shmem_long_sum_to_all(&all_wrong, &wrong, 1, 0, 0, nranks, long_work, reduce_psync[1]);
	shmem_barrier_all();
	shmem_free(recv);
	shmem_free(send);
	if (rank)
		return all_wrong != 0;
	return coll_print("shmem", c, nranks, bench_median(slowest, BENCH_BLOCKS),
			  (uint64_t)all_wrong);
}

int main(void)
{
	int err = 0, rank, nranks;

	for (int i = 0; i < PSYNC_LONGS; i++)
		psync[i] = SHMEM_SYNC_VALUE;
	for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
		reduce_psync[0][i] = reduce_psync[1][i] = SHMEM_SYNC_VALUE;
	shmem_init();
	rank = shmem_my_pe();
	nranks = shmem_n_pes();
	bench_pin(rank);
	for (size_t i = 0; !err && i < COLL_CASES; i++)
		err = run_case(&coll_cases[i], rank, nranks);
	shmem_barrier_all();
	/*
	 * Not shmem_finalize(): Open MPI 4.1.4's crashes, in a program that does nothing else too.
	 */
	shmem_global_exit(err);
	return err;
}
