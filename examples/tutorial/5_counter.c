/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tutorial, step 5: when may a source be written again?  A counter tells it, per put.
 *
 * Ten chunks go to the right neighbour.  The sender has memory for two of them.  docs/tutorial.md
 * explains it.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define CHUNKS 10
#define HALVES 2
#define CHUNK_WORDS 4096
#define CHUNK_BYTES (CHUNK_WORDS * sizeof(uint32_t))
#define THREADS 4

struct stream_args {
	struct oriel_window_dev win;
	struct oriel_source src;
	uint32_t *halves; /* the memory of src: two chunks */
};

static void must(int status)
{
	if (status)
		exit(1);
}

/* Word i of chunk `chunk` of a rank. */
ORIEL_DEV uint32_t value(int rank, int chunk, uint32_t i)
{
	return (uint32_t)rank * 1000000 + (uint32_t)chunk * 10000 + i;
}

ORIEL_KERNEL(stream, struct stream_args)
{
	struct oriel_group g = oriel_group_block();
	int rank = oriel_rank(&a->win), nranks = oriel_nranks(&a->win);
	int right = (rank + 1) % nranks, left = (rank + nranks - 1) % nranks;
	int err = 0;

	for (int chunk = 0; chunk < CHUNKS && !err; chunk++) {
		int half = chunk % HALVES;
		uint32_t *words = a->halves + half * CHUNK_WORDS;

		/* Counter `half` counts the complete puts from this half. */
		err = oriel_wait_counter(&a->win, g, right, half, ORIEL_GE,
					 (uint64_t)(chunk / HALVES));
		if (err)
			break;
		for (uint32_t i = g.thread; i < CHUNK_WORDS; i += g.size)
			words[i] = value(rank, chunk, i);
		err = oriel_group_sync(g);
		if (!err)
			err = oriel_put_signal_counter(&a->win, g, right,
						       (uint64_t)chunk * CHUNK_BYTES, &a->src,
						       (uint64_t)half * CHUNK_BYTES, CHUNK_BYTES,
						       /* signal */ 0, ORIEL_ADD, 1, half);
	}
	if (!err)
		err = oriel_wait_signal_from(&a->win, g, left, 0, ORIEL_GE, CHUNKS);
	if (!err)
		err = oriel_flush(&a->win, g, right);
	return err;
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	static uint32_t halves[HALVES * CHUNK_WORDS];
	struct oriel_window *window;
	const uint32_t *received;
	struct stream_args args;
	struct oriel_comm *comm;
	int rank, left, wrong = 0;

	must(oriel_init(&comm));
	rank = oriel_comm_rank(comm);
	left = (rank + oriel_comm_size(comm) - 1) % oriel_comm_size(comm);
	options.bytes = CHUNKS * CHUNK_BYTES;
	must(oriel_window_create(comm, &options, &window));

	args.halves = halves;
	must(oriel_window_device(window, &args.win));
	must(oriel_window_source(window, halves, sizeof(halves), &args.src));
	must(oriel_launch(comm, &stream, 1, THREADS, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));

	received = oriel_window_buffer(window);
	for (uint32_t i = 0; i < CHUNKS * CHUNK_WORDS; i++)
		wrong += received[i] != value(left, (int)(i / CHUNK_WORDS), i % CHUNK_WORDS);
	printf("rank %d received %d chunks from rank %d, %d words are wrong\n", rank, CHUNKS, left,
	       wrong);
	must(oriel_finalize(comm));
	return wrong != 0;
}
