/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device-side puts with signal and counter, for those who come from the device windows of
 * torchcomms: docs/from-torchcomms.md has their calls beside these.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define ROUNDS 4
#define WORDS 512
#define BYTES (WORDS * sizeof(float))
#define THREADS 4

struct args {
	struct oriel_window_dev win;
	struct oriel_source src;
	float *words;
};

static void must(int status)
{
	if (status)
		exit(1);
}

/* Every round each rank puts new words into every other rank, which sums them up afterwards. */
ORIEL_KERNEL(rounds, struct args)
{
	struct oriel_group g = oriel_group_block();
	int peers = oriel_nranks(&a->win) - 1, err = 0;

	for (uint64_t round = 1; round <= ROUNDS && !err; round++) {
		for (uint32_t i = g.thread; i < WORDS; i += g.size)
			a->words[i] = (float)round;
		err = oriel_group_sync(g);
		for (int index = 0; index < peers && !err; index++)
			err = oriel_put_signal_counter(&a->win, g,
						       oriel_index_to_peer(&a->win, index),
						       ((round - 1) *
								(uint64_t)oriel_nranks(&a->win) +
							(uint64_t)oriel_rank(&a->win)) *
							       BYTES,
						       &a->src, 0, BYTES, /* signal */ 0, ORIEL_ADD,
						       1, /* counter */ 0);
		if (!err) /* the source may be written again */
			err = oriel_wait_counter_all(&a->win, g, 0, round * (uint64_t)peers);
	}
	if (!err) /* the sum over all ranks */
		err = oriel_wait_signal(&a->win, g, 0, ROUNDS * (uint64_t)peers);
	return err ? err : oriel_barrier(&a->win, g, 0);
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	const float *received;
	struct oriel_comm *comm;
	float words[WORDS];
	struct args args;
	int rank, nranks, wrong = 0;

	must(oriel_init(&comm));
	rank = oriel_comm_rank(comm);
	nranks = oriel_comm_size(comm);
	options.signals = 1;
	options.counters = 1;
	options.barriers = 1;
	options.bytes = ROUNDS * (uint64_t)nranks * BYTES;
	must(oriel_window_create(comm, &options, &window));
	must(oriel_window_device(window, &args.win));
	must(oriel_window_source(window, words, sizeof(words), &args.src));
	args.words = words;
	must(oriel_launch(comm, &rounds, 1, THREADS, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));

	received = oriel_window_buffer(window);
	for (int i = 0; i < ROUNDS * nranks * WORDS; i++)
		if (i / WORDS % nranks != rank)
			wrong += received[i] != (float)(1 + i / (WORDS * nranks));
	printf("rank %d: %d numbers are wrong\n", rank, wrong);
	must(oriel_finalize(comm));
	return wrong != 0;
}
