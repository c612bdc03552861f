/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/requester.c - the half of the software NIC that executes send queues.
 *
 * Starts WQEs in order, cuts them into packets, sends, and goes back when something was lost.
 * Never touches a CQ (cq.c).  Writes only local memory that a READ or atomic named for its answer
 * (answer.c).
 *
 * Called within soft_nic_step().
 */
#include <string.h>

#include "../../util/util.h"
#include "state.h"

#define DOUBLINGS 9u /* of the timeout, at most */

/* ---- starting -------------------------------------------------------------------------------- */

/*
 * Is CQE number r->bytes of CQ r->rkey still to come?  Then the queue pair is in that CQ's list
 * until it moves.
 */
static int waits(struct soft_nic *nic, struct soft_qp *qp, struct soft_request *r)
{
	struct soft_qp *on = r->rkey & SOFT_CQN_BIT ? soft_qp_find(nic, r->rkey & ~SOFT_CQN_BIT) :
						      NULL;

	if (!on || !on->attr.sq) {
		r->syndrome = ORI_SYNDROME_LOCAL_QP_OP;
		return 0;
	}
	if ((int32_t)((uint32_t)on->cq_count - 1 - r->bytes) >= 0)
		return 0;
	qp->waits_on = on;
	qp->next_waiter = on->waiters;
	on->waiters = qp;
	return 1;
}

/* Is there a started write that is not acknowledged yet? */
static int open_writes(const struct soft_qp *qp)
{
	for (uint64_t i = qp->una_idx; i < qp->next; i++) {
		const struct soft_request *r = soft_request_at(qp, i);

		if (r->kind == SOFT_KIND_WRITE && r->first_psn + r->packets > qp->acked)
			return 1;
	}
	return 0;
}

/* On a fabric on which writes overtake, READs and atomics leave after the writes before them. */
static int held(const struct soft_nic *nic, const struct soft_qp *qp, const struct soft_request *r)
{
	return nic->config.overtake && (r->kind == SOFT_KIND_READ || r->kind == SOFT_KIND_ATOMIC) &&
	       open_writes(qp);
}

/*
 * Fences.  On an ordered wire, a fence after everything needs no more than one after the answers.
 */
static int fenced(const struct soft_nic *nic, const struct soft_qp *qp,
		  const struct soft_request *r)
{
	switch (r->flags & 0xe0) {
	case ORI_WQE_FENCE:
	case 0x80: /* fence and small fence */
		return qp->open_reads != 0 || held(nic, qp, r);
	case ORI_WQE_STRONG:
		return nic->config.ooo ? qp->una_idx != qp->next : qp->open_reads != 0;
	default:
		return held(nic, qp, r);
	}
}

static void stall(struct soft_nic *nic, struct soft_qp *qp)
{
	nic->stats.stalls += !qp->stalled;
	qp->stalled = 1;
}

static int blocked(struct soft_nic *nic, struct soft_qp *qp, struct soft_request *r)
{
	if (r->syndrome)
		return 0;
	if (qp->waits_on)
		return 1;
	if (!fenced(nic, qp, r) && !(r->opcode == ORI_WQE_WAIT && waits(nic, qp, r)))
		return 0;
	stall(nic, qp);
	return 1;
}

static uint32_t read_requests(const struct soft_request *r)
{
	if (r->kind == SOFT_KIND_ATOMIC)
		return 1;
	return (r->packets + SOFT_READ_PACKETS - 1) / SOFT_READ_PACKETS;
}

/* Returns 1 when a WQE was started. */
static int start(struct soft_nic *nic, struct soft_qp *qp)
{
	struct soft_request *r;

	if (qp->failing || qp->next == qp->pi || qp->next - qp->ci >= qp->window)
		return 0;
	r = soft_request_at(qp, qp->next);
	if (!qp->taken)
		soft_fetch_wqe(nic, qp);
	if (nic->stalled || blocked(nic, qp, r))
		return 0;
	if (r->syndrome)
		qp->failing = 1;
	r->first_psn = qp->end_psn;
	qp->end_psn += r->packets;
	if (!r->syndrome && (r->kind == SOFT_KIND_READ || r->kind == SOFT_KIND_ATOMIC)) {
		r->first_read = qp->end_read;
		qp->end_read += read_requests(r);
		qp->open_reads++;
	}
	qp->taken = 0;
	qp->stalled = 0;
	qp->next++;
	nic->left--;
	return 1;
}

/* ---- sending --------------------------------------------------------------------------------- */

enum send_result {
	SEND_DONE,    /* a packet is on the wire */
	SEND_NOTHING, /* all started packets are sent */
	SEND_BLOCKED, /* an answer must come first */
	SEND_FULL,    /* try again in the next step */
};

/* The first packet at or after `psn` that must be sent (again). */
static uint64_t first_needed(const struct soft_qp *qp, const struct soft_request *r, uint64_t psn)
{
	uint64_t end = r->first_psn + r->packets, done = r->first_psn;

	if (r->kind == SOFT_KIND_WRITE)
		done = qp->acked < end ? qp->acked : end;
	else if (r->kind == SOFT_KIND_READ)
		done = r->got == r->bytes ? end : r->first_psn + r->got / r->packet_bytes;
	else if (r->answered)
		done = end;
	if (psn < r->first_psn)
		psn = r->first_psn;
	return psn > done ? psn : done;
}

static void header(const struct soft_qp *qp, struct soft_packet *p, uint32_t op, uint64_t psn)
{
	p->op_qpn = op << 24 | qp->remote_number;
	p->flags_psn = (uint32_t)psn & SOFT_PSN_MASK;
}

void soft_requester_fail(struct soft_nic *nic, struct soft_qp *qp, struct soft_request *r,
			 uint32_t syndrome)
{
	if (!r->syndrome)
		r->syndrome = (uint8_t)syndrome;
	qp->failing = 1;
	soft_activate(nic, qp);
}

static enum send_result send_write(struct soft_nic *nic, struct soft_qp *qp, struct soft_request *r,
				   uint64_t psn)
{
	uint64_t offset = (psn - r->first_psn) * r->packet_bytes;
	uint32_t left = r->bytes - (uint32_t)offset;
	uint32_t bytes = left < r->packet_bytes ? left : r->packet_bytes;
	struct soft_payload payload = { r->u.data, NULL, r->local + offset, r->lkey, bytes, 0 };
	const void *behind;
	struct soft_packet p;

	if (!r->inlined)
		payload.from = soft_mr_find(nic, r->lkey, qp->attr.pd, 0, payload.address, bytes,
					    &payload.mr);
	else
		payload.from = r->u.data + offset;
	if (!payload.from) {
		soft_requester_fail(nic, qp, r, ORI_SYNDROME_LOCAL_PROT);
		return SEND_BLOCKED;
	}
	if (!soft_place_may_carry(nic, qp, payload.mr, bytes))
		return SEND_FULL;
	header(qp, &p, SOFT_OP_WRITE, psn);
	if (left == bytes)
		p.flags_psn |= SOFT_PACKET_LAST << 24;
	p.address = r->remote + offset;
	p.u1.key = r->rkey;
	p.u2.packet_bytes = 0;
	if (soft_place_carry(nic, qp, &p, &payload, &behind)) {
		soft_requester_fail(nic, qp, r, ORI_SYNDROME_LOCAL_PROT);
		return SEND_BLOCKED;
	}
	if (!soft_send(nic, qp, &p, behind, behind ? bytes : 0))
		return SEND_FULL;
	qp->send_psn = psn + 1;
	return SEND_DONE;
}

/*
 * One request for up to SOFT_READ_PACKETS numbers.  When sent again, it asks for the missing ones.
 */
static enum send_result send_read(struct soft_nic *nic, struct soft_qp *qp, struct soft_request *r,
				  uint64_t psn)
{
	uint32_t at = (uint32_t)(psn - r->first_psn), group = at / SOFT_READ_PACKETS;
	uint32_t end = (group + 1) * SOFT_READ_PACKETS;
	uint64_t offset = (uint64_t)at * r->packet_bytes, stop;
	struct soft_packet p = { 0 };

	if (r->first_read + group >= qp->una_read + nic->config.max_reads)
		return SEND_BLOCKED;
	if (end > r->packets)
		end = r->packets;
	stop = (uint64_t)end * r->packet_bytes;
	header(qp, &p, SOFT_OP_READ, psn);
	p.bytes = (uint32_t)((stop < r->bytes ? stop : r->bytes) - offset);
	p.address = r->remote + offset;
	p.u1.key = r->rkey;
	p.u2.packet_bytes = r->packet_bytes;
	if (!soft_send(nic, qp, &p, NULL, 0))
		return SEND_FULL;
	qp->send_psn = r->first_psn + end;
	return SEND_DONE;
}

static enum send_result send_atomic(struct soft_nic *nic, struct soft_qp *qp,
				    const struct soft_request *r, uint64_t psn)
{
	uint32_t op = r->opcode == ORI_WQE_ATOMIC_FA ? SOFT_OP_FETCH_ADD : SOFT_OP_COMPARE_SWAP;
	struct soft_packet p = { 0 };

	if (r->first_read >= qp->una_read + nic->config.max_reads)
		return SEND_BLOCKED;
	header(qp, &p, op, psn);
	p.flags_psn |= SOFT_PACKET_LAST << 24;
	p.bytes = 8;
	p.address = r->remote;
	p.u1.key = r->rkey;
	p.u.atomic.swap_add = r->u.atomic.swap_add;
	p.u.atomic.compare = r->u.atomic.compare;
	if (!soft_send(nic, qp, &p, NULL, 0))
		return SEND_FULL;
	qp->send_psn = psn + 1;
	return SEND_DONE;
}

static enum send_result send_packet(struct soft_nic *nic, struct soft_qp *qp,
				    struct soft_request *r, uint64_t psn)
{
	enum send_result result;
	int again = psn < qp->sent_psn;

	if (psn - qp->una >= SOFT_WINDOW_PSN - SOFT_READ_PACKETS)
		return SEND_BLOCKED;
	if (r->kind == SOFT_KIND_WRITE)
		result = send_write(nic, qp, r, psn);
	else if (r->kind == SOFT_KIND_READ)
		result = send_read(nic, qp, r, psn);
	else
		result = send_atomic(nic, qp, r, psn);
	if (result != SEND_DONE)
		return result;
	qp->stalled = 0;
	nic->stats.retransmits += (uint64_t)again;
	qp->last_slot = nic->peers[qp->rank].tx.next;
	nic->timed[qp->slot / 64] |= 1ull << (qp->slot % 64);
	if (qp->send_psn > qp->sent_psn)
		qp->sent_psn = qp->send_psn;
	nic->left--;
	return SEND_DONE;
}

static enum send_result send_next(struct soft_nic *nic, struct soft_qp *qp)
{
	while (qp->send_idx < qp->next) {
		struct soft_request *r = soft_request_at(qp, qp->send_idx);
		uint64_t psn;

		if (r->syndrome)
			return SEND_BLOCKED;
		psn = first_needed(qp, r, qp->send_psn);
		if (psn < r->first_psn + r->packets)
			return send_packet(nic, qp, r, psn);
		qp->send_idx++;
	}
	qp->send_psn = qp->end_psn;
	return SEND_NOTHING;
}

void soft_requester_run(struct soft_nic *nic, struct soft_qp *qp)
{
	enum send_result result = SEND_NOTHING;

	while (nic->left > 0 && qp->state == SOFT_RTS) {
		result = send_next(nic, qp);
		if (result == SEND_DONE)
			continue;
		if (result != SEND_NOTHING)
			break;
		if (!start(nic, qp))
			break;
		soft_requester_advance(qp);
	}
	if (qp->state != SOFT_RTS)
		return;
	if (result == SEND_FULL) {
		stall(nic, qp);
		nic->timed[qp->slot / 64] |=
			1ull << (qp->slot % 64); /* a full wire may mean a dead peer */
	}
	if (result == SEND_FULL || nic->left <= 0)
		soft_activate(nic, qp);
}

/* ---- what is answered ------------------------------------------------------------------------ */

static int answered(const struct soft_qp *qp, const struct soft_request *r)
{
	if (r->syndrome)
		return 0;
	switch (r->kind) {
	case SOFT_KIND_WRITE:
		return qp->acked >= r->first_psn + r->packets;
	case SOFT_KIND_READ:
		return r->got == r->bytes;
	case SOFT_KIND_ATOMIC:
		return r->answered;
	default:
		return 1;
	}
}

/* Moves the position inside the first request that is not fully answered. */
static void advance_inside(struct soft_qp *qp, const struct soft_request *r)
{
	uint64_t una;

	if (!r->packets)
		return; /* it failed before it began */
	una = first_needed(qp, r, r->first_psn);
	if (una > qp->una)
		qp->una = una;
	if (r->kind == SOFT_KIND_READ)
		qp->una_read = r->first_read + r->got / r->packet_bytes / SOFT_READ_PACKETS;
}

/*
 * If a peer was slow with the last request, the next one will not be fast either.  So the timeout
 * shrinks step by step, as it grew.  Otherwise all open READs would be sent again and again to a
 * device that takes long for each.
 */
void soft_requester_progress(struct soft_qp *qp)
{
	qp->retries = 0;
	qp->doublings -= qp->doublings > 0;
	qp->deadline_ns = 0;
}

void soft_requester_advance(struct soft_qp *qp)
{
	uint64_t before = qp->una;

	while (qp->una_idx < qp->next) {
		const struct soft_request *r = soft_request_at(qp, qp->una_idx);

		if (!answered(qp, r)) {
			advance_inside(qp, r);
			break;
		}
		if (r->kind == SOFT_KIND_READ || r->kind == SOFT_KIND_ATOMIC)
			qp->una_read = r->first_read + read_requests(r);
		qp->una = r->first_psn + r->packets;
		qp->una_idx++;
	}
	if (qp->send_idx < qp->una_idx)
		qp->send_idx = qp->una_idx;
	if (qp->send_psn < qp->una)
		qp->send_psn = qp->una;
	if (qp->una != before)
		soft_requester_progress(qp);
}

void soft_requester_go_back(struct soft_nic *nic, struct soft_qp *qp)
{
	qp->send_psn = qp->una;
	qp->send_idx = qp->una_idx;
	soft_activate(nic, qp);
}

/* ---- the timer ------------------------------------------------------------------------------- */

static uint64_t timeout_ns(const struct soft_nic *nic, const struct soft_qp *qp)
{
	return nic->config.retry_timeout_ns << qp->doublings;
}

static void arm(const struct soft_nic *nic, struct soft_qp *qp, uint64_t now_ns)
{
	qp->deadline_ns = now_ns + timeout_ns(nic, qp);
	qp->taken_slot = nic->peers[qp->rank].tx.taken;
	qp->unread_slot = 0;
}

/*
 * May an unread answer be in the wire?  A step with device copies may take long.  Only packets that
 * are there now count, so a peer that sends for ever cannot delay the timer for ever.
 */
static int unread(struct soft_qp *qp, const struct soft_peer *peer)
{
	if (!soft_rx_peek(&peer->rx))
		return 0;
	if (!qp->unread_slot)
		qp->unread_slot = peer->rx.next + SOFT_RING_SLOTS;
	return peer->rx.next < qp->unread_slot;
}

/* Logs what the syndrome does not tell: the peer has stopped, or it cannot do what was asked. */
static void give_up(struct soft_nic *nic, struct soft_qp *qp, int passed)
{
	struct soft_request *r = soft_request_at(qp, qp->una_idx);

	ori_log(ORI_LOG_WARN,
		"software NIC of rank %d: no answer from rank %d to WQE %llu of queue pair 0x%x, %u "
		"bytes in %u packets, after %u timeouts; %s",
		nic->rank, qp->rank, (unsigned long long)qp->una_idx, qp->number, r->bytes,
		r->packets, qp->retries,
		passed ? "the peer has taken all packets, so it cannot execute them or its "
			 "answers are lost" :
			 "the peer has not taken the packets, so its NIC has stopped");
	soft_requester_fail(nic, qp, r, ORI_SYNDROME_RETRY_EXCEEDED);
}

void soft_requester_timer(struct soft_nic *nic, struct soft_qp *qp, uint64_t now_ns)
{
	struct soft_peer *peer = &nic->peers[qp->rank];
	int passed;

	if (qp->state != SOFT_RTS || qp->una == qp->end_psn) {
		nic->timed[qp->slot / 64] &= ~(1ull << (qp->slot % 64));
		return;
	}
	if (!qp->deadline_ns) {
		arm(nic, qp, now_ns);
		return;
	}
	if (now_ns < qp->deadline_ns || unread(qp, peer))
		return;
	passed = soft_tx_passed(&peer->tx, qp->last_slot);
	if (!passed && peer->tx.taken > qp->taken_slot) {
		arm(nic, qp, now_ns); /* it is slow, but makes progress towards our packets */
		return;
	}
	qp->retries++;
	qp->doublings += qp->doublings < DOUBLINGS;
	if (qp->retries > nic->config.retry_count) {
		give_up(nic, qp, passed);
		return;
	}
	arm(nic, qp, now_ns);
	/*
	 * Packets that the peer has not taken are not lost: sending them again would only fill the
	 * wire.  Packets of other queue pairs behind them mean nothing: the wire may never be
	 * empty.
	 */
	if (passed)
		soft_requester_go_back(nic, qp);
}
