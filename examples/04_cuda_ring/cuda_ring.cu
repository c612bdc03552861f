/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 04_cuda_ring - the ring of 02 on GPUs: a kernel puts into the right neighbour's window and waits for the
 * left one.
 *
 * New beside 02: the file is CUDA, the comm's device is "cuda", memory of oriel_alloc() is the GPU's, so the
 * host reaches it by oriel_copy(); and a launch returns before the kernel has ended.
 *
 * Build:  nvcc -std=c++17 -arch=native cuda_ring.cu -o cuda_ring $(pkg-config --cflags --libs oriel)
 * Run:    oriel-run -n 4 --mps ./cuda_ring        (--mps: the ranks share one GPU)
 */
#include <stdio.h>
#include <stdlib.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#define BYTES ((uint64_t)1 << 20)
#define THREADS 512

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

/* Runs the kernel once and returns how many bytes arrived wrong. */
static int64_t run_ring(struct oriel_comm *comm, struct oriel_window *window)
{
	int rank = oriel_comm_rank(comm), nranks = oriel_comm_size(comm);
	uint8_t *host = (uint8_t *)malloc(BYTES);
	struct ring_args args;
	void *data;
	int64_t wrong = 0;

	must(host ? 0 : ORIEL_ENOMEM, "memory");
	must(oriel_alloc(comm, BYTES, &data), "data");
	for (uint64_t i = 0; i < BYTES; i++)
		host[i] = pattern(rank, i);
	must(oriel_copy(comm, data, host, BYTES), "copy to the GPU");
	args.bytes = BYTES;
	must(oriel_window_device(window, &args.win), "window handle");
	must(oriel_window_source(window, data, BYTES, &args.src), "source");

	must(oriel_launch(comm, &ring, 1, THREADS, &args, sizeof(args), NULL), "launch");
	must(oriel_comm_sync(comm, NULL), "ring");

	must(oriel_copy(comm, host, oriel_window_buffer(window), BYTES), "copy of the window");
	for (uint64_t i = 0; i < BYTES; i++)
		wrong += host[i] != pattern((rank + nranks - 1) % nranks, i);
	must(oriel_free(comm, data), "free");
	free(host);
	return wrong;
}

int main(void)
{
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_comm_options on_gpu = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_window *window;
	struct oriel_boot *boot;
	struct oriel_comm *comm;
	int64_t wrong;

	on_gpu.device = "cuda";
	must(oriel_boot_env(&boot), "boot");
	must(oriel_comm_create(boot, &on_gpu, &comm), "comm");
	options.bytes = BYTES;
	must(oriel_window_create(comm, &options, &window), "window");
	wrong = run_ring(comm, window);
	printf("rank %d of %d on the GPU: %llu bytes from the left, %lld wrong\n",
	       oriel_comm_rank(comm), oriel_comm_size(comm), (unsigned long long)BYTES,
	       (long long)wrong);
	must(oriel_window_destroy(window), "window destroy");
	must(oriel_comm_destroy(comm), "comm destroy");
	must(oriel_boot_destroy(boot), "boot destroy");
	return wrong ? 1 : 0;
}
