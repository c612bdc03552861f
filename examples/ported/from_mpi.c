/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A halo exchange that came from MPI: docs/from-mpi.md has the calls of MPI beside these.
 *
 * Each rank owns a part of a rod and smooths the temperatures.  The first and last cell are copies
 * of the neighbours' cells.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/coll.h>
#include <oriel/oriel.h>

#define CELLS 100 /* of a rank, without the two copies */
#define STEPS 50

static void must(int status)
{
	if (status)
		exit(1);
}

/* Puts cell `from` into cell `to` of the neighbour, if there is one. */
static void send_cell(struct oriel_window *window, const struct oriel_source *rod, int neighbour,
		      int nranks, uint64_t from, uint64_t to)
{
	if (neighbour >= 0 && neighbour < nranks)
		must(oriel_window_put_signal(window, neighbour, to * sizeof(double), rod,
					     from * sizeof(double), sizeof(double), 0, ORIEL_ADD, 1,
					     NULL));
}

static void wait_for(struct oriel_window *window, int neighbour, int nranks, int id, uint64_t step)
{
	if (neighbour >= 0 && neighbour < nranks)
		must(oriel_window_wait_signal(window, neighbour, id, ORIEL_GE, step, NULL));
}

static void tell_free(struct oriel_window *window, int neighbour, int nranks)
{
	if (neighbour >= 0 && neighbour < nranks)
		must(oriel_window_signal(window, neighbour, 1, ORIEL_ADD, 1, NULL));
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	double next[CELLS + 2], heat = 0, *cells;
	struct oriel_window *window;
	struct oriel_source rod;
	struct oriel_comm *comm;
	int rank, nranks;

	must(oriel_init(&comm)); /* MPI_Init */
	rank = oriel_comm_rank(comm);
	nranks = oriel_comm_size(comm);
	options.bytes = (CELLS + 2) * sizeof(double);
	must(oriel_window_create(comm, &options, &window)); /* MPI_Win_allocate */
	cells = oriel_window_buffer(window);
	must(oriel_window_source(window, cells, options.bytes, &rod));
	for (int i = 0; i < CELLS + 2; i++)
		cells[i] = rank == 0 && i == 1 ? 1000 : 0;
	must(oriel_window_barrier(window, 0, NULL)); /* all cells have their first value */

	for (uint64_t step = 1; step <= STEPS; step++) {
		/* MPI_Sendrecv with both neighbours */
		send_cell(window, &rod, rank - 1, nranks, 1, CELLS + 1);
		send_cell(window, &rod, rank + 1, nranks, CELLS, 0);
		wait_for(window, rank - 1, nranks, 0, step);
		wait_for(window, rank + 1, nranks, 0, step);
		for (int i = 1; i <= CELLS; i++) {
			double left = rank == 0 && i == 1 ? cells[i] : cells[i - 1];
			double right = rank == nranks - 1 && i == CELLS ? cells[i] : cells[i + 1];

			next[i] = (left + 2 * cells[i] + right) / 4;
		}
		for (int i = 1; i <= CELLS; i++)
			cells[i] = next[i];
		/* The copies are read: the neighbours may put the next ones. */
		tell_free(window, rank - 1, nranks);
		tell_free(window, rank + 1, nranks);
		wait_for(window, rank - 1, nranks, 1, step);
		wait_for(window, rank + 1, nranks, 1, step);
	}
	for (int i = 1; i <= CELLS; i++)
		heat += cells[i];
	must(oriel_allreduce(comm, NULL, &heat, 1, ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_SUM, NULL));
	if (rank == 0)
		printf("%d ranks: heat in the rod %.1f\n", nranks, heat);
	must(oriel_finalize(comm));
	return heat < 999.9 || heat > 1000.1;
}
