/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 03_threads - ranks are threads of one process: no launcher, and one debugger sees all ranks.
 *
 * Every rank puts its square into its own slot in the window of every rank.  After a barrier each
 * rank has all squares and adds them up.  rank_main() would be the same if ranks were processes.
 *
 * Build:  cc threads.c -o threads $(pkg-config --cflags --libs oriel) -pthread
 * Run:    ./threads        (with ORIEL_CHECKED=1 every call is checked)
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <oriel/oriel.h>

#define RANKS 4

/* The library has already printed the error. */
static void must(int status)
{
	if (status)
		exit(1);
}

/* `arg` is the boot of this rank.  The return value is this rank's sum, cast to a pointer. */
static void *rank_main(void *arg)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	uint64_t rank, square, sum = 0;
	struct oriel_window *window;
	struct oriel_source source;
	struct oriel_comm *comm;

	must(oriel_comm_create(arg, NULL, &comm));
	must(oriel_boot_destroy(arg)); /* the comm does not need it any more */
	options.bytes = RANKS * sizeof(square);
	must(oriel_window_create(comm, &options, &window));

	rank = (uint64_t)oriel_comm_rank(comm);
	square = rank * rank;
	must(oriel_window_source(window, &square, sizeof(square), &source));
	for (int peer = 0; peer < RANKS; peer++) /* this rank is one of the peers */
		must(oriel_window_put(window, peer, rank * sizeof(square), &source, 0,
				      sizeof(square), NULL));
	must(oriel_window_barrier(window, 0, NULL)); /* after it, all puts have arrived */
	for (int r = 0; r < RANKS; r++)
		sum += ((const uint64_t *)oriel_window_buffer(window))[r];
	must(oriel_finalize(comm));
	return (void *)(uintptr_t)sum;
}

int main(void)
{
	struct oriel_boot *boots[RANKS];
	pthread_t threads[RANKS];
	int wrong = 0;

	must(oriel_boot_threads(RANKS, boots));
	for (int r = 0; r < RANKS; r++)
		if (pthread_create(&threads[r], NULL, rank_main, boots[r]))
			abort();
	for (int r = 0; r < RANKS; r++) {
		void *sum;

		pthread_join(threads[r], &sum);
		printf("rank %d: the squares add up to %d\n", r, (int)(uintptr_t)sum);
		wrong += (uintptr_t)sum != 0 + 1 + 4 + 9;
	}
	return wrong ? 1 : 0;
}
