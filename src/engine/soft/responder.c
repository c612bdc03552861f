/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/responder.c - the half of the software NIC that accesses this rank's memory for
 * others.
 *
 * Takes requests in the order of their numbers (with `ooo`, in any order).  Checks key, protection
 * domain, access and range of every packet.  Places data, executes atomics exactly once, and
 * records the pending answers, which reply.c sends.  Never looks at a send queue: that is
 * requester.c.
 *
 * A duplicate packet is never executed again.  A write is only acknowledged; an atomic or READ is
 * answered from the replay cache.
 *
 * Called within soft_nic_step(), for packets from the wire: all fields are untrusted.
 */
#include <string.h>

#include "state.h"

enum verdict {
	TAKEN,
	IGNORED, /* treated as lost: nothing happened, it will come again */
	REFUSED_INVALID = ORI_SYNDROME_REMOTE_INVALID,
	REFUSED_ACCESS = ORI_SYNDROME_REMOTE_ACCESS,
	REFUSED_OP = ORI_SYNDROME_REMOTE_OP, /* a device copy failed */
};

/* ---- executing ------------------------------------------------------------------------------- */

static enum verdict execute_write(struct soft_nic *nic, struct soft_qp *qp,
				  const struct soft_packet *p, const struct soft_slot *slot)
{
	const struct soft_mr *mr;
	const void *from;
	int device;
	void *to;

	if (!p->bytes)
		return REFUSED_INVALID;
	to = soft_mr_find(nic, p->u1.key, qp->attr.pd, SOFT_REMOTE_WRITE, p->address, p->bytes,
			  &mr);
	if (!to)
		return REFUSED_ACCESS;
	from = soft_place_source(nic, qp, p, slot, &device);
	if (!from)
		return IGNORED;
	if (soft_late_move(nic, to, from, p->bytes, device, mr->attr.device))
		return REFUSED_OP;
	if (device || mr->attr.device)
		/* it took long, so an answer is sent whatever waits behind it */
		qp->unacked += SOFT_ACK_EVERY;
	if (soft_packet_flags(p) & SOFT_PACKET_LAST)
		qp->ack_due = 1;
	return TAKEN;
}

/*
 * The entry that cannot be asked for any more.  The requester has at most max_reads requests,
 * counted from its first unanswered one.  So this is the entry with the lowest number, and on an
 * ordered wire the oldest.
 */
static struct soft_replay *oldest(const struct soft_nic *nic, struct soft_qp *qp)
{
	struct soft_replay *found = &qp->replay[qp->replay_next % nic->config.max_reads];

	for (uint32_t i = 0; nic->config.ooo && i < nic->config.max_reads; i++) {
		struct soft_replay *e = &qp->replay[i];

		if (found->packets && (!e->packets || e->psn < found->psn))
			found = e;
	}
	return found;
}

/* An entry of the replay cache.  NULL while the answer of its last user is still to be sent. */
static struct soft_replay *remember(struct soft_nic *nic, struct soft_qp *qp,
				    const struct soft_packet *p, uint64_t psn, uint32_t packets)
{
	struct soft_replay *e = oldest(nic, qp);

	if (e->pending)
		return NULL;
	qp->replay_next++;
	memset(e, 0, sizeof(*e));
	e->op = (uint8_t)soft_packet_op(p);
	e->psn = psn;
	e->packets = packets;
	e->packet_bytes = p->u2.packet_bytes;
	e->address = p->address;
	e->bytes = p->bytes;
	e->key = p->u1.key;
	soft_set_pending(qp, e, 1);
	return e;
}

static enum verdict execute_read(struct soft_nic *nic, struct soft_qp *qp,
				 const struct soft_packet *p, uint64_t psn, uint32_t packets)
{
	if (!soft_mr_find(nic, p->u1.key, qp->attr.pd, SOFT_REMOTE_READ, p->address, p->bytes,
			  NULL))
		return REFUSED_ACCESS;
	return remember(nic, qp, p, psn, packets) ? TAKEN : IGNORED;
}

static enum verdict execute_atomic(struct soft_nic *nic, struct soft_qp *qp,
				   const struct soft_packet *p, uint64_t psn)
{
	const struct soft_mr *mr;
	struct soft_replay *e;
	void *word;

	if (nic->config.no_atomics || p->bytes != 8 || p->address & 7)
		return REFUSED_INVALID;
	word = soft_mr_find(nic, p->u1.key, qp->attr.pd, SOFT_REMOTE_ATOMIC, p->address, 8, &mr);
	if (!word)
		return REFUSED_ACCESS;
	if ((uintptr_t)word & 7)
		return REFUSED_INVALID; /* a region whose base is not aligned */
	e = remember(nic, qp, p, psn, 1);
	if (!e)
		return IGNORED;
	if (mr->attr.device)
		soft_late_release(nic, 1); /* a read pushes earlier writes */
	if (!soft_atomic_execute(nic, qp, word, mr->attr.device, p, e))
		return TAKEN;
	soft_set_pending(qp, e, 0);
	e->packets = 0; /* the entry is free again */
	return REFUSED_OP;
}

static enum verdict execute(struct soft_nic *nic, struct soft_qp *qp, const struct soft_packet *p,
			    const struct soft_slot *slot, uint64_t psn, uint32_t packets)
{
	soft_atomic_end(nic);
	switch (soft_packet_op(p)) {
	case SOFT_OP_WRITE:
		return execute_write(nic, qp, p, slot);
	case SOFT_OP_READ:
		return execute_read(nic, qp, p, psn, packets);
	default:
		return execute_atomic(nic, qp, p, psn);
	}
}

/* ---- order ----------------------------------------------------------------------------------- */

/* The number of sequence numbers of a request; 0 if the request is impossible. */
static uint32_t numbers(const struct soft_packet *p)
{
	uint64_t size = p->u2.packet_bytes, n;

	if (soft_packet_op(p) != SOFT_OP_READ)
		return 1;
	if (!p->bytes || !size)
		return 0;
	n = ((uint64_t)p->bytes + size - 1) / size;
	return n > SOFT_READ_PACKETS ? 0 : (uint32_t)n;
}

static int is_ahead(const struct soft_qp *qp, uint64_t psn)
{
	uint64_t bit = psn % SOFT_AHEAD_PSN;

	return (int)(qp->ahead[bit / 64] >> (bit % 64) & 1);
}

static void flip_ahead(struct soft_qp *qp, uint64_t psn)
{
	uint64_t bit = psn % SOFT_AHEAD_PSN;

	qp->ahead[bit / 64] ^= 1ull << (bit % 64);
}

static void move_expected(struct soft_qp *qp, uint32_t packets)
{
	qp->expected += packets;
	while (qp->ahead_count && is_ahead(qp, qp->expected)) {
		flip_ahead(qp, qp->expected);
		qp->ahead_count--;
		qp->expected++;
	}
}

/* Answers a READ or atomic again, a READ from the number asked for. */
static void replay(struct soft_nic *nic, struct soft_qp *qp, const struct soft_packet *p,
		   uint64_t psn)
{
	for (uint32_t i = 0; i < nic->config.max_reads; i++) {
		struct soft_replay *e = &qp->replay[i];
		uint32_t from = (uint32_t)(psn - e->psn) * e->packet_bytes;

		if (!e->packets || psn < e->psn || psn >= e->psn + e->packets ||
		    e->op != soft_packet_op(p))
			continue;
		nic->stats.replays++;
		if (e->pending && e->sent <= from)
			return; /* late, not lost: the requested data is still to be sent */
		e->sent = from;
		e->again = 1;
		soft_set_pending(qp, e, 1);
		return;
	}
	nic->stats.refused++; /* older than any answer that the requester can still wait for */
}

static void duplicate(struct soft_nic *nic, struct soft_qp *qp, const struct soft_packet *p,
		      uint64_t psn)
{
	if (soft_packet_op(p) == SOFT_OP_WRITE)
		qp->ack_due = 1;
	else
		replay(nic, qp, p, psn);
}

static void gap(struct soft_qp *qp)
{
	/* One NAK per gap, although all packets behind it come in one by one. */
	if (qp->nak_for == qp->expected + 1)
		return;
	qp->nak_for = qp->expected + 1;
	qp->nak_due = 1;
}

/*
 * ooo: executes a packet when it comes.  A packet that must be refused waits until it is in order.
 * But an operation that failed in device memory is not tried again: the first try may have had its
 * effect.
 */
static void ahead(struct soft_nic *nic, struct soft_qp *qp, const struct soft_packet *p,
		  const struct soft_slot *slot, uint64_t psn, uint32_t packets)
{
	enum verdict verdict;

	if (psn + packets - qp->expected > SOFT_AHEAD_PSN) {
		nic->stats.refused++;
		return;
	}
	for (uint32_t i = 0; i < packets; i++)
		if (is_ahead(qp, psn + i)) {
			duplicate(nic, qp, p, psn);
			return;
		}
	verdict = execute(nic, qp, p, slot, psn, packets);
	if (verdict == REFUSED_OP)
		soft_cq_refuse(nic, qp, verdict);
	if (verdict != TAKEN)
		return;
	for (uint32_t i = 0; i < packets; i++)
		flip_ahead(qp, psn + i);
	qp->ahead_count += packets;
	qp->unacked++;
	if (qp->ahead_count >= SOFT_LOST_PSN)
		gap(qp);
}

/* May this packet be executed before those with lower numbers? */
static int may_be_ahead(const struct soft_nic *nic, const struct soft_packet *p)
{
	return nic->config.ooo && (!nic->config.overtake || soft_packet_op(p) == SOFT_OP_WRITE);
}

void soft_responder_request(struct soft_nic *nic, struct soft_qp *qp, const struct soft_packet *p,
			    const struct soft_slot *slot)
{
	uint64_t psn = soft_psn_near(qp->expected, soft_packet_psn(p));
	uint32_t packets = numbers(p);
	enum verdict verdict;

	soft_activate(nic, qp);
	if (psn + packets <= qp->expected && packets) {
		duplicate(nic, qp, p, psn);
	} else if (qp->refusal) {
		/* in ERR: refuses each time, in case the first refusal was lost */
		qp->refusal_due = 1;
	} else if (psn < qp->expected) {
		nic->stats.refused++;
	} else if (psn > qp->expected) {
		if (packets && may_be_ahead(nic, p))
			ahead(nic, qp, p, slot, psn, packets);
		else
			gap(qp);
	} else {
		verdict = packets ? execute(nic, qp, p, slot, psn, packets) : REFUSED_INVALID;
		if (verdict == TAKEN) {
			move_expected(qp, packets);
			qp->unacked++;
		} else if (verdict != IGNORED) {
			soft_cq_refuse(nic, qp, verdict);
		}
	}
}
