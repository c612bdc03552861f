/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 01_hello_window - every rank writes a greeting into the memory of its right neighbour.
 *
 * Build:  cc hello_window.c -o hello_window $(pkg-config --cflags --libs oriel)
 * Run:    oriel-run -n 4 ./hello_window        (with --debug every call is checked)
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/oriel.h>

/* The library has already printed the error.  When this rank exits, waits of the others end. */
static void must(int status)
{
	if (status)
		exit(1);
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct oriel_source source;
	struct oriel_comm *comm;
	int rank, nranks;
	char text[64];

	must(oriel_init(&comm)); /* reads the variables that oriel-run sets */
	rank = oriel_comm_rank(comm);
	nranks = oriel_comm_size(comm);
	options.bytes = sizeof(text); /* buffer of each rank; all ranks can put into it */
	must(oriel_window_create(comm, &options, &window));

	snprintf(text, sizeof(text), "hello from rank %d", rank);
	must(oriel_window_source(window, text, sizeof(text), &source));
	/* Puts the text at offset 0 of the right neighbour, then adds 1 to its signal 0. */
	must(oriel_window_put_signal(window, (rank + 1) % nranks, 0, &source, 0, sizeof(text), 0,
				     ORIEL_ADD, 1, NULL));
	/* When signal 0 from the left neighbour is at least 1, its text has arrived. */
	must(oriel_window_wait_signal(window, (rank + nranks - 1) % nranks, 0, ORIEL_GE, 1, NULL));
	printf("rank %d of %d received: %s\n", rank, nranks,
	       (const char *)oriel_window_buffer(window));

	must(oriel_finalize(comm)); /* also destroys the window */
	return 0;
}
