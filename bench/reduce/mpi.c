/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/reduce/mpi.c - the cases of bench/reduce with MPI.
 *
 * Usage, under mpirun:  versus_mpi_reduce [allreduce | reducescatter | broadcast]
 */
#include <mpi.h>

#include "reduce.h"

static int call(const struct reduce_job *j, enum reduce_op op, size_t count)
{
	switch (op) {
	case REDUCE_ALL:
		return MPI_Allreduce(j->send, j->recv, (int)count, MPI_FLOAT, MPI_SUM,
				     MPI_COMM_WORLD);
	case REDUCE_SCATTER:
		return MPI_Reduce_scatter_block(j->send, j->recv, (int)count / j->nranks, MPI_FLOAT,
						MPI_SUM, MPI_COMM_WORLD);
	default:
		return MPI_Bcast(j->send, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
	}
}

static int meet(const struct reduce_job *j)
{
	(void)j;
	return MPI_Barrier(MPI_COMM_WORLD);
}

static int slowest(const struct reduce_job *j, double *us, int n)
{
	(void)j;
	return MPI_Allreduce(MPI_IN_PLACE, us, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	struct reduce_job job = { .call = call, .meet = meet, .slowest = slowest };
	int err;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &job.nranks);
	bench_pin(job.rank);
	err = reduce_memory(&job);
	if (!err)
		err = reduce_run(&job, "mpi", argc > 1 ? argv[1] : NULL, reduce_sizes,
				 REDUCE_COUNT(reduce_sizes));
	if (err)
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Finalize();
	return err;
}
