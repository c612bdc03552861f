/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 05_same_kernel - one kernel source, run on CPU threads and on a GPU by the same program.
 *
 * Four ranks, threads of this process, add up vectors of doubles.  Every rank puts its vector into
 * the windows of all ranks.  Then each rank adds the vectors in its window, in the order of ranks.
 * The program does that on the CPU, then on the GPU.  The results must be equal bit for bit.
 * Without a GPU only the CPU half runs.
 *
 * Build:  nvcc -std=c++17 -arch=native same_kernel.cu -o same_kernel \
 *             $(pkg-config --cflags --libs oriel)
 * Run:    ./same_kernel        (with ORIEL_CHECKED=1 every call of the kernel is checked)
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define RANKS 4
#define COUNT 10007 /* elements of a vector */
#define BYTES (COUNT * sizeof(double))

struct sum_args {
	struct oriel_window_dev win;
	struct oriel_source mine; /* this rank's vector */
	double *sum;
};

/* The window holds one vector per rank.  The return value reaches oriel_comm_sync(). */
ORIEL_KERNEL(sum_of_all, struct sum_args)
{
	struct oriel_group g = oriel_group_block();
	int nranks = oriel_nranks(&a->win), err = 0, r;
	const double *vectors = (const double *)(const void *)a->win.buffer;
	uint64_t i;

	for (r = 0; r < nranks && !err; r++)
		err = oriel_put(&a->win, g, r, (uint64_t)oriel_rank(&a->win) * BYTES, &a->mine, 0,
				BYTES);
	if (!err)
		err = oriel_barrier(&a->win, g, 0); /* after it, all puts have arrived */
	for (i = g.thread; i < COUNT && !err; i += g.size) {
		double sum = 0;

		for (r = 0; r < nranks; r++)
			sum += vectors[(uint64_t)r * COUNT + i];
		a->sum[i] = sum;
	}
	return err;
}

/* The library has already printed the error. */
static void must(int status)
{
	if (status)
		exit(1);
}

struct rank {
	const char *device;
	int threads; /* of the block */
	struct oriel_boot *boot;
	double vector[COUNT]; /* this rank's input; at the end the sum */
};

static void *rank_main(void *arg)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_comm_options on_device = ORIEL_COMM_OPTIONS_INIT;
	struct rank *rank = (struct rank *)arg;
	struct oriel_window *window;
	struct oriel_comm *comm;
	struct sum_args args;
	void *mine, *sum;

	on_device.device = rank->device;
	must(oriel_comm_create(rank->boot, &on_device, &comm));
	must(oriel_boot_destroy(rank->boot)); /* the comm does not need it any more */
	options.bytes = RANKS * BYTES;
	must(oriel_window_create(comm, &options, &window));
	must(oriel_alloc(comm, BYTES, &mine));
	must(oriel_alloc(comm, BYTES, &sum));

	for (int i = 0; i < COUNT; i++)
		rank->vector[i] = 1.0 / (1 + i + 3 * oriel_comm_rank(comm));
	must(oriel_copy(comm, mine, rank->vector, BYTES));
	args.sum = (double *)sum;
	must(oriel_window_device(window, &args.win));
	must(oriel_window_source(window, mine, BYTES, &args.mine));
	must(oriel_launch(comm, &sum_of_all, 1, rank->threads, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL)); /* waits for the kernel; returns its status */
	must(oriel_copy(comm, rank->vector, sum, BYTES));
	must(oriel_finalize(comm)); /* also frees the window, `mine` and `sum` */
	return NULL;
}

static void run_on(const char *device, int threads, struct rank *ranks)
{
	struct oriel_boot *boots[RANKS];
	pthread_t thread[RANKS];

	must(oriel_boot_threads(RANKS, boots));
	for (int r = 0; r < RANKS; r++) {
		ranks[r].device = device;
		ranks[r].threads = threads;
		ranks[r].boot = boots[r];
		if (pthread_create(&thread[r], NULL, rank_main, &ranks[r]))
			abort();
	}
	for (int r = 0; r < RANKS; r++)
		pthread_join(thread[r], NULL);
	printf("on %s, blocks of %d threads: element 0 is %.17g\n", device, threads,
	       ranks[0].vector[0]);
}

int main(void)
{
	static struct rank cpu[RANKS], gpu[RANKS];
	int devices = 0, different = 0;

	run_on("cpu", 4, cpu);
	if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
		printf("no GPU here: the other half is left out\n");
		return 0;
	}
	run_on("cuda", 256, gpu);
	for (int r = 0; r < RANKS; r++)
		different += memcmp(cpu[r].vector, gpu[r].vector, BYTES) != 0;
	printf("%d of %d ranks got other bits on the GPU\n", different, RANKS);
	return different ? 1 : 0;
}
