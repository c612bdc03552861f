/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/gpu_words.h - words by which hand-written kernels tell each other that data is there.
 * Included by limit/gpu.cu and coll/gpu_limit_kernels.h.
 */
#ifndef BENCH_GPU_WORDS_H
#define BENCH_GPU_WORDS_H

typedef unsigned long long u64;

static __device__ __forceinline__ u64 load_acquire(const u64 *word)
{
	u64 v;

	asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(word) : "memory");
	return v;
}

static __device__ __forceinline__ void store_release(u64 *word, u64 v)
{
	asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
}

static __device__ __forceinline__ void await(const u64 *word, u64 v)
{
	while (load_acquire(word) < v)
		;
}

#endif
