/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/limit.c - the limit of operations that are one copy in the memory of a CPU.
 *
 * As many ranks as copy in the operation call memcpy at the same time, between two buffers of their
 * own, with the sizes of the row.  No put to a mapped peer can be much faster.  A GPU or a queued
 * peer has other limits, which this program cannot measure: --limit gives them.
 * Called by: measure.c for --plot, on the host thread of all ranks.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 15
#define ROUND_BYTES (1u << 20) /* copied between two looks at the clock, at least */
#define COPY_BYTES (64u << 20) /* in no cache: larger copies have the same rate */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of some rounds, in bytes per nanosecond, which is GB/s. */
static double copy_rate(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	uint64_t calls = (ROUND_BYTES + bytes - 1) / bytes;
	double rates[ROUNDS];

	memcpy(to, from, bytes); /* touches the pages */
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start = now_ns(), ns;

		for (uint64_t i = 0; i < calls; i++) {
			memcpy(to, from, bytes);
			/* The compiler must not leave out copies that the next one repeats. */
			__asm__ volatile("" : : "r"(to), "r"(from) : "memory");
		}
		ns = now_ns() - start;
		rates[round] = (double)(calls * bytes) / (double)(ns ? ns : 1);
	}
	qsort(rates, ROUNDS, sizeof(rates[0]), by_value);
	return rates[ROUNDS / 2];
}

/* The slowest rank's rate counts, as in the time of a row. */
static int slowest_rate(struct perf_job *job, double rate, double *slowest)
{
	double *all = calloc((size_t)job->nranks, sizeof(*all));
	int err = perf_agree(job, all ? 0 : ORIEL_ENOMEM, "allocating memory");

	if (!err)
		err = oriel_comm_allgather(job->comm, ORIEL_WORLD, &rate, all, sizeof(rate));
	*slowest = 0;
	for (int r = 0; !err && r < job->nranks; r++)
		if (all[r] > 0 && (*slowest <= 0 || all[r] < *slowest))
			*slowest = all[r];
	free(all);
	return err;
}

int perf_limit_measure(struct perf_job *job, struct perf_row *row)
{
	/* In a ping-pong one rank of each pair copies while the other waits. */
	int copies = !row->op->pairs || job->rank % 2 == 0, err;
	uint64_t bytes = row->bytes < COPY_BYTES ? row->bytes : COPY_BYTES;
	uint8_t *from, *to;
	double rate = 0;

	if (!row->op->copies || !bytes || job->opt->cuda || job->facts.queued)
		return 0;
	from = calloc(bytes, 1);
	to = calloc(bytes, 1);
	err = perf_agree(job, from && to ? 0 : ORIEL_ENOMEM, "allocating memory");
	if (!err)
		err = oriel_comm_barrier(job->comm, ORIEL_WORLD);
	if (!err && copies)
		rate = copy_rate(to, from, bytes);
	free(from);
	free(to);
	return err ? err : slowest_rate(job, rate, &row->limit);
}
