/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/wqe_decode.h - one WQE, judged by its bytes alone: the rules every engine that reads work
 * queues shares.
 *
 * What needs a table (keys, ranges, CQ numbers, the right to WAIT) is the caller's to check.
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

/* In host order.  Members that the opcode does not have are 0. */
struct ori_wqe_op {
	uint64_t remote, local;
	uint32_t bytes; /* WAIT: number of the CQE */
	uint32_t rkey;  /* WAIT: number of the CQ */
	uint32_t lkey;
	uint8_t opcode;
	uint8_t kind;     /* ori_wqe_kind */
	uint8_t flags;    /* fm_ce_se */
	uint8_t inlined;  /* payload is in u.data */
	uint8_t reserved; /* a field that must be 0 is not: worth a warning, no error */
	union {
		uint8_t data[ORI_WQE_INLINE_BYTES];
		struct {
			uint64_t swap_add, compare;
		} atomic;
	} u;
};

/*
 * Decodes `w`, a copy that nobody else writes, which stands at `index` of queue pair `qpn`.
 * 0, or LOCAL_QP_OP (LOCAL_LENGTH for the result of an atomic) with the reason in `why`.
 * opcode and flags are set in any case.
 */
uint32_t ori_wqe_decode(const struct ori_wqe *w, uint64_t index, uint32_t qpn,
			struct ori_wqe_op *op, char *why, size_t why_bytes);

#endif
