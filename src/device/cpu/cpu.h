/* SPDX-License-Identifier: BSD-3-Clause */
/* device/cpu/cpu.h - what the files of the CPU device share. */
#ifndef ORI_CPU_H
#define ORI_CPU_H

#include <stdint.h>

#include "../device.h"

#define ORI_CPU_THREADS_MAX 32  /* of a block */
#define ORI_CPU_LAUNCH_MAX 4096 /* threads of one launch */

/*
 * The barrier of a block's threads (group.c), with the writer of each field.
 * arrived:    arriving threads; the last one of a round sets it back to 0
 * generation: the last thread of a round; moves by one per round
 * sleepers:   threads that sleep on `generation`
 * broken:     set once, when a thread of the block did not come before the deadline or had left
 * left:       threads whose kernel has returned
 * verdict, value: the leader before it arrives, in the slot of the round's parity.  All threads
 *             read them after the round.  The slot is written again two rounds later.  By then
 *             all threads have read it, because they arrived at the round in between.
 */
struct ori_block {
	uint32_t arrived;
	uint32_t generation;
	uint32_t sleepers;
	uint32_t broken;
	uint32_t left;
	uint32_t reserved;
	uint64_t timeout_ns;
	int32_t verdict[2];
	uint64_t value[2];
	uint8_t pad[ORIEL_LINE_BYTES - 56];
};

void ori_cpu_thread_set(const struct oriel_cpu_thread *);
/* Does this thread run a kernel?  Reports name calls of host code by other names. */
int ori_cpu_in_kernel(void);
void ori_cpu_kernel_depth_add(int levels);
/* A thread of the block has left the kernel, so threads that still wait for it must give up. */
void ori_cpu_group_leave(struct ori_block *);

/* launch.c: the pool of worker threads. */
struct ori_pool;
int ori_pool_create(uint64_t timeout_ns, struct ori_pool **);
void ori_pool_destroy(struct ori_pool *);
/* outcome: NULL if the kernel's status is not needed; otherwise all of it is written. */
int ori_pool_launch(struct ori_pool *, const struct oriel_kernel *, int nblocks, int nthreads,
		    const void *args, size_t args_bytes, struct ori_outcome *outcome);

/* memory.c */
int ori_cpu_alloc(struct ori_device *, size_t bytes, struct ori_allocation *);
void ori_cpu_free(struct ori_device *, struct ori_allocation *);
int ori_cpu_describe(struct ori_device *, const void *ptr, size_t bytes, struct ori_allocation *);
int ori_cpu_import(struct ori_device *, const struct ori_allocation *theirs, void **base);
void ori_cpu_unimport(struct ori_device *, const struct ori_allocation *theirs, void *base);
void ori_cpu_discard(struct ori_device *, struct ori_allocation *, size_t offset, size_t bytes);
int ori_cpu_is_memory(struct ori_device *, const void *ptr, size_t bytes);

#endif
