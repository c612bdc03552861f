/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/reduce/reduce.h - the cases of bench/reduce and their loop.
 *
 * Oriel and Open MPI are measured by the same loop.  Before each call every rank that gives data
 * stores a new value to each line of it; that is part of the time.  Without new data, readers would
 * find the lines of the last call in their own caches.  The results of the last call of a case are
 * checked.  A case prints the median of the timed loops, and the least; both are of the slowest
 * rank.  This file uses neither library.
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
/* Where one way of the data ends and another begins. */
static const struct reduce_size reduce_sweep[] = {
	{ "8k", 8u << 10, 400 },    { "16k", 16u << 10, 300 },  { "32k", 32u << 10, 200 },
	{ "64k", 64u << 10, 100 },  { "128k", 128u << 10, 60 }, { "256k", 256u << 10, 30 },
	{ "512k", 512u << 10, 15 }, { "1m", 1u << 20, 10 },
};
#define REDUCE_COUNT(table) (sizeof(table) / sizeof((table)[0]))
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

#define REDUCE_LINE (64 / sizeof(float))

/* Element i of a rank's input has this and its rank.  The first of each line changes every call. */
static inline float reduce_element(size_t i, int call)
{
	return (float)(i % 64) + (i % REDUCE_LINE ? 0 : (float)(call % 8));
}

/* The result of an all-reduce over small integers is exact. */
static inline int reduce_is_wrong(const struct reduce_job *j, enum reduce_op op, size_t count,
				  int call)
{
	size_t n = op == REDUCE_SCATTER ? count / (size_t)j->nranks : count;
	size_t first = op == REDUCE_SCATTER ? (size_t)j->rank * n : 0;
	float ranks = (float)j->nranks, sum = ranks * (ranks - 1) / 2;

	for (size_t i = 0; i < n; i++) {
		float at = reduce_element(first + i, call);
		float want = op == REDUCE_BROADCAST ? at : ranks * at + sum;

		if ((op == REDUCE_BROADCAST ? j->send : j->recv)[i] != want)
			return 1;
	}
	return 0;
}

/* New data for a call. */
static inline void reduce_touch(const struct reduce_job *j, enum reduce_op op, size_t count,
				int call)
{
	if (op == REDUCE_BROADCAST && j->rank)
		return;
	for (size_t i = 0; i < count; i += REDUCE_LINE)
		j->send[i] = reduce_element(i, call) + (float)j->rank;
}

static inline int reduce_case(struct reduce_job *j, const char *who, enum reduce_op op,
			      const struct reduce_size *s)
{
	double us[REDUCE_LOOPS + 1];
	size_t count = s->bytes / sizeof(float);
	char name[64];
	int err = 0, call = 0;

	for (size_t i = 0; i < count; i++)
		j->send[i] = reduce_element(i, call) + (float)j->rank;
	for (int l = 0; !err && l <= REDUCE_LOOPS; l++) { /* the first is the warm-up */
		double start;

		err = j->meet(j);
		start = bench_now();
		for (int i = 0; !err && i < s->calls; i++) {
			reduce_touch(j, op, count, ++call);
			err = j->call(j, op, count);
		}
		us[l] = (bench_now() - start) * 1e6 / s->calls;
	}
	if (!err && reduce_is_wrong(j, op, count, call)) {
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

/* All cases of a table of sizes, or those whose operation is named. */
static inline int reduce_run(struct reduce_job *j, const char *who, const char *only,
			     const struct reduce_size *sizes, size_t nsizes)
{
	int err = 0, found = 0;

	memset(j->recv, 0, REDUCE_MOST); /* the pages exist */
	for (int op = 0; !err && op < REDUCE_OPS; op++) {
		if (only && strcmp(only, reduce_names[op]))
			continue;
		found = 1;
		for (size_t i = 0; !err && i < nsizes; i++)
			err = reduce_case(j, who, (enum reduce_op)op, &sizes[i]);
	}
	if (!found)
		fprintf(stderr, "%s: no operation is called '%s'\n", who, only);
	return err || !found;
}

#endif
