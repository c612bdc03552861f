/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tutorial, step 4: several blocks.  Each block moves its part of the data with its own signal.
 *
 * docs/tutorial.md explains it.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define BLOCKS 2
#define THREADS 2
#define PART_WORDS 500
#define PART_BYTES (PART_WORDS * sizeof(uint64_t))

struct shift_args {
	struct oriel_window_dev win;
	struct oriel_source src;
	uint64_t *total;
};

static void must(int status)
{
	if (status)
		exit(1);
}

ORIEL_KERNEL(shift, struct shift_args)
{
	struct oriel_group g = oriel_group_block();
	int rank = oriel_rank(&a->win), nranks = oriel_nranks(&a->win);
	int right = (rank + 1) % nranks, left = (rank + nranks - 1) % nranks;
	const uint64_t *words = (const uint64_t *)a->win.buffer;
	uint64_t part = g.block * PART_BYTES, total = 0;
	int err;

	/* The signal's id is the number of the block. */
	err = oriel_put_signal(&a->win, g, right, part, &a->src, part, PART_BYTES, (int)g.block,
			       ORIEL_ADD, 1);
	if (!err)
		err = oriel_wait_signal_from(&a->win, g, left, (int)g.block, ORIEL_GE, 1);
	if (!err)
		err = oriel_flush(&a->win, g, right);
	/* Here this block has its part.  After the next line every block has its part. */
	if (!err)
		err = oriel_grid_sync(&a->win, g, 0);
	if (err || g.block != 0 || !oriel_group_is_leader(g))
		return err;
	for (int i = 0; i < BLOCKS * PART_WORDS; i++)
		total += words[i];
	*a->total = total;
	return 0;
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	static uint64_t words[BLOCKS * PART_WORDS];
	struct oriel_window *window;
	struct oriel_comm *comm;
	struct shift_args args;
	uint64_t total = 0;
	int rank, left;

	must(oriel_init(&comm));
	rank = oriel_comm_rank(comm);
	left = (rank + oriel_comm_size(comm) - 1) % oriel_comm_size(comm);
	options.bytes = sizeof(words);
	must(oriel_window_create(comm, &options, &window));
	for (int i = 0; i < BLOCKS * PART_WORDS; i++)
		words[i] = (uint64_t)rank;

	args.total = &total;
	must(oriel_window_device(window, &args.win));
	must(oriel_window_source(window, words, sizeof(words), &args.src));
	must(oriel_launch(comm, &shift, BLOCKS, THREADS, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));

	printf("rank %d received words with the sum %d\n", rank, (int)total);
	must(oriel_finalize(comm));
	return total != (uint64_t)left * BLOCKS * PART_WORDS;
}
