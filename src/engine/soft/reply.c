/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/reply.c - what the responder sends back: ACKs, NAKs, values of atomics, data of
 * READs.
 *
 * Executes nothing: responder.c has recorded the pending answers, in the queue pair and its replay
 * cache.
 *
 * Called within soft_nic_step().
 */
#include "state.h"

/*
 * Up to which number the requester may assume that all is executed and answered.  An ACK must not
 * pass the answer of a READ that is still to be sent: the requester would take that answer for
 * lost.
 */
static uint64_t executed(const struct soft_nic *nic, const struct soft_qp *qp)
{
	uint64_t upto = qp->expected;

	for (uint32_t i = 0; qp->pending && i < nic->config.max_reads; i++) {
		const struct soft_replay *e = &qp->replay[i];

		if (e->pending && e->psn < upto)
			upto = e->psn;
	}
	return upto;
}

static int send_answer(struct soft_nic *nic, struct soft_qp *qp, uint32_t op, uint64_t psn,
		       uint32_t syndrome)
{
	struct soft_packet p = { 0 };

	p.op_qpn = op << 24 | qp->remote_number;
	p.flags_psn = (uint32_t)psn & SOFT_PSN_MASK;
	p.u1.ack = (uint32_t)executed(nic, qp) & SOFT_PSN_MASK;
	p.u2.syndrome = syndrome;
	return soft_send(nic, qp, &p, NULL, 0);
}

static int send_value(struct soft_nic *nic, struct soft_qp *qp, struct soft_replay *e)
{
	struct soft_packet p = { 0 };

	soft_set_pending(qp, e, 0); /* the ACK in this packet covers the packet itself */
	p.op_qpn = (uint32_t)SOFT_OP_ATOMIC_VALUE << 24 | qp->remote_number;
	p.flags_psn = (uint32_t)e->psn & SOFT_PSN_MASK;
	p.u1.ack = (uint32_t)executed(nic, qp) & SOFT_PSN_MASK;
	p.u.value = e->value;
	if (soft_send(nic, qp, &p, NULL, 0))
		return 1;
	soft_set_pending(qp, e, 1);
	return 0;
}

/*
 * The key was revoked after the first answer.  Most likely the requester has that answer, and both
 * sides know; then it ignores this packet.  Otherwise it learns why there is no answer.  This is no
 * error here.
 */
static int send_revoked(struct soft_nic *nic, struct soft_qp *qp, struct soft_replay *e,
			uint64_t psn)
{
	soft_set_pending(qp, e, 0);
	if (send_answer(nic, qp, SOFT_OP_NAK, psn, ORI_SYNDROME_REMOTE_ACCESS))
		return 1;
	soft_set_pending(qp, e, 1);
	return 0;
}

/* A READ that was accepted and cannot be answered is refused from that point on. */
static int give_up(struct soft_nic *nic, struct soft_qp *qp, struct soft_replay *e, uint64_t psn,
		   uint32_t syndrome)
{
	soft_set_pending(qp, e, 0);
	if (qp->state == SOFT_RTS) {
		qp->expected = psn;
		soft_cq_refuse(nic, qp, syndrome);
	}
	return 1;
}

/*
 * Sends one piece of a READ's answer: as much as one number carries, or less if the region cannot
 * be shared.
 */
static int send_data(struct soft_nic *nic, struct soft_qp *qp, struct soft_replay *e)
{
	uint32_t inside = e->sent % e->packet_bytes, bytes = e->bytes - e->sent, most;
	uint64_t psn = e->psn + e->sent / e->packet_bytes, address = e->address + e->sent;
	struct soft_payload payload = { NULL, NULL, address, e->key, 0, e->again };
	struct soft_packet p = { 0 };
	const void *behind;

	payload.from = soft_mr_find(nic, e->key, qp->attr.pd, SOFT_REMOTE_READ, address, bytes,
				    &payload.mr);
	if (!payload.from)
		return e->again ? send_revoked(nic, qp, e, psn) :
				  give_up(nic, qp, e, psn, ORI_SYNDROME_REMOTE_ACCESS);
	if (bytes > e->packet_bytes - inside)
		bytes = e->packet_bytes - inside;
	/*
	 * By reference, as much at once as the requester asks for: it knows the cost of its copies.
	 */
	if (!soft_place_is_shared(nic, qp, payload.mr)) {
		most = soft_place_packet_bytes(nic, qp, payload.mr);
		bytes = bytes < most ? bytes : most;
	}
	if (!soft_place_may_carry(nic, qp, payload.mr, bytes))
		return 0;
	payload.bytes = bytes;
	soft_set_pending(qp, e, e->sent + bytes < e->bytes);
	p.op_qpn = (uint32_t)SOFT_OP_READ_DATA << 24 | qp->remote_number;
	p.flags_psn = (uint32_t)psn & SOFT_PSN_MASK;
	p.u1.ack = (uint32_t)executed(nic, qp) & SOFT_PSN_MASK;
	p.u2.offset = inside;
	if (soft_place_carry(nic, qp, &p, &payload, &behind))
		return give_up(nic, qp, e, psn, ORI_SYNDROME_REMOTE_OP);
	if (!soft_send(nic, qp, &p, behind, behind ? bytes : 0)) {
		soft_set_pending(qp, e, 1);
		return 0;
	}
	e->sent += bytes;
	return 1;
}

/* Sends answers in the order of the requests.  Returns 0 if the wire is full. */
static int send_pending(struct soft_nic *nic, struct soft_qp *qp)
{
	uint32_t room = nic->config.max_reads;

	for (uint32_t i = 0; i < room && qp->pending; i++) {
		struct soft_replay *e = &qp->replay[(qp->replay_next + i) % room];

		while (e->pending) {
			if (nic->left <= 0 || e->held)
				return 0;
			if (!(e->op == SOFT_OP_READ ? send_data : send_value)(nic, qp, e))
				return 0;
			nic->left--;
		}
		if (!qp->pending) {
			qp->ack_due = 0; /* the last answer contained the ACK */
			qp->unacked = 0;
		}
	}
	return 1;
}

/*
 * Is an ACK needed now, or do more packets of this peer wait that the same ACK can cover?  It does
 * not wait for packets to come: the driving thread may have seen its signal in this step, and may
 * leave.
 */
static int wants_ack(const struct soft_nic *nic, const struct soft_qp *qp)
{
	if (qp->unacked >= SOFT_ACK_EVERY)
		return 1;
	return qp->ack_due && !soft_rx_peek(&nic->peers[qp->rank].rx);
}

void soft_reply_run(struct soft_nic *nic, struct soft_qp *qp)
{
	int full = !send_pending(nic, qp);

	if (!full && qp->refusal_due) {
		full = !send_answer(nic, qp, SOFT_OP_NAK, qp->expected, qp->refusal);
		qp->refusal_due = (uint8_t)full;
		nic->stats.naks += !full;
	}
	if (!full && qp->nak_due) {
		full = !send_answer(nic, qp, SOFT_OP_NAK, qp->expected, 0);
		qp->nak_due = (uint8_t)full;
		nic->stats.naks += !full;
	}
	if (!full && wants_ack(nic, qp)) {
		full = !send_answer(nic, qp, SOFT_OP_ACK, qp->expected, 0);
		if (!full) {
			qp->ack_due = 0;
			qp->unacked = 0;
		}
	}
	if (full || qp->pending || qp->ack_due)
		soft_activate(nic, qp);
}
