/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/fetch.c - from doorbell to decoded WQE.  The device is not trusted.
 *
 * A doorbell is accepted if it has the number of the queue pair, and its index moves forward within
 * the free room.  A WQE is copied once and the copy is checked: its bytes by ../wqe_decode.c, keys
 * and rights here.  Errors get LOCAL_QP_OP (or LOCAL_LENGTH, LOCAL_PROT).  Strict mode also logs
 * them, because no correct device writes such a WQE.
 *
 * Called within soft_nic_step().
 */
#include <string.h>

#include "../../util/util.h"
#include "state.h"

#define BELLS_FRONT 64u
#define BELLS_TURN 64u

/* ---- doorbells ------------------------------------------------------------------------------- */

/*
 * The device must see an error even if it rang nothing valid.  The first index without CQE then
 * counts as rung.
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
		soft_strict_violation(nic, qp, qp->pi,
				      "doorbell 0x%04x goes back, or past the %u blocks of the queue",
				      index, qp->attr.depth);
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
	 * [SOFT5] acquire, sys; partner [QUEUE1] in ori_queue_ring(), which comes before [QUEUE2].
	 */
	return ori_be32(__atomic_load_n(&qp->attr.record[1], __ATOMIC_ACQUIRE)) & 0xffff;
}

static void accept_record(struct soft_nic *nic, struct soft_qp *qp, uint32_t rung)
{
	uint32_t index = read_record(qp);

	if (nic->config.strict && qp->state == SOFT_RTS && (int16_t)(uint16_t)(index - rung) < 0) {
		soft_strict_violation(nic, qp, qp->pi,
				      "doorbell record 0x%04x is behind the doorbell 0x%04x", index,
				      rung);
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
		soft_strict_violation(nic, qp, qp->pi, "the doorbell names queue pair 0x%x",
				      number);
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

/* Returns 1 if the doorbell was rung. */
static int look(struct soft_nic *nic, struct soft_bell *bell)
{
	/* relaxed: only tests for a change; the value is loaded again below */
	if (__atomic_load_n(bell->word, __ATOMIC_RELAXED) == bell->seen)
		return 0;
	if (bell->qp->state == SOFT_RESET)
		return 0;
	/* [SOFT6] acquire, sys; partner [QUEUE2] in ori_queue_ring(), after its WQEs. */
	bell->seen = __atomic_load_n(bell->word, __ATOMIC_ACQUIRE);
	ring(nic, bell->qp, bell->seen);
	return 1;
}

/*
 * Each doorbell has its own cache line, and some jobs have thousands.  A step looks at the front of
 * the table, and at a part of the rest in turn.  A doorbell that is rung behind the front moves
 * half way towards it.
 */
void soft_fetch_doorbells(struct soft_nic *nic)
{
	uint32_t count = nic->bell_count;
	uint32_t front = count <= BELLS_FRONT + BELLS_TURN ? count : BELLS_FRONT;

	for (uint32_t i = 0; i < front; i++)
		look(nic, &nic->bells[i]);
	for (uint32_t n = 0; n < BELLS_TURN && front < count; n++) {
		uint32_t at = nic->bell_turn;
		struct soft_bell bell;

		if (at < front || at >= count)
			at = front;
		nic->bell_turn = at + 1;
		if (!look(nic, &nic->bells[at]))
			continue;
		bell = nic->bells[at];
		nic->bells[at] = nic->bells[at / 2];
		nic->bells[at / 2] = bell;
	}
}

/* ---- WQEs ------------------------------------------------------------------------------------ */

static void warn_reserved(const struct soft_nic *nic, const struct soft_qp *qp)
{
	if (nic->config.strict)
		ori_log(ORI_LOG_WARN,
			"software NIC of rank %d: queue pair 0x%x, WQE %llu: a reserved field is not 0",
			nic->rank, qp->number, (unsigned long long)qp->next);
}

/*
 * Checks the local memory of a WQE: key, protection domain, range, and for answers the right to
 * write.
 */
static uint32_t check_local(const struct soft_nic *nic, const struct soft_qp *qp,
			    struct soft_request *r)
{
	int answers = r->kind == SOFT_KIND_READ || r->kind == SOFT_KIND_ATOMIC;
	const struct soft_mr *mr;

	if (!soft_mr_find(nic, r->lkey, qp->attr.pd, answers ? SOFT_LOCAL_WRITE : 0, r->local,
			  r->bytes, &mr))
		return ORI_SYNDROME_LOCAL_PROT;
	if (r->kind == SOFT_KIND_WRITE)
		r->packet_bytes = soft_place_packet_bytes(nic, qp, mr);
	else if (r->kind == SOFT_KIND_READ && mr->attr.device)
		r->packet_bytes = nic->config.device_mtu;
	return 0;
}

/*
 * Checks what the bytes alone do not show: the right to WAIT, local memory, the number of packets.
 */
static uint32_t check_request(const struct soft_nic *nic, const struct soft_qp *qp,
			      struct soft_request *r)
{
	uint32_t syndrome = 0;

	if (r->opcode == ORI_WQE_NOP)
		return 0;
	if (r->opcode == ORI_WQE_WAIT) {
		if (!qp->attr.core_direct)
			syndrome = soft_strict_violation(nic, qp, qp->next,
							 "WAIT on a queue pair that does not "
							 "support it");
		return syndrome;
	}
	r->packet_bytes = nic->config.mtu;
	/* DUMP: this NIC delays no writes to memory, so only the check remains to be done. */
	if (!r->inlined)
		syndrome = check_local(nic, qp, r);
	if (r->kind == SOFT_KIND_ATOMIC)
		r->packets = 1;
	else if (r->kind != SOFT_KIND_LOCAL)
		r->packets = (r->bytes + r->packet_bytes - 1) / r->packet_bytes;
	return syndrome;
}

static void take(struct soft_request *r, const struct ori_wqe_op *op)
{
	r->remote = op->remote;
	r->local = op->local;
	r->bytes = op->bytes;
	r->rkey = op->rkey;
	r->lkey = op->lkey;
	r->kind = op->kind;
	r->inlined = op->inlined;
	if (op->inlined) {
		memcpy(r->u.data, op->u.data, op->bytes);
	} else if (op->kind == ORI_WQE_KIND_ATOMIC) {
		r->u.atomic.swap_add = op->u.atomic.swap_add;
		r->u.atomic.compare = op->u.atomic.compare;
	}
}

static uint32_t decode(const struct soft_nic *nic, const struct soft_qp *qp, struct soft_request *r,
		       const struct ori_wqe *w)
{
	struct ori_wqe_op op;
	char why[128];
	uint32_t syndrome = ori_wqe_decode(w, qp->next, qp->number, &op, why, sizeof(why));

	if (syndrome == ORI_SYNDROME_LOCAL_QP_OP)
		return soft_strict_violation(nic, qp, qp->next, "%s", why);
	if (op.reserved)
		warn_reserved(nic, qp);
	if (syndrome)
		return syndrome;
	take(r, &op);
	return check_request(nic, qp, r);
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
