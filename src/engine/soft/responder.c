/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/responder.c - the half of the software NIC that touches this rank's memory for
 * others.
 *
 * Takes requests in the order of their numbers (with `ooo`, in any order), checks key, protection
 * domain, access and range of every packet, places data, executes atomics exactly once, and notes
 * what is to be answered (reply.c does it).  Never looks at a send queue: that is requester.c.
 *
 * A packet that came before is never executed again: a write was placed and is only acknowledged,
 * an atomic or READ is answered from the replay cache.
 *
 * Called within soft_nic_step(), for packets off the wire: all fields are untrusted.
 */
#include <string.h>

#include "state.h"

/* Steps between the read and the store of an atomic, at most. */
#define LATE_STEPS 4u

enum verdict {
	TAKEN,
	IGNORED, /* as if lost: nothing happened, it will come again */
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
		qp->unacked += SOFT_ACK_EVERY; /* it took long: answered whatever waits behind it */
	if (soft_packet_flags(p) & SOFT_PACKET_LAST)
		qp->ack_due = 1;
	return TAKEN;
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

/*
 * A word of device memory: read, modified and written back.  Atomic among the operations of this
 * NIC, since one thread at a time steps it, and with nothing else.
 */
static int modify_device(struct soft_nic *nic, void *word, const struct soft_packet *p,
			 uint64_t *old)
{
	uint64_t next = p->u.atomic.swap_add;

	if (soft_place_move(nic, old, word, 8, 1))
		return -1;
	if (soft_packet_op(p) == SOFT_OP_FETCH_ADD)
		next += *old;
	else if (*old != p->u.atomic.compare)
		return 0;
	return soft_place_move(nic, word, &next, 8, 1);
}

void soft_responder_end_atomic(struct soft_nic *nic)
{
	struct soft_open_atomic open = nic->open_atomic;
	int err = 0;

	if (!open.word)
		return;
	nic->open_atomic.word = NULL;
	open.answer->held = 0;
	soft_activate(nic, open.qp);
	if (open.device)
		err = soft_place_move(nic, open.word, &open.value, 8, 1);
	else
		/* release, as that of [SOFT7], for threads that wait for the word */
		__atomic_store_n(open.word, open.value, __ATOMIC_RELEASE);
	if (!err)
		return;
	soft_set_pending(open.qp, open.answer, 0);
	open.answer->packets = 0; /* it is nobody's */
	if (open.qp->state == SOFT_RTS)
		soft_responder_refuse(nic, open.qp, REFUSED_OP);
}

/*
 * hca_atomics: reads now and stores a few steps later, or before this NIC executes anything else.
 * Atomic among the operations of this NIC.  What another NIC, a CPU or a GPU adds in between is
 * lost, as with a real one.
 */
static int modify_late(struct soft_nic *nic, struct soft_qp *qp, uint64_t *word, int device,
		       const struct soft_packet *p, struct soft_replay *e)
{
	/* acquire, as that of [SOFT7] */
	if (!device)
		e->value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	else if (soft_place_move(nic, &e->value, word, 8, 1))
		return -1;
	nic->open_atomic.value = p->u.atomic.swap_add;
	if (soft_packet_op(p) == SOFT_OP_FETCH_ADD)
		nic->open_atomic.value += e->value;
	else if (e->value != p->u.atomic.compare)
		return 0;
	nic->open_atomic.word = word;
	nic->open_atomic.device = device;
	nic->open_atomic.release_step = nic->steps + 1 + soft_random(nic) % LATE_STEPS;
	nic->open_atomic.qp = qp;
	nic->open_atomic.answer = e;
	e->held = 1;
	return 0;
}

/*
 * Atomic among NICs and with any CPU of this machine, since it is a CPU's own instruction.  [SOFT7]
 * acq_rel, sys; partners [SIG2], [SIG3] and [SIG4] of the threads that wait for the word, and
 * [SOFT7] of other NICs.  Publishes what this NIC placed before.  Without it a thread could see the
 * signal of a put and read its buffer as it was before.
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
		soft_late_release(nic, 1); /* a read pushes what was written before */
	if (nic->config.hca_atomics) {
		if (!modify_late(nic, qp, word, mr->attr.device, p, e))
			return TAKEN;
	} else if (!mr->attr.device) {
		e->value = modify(word, p);
		return TAKEN;
	} else if (!modify_device(nic, word, p, &e->value)) {
		return TAKEN;
	}
	soft_set_pending(qp, e, 0);
	e->packets = 0; /* it is nobody's */
	return REFUSED_OP;
}

static enum verdict execute(struct soft_nic *nic, struct soft_qp *qp, const struct soft_packet *p,
			    const struct soft_slot *slot, uint64_t psn, uint32_t packets)
{
	soft_responder_end_atomic(nic);
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
		uint32_t from = (uint32_t)(psn - e->psn) * e->packet_bytes;

		if (!e->packets || psn < e->psn || psn >= e->psn + e->packets ||
		    e->op != soft_packet_op(p))
			continue;
		nic->stats.replays++;
		if (e->pending && e->sent <= from)
			return; /* late, not lost: what it asks for is still to be sent */
		e->sent = from;
		e->again = 1;
		soft_set_pending(qp, e, 1);
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

void soft_responder_refuse(struct soft_nic *nic, struct soft_qp *qp, uint32_t syndrome)
{
	nic->stats.refused++;
	qp->refusal = (uint8_t)syndrome;
	qp->refusal_due = 1;
	soft_cq_error(nic, qp,
		      syndrome == REFUSED_OP ? ORI_SYNDROME_LOCAL_PROT : ORI_SYNDROME_LOCAL_ACCESS);
}

/*
 * ooo: executed as it comes.  What must be refused waits until it is in order, and is refused then;
 * but what a device has failed at is not tried again: the first time may have had its effect.
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
		soft_responder_refuse(nic, qp, verdict);
	if (verdict != TAKEN)
		return;
	for (uint32_t i = 0; i < packets; i++)
		flip_ahead(qp, psn + i);
	qp->ahead_count += packets;
	qp->unacked++;
	if (qp->ahead_count >= SOFT_LOST_PSN)
		gap(qp);
}

/* Which packets may be executed before those with lower numbers. */
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
		qp->refusal_due = 1; /* in ERR: says so each time, in case the first was lost */
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
			soft_responder_refuse(nic, qp, verdict);
		}
	}
}
