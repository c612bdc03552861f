/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/shmem/shmem.c - the cases of bench/shmem with OpenSHMEM.
 *
 * Usage, under oshrun:  shmem_bench [PREFIX [CASES [fine]]]
 * The source needs OpenSHMEM 1.4 only, so that several implementations can be compared.  Where 1.5
 * has put_signal, it is used; otherwise a put, a fence and a put of the signal replace it.
 *
 * A pSync array may be used again only after all PEs have left the call that used it, and so may a
 * work array.  So calls take turns among CASES_GROUP arrays of each, and a barrier follows the last
 * of them, as in the loops of Oriel's own calls.
 */
#include <shmem.h>

#include "cases.h"

#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define PSYNC_LONGS                                                                                \
	LARGER(LARGER(SHMEM_BCAST_SYNC_SIZE, SHMEM_COLLECT_SYNC_SIZE),                             \
	       LARGER(LARGER(SHMEM_ALLTOALL_SYNC_SIZE, SHMEM_ALLTOALLS_SYNC_SIZE),                 \
		      SHMEM_REDUCE_SYNC_SIZE))
#define WORK_DOUBLES LARGER(CASES_MOST / sizeof(double) / 2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE)

/* Symmetric: the same address on all PEs. */
static long psync[CASES_GROUP][PSYNC_LONGS];
static double work[CASES_GROUP][WORK_DOUBLES];
static long word;
static uint64_t signal_word;

static int meet(struct cases_job *j)
{
	(void)j;
	shmem_barrier_all();
	return 0;
}

/* ---- one PE acts, PE 1 is the target --------------------------------------------------------- */

static int put(struct cases_job *j, size_t bytes, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		shmem_putmem(j->recv, j->send, bytes, 1);
		shmem_quiet();
	}
	return 0;
}

static int get(struct cases_job *j, size_t bytes, int rounds)
{
	for (int i = 0; i < rounds; i++)
		shmem_getmem(j->recv, j->send, bytes, 1);
	return 0;
}

static int put_value(struct cases_job *j, size_t bytes, int rounds)
{
	(void)bytes;
	for (int i = 0; i < rounds; i++) {
		shmem_double_p(j->recv, 1, 1);
		shmem_quiet();
	}
	return 0;
}

static int get_value(struct cases_job *j, size_t bytes, int rounds)
{
	(void)bytes;
	for (int i = 0; i < rounds; i++)
		j->recv[0] = shmem_double_g(j->send, 1);
	return 0;
}

static int fetch_add(struct cases_job *j, size_t bytes, int rounds)
{
	(void)j, (void)bytes;
	for (int i = 0; i < rounds; i++)
		shmem_long_atomic_fetch_add(&word, 1, 1);
	return 0;
}

static int add(struct cases_job *j, size_t bytes, int rounds)
{
	(void)j, (void)bytes;
	for (int i = 0; i < rounds; i++) {
		shmem_long_atomic_add(&word, 1, 1);
		shmem_quiet();
	}
	return 0;
}

static int swap(struct cases_job *j, size_t bytes, int rounds)
{
	(void)j, (void)bytes;
	for (int i = 0; i < rounds; i++)
		shmem_long_atomic_swap(&word, i, 1);
	return 0;
}

static int compare_swap(struct cases_job *j, size_t bytes, int rounds)
{
	(void)j, (void)bytes;
	for (int i = 0; i < rounds; i++)
		shmem_long_atomic_compare_swap(&word, i, i + 1, 1);
	return 0;
}

/* ---- PE 0 and PE 1: a round is there and back, so it counts as two --------------------------- */

static void send_signal(struct cases_job *j, size_t bytes, int pe)
{
#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
	shmem_putmem_signal(j->recv, j->send, bytes, &signal_word, 1, SHMEM_SIGNAL_ADD, pe);
#else
	static uint64_t sent;

	shmem_putmem(j->recv, j->send, bytes, pe);
	shmem_fence();
	shmem_uint64_p(&signal_word, ++sent, pe);
#endif
}

static void wait_signal(uint64_t value)
{
#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
	shmem_signal_wait_until(&signal_word, SHMEM_CMP_GE, value);
#else
	shmem_uint64_wait_until(&signal_word, SHMEM_CMP_GE, value);
#endif
}

static int put_signal(struct cases_job *j, size_t bytes, int rounds)
{
	static uint64_t seen;

	for (int i = 0; i < rounds / 2; i++) {
		if (j->rank)
			wait_signal(++seen);
		send_signal(j, bytes, !j->rank);
		if (!j->rank)
			wait_signal(++seen);
	}
	return 0;
}

/* ---- all PEs --------------------------------------------------------------------------------- */

static int barrier(struct cases_job *j, size_t bytes, int rounds)
{
	(void)j, (void)bytes;
	for (int i = 0; i < rounds; i++)
		shmem_barrier_all();
	return 0;
}

static int sync_all(struct cases_job *j, size_t bytes, int rounds)
{
	(void)j, (void)bytes;
	for (int i = 0; i < rounds; i++)
		shmem_sync_all();
	return 0;
}

typedef void collective(struct cases_job *j, size_t words, int turn);

static int repeat(struct cases_job *j, enum cases_data data, size_t bytes, int rounds,
		  collective *call)
{
	for (int i = 0; i < rounds; i++) {
		cases_renew(j, data, bytes);
		call(j, bytes / sizeof(double), i % CASES_GROUP);
		if (i % CASES_GROUP == CASES_GROUP - 1)
			shmem_barrier_all();
	}
	return 0;
}

static void call_broadcast(struct cases_job *j, size_t words, int turn)
{
	shmem_broadcast64(j->recv, j->send, words, 0, 0, 0, j->nranks, psync[turn]);
}

static void call_fcollect(struct cases_job *j, size_t words, int turn)
{
	shmem_fcollect64(j->recv, j->send, words, 0, 0, j->nranks, psync[turn]);
}

static void call_collect(struct cases_job *j, size_t words, int turn)
{
	shmem_collect64(j->recv, j->send, words, 0, 0, j->nranks, psync[turn]);
}

static void call_alltoall(struct cases_job *j, size_t words, int turn)
{
	shmem_alltoall64(j->recv, j->send, words, 0, 0, j->nranks, psync[turn]);
}

static void call_alltoalls(struct cases_job *j, size_t words, int turn)
{
	shmem_alltoalls64(j->recv, j->send, 1, 1, words, 0, 0, j->nranks, psync[turn]);
}

static void call_sum(struct cases_job *j, size_t words, int turn)
{
	shmem_double_sum_to_all(j->recv, j->send, (int)words, 0, 0, j->nranks, work[turn],
				psync[turn]);
}

#define COLLECTIVE(name, data)                                                                     \
	static int name(struct cases_job *j, size_t bytes, int rounds)                             \
	{                                                                                          \
		return repeat(j, data, bytes, rounds, call_##name);                                \
	}
COLLECTIVE(broadcast, CASES_FROM_ROOT)
COLLECTIVE(fcollect, CASES_BLOCKS)
COLLECTIVE(collect, CASES_BLOCKS)
COLLECTIVE(alltoall, CASES_EXCHANGED)
COLLECTIVE(alltoalls, CASES_EXCHANGED)
COLLECTIVE(sum, CASES_SUM)

static const struct cases_case cases[] = {
	{ "put", CASES_FIRST, CASES_AT_SECOND, 0, put, NULL, NULL },
	{ "get", CASES_FIRST, CASES_AT_FIRST, 0, get, NULL, NULL },
	{ "p", CASES_FIRST, CASES_AT_SECOND, 1, put_value, NULL, NULL },
	{ "g", CASES_FIRST, CASES_AT_FIRST, 1, get_value, NULL, NULL },
	{ "fetchadd", CASES_FIRST, CASES_NOTHING, 1, fetch_add, NULL, NULL },
	{ "add", CASES_FIRST, CASES_NOTHING, 1, add, NULL, NULL },
	{ "swap", CASES_FIRST, CASES_NOTHING, 1, swap, NULL, NULL },
	{ "cswap", CASES_FIRST, CASES_NOTHING, 1, compare_swap, NULL, NULL },
	{ "putsignal", CASES_PAIR, CASES_AT_BOTH, 0, put_signal, NULL, NULL },
	{ "barrier", CASES_ALL, CASES_NOTHING, 1, barrier, NULL, NULL },
	{ "sync", CASES_ALL, CASES_NOTHING, 1, sync_all, NULL, NULL },
	{ "broadcast", CASES_ALL, CASES_FROM_ROOT, 0, broadcast, NULL, NULL },
	{ "fcollect", CASES_ALL, CASES_BLOCKS, 0, fcollect, NULL, NULL },
	{ "collect", CASES_ALL, CASES_BLOCKS, 0, collect, NULL, NULL },
	{ "alltoall", CASES_ALL, CASES_EXCHANGED, 0, alltoall, NULL, NULL },
	{ "alltoalls", CASES_ALL, CASES_EXCHANGED, 0, alltoalls, NULL, NULL },
	{ "sum", CASES_ALL, CASES_SUM, 0, sum, NULL, NULL },
};

int main(int argc, char **argv)
{
	struct cases_job job = { .meet = meet };
	int err;

	for (int a = 0; a < CASES_GROUP; a++)
		for (int i = 0; i < PSYNC_LONGS; i++)
			psync[a][i] = SHMEM_SYNC_VALUE;
	shmem_init();
	job.rank = shmem_my_pe();
	job.nranks = shmem_n_pes();
	bench_pin(job.rank);
	job.send = shmem_malloc((size_t)job.nranks * CASES_MOST);
	job.recv = shmem_malloc((size_t)job.nranks * CASES_MOST);
	if (!job.send || !job.recv || job.nranks < 2) {
		fprintf(stderr, "shmem_bench: needs two PEs and %d MiB of symmetric memory\n",
			2 * job.nranks);
		shmem_global_exit(1);
	}
	err = cases_run(&job, argc, argv, "shmem", cases, sizeof(cases) / sizeof(cases[0]));
	shmem_barrier_all();
	/* Not shmem_finalize(): Open MPI 4.1.4's crashes, and its output would be lost. */
	shmem_global_exit(err);
	return err;
}
