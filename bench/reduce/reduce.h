/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/reduce/reduce.h - the cases of bench/reduce and their loop.
 *
 * Oriel and Open MPI are measured by the same loop.  Before each call every rank stores to each line
 * of its input, as programs do that send new data.  Without that, readers would find the lines of
 * the last call in their own caches: 64 KiB of a broadcast between 2 ranks took Open MPI 6 us then,
 * and 28 with it.  A case prints the median of the timed loops, and the least; both are of the
 * slowest rank.  This file uses neither library.
 */
#ifndef ORI_BENCH_REDUCE_H
#define ORI_BENCH_REDUCE_H

#include <string.h>

#include "../bench.h"

#define REDUCE_LOOPS 21

enum reduce_op { REDUCE_ALL, REDUCE_SCATTER, REDUCE_BROADCAST, REDUCE_OPS };

static const char *const reduce_names[] = { "allreduce", "reducescatter", "broadcast" };

struct reduce_size {
	const char *name;
	size_t bytes; /* of a rank's input; a broadcast's data */
	int calls;    /* in one timed loop */
};

static const struct reduce_size reduce_sizes[] = {
	{ "1k", 1u << 10, 400 },
	{ "64k", 64u << 10, 100 },
	{ "4m", 4u << 20, 4 },
};
#define REDUCE_SIZES (sizeof(reduce_sizes) / sizeof(reduce_sizes[0]))
#define REDUCE_MOST ((size_t)4 << 20)

struct reduce_job {
	int rank, nranks;
	void *context;      /* of the library that is measured */
	float *send, *recv; /* REDUCE_MOST bytes each */
	/* each returns 0 on success */
	int (*call)(const struct reduce_job *, enum reduce_op, size_t count);
	int (*meet)(const struct reduce_job *);
	int (*slowest)(const struct reduce_job *, double *us, int n); /* maximum over the ranks */
};

/* The result of an all-reduce over small integers is exact. */
static inline int reduce_is_wrong(const struct reduce_job *j, enum reduce_op op, size_t count)
{
	size_t n = op == REDUCE_SCATTER ? count / (size_t)j->nranks : count;
	size_t first = op == REDUCE_SCATTER ? (size_t)j->rank * n : 0;
	float ranks = (float)j->nranks, sum = ranks * (ranks - 1) / 2;

	for (size_t i = 0; i < n; i++) {
		float at = (float)((first + i) % 64);
		float want = op == REDUCE_BROADCAST ? at : ranks * at + sum;

		if ((op == REDUCE_BROADCAST ? j->send : j->recv)[i] != want)
			return 1;
	}
	return 0;
}

static inline void reduce_touch(const struct reduce_job *j, size_t count)
{
	volatile float *at = j->send;

	for (size_t i = 0; i < count; i += 64 / sizeof(float))
		at[i] = at[i];
}

static inline int reduce_case(struct reduce_job *j, const char *who, enum reduce_op op,
			      const struct reduce_size *s)
{
	double us[REDUCE_LOOPS + 1];
	size_t count = s->bytes / sizeof(float);
	char name[64];
	int err = 0;

	for (size_t i = 0; i < count; i++)
		j->send[i] = (float)(i % 64) +
			     (float)(op == REDUCE_BROADCAST && !j->rank ? 0 : j->rank);
	for (int l = 0; !err && l <= REDUCE_LOOPS; l++) { /* the first is the warm-up */
		double start;

		err = j->meet(j);
		start = bench_now();
		for (int i = 0; !err && i < s->calls; i++) {
			reduce_touch(j, count);
			err = j->call(j, op, count);
		}
		us[l] = (bench_now() - start) * 1e6 / s->calls;
	}
	if (!err && reduce_is_wrong(j, op, count)) {
		fprintf(stderr, "%s %s %s: wrong result on rank %d\n", who, reduce_names[op],
			s->name, j->rank);
		err = 1;
	}
	if (!err)
		err = j->slowest(j, us, REDUCE_LOOPS + 1);
	if (err || j->rank)
		return err;
	snprintf(name, sizeof(name), "%s_%s%d_%s", who, reduce_names[op], j->nranks, s->name);
	bench_print(name, bench_median(us + 1, REDUCE_LOOPS), "us");
	strncat(name, "_least", sizeof(name) - strlen(name) - 1);
	bench_print(name, us[1], "us"); /* the median has sorted them */
	return 0;
}

/* Memory as programs have it.  It goes with the process. */
static inline int reduce_memory(struct reduce_job *j)
{
	j->send = malloc(REDUCE_MOST);
	j->recv = malloc(REDUCE_MOST);
	return !j->send || !j->recv;
}

/* All cases, or those whose operation is named. */
static inline int reduce_run(struct reduce_job *j, const char *who, const char *only)
{
	int err = 0;

	memset(j->recv, 0, REDUCE_MOST); /* the pages exist */
	for (int op = 0; !err && op < REDUCE_OPS; op++)
		for (size_t i = 0; !err && i < REDUCE_SIZES; i++)
			if (!only || !strcmp(only, reduce_names[op]))
				err = reduce_case(j, who, (enum reduce_op)op, &reduce_sizes[i]);
	return err;
}

#endif
