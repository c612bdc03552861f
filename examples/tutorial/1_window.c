/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tutorial, step 1: the first window.  Every rank puts one number into the window of every rank.
 *
 * docs/tutorial.md explains it.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/oriel.h>

/* The library has already printed one line that says why. */
static void must(int status)
{
	if (status)
		exit(1);
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct oriel_source source;
	struct oriel_comm *comm;
	const uint64_t *numbers;
	uint64_t mine;
	int rank, nranks;

	must(oriel_init(&comm));
	rank = oriel_comm_rank(comm);
	nranks = oriel_comm_size(comm);

	options.bytes = (uint64_t)nranks * sizeof(mine);
	must(oriel_window_create(comm, &options, &window));

	mine = 100 + (uint64_t)rank;
	must(oriel_window_source(window, &mine, sizeof(mine), &source));
	for (int peer = 0; peer < nranks; peer++)
		must(oriel_window_put(window, peer, (uint64_t)rank * sizeof(mine), &source, 0,
				      sizeof(mine), NULL));
	must(oriel_window_barrier(window, 0, NULL));

	numbers = oriel_window_buffer(window);
	printf("rank %d has", rank);
	for (int r = 0; r < nranks; r++)
		printf(" %d", (int)numbers[r]);
	printf("\n");
	must(oriel_finalize(comm));
	return 0;
}
