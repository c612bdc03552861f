/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/wqe_decode.h - checks one WQE by its bytes alone.  All engines that read work queues share
 * these rules.
 *
 * The caller checks everything that needs a table: keys, ranges, CQ numbers, the right to WAIT.
 */
#ifndef ORI_WQE_DECODE_H
#define ORI_WQE_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include <oriel/device/wqe.h>

enum ori_wqe_kind {
	ORI_WQE_KIND_LOCAL,
	ORI_WQE_KIND_WRITE,
	ORI_WQE_KIND_READ,
	ORI_WQE_KIND_ATOMIC
};

/* In host byte order.  Members that the opcode does not use are 0. */
struct ori_wqe_op {
	uint64_t remote, local;
	uint32_t bytes; /* WAIT: number of the CQE */
	uint32_t rkey;  /* WAIT: number of the CQ */
	uint32_t lkey;
	uint8_t opcode;
	uint8_t kind;     /* ori_wqe_kind */
	uint8_t flags;    /* fm_ce_se */
	uint8_t inlined;  /* payload is in u.data */
	uint8_t reserved; /* a field that must be 0 is not: a warning, not an error */
	union {
		uint8_t data[ORI_WQE_INLINE_BYTES];
		struct {
			uint64_t swap_add, compare;
		} atomic;
	} u;
};

/*
 * Decodes `w`, a copy that no other thread writes, taken from `index` of queue pair `qpn`.  Returns
 * 0, or LOCAL_QP_OP (LOCAL_LENGTH for the result of an atomic) with the reason in `why`.  Sets
 * opcode and flags in all cases.
 */
uint32_t ori_wqe_decode(const struct ori_wqe *w, uint64_t index, uint32_t qpn,
			struct ori_wqe_op *op, char *why, size_t why_bytes);

#endif
