/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/scenario.h - one rank's way through the library, for tests that inject failures: from
 * a boot to windows, collectives, buffers and a split, and back.
 *
 * It stops at the first call that fails, then destroys what it has.  It aborts first only if others
 * would wait in a kernel.  For alloc_faults.c, syscall_faults.c and cuda_faults.c.
 */
#ifndef ORI_TEST_SCENARIO_H
#define ORI_TEST_SCENARIO_H

#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include <oriel/coll.h>
#include <oriel/device.h>
#include <oriel/oriel.h>

#include "../check.h"

#define SCENARIO_BYTES 4096u

struct scenario {
	int rank, nranks;
	double timeout_s;
	struct oriel_boot *boot;
	struct oriel_comm *comm, *sub;
	void *memory;
	struct oriel_window *window;
	struct oriel_source source;
	struct oriel_allgather_request *gather;
	struct oriel_alltoallv_request *exchange;
	struct oriel_buffer *buffer;
	/* what came of it */
	int status;       /* of the first call that failed, else 0 */
	const char *call; /* its name */
	char error[400];
};

struct meet_args {
	struct oriel_window_dev win;
};

ORIEL_KERNEL(meet_kernel, struct meet_args)
{
	struct oriel_group g = oriel_group_block();

	return oriel_barrier(&a->win, g, 1 + (int)g.block);
}

static inline int scenario_comm(struct scenario *s)
{
	struct oriel_comm_options o = ORIEL_COMM_OPTIONS_INIT;

	o.timeout = s->timeout_s;
	return oriel_comm_create(s->boot, &o, &s->comm);
}

static inline int scenario_alloc(struct scenario *s)
{
	return oriel_alloc(s->comm, 3 * SCENARIO_BYTES, &s->memory);
}

static inline int scenario_window(struct scenario *s)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = SCENARIO_BYTES;
	o.staging_slot_bytes = 1024;
	return oriel_window_create(s->comm, &o, &s->window);
}

static inline int scenario_source(struct scenario *s)
{
	return oriel_window_source(s->window, s->memory, SCENARIO_BYTES, &s->source);
}

static inline int scenario_put(struct scenario *s)
{
	return oriel_window_put_signal(s->window, (s->rank + 1) % s->nranks, 0, &s->source, 0,
				       SCENARIO_BYTES, 0, ORIEL_ADD, 1, NULL);
}

static inline int scenario_wait(struct scenario *s)
{
	return oriel_window_wait_signal(s->window, -1, 0, ORIEL_GE, 1, NULL);
}

static inline int scenario_barrier(struct scenario *s)
{
	return oriel_window_barrier(s->window, 0, NULL);
}

static inline int scenario_launch(struct scenario *s)
{
	struct meet_args args;
	int err = oriel_window_device(s->window, &args.win);

	if (!err)
		err = oriel_launch(s->comm, &meet_kernel, 2, 2, &args, sizeof(args), NULL);
	return err;
}

/* On a separate device this must be device memory, as in the all-to-all-v below. */
static inline int scenario_reduce(struct scenario *s)
{
	return oriel_allreduce(s->comm, NULL, s->memory, 4, ORIEL_TYPE_UINT64, ORIEL_REDUCE_SUM,
			       NULL);
}

static inline int scenario_gather_create(struct scenario *s)
{
	return oriel_allgather_create(s->comm, s->window, NULL, &s->gather);
}

static inline int scenario_gather(struct scenario *s)
{
	return oriel_allgather_exec(s->gather, NULL, 64, 8, NULL);
}

static inline int scenario_exchange_create(struct scenario *s)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;

	o.slot_bytes = 512;
	o.recv_memory = (char *)s->memory +
			SCENARIO_BYTES; /* a second window, which can fail too */
	o.recv_memory_bytes = SCENARIO_BYTES;
	return oriel_alltoallv_create(s->comm, &o, &s->exchange);
}

static inline int scenario_alltoallv(struct scenario *s)
{
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	uint64_t sizes[2] = { 512, 512 };
	int err = oriel_copy(s->comm, s->memory, sizes, sizeof(sizes));

	args.send_sizes = s->memory;
	return err ? err : oriel_alltoallv_exec(s->exchange, &args, NULL);
}

/* On a separate device the work above may be pending yet. */
static inline int scenario_sync(struct scenario *s)
{
	return oriel_comm_sync(s->comm, NULL);
}

static inline int scenario_register(struct scenario *s)
{
	return oriel_buffer_register(s->comm, s->memory, 2 * SCENARIO_BYTES, &s->buffer);
}

static inline int scenario_exchange(struct scenario *s)
{
	return oriel_buffer_exchange(s->comm, s->buffer);
}

static inline int scenario_split(struct scenario *s)
{
	return oriel_comm_split(s->comm, 0, -s->rank, &s->sub);
}

static inline int scenario_sub_barrier(struct scenario *s)
{
	return oriel_comm_barrier(s->sub, ORIEL_WORLD);
}

static const struct scenario_step {
	const char *name;
	int (*run)(struct scenario *);
} scenario_steps[] = {
	{ "comm_create", scenario_comm },         { "alloc", scenario_alloc },
	{ "window_create", scenario_window },     { "window_source", scenario_source },
	{ "put_signal", scenario_put },           { "wait_signal", scenario_wait },
	{ "window_barrier", scenario_barrier },   { "launch", scenario_launch },
	{ "allreduce", scenario_reduce },         { "allgather_create", scenario_gather_create },
	{ "allgather_exec", scenario_gather },    { "alltoallv_create", scenario_exchange_create },
	{ "alltoallv_exec", scenario_alltoallv }, { "comm_sync", scenario_sync },
	{ "buffer_register", scenario_register }, { "buffer_exchange", scenario_exchange },
	{ "comm_split", scenario_split },         { "comm_barrier", scenario_sub_barrier },
};

static inline void scenario_note(struct scenario *s, const char *call, int status)
{
	if (status > 0)
		check_fail(__FILE__, __LINE__, "%s of rank %d returned %d", call, s->rank, status);
	if (!status || s->status)
		return;
	s->status = status;
	s->call = call;
	snprintf(s->error, sizeof(s->error), "%s", oriel_last_error());
	/* what a kernel failed with is the text of the thread that ran it */
	if (!s->error[0] && strcmp(call, "launch"))
		check_fail(__FILE__, __LINE__, "%s of rank %d failed without a text", call,
			   s->rank);
}

/* A local destroy must not fail, whatever happened before. */
static inline void scenario_end(struct scenario *s, const char *call, int status)
{
	if (status)
		check_fail(__FILE__, __LINE__, "%s of rank %d: %s: %s", call, s->rank,
			   oriel_status_name(status), oriel_last_error());
}

/* A collective destroy may report failures of other ranks, but always destroys. */
static inline void scenario_end_all(struct scenario *s, const char *call, int status)
{
	scenario_note(s, call, status);
	if (status == ORIEL_EBUSY || status == ORIEL_ESTALE || status == ORIEL_EINVAL)
		scenario_end(s, call, status);
}

static inline void scenario_run(struct scenario *s)
{
	size_t n = sizeof(scenario_steps) / sizeof(scenario_steps[0]);

	for (size_t i = 0; i < n && !s->status; i++)
		scenario_note(s, scenario_steps[i].name, scenario_steps[i].run(s));
	/* the others may be in the kernel that this rank could not start */
	if (s->call && !strcmp(s->call, "launch"))
		scenario_end(s, "comm_abort", oriel_comm_abort(s->comm, s->status));
	scenario_end_all(s, "comm_destroy (split)", oriel_comm_destroy(s->sub));
	scenario_end_all(s, "alltoallv_destroy", oriel_alltoallv_destroy(s->exchange));
	scenario_end(s, "allgather_destroy", oriel_allgather_destroy(s->gather));
	scenario_end(s, "buffer_release", oriel_buffer_release(s->buffer));
	scenario_end_all(s, "window_destroy", oriel_window_destroy(s->window));
	if (s->memory)
		scenario_end(s, "free", oriel_free(s->comm, s->memory));
	scenario_end_all(s, "comm_destroy", oriel_comm_destroy(s->comm));
	scenario_end(s, "boot_destroy", oriel_boot_destroy(s->boot));
}

static inline double scenario_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int scenario_open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	if (!dir)
		return -1;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

#endif
