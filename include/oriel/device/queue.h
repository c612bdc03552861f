/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/queue.h - work queues posted by the device: reserve, fill, publish, ring, poll.
 *
 * One queue may be used by many threads of many blocks.  A producer reserves slots (waiting until the
 * WQEs that used them last are complete), fills them, waits for its turn, writes the doorbell record, rings,
 * and passes the turn on; so WQEs are published in index order and doorbells never go back.
 * A producer that gives up after reserving poisons the queue: those behind it would wait for ever.
 *
 * Edges:
 *   [P1] release of the doorbell record, [P2] release of the doorbell: publish the WQEs and the payload they
 *        name; partner: the engine's acquire of the doorbell, or the NIC.
 *   [P3] release of `produced`: passes the turn; partner [P4], the next producer's acquire.
 *   [C1] acquire of a CQE's last word; partner: the engine's release after it has placed the data.
 *   [C2] release of `completed` by who saw the CQE; partner [C3], everybody else's acquire.
 */
#ifndef ORIEL_DEVICE_QUEUE_H
#define ORIEL_DEVICE_QUEUE_H

#include "mapped.h"
#include "wqe.h"

/* What a wait is part of: the comm, and the window's failure word or NULL. */
struct ori_op_context {
	const struct oriel_comm_dev *comm;
	const uint64_t *window_failure;
	int32_t window;
	int32_t reserved;
	uint64_t timeout_ns;
};

ORIEL_DEV struct ori_op_context ori_comm_scope(const struct oriel_comm_dev *comm)
{
	struct ori_op_context s;

	s.comm = comm;
	s.window_failure = NULL;
	s.window = -1;
	s.reserved = 0;
	s.timeout_ns = comm->timeout_ns;
	return s;
}

ORIEL_DEV struct ori_wqe *ori_queue_slot(const struct oriel_queue *q, uint64_t index)
{
	return (struct ori_wqe *)(void *)(q->sq + (index & (q->depth - 1)) * ORI_WQE_BYTES);
}

ORIEL_DEV void ori_queue_spin_begin(struct ori_spin *s, const struct ori_op_context *scope,
				    const struct oriel_queue *q, uint64_t want)
{
	ori_spin_begin(s, scope->comm, scope->window_failure, ORIEL_OP_QUEUE, q->peer, (int)q->lane,
		       scope->window, want);
	ori_spin_host(s, scope->comm->host_shift != 0);
	s->timeout_ns = scope->timeout_ns;
}

/* ---- errors ------------------------------------------------------------------------------------------ */

ORIEL_DEV int ori_queue_failed(const struct oriel_queue *q)
{
	uint64_t error = ori_load_relaxed_sys(&q->error);

	return error ? ORIEL_FAILURE_STATUS(error) : 0;
}

/* The first cause stays. */
ORIEL_DEV int ori_queue_poison(struct oriel_queue *q, int status)
{
	ori_compare_swap_acq_rel_sys(&q->error, 0, ORIEL_FAILURE(status, q->peer));
	return status;
}

/* With what a wait on a failed queue ends: a failure known before is the cause, the queue's its consequence. */
ORIEL_DEV int ori_queue_cause(const struct ori_op_context *scope, int err)
{
	int first = err ? ori_failed(scope->comm, scope->window_failure) : 0;

	return first ? first : err;
}

/* ---- completion -------------------------------------------------------------------------------------- */

ORIEL_DEV void ori_queue_note_completed(struct oriel_queue *q, uint64_t count)
{
	uint64_t seen = ori_load_relaxed_sys(&q->completed), old;

	while (!ori_reached(seen, count)) {
		/* [C2] release; partner [C3]. */
		old = ori_compare_swap_acq_rel_sys(&q->completed, seen, count);
		if (old == seen)
			break;
		seen = old;
	}
}

/*
 * Is WQE `index` complete?  1 yes, 0 not yet, or a status.  Its CQE is at the same place of the CQ ring, so
 * nothing is consumed and any number of threads may look.  A poller that comes so late that the entry was
 * written again finds `completed` past its index: the slot was reserved again only after somebody noted it.
 */
ORIEL_DEV int ori_queue_poll(struct oriel_queue *q, uint64_t index)
{
	const uint8_t *cqe = q->cq + (index & (q->depth - 1)) * sizeof(struct ori_cqe);
	uint32_t last, opcode;

	/* [C3] acquire; partner [C2]. */
	if (ori_reached(ori_load_acquire_sys(&q->completed), index + 1))
		return 1;
	/* [C1] acquire of {wqe_counter, signature, op_own}; the rest of the CQE was written before. */
	last = ori_load_acquire32_sys((const uint32_t *)(const void *)(cqe + 0x3c));
	opcode = last >> 28;
	if (opcode == ORI_CQE_INVALID || ((last >> 24) & 1u) != ((index >> q->log_depth) & 1u) ||
	    ori_be16((uint16_t)last) != (uint16_t)index)
		return ori_reached(ori_load_acquire_sys(&q->completed), index + 1);
	if (opcode != ORI_CQE_REQ && !ORI_MUTANT(6))
		return ori_queue_poison(q, ORIEL_EREMOTE);
	ori_queue_note_completed(q, index + 1);
	return 1;
}

/* Until the first `count` WQEs are complete. */
ORIEL_DEV_OUT int ori_queue_wait(const struct ori_op_context *scope, struct oriel_queue *q,
				 uint64_t count)
{
	struct ori_spin s;
	int done, err = 0;

	/* [C3] acquire: also for counts before the queue's first WQE. */
	if (ori_reached(ori_load_acquire_sys(&q->completed), count))
		return 0;
	ori_queue_spin_begin(&s, scope, q, count);
	while (!err) {
		done = ori_queue_poll(q, count - 1);
		if (done > 0)
			break;
		err = ori_queue_cause(scope, done < 0 ? done : ori_queue_failed(q));
		if (!err)
			err = ori_spin(&s, ori_load_relaxed_sys(&q->completed));
	}
	ori_spin_end(&s);
	return err;
}

/*
 * Has a WQE failed whose CQE is written?  0 no, or a status.  CQEs come in order and behind a failed one all
 * are, so the newest tells of those before it; it is found by halving.  For counts of a NIC that tells nobody
 * of a failure (ORIEL_LINK_SILENT): its companion counts CQEs of any sort.
 */
ORIEL_DEV_OUT int ori_queue_verify(struct oriel_queue *q)
{
	/* [P4] acquire first: what is counted was rung.  Then `completed` is no more than a depth behind. */
	uint64_t end = ori_load_acquire_sys(&q->produced);
	uint64_t low = ori_load_acquire_sys(&q->completed), middle;
	int done;

	while (!ori_reached(low, end)) {
		middle = low + (end - low) / 2;
		done = ori_queue_poll(q, middle);
		if (done < 0)
			return done;
		if (done)
			low = middle + 1;
		else
			end = middle;
	}
	return ori_queue_failed(q);
}

/* ---- producing ------------------------------------------------------------------------------------------ */

#define ORI_QUEUE_PATIENCE 512u /* looks at a queue in use before getting in line */

/* Could n WQEs be reserved, filled and rung now without waiting for anybody? */
ORIEL_DEV int ori_queue_is_free(const struct oriel_queue *q, uint32_t n)
{
	uint64_t next = ori_load_relaxed_sys(&q->reserved);

	return ori_load_relaxed_sys(&q->produced) == next &&
	       ori_reached(ori_load_relaxed_sys(&q->completed), next + n - q->depth);
}

/*
 * Who has reserved holds up all who reserve after him, and threads in line get the turn one after the
 * other, each when it gets a core: with more threads than cores, a switch a post.  So one that finds the
 * queue in use, or full, stands aside a little first, and whoever has a core goes on.  Nothing rests on it.
 */
ORIEL_DEV_OUT void ori_queue_approach(const struct ori_op_context *scope, struct oriel_queue *q,
				      uint32_t n)
{
	uint64_t need;
	uint32_t i;

	for (i = 1; i <= ORI_QUEUE_PATIENCE && !ori_queue_is_free(q, n) && !ori_queue_failed(q);
	     i++) {
		need = ori_load_relaxed_sys(&q->reserved) + n - q->depth;
		if (ori_reached(ori_load_relaxed_sys(&q->completed), need) ||
		    ori_queue_poll(q, need - 1) == 0) {
			ori_drive(scope->comm->engine);
			if (i % 8 == 0)
				ori_yield();
		}
	}
}

/* n consecutive WQEs, n <= depth; they may be filled when it returns 0. */
ORIEL_DEV int ori_queue_reserve(const struct ori_op_context *scope, struct oriel_queue *q,
				uint32_t n, uint64_t *base)
{
	int err = ori_queue_failed(q);

	if (err)
		return err;
	if (!ORIEL_ON_GPU && !ori_queue_is_free(q, n))
		ori_queue_approach(scope, q, n);
	/* Relaxed: a number is all that is taken; slots pass on by [C2]/[C3], turns by [P3]/[P4]. */
	*base = ori_fetch_add_relaxed_dev(&q->reserved, n);
	/* [C3] acquire: what was read from the slots is read before they are filled again. */
	if (ori_reached(ori_load_acquire_dev(&q->completed), *base + n - q->depth) || ORI_MUTANT(4))
		return 0;
	err = ori_queue_wait(scope, q, *base + n - q->depth);
	return err ? ori_queue_poison(q, err) : 0;
}

ORIEL_DEV_OUT int ori_queue_turn_slow(const struct ori_op_context *scope, struct oriel_queue *q,
				      uint64_t base)
{
	struct ori_spin s;
	int err = 0;

	ori_queue_spin_begin(&s, scope, q, base);
	while (!err && ori_load_acquire_dev(&q->produced) != base) {
		err = ori_queue_cause(scope, ori_queue_failed(q));
		if (!err)
			err = ori_spin(&s, ori_load_relaxed_sys(&q->produced));
	}
	ori_spin_end(&s);
	return err ? ori_queue_poison(q, err) : 0;
}

/* Until all WQEs before `base` are rung. */
ORIEL_DEV int ori_queue_turn(const struct ori_op_context *scope, struct oriel_queue *q,
			     uint64_t base)
{
	/* [P4] acquire; partner [P3]: the WQEs of those before are behind our doorbell too. */
	if (ori_load_acquire_dev(&q->produced) == base || ORI_MUTANT(2))
		return 0;
	return ori_queue_turn_slow(scope, q, base);
}

/* By who has the turn: everything before `next` is the engine's now. */
ORIEL_DEV void ori_queue_ring(const struct ori_op_context *scope, struct oriel_queue *q,
			      uint64_t next)
{
	/*
	 * [P1] release, system scope: a NIC that reads the record must find the WQEs.  From a GPU it is a fence
	 * over the bus, for nothing where nobody reads it.
	 */
	if (!(ORIEL_ON_GPU && q->bare) && !ORI_MUTANT(3))
		ori_store_release32_sys(&q->record[1], ori_doorbell_record(next));
	if (q->mmio)
		ori_push_stores();
	/* [P2] release, system scope: and one that is rung must find the record. */
	if (!ORI_MUTANT(1))
		ori_store_release_sys(q->doorbell, ori_doorbell_value(next, q->qpn));
	else
		ori_store_relaxed_sys(q->doorbell, ori_doorbell_value(next, q->qpn));
	/* Before the turn passes: the next doorbell, of another core, must not come to the NIC before this one. */
	if (q->mmio)
		ori_push_stores();
	/* [P3] release; partner [P4]: the next doorbell comes after this one. */
	if (!ORI_MUTANT(7))
		ori_store_release_dev(&q->produced, next);
	else
		ori_store_relaxed_sys(&q->produced, next);
	/* Who is in line behind us may have gone to sleep. */
	if (ori_load_relaxed_sys(&q->reserved) != next)
		ori_wake(scope->comm->waiters);
	ori_drive(scope->comm->engine);
	if (ORI_MUTANT(3))
		ori_store_release32_sys(&q->record[1], ori_doorbell_record(next));
}

ORIEL_DEV int ori_queue_publish(const struct ori_op_context *scope, struct oriel_queue *q,
				uint64_t base, uint32_t n)
{
	int err = ori_queue_turn(scope, q, base);

	if (!err)
		ori_queue_ring(scope, q, base + n);
	return err;
}

#endif
