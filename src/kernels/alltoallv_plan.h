/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/alltoallv_plan.h - the words of a plan: how an all-to-all-v is cut into blocks, threads
 * and chunks for each kind of peer.
 *
 * A plan is about speed alone: ranks that run by different plans still exchange correctly, and
 * every call may have another.  coll/tune makes plans, coll/alltoallv puts one into the kernel's
 * argument.
 */
#ifndef ORI_KERNELS_ALLTOALLV_PLAN_H
#define ORI_KERNELS_ALLTOALLV_PLAN_H

#include <stdint.h>

/* Index of ori_a2a_plan.kind; self goes with the mapped peers. */
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
	uint32_t small;    /* bytes per peer up to which data carries its own mark; 0: never */
	uint32_t uniform;  /* all peers are mapped: kind[ORI_PLAN_MAPPED] is all there is */
	uint32_t cores;    /* CPU: blocks of this rank that find a core each, at least 1; CUDA: 0 */
	uint32_t reserved; /* 0; plans are compared as bytes */
};

#endif
