/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 02_ring - a kernel puts data into the right neighbour's window and waits for the left neighbour.
 *
 * The kernel is device code.  Here a block of CPU threads runs it; the same source compiles for a
 * GPU (04_cuda_ring).
 *
 * Build:  cc ring.c -o ring $(pkg-config --cflags --libs oriel)
 * Run:    oriel-run -n 8 ./ring        (with --debug every call of the kernel is checked)
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define BYTES ((uint64_t)1 << 20)
#define THREADS 4

struct ring_args {
	struct oriel_window_dev win;
	struct oriel_source src;
};

/*
 * `a` points to the argument.  All threads of the block make each call together.  If the kernel
 * returns an error, oriel_comm_sync() returns it to the host.
 */
ORIEL_KERNEL(ring, struct ring_args)
{
	struct oriel_group g = oriel_group_block();
	int rank = oriel_rank(&a->win), nranks = oriel_nranks(&a->win);
	int right = (rank + 1) % nranks, left = (rank + nranks - 1) % nranks;
	int err;

	err = oriel_put_signal(&a->win, g, right, 0, &a->src, 0, BYTES, /* signal */ 0, ORIEL_ADD,
			       1);
	if (!err)
		err = oriel_wait_signal_from(&a->win, g, left, /* signal */ 0, ORIEL_GE, 1);
	if (!err)
		err = oriel_flush(&a->win, g, right); /* the source may be written again */
	return err;
}

/* The library has already printed the error. */
static void must(int status)
{
	if (status)
		exit(1);
}

/* Byte i of the data that `rank` sends. */
static uint8_t pattern(int rank, uint64_t i)
{
	return (uint8_t)(i * 7 + i / 251 + (uint64_t)rank * 31 + 1);
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	static uint8_t data[BYTES];
	const uint8_t *received;
	struct oriel_window *window;
	struct oriel_comm *comm;
	struct ring_args args;
	int rank, nranks, wrong = 0;

	must(oriel_init(&comm));
	rank = oriel_comm_rank(comm);
	nranks = oriel_comm_size(comm);
	options.bytes = BYTES;
	must(oriel_window_create(comm, &options, &window));

	for (uint64_t i = 0; i < BYTES; i++)
		data[i] = pattern(rank, i);
	must(oriel_window_device(window, &args.win));
	must(oriel_window_source(window, data, BYTES, &args.src));
	must(oriel_launch(comm, &ring, 1, THREADS, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL)); /* waits for the kernel; returns its status */

	received = oriel_window_buffer(window);
	for (uint64_t i = 0; i < BYTES; i++)
		wrong += received[i] != pattern((rank + nranks - 1) % nranks, i);
	printf("rank %d of %d: %llu bytes from the left, %d wrong\n", rank, nranks,
	       (unsigned long long)BYTES, wrong);
	must(oriel_finalize(comm));
	return wrong ? 1 : 0;
}
