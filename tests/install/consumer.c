/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/install/consumer.c - a program of a user who installed Oriel: two ranks, each puts its
 * number into the other's window with its own kernel.
 *
 * install_test.sh builds it outside the tree, so it can use only installed files.
 */
#include <stdio.h>
#include <string.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

struct greet_args {
	struct oriel_window_dev win;
};

ORIEL_KERNEL(greet, struct greet_args)
{
	struct oriel_group g = oriel_group_block();
	int me = oriel_rank(&a->win), peer = 1 - me;
	uint64_t word = 100 + (uint64_t)me;
	int err = oriel_put_value(&a->win, g, peer, 0, &word, sizeof(word));

	if (!err)
		err = oriel_barrier(&a->win, g, 0);
	return err;
}

static int check(const char *what, int status)
{
	if (status)
		fprintf(stderr, "%s: %s\n", what, oriel_status_text(status));
	return status;
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_comm *comm = NULL;
	struct oriel_window *window = NULL;
	struct greet_args args;
	uint64_t got;

	memset(&args, 0, sizeof(args));
	options.bytes = 4096;
	if (check("init", oriel_init(&comm)) ||
	    check("window", oriel_window_create(comm, &options, &window)) ||
	    check("device handle", oriel_window_device(window, &args.win)) ||
	    check("launch", oriel_launch(comm, &greet, 1, 1, &args, sizeof(args), NULL)) ||
	    check("kernel", oriel_comm_sync(comm, NULL)))
		return 1;
	memcpy(&got, oriel_window_buffer(window), sizeof(got));
	printf("rank %d of %d got %d\n", oriel_comm_rank(comm), oriel_comm_size(comm), (int)got);
	fflush(stdout);
	if (got != 100 + (uint64_t)(1 - oriel_comm_rank(comm)))
		return 1;
	return check("finalize", oriel_finalize(comm)) ? 1 : 0;
}
