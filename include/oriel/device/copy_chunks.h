/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/copy_chunks.h - CUDA: a group's copy of whole chunks of 16 bytes.
 *
 * The middle part of a copy.  device/copy.h copies the bytes before and after it.  Accesses are
 * strided over the group, ORI_COPY_UNROLL of them in flight per thread.  Empty on the CPU.
 */
#ifndef ORIEL_DEVICE_COPY_CHUNKS_H
#define ORIEL_DEVICE_COPY_CHUNKS_H

#include "group.h"

#ifndef ORI_COPY_UNROLL
#define ORI_COPY_UNROLL 8
#endif

#if ORIEL_ON_GPU

struct ori_chunk {
	uint32_t w[4];
};

ORIEL_DEV void ori_chunk_load(struct ori_chunk *c, const uint8_t *from)
{
	asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(c->w[0]), "=r"(c->w[1]), "=r"(c->w[2]), "=r"(c->w[3])
		     : "l"(from));
}

/*
 * Loads if `have`, else gives zeros.  Without the zeros ptxas keeps the registers of a conditional
 * load from the start of the function on: 115 registers instead of 60.
 */
ORIEL_DEV void ori_chunk_load_if(int have, struct ori_chunk *c, const uint8_t *from)
{
	c->w[0] = c->w[1] = c->w[2] = c->w[3] = 0;
	if (have)
		ori_chunk_load(c, from);
}

ORIEL_DEV void ori_chunk_store(uint8_t *to, const struct ori_chunk *c)
{
	asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(c->w[0]),
		     "r"(c->w[1]), "r"(c->w[2]), "r"(c->w[3])
		     : "memory");
}

/* 16 bytes of the 32 in `low` and `high`, from byte `skew` (0 to 15) on. */
ORIEL_DEV struct ori_chunk ori_chunk_shift(const struct ori_chunk *low,
					   const struct ori_chunk *high, uint32_t skew)
{
	uint32_t x[8], i, bits = 8u * (skew & 3u), here, next;
	struct ori_chunk out;

#pragma unroll
	for (i = 0; i < 8; i++)
		x[i] = i < 4 ? low->w[i] : high->w[i - 4];
		/*
	 * Both words are read before the choice.  Otherwise clang chooses an address, and x stays
	 * in memory.
	 */
#pragma unroll
	for (i = 0; i < 6; i++) {
		here = x[i];
		next = x[i + 2];
		x[i] = skew & 8u ? next : here;
	}
#pragma unroll
	for (i = 0; i < 5; i++) {
		here = x[i];
		next = x[i + 1];
		x[i] = skew & 4u ? next : here;
	}
#pragma unroll
	for (i = 0; i < 4; i++)
		out.w[i] = __funnelshift_r(x[i], x[i + 1], bits);
	return out;
}

/*
 * Copies the whole rounds of `n` chunks, both sides aligned to 16 bytes.  Returns how many chunks
 * it copied.  `row` is 1 for a thread and 32 for warps.  The compiler knows it, so a round needs
 * one pair of addresses and fixed distances.
 */
ORIEL_DEV uint64_t ori_copy_rounds(struct oriel_group g, uint8_t *d, const uint8_t *s, uint64_t n,
				   uint32_t row)
{
	uint32_t k, round = ORI_COPY_UNROLL * g.size;
	uint64_t at = (uint64_t)(g.thread / row * (ORI_COPY_UNROLL * row) + g.thread % row), left;

	d += 16u * at;
	s += 16u * at;
#pragma unroll 1
	for (left = n; left >= round; left -= round) {
		struct ori_chunk c[ORI_COPY_UNROLL];

#pragma unroll
		for (k = 0; k < ORI_COPY_UNROLL; k++)
			ori_chunk_load(&c[k], s + 16u * row * k);
#pragma unroll
		for (k = 0; k < ORI_COPY_UNROLL; k++)
			ori_chunk_store(d + 16u * row * k, &c[k]);
		d += 16u * round;
		s += 16u * round;
	}
	return n - left;
}

/*
 * A round or less: `n` chunks.  d and s are this thread's first.  All loads start before the first
 * store; otherwise each load would wait for memory in turn.
 */
ORIEL_DEV void ori_copy_part(struct oriel_group g, uint8_t *d, const uint8_t *s, uint32_t n)
{
	uint32_t k, stride = 16u * g.size;
	struct ori_chunk c[ORI_COPY_UNROLL];

#pragma unroll
	for (k = 0; k < ORI_COPY_UNROLL; k++)
		ori_chunk_load_if(g.thread + k * g.size < n, &c[k], s + k * stride);
#pragma unroll
	for (k = 0; k < ORI_COPY_UNROLL; k++)
		if (g.thread + k * g.size < n)
			ori_chunk_store(d + k * stride, &c[k]);
}

/* The rest of a round, and groups that are neither a thread nor whole warps. */
ORIEL_DEV void ori_copy_rest(struct oriel_group g, uint8_t *d, const uint8_t *s, uint64_t n)
{
	uint32_t rest, round = ORI_COPY_UNROLL * g.size;
	uint64_t left;

	d += 16u * g.thread;
	s += 16u * g.thread;
#pragma unroll 1
	for (left = n; left; left -= rest) {
		rest = left < round ? (uint32_t)left : round;
		ori_copy_part(g, d, s, rest);
		d += 16u * rest;
		s += 16u * rest;
	}
}

ORIEL_DEV void ori_copy_chunks(struct oriel_group g, uint8_t *d, const uint8_t *s, uint64_t n)
{
	uint64_t whole = 0;

	if (g.size == 1)
		whole = ori_copy_rounds(g, d, s, n, 1);
	else if (g.size % 32u == 0)
		whole = ori_copy_rounds(g, d, s, n, 32);
	if (whole < n)
		ori_copy_rest(g, d + 16u * whole, s + 16u * whole, n - whole);
}

/*
 * One round of aligned chunks, inlined, for kernels where only latency counts.  Returns 0 if the
 * copy is longer or not aligned; then nothing was copied.
 */
ORIEL_DEV int ori_copy_once(struct oriel_group g, uint8_t *d, const uint8_t *s, uint64_t bytes)
{
	uint32_t stride = 16u * g.size;

	if ((((uint32_t)(uintptr_t)d | (uint32_t)(uintptr_t)s | (uint32_t)bytes) & 15u) ||
	    bytes > (uint64_t)ORI_COPY_UNROLL * stride)
		return 0;
	ori_copy_part(g, d + 16u * g.thread, s + 16u * g.thread, (uint32_t)bytes / 16u);
	return 1;
}

#define ORI_SHIFT_ROWS 8u

/*
 * Whole warps: chunk i of `d` is made of chunks i and i + 1 of `s`.  A warp takes 8 consecutive
 * rows of 32 chunks.  So the chunk after a lane's own is in the next lane.  The chunk after lane
 * 31's is in lane 0, one row further.
 */
ORIEL_DEV void ori_shift_warps(struct oriel_group g, uint8_t *d, const uint8_t *s, uint64_t n,
			       uint32_t skew)
{
	uint32_t k, j, lane = g.thread & 31u, warp = g.thread >> 5, end;
	uint64_t first = (uint64_t)warp * 32u * ORI_SHIFT_ROWS;

	d += 16u * (first + lane);
	s += 16u * (first + lane);
#pragma unroll 1
	for (; first < n; first += ORI_SHIFT_ROWS * g.size) {
		struct ori_chunk c[ORI_SHIFT_ROWS + 1], high, out;

		end = n - first < 32u * ORI_SHIFT_ROWS ? (uint32_t)(n - first) :
							 32u * ORI_SHIFT_ROWS;
#pragma unroll
		for (k = 0; k <= ORI_SHIFT_ROWS; k++)
			ori_chunk_load_if(32u * k + lane <= end, &c[k], s + 512u * k);
#pragma unroll
		for (k = 0; k < ORI_SHIFT_ROWS; k++) {
#pragma unroll
			for (j = 0; j < 4; j++)
				high.w[j] = __shfl_sync(0xffffffffu,
							lane ? c[k].w[j] : c[k + 1].w[j],
							(lane + 1u) & 31u);
			out = ori_chunk_shift(&c[k], &high, skew);
			if (32u * k + lane < end)
				ori_chunk_store(d + 512u * k, &out);
		}
		d += 16u * ORI_SHIFT_ROWS * g.size;
		s += 16u * ORI_SHIFT_ROWS * g.size;
	}
}

/* One thread, or a block that is not a whole number of warps: each thread loads both chunks. */
ORIEL_DEV void ori_shift_threads(struct oriel_group g, uint8_t *d, const uint8_t *s, uint64_t n,
				 uint32_t skew)
{
	uint32_t k, end, stride = 16u * g.size;
	uint64_t first;

	d += 16u * g.thread;
	s += 16u * g.thread;
#pragma unroll 1
	for (first = g.thread; first < n; first += 4u * g.size) {
		struct ori_chunk low[4], high[4], out;

		end = n - first < 4u * g.size ? (uint32_t)(n - first) : 4u * g.size;
#pragma unroll
		for (k = 0; k < 4; k++) {
			ori_chunk_load_if(k * g.size < end, &low[k], s + k * stride);
			ori_chunk_load_if(k * g.size < end, &high[k], s + k * stride + 16u);
		}
#pragma unroll
		for (k = 0; k < 4; k++)
			if (k * g.size < end) {
				out = ori_chunk_shift(&low[k], &high[k], skew);
				ori_chunk_store(d + k * stride, &out);
			}
		d += 4u * stride;
		s += 4u * stride;
	}
}

#endif

#endif
