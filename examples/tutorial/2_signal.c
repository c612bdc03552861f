/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tutorial, step 2: signals instead of a barrier.  A sum travels round a ring of ranks.
 *
 * Each round a rank adds its own number and passes the sum on.  docs/tutorial.md explains it.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/oriel.h>

#define DATA 0 /* signal to the right neighbour: "a sum is in your window" */
#define FREE 1 /* signal to the left neighbour: "I have read it, put the next one" */
#define ROUNDS 3

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
	const uint64_t *arrived;
	int rank, nranks, left, right;
	uint64_t sum = 0;

	must(oriel_init(&comm));
	rank = oriel_comm_rank(comm);
	nranks = oriel_comm_size(comm);
	left = (rank + nranks - 1) % nranks;
	right = (rank + 1) % nranks;
	options.bytes = sizeof(sum);
	must(oriel_window_create(comm, &options, &window));
	must(oriel_window_source(window, &sum, sizeof(sum), &source));
	arrived = oriel_window_buffer(window);

	for (uint64_t i = 1; i <= ROUNDS; i++) {
		sum += 10 + (uint64_t)rank;
		/* Before the second put the neighbour must have read the first one, and so on. */
		must(oriel_window_wait_signal(window, right, FREE, ORIEL_GE, i - 1, NULL));
		must(oriel_window_put_signal(window, right, 0, &source, 0, sizeof(sum), DATA,
					     ORIEL_ADD, 1, NULL));
		must(oriel_window_wait_signal(window, left, DATA, ORIEL_GE, i, NULL));
		sum = *arrived;
		must(oriel_window_signal(window, left, FREE, ORIEL_ADD, 1, NULL));
	}
	printf("rank %d of %d ends with %d\n", rank, nranks, (int)sum);
	must(oriel_finalize(comm));
	return 0;
}
