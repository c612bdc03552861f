/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * src/bitcode/cuda_names.h - the few CUDA names that the device headers use, for clang without a
 * CUDA toolkit.
 *
 * Elsewhere these names come from the toolkit.  The bitcode is built on machines that have only
 * clang (-nocudainc -nocudalib).  clang itself brings threadIdx and its relatives.  Every function
 * here is one or two instructions of PTX.  Only device.cu includes this file, before device.h.
 */
#ifndef ORIEL_BITCODE_CUDA_NAMES_H
#define ORIEL_BITCODE_CUDA_NAMES_H

#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ __inline__ __attribute__((always_inline))

#include <__clang_cuda_builtin_vars.h>
#include <string.h>

/* The C library's are functions of the host.  The device headers copy a few bytes with these. */
#define memcpy __builtin_memcpy
#define memset __builtin_memset

#define ORI_CUDA_NAME static __device__ __forceinline__

/* ---- meetings of a block and of a warp ------------------------------------------------------- */

ORI_CUDA_NAME int __syncthreads_or(int flag)
{
	return __nvvm_bar0_or(flag);
}

ORI_CUDA_NAME void __syncwarp(unsigned mask)
{
	__nvvm_bar_warp_sync(mask);
}

ORI_CUDA_NAME unsigned __activemask(void)
{
	return __nvvm_activemask();
}

/* ---- exchange inside a warp ------------------------------------------------------------------ */

ORI_CUDA_NAME unsigned __ballot_sync(unsigned mask, int flag)
{
	return __nvvm_vote_ballot_sync(mask, flag);
}

ORI_CUDA_NAME int __any_sync(unsigned mask, int flag)
{
	return __nvvm_vote_any_sync(mask, flag);
}

/* 0x1f: the whole warp is one segment, and its last lane is 31. */
ORI_CUDA_NAME int __shfl_sync(unsigned mask, int value, int lane)
{
	return __nvvm_shfl_sync_idx_i32(mask, value, lane, 0x1f);
}

ORI_CUDA_NAME unsigned __shfl_sync(unsigned mask, unsigned value, int lane)
{
	return (unsigned)__shfl_sync(mask, (int)value, lane);
}

ORI_CUDA_NAME unsigned long long __shfl_sync(unsigned mask, unsigned long long value, int lane)
{
	unsigned low = __shfl_sync(mask, (unsigned)value, lane);
	unsigned high = __shfl_sync(mask, (unsigned)(value >> 32), lane);

	return (unsigned long long)high << 32 | low;
}

ORI_CUDA_NAME unsigned __reduce_add_sync(unsigned mask, unsigned value)
{
	return (unsigned)__nvvm_redux_sync_add((int)value, mask);
}

/* ---- types ----------------------------------------------------------------------------------- */

/* 16 bytes that one instruction moves. */
struct __attribute__((aligned(16))) uint4 {
	unsigned x, y, z, w;
};

/* ---- arithmetic ------------------------------------------------------------------------------ */

ORI_CUDA_NAME int __ffs(int word)
{
	return __builtin_ffs(word);
}

ORI_CUDA_NAME unsigned __byte_perm(unsigned low, unsigned high, unsigned selector)
{
	unsigned result;

	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
	return result;
}

ORI_CUDA_NAME unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits)
{
	unsigned result;

	asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(bits));
	return result;
}

#undef ORI_CUDA_NAME

#endif
