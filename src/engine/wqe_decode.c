/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/wqe_decode.c - the rules for the bytes of a WQE.  The device is not trusted.
 *
 * No state.  Called by the engines, on any thread that drives them.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../util/util.h"
#include "wqe_decode.h"

struct reason {
	char *text;
	size_t bytes;
};

static uint32_t wrong(const struct reason *why, const char *fmt, ...) ORI_PRINTF(2, 3);

static uint32_t wrong(const struct reason *why, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why->text, why->bytes, fmt, args);
	va_end(args);
	return ORI_SYNDROME_LOCAL_QP_OP;
}

static uint32_t check_ctrl(const struct ori_wqe_ctrl *c, uint64_t index, uint32_t qpn,
			   const struct reason *why)
{
	uint32_t word = ori_be32(c->opmod_idx_opcode), number = ori_be32(c->qpn_ds) >> 8;

	if ((word >> 8 & 0xffff) != (index & 0xffff))
		return wrong(why, "the block holds index 0x%04x", word >> 8 & 0xffff);
	if (number != qpn)
		return wrong(why, "the block is of queue pair 0x%x", number);
	if (word >> 24)
		return wrong(why, "opmod 0x%x", word >> 24);
	if (c->fm_ce_se >> 5 > 4)
		return wrong(why, "fence mode %u", c->fm_ce_se >> 5);
	return 0;
}

/* The number of segments (ds) that an opcode may have. */
static int segments_fit(uint32_t opcode, uint32_t segments, int inlined)
{
	switch (opcode) {
	case ORI_WQE_NOP:
		return segments >= 1 && segments <= 4;
	case ORI_WQE_WAIT:
	case ORI_WQE_DUMP:
		return segments == 2;
	case ORI_WQE_RDMA_WRITE:
		return segments == 3 || (inlined && segments == 4);
	case ORI_WQE_RDMA_READ:
		return segments == 3;
	case ORI_WQE_ATOMIC_CS:
	case ORI_WQE_ATOMIC_FA:
		return segments == 4;
	default:
		return 0;
	}
}

static void take_raddr(struct ori_wqe_op *op, const struct ori_wqe_raddr *a)
{
	op->remote = ori_be64(a->address);
	op->rkey = ori_be32(a->key);
}

static uint32_t take_inline(struct ori_wqe_op *op, const struct ori_wqe_inline *payload,
			    uint32_t segments, const struct reason *why)
{
	uint32_t bytes = ori_be32(payload->byte_count) & ~ORI_WQE_INLINE_FLAG;

	if (!bytes || bytes > (segments - 2) * 16 - 4)
		return wrong(why, "%u bytes inline in %u segments", bytes, segments);
	op->inlined = 1;
	op->bytes = bytes;
	memcpy(op->u.data, payload->bytes, bytes);
	return 0;
}

static uint32_t take_data(struct ori_wqe_op *op, const struct ori_wqe_data *d,
			  const struct reason *why)
{
	op->bytes = ori_be32(d->byte_count);
	op->lkey = ori_be32(d->key);
	op->local = ori_be64(d->address);
	if (!op->bytes || op->bytes > ORI_WQE_MESSAGE_BYTES)
		return wrong(why, "a data segment of %u bytes", op->bytes);
	if (op->kind == ORI_WQE_KIND_ATOMIC && op->bytes != 8) {
		wrong(why, "an atomic with a result of %u bytes", op->bytes);
		return ORI_SYNDROME_LOCAL_LENGTH;
	}
	return 0;
}

static uint32_t take_atomic(struct ori_wqe_op *op, const struct ori_wqe *w,
			    const struct reason *why)
{
	op->kind = ORI_WQE_KIND_ATOMIC;
	take_raddr(op, &w->u.atomic.raddr);
	op->u.atomic.swap_add = ori_be64(w->u.atomic.operands.swap_add);
	op->u.atomic.compare = ori_be64(w->u.atomic.operands.compare);
	return take_data(op, &w->u.atomic.result, why);
}

static uint32_t take_body(struct ori_wqe_op *op, const struct ori_wqe *w, uint32_t segments,
			  int inlined, const struct reason *why)
{
	switch (op->opcode) {
	case ORI_WQE_RDMA_WRITE:
		op->kind = ORI_WQE_KIND_WRITE;
		take_raddr(op, &w->u.rdma.raddr);
		return inlined ? take_inline(op, &w->u.inl.payload, segments, why) :
				 take_data(op, &w->u.rdma.data, why);
	case ORI_WQE_RDMA_READ:
		op->kind = ORI_WQE_KIND_READ;
		take_raddr(op, &w->u.rdma.raddr);
		return take_data(op, &w->u.rdma.data, why);
	case ORI_WQE_ATOMIC_CS:
	case ORI_WQE_ATOMIC_FA:
		return take_atomic(op, w, why);
	case ORI_WQE_WAIT:
		op->bytes = ori_be32(w->u.wait.index);
		op->rkey = ori_be32(w->u.wait.number);
		return 0;
	case ORI_WQE_DUMP:
		return take_data(op, &w->u.dump, why);
	default:
		return 0;
	}
}

uint32_t ori_wqe_decode(const struct ori_wqe *w, uint64_t index, uint32_t qpn,
			struct ori_wqe_op *op, char *why_text, size_t why_bytes)
{
	const struct reason why = { why_text, why_bytes };
	const struct ori_wqe_ctrl *c = &w->ctrl;
	uint32_t segments = ori_be32(c->qpn_ds) & 0x3f, syndrome;
	int inlined;

	memset(op, 0, offsetof(struct ori_wqe_op, u));
	op->opcode = (uint8_t)ori_be32(c->opmod_idx_opcode);
	op->flags = c->fm_ce_se;
	op->reserved = c->signature || c->dci_stream[0] || c->dci_stream[1] || c->imm;
	syndrome = check_ctrl(c, index, qpn, &why);
	if (syndrome)
		return syndrome;
	inlined = op->opcode == ORI_WQE_RDMA_WRITE &&
		  ori_be32(w->u.rdma.data.byte_count) & ORI_WQE_INLINE_FLAG;
	if (!segments_fit(op->opcode, segments, inlined))
		return wrong(&why, "opcode 0x%02x with %u segments", op->opcode, segments);
	return take_body(op, w, segments, inlined, &why);
}
