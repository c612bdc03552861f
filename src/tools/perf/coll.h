/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/coll.h - what the rows of collectives share: test data and its check, timing, rates.
 *
 * allgather.c, alltoallv.c, reduce.c, inside.c and inside_v.c each fill a struct perf_coll; coll.c
 * does the rest.
 */
#ifndef PERF_COLL_H
#define PERF_COLL_H

#include "perf.h"

struct perf_coll {
	struct perf_job *job;
	const struct perf_op *op;
	struct perf_rows *rows;
	uint64_t bytes; /* of the row: one rank's block, or the average part of a peer */
	int in_place;   /* the calls now have their result in the buffer of the input */
	void *bed;      /* argument of the functions below, which all ranks call alike */
	int (*call)(void *bed, uint32_t i); /* the i-th call of a run, or of that pass */
	int (*settle)(void *bed);           /* waits for all calls and returns their status */
	/* NULL, or makes all calls of the plan at once: microseconds per call of each sample */
	int (*timed)(void *bed, const struct perf_plan *p, float *us);
	/* A verification pass: write_pass and read_pass are not collective. */
	int (*write_pass)(void *bed, int pass);
	int (*read_pass)(void *bed, int pass, uint64_t *wrong);
};

/* splitmix64's finaliser: every bit of x reaches every bit of the result. */
uint64_t perf_coll_mix(uint64_t x);
/* Fill: writes bytes that depend on seed and offset.  Wrong: counts bytes that differ. */
void perf_coll_fill(uint8_t *data, uint64_t bytes, uint64_t seed);
uint64_t perf_coll_wrong(const uint8_t *data, uint64_t bytes, uint64_t seed);
/* split.c: an all-to-all-v uses so many splits in turn. */
#define PERF_SPLITS 8
enum perf_split perf_split_of(const struct perf_coll *c);
const char *perf_split_name(const struct perf_coll *c);
/* Bytes from `from` to `to` with this split; every rank can compute them. */
uint64_t perf_split_bytes(const struct perf_coll *c, int split, int from, int to);
uint64_t perf_split_most(const struct perf_coll *c); /* of all of them */
/* Fails if the machine has too little memory for all ranks; the same result on all ranks. */
int perf_coll_fits(const struct perf_job *job, const char *name, uint64_t bytes, uint64_t each);
/* Checks if the user asked for it, and measures.  Fills in times, rates and #wrong of the row. */
int perf_coll_measure(struct perf_coll *c, const struct perf_plan *p, struct perf_row *row);
/* A row of c->bytes, with nothing measured yet; call it just before you measure. */
struct perf_row perf_coll_row(const struct perf_coll *c, const struct perf_plan *p,
			      const char *type);

#endif
