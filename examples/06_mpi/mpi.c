/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 06_mpi - Oriel inside an MPI program: ranks meet through MPI, then put into each other's windows.
 *
 * Oriel needs only one function of another runtime: an all-gather.  Here it is MPI_Allgather, on a
 * communicator of its own, so that messages of Oriel and of the program do not mix.  The program
 * can go on using MPI: at the end, MPI_Allreduce adds up the sums of all windows.
 *
 * Under a PMIx launcher, such as Open MPI's mpirun, none of this is needed: oriel_init() works.
 *
 * Build:  mpicc mpi.c -o mpi $(pkg-config --cflags --libs oriel)
 * Run:    mpirun -np 4 ./mpi        (with ORIEL_CHECKED=1 every call is checked)
 */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>

#include <oriel/oriel.h>

/* The library has already printed the error. */
static void must(int status)
{
	if (status)
		MPI_Abort(MPI_COMM_WORLD, 1);
}

static int allgather(void *ctx, const void *mine, void *all, size_t bytes)
{
	MPI_Comm *comm = ctx;

	if (bytes > INT_MAX) /* MPI counts in int */
		return 1;
	return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *comm) !=
	       MPI_SUCCESS;
}

static void give_up(void *ctx, int why)
{
	(void)why;
	MPI_Abort(*(MPI_Comm *)ctx, 1);
}

/* Oriel calls it when the boot and all its comms have ended.  Call MPI_Finalize() after that. */
static void done(void *ctx)
{
	MPI_Comm_free(ctx);
}

/*
 * Every rank puts its number into its own slot in the window of every rank.  Returns the sum of all
 * numbers in this rank's window.
 */
static uint64_t exchange(struct oriel_comm *comm)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	int rank = oriel_comm_rank(comm), nranks = oriel_comm_size(comm);
	uint64_t mine = (uint64_t)rank + 1, sum = 0, *places;
	struct oriel_window *window;
	struct oriel_source source;

	options.bytes = (uint64_t)nranks * sizeof(mine);
	must(oriel_window_create(comm, &options, &window));
	must(oriel_window_source(window, &mine, sizeof(mine), &source));
	for (int peer = 0; peer < nranks; peer++)
		must(oriel_window_put(window, peer, (uint64_t)rank * sizeof(mine), &source, 0,
				      sizeof(mine), NULL));
	must(oriel_window_barrier(window, 0, NULL));
	places = oriel_window_buffer(window);
	for (int r = 0; r < nranks; r++)
		sum += places[r];
	must(oriel_window_destroy(window));
	return sum;
}

int main(int argc, char **argv)
{
	struct oriel_boot_ops ops = { sizeof(ops), allgather, give_up, done };
	struct oriel_boot *boot;
	struct oriel_comm *comm;
	MPI_Comm own;
	uint64_t sum, total = 0, want;
	int rank, nranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &own);
	MPI_Comm_rank(own, &rank);
	MPI_Comm_size(own, &nranks);
	must(oriel_boot_user(&ops, &own, rank, nranks, &boot));
	must(oriel_comm_create(boot, NULL, &comm));
	must(oriel_boot_destroy(boot)); /* the comm does not need it any more */
	sum = exchange(comm);
	must(oriel_finalize(comm));

	MPI_Allreduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	want = (uint64_t)nranks * (uint64_t)nranks * ((uint64_t)nranks + 1) / 2;
	if (rank == 0)
		printf("%d ranks of MPI: all windows together hold %llu, expected %llu\n", nranks,
		       (unsigned long long)total, (unsigned long long)want);
	MPI_Finalize();
	return total == want ? 0 : 1;
}
