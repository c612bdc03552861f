/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deadlock - a mistake on purpose: every rank waits for its right neighbour before it signals its
 * left one.  So nobody ever signals.
 *
 * After the deadline (3 s) one rank prints who waits for whom, and that this is a deadlock.  While
 * the ranks wait, try from another terminal:  oriel-doctor
 *
 * Build:  cc deadlock.c -o deadlock $(pkg-config --cflags --libs oriel)
 * Run:    oriel-run -n 4 ./deadlock           (DEADLOCK_S=60: wait for a minute)
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/oriel.h>

/* The library has already printed the error. */
static void must(int status)
{
	if (status)
		exit(1);
}

static struct oriel_comm *create_comm(void)
{
	struct oriel_comm_options options = ORIEL_COMM_OPTIONS_INIT;
	const char *seconds = getenv("DEADLOCK_S");
	struct oriel_comm *comm;
	struct oriel_boot *boot;

	options.timeout = seconds ? atof(seconds) : 3;
	must(oriel_boot_env(&boot));
	must(oriel_comm_create(boot, &options, &comm));
	must(oriel_boot_destroy(boot));
	return comm;
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_comm *comm = create_comm();
	int rank = oriel_comm_rank(comm), nranks = oriel_comm_size(comm), status;
	int right = (rank + 1) % nranks, left = (rank + nranks - 1) % nranks;
	struct oriel_window *window;

	options.bytes = 64;
	must(oriel_window_create(comm, &options, &window));
	/* the mistake: signal first, then wait */
	status = oriel_window_wait_signal(window, right, /* signal */ 0, ORIEL_GE, 1, NULL);
	if (!status)
		status = oriel_window_signal(window, left, 0, ORIEL_ADD, 1, NULL);
	must(oriel_finalize(comm));
	return status == ORIEL_ETIMEDOUT ? 0 : 1;
}
