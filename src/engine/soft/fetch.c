/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/fetch.c - from doorbell to decoded WQE; believes nothing that the device wrote.
 *
 * A doorbell is taken when its number is the queue pair's and its index moves forward within the
 * room there is.  A WQE is copied once and judged by the copy.  What is wrong gets LOCAL_QP_OP (or
 * LOCAL_LENGTH, LOCAL_PROT); strict mode says so in the log too, for no correct device writes it.
 *
 * Called within soft_nic_step().
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../../util/util.h"
#include "state.h"

/* Returns LOCAL_QP_OP, after a line in strict mode. */
static uint32_t violation(const struct soft_nic *nic, const struct soft_qp *qp, uint64_t idx,
			  const char *fmt, ...) ORI_PRINTF(4, 5);

static uint32_t violation(const struct soft_nic *nic, const struct soft_qp *qp, uint64_t idx,
			  const char *fmt, ...)
{
	char text[160];
	va_list args;

	if (nic->config.strict) {
		va_start(args, fmt);
		vsnprintf(text, sizeof(text), fmt, args);
		va_end(args);
		ori_log(ORI_LOG_ERROR, "software NIC of rank %d: queue pair 0x%x, WQE %llu: %s",
			nic->rank, qp->number, (unsigned long long)idx, text);
	}
	return ORI_SYNDROME_LOCAL_QP_OP;
}

/* ---- doorbells ------------------------------------------------------------------------------- */

/*
 * The device must see an error, so one is given even when it rang nothing that can be taken: the
 * first index without CQE then counts as rung.
 */
static void refuse(struct soft_nic *nic, struct soft_qp *qp)
{
	if (qp->ci == qp->pi) {
		qp->pi++;
		nic->outstanding++;
	}
	soft_cq_error(nic, qp, ORI_SYNDROME_LOCAL_QP_OP);
}

static void accept(struct soft_nic *nic, struct soft_qp *qp, uint32_t index)
{
	uint32_t advance = (uint16_t)(index - (uint32_t)qp->pi);
	uint32_t used = (uint32_t)(qp->pi - qp->ci);

	if (!advance)
		return;
	if (advance > qp->attr.depth - used) {
		if (qp->state == SOFT_ERR)
			return;
		violation(nic, qp, qp->pi,
			  "doorbell 0x%04x goes back, or past the %u blocks of the queue", index,
			  qp->attr.depth);
		refuse(nic, qp);
		return;
	}
	qp->pi += advance;
	nic->outstanding += advance;
	soft_activate(nic, qp);
}

static uint32_t read_record(const struct soft_qp *qp)
{
	/*
	 * [N4] acquire; partner: the device's release store of the record, before the doorbell's.
	 */
	return ori_be32(__atomic_load_n(&qp->attr.record[1], __ATOMIC_ACQUIRE)) & 0xffff;
}

static void accept_record(struct soft_nic *nic, struct soft_qp *qp, uint32_t rung)
{
	uint32_t index = read_record(qp);

	if (nic->config.strict && qp->state == SOFT_RTS && (int16_t)(uint16_t)(index - rung) < 0) {
		violation(nic, qp, qp->pi, "doorbell record 0x%04x is behind the doorbell 0x%04x",
			  index, rung);
		refuse(nic, qp);
		return;
	}
	accept(nic, qp, index);
}

void soft_fetch_late_record(struct soft_nic *nic, struct soft_qp *qp)
{
	if (!qp->late)
		return;
	if (nic->steps < qp->late_step) {
		soft_activate(nic, qp);
		return;
	}
	qp->late = 0;
	accept(nic, qp, read_record(qp));
}

static int uses_record(struct soft_nic *nic)
{
	if (nic->config.dbr_mode == SOFT_DBR_RANDOM)
		return soft_random(nic) >> 63 ? 1 : 0;
	return nic->config.dbr_mode == SOFT_DBR_RECORD;
}

static void ring(struct soft_nic *nic, struct soft_qp *qp, uint64_t value)
{
	uint32_t number = ori_be32((uint32_t)(value >> 32)) >> 8;
	uint32_t index = ori_be32((uint32_t)value) >> 8 & 0xffff;

	if (number != qp->number) {
		if (qp->state == SOFT_ERR)
			return;
		violation(nic, qp, qp->pi, "doorbell rings queue pair 0x%x", number);
		refuse(nic, qp);
	} else if (!qp->attr.record) {
		accept(nic, qp, index);
	} else if (nic->config.dbr_late > 0 && soft_chance(nic, nic->config.dbr_late)) {
		qp->late = 1;
		qp->late_step = nic->steps + 1 + soft_random(nic) % 16;
		soft_activate(nic, qp);
	} else if (uses_record(nic)) {
		accept_record(nic, qp, index);
	} else {
		accept(nic, qp, index);
	}
}

void soft_fetch_doorbells(struct soft_nic *nic)
{
	for (uint32_t i = 0; i < nic->bell_count; i++) {
		struct soft_bell *bell = &nic->bells[i];

		/* relaxed: only "is it another value?"; the answer is read again below */
		if (__atomic_load_n(bell->word, __ATOMIC_RELAXED) == bell->seen)
			continue;
		if (bell->qp->state == SOFT_RESET)
			continue;
		/*
		 * [N5] acquire; partner: the device's release store of the doorbell, after its
		 * WQEs.
		 */
		bell->seen = __atomic_load_n(bell->word, __ATOMIC_ACQUIRE);
		ring(nic, bell->qp, bell->seen);
	}
}

/* ---- WQEs ------------------------------------------------------------------------------------ */

static void warn_reserved(const struct soft_nic *nic, const struct soft_qp *qp,
			  const struct ori_wqe *w)
{
	const struct ori_wqe_ctrl *c = &w->ctrl;

	if (nic->config.strict && (c->signature || c->dci_stream[0] || c->dci_stream[1] || c->imm))
		ori_log(ORI_LOG_WARN,
			"software NIC of rank %d: queue pair 0x%x, WQE %llu: a reserved field is not 0",
			nic->rank, qp->number, (unsigned long long)qp->next);
}

static uint32_t check_ctrl(const struct soft_nic *nic, const struct soft_qp *qp,
			   const struct ori_wqe *w)
{
	uint32_t word = ori_be32(w->ctrl.opmod_idx_opcode);
	uint32_t number = ori_be32(w->ctrl.qpn_ds) >> 8;

	if ((word >> 8 & 0xffff) != (qp->next & 0xffff))
		return violation(nic, qp, qp->next, "the block holds index 0x%04x",
				 word >> 8 & 0xffff);
	if (number != qp->number)
		return violation(nic, qp, qp->next, "the block is of queue pair 0x%x", number);
	if (word >> 24)
		return violation(nic, qp, qp->next, "opmod 0x%x", word >> 24);
	if (w->ctrl.fm_ce_se >> 5 > 4)
		return violation(nic, qp, qp->next, "fence mode %u", w->ctrl.fm_ce_se >> 5);
	warn_reserved(nic, qp, w);
	return 0;
}

/* Segments (ds) that an opcode may have. */
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

static void take_raddr(struct soft_request *r, const struct ori_wqe_raddr *a)
{
	r->remote = ori_be64(a->address);
	r->rkey = ori_be32(a->key);
}

static uint32_t take_inline(const struct soft_nic *nic, const struct soft_qp *qp,
			    struct soft_request *r, const struct ori_wqe *w, uint32_t segments)
{
	uint32_t bytes = ori_be32(w->u.inl.payload.byte_count) & ~ORI_WQE_INLINE_FLAG;

	if (!bytes || bytes > (segments - 2) * 16 - 4)
		return violation(nic, qp, qp->next, "%u bytes inline in %u segments", bytes,
				 segments);
	r->inlined = 1;
	r->bytes = bytes;
	memcpy(r->u.data, w->u.inl.payload.bytes, bytes);
	return 0;
}

/*
 * Local memory of a WQE: length, key, protection domain, range, and for answers the right to write.
 */
static uint32_t take_data(const struct soft_nic *nic, const struct soft_qp *qp,
			  struct soft_request *r, const struct ori_wqe_data *d, uint32_t access)
{
	const struct soft_mr *mr;

	r->bytes = ori_be32(d->byte_count);
	r->lkey = ori_be32(d->key);
	r->local = ori_be64(d->address);
	if (!r->bytes || r->bytes > ORI_WQE_MESSAGE_BYTES)
		return violation(nic, qp, qp->next, "a data segment of %u bytes", r->bytes);
	if (r->kind == SOFT_KIND_ATOMIC && r->bytes != 8)
		return ORI_SYNDROME_LOCAL_LENGTH;
	if (!soft_mr_find(nic, r->lkey, qp->attr.pd, access, r->local, r->bytes, &mr))
		return ORI_SYNDROME_LOCAL_PROT;
	r->packet_bytes = r->kind == SOFT_KIND_WRITE ? soft_place_packet_bytes(nic, qp, mr) :
						       nic->config.mtu;
	return 0;
}

static uint32_t take_write(const struct soft_nic *nic, const struct soft_qp *qp,
			   struct soft_request *r, const struct ori_wqe *w, uint32_t segments)
{
	uint32_t syndrome;

	r->kind = SOFT_KIND_WRITE;
	take_raddr(r, &w->u.rdma.raddr);
	if (ori_be32(w->u.rdma.data.byte_count) & ORI_WQE_INLINE_FLAG) {
		syndrome = take_inline(nic, qp, r, w, segments);
		r->packet_bytes = nic->config.mtu;
	} else {
		syndrome = take_data(nic, qp, r, &w->u.rdma.data, 0);
	}
	if (!syndrome)
		r->packets = (r->bytes + r->packet_bytes - 1) / r->packet_bytes;
	return syndrome;
}

static uint32_t take_read(const struct soft_nic *nic, const struct soft_qp *qp,
			  struct soft_request *r, const struct ori_wqe *w)
{
	uint32_t syndrome;

	r->kind = SOFT_KIND_READ;
	take_raddr(r, &w->u.rdma.raddr);
	syndrome = take_data(nic, qp, r, &w->u.rdma.data, SOFT_LOCAL_WRITE);
	if (!syndrome)
		r->packets = (r->bytes + r->packet_bytes - 1) / r->packet_bytes;
	return syndrome;
}

static uint32_t take_atomic(const struct soft_nic *nic, const struct soft_qp *qp,
			    struct soft_request *r, const struct ori_wqe *w)
{
	r->kind = SOFT_KIND_ATOMIC;
	take_raddr(r, &w->u.atomic.raddr);
	r->u.atomic.swap_add = ori_be64(w->u.atomic.operands.swap_add);
	r->u.atomic.compare = ori_be64(w->u.atomic.operands.compare);
	r->packets = 1;
	return take_data(nic, qp, r, &w->u.atomic.result, SOFT_LOCAL_WRITE);
}

static uint32_t take_wait(const struct soft_nic *nic, const struct soft_qp *qp,
			  struct soft_request *r, const struct ori_wqe *w)
{
	r->bytes = ori_be32(w->u.wait.index);
	r->rkey = ori_be32(w->u.wait.number);
	if (!qp->attr.core_direct)
		return violation(nic, qp, qp->next, "WAIT on a queue pair that may not");
	return 0;
}

static uint32_t decode(const struct soft_nic *nic, const struct soft_qp *qp, struct soft_request *r,
		       const struct ori_wqe *w)
{
	uint32_t syndrome = check_ctrl(nic, qp, w);
	uint32_t segments = ori_be32(w->ctrl.qpn_ds) & 0x3f;
	int inlined = r->opcode == ORI_WQE_RDMA_WRITE &&
		      ori_be32(w->u.rdma.data.byte_count) & ORI_WQE_INLINE_FLAG;

	if (syndrome)
		return syndrome;
	if (!segments_fit(r->opcode, segments, inlined))
		return violation(nic, qp, qp->next, "opcode 0x%02x with %u segments", r->opcode,
				 segments);
	switch (r->opcode) {
	case ORI_WQE_RDMA_WRITE:
		return take_write(nic, qp, r, w, segments);
	case ORI_WQE_RDMA_READ:
		return take_read(nic, qp, r, w);
	case ORI_WQE_ATOMIC_CS:
	case ORI_WQE_ATOMIC_FA:
		return take_atomic(nic, qp, r, w);
	case ORI_WQE_WAIT:
		return take_wait(nic, qp, r, w);
	case ORI_WQE_DUMP:
		/*
		 * nothing of ours is ever held back from memory, so the check is all there is to do
		 */
		return take_data(nic, qp, r, &w->u.dump, 0);
	default:
		return 0;
	}
}

void soft_fetch_wqe(struct soft_nic *nic, struct soft_qp *qp)
{
	struct soft_request *r = soft_request_at(qp, qp->next);
	struct ori_wqe w = qp->attr.sq[qp->next & (qp->attr.depth - 1)];
	uint32_t fault;

	memset(r, 0, offsetof(struct soft_request, u));
	r->opcode = (uint8_t)ori_be32(w.ctrl.opmod_idx_opcode);
	r->flags = w.ctrl.fm_ce_se;
	if (qp->shadow)
		qp->shadow[qp->next & (qp->window - 1)] = w;
	nic->stats.wqes++;
	r->syndrome = (uint8_t)decode(nic, qp, r, &w);
	fault = soft_faults_take(nic, r->lkey);
	if (fault && !r->syndrome)
		r->syndrome = (uint8_t)fault;
	if (r->syndrome)
		r->packets = 0;
	qp->taken = 1;
}

uint32_t soft_fetch_check_slot(const struct soft_nic *nic, const struct soft_qp *qp, uint64_t idx)
{
	const void *now = &qp->attr.sq[idx & (qp->attr.depth - 1)];
	const void *then = &qp->shadow[idx & (qp->window - 1)];

	if (!memcmp(now, then, ORI_WQE_BYTES))
		return 0;
	return violation(nic, qp, idx, "the block was written again before its completion");
}
