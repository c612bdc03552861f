/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/reduce/oriel.c - all-reduce, reduce-scatter and broadcast of the host with Oriel.
 *
 * Usage, under oriel-run:  oriel_reduce [windows] [sweep] [allreduce | reducescatter | broadcast]
 * Buffers are malloc memory, as with MPI, or lie in a window.  With sweep, sizes go from 8 KiB to
 * 1 MiB.  Rank 0 prints lines "oriel_allreduce8_64k value us", or "windows_allreduce8_64k ...".
 */
#include <oriel/coll.h>
#include <oriel/oriel.h>

#include "reduce.h"

static int call(const struct reduce_job *j, enum reduce_op op, size_t count)
{
	struct oriel_comm *c = j->context;

	switch (op) {
	case REDUCE_ALL:
		return oriel_allreduce(c, j->send, j->recv, count, ORIEL_TYPE_FLOAT,
				       ORIEL_REDUCE_SUM, NULL);
	case REDUCE_SCATTER:
		return oriel_reducescatter(c, j->send, j->recv, count / (size_t)j->nranks,
					   ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, NULL);
	default:
		return oriel_broadcast(c, j->send, count, sizeof(float), 0, NULL);
	}
}

static int meet(const struct reduce_job *j)
{
	return oriel_comm_barrier(j->context, ORIEL_WORLD);
}

static int slowest(const struct reduce_job *j, double *us, int n)
{
	return oriel_allreduce(j->context, us, us, (uint64_t)n, ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_MAX,
			       NULL);
}

/* oriel_finalize() destroys the window. */
static int window_memory(struct reduce_job *j)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	int err;

	o.bytes = 2 * REDUCE_MOST;
	err = oriel_window_create(j->context, &o, &window);
	if (err)
		return err;
	j->send = oriel_window_buffer(window);
	j->recv = j->send + REDUCE_MOST / sizeof(float);
	return 0;
}

int main(int argc, char **argv)
{
	struct reduce_job job = { .call = call, .meet = meet, .slowest = slowest };
	int windows = argc > 1 && !strcmp(argv[1], "windows"), sweep;
	const char *who = windows ? "windows" : "oriel";
	struct oriel_comm *comm;
	int err = oriel_init(&comm);

	if (err)
		return 1;
	argv += windows;
	sweep = argv[1] && !strcmp(argv[1], "sweep");
	argv += sweep;
	job.context = comm;
	job.rank = oriel_comm_rank(comm);
	job.nranks = oriel_comm_size(comm);
	bench_pin(job.rank);
	err = windows ? window_memory(&job) : reduce_memory(&job);
	if (!err && sweep)
		err = reduce_run(&job, who, argv[1], reduce_sweep, REDUCE_COUNT(reduce_sweep));
	else if (!err)
		err = reduce_run(&job, who, argv[1], reduce_sizes, REDUCE_COUNT(reduce_sizes));
	return oriel_finalize(comm) || err;
}
