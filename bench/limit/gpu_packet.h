/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/limit/gpu_packet.h - marked packets written by hand, for bench/limit/gpu.cu.
 *
 * The task is the one of oriel_packet_send and oriel_packet_recv in a ping-pong.  Each round loads
 * the caller's source and delivers into one buffer of the caller.  All threads may read that buffer
 * after the round, so a round ends with a barrier.  Boxes are used in turn; the ping-pong itself
 * keeps the ranks at most one round apart.  Counts are in registers, and nobody can be late.
 *
 * Two ways: `halves` marks each 4 bytes of data, `wide` each 8 bytes by one 128-bit access.
 */
#ifndef ORI_BENCH_LIMIT_GPU_PACKET_H
#define ORI_BENCH_LIMIT_GPU_PACKET_H

#include "../gpu.h"

#define PACKET_UNROLL 4
#define PACKET_BOX (64u << 10) /* bytes of cells; two boxes */

struct packet_pair {
	const uint64_t *source;
	uint64_t *target;
	uint64_t *mine, *theirs; /* two boxes of cells each */
	int second;
};

template <int WIDE>
static __device__ __forceinline__ void packet_store(uint64_t *cell, uint64_t data, uint32_t mark)
{
	uint64_t high = (uint64_t)mark << 32;

	if (WIDE)
		asm volatile("{ .reg .b128 t; mov.b128 t, {%1, %2};"
			     " st.relaxed.sys.global.b128 [%0], t; }" ::"l"(cell),
			     "l"(data), "l"((uint64_t)mark)
			     : "memory");
	else
		asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(cell),
			     "l"(high | (uint32_t)data), "l"(high | data >> 32)
			     : "memory");
}

/* Is the cell there?  Then *data is its data. */
template <int WIDE>
static __device__ __forceinline__ int packet_load(const uint64_t *cell, uint64_t *data,
						  uint32_t mark)
{
	uint64_t low, high;

	if (WIDE) {
		asm volatile("{ .reg .b128 t; ld.relaxed.sys.global.b128 t, [%2];"
			     " mov.b128 {%0, %1}, t; }"
			     : "=l"(low), "=l"(high)
			     : "l"(cell)
			     : "memory");
		*data = low;
		return high == mark;
	}
	asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
		     : "=l"(low), "=l"(high)
		     : "l"(cell)
		     : "memory");
	*data = (uint32_t)low | high << 32;
	return low >> 32 == mark && high >> 32 == mark;
}

template <int WIDE>
static __device__ __forceinline__ void packet_send(const struct packet_pair &p, uint32_t n,
						   uint32_t round)
{
	uint64_t *box = p.theirs + (round & 1) * (PACKET_BOX / 8), word[PACKET_UNROLL];
	uint32_t i, step = blockDim.x;

	for (i = threadIdx.x; i < n; i += PACKET_UNROLL * step) {
#pragma unroll
		for (int k = 0; k < PACKET_UNROLL; k++)
			if (i + k * step < n)
				asm volatile("ld.global.u64 %0, [%1];"
					     : "=l"(word[k])
					     : "l"(p.source + i + k * step)
					     : "memory");
#pragma unroll
		for (int k = 0; k < PACKET_UNROLL; k++)
			if (i + k * step < n)
				packet_store<WIDE>(box + 2 * (i + k * step), word[k], round);
	}
}

template <int WIDE>
static __device__ __forceinline__ void packet_take(const struct packet_pair &p, uint32_t n,
						   uint32_t round)
{
	uint64_t *box = p.mine + (round & 1) * (PACKET_BOX / 8), word[PACKET_UNROLL];
	uint32_t i, step = blockDim.x;
	int there;

	for (i = threadIdx.x; i < n; i += PACKET_UNROLL * step) {
		do {
			there = 1;
#pragma unroll
			for (int k = 0; k < PACKET_UNROLL; k++)
				if (i + k * step < n)
					there &= packet_load<WIDE>(box + 2 * (i + k * step),
								   &word[k], round);
		} while (!there);
#pragma unroll
		for (int k = 0; k < PACKET_UNROLL; k++)
			if (i + k * step < n)
				p.target[i + k * step] = word[k];
	}
	__syncthreads();
}

template <int WIDE>
static __global__ void __launch_bounds__(GPU_THREADS, 1)
	packet_ping_pong(struct packet_pair p, uint32_t bytes, int rounds, uint64_t *ns)
{
	uint32_t n = bytes / 8;
	uint64_t start = 0;

	for (int i = 1; i <= GPU_WARM + rounds; i++) {
		if (i == GPU_WARM + 1)
			start = gpu_clock_ns();
		if (p.second)
			packet_take<WIDE>(p, n, (uint32_t)i);
		packet_send<WIDE>(p, n, (uint32_t)i);
		if (!p.second)
			packet_take<WIDE>(p, n, (uint32_t)i);
	}
	if (!threadIdx.x)
		*ns = gpu_clock_ns() - start;
}

#endif
