/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/answer.c - what comes back to the requester: ACK, NAK, data of READs, values of
 * atomics.
 *
 * Every answer says how far the responder has come.  If that is past a READ or atomic whose own
 * answer is missing, the answer was lost, and the request is sent again.  The responder has kept
 * the answer.
 *
 * Called within soft_nic_step(), for packets from the wire: all fields are untrusted.
 */
#include "state.h"

/* The request with this number, among those that were sent and are not fully answered. */
static struct soft_request *find(const struct soft_qp *qp, uint64_t psn)
{
	if (psn < qp->una || psn >= qp->sent_psn)
		return NULL;
	for (uint64_t idx = qp->una_idx; idx < qp->next; idx++) {
		struct soft_request *r = soft_request_at(qp, idx);

		if (psn >= r->first_psn && psn < r->first_psn + r->packets)
			return r;
	}
	return NULL;
}

/*
 * Goes back at most once for the same loss.  If the resent packets are lost too, the timer goes
 * back.
 */
static void lost(struct soft_nic *nic, struct soft_qp *qp)
{
	if (qp->lost_psn == qp->una + 1)
		return;
	qp->lost_psn = qp->una + 1;
	soft_requester_go_back(nic, qp);
}

/* Returns 0 if the number is impossible. */
static int take_ack(struct soft_qp *qp, uint32_t ack)
{
	uint64_t upto = soft_psn_near(qp->acked, ack);

	if (upto > qp->sent_psn)
		return 0;
	if (upto > qp->acked)
		qp->acked = upto;
	return 1;
}

static void take_nak(struct soft_nic *nic, struct soft_qp *qp, const struct soft_packet *p)
{
	uint32_t syndrome = p->u2.syndrome;
	struct soft_request *r;

	if (!syndrome) {
		/*
		 * An old NAK has no new information: the packets that it misses were sent again
		 * since.
		 */
		if (soft_psn_near(qp->una, p->u1.ack) >= qp->una && qp->una < qp->sent_psn)
			soft_requester_go_back(nic, qp);
		return;
	}
	r = find(qp, soft_psn_near(qp->una, soft_packet_psn(p)));
	if (!r) {
		nic->stats.refused++;
		return;
	}
	if (syndrome != ORI_SYNDROME_REMOTE_INVALID && syndrome != ORI_SYNDROME_REMOTE_ACCESS &&
	    syndrome != ORI_SYNDROME_REMOTE_OP)
		syndrome = ORI_SYNDROME_BAD_RESPONSE;
	soft_requester_fail(nic, qp, r, syndrome);
}

static void take_value(struct soft_nic *nic, struct soft_qp *qp, struct soft_request *r,
		       const struct soft_packet *p)
{
	const struct soft_mr *mr;
	void *to;

	if (r->kind != SOFT_KIND_ATOMIC || r->answered || r->syndrome)
		return;
	to = soft_mr_find(nic, r->lkey, qp->attr.pd, SOFT_LOCAL_WRITE, r->local, 8, &mr);
	if (!to || soft_place_move(nic, to, &p->u.value, 8, mr->attr.device)) {
		soft_requester_fail(nic, qp, r, ORI_SYNDROME_LOCAL_PROT);
		return;
	}
	r->answered = 1;
	qp->open_reads--;
}

/* ---- data of READs --------------------------------------------------------------------------- */

static int flip_if(struct soft_qp *qp, uint64_t psn, int set)
{
	uint64_t *word = &qp->got_ahead[psn % SOFT_WINDOW_PSN / 64], bit = 1ull << (psn % 64);

	if (set ? *word & bit : !(*word & bit))
		return 0;
	*word ^= bit;
	return 1;
}

static uint32_t number_bytes(const struct soft_request *r, uint32_t number)
{
	uint32_t left = r->bytes - number * r->packet_bytes;

	return left < r->packet_bytes ? left : r->packet_bytes;
}

/* Bytes up to `upto` have arrived.  Also counts data behind them that arrived before. */
static void move_got(struct soft_qp *qp, struct soft_request *r, uint32_t upto)
{
	for (uint32_t n = r->got / r->packet_bytes; n < upto / r->packet_bytes; n++)
		flip_if(qp, r->first_psn + n, 0);
	r->got = upto;
	while (r->got < r->bytes && r->got % r->packet_bytes == 0) {
		uint32_t n = r->got / r->packet_bytes;

		if (!flip_if(qp, r->first_psn + n, 0))
			break;
		r->got += number_bytes(r, n);
	}
}

static void take_data(struct soft_nic *nic, struct soft_qp *qp, struct soft_request *r,
		      const struct soft_packet *p, const struct soft_slot *slot, uint64_t psn)
{
	uint64_t offset = (psn - r->first_psn) * r->packet_bytes + p->u2.offset;
	const struct soft_mr *mr;
	const void *from;
	int ahead, device;
	void *to;

	if (r->kind != SOFT_KIND_READ || r->syndrome || !p->bytes || offset > r->bytes ||
	    p->bytes > r->bytes - offset) {
		nic->stats.refused++;
		return;
	}
	if (offset + p->bytes <= r->got)
		return;
	ahead = offset > r->got;
	/*
	 * Ahead of a gap: kept only if the wire is unordered and the packet has all data of its
	 * number.
	 */
	if (ahead &&
	    (!nic->config.ooo || p->bytes != number_bytes(r, (uint32_t)(psn - r->first_psn)) ||
	     p->u2.offset)) {
		lost(nic, qp);
		return;
	}
	to = soft_mr_find(nic, r->lkey, qp->attr.pd, SOFT_LOCAL_WRITE, r->local + offset, p->bytes,
			  &mr);
	from = to ? soft_place_source(nic, qp, p, slot, &device) : NULL;
	if (to && !from)
		return; /* treated as lost */
	if (!to || soft_late_move(nic, to, from, p->bytes, device, mr->attr.device)) {
		soft_requester_fail(nic, qp, r, ORI_SYNDROME_LOCAL_PROT);
		return;
	}
	qp->deadline_ns = 0;
	if (ahead) {
		flip_if(qp, psn, 1);
		return;
	}
	move_got(qp, r, (uint32_t)offset + p->bytes);
	/*
	 * One number may be a long message in many pieces.  Each piece is progress, and may be
	 * lost.
	 */
	soft_requester_progress(qp);
	qp->lost_psn = 0;
	if (r->got == r->bytes)
		qp->open_reads--;
}

static int is_missing(const struct soft_nic *nic, const struct soft_qp *qp)
{
	const struct soft_request *r;

	/* On an unordered wire the answer may only be late. */
	if (qp->una_idx == qp->next || qp->acked <= qp->una + (nic->config.ooo ? SOFT_LOST_PSN : 0))
		return 0;
	r = soft_request_at(qp, qp->una_idx);
	return !r->syndrome && (r->kind == SOFT_KIND_READ || r->kind == SOFT_KIND_ATOMIC);
}

void soft_requester_answer(struct soft_nic *nic, struct soft_qp *qp, const struct soft_packet *p,
			   const struct soft_slot *slot)
{
	uint32_t op = soft_packet_op(p);
	uint64_t psn = soft_psn_near(qp->una, soft_packet_psn(p));
	struct soft_request *r;

	if (qp->state != SOFT_RTS)
		return;
	if (!take_ack(qp, p->u1.ack)) {
		nic->stats.refused++;
		return;
	}
	soft_requester_advance(qp);
	if (op == SOFT_OP_READ_DATA || op == SOFT_OP_ATOMIC_VALUE) {
		r = find(qp, psn);
		if (r && !nic->config.ooo && r != soft_request_at(qp, qp->una_idx))
			lost(nic, qp); /* answers are taken in order, and this one came too early */
		else if (r && op == SOFT_OP_READ_DATA)
			take_data(nic, qp, r, p, slot, psn);
		else if (r)
			take_value(nic, qp, r, p);
		soft_requester_advance(qp);
	}
	if (op == SOFT_OP_NAK)
		take_nak(nic, qp, p);
	if (is_missing(nic, qp))
		lost(nic, qp);
	soft_activate(nic, qp);
}
