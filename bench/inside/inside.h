/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/inside/inside.h - the rows of collectives inside a kernel, which the limit, Oriel and
 * NVSHMEM share: sizes, number of calls, data and its check.
 *
 * A row is one launch.  Its blocks make many calls one after the other, and the slowest block of
 * rank 0 gives the time.  Blocks divide the data.  Every call loads the caller's source and
 * delivers into one buffer of the caller, which the next call may use again at once.  A broadcast
 * has one buffer, and the ranks are its root in turn, from 0 on: each passes on what it has just
 * received.
 *
 * All calls of a row move the same data, so its check finds bytes that no call has delivered, or
 * that one has damaged, but not a call that delivers nothing.  tests/coll/team_mix.c changes the
 * data with every call.  Nothing of Oriel is used here.
 */
#ifndef ORI_BENCH_INSIDE_H
#define ORI_BENCH_INSIDE_H

#include "../gpu.h"

#define INSIDE_EXCHANGE 0 /* all-to-all; bytes: of a peer */
#define INSIDE_GATHER 1   /* all-gather; bytes: of a rank */
#define INSIDE_REDUCE 2   /* all-reduce, sum of floats; bytes: in all */
#define INSIDE_CAST 3     /* broadcast; bytes: in all */

struct inside_case {
	const char *name;
	int op;
	uint64_t bytes;
	int calls; /* timed */
};

static const struct inside_case inside_cases[] = {
	{ "exchange_128", INSIDE_EXCHANGE, 128, 4000 },
	{ "exchange_1k", INSIDE_EXCHANGE, 1u << 10, 4000 },
	{ "exchange_4k", INSIDE_EXCHANGE, 4u << 10, 4000 },
	{ "exchange_16k", INSIDE_EXCHANGE, 16u << 10, 2000 },
	{ "exchange_64k", INSIDE_EXCHANGE, 64u << 10, 2000 },
	{ "exchange_1m", INSIDE_EXCHANGE, 1u << 20, 200 },
	{ "gather_1k", INSIDE_GATHER, 1u << 10, 4000 },
	{ "gather_64k", INSIDE_GATHER, 64u << 10, 2000 },
	{ "reduce_1k", INSIDE_REDUCE, 1u << 10, 4000 },
	{ "reduce_4k", INSIDE_REDUCE, 4u << 10, 4000 },
	{ "reduce_16k", INSIDE_REDUCE, 16u << 10, 2000 },
	{ "reduce_64k", INSIDE_REDUCE, 64u << 10, 2000 },
	{ "cast_1k", INSIDE_CAST, 1u << 10, 4000 },
	{ "cast_64k", INSIDE_CAST, 64u << 10, 2000 },
};
#define INSIDE_CASES (int)(sizeof(inside_cases) / sizeof(inside_cases[0]))
#define INSIDE_MOST (1u << 20)
#define INSIDE_THREADS 512

static const int inside_blocks[] = { 1, 2, 4, 8 };
#define INSIDE_COUNTS (int)(sizeof(inside_blocks) / sizeof(inside_blocks[0]))

/* A share of a block: whole words of 8 bytes, and of 16 where there are enough. */
static inline int inside_divides(const struct inside_case *c, int blocks)
{
	return c->bytes / (uint64_t)blocks >= 16;
}

static inline int inside_pattern(const struct inside_case *c, int from, int to)
{
	return c->op == INSIDE_EXCHANGE ? (from + 1) * GPU_RANKS_MAX + to : from;
}

/* All ranks' data lies behind each other in recv; else there is one result. */
static inline int inside_gathers(const struct inside_case *c)
{
	return c->op == INSIDE_EXCHANGE || c->op == INSIDE_GATHER;
}

/* Floats that add up exactly: rank + 1 times the number of the element. */
static __global__ void inside_fill_floats(float *at, uint64_t n, int factor)
{
	for (uint64_t i = threadIdx.x; i < n; i += blockDim.x)
		at[i] = (float)(factor * (int)(i % 1000));
}

static __global__ void inside_count_floats(const float *at, uint64_t n, int factor,
					   unsigned long long *wrong)
{
	for (uint64_t i = threadIdx.x; i < n; i += blockDim.x)
		if (at[i] != (float)(factor * (int)(i % 1000)))
			atomicAdd(wrong, 1ull);
}

/* The part for rank `to` begins at to * bytes of send. */
static inline void inside_fill(const struct inside_case *c, uint8_t *send, int rank, int n,
			       cudaStream_t stream)
{
	if (c->op == INSIDE_REDUCE) {
		inside_fill_floats<<<1, 512, 0, stream>>>((float *)send, c->bytes / 4, rank + 1);
		gpu_must(cudaStreamSynchronize(stream), "filling memory");
		return;
	}
	for (int to = 0; to < (c->op == INSIDE_EXCHANGE ? n : 1); to++)
		gpu_fill(send + (uint64_t)to * c->bytes, c->bytes, inside_pattern(c, rank, to),
			 stream);
}

/* Wrong data ends the program. */
static inline void inside_check(const char *row, const struct inside_case *c, uint8_t *recv,
				int rank, int n, cudaStream_t stream)
{
	unsigned long long *wrong;

	if (c->op != INSIDE_REDUCE) {
		for (int from = 0; from < (c->op == INSIDE_CAST ? 1 : n); from++)
			gpu_check(row, recv + (uint64_t)from * c->bytes, c->bytes,
				  inside_pattern(c, from, rank), 0, stream);
		return;
	}
	gpu_must(cudaMallocManaged(&wrong, sizeof(*wrong)), "count");
	*wrong = 0;
	inside_count_floats<<<1, 512, 0, stream>>>((const float *)recv, c->bytes / 4,
						   n * (n + 1) / 2, wrong);
	gpu_must(cudaStreamSynchronize(stream), "checking");
	if (*wrong) {
		fprintf(stderr, "%s: %llu floats are wrong on rank %d\n", row, *wrong, rank);
		_exit(1);
	}
	gpu_must(cudaFree(wrong), "count");
}

/*
 * Before a row: the caller's data in send, and nothing in recv, but for what rank 0 broadcasts.
 * `blocks` divide the data, and each makes calls of its own.  The share of a block lies behind that
 * of the block before, with the data of the ranks in rank order.
 */
static inline void inside_begin(const struct inside_case *c, int blocks, uint8_t *send,
				uint8_t *recv, int rank, int n, cudaStream_t stream)
{
	struct inside_case share = *c;

	gpu_must(cudaMemsetAsync(recv, 0, (size_t)INSIDE_MOST * n, stream), "recv");
	gpu_must(cudaStreamSynchronize(stream), "recv");
	if (!inside_gathers(c)) {
		if (c->op == INSIDE_REDUCE || !rank)
			inside_fill(c, c->op == INSIDE_REDUCE ? send : recv, rank, n, stream);
		return;
	}
	share.bytes = c->bytes / (uint64_t)blocks;
	for (int b = 0; b < blocks; b++) {
		inside_fill(&share, send, rank, n, stream);
		send += share.bytes * (uint64_t)(c->op == INSIDE_EXCHANGE ? n : 1);
	}
}

/* After it. */
static inline void inside_end(const char *row, const struct inside_case *c, int blocks,
			      uint8_t *recv, int rank, int n, cudaStream_t stream)
{
	struct inside_case share = *c;

	if (!inside_gathers(c))
		blocks = 1;
	share.bytes = c->bytes / (uint64_t)blocks;
	for (int b = 0; b < blocks; b++)
		inside_check(row, &share, recv + (uint64_t)b * share.bytes * (uint64_t)n, rank, n,
			     stream);
}

#endif
