/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This program has a fault on purpose: rank 2 uses signal 1 where its neighbours use signal 0.
 *
 * A text should go from rank to rank.  Rank 3 waits for rank 2, which waits for a signal that never
 * comes.  docs/debugging.md shows how the late reports of the ranks lead to the fault.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/oriel.h>

static void must(int status)
{
	if (status)
		exit(1);
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	char text[32] = "the news";
	struct oriel_window *window;
	struct oriel_source source;
	struct oriel_comm *comm;
	int rank, nranks, id;

	must(oriel_init(&comm));
	rank = oriel_comm_rank(comm);
	nranks = oriel_comm_size(comm);
	options.bytes = sizeof(text);
	must(oriel_window_create(comm, &options, &window));

	id = rank == 2 ? 1 : 0; /* the fault */
	if (rank > 0)
		must(oriel_window_wait_signal(window, rank - 1, id, ORIEL_GE, 1, NULL));
	must(oriel_window_source(window, rank > 0 ? oriel_window_buffer(window) : text,
				 sizeof(text), &source));
	if (rank + 1 < nranks)
		must(oriel_window_put_signal(window, rank + 1, 0, &source, 0, sizeof(text), 0,
					     ORIEL_ADD, 1, NULL));
	must(oriel_window_barrier(window, 0, NULL));
	printf("rank %d knows %s\n", rank, (const char *)oriel_window_buffer(window));
	must(oriel_finalize(comm));
	return 0;
}
