/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/alltoallv_plan.h - the plan of an all-to-all-v: how it is divided into blocks, threads
 * and chunks for each kind of peer.
 *
 * A plan only affects speed.  Ranks with different plans still exchange correctly, and every call
 * may use another plan.  coll/tune makes plans; coll/alltoallv copies one into the kernel's
 * argument.
 */
#ifndef ORI_KERNELS_ALLTOALLV_PLAN_H
#define ORI_KERNELS_ALLTOALLV_PLAN_H

#include <stdint.h>

/* Index of ori_a2a_plan.kind; self counts as a mapped peer. */
#define ORI_PLAN_MAPPED 0
#define ORI_PLAN_QUEUED 1
#define ORI_PLAN_KINDS 2

struct ori_a2a_setting {
	uint32_t blocks; /* for each peer of this kind, at least 1; the CPU runs them in turn */
	uint32_t warps;  /* threads of a block in 32s; CPU: threads of a block */
	uint64_t chunk;  /* bytes of one copy or one put, a multiple of 16 */
};

struct ori_a2a_plan {
	struct ori_a2a_setting kind[ORI_PLAN_KINDS];
	uint32_t small;   /* bytes per peer up to which data carries its own mark; 0: never */
	uint32_t uniform; /* all peers are mapped: only kind[ORI_PLAN_MAPPED] is used */
	uint32_t cores;   /* CPU: blocks of this rank that get a core each, at least 1; CUDA: 0 */
	/*
	 * Bytes of one block from which blocks are divided by the sizes that the kernel finds; 0:
	 * every peer gets the same number.  For mapped peers only.
	 */
	uint32_t spread;
};

#endif
