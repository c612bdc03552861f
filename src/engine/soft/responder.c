/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/responder.c - the half of the software NIC that touches this rank's memory for
 * others.
 *
 * Takes requests in the order of their numbers (with `ooo`, in any order), checks key, protection
 * domain, access and range of every packet, places data, executes atomics exactly once, and
 * answers. Never looks at a send queue: that is requester.c.
 *
 * A packet that came before is never executed again: a write was placed and is only acknowledged,
 * an atomic or READ is answered from the replay cache.
 *
 * Called within soft_nic_step(), for packets off the wire: all fields are untrusted.
 */
#include <string.h>

#include "state.h"

enum verdict {
	TAKEN,
	IGNORED, /* as if lost: nothing happened, it will come again */
	REFUSED_INVALID = ORI_SYNDROME_REMOTE_INVALID,
	REFUSED_ACCESS = ORI_SYNDROME_REMOTE_ACCESS,
};

/* ---- executing ------------------------------------------------------------------------------- */

static enum verdict execute_write(struct soft_nic *nic, struct soft_qp *qp,
				  const struct soft_packet *p, const struct soft_slot *slot)
{
	const void *from;
	void *to;

	if (!p->bytes)
		return REFUSED_INVALID;
	to = soft_mr_find(nic, p->u1.key, qp->attr.pd, SOFT_REMOTE_WRITE, p->address, p->bytes,
			  NULL);
	if (!to)
		return REFUSED_ACCESS;
	from = soft_place_source(nic, qp, p, slot);
	if (!from)
		return IGNORED;
	soft_place_copy(to, from, p->bytes);
	if (soft_packet_flags(p) & SOFT_PACKET_LAST)
		qp->ack_due = 1;
	return TAKEN;
}

static void set_pending(struct soft_qp *qp, struct soft_replay *e, int pending)
{
	qp->pending += (uint32_t)pending - e->pending;
	e->pending = (uint8_t)pending;
}

/*
 * The entry that nobody can ask for any more.  The requester has at most max_reads requests from
 * its first unanswered one on, so that is the one with the lowest number: the oldest, where order
 * is kept.
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

/* An entry of the replay cache; NULL while the answer to its last user is still to be sent. */
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
	set_pending(qp, e, 1);
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

/*
 * Atomic among NICs and with any CPU of this machine, since it is a CPU's own instruction.
 * acq_rel: a thread that waits for the word sees what was placed before, and this NIC what that
 * thread published.
 */
static uint64_t modify(uint64_t *word, const struct soft_packet *p)
{
	uint64_t old = p->u.atomic.compare;

	if (soft_packet_op(p) == SOFT_OP_FETCH_ADD)
		return __atomic_fetch_add(word, p->u.atomic.swap_add, __ATOMIC_ACQ_REL);
	__atomic_compare_exchange_n(word, &old, p->u.atomic.swap_add, 0, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	return old;
}

static enum verdict execute_atomic(struct soft_nic *nic, struct soft_qp *qp,
				   const struct soft_packet *p, uint64_t psn)
{
	struct soft_replay *e;
	void *word;

	if (nic->config.no_atomics || p->bytes != 8 || p->address & 7)
		return REFUSED_INVALID;
	word = soft_mr_find(nic, p->u1.key, qp->attr.pd, SOFT_REMOTE_ATOMIC, p->address, 8, NULL);
	if (!word)
		return REFUSED_ACCESS;
	if ((uintptr_t)word & 7)
		return REFUSED_INVALID; /* a region whose base is not aligned */
	e = remember(nic, qp, p, psn, 1);
	if (!e)
		return IGNORED;
	e->value = modify(word, p);
	return TAKEN;
}

static enum verdict execute(struct soft_nic *nic, struct soft_qp *qp, const struct soft_packet *p,
			    const struct soft_slot *slot, uint64_t psn, uint32_t packets)
{
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

/* Sequence numbers of a request; 0 if it cannot be. */
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

		if (!e->packets || psn < e->psn || psn >= e->psn + e->packets ||
		    e->op != soft_packet_op(p))
			continue;
		nic->stats.replays++;
		e->sent = (uint32_t)(psn - e->psn) * e->packet_bytes;
		e->again = 1;
		set_pending(qp, e, 1);
		return;
	}
	nic->stats.refused++; /* older than any the requester can still wait for */
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
	/* once for a gap: all packets behind it come in one by one */
	if (qp->nak_for == qp->expected + 1)
		return;
	qp->nak_for = qp->expected + 1;
	qp->nak_due = 1;
}

/*
 * ooo: executed as it comes.  What must be refused waits until it is in order, and is refused then.
 */
static void ahead(struct soft_nic *nic, struct soft_qp *qp, const struct soft_packet *p,
		  const struct soft_slot *slot, uint64_t psn, uint32_t packets)
{
	if (psn + packets - qp->expected > SOFT_AHEAD_PSN) {
		nic->stats.refused++;
		return;
	}
	for (uint32_t i = 0; i < packets; i++)
		if (is_ahead(qp, psn + i)) {
			duplicate(nic, qp, p, psn);
			return;
		}
	if (execute(nic, qp, p, slot, psn, packets) != TAKEN)
		return;
	for (uint32_t i = 0; i < packets; i++)
		flip_ahead(qp, psn + i);
	qp->ahead_count += packets;
	qp->unacked++;
	if (qp->ahead_count >= SOFT_LOST_PSN)
		gap(qp);
}

static void refuse(struct soft_nic *nic, struct soft_qp *qp, uint32_t syndrome)
{
	nic->stats.refused++;
	qp->refusal = (uint8_t)syndrome;
	qp->refusal_due = 1;
	soft_cq_error(nic, qp, ORI_SYNDROME_LOCAL_ACCESS);
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
		qp->refusal_due = 1; /* in ERR: says so each time, in case the first was lost */
	} else if (psn < qp->expected) {
		nic->stats.refused++;
	} else if (psn > qp->expected) {
		if (nic->config.ooo && packets)
			ahead(nic, qp, p, slot, psn, packets);
		else
			gap(qp);
	} else {
		verdict = packets ? execute(nic, qp, p, slot, psn, packets) : REFUSED_INVALID;
		if (verdict == TAKEN) {
			move_expected(qp, packets);
			qp->unacked++;
		} else if (verdict != IGNORED) {
			refuse(nic, qp, verdict);
		}
	}
}

/* ---- answering ------------------------------------------------------------------------------- */

/*
 * How far the requester may conclude that it was executed and answered: an ACK must not pass the
 * answer of a READ that is still to be sent, or the requester would take it for lost.
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

	set_pending(qp, e, 0); /* the ACK in this packet covers the packet */
	p.op_qpn = (uint32_t)SOFT_OP_ATOMIC_VALUE << 24 | qp->remote_number;
	p.flags_psn = (uint32_t)e->psn & SOFT_PSN_MASK;
	p.u1.ack = (uint32_t)executed(nic, qp) & SOFT_PSN_MASK;
	p.u.value = e->value;
	if (soft_send(nic, qp, &p, NULL, 0))
		return 1;
	set_pending(qp, e, 1);
	return 0;
}

/*
 * One piece of a READ's answer: up to what one number carries, less if the region is not exported.
 */
static int send_data(struct soft_nic *nic, struct soft_qp *qp, struct soft_replay *e)
{
	uint32_t inside = e->sent % e->packet_bytes, bytes = e->bytes - e->sent, most;
	uint64_t psn = e->psn + e->sent / e->packet_bytes, address = e->address + e->sent;
	const struct soft_mr *mr;
	const void *from = soft_mr_find(nic, e->key, qp->attr.pd, SOFT_REMOTE_READ, address, bytes,
					&mr);
	const void *behind;
	struct soft_packet p = { 0 };

	if (!from && e->again) {
		/*
		 * The key was revoked since, most likely because the requester has got the first answer and
		 * both know: it takes no notice then, and else learns why there is none.  No error here.
		 */
		set_pending(qp, e, 0);
		if (send_answer(nic, qp, SOFT_OP_NAK, psn, ORI_SYNDROME_REMOTE_ACCESS))
			return 1;
		set_pending(qp, e, 1);
		return 0;
	}
	if (!from) {
		/* the key was revoked since */
		set_pending(qp, e, 0);
		if (qp->state == SOFT_RTS) {
			qp->expected = psn;
			refuse(nic, qp, ORI_SYNDROME_REMOTE_ACCESS);
		}
		return 1;
	}
	if (bytes > e->packet_bytes - inside)
		bytes = e->packet_bytes - inside;
	most = soft_place_packet_bytes(nic, qp, mr);
	if (bytes > most)
		bytes = most;
	set_pending(qp, e, e->sent + bytes < e->bytes);
	p.op_qpn = (uint32_t)SOFT_OP_READ_DATA << 24 | qp->remote_number;
	p.flags_psn = (uint32_t)psn & SOFT_PSN_MASK;
	p.u1.ack = (uint32_t)executed(nic, qp) & SOFT_PSN_MASK;
	p.u2.offset = inside;
	behind = soft_place_carry(nic, qp, &p, from, mr, e->key, address, bytes);
	if (!soft_send(nic, qp, &p, behind, behind ? bytes : 0)) {
		set_pending(qp, e, 1);
		return 0;
	}
	e->sent += bytes;
	return 1;
}

/* Answers go out in the order of the requests.  Returns 0 when the wire is full. */
static int send_pending(struct soft_nic *nic, struct soft_qp *qp)
{
	uint32_t room = nic->config.max_reads;

	for (uint32_t i = 0; i < room && qp->pending; i++) {
		struct soft_replay *e = &qp->replay[(qp->replay_next + i) % room];

		while (e->pending) {
			if (nic->left <= 0)
				return 0;
			if (!(e->op == SOFT_OP_READ ? send_data : send_value)(nic, qp, e))
				return 0;
			nic->left--;
		}
		if (!qp->pending) {
			qp->ack_due = 0; /* the last answer said it too */
			qp->unacked = 0;
		}
	}
	return 1;
}

/*
 * An ACK now, or are more packets of this peer waiting that one ACK can cover?  It does not wait for
 * packets to come: the thread that drives may have seen its signal in this step, and leave.
 */
static int wants_ack(const struct soft_nic *nic, const struct soft_qp *qp)
{
	if (qp->unacked >= SOFT_ACK_EVERY)
		return 1;
	return qp->ack_due && !soft_rx_peek(&nic->peers[qp->rank].rx);
}

void soft_responder_run(struct soft_nic *nic, struct soft_qp *qp)
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
