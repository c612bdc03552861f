/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/tools/trace_ranks.c - what tools/trace_test.sh traces: thread ranks that put in a ring,
 * signal all, meet in barriers and reduce.  Also built with the fake CUDA driver.
 *
 * Usage: trace_ranks [lost | exit].  lost: rank 1 also waits for a signal that nobody sends.
 * exit: the program ends without destroying its comms.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/coll/reduce.h>
#include <oriel/device.h>
#include <oriel/oriel.h>

#define RANKS 3
#define ROUNDS 20
#define BYTES 256

/* Only in the program with the fake driver. */
const struct oriel_kernel *fake_cuda_kernel(const struct oriel_kernel *) __attribute__((weak));

static int lost, leave;
static pthread_barrier_t all_wrote;

/* The library has already printed the error. */
static void must(int status)
{
	if (status)
		exit(1);
}

struct ring_args {
	struct oriel_window_dev win;
	struct oriel_source source;
};

/* Signal 0 counts the puts of the left neighbour, signal 1 those of all others. */
ORIEL_KERNEL(trace_ring, struct ring_args)
{
	struct oriel_group g = oriel_group_block();
	int n = oriel_nranks(&a->win), rank = oriel_rank(&a->win), err = 0;

	for (uint64_t i = 1; i <= ROUNDS && !err; i++) {
		err = oriel_put_signal(&a->win, g, (rank + 1) % n, 0, &a->source, 0, BYTES, 0,
				       ORIEL_ADD, 1);
		if (!err)
			err = oriel_wait_signal_from(&a->win, g, (rank + n - 1) % n, 0, ORIEL_GE,
						     i);
	}
	if (!err)
		err = oriel_signal_all(&a->win, g, 1, ORIEL_ADD, 1);
	if (!err)
		err = oriel_wait_signal(&a->win, g, 1, (uint64_t)n - 1);
	return err ? err : oriel_barrier(&a->win, g, 0);
}

/* A set value, and a wait that begins after a reset. */
static void host_calls(struct oriel_window *w, int rank)
{
	int right = (rank + 1) % RANKS, left = (rank + RANKS - 1) % RANKS;

	must(oriel_window_signal(w, right, 2, ORIEL_SET, 7, NULL));
	must(oriel_window_wait_signal(w, left, 2, ORIEL_EQ, 7, NULL));
	must(oriel_window_barrier(w, 0, NULL));
	must(oriel_window_reset_signal(w, 0, NULL));
	must(oriel_window_barrier(w, 0, NULL));
	must(oriel_window_signal(w, right, 0, ORIEL_ADD, 1, NULL));
	must(oriel_window_wait_signal(w, left, 0, ORIEL_GE, 1, NULL));
}

static void *rank_main(void *boot)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w;
	struct oriel_comm *comm;
	struct ring_args args;
	void *data;
	int rank;

	must(oriel_comm_create(boot, NULL, &comm));
	must(oriel_boot_destroy(boot));
	rank = oriel_comm_rank(comm);
	options.bytes = BYTES;
	options.signals = 4;
	must(oriel_window_create(comm, &options, &w));
	must(oriel_alloc(comm, BYTES, &data));
	must(oriel_window_device(w, &args.win));
	must(oriel_window_source(w, data, BYTES, &args.source));
	must(oriel_launch(comm, fake_cuda_kernel ? fake_cuda_kernel(&trace_ring) : &trace_ring, 1,
			  1, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));
	host_calls(w, rank);
	must(oriel_allreduce(comm, data, data, BYTES / 4, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM,
			     NULL));
	must(oriel_comm_sync(comm, NULL));
	if (lost && rank == 1)
		(void)oriel_window_wait_signal_timeout(w, 0, 3, ORIEL_GE, 1, 0.05, NULL);
	(void)oriel_comm_sync(comm, NULL);
	pthread_barrier_wait(&all_wrote);
	if (leave)
		return NULL;
	must(oriel_window_destroy(w));
	must(oriel_free(comm, data));
	must(oriel_comm_destroy(comm));
	return NULL;
}

int main(int argc, char **argv)
{
	struct oriel_boot *boots[RANKS];
	pthread_t threads[RANKS];

	lost = argc > 1 && !strcmp(argv[1], "lost");
	leave = argc > 1 && !strcmp(argv[1], "exit");
	pthread_barrier_init(&all_wrote, NULL, RANKS);
	must(oriel_boot_threads(RANKS, boots));
	for (int r = 0; r < RANKS; r++)
		if (pthread_create(&threads[r], NULL, rank_main, boots[r]))
			abort();
	for (int r = 0; r < RANKS; r++)
		pthread_join(threads[r], NULL);
	puts("done");
	return 0;
}
