/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/coll.h - what the rows of collectives share: bytes and how they are checked, timing,
 * rates.
 *
 * allgather.c and alltoallv.c each fill a struct perf_coll; coll.c does the rest.
 */
#ifndef PERF_COLL_H
#define PERF_COLL_H

#include "perf.h"

struct perf_coll {
	struct perf_job *job;
	const struct perf_op *op;
	struct perf_rows *rows;
	uint64_t bytes; /* of the row: one rank's block, or the average peer's part */
	void *bed;      /* what the functions get; all ranks call them alike */
	int (*call)(void *bed, uint32_t i); /* the i-th of a run */
	int (*settle)(void *bed);           /* all calls are through, and how they went */
	/* One verification pass, around the call: not collective. */
	int (*write_pass)(void *bed, int pass);
	int (*pass_call)(void *bed, int pass);
	int (*read_pass)(void *bed, int pass, uint64_t *wrong);
};

/* splitmix64's finaliser: every bit of x reaches every bit of the result. */
uint64_t perf_coll_mix(uint64_t x);
/* Bytes that seed and offset decide, and how many of them are others. */
void perf_coll_fill(uint8_t *data, uint64_t bytes, uint64_t seed);
uint64_t perf_coll_wrong(const uint8_t *data, uint64_t bytes, uint64_t seed);
/* Fails if the machine has too little memory for all ranks; same answer on all ranks. */
int perf_coll_fits(const struct perf_job *job, const char *name, uint64_t bytes, uint64_t each);
/* Checks, where asked for, and times; row->bytes is set, times, rates and #wrong are filled in. */
int perf_coll_measure(struct perf_coll *c, const struct perf_plan *p, struct perf_row *row);
/* A row of c->bytes, with nothing measured yet. */
struct perf_row perf_coll_row(const struct perf_coll *c, const struct perf_plan *p,
			      const char *type);

#endif
