/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/cq.c - completions: one CQE per WQE, in order, and the flush after an error.
 *
 * Owns ci and the CQ memory.  requester.c decides which WQE is answered, by moving una_idx.  Called
 * within soft_nic_step().
 */
#include <string.h>

#include "state.h"

/*
 * For the device, CQE number n is valid if the opcode is not INVALID and the owner bit is that of
 * n's lap.  Fresh entries have neither.
 */
void soft_cq_init(struct soft_qp *qp)
{
	uint32_t depth = qp->attr.depth;

	memset(qp->attr.cq, 0, depth * sizeof(struct ori_cqe));
	for (uint32_t i = 0; i < depth; i++) {
		uint64_t n = qp->attr.first_index + i;
		struct ori_cqe *cqe = &qp->attr.cq[n & (depth - 1)];

		cqe->op_own = (uint8_t)(ORI_CQE_INVALID << 4 | !((n / depth) & 1));
	}
}

void soft_cq_unwait(struct soft_qp *qp)
{
	struct soft_qp **at;

	if (!qp->waits_on)
		return;
	at = &qp->waits_on->waiters;
	while (*at != qp)
		at = &(*at)->next_waiter;
	*at = qp->next_waiter;
	qp->waits_on = qp->next_waiter = NULL;
}

static void activate_waiters(struct soft_nic *nic, struct soft_qp *qp)
{
	while (qp->waiters) {
		struct soft_qp *w = qp->waiters;

		soft_cq_unwait(w);
		soft_activate(nic, w);
	}
}

static void finish(struct soft_nic *nic, struct soft_qp *qp, uint32_t word)
{
	struct ori_cqe *cqe = &qp->attr.cq[qp->cq_count & (qp->attr.depth - 1)];

	if (nic->world.completed)
		nic->world.completed(nic->world.ctx, qp->number, qp->cq_count);
	/*
	 * [SOFT4] release, sys; partner [QUEUE5] in ori_queue_poll().  Publishes the body, the
	 * answer of a READ or atomic placed before, and that the WQE's slot and source are free.
	 * Without it a poster could count the WQE as complete and read the old answer.
	 */
	__atomic_store_n((uint32_t *)(void *)&cqe->wqe_counter, word, __ATOMIC_RELEASE);
	qp->torn = 0;
	qp->cq_count++;
	nic->stats.cqes++;
	if (qp->waiters)
		activate_waiters(nic, qp);
}

static void write_cqe(struct soft_nic *nic, struct soft_qp *qp, uint32_t opcode, uint32_t syndrome,
		      uint32_t bytes)
{
	uint32_t mask = qp->attr.depth - 1;
	struct ori_cqe body = { .syndrome = (uint8_t)syndrome }, *cqe;
	uint32_t code = syndrome ? ORI_CQE_REQ_ERR : ORI_CQE_REQ;
	uint32_t owner = (uint32_t)(qp->cq_count / qp->attr.depth) & 1, word;
	uint32_t count = ori_be32(bytes);

	body.opcode_qpn = ori_be32(opcode << 24 | qp->number);
	memcpy(&body.reserved0[0x2c], &count, sizeof(count));
	cqe = &qp->attr.cq[qp->cq_count & mask];
	memcpy(cqe, &body, offsetof(struct ori_cqe, wqe_counter));
	/* wqe_counter (big-endian), signature 0, op_own: in memory order */
	word = ori_be16((uint16_t)qp->ci) | (code << 4 | owner) << 24;
	if (nic->config.torn_cqe > 0 && soft_chance(nic, nic->config.torn_cqe)) {
		qp->torn = 1;
		qp->torn_word = word;
		return;
	}
	finish(nic, qp, word);
}

static void retire(struct soft_nic *nic, struct soft_qp *qp)
{
	qp->ci++;
	nic->outstanding--;
	nic->left--;
}

static void complete(struct soft_nic *nic, struct soft_qp *qp)
{
	const struct soft_request *r = soft_request_at(qp, qp->ci);
	uint32_t ce = r->flags >> 2 & 3;
	uint32_t syndrome = qp->shadow ? soft_strict_check_slot(nic, qp, qp->ci) : 0;

	if (syndrome) {
		soft_cq_error(nic, qp, syndrome);
		return;
	}
	if (ce >= 2)
		write_cqe(nic, qp, r->opcode, 0,
			  r->kind == SOFT_KIND_READ || r->kind == SOFT_KIND_ATOMIC ? r->bytes : 0);
	retire(nic, qp);
}

/*
 * The comm is told before the CQE is visible.  So a thread that sees an error in the queue finds
 * its cause in the comm.
 */
static void tell(struct soft_nic *nic, struct soft_qp *qp, uint32_t syndrome)
{
	if (qp->told)
		return;
	qp->told = 1;
	if (nic->world.error)
		nic->world.error(nic->world.ctx, qp->number, qp->ci, syndrome);
}

static uint32_t opcode_of(const struct soft_qp *qp, uint64_t idx)
{
	if (idx < qp->next || (idx == qp->next && qp->taken))
		return soft_request_at(qp, idx)->opcode;
	return ori_be32(qp->attr.sq[idx & (qp->attr.depth - 1)].ctrl.opmod_idx_opcode) & 0xff;
}

static void flush_one(struct soft_nic *nic, struct soft_qp *qp)
{
	uint32_t syndrome = qp->error ? qp->error : ORI_SYNDROME_FLUSHED;

	tell(nic, qp, syndrome);
	qp->error = 0;
	write_cqe(nic, qp, opcode_of(qp, qp->ci), syndrome, 0);
	retire(nic, qp);
}

void soft_cq_error(struct soft_nic *nic, struct soft_qp *qp, uint32_t syndrome)
{
	if (qp->state == SOFT_ERR)
		return;
	qp->state = SOFT_ERR;
	qp->error = (uint8_t)syndrome;
	qp->deadline_ns = 0;
	if (!qp->refusal)
		qp->refusal = ORI_SYNDROME_REMOTE_OP;
	soft_cq_unwait(qp);
	soft_activate(nic, qp);
}

void soft_cq_refuse(struct soft_nic *nic, struct soft_qp *qp, uint32_t syndrome)
{
	nic->stats.refused++;
	qp->refusal = (uint8_t)syndrome;
	qp->refusal_due = 1;
	soft_cq_error(nic, qp,
		      syndrome == ORI_SYNDROME_REMOTE_OP ? ORI_SYNDROME_LOCAL_PROT :
							   ORI_SYNDROME_LOCAL_ACCESS);
}

static void flush(struct soft_nic *nic, struct soft_qp *qp)
{
	if (qp->ci == qp->pi) {
		/*
		 * There is nothing to complete: the error belongs to the next index, and no WQE has
		 * it.
		 */
		tell(nic, qp, qp->error ? qp->error : ORI_SYNDROME_FLUSHED);
		qp->error = 0;
	}
	while (nic->left > 0 && !qp->torn && qp->ci < qp->pi)
		flush_one(nic, qp);
	/* Started WQEs are void.  The indices stay in order for the next flush. */
	if (qp->next < qp->ci) {
		qp->next = qp->ci;
		qp->taken = 0;
	}
	qp->una_idx = qp->send_idx = qp->next;
	if (qp->torn || qp->ci < qp->pi)
		soft_activate(nic, qp);
}

void soft_cq_run(struct soft_nic *nic, struct soft_qp *qp)
{
	int full = qp->next - qp->ci >= qp->window;

	if (qp->torn)
		finish(nic, qp, qp->torn_word);
	while (nic->left > 0 && !qp->torn && qp->state == SOFT_RTS && qp->ci < qp->una_idx)
		complete(nic, qp);
	if (qp->state == SOFT_RTS && qp->ci < qp->next && !qp->torn) {
		uint32_t syndrome = soft_request_at(qp, qp->ci)->syndrome;

		if (syndrome)
			soft_cq_error(nic, qp, syndrome);
	}
	if (qp->state == SOFT_ERR)
		flush(nic, qp);
	else if (qp->torn || qp->ci < qp->una_idx)
		soft_activate(nic, qp);
	else if (full && qp->next - qp->ci < qp->window)
		/* WQEs may start now, and perhaps no further answer comes to activate the queue */
		soft_activate(nic, qp);
}
