/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * src/bitcode/caller.h - what every extern needs: its group, its handle, its local memory.
 *
 * A Triton kernel passes scalars only.  A window is the address of a struct oriel_window_dev in
 * device memory, and local memory is the address of a struct registered_buffer.  Both are written
 * before the kernel starts and do not change while it runs.
 *
 * All threads of the block make every call, with equal arguments.  Triton's scalars are uniform:
 * its own control flow relies on this.  So a value that an extern returns must be equal on all
 * threads, also if the word behind it changes at that moment.
 */
#ifndef ORIEL_BITCODE_CALLER_H
#define ORIEL_BITCODE_CALLER_H

/*
 * Whether an extern is inlined is for the compiler to decide.  The fast ones always are: those of
 * one instruction, and those whose latency counts.
 */
#define ORIEL_EXTERN extern "C" __attribute__((device))
#define ORIEL_EXTERN_FAST extern "C" __attribute__((device, always_inline))

/* Made by register_local_buffer() of the host.  The layout is fixed: others write it too. */
struct registered_buffer {
	uint64_t base;
	uint64_t bytes;
	uint64_t window; /* the handle it was made for */
	uint32_t key[ORIEL_NICS_MAX];
};

static_assert(sizeof(struct registered_buffer) == 32, "layout");
static_assert(offsetof(struct registered_buffer, window) == 16, "layout");
static_assert(offsetof(struct registered_buffer, key) == 24, "layout");

/*
 * The calling block with a deadline; 0 is the comm's.  Triton's grids have up to three dimensions:
 * blocks are numbered through all of them, so that grid_sync() counts every block.
 */
ORIEL_DEV struct oriel_group caller_block(int timeout_ms)
{
	struct oriel_group g = oriel_group_block();

	g.block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
	g.nblocks = gridDim.x * gridDim.y * gridDim.z;
	return oriel_group_within(g, timeout_ms > 0 ? (uint32_t)timeout_ms : 0);
}

/* The calling warp, in the same numbering.  Blocks of Triton consist of whole warps. */
ORIEL_DEV struct oriel_group caller_warp(void)
{
	struct oriel_group warp = oriel_group_warp(), block = caller_block(0);

	warp.block = block.block;
	warp.nblocks = block.nblocks;
	return warp;
}

/* Says that the address is one of global memory, which a generic pointer does not tell. */
#define ORI_GLOBAL __attribute__((address_space(1)))

ORIEL_DEV const struct oriel_window_dev *caller_window(int64_t handle)
{
	return (const struct oriel_window_dev *)(const ORI_GLOBAL struct oriel_window_dev *)handle;
}

/*
 * Loads a word that does not change while the kernel runs.  The compiler may move such a load out
 * of a loop and across calls, and an acquire does not repeat it.  In a C kernel the handle is an
 * argument in the constant bank, where loads are free.  Here a load from memory after an acquire
 * takes 0.3 us.
 */
ORIEL_DEV uint64_t load_constant(const void *base, uint64_t offset)
{
	const uint8_t *at = (const uint8_t *)base + offset;

	return __nvvm_ldg_ull((const unsigned long long *)(const void *)at);
}

ORIEL_DEV void load_constants(void *to, const void *from, uint32_t bytes)
{
	uint32_t at;
	uint64_t word;

#pragma unroll
	for (at = 0; at < bytes; at += 8) {
		word = load_constant(from, at);
		memcpy((uint8_t *)to + at, &word, 8);
	}
}

ORIEL_DEV struct oriel_source caller_source(int64_t registered)
{
	struct registered_buffer b;
	struct oriel_source s;

	load_constants(&b, (const void *)registered, sizeof(b));
	s.address = b.base;
	s.bytes = b.bytes;
	s.key[0] = b.key[0];
	s.key[1] = b.key[1];
	return s;
}

/* Keeps the first status other than 0 in *word, if the caller gave one. */
ORIEL_DEV void caller_report(int64_t word, int err)
{
	int32_t first;

	if (!word || !err || threadIdx.x)
		return;
	/* Relaxed: the host reads it after the kernel; nothing is published with it. */
	asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], 0, %2;"
		     : "=r"(first)
		     : "l"(word), "r"(err)
		     : "memory");
}

/* The leader's value for all threads of the block: see the head of this file. */
ORIEL_DEV uint64_t caller_agree(uint64_t value)
{
	(void)ori_group_agree_value(caller_block(0), 0, &value);
	return value;
}

#endif
