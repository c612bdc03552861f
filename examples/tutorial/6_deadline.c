/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tutorial, step 6: every wait ends.  Rank 0 waits for a late rank, in steps of 100 ms.
 *
 * docs/tutorial.md explains it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define TRIES 100
#define STEP_MS 100

struct patient_args {
	struct oriel_window_dev win;
	int *tries;
};

static void must(int status)
{
	if (status)
		exit(1);
}

/* Rank 0 waits; the other ranks signal it. */
ORIEL_KERNEL(patient, struct patient_args)
{
	struct oriel_group g = oriel_group_thread();
	int tries = 0, err;

	if (oriel_rank(&a->win) != 0)
		return oriel_signal(&a->win, g, 0, /* signal */ 0, ORIEL_ADD, 1);
	do {
		/* The sum over all ranks.  A passed deadline fails this call and nothing else. */
		err = oriel_wait_signal(&a->win, oriel_group_within(g, STEP_MS), 0,
					(uint64_t)oriel_nranks(&a->win) - 1);
		tries++;
	} while (err == ORIEL_ETIMEDOUT && tries < TRIES);
	*a->tries = tries;
	return err;
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct patient_args args;
	struct oriel_comm *comm;
	int tries = 0;

	must(oriel_init(&comm));
	must(oriel_window_create(comm, &options, &window)); /* without a buffer */
	args.tries = &tries;
	must(oriel_window_device(window, &args.win));
	if (oriel_comm_rank(comm) == oriel_comm_size(comm) - 1)
		usleep(1550 * 1000); /* this rank is late */
	must(oriel_launch(comm, &patient, 1, 1, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));

	if (oriel_comm_rank(comm) == 0)
		printf("rank 0 heard from all ranks, and the first wait %s\n",
		       tries > 1 ? "was too short" : "was long enough");
	must(oriel_finalize(comm));
	return 0;
}
