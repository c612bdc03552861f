/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring shift that came from NVSHMEM: docs/from-nvshmem.md has the calls of NVSHMEM beside these.
 *
 * A kernel puts an array into the next rank and signals it; then it waits for its own array.
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define WORDS 1024
#define THREADS 4

struct shift_args {
	struct oriel_window_dev win;
	struct oriel_source src;
};

static void must(int status)
{
	if (status)
		exit(1);
}

ORIEL_KERNEL(shift, struct shift_args)
{
	struct oriel_group g = oriel_group_block();
	int me = oriel_rank(&a->win), n = oriel_nranks(&a->win); /* nvshmem_my_pe, nvshmem_n_pes */
	int err;

	/* nvshmemx_putmem_signal_nbi_block */
	err = oriel_put_signal(&a->win, g, (me + 1) % n, 0, &a->src, 0, WORDS * sizeof(int), 0,
			       ORIEL_ADD, 1);
	if (!err) /* nvshmem_signal_wait_until */
		err = oriel_wait_signal_from(&a->win, g, (me + n - 1) % n, 0, ORIEL_GE, 1);
	return err ? err : oriel_flush_all(&a->win, g); /* nvshmem_quiet */
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct shift_args args;
	struct oriel_comm *comm;
	int mine[WORDS], rank, left, wrong = 0;
	const int *arrived;

	must(oriel_init(&comm)); /* nvshmem_init */
	rank = oriel_comm_rank(comm);
	left = (rank + oriel_comm_size(comm) - 1) % oriel_comm_size(comm);
	options.bytes = sizeof(mine);
	must(oriel_window_create(comm, &options, &window)); /* nvshmem_malloc of data and signals */
	for (int i = 0; i < WORDS; i++)
		mine[i] = rank * WORDS + i;
	must(oriel_window_device(window, &args.win));
	must(oriel_window_source(window, mine, sizeof(mine), &args.src));
	/* nvshmemx_collective_launch */
	must(oriel_launch(comm, &shift, 1, THREADS, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL)); /* cudaDeviceSynchronize */

	arrived = oriel_window_buffer(window);
	for (int i = 0; i < WORDS; i++)
		wrong += arrived[i] != left * WORDS + i;
	printf("rank %d has the array of rank %d, %d words are wrong\n", rank, left, wrong);
	must(oriel_finalize(comm)); /* nvshmem_finalize */
	return wrong != 0;
}
