/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/coll/gpu_limit_kernels.h - the kernels of gpu_limit.cu.
 */
#ifndef BENCH_COLL_GPU_LIMIT_KERNELS_H
#define BENCH_COLL_GPU_LIMIT_KERNELS_H

#include "../gpu_words.h"
#include "gpu.h"

#define LINE 16 /* words of a cache line */

/* Words of a rank, a line for each source and use. */
#define READY 0
#define ARRIVED 1
#define SIZE 2
#define USES 3
#define WORDS (USES * GPU_RANKS_MAX * LINE)

struct world {
	uint8_t *send[GPU_RANKS_MAX], *recv[GPU_RANKS_MAX];
	u64 *words[GPU_RANKS_MAX];
	const u64 *sizes, *offsets; /* this rank's, [n] */
	int me, n;
};

static __device__ __forceinline__ void add_release(u64 *word, u64 v)
{
	asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
}

/* What `from` tells `at`. */
static __device__ __forceinline__ u64 *word_of(const struct world &w, int at, int from, int use)
{
	return w.words[at] + (use * GPU_RANKS_MAX + from) * LINE;
}

/* `bytes` is a multiple of 16. */
static __device__ __forceinline__ void copy(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	uint4 *d = (uint4 *)to, v[8];
	const uint4 *s = (const uint4 *)from;
	uint64_t n = bytes / 16, i = threadIdx.x, step = blockDim.x;

	for (; i + 7 * step < n; i += 8 * step) {
#pragma unroll
		for (int k = 0; k < 8; k++)
			v[k] = s[i + k * step];
#pragma unroll
		for (int k = 0; k < 8; k++)
			d[i + k * step] = v[k];
	}
	for (; i < n; i += step)
		d[i] = s[i];
}

/* Block b of those that share `bytes`. */
static __device__ __forceinline__ void copy_share(uint8_t *to, const uint8_t *from, uint64_t bytes,
						  int b, int blocks)
{
	uint64_t share = (bytes / blocks + 127) & ~127ull, at = share * b;

	if (at < bytes)
		copy(to + at, from + at, bytes - at < share ? bytes - at : share);
}

/* Chunk by chunk, block b of those that share them. */
#define CHUNK (64u << 10)

static __device__ __forceinline__ void copy_turns(uint8_t *to, const uint8_t *from, uint64_t bytes,
						  int b, int blocks)
{
	for (uint64_t at = (uint64_t)b * CHUNK; at < bytes; at += (uint64_t)blocks * CHUNK)
		copy(to + at, from + at, bytes - at < CHUNK ? bytes - at : CHUNK);
}

/* ---- kernels; call: counts from 1 ---- */

/* blocks: of a peer.  arrived: what this rank's ARRIVED words were before. */
template <bool turns>
static __global__ void __launch_bounds__(512)
	gather_push(struct world w, uint64_t bytes, int blocks, u64 call, u64 arrived)
{
	int p = (blockIdx.x / blocks + w.me) % w.n, b = blockIdx.x % blocks;

	if (!threadIdx.x) {
		if (b == 0)
			store_release(word_of(w, p, w.me, READY), call);
		await(word_of(w, w.me, p, READY), call);
	}
	__syncthreads();
	if (turns)
		copy_turns(w.recv[p] + w.me * bytes, w.send[w.me], bytes, b, blocks);
	else
		copy_share(w.recv[p] + w.me * bytes, w.send[w.me], bytes, b, blocks);
	__syncthreads();
	if (!threadIdx.x) {
		add_release(word_of(w, p, w.me, ARRIVED), 1);
		if (b == 0)
			await(word_of(w, w.me, p, ARRIVED), arrived + blocks);
	}
}

/* All blocks share all of the data; each tells all ranks. */
static __global__ void __launch_bounds__(512)
	gather_fan(struct world w, uint64_t bytes, u64 call, u64 arrived)
{
	uint64_t n = bytes / 16, step = (uint64_t)gridDim.x * blockDim.x;
	const uint4 *s = (const uint4 *)w.send[w.me];
	uint4 v[4];
	int q = threadIdx.x, p;

	if (q < w.n) {
		if (blockIdx.x == 0)
			store_release(word_of(w, q, w.me, READY), call);
		await(word_of(w, w.me, q, READY), call);
	}
	__syncthreads();
	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 4 * step) {
#pragma unroll
		for (int k = 0; k < 4; k++)
			if (i + k * step < n)
				v[k] = s[i + k * step];
		for (int r = 0; r < w.n; r++) {
			p = (r + w.me) % w.n;
#pragma unroll
			for (int k = 0; k < 4; k++)
				if (i + k * step < n)
					((uint4 *)(w.recv[p] + w.me * bytes))[i + k * step] = v[k];
		}
	}
	__syncthreads();
	if (q < w.n) {
		add_release(word_of(w, q, w.me, ARRIVED), 1);
		if (blockIdx.x == 0)
			await(word_of(w, w.me, q, ARRIVED), arrived + gridDim.x);
	}
}

/*
 * Separate blocks copy the own block to its place and set READY.  The others then fetch from each
 * peer's place.  ARRIVED says that a peer has fetched, so that the next call may overwrite the
 * place.
 */
static __global__ void __launch_bounds__(512)
	gather_pull(struct world w, uint64_t bytes, int blocks, u64 ready, u64 arrived)
{
	int p = (blockIdx.x / blocks + w.me) % w.n, b = blockIdx.x % blocks;

	if (p == w.me) {
		copy_share(w.recv[p] + p * bytes, w.send[p], bytes, b, blocks);
		__syncthreads();
		for (int q = threadIdx.x; q < w.n; q += blockDim.x)
			add_release(word_of(w, q, p, READY), 1);
		return;
	}
	if (!threadIdx.x)
		await(word_of(w, w.me, p, READY), ready + blocks);
	__syncthreads();
	copy_share(w.recv[w.me] + p * bytes, w.recv[p] + p * bytes, bytes, b, blocks);
	__syncthreads();
	if (!threadIdx.x) {
		add_release(word_of(w, p, w.me, ARRIVED), 1);
		if (b == 0)
			await(word_of(w, w.me, p, ARRIVED), arrived + blocks);
	}
}

/* One warp: all ranks are here. */
static __global__ void meet(struct world w, u64 call)
{
	int q = threadIdx.x;

	if (q < w.n) {
		store_release(word_of(w, q, w.me, READY), call);
		await(word_of(w, w.me, q, READY), call);
	}
}

static __global__ void __launch_bounds__(512)
	exchange(struct world w, uint64_t slot, int blocks, u64 call, u64 arrived)
{
	int p = (blockIdx.x / blocks + w.me) % w.n, b = blockIdx.x % blocks;
	uint64_t bytes = w.sizes[p], offset = w.offsets[p];

	if (!threadIdx.x) {
		if (b == 0)
			store_release(word_of(w, p, w.me, READY), call);
		await(word_of(w, w.me, p, READY), call);
	}
	__syncthreads();
	copy_share(w.recv[p] + w.me * slot, w.send[w.me] + offset, bytes, b, blocks);
	__syncthreads();
	if (!threadIdx.x) {
		if (b == 0)
			*word_of(w, p, w.me, SIZE) = bytes;
		add_release(word_of(w, p, w.me, ARRIVED), 1);
		if (b == 0)
			await(word_of(w, w.me, p, ARRIVED), arrived + blocks);
	}
}

/*
 * All-reduce between buffers that all ranks map.  A rank sums its part of the elements from all
 * ranks, in their order, and stores the sums to all.
 */
static __global__ void __launch_bounds__(512)
	reduce(struct world w, uint64_t bytes, u64 call, u64 arrived)
{
	uint64_t n = bytes / 16 / w.n, step = (uint64_t)gridDim.x * blockDim.x;
	uint64_t i = n * w.me + (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	uint64_t end = w.me + 1 == w.n ? bytes / 16 : n * (w.me + 1);
	int q = threadIdx.x;

	if (q < w.n) {
		if (blockIdx.x == 0)
			store_release(word_of(w, q, w.me, READY), call);
		await(word_of(w, w.me, q, READY), call);
	}
	__syncthreads();
	for (; i < end; i += step) {
		float4 sum, v[GPU_RANKS_MAX];

#pragma unroll
		for (int r = 0; r < GPU_RANKS_MAX; r++)
			if (r < w.n)
				v[r] = ((const float4 *)w.send[r])[i];
		sum = v[0];
#pragma unroll
		for (int r = 1; r < GPU_RANKS_MAX; r++)
			if (r < w.n) {
				sum.x += v[r].x;
				sum.y += v[r].y;
				sum.z += v[r].z;
				sum.w += v[r].w;
			}
#pragma unroll
		for (int r = 0; r < GPU_RANKS_MAX; r++)
			if (r < w.n)
				((float4 *)w.recv[r])[i] = sum;
	}
	__syncthreads();
	if (q < w.n) {
		add_release(word_of(w, q, w.me, ARRIVED), 1);
		if (blockIdx.x == 0)
			await(word_of(w, w.me, q, ARRIVED), arrived + gridDim.x);
	}
}

/* Reduce-scatter: a rank sums its block from all ranks, and stores it to its own memory. */
static __global__ void __launch_bounds__(512)
	scatter(struct world w, uint64_t bytes, u64 call, u64 arrived)
{
	uint64_t n = bytes / 16 / w.n, step = (uint64_t)gridDim.x * blockDim.x;
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	int q = threadIdx.x;

	if (q < w.n) {
		if (blockIdx.x == 0)
			store_release(word_of(w, q, w.me, READY), call);
		await(word_of(w, w.me, q, READY), call);
	}
	__syncthreads();
	for (; i < n; i += step) {
		float4 sum, v[GPU_RANKS_MAX];

#pragma unroll
		for (int r = 0; r < GPU_RANKS_MAX; r++)
			if (r < w.n)
				v[r] = ((const float4 *)w.send[r])[n * w.me + i];
		sum = v[0];
#pragma unroll
		for (int r = 1; r < GPU_RANKS_MAX; r++)
			if (r < w.n) {
				sum.x += v[r].x;
				sum.y += v[r].y;
				sum.z += v[r].z;
				sum.w += v[r].w;
			}
		((float4 *)w.recv[w.me])[i] = sum;
	}
	__syncthreads();
	if (q < w.n) {
		add_release(word_of(w, q, w.me, ARRIVED), 1);
		if (blockIdx.x == 0)
			await(word_of(w, w.me, q, ARRIVED), arrived + gridDim.x);
	}
}

/*
 * Broadcast from rank 0, in place.  pass: each of the others takes a piece from rank 0 and stores
 * it to all the others.  Without: each takes all from rank 0.
 */
template <bool pass>
static __global__ void __launch_bounds__(512)
	cast(struct world w, uint64_t bytes, u64 call, u64 arrived)
{
	uint64_t all = bytes / 16, n = pass ? (all + w.n - 2) / (w.n - 1) : all;
	uint64_t step = (uint64_t)gridDim.x * blockDim.x, i = pass ? n * (w.me - 1) : 0;
	uint64_t end = i + n < all ? i + n : all;
	const uint4 *from = (const uint4 *)w.recv[0];
	int q = threadIdx.x;

	if (q < w.n) {
		if (blockIdx.x == 0)
			store_release(word_of(w, q, w.me, READY), call);
		await(word_of(w, w.me, q, READY), call);
	}
	__syncthreads();
	for (i += (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; w.me && i < end; i += 4 * step) {
		uint4 v[4];

#pragma unroll
		for (int k = 0; k < 4; k++)
			if (i + k * step < end)
				v[k] = from[i + k * step];
#pragma unroll
		for (int r = 1; r < GPU_RANKS_MAX; r++) {
			if (r >= w.n || (!pass && r != w.me))
				continue;
#pragma unroll
			for (int k = 0; k < 4; k++)
				if (i + k * step < end)
					((uint4 *)w.recv[r])[i + k * step] = v[k];
		}
	}
	__syncthreads();
	if (q < w.n) {
		add_release(word_of(w, q, w.me, ARRIVED), 1);
		if (blockIdx.x == 0)
			await(word_of(w, w.me, q, ARRIVED), arrived + gridDim.x);
	}
}

/* A block's part of the message for `peer`; the shares of a message count ONE together. */
#define ONE (1ull << 16)
#define SHARES 64

struct share {
	uint64_t begin, bytes, count;
	int peer, first;
};

static __global__ void __launch_bounds__(512)
	exchange_shares(struct world w, const struct share *shares, uint64_t slot, u64 call)
{
	struct share s = shares[blockIdx.x];
	int p = s.peer;
	uint64_t bytes = w.sizes[p], offset = w.offsets[p];

	if (!threadIdx.x) {
		if (s.first)
			store_release(word_of(w, p, w.me, READY), call);
		await(word_of(w, w.me, p, READY), call);
	}
	__syncthreads();
	copy(w.recv[p] + w.me * slot + s.begin, w.send[w.me] + offset + s.begin, s.bytes);
	__syncthreads();
	if (!threadIdx.x) {
		if (s.first)
			*word_of(w, p, w.me, SIZE) = bytes;
		add_release(word_of(w, p, w.me, ARRIVED), s.count);
		if (s.first)
			await(word_of(w, w.me, p, ARRIVED), call * ONE);
	}
}

#endif
