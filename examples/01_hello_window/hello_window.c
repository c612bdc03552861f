/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 01_hello_window - every rank writes a greeting into the memory of its right neighbour.
 *
 * Build:  cc hello_window.c -o hello_window $(pkg-config --cflags --libs oriel)
 * Run:    oriel-run -n 4 ./hello_window
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/oriel.h>

#define GREETING_BYTES 64

/* The library has logged the cause by now; ranks that wait for this one are told by its end. */
static void must(int status, const char *what)
{
	if (!status)
		return;
	fprintf(stderr, "%s: %s\n", what, oriel_status_name(status));
	exit(1);
}

/* Puts to the right, waits for the left, prints. */
static void greet(struct oriel_window *window, int rank, int nranks)
{
	int right = (rank + 1) % nranks, left = (rank + nranks - 1) % nranks;
	char text[GREETING_BYTES];
	struct oriel_source source;

	snprintf(text, sizeof(text), "hello from rank %d", rank);
	must(oriel_window_source(window, text, sizeof(text), &source), "source");

	/* The text to offset 0 over there, then 1 onto signal 0: who sees the 1 sees the text. */
	must(oriel_window_put_signal(window, right, 0, &source, 0, sizeof(text), 0, ORIEL_ADD, 1,
				     NULL),
	     "put");
	must(oriel_window_wait_signal(window, left, 0, ORIEL_GE, 1, NULL), "wait");
	printf("rank %d of %d received: %s\n", rank, nranks,
	       (const char *)oriel_window_buffer(window));
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct oriel_boot *boot;
	struct oriel_comm *comm;

	must(oriel_boot_env(&boot), "boot"); /* who are the ranks: oriel-run says it */
	must(oriel_comm_create(boot, NULL, &comm), "comm");
	options.bytes = GREETING_BYTES; /* of every rank, open to every other */
	must(oriel_window_create(comm, &options, &window), "window");

	greet(window, oriel_comm_rank(comm), oriel_comm_size(comm));

	must(oriel_window_destroy(window), "window destroy");
	must(oriel_comm_destroy(comm), "comm destroy");
	must(oriel_boot_destroy(boot), "boot destroy");
	return 0;
}
