/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/wqe.h - the bytes of mlx5 work queues: one-block send WQEs, CQEs, doorbells.
 *
 * Only formats: no queue state, no memory order.  Fields are big-endian.  Every WQE here fills
 * exactly one 64-byte block.  So a WQE's index is its block's index, and the CQ can have one entry
 * per WQE.  tests/unit/wqe_golden.c compares each struct and encoder with infiniband/mlx5dv.h if
 * that is installed.
 */
#ifndef ORIEL_DEVICE_WQE_H
#define ORIEL_DEVICE_WQE_H

#include "port.h"

#define ORI_WQE_BYTES 64u

/* Opcodes of send WQEs. */
#define ORI_WQE_NOP 0x00u
#define ORI_WQE_RDMA_WRITE 0x08u
#define ORI_WQE_WAIT 0x0fu
#define ORI_WQE_RDMA_READ 0x10u
#define ORI_WQE_ATOMIC_CS 0x11u
#define ORI_WQE_ATOMIC_FA 0x12u
#define ORI_WQE_DUMP 0x23u

/* fm_ce_se of the control segment. */
#define ORI_WQE_CQ_UPDATE 0x08u /* a CQE for this WQE, always */
#define ORI_WQE_FENCE 0x40u     /* after earlier reads and atomics of this queue */
#define ORI_WQE_STRONG 0x60u    /* after everything earlier of this queue */

#define ORI_WQE_INLINE_FLAG 0x80000000u
#define ORI_WQE_INLINE_BYTES 28u
/* Longest message one WQE carries (2^30); longer transfers are split. */
#define ORI_WQE_MESSAGE_BYTES (1ull << 30)

/* Opcodes (high nibble of op_own) and syndromes of CQEs. */
#define ORI_CQE_REQ 0x0u
#define ORI_CQE_REQ_ERR 0xdu
#define ORI_CQE_INVALID 0xfu

/* X(name, value, text) */
#define ORI_SYNDROME_LIST(X)                                                                       \
	X(LOCAL_LENGTH, 0x01, "local length error")                                                \
	X(LOCAL_QP_OP, 0x02, "local queue operation error")                                        \
	X(LOCAL_PROT, 0x04, "local protection error")                                              \
	X(FLUSHED, 0x05, "flushed after an earlier error")                                         \
	X(BAD_RESPONSE, 0x10, "bad response")                                                      \
	X(LOCAL_ACCESS, 0x11, "local access error")                                                \
	X(REMOTE_INVALID, 0x12, "remote invalid request")                                          \
	X(REMOTE_ACCESS, 0x13, "remote access error")                                              \
	X(REMOTE_OP, 0x14, "remote operation error")                                               \
	X(RETRY_EXCEEDED, 0x15, "transport retry count exceeded: the peer does not answer")        \
	X(RNR_EXCEEDED, 0x16, "receiver-not-ready retry count exceeded")                           \
	X(ABORTED, 0x22, "aborted")

#define ORI_SYNDROME_DEFINE(name, value, text) ORI_SYNDROME_##name = (value),
enum ori_syndrome { ORI_SYNDROME_LIST(ORI_SYNDROME_DEFINE) };
#undef ORI_SYNDROME_DEFINE

struct ori_wqe_ctrl {
	uint32_t opmod_idx_opcode; /* opmod 31:24, wqe index 23:8, opcode 7:0 */
	uint32_t qpn_ds;           /* qpn 31:8, 16-byte segments 5:0 */
	uint8_t signature;
	uint8_t dci_stream[2];
	uint8_t fm_ce_se;
	uint32_t imm;
};

struct ori_wqe_raddr {
	uint64_t address;
	uint32_t key;
	uint32_t reserved;
};

struct ori_wqe_data {
	uint32_t byte_count;
	uint32_t key;
	uint64_t address;
};

struct ori_wqe_atomic {
	uint64_t swap_add;
	uint64_t compare;
};

struct ori_wqe_wait {
	uint64_t reserved;
	uint32_t index;  /* CQE number, 0-based, that must have been written */
	uint32_t number; /* of the CQ */
};

struct ori_wqe_inline {
	uint32_t byte_count; /* | ORI_WQE_INLINE_FLAG */
	uint8_t bytes[ORI_WQE_INLINE_BYTES];
};

/* One block.  The opcode tells which members are valid. */
struct ori_wqe {
	struct ori_wqe_ctrl ctrl;
	union {
		struct {
			struct ori_wqe_raddr raddr;
			struct ori_wqe_data data;
		} rdma;
		struct {
			struct ori_wqe_raddr raddr;
			struct ori_wqe_inline payload;
		} inl;
		struct {
			struct ori_wqe_raddr raddr;
			struct ori_wqe_atomic operands;
			struct ori_wqe_data result;
		} atomic;
		struct ori_wqe_wait wait;
		struct ori_wqe_data dump;
		uint64_t words[6];
	} u;
};

struct ori_cqe {
	uint8_t reserved0[0x34];
	uint8_t hw_error;
	uint8_t hw_type;
	uint8_t vendor_syndrome; /* this and the next: valid in an error CQE */
	uint8_t syndrome;
	uint32_t opcode_qpn; /* send opcode 31:24, qpn 23:0 */
	uint16_t wqe_counter;
	uint8_t signature;
	uint8_t op_own; /* opcode 7:4, owner 0 */
};

static_assert(sizeof(struct ori_wqe) == 64, "one block");
static_assert(offsetof(struct ori_wqe, u) == 16, "layout");
static_assert(sizeof(struct ori_cqe) == 64, "layout");
static_assert(offsetof(struct ori_cqe, syndrome) == 0x37, "layout");
static_assert(offsetof(struct ori_cqe, opcode_qpn) == 0x38, "layout");
static_assert(offsetof(struct ori_cqe, wqe_counter) == 0x3c, "layout");
static_assert(offsetof(struct ori_cqe, op_own) == 0x3f, "layout");

ORIEL_DEV uint32_t ori_be32(uint32_t v)
{
#if ORIEL_ON_GPU
	return __byte_perm(v, 0, 0x0123);
#else
	return __builtin_bswap32(v);
#endif
}

ORIEL_DEV uint64_t ori_be64(uint64_t v)
{
#if ORIEL_ON_GPU
	return ((uint64_t)ori_be32((uint32_t)v) << 32) | ori_be32((uint32_t)(v >> 32));
#else
	return __builtin_bswap64(v);
#endif
}

ORIEL_DEV uint16_t ori_be16(uint16_t v)
{
	return (uint16_t)((v >> 8) | (v << 8));
}

/* ---- encoders: `index` is the 64-bit WQE index; the queue sees its low 16 bits --------------- */

ORIEL_DEV void ori_wqe_ctrl_set(struct ori_wqe *w, uint64_t index, uint32_t qpn, uint32_t opcode,
				uint32_t segments, uint32_t flags)
{
	w->ctrl.opmod_idx_opcode = ori_be32(((uint32_t)(index & 0xffff) << 8) | opcode);
	w->ctrl.qpn_ds = ori_be32((qpn << 8) | segments);
	w->ctrl.signature = 0;
	w->ctrl.dci_stream[0] = 0;
	w->ctrl.dci_stream[1] = 0;
	w->ctrl.fm_ce_se = (uint8_t)(ORI_WQE_CQ_UPDATE | flags);
	w->ctrl.imm = 0;
}

ORIEL_DEV void ori_wqe_raddr_set(struct ori_wqe_raddr *r, uint64_t address, uint32_t key)
{
	r->address = ori_be64(address);
	r->key = ori_be32(key);
	r->reserved = 0;
}

ORIEL_DEV void ori_wqe_data_set(struct ori_wqe_data *d, uint64_t address, uint32_t key,
				uint32_t bytes)
{
	d->byte_count = ori_be32(bytes);
	d->key = ori_be32(key);
	d->address = ori_be64(address);
}

/* opcode: ORI_WQE_RDMA_WRITE or _READ; bytes 1 .. ORI_WQE_MESSAGE_BYTES. */
ORIEL_DEV void ori_wqe_rdma(struct ori_wqe *w, uint64_t index, uint32_t qpn, uint32_t opcode,
			    uint64_t remote, uint32_t rkey, uint64_t local, uint32_t lkey,
			    uint32_t bytes, uint32_t flags)
{
	ori_wqe_ctrl_set(w, index, qpn, opcode, 3, flags);
	ori_wqe_raddr_set(&w->u.rdma.raddr, remote, rkey);
	ori_wqe_data_set(&w->u.rdma.data, local, lkey, bytes);
}

/* 1 to 28 bytes carried in the WQE. */
ORIEL_DEV void ori_wqe_write_inline(struct ori_wqe *w, uint64_t index, uint32_t qpn,
				    uint64_t remote, uint32_t rkey, const void *value,
				    uint32_t bytes, uint32_t flags)
{
	ori_wqe_ctrl_set(w, index, qpn, ORI_WQE_RDMA_WRITE, bytes <= 12 ? 3 : 4, flags);
	ori_wqe_raddr_set(&w->u.inl.raddr, remote, rkey);
	w->u.inl.payload.byte_count = ori_be32(bytes | ORI_WQE_INLINE_FLAG);
	memcpy(w->u.inl.payload.bytes, value, bytes);
}

/* The old value goes to (result, lkey), in host order. */
ORIEL_DEV void ori_wqe_fetch_add(struct ori_wqe *w, uint64_t index, uint32_t qpn, uint64_t remote,
				 uint32_t rkey, uint64_t value, uint64_t result, uint32_t lkey,
				 uint32_t flags)
{
	ori_wqe_ctrl_set(w, index, qpn, ORI_WQE_ATOMIC_FA, 4, flags);
	ori_wqe_raddr_set(&w->u.atomic.raddr, remote, rkey);
	w->u.atomic.operands.swap_add = ori_be64(value);
	w->u.atomic.operands.compare = 0;
	ori_wqe_data_set(&w->u.atomic.result, result, lkey, 8);
}

ORIEL_DEV void ori_wqe_compare_swap(struct ori_wqe *w, uint64_t index, uint32_t qpn,
				    uint64_t remote, uint32_t rkey, uint64_t expected,
				    uint64_t value, uint64_t result, uint32_t lkey, uint32_t flags)
{
	ori_wqe_ctrl_set(w, index, qpn, ORI_WQE_ATOMIC_CS, 4, flags);
	ori_wqe_raddr_set(&w->u.atomic.raddr, remote, rkey);
	w->u.atomic.operands.swap_add = ori_be64(value);
	w->u.atomic.operands.compare = ori_be64(expected);
	ori_wqe_data_set(&w->u.atomic.result, result, lkey, 8);
}

/* Stops its queue until CQ `cqn` has written CQE number `cqe` (0-based, 32 bits, modular). */
ORIEL_DEV void ori_wqe_wait(struct ori_wqe *w, uint64_t index, uint32_t qpn, uint32_t cqn,
			    uint32_t cqe)
{
	ori_wqe_ctrl_set(w, index, qpn, ORI_WQE_WAIT, 2, 0);
	w->u.wait.reserved = 0;
	w->u.wait.index = ori_be32(cqe);
	w->u.wait.number = ori_be32(cqn);
}

/* The NIC reads local memory and discards it.  Afterwards its own earlier writes are in memory. */
ORIEL_DEV void ori_wqe_dump(struct ori_wqe *w, uint64_t index, uint32_t qpn, uint64_t local,
			    uint32_t lkey, uint32_t bytes)
{
	ori_wqe_ctrl_set(w, index, qpn, ORI_WQE_DUMP, 2, 0);
	ori_wqe_data_set(&w->u.dump, local, lkey, bytes);
}

ORIEL_DEV void ori_wqe_nop(struct ori_wqe *w, uint64_t index, uint32_t qpn, uint32_t flags)
{
	ori_wqe_ctrl_set(w, index, qpn, ORI_WQE_NOP, 1, flags);
}

/* ---- doorbells ------------------------------------------------------------------------------- */

/* Doorbell record, word 1: how far the send queue is filled. */
ORIEL_DEV uint32_t ori_doorbell_record(uint64_t next_index)
{
	return ori_be32((uint32_t)(next_index & 0xffff));
}

/*
 * The 8 bytes of a doorbell: {be32 index << 8, be32 qpn << 8} in memory order, little-endian
 * machine.
 */
ORIEL_DEV uint64_t ori_doorbell_value(uint64_t next_index, uint32_t qpn)
{
	return (uint64_t)ori_be32((uint32_t)(next_index & 0xffff) << 8) |
	       ((uint64_t)ori_be32(qpn << 8) << 32);
}

#endif
