/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/group.h - the threads that make one call together.
 *
 * A group is passed by value, and the compiler folds it away.  On CUDA it is one thread, a warp, or
 * a block.  On the CPU a block has 1 to 32 threads and is one warp, with a real barrier.
 *
 * Every call of the device API is made by all threads of the group, with the same arguments.  All
 * of them get the same status.  ori_group_agree() ensures this.
 */
#ifndef ORIEL_DEVICE_GROUP_H
#define ORIEL_DEVICE_GROUP_H

#include "access.h"

ORIEL_DEV struct oriel_group oriel_group_thread(void)
{
	struct oriel_group g;

	g.thread = 0;
	g.size = 1;
	g.scope = ORIEL_GROUP_THREAD;
	g.timeout_ms = 0;
	g.shared = NULL;
#if ORIEL_ON_GPU
	g.block = blockIdx.x;
	g.nblocks = gridDim.x;
#else
	g.block = oriel_cpu_this_thread()->block;
	g.nblocks = oriel_cpu_this_thread()->nblocks;
#endif
	return g;
}

ORIEL_DEV struct oriel_group oriel_group_block(void)
{
	struct oriel_group g;
#if ORIEL_ON_GPU
	g.thread = threadIdx.x;
	g.size = blockDim.x;
	g.block = blockIdx.x;
	g.nblocks = gridDim.x;
	g.shared = NULL;
#else
	const struct oriel_cpu_thread *t = oriel_cpu_this_thread();

	g.thread = t->thread;
	g.size = t->nthreads;
	g.block = t->block;
	g.nblocks = t->nblocks;
	g.shared = t->shared;
#endif
	g.scope = ORIEL_GROUP_BLOCK;
	g.timeout_ms = 0;
	return g;
}

/* On the CPU a block is one warp. */
ORIEL_DEV struct oriel_group oriel_group_warp(void)
{
	struct oriel_group g = oriel_group_block();

	g.scope = ORIEL_GROUP_WARP;
#if ORIEL_ON_GPU
	g.thread = threadIdx.x & 31u;
	g.size = blockDim.x - (threadIdx.x & ~31u);
	if (g.size > 32u)
		g.size = 32u;
#endif
	return g;
}

ORIEL_DEV int oriel_group_is_leader(struct oriel_group g)
{
	return g.thread == 0;
}

/* The same threads with their own deadline: see device.h.  0: the comm's deadline again. */
ORIEL_DEV struct oriel_group oriel_group_within(struct oriel_group g, uint32_t timeout_ms)
{
	g.timeout_ms = timeout_ms;
	return g;
}

#if ORIEL_ON_GPU
/*
 * The words through which the threads of a block tell each other something: all the static shared
 * memory of Oriel.  A front end whose compiler wants its own shared memory, which comes behind
 * this, at a multiple of some number, defines that number.
 */
#ifndef ORI_BLOCK_WORDS_ALIGN
#define ORI_BLOCK_WORDS_ALIGN 16
#endif
struct ori_block_words {
	unsigned long long value, told, credit;
	int verdict;
} __attribute__((aligned(ORI_BLOCK_WORDS_ALIGN)));

ORIEL_DEV struct ori_block_words *ori_block_words(void)
{
	__shared__ struct ori_block_words words;
	struct ori_block_words *at = &words;

#if defined(ORIEL_BITCODE)
	__asm__("" : "+l"(at)); /* LLVM would keep only the members used, and lose the alignment */
#endif
	return at;
}

/*
 * Called by all threads of a block after a barrier.  It gives the verdict of one thread to all.
 * The next call begins with a barrier too, so all threads have read the word before it is written
 * again.  If several threads store a verdict, any one of them remains.
 */
ORIEL_DEV_OUT int ori_block_verdict(int gives, int verdict)
{
	if (gives)
		ori_block_words()->verdict = verdict;
	__syncthreads();
	return ori_block_words()->verdict;
}

ORIEL_DEV uint32_t ori_warp_mask(uint32_t lanes)
{
	return 0xffffffffu >> (32u - lanes); /* 1 to 32 of them */
}
#endif

/*
 * Group barrier that gives the leader's verdict, and `*value` if wanted, to all threads.
 *
 * [GROUP1] release and acquire among the group's threads; partner: [GROUP1] of the others.  What
 * any thread of the group wrote before it is visible to all of them after it.  CUDA: bar.sync or
 * bar.warp.sync.  CPU: the barrier of src/device/cpu/group.c.  Without it the leader's [SIG1] would
 * publish only its own stores.  The peer would then miss the data of the other threads.
 */
ORIEL_DEV int ori_group_agree_value(struct oriel_group g, int verdict, uint64_t *value)
{
	/* On a GPU a block always uses the barrier: its size is known only at run time. */
	if ((!ORIEL_ON_GPU || g.scope == ORIEL_GROUP_THREAD) && g.size == 1)
		return verdict;
#if ORIEL_ON_GPU
	if (g.scope == ORIEL_GROUP_WARP) {
		uint32_t mask = ori_warp_mask(g.size);

		__syncwarp(mask);
		verdict = __shfl_sync(mask, verdict, 0);
		if (value)
			*value = __shfl_sync(mask, (unsigned long long)*value, 0);
		return verdict;
	}
	/*
	 * The common case needs one barrier.  It tells whether there is a verdict, but not which.
	 */
	if (!value)
		return __syncthreads_or(g.thread == 0 && verdict) ?
			       ori_block_verdict(g.thread == 0, verdict) :
			       0;
	__syncthreads();
	if (g.thread == 0)
		ori_block_words()->value = *value;
	verdict = ori_block_verdict(g.thread == 0, verdict);
	*value = ori_block_words()->value;
	return verdict;
#else
	return oriel_cpu_group_agree(g.shared, &g, verdict, value);
#endif
}

ORIEL_DEV int ori_group_agree(struct oriel_group g, int verdict)
{
	return ori_group_agree_value(g, verdict, NULL);
}

/*
 * The same, [GROUP1], if any thread may have a verdict: all get the first one found.  On the CPU
 * only the leader has one.
 */
ORIEL_DEV int ori_group_agree_any(struct oriel_group g, int verdict)
{
#if ORIEL_ON_GPU
	if (g.scope == ORIEL_GROUP_THREAD)
		return verdict;
	if (g.scope == ORIEL_GROUP_WARP) {
		uint32_t mask = ori_warp_mask(g.size), failed;

		__syncwarp(mask);
		failed = __ballot_sync(mask, verdict != 0);
		return failed ? __shfl_sync(mask, verdict, __ffs((int)failed) - 1) : 0;
	}
	return __syncthreads_or(verdict) ? ori_block_verdict(verdict != 0, verdict) : 0;
#else
	return ori_group_agree(g, verdict);
#endif
}

/* The same, [GROUP1]: does any thread have the flag?  On the CPU only the leader's counts. */
ORIEL_DEV int ori_group_any(struct oriel_group g, int flag)
{
#if ORIEL_ON_GPU
	if (g.scope == ORIEL_GROUP_THREAD)
		return flag;
	if (g.scope == ORIEL_GROUP_BLOCK)
		return __syncthreads_or(flag);
	__syncwarp(ori_warp_mask(g.size));
	return __any_sync(ori_warp_mask(g.size), flag);
#else
	return ori_group_agree(g, flag);
#endif
}

/*
 * How many threads of a group share the work on its peers ("lanes").  On CUDA these are the threads
 * of the first warp; on the CPU only the leader.
 */
ORIEL_DEV uint32_t ori_group_lanes(struct oriel_group g)
{
	return !ORIEL_ON_GPU ? 1u : g.size < 32u ? g.size : 32u;
}

/*
 * Called by all lanes.  Each gets the first status that is not 0.  What any lane saw before the
 * call, all lanes see after it.
 */
ORIEL_DEV int ori_lanes_status(uint32_t lanes, int err)
{
#if ORIEL_ON_GPU
	if (lanes > 1) {
		uint32_t mask = ori_warp_mask(lanes), failed;

		__syncwarp(mask);
		failed = __ballot_sync(mask, err != 0);
		return failed ? __shfl_sync(mask, err, __ffs((int)failed) - 1) : 0;
	}
#endif
	(void)lanes;
	return err;
}

/* Called by all lanes: is `flag` set on any of them? */
ORIEL_DEV int ori_lanes_any(uint32_t lanes, int flag)
{
#if ORIEL_ON_GPU
	if (lanes > 1)
		return __any_sync(ori_warp_mask(lanes), flag);
#endif
	(void)lanes;
	return flag;
}

/*
 * Called by all lanes: the sum of their `have`.  *any tells whether a lane has a status that is not
 * 0.  A GPU adds 32-bit values of 32 lanes in one step.  So three independent steps add 27, 27 and
 * 10 bits of the number, and the third carries the flag above its 10 bits.
 */
ORIEL_DEV uint64_t ori_lanes_sum(uint32_t lanes, uint64_t have, int err, int *any)
{
#if ORIEL_ON_GPU
	if (lanes > 1) {
		uint32_t mask = ori_warp_mask(lanes), low, middle, high;
		uint32_t flag = err ? 1u << 16 : 0;

		low = __reduce_add_sync(mask, (uint32_t)have & 0x7ffffffu);
		middle = __reduce_add_sync(mask, (uint32_t)(have >> 27) & 0x7ffffffu);
		high = __reduce_add_sync(mask, (uint32_t)(have >> 54) | flag);
		*any = (int)(high >> 16);
		return low + ((uint64_t)middle << 27) + ((uint64_t)high << 54);
	}
#endif
	(void)lanes;
	*any = err;
	return have;
}

/* Called by all lanes: the sum of their `have`, below 2^32. */
ORIEL_DEV uint32_t ori_lanes_sum32(uint32_t lanes, uint32_t have)
{
#if ORIEL_ON_GPU
	if (lanes > 1)
		return __reduce_add_sync(ori_warp_mask(lanes), have);
#endif
	(void)lanes;
	return have;
}

/* [GROUP1] without a verdict.  Returns 0, or (CPU) ORIEL_EABORTED if a thread never arrived. */
ORIEL_DEV int oriel_group_sync(struct oriel_group g)
{
#if ORIEL_ON_GPU
	if (g.scope == ORIEL_GROUP_BLOCK)
		__syncthreads();
	else if (g.scope == ORIEL_GROUP_WARP)
		__syncwarp(ori_warp_mask(g.size));
	return 0;
#else
	return ori_group_agree(g, 0);
#endif
}

/* ---- what a kernel returned ------------------------------------------------------------------ */

/*
 * Called by every thread whose body returned a status other than 0.  It is not inlined, because
 * kernels that succeed never call it.  The claim is an atomic on the device's own memory: a GPU's
 * atomics on host memory are not atomic for the host's processor.
 */
ORIEL_DEV_OUT void ori_kernel_failed(ORI_VALUE(oriel_launch_dev) launch, uint32_t block, int status)
{
	struct oriel_kernel_report *host;
	uint64_t taken;

	if (!launch.report)
		return;
	host = (struct oriel_kernel_report *)((uint8_t *)launch.report + launch.host_shift);
	/*
	 * [RETURN3] acquire, system scope; partner [RETURN4] in comm/returned.c.  Without it the
	 * store below could come before the host's store of 0, which would then erase this report.
	 */
	taken = ori_load_acquire_sys(&host->taken);
	if (ori_compare_swap_acq_rel_sys(&launch.report->claims, taken, taken + 1) != taken)
		return;
	/*
	 * [RETURN1] release, system scope; partner [RETURN2] in comm/returned.c.  Publishes what
	 * this thread wrote before it failed, so a host that reads the status may read that too.
	 */
	ori_store_release_sys(&host->first, ORIEL_REPORT(status, launch.kernel, block));
}

#endif
