/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This program has a fault on purpose: a rank reads its window without waiting for the signal.
 *
 * Its ranks are threads of one process.  So ThreadSanitizer sees the put of one rank and the read
 * of the other.  docs/debugging.md shows what it prints.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define RANKS 2
#define ROUNDS 100
#define WORDS 256
#define BYTES (WORDS * sizeof(uint64_t))

struct args {
	struct oriel_window_dev win;
	struct oriel_source src;
	uint64_t *sum;
};

static void must(int status)
{
	if (status)
		exit(1);
}

ORIEL_KERNEL(pass_on, struct args)
{
	struct oriel_group g = oriel_group_thread();
	int peer = 1 - oriel_rank(&a->win), err = 0;
	const uint64_t *words = (const uint64_t *)a->win.buffer;

	for (uint64_t round = 1; round <= ROUNDS && !err; round++) {
		err = oriel_put_signal(&a->win, g, peer, 0, &a->src, 0, BYTES, 0, ORIEL_ADD, 1);
		/* the fault: this loop belongs after the wait */
		for (int i = 0; i < WORDS; i++)
			*a->sum += words[i];
		if (!err)
			err = oriel_wait_signal_from(&a->win, g, peer, 0, ORIEL_GE, round);
	}
	return err ? err : oriel_flush(&a->win, g, peer);
}

static void *rank_main(void *boot)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct oriel_comm *comm;
	uint64_t words[WORDS], sum = 0;
	struct args args;

	must(oriel_comm_create(boot, NULL, &comm));
	must(oriel_boot_destroy(boot));
	options.bytes = BYTES;
	must(oriel_window_create(comm, &options, &window));
	for (int i = 0; i < WORDS; i++)
		words[i] = 1;
	args.sum = &sum;
	must(oriel_window_device(window, &args.win));
	must(oriel_window_source(window, words, BYTES, &args.src));
	must(oriel_launch(comm, &pass_on, 1, 1, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));
	must(oriel_finalize(comm));
	return NULL;
}

int main(void)
{
	struct oriel_boot *boots[RANKS];
	pthread_t threads[RANKS];

	must(oriel_boot_threads(RANKS, boots));
	for (int r = 0; r < RANKS; r++)
		if (pthread_create(&threads[r], NULL, rank_main, boots[r]))
			abort();
	for (int r = 0; r < RANKS; r++)
		pthread_join(threads[r], NULL);
	printf("both ranks have ended\n");
	return 0;
}
