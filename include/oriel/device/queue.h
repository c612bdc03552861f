/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/queue.h - work queues posted by the device: reserve, fill, publish, ring, poll.
 *
 * Many threads of many blocks may use one queue.  A producer reserves slots and waits until the
 * last WQEs in these slots are complete.  It fills the slots, waits for its turn, writes the
 * doorbell record, rings, and passes the turn on.  So WQEs are published in index order, and
 * doorbells never go back.  A producer that gives up after reserving poisons the queue.  Otherwise
 * later producers would wait for ever.
 *
 * Edges, each explained at its access:
 *   [QUEUE1] doorbell record, [QUEUE2] doorbell: from a producer to the engine or the NIC.
 *   [QUEUE3] to [QUEUE4]: the turn, from a producer to the next one; to [QUEUE8]: its count.
 *   [QUEUE5]: a CQE, from the engine or the NIC to the polling thread.
 *   [QUEUE6] to [QUEUE7]: a complete WQE, from the thread that saw its CQE to all others.
 *
 * Model: models/queue.pml
 */
#ifndef ORIEL_DEVICE_QUEUE_H
#define ORIEL_DEVICE_QUEUE_H

#include "trace.h"
#include "wqe.h"

ORIEL_DEV struct ori_wqe *ori_queue_slot(const struct oriel_queue *q, uint64_t index)
{
	return (struct ori_wqe *)(void *)(q->sq + (index & (q->depth - 1)) * ORI_WQE_BYTES);
}

ORIEL_DEV void ori_queue_spin_begin(struct ori_spin *s, const struct ori_op_context *context,
				    const struct oriel_queue *q, uint64_t want)
{
	ori_spin_begin(s, context->comm, context->window_failure,
		       ORIEL_OP_QUEUE | context->call << ORIEL_CALL_SHIFT, q->peer, (int)q->lane,
		       context->window, want);
	ori_spin_host(s, context->comm->host_shift != 0);
	s->timeout_ns = context->timeout_ns;
}

/* ---- errors ---------------------------------------------------------------------------------- */

ORIEL_DEV int ori_queue_failed(const struct oriel_queue *q)
{
	uint64_t error = ori_load_relaxed_sys(&q->error);

	return error ? ORIEL_FAILURE_STATUS(error) : 0;
}

/* Keeps the first cause. */
ORIEL_DEV int ori_queue_poison(struct oriel_queue *q, int status)
{
	/* No partner: no other data depends on the word, and its readers load it relaxed. */
	ori_compare_swap_acq_rel_sys(&q->error, 0, ORIEL_FAILURE(status, q->peer));
	return status;
}

/*
 * The status of a wait on a failed queue.  An earlier failure of the comm or the window is the
 * cause, and the queue's failure is its consequence.
 */
ORIEL_DEV int ori_queue_cause(const struct ori_op_context *context, int err)
{
	int first = err ? ori_failed(context->comm, context->window_failure) : 0;

	return first ? first : err;
}

/* ---- completion ------------------------------------------------------------------------------ */

/* How many WQEs have been rung.  Tickets, fences and flushes wait for this count. */
ORIEL_DEV uint64_t ori_queue_rung(const struct oriel_queue *q)
{
	/*
	 * [QUEUE8] acquire; partner [QUEUE3].  A later load of `completed` or of a CQE is no
	 * older than this count.
	 */
	return ori_load_acquire_sys(&q->produced);
}

ORIEL_DEV void ori_queue_note_completed(struct oriel_queue *q, uint64_t count)
{
	uint64_t seen = ori_load_relaxed_sys(&q->completed), old;

	while (!ori_reached(seen, count)) {
		/*
		 * [QUEUE6] release, system scope; partner [QUEUE7].  Passes on what [QUEUE5] of
		 * this thread acquired.  Without it A polls the CQE of a read, and B sees A's count
		 * and copies the result.  B then reads the bytes from before the NIC wrote them.
		 */
		old = ori_compare_swap_acq_rel_sys(&q->completed, seen, count);
		if (old == seen)
			break;
		seen = old;
	}
}

/*
 * Is WQE `index` complete?  1 yes, 0 not yet, or a status.  Its CQE has the same place in the CQ
 * ring.  So polling consumes nothing, and any number of threads may poll.  The entry may be
 * overwritten before a late thread polls it.  That thread then finds `completed` past its index: a
 * slot is reserved again only after its completion was recorded.
 */
ORIEL_DEV int ori_queue_poll(struct oriel_queue *q, uint64_t index)
{
	const uint8_t *cqe = q->cq + (index & (q->depth - 1)) * sizeof(struct ori_cqe);
	uint32_t last, opcode;

	/* [QUEUE7] acquire, system scope; partner [QUEUE6]. */
	if (ori_reached(ori_load_acquire_sys(&q->completed), index + 1))
		return 1;
	/*
	 * [QUEUE5] acquire of {wqe_counter, signature, op_own}, system scope; partner [SOFT4],
	 * [PROXY6] or the NIC, which store these 4 bytes last.  After it the data of the WQE and
	 * the rest of the CQE are in memory.  Without it the caller of a get could load bytes from
	 * before the NIC wrote them.
	 */
	last = ori_load_acquire32_sys((const uint32_t *)(const void *)(cqe + 0x3c));
	opcode = last >> 28;
	if (opcode == ORI_CQE_INVALID || ((last >> 24) & 1u) != ((index >> q->log_depth) & 1u) ||
	    ori_be16((uint16_t)last) != (uint16_t)index)
		/* [QUEUE7] again: the entry may have been overwritten since the first test. */
		return ori_reached(ori_load_acquire_sys(&q->completed), index + 1);
	if (opcode != ORI_CQE_REQ)
		return ori_queue_poison(q, ORIEL_EREMOTE);
	ori_queue_note_completed(q, index + 1);
	return 1;
}

/* Waits until the first `count` WQEs are complete. */
ORIEL_DEV_OUT int ori_queue_wait(const struct ori_op_context *context, struct oriel_queue *q,
				 uint64_t count)
{
	struct ori_spin s;
	int done, err = 0;

	/* [QUEUE7] acquire; partner [QUEUE6].  Also for counts before the queue's first WQE. */
	if (ori_reached(ori_load_acquire_sys(&q->completed), count))
		return 0;
	ori_queue_spin_begin(&s, context, q, count);
	while (!err) {
		done = ori_queue_poll(q, count - 1);
		if (done > 0)
			break;
		err = ori_queue_cause(context, done < 0 ? done : ori_queue_failed(q));
		if (!err)
			err = ori_spin(&s, ori_load_relaxed_sys(&q->completed));
	}
	ori_spin_end(&s);
	return err;
}

/*
 * Has a WQE with a written CQE failed?  0 no, or a status.  CQEs are written in order, and after a
 * failed one all fail.  So the newest CQE covers those before it; a binary search finds it.  This
 * is needed for counts of a NIC that reports failures only in CQEs (ORIEL_LINK_SILENT): its
 * companion counts failed CQEs too.
 */
ORIEL_DEV_OUT int ori_queue_verify(struct oriel_queue *q)
{
	/* `produced` first: then `completed`, [QUEUE7], is at most one depth behind. */
	uint64_t end = ori_queue_rung(q);
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

/* ---- producing ------------------------------------------------------------------------------- */

#define ORI_QUEUE_PATIENCE 512u /* tests of a queue in use before reserving */

/* Could n WQEs be reserved, filled and rung now without waiting? */
ORIEL_DEV int ori_queue_is_free(const struct oriel_queue *q, uint32_t n)
{
	uint64_t next = ori_load_relaxed_sys(&q->reserved);

	return ori_load_relaxed_sys(&q->produced) == next &&
	       ori_reached(ori_load_relaxed_sys(&q->completed), next + n - q->depth);
}

/*
 * A producer that has reserved a slot delays all later ones.  Waiting threads get the turn one
 * after the other, each when it gets a core.  With more threads than cores this costs one switch
 * per post.  So a producer that finds the queue in use or full first waits a little, and a running
 * thread can finish.  This is only for speed; correctness does not depend on it.
 */
ORIEL_DEV_OUT void ori_queue_approach(const struct ori_op_context *context, struct oriel_queue *q,
				      uint32_t n)
{
	uint64_t need;
	uint32_t i;

	for (i = 1; i <= ORI_QUEUE_PATIENCE && !ori_queue_is_free(q, n) && !ori_queue_failed(q);
	     i++) {
		need = ori_load_relaxed_sys(&q->reserved) + n - q->depth;
		if (ori_reached(ori_load_relaxed_sys(&q->completed), need) ||
		    ori_queue_poll(q, need - 1) == 0) {
			ori_drive(context->comm->engine);
			if (i % 8 == 0)
				ori_yield();
		}
	}
}

/* Reserves n consecutive WQEs, n <= depth.  They may be filled when it returns 0. */
ORIEL_DEV int ori_queue_reserve(const struct ori_op_context *context, struct oriel_queue *q,
				uint32_t n, uint64_t *base)
{
	int err = ori_queue_failed(q);

	if (err)
		return err;
	if (!ORIEL_ON_GPU && !ori_queue_is_free(q, n))
		ori_queue_approach(context, q, n);
	/* Relaxed: this only takes a number.  [QUEUE7] passes the slots on, [QUEUE4] the turn. */
	*base = ori_fetch_add_relaxed_dev(&q->reserved, n);
	/*
	 * [QUEUE7] acquire, device scope; partner [QUEUE6].  The NIC has read the slots.  Without
	 * it this thread could fill a slot whose last WQE is not complete.
	 */
	if (ori_reached(ori_load_acquire_dev(&q->completed), *base + n - q->depth))
		return 0;
	err = ori_queue_wait(context, q, *base + n - q->depth);
	return err ? ori_queue_poison(q, err) : 0;
}

ORIEL_DEV_OUT int ori_queue_turn_slow(const struct ori_op_context *context, struct oriel_queue *q,
				      uint64_t base)
{
	struct ori_spin s;
	int err = 0;

	ori_queue_spin_begin(&s, context, q, base);
	/* [QUEUE4] acquire, device scope; partner [QUEUE3]. */
	while (!err && ori_load_acquire_dev(&q->produced) != base) {
		err = ori_queue_cause(context, ori_queue_failed(q));
		if (!err)
			err = ori_spin(&s, ori_load_relaxed_sys(&q->produced));
	}
	ori_spin_end(&s);
	return err ? ori_queue_poison(q, err) : 0;
}

/* Waits until all WQEs before `base` are rung. */
ORIEL_DEV int ori_queue_turn(const struct ori_op_context *context, struct oriel_queue *q,
			     uint64_t base)
{
	/*
	 * [QUEUE4] acquire, device scope; partner [QUEUE3].  This producer's doorbell also hands
	 * over the WQEs of earlier producers, so their stores must come before it.
	 */
	if (ori_load_acquire_dev(&q->produced) == base)
		return 0;
	return ori_queue_turn_slow(context, q, base);
}

/* Notes the WQEs that are about to be rung.  The trace shows each burst until its last CQE. */
ORIEL_DEV_OUT void ori_trace_post(const struct ori_op_context *context, const struct oriel_queue *q,
				  uint64_t next)
{
	struct ori_trace_note n = ori_trace_note_of(ORIEL_TRACE_POST, ori_trace_now(), q->peer,
						    (int)q->qpn, context->window);

	n.end = n.begin;
	n.bytes = next - ori_load_relaxed_sys(&q->produced);
	n.value = next;
	n.base = q->lane;
	ori_trace_write(context->comm->trace, n);
}

/* Called by the producer that has the turn: hands everything before `next` to the engine. */
ORIEL_DEV void ori_queue_ring(const struct ori_op_context *context, struct oriel_queue *q,
			      uint64_t next)
{
	if (ori_traced(context->comm))
		ori_trace_post(context, q, next);
	/*
	 * [QUEUE1] release, system scope; partner [SOFT5], [MLX2] or the NIC, which read the
	 * record.  Publishes the WQEs before `next` and the payload they name.  Without it the NIC
	 * finds the new index beside a WQE of the last lap, and sends from an address that was
	 * freed.  A GPU skips it if nobody reads the record, because it would be a fence over the
	 * bus.
	 */
	if (!(ORIEL_ON_GPU && q->bare))
		ori_store_release32_sys(&q->record[1], ori_doorbell_record(next));
	if (q->mmio)
		ori_push_stores();
	/*
	 * [QUEUE2] release, system scope; partner [SOFT6], [PROXY5] or the NIC.  Publishes the same
	 * WQEs, and the record before them.  Device scope would be too weak: the reader is a CPU
	 * thread or a NIC.  Without it a rung NIC could read the old record and stop, and nobody
	 * would ring again.
	 */
	ori_store_release_sys(q->doorbell, ori_doorbell_value(next, q->qpn));
	/* Another core rings next.  Its doorbell must not reach the NIC before this one. */
	if (q->mmio)
		ori_push_stores();
	/*
	 * [QUEUE3] release, device scope: all producers are of this device; partners [QUEUE4] and
	 * [QUEUE8].  Publishes this producer's WQEs and doorbell to the next one.  Without it the
	 * next doorbell could come before this one, and hand over WQEs that are not written yet.
	 */
	ori_store_release_dev(&q->produced, next);
	/* The next producer may be asleep. */
	if (ori_load_relaxed_sys(&q->reserved) != next)
		ori_wake(context->comm->waiters);
	ori_drive(context->comm->engine);
}

ORIEL_DEV int ori_queue_publish(const struct ori_op_context *context, struct oriel_queue *q,
				uint64_t base, uint32_t n)
{
	int err = ori_queue_turn(context, q, base);

	if (!err)
		ori_queue_ring(context, q, base + n);
	return err;
}

#endif
