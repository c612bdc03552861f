/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/coll/gpu.h - the parts that the GPU programs of bench/coll share: sizes, number of runs,
 * timing, the data and its check.
 *
 * The limit, Oriel and NVSHMEM are measured by the same loops over the same footprint.  A figure is
 * the mean of many calls back to back on one stream, measured by events on rank 0.  The collective
 * keeps the ranks in lock step, so this is the time of all ranks.  This file uses nothing of Oriel.
 */
#ifndef ORI_BENCH_COLL_GPU_H
#define ORI_BENCH_COLL_GPU_H

#include "../gpu.h"

#define COLL_GATHER 0   /* bytes: a rank's block */
#define COLL_EXCHANGE 1 /* bytes: one peer's part */
#define COLL_SKEW 2     /* bytes: what rank 0 gets from each, the other ranks together as much */

struct coll_case {
	int op;
	const char *size; /* part of the row's name */
	uint64_t bytes;
	int calls; /* timed; some 10 ms of them */
};

static const struct coll_case coll_cases[] = {
	{ COLL_GATHER, "1k", 1u << 10, 500 },   { COLL_GATHER, "64k", 64u << 10, 500 },
	{ COLL_GATHER, "1m", 1u << 20, 150 },   { COLL_GATHER, "16m", 16u << 20, 20 },
	{ COLL_EXCHANGE, "1k", 1u << 10, 500 }, { COLL_EXCHANGE, "64k", 64u << 10, 500 },
	{ COLL_EXCHANGE, "1m", 1u << 20, 150 }, { COLL_EXCHANGE, "16m", 16u << 20, 20 },
	{ COLL_SKEW, "1m", 1u << 20, 150 },     { COLL_SKEW, "16m", 16u << 20, 20 },
};
#define COLL_CASES (sizeof(coll_cases) / sizeof(coll_cases[0]))
#define COLL_MOST (16u << 20)
#define COLL_WARM 20

/* All-gather and skewed splits need 8 ranks. */
static inline int coll_is_run(const struct coll_case *c, int nranks)
{
	return c->op == COLL_EXCHANGE || nranks > 2;
}

/* What a rank sends `to`. */
static inline uint64_t coll_bytes(const struct coll_case *c, int to, int nranks)
{
	if (c->op != COLL_SKEW || to == 0)
		return c->bytes;
	return c->bytes / (uint64_t)(nranks - 1) / 16 * 16;
}

/* All-gather sends the same data to all ranks. */
static inline int coll_pattern(const struct coll_case *c, int from, int to)
{
	return c->op == COLL_GATHER ? from : (from + 1) * GPU_RANKS_MAX + to;
}

static inline const char *coll_name(const struct coll_case *c, int nranks, const char *way,
				    char *name, size_t bytes)
{
	static const char *const ops[] = { "gather", "exchange", "skew" };

	snprintf(name, bytes, "%s%d_%s%s%s", ops[c->op], nranks, c->size, *way ? "/" : "", way);
	return name;
}

/* The part for rank `to` is at to * c->bytes of the send memory; an all-gather has one part. */
static inline void coll_fill(const struct coll_case *c, uint8_t *send, int rank, int nranks,
			     cudaStream_t stream)
{
	int parts = c->op == COLL_GATHER ? 1 : nranks;

	for (int to = 0; to < parts; to++)
		gpu_fill(send + (uint64_t)to * c->bytes, coll_bytes(c, to, nranks),
			 coll_pattern(c, rank, to), stream);
}

/* The data of `from` is at from * stride.  Wrong bytes end the program. */
static inline void coll_check(const char *row, const struct coll_case *c, uint8_t *recv,
			      uint64_t stride, int rank, int nranks, cudaStream_t stream)
{
	for (int from = 0; from < nranks; from++)
		gpu_check(row, recv + (uint64_t)from * stride, coll_bytes(c, rank, nranks),
			  coll_pattern(c, from, rank), 0, stream);
}

/* Mean microseconds of n calls of fn(arg), after some calls to warm up. */
static inline double coll_time(void (*fn)(void *arg), void *arg, int n, cudaStream_t stream)
{
	cudaEvent_t begin, end;
	float ms = 0;

	gpu_must(cudaEventCreate(&begin), "event");
	gpu_must(cudaEventCreate(&end), "event");
	for (int i = 0; i < COLL_WARM; i++)
		fn(arg);
	gpu_must(cudaEventRecord(begin, stream), "event");
	for (int i = 0; i < n; i++)
		fn(arg);
	gpu_must(cudaEventRecord(end, stream), "event");
	gpu_must(cudaStreamSynchronize(stream), "calls");
	gpu_must(cudaEventElapsedTime(&ms, begin, end), "event");
	gpu_must(cudaEventDestroy(begin), "event");
	gpu_must(cudaEventDestroy(end), "event");
	return (double)ms * 1e3 / n;
}

#endif
