/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/versus/mpi.c - the figures of bench/oriel_bench.c with MPI windows.
 *
 * Usage, under mpirun:  versus_mpi pair | barrier
 * put 8 B + signal is MPI_Put, flush, MPI_Put of the signal word, flush; the receiver polls its own
 * window.  Ranks are pinned as Oriel's are.  Rank 0 prints lines "name value unit".
 */
#include <mpi.h>

#include <string.h>

#include "../bench.h"

#define ROUNDS 20000
#define LARGE (64u << 20)
#define PAYLOAD_OFF 0
#define SIGNAL_OFF 1024
#define DATA_OFF 4096

struct job {
	int rank, nranks;
	MPI_Win win;
	uint8_t *base;
	uint8_t *source;
};

/* Some transports only move when MPI is called, so it is, from time to time. */
static void wait_signal(struct job *job, uint64_t want)
{
	const uint64_t *word = (const uint64_t *)(const void *)(job->base + SIGNAL_OFF);
	double end = 0;
	int there;

	for (uint64_t polls = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) < want; polls++) {
		if (polls & 0xfff)
			continue;
		MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
		if (end == 0)
			end = bench_now() + BENCH_DEADLINE_S;
		else if (bench_now() > end)
			MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static void put_signal(struct job *job, uint64_t i)
{
	int peer = 1 - job->rank;

	MPI_Put(job->source, 8, MPI_BYTE, peer, PAYLOAD_OFF, 8, MPI_BYTE, job->win);
	MPI_Win_flush(peer, job->win);
	MPI_Put(&i, 8, MPI_BYTE, peer, SIGNAL_OFF, 8, MPI_BYTE, job->win);
	MPI_Win_flush(peer, job->win);
}

static void run_ping_pong(struct job *job)
{
	double ns[BENCH_BLOCKS + 1];
	uint64_t at = 1;

	for (int b = 0; b <= BENCH_BLOCKS; b++) {
		double start;

		MPI_Barrier(MPI_COMM_WORLD);
		start = bench_now();
		for (uint64_t end = at + ROUNDS; at < end; at++) {
			if (job->rank)
				wait_signal(job, at);
			put_signal(job, at);
			if (!job->rank)
				wait_signal(job, at);
		}
		ns[b] = (bench_now() - start) * 1e9 / ROUNDS / 2;
	}
	if (job->rank == 0)
		bench_print("mpi_put8_signal", bench_median(ns + 1, BENCH_BLOCKS), "ns");
}

static void run_put(struct job *job, const char *name, size_t bytes)
{
	double rate[BENCH_BLOCKS + 1];
	int n = bench_copies(bytes);

	for (int b = 0; b <= BENCH_BLOCKS; b++) {
		double start;

		MPI_Barrier(MPI_COMM_WORLD);
		if (job->rank)
			continue;
		start = bench_now();
		for (int i = 0; i < n; i++)
			MPI_Put(job->source, (int)bytes, MPI_BYTE, 1, DATA_OFF, (int)bytes,
				MPI_BYTE, job->win);
		MPI_Win_flush(1, job->win);
		rate[b] = (double)bytes * n / (bench_now() - start) * 1e-9;
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (job->rank == 0)
		bench_print(name, bench_median(rate + 1, BENCH_BLOCKS), "GB/s");
}

static void run_barrier(struct job *job)
{
	int n = job->nranks > BENCH_CORES ? 1000 : ROUNDS;
	double ns[BENCH_BLOCKS + 1];
	char name[32];

	for (int b = 0; b <= BENCH_BLOCKS; b++) {
		double start;

		MPI_Barrier(MPI_COMM_WORLD);
		start = bench_now();
		for (int i = 0; i < n; i++)
			MPI_Barrier(MPI_COMM_WORLD);
		ns[b] = (bench_now() - start) * 1e9 / n;
	}
	snprintf(name, sizeof(name), "mpi_barrier%d", job->nranks);
	if (job->rank == 0)
		bench_print(name, bench_median(ns + 1, BENCH_BLOCKS), "ns");
}

static int run_pair(struct job *job)
{
	job->source = malloc(LARGE);
	if (!job->source)
		return 1;
	memset(job->source, 1, LARGE);
	MPI_Win_allocate(LARGE + DATA_OFF, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &job->base, &job->win);
	memset(job->base, 0, LARGE + DATA_OFF);
	MPI_Win_lock_all(MPI_MODE_NOCHECK, job->win);
	run_ping_pong(job);
	run_barrier(job);
	run_put(job, "mpi_put1_1m", 1u << 20);
	run_put(job, "mpi_put1_64m", LARGE);
	MPI_Win_unlock_all(job->win);
	MPI_Win_free(&job->win);
	free(job->source);
	return 0;
}

int main(int argc, char **argv)
{
	struct job job = { .rank = -1 };
	int pair = argc == 2 && !strcmp(argv[1], "pair"), err = 0;

	if (!pair && (argc != 2 || strcmp(argv[1], "barrier") != 0)) {
		fprintf(stderr, "usage: versus_mpi pair|barrier\n");
		return 2;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &job.nranks);
	bench_pin(job.rank);
	if (!pair)
		run_barrier(&job);
	else if (job.nranks == 2)
		err = run_pair(&job);
	else
		err = 2;
	MPI_Finalize();
	return err;
}
