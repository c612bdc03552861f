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
struct ori_scope {
	const struct oriel_comm_dev *comm;
	const uint64_t *window_failure;
	int32_t window;
	int32_t reserved;
	uint64_t timeout_ns;
};

ORIEL_DEV struct ori_scope ori_comm_scope(const struct oriel_comm_dev *comm)
{
	struct ori_scope s;

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

ORIEL_DEV void ori_queue_spin_begin(struct ori_spin *s, const struct ori_scope *scope,
				    const struct oriel_queue *q, uint64_t want)
{
	ori_spin_begin(s, scope->comm, scope->window_failure, ORIEL_OP_QUEUE, q->peer,
		       (int)q->lane, scope->window, want);
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
ORIEL_DEV_OUT int ori_queue_wait(const struct ori_scope *scope, struct oriel_queue *q, uint64_t count)
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
		err = done < 0 ? done : ori_queue_failed(q);
		if (!err)
			err = ori_spin(&s, ori_load_relaxed_sys(&q->completed));
	}
	ori_spin_end(&s);
	return err;
}

/* ---- producing ------------------------------------------------------------------------------------------ */

/* n consecutive WQEs, n <= depth; they may be filled when it returns 0. */
ORIEL_DEV_OUT int ori_queue_reserve(const struct ori_scope *scope, struct oriel_queue *q, uint32_t n,
				uint64_t *base)
{
	int err = ori_queue_failed(q);

	if (err)
		return err;
	*base = ori_fetch_add_acq_rel_sys(&q->reserved, n);
	if (!ORI_MUTANT(4))
		err = ori_queue_wait(scope, q, *base + n - q->depth);
	return err ? ori_queue_poison(q, err) : 0;
}

/* Until all WQEs before `base` are rung. */
ORIEL_DEV_OUT int ori_queue_turn(const struct ori_scope *scope, struct oriel_queue *q, uint64_t base)
{
	struct ori_spin s;
	int err = 0;

	/* [P4] acquire; partner [P3]: the WQEs of those before are behind our doorbell too. */
	if (ori_load_acquire_sys(&q->produced) == base || ORI_MUTANT(2))
		return 0;
	ori_queue_spin_begin(&s, scope, q, base);
	while (!err && ori_load_acquire_sys(&q->produced) != base) {
		err = ori_queue_failed(q);
		if (!err)
			err = ori_spin(&s, ori_load_relaxed_sys(&q->produced));
	}
	ori_spin_end(&s);
	return err ? ori_queue_poison(q, err) : 0;
}

/* By who has the turn: everything before `next` is the engine's now. */
ORIEL_DEV void ori_queue_ring(const struct ori_scope *scope, struct oriel_queue *q, uint64_t next)
{
	/* [P1] release, system scope: a NIC that reads the record must find the WQEs. */
	if (!ORI_MUTANT(3))
		ori_store_release32_sys(&q->record[1], ori_doorbell_record(next));
	/* [P2] release, system scope: and one that is rung must find the record. */
	if (!ORI_MUTANT(1))
		ori_store_release_sys(q->doorbell, ori_doorbell_value(next, q->qpn));
	else
		ori_store_relaxed_sys(q->doorbell, ori_doorbell_value(next, q->qpn));
	/* [P3] release; partner [P4]. */
	if (!ORI_MUTANT(7))
		ori_store_release_sys(&q->produced, next);
	else
		ori_store_relaxed_sys(&q->produced, next);
	ori_drive(scope->comm->engine);
	if (ORI_MUTANT(3))
		ori_store_release32_sys(&q->record[1], ori_doorbell_record(next));
}

ORIEL_DEV int ori_queue_publish(const struct ori_scope *scope, struct oriel_queue *q, uint64_t base,
				uint32_t n)
{
	int err = ori_queue_turn(scope, q, base);

	if (!err)
		ori_queue_ring(scope, q, base + n);
	return err;
}

/* ---- one operation: data, then a word at the peer, then a count here; each may be missing ------------- */

struct ori_post {
	/* data: from (local, lkey), or `value` if it is not NULL (1 to 28 bytes) */
	uint64_t remote, local, bytes;
	const uint32_t *rkey, *lkey; /* [nic] */
	const void *value;
	/* the word: 0 none, ORIEL_ADD or ORIEL_SET */
	int32_t signal;
	uint32_t signal_flags; /* ORI_WQE_FENCE, ORI_WQE_STRONG */
	uint64_t word, signal_value;
	const uint32_t *word_key;
	uint64_t *total; /* what the word has come to, for NICs that cannot add; NULL: only SET */
	/* the count: 1 is added to (count_address, count_key) when data, or else the word, is complete */
	uint64_t *count; /* the same word for this device; NULL: no count */
	uint64_t count_address;
	const uint32_t *count_key;
};

ORIEL_DEV void ori_post_init(struct ori_post *p)
{
	memset(p, 0, sizeof(*p));
}

ORIEL_DEV void ori_fill_data(const struct oriel_lane *lane, uint64_t index,
			     const struct ori_post *p, uint64_t done, uint64_t bytes)
{
	struct oriel_queue *q = lane->main;
	struct ori_wqe *w = ori_queue_slot(q, index);

	if (p->value)
		ori_wqe_write_inline(w, index, q->qpn, p->remote, p->rkey[lane->nic], p->value,
				     (uint32_t)bytes, 0);
	else
		ori_wqe_rdma(w, index, q->qpn, ORI_WQE_RDMA_WRITE, p->remote + done,
			     p->rkey[lane->nic], p->local + done, p->lkey[lane->nic],
			     (uint32_t)bytes, 0);
}

ORIEL_DEV void ori_fill_word(const struct oriel_lane *lane, uint64_t index,
			     const struct ori_post *p, int add, uint64_t value)
{
	struct oriel_queue *q = lane->main;
	struct ori_wqe *w = ori_queue_slot(q, index);

	if (add)
		ori_wqe_fetch_add(w, index, q->qpn, p->word, p->word_key[lane->nic], value, 0,
				  lane->sink_key, p->signal_flags);
	else
		ori_wqe_write_inline(w, index, q->qpn, p->word, p->word_key[lane->nic], &value, 8,
				     p->signal_flags);
}

/* Chunks of the data but the last, each a burst of its own; *done is how far it got. */
ORIEL_DEV int ori_post_chunks(const struct ori_scope *scope, const struct oriel_link *link,
			      const struct oriel_lane *lane, const struct ori_post *p,
			      uint64_t *done)
{
	uint64_t base;
	int err = 0;

	*done = 0;
	while (!err && p->bytes - *done > link->message_bytes) {
		err = ori_queue_reserve(scope, lane->main, 1, &base);
		if (err)
			break;
		ori_fill_data(lane, base, p, *done, link->message_bytes);
		err = ori_queue_publish(scope, lane->main, base, 1);
		*done += link->message_bytes;
	}
	return err;
}

/* By who has the turn: the value to send.  Plain accesses, one after the other by [P3]/[P4]. */
ORIEL_DEV uint64_t ori_post_total(const struct ori_post *p, int add)
{
	uint64_t value = p->signal_value;

	if (p->total && !add) {
		if (p->signal == ORIEL_ADD)
			value += *p->total;
		*p->total = value;
	}
	return value;
}

/*
 * A word written where the NIC cannot add or does not keep order: always through lane 0, in its turn, so
 * that totals leave in the order they were made; and, without order, after the last word is complete.
 */
ORIEL_DEV int ori_post_word_in_turn(const struct ori_scope *scope, const struct oriel_link *link,
				    const struct ori_post *p, uint64_t *index)
{
	const struct oriel_lane *lane = &link->lanes[0];
	struct oriel_queue *q = lane->main;
	int add = p->signal == ORIEL_ADD && (link->flags & ORIEL_LINK_ATOMICS) != 0;
	uint64_t base, value = 0;
	int err = ori_queue_reserve(scope, q, 1, &base);

	if (ORI_MUTANT(5))
		value = ori_post_total(p, add);
	if (!err)
		err = ori_queue_turn(scope, q, base);
	if (!err && !(link->flags & ORIEL_LINK_ORDERED)) {
		err = ori_queue_wait(scope, q, *link->last_signal);
		if (err)
			ori_queue_poison(q, err);
	}
	if (err)
		return err;
	if (!ORI_MUTANT(5))
		value = ori_post_total(p, add);
	ori_fill_word(lane, base, p, add, value);
	*link->last_signal = base + 1;
	ori_queue_ring(scope, q, base + 1);
	*index = base;
	return 0;
}

/* WAIT for the operation, then add through the loopback: the NIC counts, no thread has to look. */
ORIEL_DEV int ori_post_count(const struct ori_scope *scope, const struct oriel_lane *lane,
			     const struct ori_post *p, uint64_t index)
{
	struct oriel_queue *q = lane->companion;
	uint64_t base;
	int err = ori_queue_reserve(scope, q, 2, &base);

	if (err)
		return err;
	ori_wqe_wait(ori_queue_slot(q, base), base, q->qpn, lane->main->cqn, (uint32_t)index);
	ori_wqe_fetch_add(ori_queue_slot(q, base + 1), base + 1, q->qpn, p->count_address,
			  p->count_key[lane->nic], 1, 0, lane->sink_key, 0);
	return ori_queue_publish(scope, q, base, 2);
}

/* Without NIC atomics the poster waits and counts itself. */
ORIEL_DEV int ori_count_here(const struct ori_scope *scope, const struct oriel_lane *lane,
			     const struct ori_post *p, uint64_t index)
{
	int err = ori_queue_wait(scope, lane->main, index + 1);

	if (!err)
		ori_mapped_signal(p->count, ORIEL_ADD, 1, scope->comm->waiters);
	return err;
}

/* By one thread, after its group met: posts the operation on lane `n` of the link. */
ORIEL_DEV_OUT int ori_queue_post(const struct ori_scope *scope, const struct oriel_link *link,
			     uint32_t n, const struct ori_post *p)
{
	const struct oriel_lane *lane = &link->lanes[n], *counted = lane;
	uint32_t both = ORIEL_LINK_ORDERED | ORIEL_LINK_ATOMICS;
	int with_word = p->signal && (link->flags & both) == both;
	uint32_t burst = (p->bytes != 0) + (uint32_t)with_word;
	uint64_t base = 0, done = 0, index;
	int err = 0;

	if (!burst && p->count && !p->signal)
		burst = 1; /* nothing to move, but a completion to count: a NOP */
	if (burst) {
		err = ori_post_chunks(scope, link, lane, p, &done);
		if (!err)
			err = ori_queue_reserve(scope, lane->main, burst, &base);
		if (err)
			return err;
		if (p->bytes)
			ori_fill_data(lane, base, p, done, p->bytes - done);
		if (with_word)
			ori_fill_word(lane, base + burst - 1, p, p->signal == ORIEL_ADD,
				      p->signal_value);
		if (!p->bytes && !with_word)
			ori_wqe_nop(ori_queue_slot(lane->main, base), base, lane->main->qpn, 0);
		err = ori_queue_publish(scope, lane->main, base, burst);
	}
	index = base;
	if (!err && p->signal && !with_word) {
		/* Another lane, or a NIC that reorders: all data must be there before the word leaves. */
		if (n != 0 || !(link->flags & ORIEL_LINK_ORDERED))
			err = ori_queue_wait(scope, lane->main,
					     ori_load_acquire_sys(&lane->main->produced));
		if (!err)
			err = ori_post_word_in_turn(scope, link, p, p->bytes ? &done : &index);
		if (!p->bytes)
			counted = &link->lanes[0];
	}
	if (err || !p->count)
		return err;
	if (!(link->flags & ORIEL_LINK_ATOMICS))
		return ori_count_here(scope, counted, p, index);
	if (counted != lane) {
		/* Only this lane's NIC may add to its counter, and in the order of its operations. */
		err = ori_queue_wait(scope, counted->main, index + 1);
		if (err)
			return err;
		index = ori_load_acquire_sys(&lane->main->completed) - 1;
	}
	return ori_post_count(scope, lane, p, index);
}

/* Reads `bytes` of the peer into (local, lkey); complete when the lane is. */
ORIEL_DEV_OUT int ori_queue_read(const struct ori_scope *scope, const struct oriel_link *link, uint32_t n,
			     uint64_t remote, const uint32_t *rkey, uint64_t local,
			     const uint32_t *lkey, uint64_t bytes)
{
	const struct oriel_lane *lane = &link->lanes[n];
	struct oriel_queue *q = lane->main;
	uint64_t base, done = 0, piece;
	int err = 0;

	while (!err && done < bytes) {
		piece = bytes - done < link->message_bytes ? bytes - done : link->message_bytes;
		err = ori_queue_reserve(scope, q, 1, &base);
		if (err)
			break;
		ori_wqe_rdma(ori_queue_slot(q, base), base, q->qpn, ORI_WQE_RDMA_READ, remote + done,
			     rkey[lane->nic], local + done, lkey[lane->nic], (uint32_t)piece, 0);
		err = ori_queue_publish(scope, q, base, 1);
		done += piece;
	}
	return err;
}

/* Later WQEs of the lane start after its earlier reads and atomics are complete. */
ORIEL_DEV_OUT int ori_queue_fence(const struct ori_scope *scope, const struct oriel_link *link,
			      uint32_t n)
{
	struct oriel_queue *q = link->lanes[n].main;
	uint64_t base;
	int err;

	if (!(link->flags & ORIEL_LINK_ORDERED))
		return ori_queue_wait(scope, q, ori_load_acquire_sys(&q->produced));
	err = ori_queue_reserve(scope, q, 1, &base);
	if (err)
		return err;
	ori_wqe_nop(ori_queue_slot(q, base), base, q->qpn, ORI_WQE_FENCE);
	return ori_queue_publish(scope, q, base, 1);
}

/* What the lane has been given so far is complete, words sent through lane 0 for it too. */
ORIEL_DEV_OUT int ori_queue_flush(const struct ori_scope *scope, const struct oriel_link *link,
			      uint32_t n)
{
	uint32_t both = ORIEL_LINK_ORDERED | ORIEL_LINK_ATOMICS;
	struct oriel_queue *q = link->lanes[n].main;
	int err = ori_queue_wait(scope, q, ori_load_acquire_sys(&q->produced));

	if (err || n == 0 || (link->flags & both) == both)
		return err;
	q = link->lanes[0].main;
	return ori_queue_wait(scope, q, ori_load_acquire_sys(&q->produced));
}

#endif
