/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 02_ring - a kernel puts a block of data into the right neighbour's window and waits for the left.
 *
 * The kernel is device code: here the threads of a block on the CPU, and the same source compiles
 * for a GPU.
 *
 * Build:  cc ring.c -o ring $(pkg-config --cflags --libs oriel)
 * Run:    oriel-run -n 8 ./ring
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
	uint64_t bytes;
};

/*
 * All threads of the block make each call together; `a` is the argument.  What the kernel returns,
 * oriel_comm_sync() returns.
 */
ORIEL_KERNEL(ring, struct ring_args)
{
	struct oriel_group g = oriel_group_block();
	int rank = oriel_rank(&a->win), nranks = oriel_nranks(&a->win);
	int right = (rank + 1) % nranks, left = (rank + nranks - 1) % nranks;
	int err;

	err = oriel_put_signal(&a->win, g, right, 0, &a->src, 0, a->bytes, /* signal */ 0,
			       ORIEL_ADD, 1);
	if (!err)
		err = oriel_wait_signal_from(&a->win, g, left, /* signal */ 0, ORIEL_GE, 1);
	return err;
}

static void must(int status, const char *what)
{
	if (!status)
		return;
	fprintf(stderr, "%s: %s\n", what, oriel_status_name(status));
	exit(1);
}

/* Byte i of what `rank` sends. */
static uint8_t pattern(int rank, uint64_t i)
{
	return (uint8_t)(i * 7 + i / 251 + (uint64_t)rank * 31 + 1);
}

static int64_t count_wrong(const uint8_t *data, int sender)
{
	int64_t wrong = 0;

	for (uint64_t i = 0; i < BYTES; i++)
		wrong += data[i] != pattern(sender, i);
	return wrong;
}

/* Runs the kernel once and returns how many bytes arrived wrong. */
static int64_t run_ring(struct oriel_comm *comm, struct oriel_window *window)
{
	int rank = oriel_comm_rank(comm), nranks = oriel_comm_size(comm);
	struct ring_args args = { .bytes = BYTES };
	void *data;

	must(oriel_alloc(comm, BYTES, &data), "data");
	for (uint64_t i = 0; i < BYTES; i++)
		((uint8_t *)data)[i] = pattern(rank, i);
	must(oriel_window_device(window, &args.win), "window handle");
	must(oriel_window_source(window, data, BYTES, &args.src), "source");

	must(oriel_launch(comm, &ring, 1, THREADS, &args, sizeof(args), NULL), "launch");
	must(oriel_comm_sync(comm, NULL), "ring");

	must(oriel_free(comm, data), "free");
	return count_wrong(oriel_window_buffer(window), (rank + nranks - 1) % nranks);
}

/* Rank 0 speaks for all. */
static int64_t report(struct oriel_comm *comm, int64_t mine)
{
	int nranks = oriel_comm_size(comm);
	int64_t *all = calloc((size_t)nranks, sizeof(*all)), wrong = 0;

	must(all ? 0 : ORIEL_ENOMEM, "report");
	must(oriel_comm_allgather(comm, ORIEL_WORLD, &mine, all, sizeof(mine)), "allgather");
	for (int r = 0; r < nranks; r++)
		wrong += all[r];
	if (oriel_comm_rank(comm) == 0)
		printf("ring of %d ranks, %d threads each: %llu bytes to the right, %lld wrong\n",
		       nranks, THREADS, (unsigned long long)BYTES, (long long)wrong);
	free(all);
	return wrong;
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct oriel_boot *boot;
	struct oriel_comm *comm;
	int64_t wrong;

	must(oriel_boot_env(&boot), "boot");
	must(oriel_comm_create(boot, NULL, &comm), "comm");
	options.bytes = BYTES;
	must(oriel_window_create(comm, &options, &window), "window");
	wrong = report(comm, run_ring(comm, window));
	must(oriel_window_destroy(window), "window destroy");
	must(oriel_comm_destroy(comm), "comm destroy");
	must(oriel_boot_destroy(boot), "boot destroy");
	return wrong ? 1 : 0;
}
