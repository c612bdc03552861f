/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 03_threads - ranks are threads of one process: no launcher, one debugger sees them all.
 *
 * Every rank puts its square into its own place of everybody's window; after a barrier each has all
 * squares and adds them up.  Nothing in rank_main() knows that the other ranks are threads.
 *
 * Build:  cc threads.c -o threads $(pkg-config --cflags --libs oriel) -pthread
 * Run:    ./threads
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <oriel/oriel.h>

#define RANKS 4

static void must(int status, const char *what)
{
	if (!status)
		return;
	fprintf(stderr, "%s: %s\n", what, oriel_status_name(status));
	exit(1);
}

static uint64_t exchange(struct oriel_window *window, int rank)
{
	uint64_t square = (uint64_t)rank * (uint64_t)rank, sum = 0;
	const uint64_t *squares = oriel_window_buffer(window);
	struct oriel_source source;

	must(oriel_window_source(window, &square, sizeof(square), &source), "source");
	for (int peer = 0; peer < RANKS; peer++) /* this rank is a peer like the others */
		must(oriel_window_put(window, peer, (uint64_t)rank * sizeof(square), &source, 0,
				      sizeof(square), NULL),
		     "put");
	must(oriel_window_barrier(window, 0, NULL), "barrier"); /* every put has arrived */
	for (int r = 0; r < RANKS; r++)
		sum += squares[r];
	return sum;
}

/* Takes the boot of one rank; returns that rank's sum in place of a pointer. */
static void *rank_main(void *arg)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_boot *boot = arg;
	struct oriel_window *window;
	struct oriel_comm *comm;
	uint64_t sum;

	must(oriel_comm_create(boot, NULL, &comm), "comm");
	options.bytes = RANKS * sizeof(uint64_t);
	must(oriel_window_create(comm, &options, &window), "window");
	sum = exchange(window, oriel_comm_rank(comm));
	must(oriel_window_destroy(window), "window destroy");
	must(oriel_comm_destroy(comm), "comm destroy");
	must(oriel_boot_destroy(boot), "boot destroy");
	return (void *)(uintptr_t)sum;
}

int main(void)
{
	struct oriel_boot *boots[RANKS];
	pthread_t threads[RANKS];
	uint64_t want = 0;
	int wrong = 0;

	must(oriel_boot_threads(RANKS, boots), "boot");
	for (int r = 0; r < RANKS; r++) {
		want += (uint64_t)r * (uint64_t)r;
		must(pthread_create(&threads[r], NULL, rank_main, boots[r]) ? ORIEL_ESYSTEM : 0,
		     "thread");
	}
	for (int r = 0; r < RANKS; r++) {
		void *sum;

		pthread_join(threads[r], &sum);
		printf("rank %d: the squares add up to %llu\n", r,
		       (unsigned long long)(uintptr_t)sum);
		wrong += (uintptr_t)sum != want;
	}
	return wrong ? 1 : 0;
}
