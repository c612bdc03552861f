/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/tools/trace_ranks.c - what tools/trace_test.sh traces: thread ranks that put in a ring,
 * signal all, meet in barriers, reduce and exchange.  Also built with the fake CUDA driver, and by
 * nvcc for tools/trace_gpu_test.sh.
 *
 * Usage: trace_ranks [lost | exit | exchange].  lost: rank 1 also waits for a signal that nobody
 * sends.  exit: the program ends without destroying its comms.  exchange: also all-to-all-v.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/coll.h>
#include <oriel/coll/reduce.h>
#include <oriel/device.h>
#include <oriel/device/coll.h>
#include <oriel/oriel.h>

#define RANKS 3
#define ROUNDS 20
#define BYTES 256
#define SLOT 64
#define REQUESTS 5

/* Only in the program with the fake driver. */
const struct oriel_kernel *fake_cuda_kernel(const struct oriel_kernel *) __attribute__((weak));

static int lost, leave, exchange;
static pthread_barrier_t all_wrote;

/* The library has already printed the error. */
static void must(int status)
{
	if (status)
		exit(1);
}

struct ring_args {
	struct oriel_window_dev win;
	struct oriel_source source;
};

/* Signal 0 counts the puts of the left neighbour, signal 1 those of all others. */
ORIEL_KERNEL(trace_ring, struct ring_args)
{
	struct oriel_group g = oriel_group_block();
	int n = oriel_nranks(&a->win), rank = oriel_rank(&a->win), err = 0;

	for (uint64_t i = 1; i <= ROUNDS && !err; i++) {
		err = oriel_put_signal(&a->win, g, (rank + 1) % n, 0, &a->source, 0, BYTES, 0,
				       ORIEL_ADD, 1);
		if (!err)
			err = oriel_wait_signal_from(&a->win, g, (rank + n - 1) % n, 0, ORIEL_GE,
						     i);
	}
	if (!err)
		err = oriel_signal_all(&a->win, g, 1, ORIEL_ADD, 1);
	if (!err)
		err = oriel_wait_signal(&a->win, g, 1, (uint64_t)n - 1);
	return err ? err : oriel_barrier(&a->win, g, 0);
}

/* A set value, and a wait that begins after a reset. */
static void host_calls(struct oriel_window *w, int rank)
{
	int right = (rank + 1) % RANKS, left = (rank + RANKS - 1) % RANKS;

	must(oriel_window_signal(w, right, 2, ORIEL_SET, 7, NULL));
	must(oriel_window_wait_signal(w, left, 2, ORIEL_EQ, 7, NULL));
	must(oriel_window_barrier(w, 0, NULL));
	must(oriel_window_reset_signal(w, 0, NULL));
	must(oriel_window_barrier(w, 0, NULL));
	must(oriel_window_signal(w, right, 0, ORIEL_ADD, 1, NULL));
	must(oriel_window_wait_signal(w, left, 0, ORIEL_GE, 1, NULL));
}

struct team_args {
	struct oriel_team_dev team;
	uint8_t *memory; /* both sizes; a slot per rank to send; the same to receive */
};

ORIEL_KERNEL(trace_team, struct team_args)
{
	uint64_t *sizes = (uint64_t *)(void *)a->memory;

	return oriel_coll_alltoallv(&a->team, oriel_group_block(), 0, a->memory + BYTES, sizes,
				    a->memory + 2 * BYTES, sizes + RANKS, SLOT);
}

static const struct oriel_kernel *device_kernel(const struct oriel_kernel *kernel)
{
	return fake_cuda_kernel ? fake_cuda_kernel(kernel) : kernel;
}

/* An all-to-all-v inside a kernel. */
static void team_call(struct oriel_comm *comm, const uint64_t *sizes)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct oriel_team *team;
	struct team_args args;
	void *memory;

	o.channels = 1;
	must(oriel_team_create(comm, &o, &team));
	must(oriel_team_device(team, &args.team));
	must(oriel_alloc(comm, 3 * BYTES, &memory));
	args.memory = (uint8_t *)memory;
	must(oriel_copy(comm, memory, sizes, RANKS * sizeof(*sizes)));
	must(oriel_launch(comm, device_kernel(&trace_team), 1, 1, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));
	must(oriel_team_destroy(team));
	must(oriel_free(comm, memory));
}

/* Calls with a request: their waits for queued peers are calls of a window. */
static void request_calls(struct oriel_comm *comm, const uint64_t *sizes)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	struct oriel_alltoallv_request *request;
	void *memory;

	o.slot_bytes = SLOT;
	must(oriel_alltoallv_create(comm, &o, &request));
	must(oriel_alloc(comm, BYTES, &memory));
	must(oriel_copy(comm, memory, sizes, RANKS * sizeof(*sizes)));
	args.send_sizes = (const uint64_t *)memory;
	for (int i = 0; i < REQUESTS; i++)
		must(oriel_alltoallv_exec(request, &args, NULL));
	must(oriel_comm_sync(comm, NULL));
	must(oriel_alltoallv_status(request));
	must(oriel_alltoallv_destroy(request));
	must(oriel_free(comm, memory));
}

static void *rank_main(void *arg)
{
	struct oriel_boot *boot = (struct oriel_boot *)arg;
	static const uint64_t sizes[RANKS] = { 8, 0, SLOT };
	struct oriel_window_options options = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w;
	struct oriel_comm *comm;
	struct ring_args args;
	void *data;
	int rank;

	must(oriel_comm_create(boot, NULL, &comm));
	must(oriel_boot_destroy(boot));
	rank = oriel_comm_rank(comm);
	options.bytes = BYTES;
	options.signals = 4;
	must(oriel_window_create(comm, &options, &w));
	must(oriel_alloc(comm, BYTES, &data));
	must(oriel_window_device(w, &args.win));
	must(oriel_window_source(w, data, BYTES, &args.source));
	must(oriel_launch(comm, device_kernel(&trace_ring), 1, 4, &args, sizeof(args), NULL));
	must(oriel_comm_sync(comm, NULL));
	host_calls(w, rank);
	must(oriel_allreduce(comm, data, data, BYTES / 4, ORIEL_TYPE_INT32, ORIEL_REDUCE_SUM,
			     NULL));
	must(oriel_comm_sync(comm, NULL));
	if (exchange) {
		team_call(comm, sizes);
		request_calls(comm, sizes);
	}
	if (lost && rank == 1)
		(void)oriel_window_wait_signal_timeout(w, 0, 3, ORIEL_GE, 1, 3.0, NULL);
	(void)oriel_comm_sync(comm, NULL);
	pthread_barrier_wait(&all_wrote);
	if (leave)
		return NULL;
	must(oriel_window_destroy(w));
	must(oriel_free(comm, data));
	must(oriel_comm_destroy(comm));
	return NULL;
}

int main(int argc, char **argv)
{
	struct oriel_boot *boots[RANKS];
	pthread_t threads[RANKS];

	lost = argc > 1 && !strcmp(argv[1], "lost");
	leave = argc > 1 && !strcmp(argv[1], "exit");
	exchange = argc > 1 && !strcmp(argv[1], "exchange");
	pthread_barrier_init(&all_wrote, NULL, RANKS);
	must(oriel_boot_threads(RANKS, boots));
	for (int r = 0; r < RANKS; r++)
		if (pthread_create(&threads[r], NULL, rank_main, boots[r]))
			abort();
	for (int r = 0; r < RANKS; r++)
		pthread_join(threads[r], NULL);
	puts("done");
	return 0;
}
