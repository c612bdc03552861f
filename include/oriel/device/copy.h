/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/copy.h - a group's copy between two memories it can load and store.
 *
 * Any alignment, any size.  It contains no barrier: the caller agrees afterwards.
 *
 * CPU: each thread copies one contiguous piece by memcpy.  Pieces end at cache lines of the
 * destination, so two threads never write the same line.
 *
 * CUDA: 16-byte accesses strided over the group, ORI_COPY_UNROLL of them in flight per thread.  If
 * the last four address bits of source and destination differ, the source is read in aligned chunks
 * of 16 bytes, which are shifted into aligned chunks of the destination.  Two lanes of a warp need
 * the same chunk; it is loaded once and exchanged.  Nothing outside the source is read.
 *
 * Copies through shared memory (cp.async.bulk) are not used.  They need tens of KiB of it in every
 * kernel that puts, and a kernel has only 48 KiB; bench/limit/gpu.cu measures their gain.
 * ORI_COPY_UNROLL 16 instead of 8 takes 32 more registers, which rules out blocks of 1024 threads.
 *
 * Fresh data: loads here are plain (ld.global, weak), never on the non-coherent path (.nc).  They
 * are asm, so that no compiler changes that.  The PTX memory model then guarantees fresh data.  The
 * peer's stores come before its release [SIG1] in causality order.  [SIG1] synchronises with the
 * leader's acquire [SIG2].  The meeting [GROUP1] orders that acquire before these loads of the
 * other threads.  A weak load that comes after a store in causality order must return that store or
 * a newer one.  In hardware, the acquire drops the L1 of its SM, which the whole block uses.
 */
#ifndef ORIEL_DEVICE_COPY_H
#define ORIEL_DEVICE_COPY_H

#include "copy_chunks.h"

#define ORI_COPY_ALIGN 64u

#if ORIEL_ON_GPU

ORIEL_DEV void ori_copy_bytes(struct oriel_group g, uint8_t *d, const uint8_t *s, uint64_t begin,
			      uint64_t end)
{
	uint64_t i;

	for (i = begin + g.thread; i < end; i += g.size)
		d[i] = s[i];
}

/* Source and destination differ in the last four bits of their addresses. */
ORIEL_DEV void ori_copy_shifted(struct oriel_group g, uint8_t *d, const uint8_t *s, uint64_t bytes)
{
	uint32_t head = (uint32_t)(16u - ((uintptr_t)d & 15u)) & 15u;
	uint32_t skew = (uint32_t)((uintptr_t)s + head) & 15u;
	uint64_t n;

	/* The first chunk read must not begin before the source, nor the last one end after it. */
	if (head < skew)
		head += 16u;
	n = (bytes - head - (16u - skew)) / 16u;
	if (g.size % 32u == 0)
		ori_shift_warps(g, d + head, s + head - skew, n, skew);
	else
		ori_shift_threads(g, d + head, s + head - skew, n, skew);
	ori_copy_bytes(g, d, s, 0, head);
	ori_copy_bytes(g, d, s, head + 16u * n, bytes);
}

/*
 * 64 bytes or more.  One function per translation unit.  When it was inlined, its addresses were
 * moved out of the callers' loops, and a ping-pong took 168 registers: too many for 512 threads.
 */
ORIEL_DEV_OUT void ori_copy_many(uint32_t thread, uint32_t size, uint8_t *d, const uint8_t *s,
				 uint64_t bytes)
{
	uint64_t head = (16u - ((uintptr_t)d & 15u)) & 15u, n = (bytes - head) / 16u;
	struct oriel_group g;

	g.thread = thread;
	g.size = size;
	if (((uintptr_t)d ^ (uintptr_t)s) & 15u) {
		ori_copy_shifted(g, d, s, bytes);
		return;
	}
	ori_copy_chunks(g, d + head, s + head, n);
	if (!(((uintptr_t)d | bytes) & 15u))
		return;
	ori_copy_bytes(g, d, s, 0, head);
	ori_copy_bytes(g, d, s, head + 16u * n, bytes);
}

/* Fewer than 64 bytes, not in whole words of 8 bytes: copies words of 4 bytes, or single bytes. */
ORIEL_DEV_OUT void ori_copy_odd(uint32_t thread, uint32_t size, uint8_t *d, const uint8_t *s,
				uint32_t bytes)
{
	uint32_t i, y;

	if (((uintptr_t)d | (uintptr_t)s | bytes) & 3u) {
#pragma unroll 1
		for (i = thread; i < bytes; i += size)
			d[i] = s[i];
		return;
	}
#pragma unroll 1
	for (i = 4u * thread; i < bytes; i += 4u * size) {
		asm volatile("ld.global.u32 %0, [%1];" : "=r"(y) : "l"(s + i) : "memory");
		asm volatile("st.global.u32 [%0], %1;" ::"l"(d + i), "r"(y) : "memory");
	}
}

/* Fewer than 64 bytes; a value of 8 bytes is one load and one store, and nothing is called. */
ORIEL_DEV void ori_copy_few(struct oriel_group g, uint8_t *d, const uint8_t *s, uint32_t bytes)
{
	uint32_t i;
	uint64_t x;

	if (((uint32_t)(uintptr_t)d | (uint32_t)(uintptr_t)s | bytes) & 7u) {
		ori_copy_odd(g.thread, g.size, d, s, bytes);
		return;
	}
#pragma unroll 1
	for (i = 8u * g.thread; i < bytes; i += 8u * g.size) {
		asm volatile("ld.global.u64 %0, [%1];" : "=l"(x) : "l"(s + i) : "memory");
		asm volatile("st.global.u64 [%0], %1;" ::"l"(d + i), "l"(x) : "memory");
	}
}

ORIEL_DEV void ori_group_copy(struct oriel_group g, void *dst, const void *src, uint64_t bytes)
{
	uint8_t *d = (uint8_t *)dst;
	const uint8_t *s = (const uint8_t *)src;

	if (bytes < 64)
		ori_copy_few(g, d, s, (uint32_t)bytes);
	else
		ori_copy_many(g.thread, g.size, d, s, bytes);
}

#else

ORIEL_DEV void ori_group_copy(struct oriel_group g, void *dst, const void *src, uint64_t bytes)
{
	uint64_t piece, begin, end, skew;

	if (bytes == 0 || dst == src)
		return;
	if (g.size == 1) {
		memcpy(dst, src, ori_seen_bytes(bytes));
		return;
	}
	/* Pieces are whole lines of the destination; `skew` is how far into a line it starts. */
	skew = (uintptr_t)dst & (ORI_COPY_ALIGN - 1);
	piece = (bytes + skew + g.size - 1) / g.size;
	piece = (piece + ORI_COPY_ALIGN - 1) & ~(uint64_t)(ORI_COPY_ALIGN - 1);
	begin = piece * g.thread;
	end = begin + piece;
	begin = begin > skew ? begin - skew : 0;
	end -= skew;
	if (end > bytes)
		end = bytes;
	if (begin < end)
		memcpy((uint8_t *)dst + begin, (const uint8_t *)src + begin,
		       ori_seen_bytes(end - begin));
}

ORIEL_DEV int ori_copy_once(struct oriel_group g, uint8_t *d, const uint8_t *s, uint64_t bytes)
{
	(void)g;
	(void)d;
	(void)s;
	(void)bytes;
	return 0;
}

#endif

/*
 * A small copy on a GPU in two steps: the load of a thread's word, and its store once the
 * destination is known.  Only if each thread has at most one word of 8 bytes; ori_group_copy()
 * makes all other copies.
 */
struct ori_early {
	uint64_t word;
	uint32_t have;
};

ORIEL_DEV struct ori_early ori_copy_early(struct oriel_group g, uint64_t from, uint64_t bytes)
{
	struct ori_early early = { 0, 0 };

	(void)g;
	(void)from;
	(void)bytes;
#if ORIEL_ON_GPU
	if (bytes >= 64 || ((from | bytes) & 7u) || bytes > 8u * g.size)
		return early;
	early.have = 1;
	if (8u * g.thread < (uint32_t)bytes)
		asm volatile("ld.global.u64 %0, [%1];"
			     : "=l"(early.word)
			     : "l"(from + 8u * g.thread)
			     : "memory"); /* after what the caller wrote there */
#endif
	return early;
}

/* Returns 1 if this was the whole copy.  If not, nothing has been stored. */
ORIEL_DEV int ori_copy_late(struct oriel_group g, struct ori_early early, uint8_t *to,
			    uint64_t bytes)
{
	(void)g;
	(void)to;
	(void)bytes;
#if ORIEL_ON_GPU
	if (!early.have || ((uintptr_t)to & 7u))
		return 0;
	if (8u * g.thread < (uint32_t)bytes)
		asm volatile("st.global.u64 [%0], %1;" ::"l"(to + 8u * g.thread), "l"(early.word)
			     : "memory");
	return 1;
#else
	return (int)early.have;
#endif
}

#endif
