/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/qp.c - the table of queue pairs: numbers, creation, connection, removal.
 *
 * A number is (generation << 14 | slot), never 0 and below 2^23.  So packets and WQEs of a removed
 * queue pair do not match the next one in the same slot.
 *
 * Called by the engine; the caller serialises with soft_nic_step().
 */
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "state.h"

#define SLOT_BITS 14
#define SLOTS (1u << SLOT_BITS)
#define GENERATIONS (1u << (23 - SLOT_BITS))
#define QP_FIRST_ROOM 64u

struct soft_qp *soft_qp_find(const struct soft_nic *nic, uint32_t number)
{
	uint32_t slot = number % SLOTS;
	struct soft_qp *qp = slot < nic->qp_room ? nic->qps[slot] : NULL;

	return qp && qp->number == number ? qp : NULL;
}

/*
 * Enlarges the array to `count`, with zeros in the new part.  NULL: no memory, the old array stays.
 */
static void *enlarge(void *array, size_t old, size_t count, size_t size)
{
	char *made = realloc(array, count * size);

	if (made)
		memset(made + old * size, 0, (count - old) * size);
	return made;
}

static int grow(struct soft_nic *nic)
{
	uint32_t old = nic->qp_room, room = old ? old * 2 : QP_FIRST_ROOM;
	void *qps, *generations, *active, *timed;

	if (room > SLOTS)
		return ori_fail(ORIEL_ENOMEM, "software NIC: %u queue pairs are all there can be",
				SLOTS);
	/* An enlarged array stays so if the next one fails: qp_room says how much is used. */
	qps = enlarge(nic->qps, old, room, sizeof(*nic->qps));
	nic->qps = qps ? qps : nic->qps;
	generations = enlarge(nic->generations, old, room, sizeof(*nic->generations));
	nic->generations = generations ? generations : nic->generations;
	active = enlarge(nic->active, old / 64, room / 64, sizeof(*nic->active));
	nic->active = active ? active : nic->active;
	timed = enlarge(nic->timed, old / 64, room / 64, sizeof(*nic->timed));
	nic->timed = timed ? timed : nic->timed;
	if (!qps || !generations || !active || !timed)
		return ori_fail(ORIEL_ENOMEM, "software NIC: no memory for %u queue pairs", room);
	nic->qp_room = room;
	return 0;
}

/* Returns 0 if there is no memory for one more. */
static uint32_t free_slot(struct soft_nic *nic)
{
	uint32_t slot = 1;

	if (nic->qp_count + 1 >= nic->qp_room && grow(nic))
		return 0;
	while (nic->qps[slot])
		slot++; /* slot 0 is not counted, so one is free */
	return slot;
}

static int add_bell(struct soft_nic *nic, struct soft_qp *qp)
{
	struct soft_bell *bell;

	if (nic->bell_count == nic->bell_room) {
		uint32_t room = nic->bell_room ? nic->bell_room * 2 : 16;

		bell = enlarge(nic->bells, nic->bell_room, room, sizeof(*nic->bells));
		if (!bell)
			return ori_fail(ORIEL_ENOMEM, "software NIC: no memory for %u doorbells",
					room);
		nic->bells = bell;
		nic->bell_room = room;
	}
	bell = &nic->bells[nic->bell_count++];
	bell->word = qp->attr.doorbell;
	bell->seen = 0;
	bell->qp = qp;
	return 0;
}

static int misaligned(const void *p, uintptr_t to)
{
	return ((uintptr_t)p & (to - 1)) != 0;
}

static int bad_attr(const struct soft_nic *nic, const struct soft_qp_attr *a)
{
	if (!a->sq)
		return 0;
	if (!a->cq || !a->doorbell || !a->depth || a->depth > 32768 || a->depth & (a->depth - 1))
		return 1;
	if (!a->record && nic->config.dbr_mode != SOFT_DBR_DOORBELL)
		return 1;
	return misaligned(a->sq, 8) || misaligned(a->cq, 8) || misaligned(a->doorbell, 8) ||
	       misaligned(a->record, 4);
}

static void free_qp(struct soft_qp *qp)
{
	free(qp->requests);
	free(qp->shadow);
	free(qp->replay);
	free(qp);
}

static struct soft_qp *allocate(const struct soft_nic *nic, const struct soft_qp_attr *attr)
{
	struct soft_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		goto err_memory;
	qp->attr = *attr;
	qp->window = attr->sq && attr->depth < SOFT_WINDOW_WQES ? attr->depth : SOFT_WINDOW_WQES;
	qp->replay = calloc(nic->config.max_reads, sizeof(*qp->replay));
	if (attr->sq)
		qp->requests = calloc(qp->window, sizeof(*qp->requests));
	if (attr->sq && nic->config.strict)
		qp->shadow = calloc(qp->window, sizeof(*qp->shadow));
	if (!qp->replay || (attr->sq && (!qp->requests || (nic->config.strict && !qp->shadow)))) {
		free_qp(qp);
		goto err_memory;
	}
	return qp;

err_memory:
	ori_fail(ORIEL_ENOMEM, "software NIC: no memory for a queue pair");
	return NULL;
}

static void set_counters(struct soft_qp *qp, const struct soft_config *config)
{
	uint64_t psn = config->first_psn & SOFT_PSN_MASK, first = qp->attr.first_index;

	qp->pi = qp->next = qp->una_idx = qp->ci = qp->send_idx = first;
	qp->cq_count = first;
	qp->una = qp->send_psn = qp->sent_psn = qp->end_psn = qp->acked = psn;
	qp->expected = psn;
}

int soft_qp_create(struct soft_nic *nic, const struct soft_qp_attr *attr, uint32_t *qpn,
		   uint32_t *cqn)
{
	struct soft_qp *qp;
	uint32_t slot;
	int err;

	if (bad_attr(nic, attr))
		return ori_fail(ORIEL_EINVAL,
				"software NIC: a send queue of %u blocks needs 1 to 32768, a "
				"power of two, and CQ, record and doorbell, aligned",
				attr->depth);
	if (nic->config.qps && nic->qp_count >= nic->config.qps)
		return ori_fail(ORIEL_ENOMEM,
				"software NIC: all of its %u queue pairs are in use: lower "
				"ORIEL_LANES, or connect fewer peers (ORIEL_CONNECT=0 and "
				"oriel_comm_connect)",
				nic->config.qps);
	slot = free_slot(nic);
	qp = slot ? allocate(nic, attr) : NULL;
	if (!qp)
		return ORIEL_ENOMEM;
	set_counters(qp, &nic->config);
	qp->slot = slot;
	qp->number = (uint32_t)nic->generations[slot] << SLOT_BITS | slot;
	if (attr->sq) {
		err = add_bell(nic, qp);
		if (err) {
			free_qp(qp);
			return err;
		}
		soft_cq_init(qp);
	}
	nic->generations[slot] = (uint16_t)((nic->generations[slot] + 1u) % GENERATIONS);
	nic->qps[slot] = qp;
	nic->qp_count++;
	*qpn = qp->number;
	*cqn = qp->number | SOFT_CQN_BIT;
	return 0;
}

int soft_qp_connect(struct soft_nic *nic, uint32_t qpn, int rank, uint32_t remote_qpn)
{
	struct soft_qp *qp = soft_qp_find(nic, qpn);

	if (!qp || qp->state != SOFT_RESET || rank < 0 || rank >= nic->nranks ||
	    remote_qpn > 0xffffff)
		return ori_fail(ORIEL_EINVAL,
				"software NIC: cannot connect queue pair 0x%x to 0x%x of rank %d",
				qpn, remote_qpn, rank);
	if (!nic->peers[rank].wired)
		return ori_fail(ORIEL_ENOTCONN, "software NIC: no wire to rank %d", rank);
	qp->rank = rank;
	qp->reached = !nic->world.reaches || nic->world.reaches(nic->world.ctx, rank);
	qp->remote_number = remote_qpn;
	qp->state = SOFT_RTS;
	soft_activate(nic, qp);
	return 0;
}

void soft_qp_fail(struct soft_nic *nic, uint32_t qpn, uint32_t syndrome)
{
	struct soft_qp *qp = soft_qp_find(nic, qpn);

	if (qp)
		soft_cq_error(nic, qp, syndrome);
}

void soft_qp_destroy(struct soft_nic *nic, uint32_t qpn)
{
	struct soft_qp *qp = soft_qp_find(nic, qpn);
	uint64_t bit;

	if (!qp)
		return;
	soft_atomic_end(nic); /* the open atomic may be this one's */
	/* A queue pair that waits for this CQ finds that it is gone, and fails. */
	while (qp->waiters) {
		soft_activate(nic, qp->waiters);
		soft_cq_unwait(qp->waiters);
	}
	soft_cq_unwait(qp);
	bit = 1ull << (qp->slot % 64);
	nic->active[qp->slot / 64] &= ~bit;
	nic->timed[qp->slot / 64] &= ~bit;
	for (uint32_t i = 0; i < nic->bell_count; i++)
		if (nic->bells[i].qp == qp)
			nic->bells[i--] = nic->bells[--nic->bell_count];
	nic->outstanding -= qp->pi - qp->ci;
	nic->qps[qp->slot] = NULL;
	nic->qp_count--;
	free_qp(qp);
}
