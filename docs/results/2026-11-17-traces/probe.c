/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe.c - what a trace costs a put with a signal and its wait, of a rank to itself.
 *
 * 1,000 times: 100 calls without a trace, then 100 with it, in one process and on the same memory.
 * So neither the load of the machine nor the place of the memory is between the two.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define ROUNDS 1000
#define CALLS 100
#define BYTES 65536u

static double ns[2][ROUNDS];

struct args {
	struct oriel_window_dev win[2]; /* not traced, traced */
	struct oriel_source source;
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

ORIEL_KERNEL(probe, struct args)
{
	struct oriel_group g = oriel_group_thread();
	uint64_t seen = 0;
	int err = 0;

	for (int n = 0; n < 2 * ROUNDS; n++) {
		const struct oriel_window_dev *win = &a->win[n % 2];
		double begin = now_ns();

		for (int i = 0; i < CALLS && !err; i++) {
			err = oriel_put_signal(win, g, 0, 0, &a->source, 0, BYTES, 0, ORIEL_ADD, 1);
			if (!err)
				err = oriel_wait_signal_from(win, g, 0, 0, ORIEL_GE, ++seen);
		}
		ns[n % 2][n / 2] = (now_ns() - begin) / CALLS;
	}
	return err;
}

/* The library has already printed the error. */
static void must(int status)
{
	if (status)
		exit(1);
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_boot *boot;
	struct oriel_comm *comm;
	struct oriel_window *w;
	struct args args;
	void *data;

	setenv("ORIEL_TRACE_EVENTS", "500000", 0);
	must(oriel_boot_threads(1, &boot));
	must(oriel_comm_create(boot, NULL, &comm));
	options.bytes = BYTES;
	options.signals = 1;
	must(oriel_window_create(comm, &options, &w));
	must(oriel_alloc(comm, BYTES, &data));
	memset(data, 1, BYTES);
	must(oriel_window_device(w, &args.win[1]));
	must(oriel_window_source(w, data, BYTES, &args.source));
	args.win[0] = args.win[1];
	args.win[0].checked = 0;
	args.win[0].comm.trace = NULL;
	if (!(args.win[1].checked & ORIEL_WINDOW_TRACED))
		puts("ORIEL_TRACE is not set: both columns are without a trace");
	must(oriel_launch(comm, &probe, 1, 1, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));
	qsort(ns[0], ROUNDS, sizeof(ns[0][0]), compare);
	qsort(ns[1], ROUNDS, sizeof(ns[1][0]), compare);
	printf("ns per put and wait: off %.1f, on %.1f (medians); off %.1f, on %.1f (first tenth)\n",
	       ns[0][ROUNDS / 2], ns[1][ROUNDS / 2], ns[0][ROUNDS / 10], ns[1][ROUNDS / 10]);
	must(oriel_window_destroy(w));
	must(oriel_free(comm, data));
	must(oriel_comm_destroy(comm));
	must(oriel_boot_destroy(boot));
	return 0;
}
