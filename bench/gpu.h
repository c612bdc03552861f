/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/gpu.h - what the GPU benchmarks share: clock, pattern, its check, sizes, ranks by fork.
 *
 * Included by bench/limit/gpu.cu, bench/gpu_bench.cu and bench/versus/nvshmem.cu, so that all
 * three measure the same rows in the same way.  Each prints lines "name value unit"; bench/gpu.sh
 * reads them. Nothing of Oriel is used here.
 */
#ifndef ORI_BENCH_GPU_H
#define ORI_BENCH_GPU_H

#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define GPU_THREADS 512
#define GPU_RANKS_MAX 16
#define GPU_LARGE                                                                                  \
	(256ull << 20)  /* of a bandwidth row, and half of it is the window's landing place */
#define GPU_SLACK 4096u /* room for unaligned copies */
#define GPU_LAUNCHES 10 /* of a bandwidth row, back to back */
#define GPU_MEET_S 60.0 /* a rank that does not come within this time has failed */

/* Ping-pong rows of a block: enough rounds for 5 ms or more. */
struct gpu_size {
	const char *name;
	uint64_t bytes;
	int rounds;
};

static const struct gpu_size gpu_sizes[] = {
	{ "block8", 8, 4000 },
	{ "block64k", 64u << 10, 2000 },
	{ "block1m", 1u << 20, 300 },
};

/* Packets: a block with a thread per 8 bytes, up to GPU_THREADS. */
struct gpu_packet {
	const char *name;
	uint32_t bytes;
	int threads, rounds;
};

static const struct gpu_packet gpu_packets[] = {
	{ "packet8", 8, 32, 8000 },
	{ "packet1k", 1024, 128, 8000 },
	{ "packet4k", 4096, GPU_THREADS, 8000 },
	{ "packet16k", 16384, GPU_THREADS, 4000 },
};
#define GPU_PACKETS (int)(sizeof(gpu_packets) / sizeof(gpu_packets[0]))

static const int gpu_blocks[] = { 1, 4, 16, 32, 64 };

#define GPU_WARM 100
#define GPU_SYNCS 4000

static inline void gpu_must(cudaError_t err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(err));
	_exit(1);
}

/* Few blocks move less data: a row takes 60 ms at most. */
static inline uint64_t gpu_row_bytes(int blocks)
{
	return blocks == 1 ? GPU_LARGE / 4 : GPU_LARGE;
}

static __device__ __forceinline__ uint64_t gpu_clock_ns(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns)::"memory");
	return ns;
}

/* ---- the data ---- */

/* Byte i of rank `rank`: a hash, so that a copy that is shifted by any stride is found. */
static __device__ __forceinline__ uint8_t gpu_byte(int rank, uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + (uint64_t)rank * 0x3c6ef372ull;

	return (uint8_t)(x >> 37);
}

static __global__ void gpu_fill_kernel(uint8_t *at, uint64_t bytes, int rank)
{
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;

	for (; i < bytes; i += (uint64_t)gridDim.x * blockDim.x)
		at[i] = gpu_byte(rank, i);
}

static __global__ void gpu_count_kernel(const uint8_t *at, uint64_t bytes, int rank, uint64_t skip,
					unsigned long long *wrong)
{
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;

	for (; i < bytes; i += (uint64_t)gridDim.x * blockDim.x)
		if (at[i] != gpu_byte(rank, i + skip))
			atomicAdd(wrong, 1ull);
}

static inline void gpu_fill(void *at, uint64_t bytes, int rank, cudaStream_t stream)
{
	gpu_fill_kernel<<<64, 256, 0, stream>>>((uint8_t *)at, bytes, rank);
	gpu_must(cudaStreamSynchronize(stream), "filling memory");
}

/*
 * Checks that `bytes` at `at` are the data of `rank` from byte `skip` on.  Clears them, so that old
 * data cannot satisfy the next row.
 */
static inline void gpu_check(const char *row, void *at, uint64_t bytes, int rank, uint64_t skip,
			     cudaStream_t stream)
{
	unsigned long long *wrong, found = 0;

	gpu_must(cudaMallocHost(&wrong, sizeof(*wrong)), "pinned memory");
	*wrong = 0;
	gpu_count_kernel<<<64, 256, 0, stream>>>((const uint8_t *)at, bytes, rank, skip, wrong);
	gpu_must(cudaMemsetAsync(at, 0xee, bytes, stream), "clearing memory");
	gpu_must(cudaStreamSynchronize(stream), "checking memory");
	found = *wrong;
	gpu_must(cudaFreeHost(wrong), "pinned memory");
	if (!found)
		return;
	fprintf(stderr, "%s: %llu of %llu bytes are wrong\n", row, found,
		(unsigned long long)bytes);
	_exit(1);
}

/* ---- ranks by fork, for programs that bring no launcher ---- */

struct gpu_meeting {
	uint32_t arrived; /* arrivals of all ranks at all barriers so far */
	uint32_t failed;  /* a rank has ended early */
	uint8_t handles[GPU_RANKS_MAX][2][128];
};

/* Waits for all ranks; a missing rank ends the program. */
static inline void gpu_meet(struct gpu_meeting *m, int nranks, uint32_t *meetings)
{
	double end = bench_now() + GPU_MEET_S;
	uint32_t want = ++*meetings * (uint32_t)nranks;

	__atomic_fetch_add(&m->arrived, 1, __ATOMIC_ACQ_REL);
	while ((int32_t)(__atomic_load_n(&m->arrived, __ATOMIC_ACQUIRE) - want) < 0) {
		if (__atomic_load_n(&m->failed, __ATOMIC_RELAXED) || bench_now() > end) {
			fprintf(stderr, "another rank has not come\n");
			_exit(1);
		}
		usleep(20);
	}
}

/* Runs rank(r) in one process per rank; returns the exit status of the program. */
static inline int gpu_fork(int nranks, struct gpu_meeting *m,
			   void (*rank)(struct gpu_meeting *m, int rank, int nranks))
{
	int status, bad = 0;

	for (int r = 0; r < nranks; r++) {
		pid_t child = fork();

		if (child < 0) {
			perror("fork");
			__atomic_store_n(&m->failed, 1, __ATOMIC_RELAXED);
			bad = 1;
			nranks = r;
		} else if (child == 0) {
			rank(m, r, nranks);
			fflush(stdout);
			_exit(0);
		}
	}
	for (int r = 0; r < nranks; r++) {
		if (wait(&status) < 0 || status) {
			bad = 1;
			__atomic_store_n(&m->failed, 1, __ATOMIC_RELAXED);
		}
	}
	return bad;
}

static inline struct gpu_meeting *gpu_meeting_open(void)
{
	void *at = mmap(NULL, sizeof(struct gpu_meeting), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : (struct gpu_meeting *)at;
}

#endif
