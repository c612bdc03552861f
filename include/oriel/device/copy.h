/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/copy.h - a group's copy between two memories it can load and store.
 *
 * Any alignment, any size.  No barrier inside: the caller agrees afterwards.
 * CPU: each thread one contiguous piece by memcpy, cut at cache lines of the destination so
 * that two threads never write one line.  CUDA: 16-byte accesses strided over the group when
 * both sides are aligned alike, else bytes.
 */
#ifndef ORIEL_DEVICE_COPY_H
#define ORIEL_DEVICE_COPY_H

#include "group.h"

#define ORI_COPY_ALIGN 64u

ORIEL_DEV void ori_group_copy(struct oriel_group g, void *dst, const void *src, uint64_t bytes)
{
#if ORIEL_ON_GPU
	uint8_t *d = (uint8_t *)dst;
	const uint8_t *s = (const uint8_t *)src;
	uint64_t i, head = 0, wide = 0;

	if ((((uintptr_t)d ^ (uintptr_t)s) & 15u) == 0 && bytes >= 32) {
		head = (16u - ((uintptr_t)d & 15u)) & 15u;
		wide = (bytes - head) & ~(uint64_t)15;
	}
	for (i = g.thread; i < head; i += g.size)
		d[i] = s[i];
	for (i = head + 16ull * g.thread; i < head + wide; i += 16ull * g.size) {
		uint64_t x, y;

		asm volatile("ld.global.v2.u64 {%0, %1}, [%2];" : "=l"(x), "=l"(y) : "l"(s + i));
		asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(d + i), "l"(x), "l"(y)
			     : "memory");
	}
	for (i = head + wide + g.thread; i < bytes; i += g.size)
		d[i] = s[i];
#else
	uint64_t piece, begin, end, skew;

	if (bytes == 0 || dst == src)
		return;
	if (g.size == 1) {
		memcpy(dst, src, bytes);
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
		memcpy((uint8_t *)dst + begin, (const uint8_t *)src + begin, end - begin);
#endif
}

#endif
