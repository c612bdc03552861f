/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/inside/limit.cu - measures collectives inside a kernel, written by hand, between processes
 * that share a GPU (CUDA IPC, under MPS).
 *
 * Usage: limit RANKS
 *
 * Ways; the best of each row counts, over all numbers of blocks of inside.h:
 *	cells	every 8 bytes have their mark with them, in one store of 16 bytes
 *	land	data and then a signal, into a place used in turn; the receiver copies it out
 *	ready	the receiver says that its buffer is free; data goes straight there, then a signal
 *	pull	(reduce, cast) a rank shows its data; all read it from there
 * `cells` has a block per peer too ("peers"), where the others divide every peer's data.
 *
 * No failure words, no deadlines, no argument checks, and counts are in registers.  The caller must
 * end a program that hangs.
 */
#include "inside.h"

typedef unsigned long long u64;

#define LINE 16 /* words of a cache line */
#define AREA (32ull << 20)
#define WORDS (2u * 16u * GPU_RANKS_MAX * LINE)

struct world {
	uint8_t *area[GPU_RANKS_MAX]; /* two halves, used in turn */
	uint8_t *recv[GPU_RANKS_MAX];
	u64 *words[GPU_RANKS_MAX];
	const uint8_t *send;
	int me, n;
};

static __device__ __forceinline__ void cell_store(uint8_t *cell, u64 data, u64 mark)
{
	asm volatile("{ .reg .b128 t; mov.b128 t, {%1, %2};"
		     " st.relaxed.sys.global.b128 [%0], t; }" ::"l"(cell),
		     "l"(data), "l"(mark)
		     : "memory");
}

static __device__ __forceinline__ int cell_load(const uint8_t *cell, u64 *data, u64 mark)
{
	u64 have;

	asm volatile("{ .reg .b128 t; ld.relaxed.sys.global.b128 t, [%2];"
		     " mov.b128 {%0, %1}, t; }"
		     : "=l"(*data), "=l"(have)
		     : "l"(cell)
		     : "memory");
	return have == mark;
}

static __device__ __forceinline__ void signal(u64 *word, u64 v)
{
	asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
}

static __device__ __forceinline__ void await(const u64 *word, u64 v)
{
	u64 have;

	do
		asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
			     : "=l"(have)
			     : "l"(word)
			     : "memory");
	while (have < v);
}

/* The word that `from` writes at `at`, for a block. */
static __device__ __forceinline__ u64 *word_of(const struct world &w, int at, int from, int use)
{
	return w.words[at] + ((use * 16 + (int)blockIdx.x) * GPU_RANKS_MAX + from) * LINE;
}

/* `bytes` is a multiple of 16; `thread` of `size` threads. */
static __device__ __forceinline__ void copy(uint8_t *to, const uint8_t *from, uint64_t bytes,
					    uint32_t thread, uint32_t size)
{
	uint4 *d = (uint4 *)to, v[8];
	const uint4 *s = (const uint4 *)from;
	uint32_t n = (uint32_t)(bytes / 16), i = thread;

	for (; i + 7 * size < n; i += 8 * size) {
#pragma unroll
		for (int k = 0; k < 8; k++)
			v[k] = __ldcg(s + i + k * size);
#pragma unroll
		for (int k = 0; k < 8; k++)
			d[i + k * size] = v[k];
	}
	for (; i < n; i += size)
		d[i] = __ldcg(s + i);
}

/* ---- all-to-all and all-gather; a block has `bytes` of every peer, from `begin` on ---- */

struct args {
	struct world w;
	uint64_t bytes, stride; /* of a block; from one rank's data in send to the next, or 0 */
	uint64_t slot;          /* from one rank's data in recv to the next */
	int calls, peers;       /* peers: a block per peer */
	uint64_t *ns;
};

static __device__ __forceinline__ void time_of(const struct args &a, int call, uint64_t *start)
{
	if (threadIdx.x)
		return;
	if (call == GPU_WARM)
		*start = gpu_clock_ns();
	/* The slowest block: one that has the rank itself for its peer waits for nobody. */
	if (call == GPU_WARM + a.calls)
		atomicMax((unsigned long long *)a.ns, gpu_clock_ns() - *start);
}

static __device__ __forceinline__ void cells_of_peer(const struct args &a, int p, uint64_t begin,
						     u64 mark, int half, uint32_t thread,
						     uint32_t size, int take)
{
	const struct world &w = a.w;
	uint32_t n = (uint32_t)(a.bytes / 8), i;
	uint64_t box = (uint64_t)half * (AREA / 2) + 2 * begin;
	uint8_t *out = w.area[p] + box + 2 * w.me * a.slot,
		*in = w.area[w.me] + box + 2 * p * a.slot;
	const u64 *send = (const u64 *)(w.send + begin + p * a.stride);
	u64 *recv = (u64 *)(w.recv[w.me] + begin + p * a.slot), v[4];
	int there;

	for (i = thread; !take && i < n; i += 4 * size) {
#pragma unroll
		for (int k = 0; k < 4; k++)
			if (i + k * size < n)
				v[k] = send[i + k * size];
#pragma unroll
		for (int k = 0; k < 4; k++)
			if (i + k * size < n)
				cell_store(out + (i + k * size) * 16, v[k], mark);
	}
	for (i = thread; take && i < n; i += 4 * size) {
		do {
			there = 1;
#pragma unroll
			for (int k = 0; k < 4; k++)
				if (i + k * size < n)
					there &= cell_load(in + (i + k * size) * 16, &v[k], mark);
		} while (!there);
#pragma unroll
		for (int k = 0; k < 4; k++)
			if (i + k * size < n)
				recv[i + k * size] = v[k];
	}
}

static __global__ void __launch_bounds__(INSIDE_THREADS, 1) exchange_cells(struct args a)
{
	uint32_t lanes = a.peers ? blockDim.x : blockDim.x / a.w.n;
	int p = ((int)(a.peers ? blockIdx.x : threadIdx.x / lanes) + a.w.me) % a.w.n;
	uint64_t begin = a.peers ? 0 : blockIdx.x * a.bytes, start = 0;

	for (int i = 1; i <= GPU_WARM + a.calls; i++) {
		cells_of_peer(a, p, begin, i, i & 1, threadIdx.x % lanes, lanes, 0);
		cells_of_peer(a, p, begin, i, i & 1, threadIdx.x % lanes, lanes, 1);
		__syncthreads();
		time_of(a, i, &start);
	}
}

/* ready: straight to the buffer of the peer; else through a place that is used in turn. */
template <int READY>
static __global__ void __launch_bounds__(INSIDE_THREADS, 1) exchange_signal(struct args a)
{
	const struct world &w = a.w;
	uint32_t lanes = blockDim.x / w.n, thread = threadIdx.x % lanes;
	int p = ((int)(threadIdx.x / lanes) + w.me) % w.n, q = threadIdx.x;
	uint64_t begin = blockIdx.x * a.bytes, start = 0;

	for (int i = 1; i <= GPU_WARM + a.calls; i++) {
		uint64_t half = (i & 1) * (AREA / 2);
		uint8_t *to = READY ? w.recv[p] : w.area[p] + half;

		if (READY) {
			if (q < w.n) {
				signal(word_of(w, q, w.me, 1), i);
				await(word_of(w, w.me, q, 1), i);
			}
			__syncthreads();
		}
		copy(to + begin + w.me * a.slot, w.send + begin + p * a.stride, a.bytes, thread,
		     lanes);
		__syncthreads();
		if (q < w.n) {
			signal(word_of(w, q, w.me, 0), i);
			await(word_of(w, w.me, q, 0), i);
		}
		__syncthreads();
		if (!READY) {
			copy(w.recv[w.me] + begin + p * a.slot,
			     w.area[w.me] + half + begin + p * a.slot, a.bytes, thread, lanes);
			__syncthreads();
		}
		time_of(a, i, &start);
	}
}

/* ---- all-reduce ---- */

static __device__ __forceinline__ u64 add_pair(u64 a, u64 b)
{
	float2 x = *(float2 *)&a, y = *(float2 *)&b;

	x.x += y.x;
	x.y += y.y;
	return *(u64 *)&x;
}

static __global__ void __launch_bounds__(INSIDE_THREADS, 1) reduce_cells(struct args a)
{
	const struct world &w = a.w;
	uint64_t begin = blockIdx.x * a.bytes, start = 0;
	uint32_t n = (uint32_t)(a.bytes / 8);
	u64 v[8];

	for (int i = 1; i <= GPU_WARM + a.calls; i++) {
		uint64_t box = (i & 1) * (AREA / 2) + 2 * begin;

		for (uint32_t j = threadIdx.x; j < n; j += blockDim.x) {
			u64 x = ((const u64 *)(w.send + begin))[j];

#pragma unroll
			for (int k = 0; k < 8; k++)
				if (k < w.n)
					cell_store(w.area[k] + box + 2 * w.me * a.slot + j * 16, x,
						   i);
		}
		for (uint32_t j = threadIdx.x; j < n; j += blockDim.x) {
			int there;

			do {
				there = 1;
#pragma unroll
				for (int k = 0; k < 8; k++)
					if (k < w.n)
						there &= cell_load(w.area[w.me] + box +
									   2 * k * a.slot + j * 16,
								   &v[k], i);
			} while (!there);
#pragma unroll
			for (int k = 1; k < 8; k++)
				if (k < w.n)
					v[0] = add_pair(v[0], v[k]);
			((u64 *)(w.recv[w.me] + begin))[j] = v[0];
		}
		__syncthreads();
		time_of(a, i, &start);
	}
}

static __global__ void __launch_bounds__(INSIDE_THREADS, 1) reduce_pull(struct args a)
{
	const struct world &w = a.w;
	uint64_t begin = blockIdx.x * a.bytes, start = 0;
	uint32_t n = (uint32_t)(a.bytes / 16);
	int q = threadIdx.x;
	ulonglong2 v[8];

	for (int i = 1; i <= GPU_WARM + a.calls; i++) {
		uint64_t half = (i & 1) * (AREA / 2);

		copy(w.area[w.me] + half + begin, w.send + begin, a.bytes, threadIdx.x, blockDim.x);
		__syncthreads();
		if (q < w.n) {
			signal(word_of(w, q, w.me, 0), i);
			await(word_of(w, w.me, q, 0), i);
		}
		__syncthreads();
		for (uint32_t j = threadIdx.x; j < n; j += blockDim.x) {
#pragma unroll
			for (int k = 0; k < 8; k++)
				if (k < w.n)
					v[k] = __ldcg(
						(const ulonglong2 *)(w.area[k] + half + begin) + j);
#pragma unroll
			for (int k = 1; k < 8; k++)
				if (k < w.n) {
					v[0].x = add_pair(v[0].x, v[k].x);
					v[0].y = add_pair(v[0].y, v[k].y);
				}
			((ulonglong2 *)(w.recv[w.me] + begin))[j] = v[0];
		}
		__syncthreads();
		time_of(a, i, &start);
	}
}

/*
 * ---- broadcast ----
 *
 * Root r has two places, used in turn.  Before it uses one again, after 2 n calls, every other rank
 * has been root once more, and r has received what that rank sent behind its read of this place.
 */
static __global__ void __launch_bounds__(INSIDE_THREADS, 1) cast_cells(struct args a)
{
	const struct world &w = a.w;
	uint64_t begin = blockIdx.x * a.bytes, start = 0;
	uint32_t n = (uint32_t)(a.bytes / 8), lanes = blockDim.x / w.n;
	int p = (int)(threadIdx.x / lanes);
	u64 *data = (u64 *)(w.recv[w.me] + begin), v[4];

	for (int i = 1; i <= GPU_WARM + a.calls; i++) {
		int root = (i - 1) % w.n;
		uint64_t box = ((i - 1) / w.n & 1) * (AREA / 2) + 2 * (root * a.slot + begin);

		for (uint32_t j = threadIdx.x % lanes;
		     w.me == root && p != root && p < w.n && j < n; j += 4 * lanes) {
#pragma unroll
			for (int k = 0; k < 4; k++)
				if (j + k * lanes < n)
					v[k] = data[j + k * lanes];
#pragma unroll
			for (int k = 0; k < 4; k++)
				if (j + k * lanes < n)
					cell_store(w.area[p] + box + (j + k * lanes) * 16, v[k], i);
		}
		for (uint32_t j = threadIdx.x; w.me != root && j < n; j += blockDim.x) {
			while (!cell_load(w.area[w.me] + box + j * 16, &v[0], i))
				;
			data[j] = v[0];
		}
		__syncthreads();
		time_of(a, i, &start);
	}
}

static __global__ void __launch_bounds__(INSIDE_THREADS, 1) cast_pull(struct args a)
{
	const struct world &w = a.w;
	uint64_t begin = blockIdx.x * a.bytes, start = 0;
	int q = threadIdx.x;

	for (int i = 1; i <= GPU_WARM + a.calls; i++) {
		int root = (i - 1) % w.n;
		uint8_t *place = w.area[root] + ((i - 1) / w.n & 1) * (AREA / 2) + begin;

		if (w.me == root) {
			copy(place, w.recv[root] + begin, a.bytes, threadIdx.x, blockDim.x);
			__syncthreads();
			if (q < w.n && q != root)
				signal(word_of(w, q, root, 0), i);
		} else {
			if (!q)
				await(word_of(w, w.me, root, 0), i);
			__syncthreads();
			copy(w.recv[w.me] + begin, place, a.bytes, threadIdx.x, blockDim.x);
		}
		__syncthreads();
		time_of(a, i, &start);
	}
}

/* ---- running ---- */

struct job {
	struct gpu_meeting *m;
	uint32_t meetings;
	struct world w;
	uint8_t *send;
	uint64_t *ns;
	cudaStream_t stream;
	const struct inside_case *c;
};

static void run_row(struct job *j, const char *way, void (*kernel)(struct args), int blocks,
		    int peers)
{
	int me = j->w.me, n = j->w.n;
	struct args a;
	char name[64];

	a.w = j->w;
	a.bytes = peers ? j->c->bytes : j->c->bytes / (uint64_t)blocks;
	a.stride = j->c->op == INSIDE_EXCHANGE ? j->c->bytes : 0;
	a.slot = j->c->bytes;
	a.calls = j->c->calls;
	a.peers = peers;
	a.ns = j->ns;
	*j->ns = 0;
	snprintf(name, sizeof(name), "%s/%s%d", j->c->name, way, blocks);
	gpu_meet(j->m, n, &j->meetings);
	gpu_must(cudaMemsetAsync(j->w.area[me], 0, AREA, j->stream), "area");
	gpu_must(cudaMemsetAsync(j->w.words[me], 0, WORDS * sizeof(u64), j->stream), "words");
	gpu_must(cudaStreamSynchronize(j->stream), "memory");
	inside_begin(j->c, 1, j->send, j->w.recv[me], me, n, j->stream);
	gpu_meet(j->m, n, &j->meetings);
	kernel<<<blocks, INSIDE_THREADS, 0, j->stream>>>(a);
	gpu_must(cudaStreamSynchronize(j->stream), name);
	inside_end(name, j->c, 1, j->w.recv[me], me, n, j->stream);
	if (me == 0)
		bench_print(name, (double)*j->ns / 1e3 / j->c->calls, "us");
}

static void run_case(struct job *j)
{
	uint64_t cells = 2 * j->c->bytes * (uint64_t)j->w.n;

	for (int i = 0; i < INSIDE_COUNTS; i++) {
		int blocks = inside_blocks[i];

		if (!inside_divides(j->c, blocks))
			continue;
		if (j->c->op == INSIDE_REDUCE) {
			run_row(j, "cells", reduce_cells, blocks, 0);
			run_row(j, "pull", reduce_pull, blocks, 0);
			continue;
		}
		if (j->c->op == INSIDE_CAST) {
			run_row(j, "cells", cast_cells, blocks, 0);
			run_row(j, "pull", cast_pull, blocks, 0);
			continue;
		}
		if (cells <= AREA / 2 && j->c->bytes <= 64u << 10)
			run_row(j, "cells", exchange_cells, blocks, 0);
		run_row(j, "land", exchange_signal<0>, blocks, 0);
		run_row(j, "ready", exchange_signal<1>, blocks, 0);
	}
	if (inside_gathers(j->c) && j->c->bytes <= 64u << 10)
		run_row(j, "peers", exchange_cells, j->w.n, 1);
}

static void *open_peer(const uint8_t *handle, const char *what)
{
	void *at = NULL;

	gpu_must(cudaIpcOpenMemHandle(&at, *(const cudaIpcMemHandle_t *)(const void *)handle,
				      cudaIpcMemLazyEnablePeerAccess),
		 what);
	return at;
}

/* Two allocations: area and recv, and the words. */
static void open_job(struct job *j)
{
	int me = j->w.me, n = j->w.n;

	gpu_must(cudaSetDevice(0), "device");
	gpu_must(cudaMalloc(&j->w.area[me], AREA + (size_t)INSIDE_MOST * n), "area");
	gpu_must(cudaMalloc(&j->w.words[me], WORDS * sizeof(u64)), "words");
	gpu_must(cudaMalloc(&j->send, (size_t)INSIDE_MOST * n), "send");
	gpu_must(cudaMallocManaged(&j->ns, sizeof(*j->ns)), "time");
	j->w.send = j->send;
	gpu_must(cudaStreamCreateWithFlags(&j->stream, cudaStreamNonBlocking), "stream");
	gpu_must(cudaIpcGetMemHandle((cudaIpcMemHandle_t *)j->m->handles[me][0], j->w.area[me]),
		 "handle");
	gpu_must(cudaIpcGetMemHandle((cudaIpcMemHandle_t *)j->m->handles[me][1], j->w.words[me]),
		 "handle");
	gpu_meet(j->m, n, &j->meetings);
	for (int q = 0; q < n; q++) {
		if (q != me) {
			j->w.area[q] = (uint8_t *)open_peer(j->m->handles[q][0], "a peer's area");
			j->w.words[q] = (u64 *)open_peer(j->m->handles[q][1], "a peer's words");
		}
		j->w.recv[q] = j->w.area[q] + AREA;
	}
}

static void run_rank(struct gpu_meeting *m, int rank, int n)
{
	struct job job;

	memset(&job, 0, sizeof(job));
	job.m = m;
	job.w.me = rank;
	job.w.n = n;
	open_job(&job);
	for (int i = 0; i < INSIDE_CASES; i++) {
		job.c = &inside_cases[i];
		run_case(&job);
	}
	gpu_meet(m, n, &job.meetings);
}

int main(int argc, char **argv)
{
	int n = argc == 2 ? atoi(argv[1]) : 0;
	struct gpu_meeting *m = gpu_meeting_open();

	if (n < 2 || n > 8 || !m) {
		fprintf(stderr, "usage: limit RANKS, 2 to 8\n");
		return 2;
	}
	return gpu_fork(n, m, run_rank);
}
