/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/coll/gpu.h - the parts that the GPU programs of bench/coll share: sizes, number of runs,
 * timing, the data and its check.
 *
 * The limit, Oriel and NVSHMEM are measured by the same loops over the same footprint.  A figure is
 * the mean of many calls back to back on one stream, measured by events on rank 0.  The collective
 * keeps the ranks in lock step, so this is the time of all ranks.  All calls of a row move the same
 * data, which is checked at the end.  So a call that damages data is found, not one that delivers
 * nothing: tests/coll/scatter_windows_cuda.c and its neighbours change the data from call to call.
 * This file uses nothing of Oriel.
 */
#ifndef ORI_BENCH_COLL_GPU_H
#define ORI_BENCH_COLL_GPU_H

#include "../gpu.h"

#define COLL_GATHER 0   /* bytes: a rank's block */
#define COLL_EXCHANGE 1 /* bytes: one peer's part */
#define COLL_SKEW 2     /* bytes: what rank 0 gets from each, the other ranks together as much */
#define COLL_RANDOM 3   /* bytes: the most that a peer gets; seed: of the sizes */
#define COLL_REDUCE 4   /* bytes: of floats, all-reduced */
#define COLL_SCATTER 5  /* bytes: of floats that a rank gives to a reduce-scatter */
#define COLL_CAST 6     /* bytes: that rank 0 broadcasts */
#define COLL_OPS 7

struct coll_case {
	int op;
	char size[48]; /* part of the row's name */
	uint64_t bytes;
	int calls; /* timed; some 10 ms of them */
	uint64_t seed;
};

static const char *const coll_ops[COLL_OPS] = { "gather", "exchange", "skew", "random",
						"reduce", "scatter",  "cast" };
static const struct coll_case coll_table[] = {
	{ COLL_GATHER, "1k", 1u << 10, 500, 0 },   { COLL_GATHER, "64k", 64u << 10, 500, 0 },
	{ COLL_GATHER, "1m", 1u << 20, 150, 0 },   { COLL_GATHER, "16m", 16u << 20, 20, 0 },
	{ COLL_EXCHANGE, "1k", 1u << 10, 500, 0 }, { COLL_EXCHANGE, "64k", 64u << 10, 500, 0 },
	{ COLL_EXCHANGE, "1m", 1u << 20, 150, 0 }, { COLL_EXCHANGE, "16m", 16u << 20, 20, 0 },
	{ COLL_SKEW, "1m", 1u << 20, 150, 0 },     { COLL_SKEW, "16m", 16u << 20, 20, 0 },
	{ COLL_REDUCE, "1m", 1u << 20, 150, 0 },   { COLL_REDUCE, "64m", 64u << 20, 20, 0 },
	{ COLL_SCATTER, "1m", 1u << 20, 150, 0 },  { COLL_SCATTER, "64m", 64u << 20, 20, 0 },
	{ COLL_CAST, "1m", 1u << 20, 150, 0 },     { COLL_CAST, "64m", 64u << 20, 20, 0 },
};
#define COLL_CASES (sizeof(coll_table) / sizeof(coll_table[0]))
#define COLL_CASES_MAX 64
#define COLL_WARM 20

/* The cases of a run: those of the command line, else the table. */
struct coll_list {
	struct coll_case c[COLL_CASES_MAX];
	int n;
	uint64_t send, recv; /* the most bytes of a rank */
};

/* Where all ranks have `bytes` together, or the same ones. */
static inline int coll_is_whole(const struct coll_case *c)
{
	return c->op == COLL_REDUCE || c->op == COLL_SCATTER || c->op == COLL_CAST;
}

/* Only the all-to-all-v of the table has rows with 2 ranks too. */
static inline int coll_is_run(const struct coll_case *c, int nranks)
{
	return c->op == COLL_EXCHANGE || nranks > 2;
}

/* OP:BYTES[:SEED].  Returns 0 if it is none. */
static inline int coll_parse(const char *text, int nranks, struct coll_case *c)
{
	unsigned long long bytes = 0, seed = 0;
	double us;
	char op[16];

	if (sscanf(text, "%15[a-z]:%llu:%llu", op, &bytes, &seed) < 2 || !bytes)
		return 0;
	for (c->op = 0; c->op < COLL_OPS && strcmp(op, coll_ops[c->op]); c->op++)
		;
	c->bytes = bytes;
	c->seed = seed;
	us = 15 + (double)bytes * nranks * nranks / 1.5e6;
	c->calls = us > 1000 ? 10 : (int)(10000 / us);
	if (seed)
		snprintf(c->size, sizeof(c->size), "%llu:%llu", bytes, seed);
	else
		snprintf(c->size, sizeof(c->size), "%llu", bytes);
	/* the limit moves whole units of 16 bytes */
	if (coll_is_whole(c) && bytes % (16u * (c->op == COLL_SCATTER ? (uint64_t)nranks : 1)))
		return 0;
	return c->op < COLL_OPS;
}

static inline int coll_cases(struct coll_list *l, int n, char **texts, int nranks)
{
	int all = n == 0;

	l->n = 0;
	l->send = l->recv = 0;
	for (size_t i = 0; all && i < COLL_CASES; i++)
		if (coll_is_run(&coll_table[i], nranks))
			l->c[l->n++] = coll_table[i];
	for (int i = 0; i < n; i++)
		if (l->n == COLL_CASES_MAX || !coll_parse(texts[i], nranks, &l->c[l->n++]))
			return 0;
	for (int i = 0; i < l->n; i++) {
		uint64_t bytes = l->c[i].bytes * (coll_is_whole(&l->c[i]) ? 1 : nranks);

		l->send = l->recv = l->recv > bytes ? l->recv : bytes;
	}
	return 1;
}

/* What rank `from` sends `to`; a multiple of 16. */
static inline uint64_t coll_bytes(const struct coll_case *c, int from, int to, int nranks)
{
	uint64_t x = (c->seed * 64 + (uint64_t)from * 8 + (uint64_t)to + 1) * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
	if (c->op == COLL_RANDOM)
		return (x >> 24) % (c->bytes / 16 + 1) * 16;
	if (c->op != COLL_SKEW || to == 0)
		return c->bytes;
	return c->bytes / (uint64_t)(nranks - 1) / 16 * 16;
}

/* All-gather and broadcast send the same data to all ranks. */
static inline int coll_pattern(const struct coll_case *c, int from, int to)
{
	if (c->op == COLL_GATHER || c->op == COLL_CAST)
		return from;
	return (from + 1) * GPU_RANKS_MAX + to;
}

static inline const char *coll_name(const struct coll_case *c, int nranks, const char *way,
				    char *name, size_t bytes)
{
	snprintf(name, bytes, "%s%d_%s%s%s", coll_ops[c->op], nranks, c->size, *way ? "/" : "",
		 way);
	return name;
}

/* ---- reductions: small whole numbers, so that every order gives the same sum ---- */

static __device__ __forceinline__ float coll_float(int rank, uint64_t i)
{
	return (float)(gpu_byte(rank, i) + gpu_byte(rank + 1, i * 3));
}

static __global__ void coll_floats_kernel(float *at, uint64_t n, int rank)
{
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;

	for (; i < n; i += (uint64_t)gridDim.x * blockDim.x)
		at[i] = coll_float(rank, i);
}

/* Sums from element `first` on. */
static __global__ void coll_sums_kernel(float *at, uint64_t first, uint64_t n, int nranks,
					unsigned long long *wrong)
{
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	float sum;

	for (; i < n; i += (uint64_t)gridDim.x * blockDim.x) {
		sum = 0;
		for (int r = 0; r < nranks; r++)
			sum += coll_float(r, first + i);
		if (at[i] != sum)
			atomicAdd(wrong, 1ull);
		at[i] = -1;
	}
}

/* Wrong sums end the program. */
static inline void coll_check_sums(const char *row, const struct coll_case *c, void *recv, int rank,
				   int nranks, cudaStream_t stream)
{
	uint64_t n = c->bytes / 4 / (c->op == COLL_SCATTER ? (uint64_t)nranks : 1);
	uint64_t first = c->op == COLL_SCATTER ? (uint64_t)rank * n : 0;
	unsigned long long *wrong;

	gpu_must(cudaMallocHost(&wrong, sizeof(*wrong)), "pinned memory");
	*wrong = 0;
	coll_sums_kernel<<<64, 256, 0, stream>>>((float *)recv, first, n, nranks, wrong);
	gpu_must(cudaStreamSynchronize(stream), "checking sums");
	if (*wrong) {
		fprintf(stderr, "%s: %llu of %llu sums are wrong\n", row, *wrong,
			(unsigned long long)n);
		_exit(1);
	}
	gpu_must(cudaFreeHost(wrong), "pinned memory");
}

/* ---- data ---- */

/*
 * The part for rank `to` is at to * c->bytes of the send memory; an all-gather has one part.  A
 * broadcast has only one buffer; what ranks other than 0 have in it is overwritten.
 */
static inline void coll_fill(const struct coll_case *c, uint8_t *send, int rank, int nranks,
			     cudaStream_t stream)
{
	int parts = c->op == COLL_GATHER || c->op == COLL_CAST ? 1 : nranks;

	if (c->op == COLL_REDUCE || c->op == COLL_SCATTER) {
		coll_floats_kernel<<<64, 256, 0, stream>>>((float *)send, c->bytes / 4, rank);
		gpu_must(cudaStreamSynchronize(stream), "filling memory");
		return;
	}
	for (int to = 0; to < parts; to++)
		gpu_fill(send + (uint64_t)to * c->bytes, coll_bytes(c, rank, to, nranks),
			 coll_pattern(c, rank, to), stream);
}

/* The data of `from` is at from * stride.  Wrong bytes end the program. */
static inline void coll_check(const char *row, const struct coll_case *c, uint8_t *recv,
			      uint64_t stride, int rank, int nranks, cudaStream_t stream)
{
	if (c->op == COLL_REDUCE || c->op == COLL_SCATTER) {
		coll_check_sums(row, c, recv, rank, nranks, stream);
		return;
	}
	if (c->op == COLL_CAST) {
		gpu_check(row, recv, c->bytes, coll_pattern(c, 0, 0), 0, stream);
		return;
	}
	for (int from = 0; from < nranks; from++)
		gpu_check(row, recv + (uint64_t)from * stride, coll_bytes(c, from, rank, nranks),
			  coll_pattern(c, from, rank), 0, stream);
}

/* Mean microseconds of n calls of fn(arg), after some calls to warm up. */
static inline double coll_time(void (*fn)(void *arg), void *arg, int n, cudaStream_t stream)
{
	cudaEvent_t begin, end;
	float ms = 0;

	gpu_must(cudaEventCreate(&begin), "event");
	gpu_must(cudaEventCreate(&end), "event");
	for (int i = 0; i < (n < 10 ? 2 : COLL_WARM); i++) /* few calls are long ones */
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
