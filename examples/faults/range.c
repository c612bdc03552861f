/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This program has a fault on purpose: its kernel writes behind the end of the window.
 *
 * The window has room for 100 numbers, 0 to 99.  The loop also puts number 100.  Without checks
 * this overwrites other memory of the neighbour, or nothing that anybody notices.
 * docs/debugging.md shows how a checked window finds it.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define NUMBERS 100

struct args {
	struct oriel_window_dev win;
};

static void must(int status)
{
	if (status)
		exit(1);
}

ORIEL_KERNEL(fill, struct args)
{
	struct oriel_group g = oriel_group_block();
	int peer = (oriel_rank(&a->win) + 1) % oriel_nranks(&a->win);
	int err = 0;

	for (uint64_t i = 0; i <= NUMBERS && !err; i++) /* the fault: <= */
		err = oriel_put_value(&a->win, g, peer, i * sizeof(i), &i, sizeof(i));
	return err ? err : oriel_barrier(&a->win, g, 0);
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct oriel_comm *comm;
	struct args args;

	must(oriel_init(&comm));
	options.bytes = NUMBERS * sizeof(uint64_t);
	must(oriel_window_create(comm, &options, &window));
	must(oriel_window_device(window, &args.win));
	must(oriel_launch(comm, &fill, 1, 2, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));
	printf("rank %d has not noticed anything\n", oriel_comm_rank(comm));
	must(oriel_finalize(comm));
	return 0;
}
