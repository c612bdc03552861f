/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tutorial, step 3: the ring of step 2 inside a kernel.  The block of threads passes an array on.
 *
 * docs/tutorial.md explains it.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define DATA 0
#define FREE 1
#define ROUNDS 3
#define WORDS 1000
#define THREADS 4

struct ring_args {
	struct oriel_window_dev win;
	struct oriel_source src;
	uint64_t *sums; /* the memory of src */
};

static void must(int status)
{
	if (status)
		exit(1);
}

/* Each thread of the group adds to its share of the words. */
ORIEL_DEV void add_mine(const struct ring_args *a, struct oriel_group g)
{
	for (uint32_t i = g.thread; i < WORDS; i += g.size)
		a->sums[i] += 10 + (uint64_t)oriel_rank(&a->win);
}

ORIEL_DEV void take_arrived(const struct ring_args *a, struct oriel_group g)
{
	const uint64_t *arrived = (const uint64_t *)a->win.buffer;

	for (uint32_t i = g.thread; i < WORDS; i += g.size)
		a->sums[i] = arrived[i];
}

ORIEL_KERNEL(ring, struct ring_args)
{
	struct oriel_group g = oriel_group_block();
	int rank = oriel_rank(&a->win), nranks = oriel_nranks(&a->win);
	int right = (rank + 1) % nranks, left = (rank + nranks - 1) % nranks;
	int err = 0;

	for (uint64_t i = 1; i <= ROUNDS && !err; i++) {
		add_mine(a, g);
		err = oriel_group_sync(g); /* all threads have written the source */
		if (!err)
			err = oriel_wait_signal_from(&a->win, g, right, FREE, ORIEL_GE, i - 1);
		if (!err)
			err = oriel_put_signal(&a->win, g, right, 0, &a->src, 0,
					       WORDS * sizeof(uint64_t), DATA, ORIEL_ADD, 1);
		if (!err)
			err = oriel_wait_signal_from(&a->win, g, left, DATA, ORIEL_GE, i);
		if (!err)
			err = oriel_flush(&a->win, g, right); /* sums may be written again */
		if (err)
			break;
		take_arrived(a, g);
		err = oriel_group_sync(g); /* all threads have read the window */
		if (!err)
			err = oriel_signal(&a->win, g, left, FREE, ORIEL_ADD, 1);
	}
	return err;
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	static uint64_t sums[WORDS];
	struct oriel_window *window;
	struct oriel_comm *comm;
	struct ring_args args;
	int wrong = 0;

	must(oriel_init(&comm));
	options.bytes = sizeof(sums);
	must(oriel_window_create(comm, &options, &window));

	args.sums = sums;
	must(oriel_window_device(window, &args.win));
	must(oriel_window_source(window, sums, sizeof(sums), &args.src));
	must(oriel_launch(comm, &ring, 1, THREADS, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL)); /* the status that the kernel returned */

	for (int i = 1; i < WORDS; i++)
		wrong += sums[i] != sums[0];
	printf("rank %d ends with %d in every word, %d differ\n", oriel_comm_rank(comm),
	       (int)sums[0], wrong);
	must(oriel_finalize(comm));
	return wrong != 0;
}
