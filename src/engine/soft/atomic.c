/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/atomic.c - atomics of the software NIC on words of this rank: in host memory, in
 * device memory, and as a NIC whose atomics are not atomic with the CPU (hca_atomics).
 *
 * Owns the atomic that has read its word and not stored it yet (nic->open_atomic).  Called by
 * responder.c, within soft_nic_step(), and where regions and queue pairs end.
 */
#include "state.h"

/* Largest number of steps between the read and the store of an atomic. */
#define LATE_STEPS 4u

/*
 * A word of device memory is read, modified and written back.  This is atomic among the operations
 * of this NIC, because one thread at a time steps it.  It is not atomic with anything else.
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

void soft_atomic_end(struct soft_nic *nic)
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
	open.answer->packets = 0; /* the entry is free again */
	if (open.qp->state == SOFT_RTS)
		soft_cq_refuse(nic, open.qp, ORI_SYNDROME_REMOTE_OP);
}

/*
 * hca_atomics: reads now and stores a few steps later, but before this NIC executes anything else.
 * This is atomic among the operations of this NIC.  Additions of another NIC, a CPU or a GPU in
 * between are lost, as with a real NIC.
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
 * Atomic among NICs and with any CPU of this machine, because it is a CPU instruction.
 *
 * [SOFT7] acq_rel, sys; partners [SIG2], [SIG3] and [SIG4] of the threads that wait for the word,
 * and [SOFT7] of other NICs.  Publishes what this NIC placed before.  Without it a thread could see
 * the signal of a put and read the old content of its buffer.
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

int soft_atomic_execute(struct soft_nic *nic, struct soft_qp *qp, uint64_t *word, int device,
			const struct soft_packet *p, struct soft_replay *e)
{
	if (nic->config.hca_atomics)
		return modify_late(nic, qp, word, device, p, e);
	if (device)
		return modify_device(nic, word, p, &e->value);
	e->value = modify(word, p);
	return 0;
}
