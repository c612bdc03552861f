/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/coll/mpi.c - the cases of bench/coll with MPI_Allgather and MPI_Alltoallv.
 *
 * Usage, under mpirun:  versus_mpi_coll
 * Ranks are pinned as in bench/coll/oriel.c.  Rank 0 prints lines "mpi_gather8_64k value us"; the
 * value is that of the slowest rank.
 */
#include <mpi.h>

#include "coll.h"

struct job {
	int rank, nranks;
	uint8_t *send, *recv;
	int *counts, *offsets;
};

static void call(const struct job *job, const struct coll_case *c)
{
	if (c->op == COLL_GATHER)
		MPI_Allgather(job->send, (int)c->bytes, MPI_BYTE, job->recv, (int)c->bytes,
			      MPI_BYTE, MPI_COMM_WORLD);
	else
		MPI_Alltoallv(job->send, job->counts, job->offsets, MPI_BYTE, job->recv,
			      job->counts, job->offsets, MPI_BYTE, MPI_COMM_WORLD);
}

static int make_buffers(struct job *job, const struct coll_case *c)
{
	size_t recv = coll_recv_bytes(c, job->nranks);

	job->send = coll_alloc(coll_send_bytes(c, job->nranks));
	job->recv = coll_alloc(recv);
	job->counts = calloc((size_t)job->nranks, sizeof(int));
	job->offsets = calloc((size_t)job->nranks, sizeof(int));
	if (!job->send || !job->recv || !job->counts || !job->offsets)
		return -1;
	memset(job->recv, 0, recv); /* the pages exist */
	coll_fill(job->send, c, job->rank, job->nranks);
	for (int r = 0; r < job->nranks; r++) {
		job->counts[r] = (int)c->bytes;
		job->offsets[r] = r * (int)c->bytes;
	}
	return 0;
}

static void free_buffers(struct job *job)
{
	free(job->send);
	free(job->recv);
	free(job->counts);
	free(job->offsets);
}

static int run_case(struct job *job, const struct coll_case *c)
{
	double mine[BENCH_BLOCKS + 1], us[BENCH_BLOCKS + 1];
	int n = coll_loops(c, job->nranks);
	uint64_t wrong, all_wrong = 0;

	if (make_buffers(job, c))
		return 1;
	for (int b = 0; b <= BENCH_BLOCKS; b++) { /* the first is the warm-up */
		double start;

		MPI_Barrier(MPI_COMM_WORLD);
		start = bench_now();
		for (int i = 0; i < n; i++)
			call(job, c);
		mine[b] = (bench_now() - start) * 1e6 / n;
	}
	MPI_Allreduce(mine, us, BENCH_BLOCKS + 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	wrong = coll_wrong(job->recv, c, job->rank, job->nranks);
	MPI_Allreduce(&wrong, &all_wrong, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	free_buffers(job);
	if (job->rank)
		return all_wrong != 0;
	return coll_print("mpi", c, job->nranks, bench_median(us + 1, BENCH_BLOCKS), all_wrong);
}

int main(int argc, char **argv)
{
	struct job job = { .rank = -1 };
	int err = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &job.nranks);
	bench_pin(job.rank);
	for (size_t i = 0; !err && i < COLL_CASES; i++)
		err = run_case(&job, &coll_cases[i]);
	if (err)
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Finalize();
	return err;
}
