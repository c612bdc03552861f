/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/versus/mpi_cases.c - the cases of bench/shmem with MPI.
 *
 * Usage, under mpirun:  versus_mpi_cases [PREFIX [CASES [fine]]]
 * One-sided cases use MPI windows.  A put with a signal is MPI_Put, flush, MPI_Put of a word, and
 * flush; the receiver polls its own window.  The case `sendrecv` does the same by MPI_Send and
 * MPI_Recv.
 */
#include <mpi.h>

#include "../shmem/cases.h"

#define SECOND 1

struct library {
	MPI_Win send, recv; /* the memory of the job */
	MPI_Win words;      /* two words: of atomics, and of signals */
	uint64_t *word;
	uint64_t seen; /* signals, in all loops */
};

static int meet(struct cases_job *j)
{
	(void)j;
	return MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- one rank acts, rank 1 is the target ----------------------------------------------------- */
static int put(struct cases_job *j, size_t bytes, int rounds)
{
	struct library *l = j->context;

	for (int i = 0; i < rounds; i++) {
		MPI_Put(j->send, (int)bytes, MPI_BYTE, SECOND, 0, (int)bytes, MPI_BYTE, l->recv);
		MPI_Win_flush(SECOND, l->recv);
	}
	return 0;
}

static int get(struct cases_job *j, size_t bytes, int rounds)
{
	struct library *l = j->context;

	for (int i = 0; i < rounds; i++) {
		MPI_Get(j->recv, (int)bytes, MPI_BYTE, SECOND, 0, (int)bytes, MPI_BYTE, l->send);
		MPI_Win_flush(SECOND, l->send);
	}
	return 0;
}

static int fetch_add(struct cases_job *j, size_t bytes, int rounds)
{
	struct library *l = j->context;
	uint64_t one = 1, old;

	(void)bytes;
	for (int i = 0; i < rounds; i++) {
		MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, SECOND, 0, MPI_SUM, l->words);
		MPI_Win_flush(SECOND, l->words);
	}
	return 0;
}

/* ---- ranks 0 and 1: a round is there and back, so it counts as two --------------------------- */
/* Some transports only move when MPI is called, so it is, from time to time. */
static int wait_signal(struct library *l, uint64_t want)
{
	double end = 0;
	int there;

	for (uint64_t polls = 1; __atomic_load_n(&l->word[1], __ATOMIC_ACQUIRE) < want; polls++) {
		if (polls & 0xfff)
			continue;
		MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
		if (end == 0)
			end = bench_now() + BENCH_DEADLINE_S;
		else if (bench_now() > end)
			return 1;
	}
	return 0;
}

static void send_signal(struct cases_job *j, size_t bytes, uint64_t value)
{
	struct library *l = j->context;
	int peer = !j->rank;

	MPI_Put(j->send, (int)bytes, MPI_BYTE, peer, 0, (int)bytes, MPI_BYTE, l->recv);
	MPI_Win_flush(peer, l->recv);
	MPI_Put(&value, 1, MPI_UINT64_T, peer, sizeof(value), 1, MPI_UINT64_T, l->words);
	MPI_Win_flush(peer, l->words);
}

static int put_signal(struct cases_job *j, size_t bytes, int rounds)
{
	struct library *l = j->context;
	int err = 0;

	for (int i = 0; !err && i < rounds / 2; i++) {
		l->seen++;
		if (j->rank)
			err = wait_signal(l, l->seen);
		if (!err)
			send_signal(j, bytes, l->seen);
		if (!err && !j->rank)
			err = wait_signal(l, l->seen);
	}
	return err;
}

static int send_recv(struct cases_job *j, size_t bytes, int rounds)
{
	int peer = !j->rank;

	for (int i = 0; i < rounds / 2; i++) {
		if (!j->rank)
			MPI_Send(j->send, (int)bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
		MPI_Recv(j->recv, (int)bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (j->rank)
			MPI_Send(j->send, (int)bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
	}
	return 0;
}

/* ---- all ranks ------------------------------------------------------------------------------- */
static int barrier(struct cases_job *j, size_t bytes, int rounds)
{
	(void)j, (void)bytes;
	for (int i = 0; i < rounds; i++)
		MPI_Barrier(MPI_COMM_WORLD);
	return 0;
}

typedef void collective(struct cases_job *j, int bytes);

/* The other libraries meet after every group of calls, so MPI does too. */
static int repeat(struct cases_job *j, enum cases_data data, size_t bytes, int rounds,
		  collective *call)
{
	for (int i = 0; i < rounds; i++) {
		cases_renew(j, data, bytes);
		call(j, (int)bytes);
		if (i % CASES_GROUP == CASES_GROUP - 1)
			meet(j);
	}
	return 0;
}

static void call_broadcast(struct cases_job *j, int bytes)
{
	MPI_Bcast(j->rank ? j->recv : j->send, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void call_gather(struct cases_job *j, int bytes)
{
	MPI_Allgather(j->send, bytes, MPI_BYTE, j->recv, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void call_alltoall(struct cases_job *j, int bytes)
{
	MPI_Alltoall(j->send, bytes, MPI_BYTE, j->recv, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void call_sum(struct cases_job *j, int bytes)
{
	MPI_Allreduce(j->send, j->recv, bytes / (int)sizeof(double), MPI_DOUBLE, MPI_SUM,
		      MPI_COMM_WORLD);
}

#define COLLECTIVE(name, data)                                                                     \
	static int name(struct cases_job *j, size_t bytes, int rounds)                             \
	{                                                                                          \
		return repeat(j, data, bytes, rounds, call_##name);                                \
	}
COLLECTIVE(broadcast, CASES_FROM_ROOT)
COLLECTIVE(gather, CASES_BLOCKS)
COLLECTIVE(alltoall, CASES_EXCHANGED)
COLLECTIVE(sum, CASES_SUM)

static const struct cases_case cases[] = {
	{ "put", CASES_FIRST, CASES_AT_SECOND, 0, put, NULL, NULL },
	{ "get", CASES_FIRST, CASES_AT_FIRST, 0, get, NULL, NULL },
	{ "fetchadd", CASES_FIRST, CASES_NOTHING, 1, fetch_add, NULL, NULL },
	{ "putsignal", CASES_PAIR, CASES_AT_BOTH, 0, put_signal, NULL, NULL },
	{ "sendrecv", CASES_PAIR, CASES_AT_BOTH, 0, send_recv, NULL, NULL },
	{ "barrier", CASES_ALL, CASES_NOTHING, 1, barrier, NULL, NULL },
	{ "broadcast", CASES_ALL, CASES_FROM_ROOT, 0, broadcast, NULL, NULL },
	{ "fcollect", CASES_ALL, CASES_BLOCKS, 0, gather, NULL, NULL },
	{ "alltoall", CASES_ALL, CASES_EXCHANGED, 0, alltoall, NULL, NULL },
	{ "sum", CASES_ALL, CASES_SUM, 0, sum, NULL, NULL },
};

/* ---- setup ----------------------------------------------------------------------------------- */
static void open_window(MPI_Aint bytes, void *memory, MPI_Win *window)
{
	MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, memory, window);
	MPI_Win_lock_all(MPI_MODE_NOCHECK, *window);
}

static void close_window(MPI_Win *window)
{
	MPI_Win_unlock_all(*window);
	MPI_Win_free(window);
}

int main(int argc, char **argv)
{
	struct library l = { 0 };
	struct cases_job job = { .context = &l, .meet = meet };
	int err;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &job.nranks);
	bench_pin(job.rank);
	if (job.nranks < 2) {
		fprintf(stderr, "versus_mpi_cases: needs two ranks\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	open_window((MPI_Aint)job.nranks * CASES_MOST, &job.send, &l.send);
	open_window((MPI_Aint)job.nranks * CASES_MOST, &job.recv, &l.recv);
	open_window(2 * sizeof(uint64_t), &l.word, &l.words);
	l.word[0] = l.word[1] = 0;
	meet(&job);
	err = cases_run(&job, argc, argv, "mpi", cases, sizeof(cases) / sizeof(cases[0]));
	if (err)
		MPI_Abort(MPI_COMM_WORLD, err);
	close_window(&l.words);
	close_window(&l.recv);
	close_window(&l.send);
	return MPI_Finalize();
}
