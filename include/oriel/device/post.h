/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/post.h - operations on queues: data, a word at the peer, a count here; reads,
 * fences and flushes.
 *
 * One thread makes each call, after its group met.  The path of a word depends on the abilities of
 * the link's NIC (docs/decisions/0009).
 *
 * Model of counts: models/companion.pml
 */
#ifndef ORIEL_DEVICE_POST_H
#define ORIEL_DEVICE_POST_H

#include "mapped.h"
#include "queue.h"

/* ---- one operation: data, then a word at the peer, then a count here; each may be missing ---- */

struct ori_post {
	/* data: from (local, lkey), or `value` if it is not NULL (1 to 28 bytes) */
	uint64_t remote, local, bytes;
	const uint32_t *rkey, *lkey; /* [nic] */
	const void *value;
	/* the word: 0 none, ORIEL_ADD or ORIEL_SET */
	int32_t signal;
	uint32_t signal_flags; /* ORI_WQE_FENCE, ORI_WQE_STRONG */
	uint64_t word, signal_value;
	/*
	 * NICs are atomic only with themselves, so each NIC may have its own word.  This is the
	 * distance in bytes from one NIC's word to the next.  ADD goes to the word of the lane's
	 * NIC, SET to the first word.  0: there is one word.
	 */
	uint64_t word_stride;
	/* the word is written only through the first NIC, after a flush */
	uint32_t one_nic;
	uint32_t tells; /* the word must not be visible before earlier posts */
	const uint32_t *word_key;
	/* the sum of all ADDs, for NICs that cannot add; NULL: only SET */
	uint64_t *total;
	/*
	 * the count: 1 is added to (count_address, count_key) when the data is complete; without
	 * data, when the word is complete
	 */
	uint64_t *count; /* the same word for this device; NULL: no count */
	uint64_t count_address;
	const uint32_t *count_key;
};

ORIEL_DEV void ori_post_init(struct ori_post *p)
{
	memset(p, 0, sizeof(*p));
	p->tells = 1;
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

ORIEL_DEV void ori_fill_word(const struct oriel_link *link, const struct oriel_lane *lane,
			     uint64_t index, const struct ori_post *p, int add, uint64_t value)
{
	struct oriel_queue *q = lane->main;
	struct ori_wqe *w = ori_queue_slot(q, index);
	uint32_t flags = p->signal_flags;

	if (add) {
		ori_wqe_fetch_add(w, index, q->qpn, p->word + p->word_stride * lane->nic,
				  p->word_key[lane->nic], value, 0, lane->sink_key, flags);
		return;
	}
	/*
	 * A plain write could overtake the data it announces.  Then it must start after that data.
	 */
	if (p->tells && !(link->flags & ORIEL_LINK_WRITES_ORDERED))
		flags |= ORI_WQE_STRONG;
	ori_wqe_write_inline(w, index, q->qpn, p->word, p->word_key[lane->nic], &value, 8, flags);
}

/*
 * Posts all chunks of the data except the last, one burst each.  *done is the number of bytes
 * posted.
 */
ORIEL_DEV int ori_post_chunks(const struct ori_op_context *context, const struct oriel_link *link,
			      const struct oriel_lane *lane, const struct ori_post *p,
			      uint64_t *done)
{
	uint64_t base;
	int err = 0;

	*done = 0;
	while (!err && p->bytes - *done > link->message_bytes) {
		err = ori_queue_reserve(context, lane->main, 1, &base);
		if (err)
			break;
		ori_fill_data(lane, base, p, *done, link->message_bytes);
		err = ori_queue_publish(context, lane->main, base, 1);
		*done += link->message_bytes;
	}
	return err;
}

/*
 * Called by the thread that has the turn: the value to send.  Accesses to `total` are plain,
 * because the turn orders them ([QUEUE3] to [QUEUE4]).
 */
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
 * A word that goes through lane 0, whichever lane the data used.  This path serves NICs that cannot
 * add or do not keep order, so that totals leave in the order they were made.  It also serves words
 * that only one NIC may touch.  On an unordered link the word leaves after the last one is
 * complete.
 */
ORIEL_DEV int ori_post_word_in_turn(const struct ori_op_context *context,
				    const struct oriel_link *link, const struct ori_post *p,
				    uint64_t *index)
{
	const struct oriel_lane *lane = &link->lanes[0];
	struct oriel_queue *q = lane->main;
	int add = p->signal == ORIEL_ADD && (link->flags & ORIEL_LINK_ATOMICS) != 0;
	uint64_t base;
	int err = ori_queue_reserve(context, q, 1, &base);

	if (!err)
		err = ori_queue_turn(context, q, base);
	if (!err && !(link->flags & ORIEL_LINK_ORDERED)) {
		err = ori_queue_wait(context, q, *link->last_signal);
		if (err)
			ori_queue_poison(q, err);
	}
	if (err)
		return err;
	ori_fill_word(link, lane, base, p, add, ori_post_total(p, add));
	*link->last_signal = base + 1;
	ori_queue_ring(context, q, base + 1);
	*index = base;
	return 0;
}

/*
 * WAITs for the operation, then adds through the loopback.  The NIC counts; no thread has to poll.
 */
ORIEL_DEV int ori_post_count(const struct ori_op_context *context, const struct oriel_lane *lane,
			     const struct ori_post *p, uint64_t index)
{
	struct oriel_queue *q = lane->companion;
	uint64_t base;
	int err = ori_queue_reserve(context, q, 2, &base);

	if (err)
		return err;
	ori_wqe_wait(ori_queue_slot(q, base), base, q->qpn, lane->main->cqn, (uint32_t)index);
	ori_wqe_fetch_add(ori_queue_slot(q, base + 1), base + 1, q->qpn, p->count_address,
			  p->count_key[lane->nic], 1, 0, lane->sink_key, 0);
	return ori_queue_publish(context, q, base, 2);
}

/* Without NIC atomics the poster waits and counts itself. */
ORIEL_DEV int ori_count_here(const struct ori_op_context *context, const struct oriel_lane *lane,
			     const struct ori_post *p, uint64_t index)
{
	int err = ori_queue_wait(context, lane->main, index + 1);

	if (!err)
		ori_word_signal(p->count, ORIEL_ADD, 1, context->comm->waiters);
	return err;
}

/* The fast path: data that fits one WQE, without signal or count. */
ORIEL_DEV_OUT int ori_post_data(const struct ori_op_context *context, const struct oriel_lane *lane,
				const struct ori_post *p)
{
	uint64_t base;
	int err = ori_queue_reserve(context, lane->main, 1, &base);

	if (err)
		return err;
	ori_fill_data(lane, base, p, 0, p->bytes);
	return ori_queue_publish(context, lane->main, base, 1);
}

/* Does the word follow the data directly, in one burst?  Otherwise it leaves by lane 0. */
ORIEL_DEV int ori_post_word_joins(const struct oriel_link *link, const struct oriel_lane *lane,
				  const struct ori_post *p)
{
	uint32_t both = ORIEL_LINK_ORDERED | ORIEL_LINK_ATOMICS;

	return p->signal && (link->flags & both) == both && !(p->one_nic && lane->nic);
}

/*
 * First part of an operation: the data, and the word if it joins.  *index is the first WQE of the
 * burst.  An operation with only a count posts a NOP.  One with only a separate word posts nothing.
 */
ORIEL_DEV int ori_post_burst(const struct ori_op_context *context, const struct oriel_link *link,
			     const struct oriel_lane *lane, const struct ori_post *p, int joined,
			     uint64_t *index)
{
	uint32_t burst = (p->bytes != 0) + (uint32_t)joined;
	uint64_t base, done;
	int err;

	if (!burst && p->count && !p->signal)
		burst = 1;
	if (!burst)
		return 0;
	err = ori_post_chunks(context, link, lane, p, &done);
	if (!err)
		err = ori_queue_reserve(context, lane->main, burst, &base);
	if (err)
		return err;
	if (p->bytes)
		ori_fill_data(lane, base, p, done, p->bytes - done);
	if (joined)
		ori_fill_word(link, lane, base + burst - 1, p, p->signal == ORIEL_ADD,
			      p->signal_value);
	if (!p->bytes && !joined)
		ori_wqe_nop(ori_queue_slot(lane->main, base), base, lane->main->qpn, 0);
	*index = base;
	return ori_queue_publish(context, lane->main, base, burst);
}

/* Second part: the word, if it does not join the data.  *index is its WQE on lane 0. */
ORIEL_DEV int ori_post_word_apart(const struct ori_op_context *context,
				  const struct oriel_link *link, uint32_t n,
				  const struct ori_post *p, uint64_t *index)
{
	const struct oriel_lane *lane = &link->lanes[n];
	int err = 0;

	/* Another lane, or a NIC that reorders: the word leaves after all data has arrived. */
	if (n != 0 || !(link->flags & ORIEL_LINK_ORDERED))
		err = ori_queue_wait(context, lane->main, ori_queue_rung(lane->main));
	if (!err)
		err = ori_post_word_in_turn(context, link, p, index);
	/* Later posts of the block use the NIC of their own lane and must not overtake the word. */
	if (!err && p->one_nic && lane->nic)
		err = ori_queue_wait(context, link->lanes[0].main, *index + 1);
	return err;
}

/* Third part: counts when WQE `index` of `counted` (this lane or lane 0) is complete. */
ORIEL_DEV int ori_post_counted(const struct ori_op_context *context, const struct oriel_link *link,
			       const struct oriel_lane *lane, const struct oriel_lane *counted,
			       const struct ori_post *p, uint64_t index)
{
	int err;

	if (!(link->flags & ORIEL_LINK_ATOMICS))
		return ori_count_here(context, counted, p, index);
	if (counted != lane) {
		/*
		 * Only this lane's NIC may add to its counter, in the order of its operations.  So
		 * a NOP of this lane represents the complete word.
		 */
		err = ori_queue_wait(context, counted->main, index + 1);
		if (!err)
			err = ori_queue_reserve(context, lane->main, 1, &index);
		if (err)
			return err;
		ori_wqe_nop(ori_queue_slot(lane->main, index), index, lane->main->qpn, 0);
		err = ori_queue_publish(context, lane->main, index, 1);
		if (err)
			return err;
	}
	return ori_post_count(context, lane, p, index);
}

/* An operation with any parts, one after the other. */
ORIEL_DEV_OUT int ori_post_parts(const struct ori_op_context *context,
				 const struct oriel_link *link, uint32_t n,
				 const struct ori_post *p)
{
	const struct oriel_lane *lane = &link->lanes[n], *counted = lane;
	int joined = ori_post_word_joins(link, lane, p);
	uint64_t index = 0, word = 0;
	int err = ori_post_burst(context, link, lane, p, joined, &index);

	if (!err && p->signal && !joined) {
		err = ori_post_word_apart(context, link, n, p, &word);
		if (!p->bytes) {
			counted = &link->lanes[0];
			index = word;
		}
	}
	if (err || !p->count)
		return err;
	return ori_post_counted(context, link, lane, counted, p, index);
}

/* Called by one thread after its group met: posts the operation on lane `n` of the link. */
ORIEL_DEV int ori_queue_post(const struct ori_op_context *context, const struct oriel_link *link,
			     uint32_t n, const struct ori_post *p)
{
	if (!p->signal && !p->count && p->bytes - 1 < link->message_bytes)
		return ori_post_data(context, &link->lanes[n], p);
	return ori_post_parts(context, link, n, p);
}

/* Reads (remote, rkey) of the peer into (local, lkey), p->bytes; complete when the lane is. */
ORIEL_DEV_OUT int ori_queue_read(const struct ori_op_context *context,
				 const struct oriel_link *link, uint32_t n,
				 const struct ori_post *p)
{
	const struct oriel_lane *lane = &link->lanes[n];
	struct oriel_queue *q = lane->main;
	uint64_t base, done = 0, left;
	uint32_t piece;
	int err = 0;

	while (!err && done < p->bytes) {
		left = p->bytes - done;
		piece = (uint32_t)(left < link->message_bytes ? left : link->message_bytes);
		err = ori_queue_reserve(context, q, 1, &base);
		if (err)
			break;
		ori_wqe_rdma(ori_queue_slot(q, base), base, q->qpn, ORI_WQE_RDMA_READ,
			     p->remote + done, p->rkey[lane->nic], p->local + done,
			     p->lkey[lane->nic], piece, 0);
		err = ori_queue_publish(context, q, base, 1);
		done += piece;
	}
	return err;
}

/*
 * Later WQEs of the lane start after its earlier reads and atomics are complete.  If writes may
 * overtake each other, they start after its earlier writes too.
 */
ORIEL_DEV_OUT int ori_lane_fence(const struct ori_op_context *context,
				 const struct oriel_link *link, uint32_t n)
{
	struct oriel_queue *q = link->lanes[n].main;
	uint64_t base;
	int err;

	if (!(link->flags & ORIEL_LINK_ORDERED))
		return ori_queue_wait(context, q, ori_queue_rung(q));
	err = ori_queue_reserve(context, q, 1, &base);
	if (err)
		return err;
	ori_wqe_nop(ori_queue_slot(q, base), base, q->qpn,
		    link->flags & ORIEL_LINK_WRITES_ORDERED ? ORI_WQE_FENCE : ORI_WQE_STRONG);
	return ori_queue_publish(context, q, base, 1);
}

/* Waits until all posts of the lane are complete, with the words it sent through lane 0. */
ORIEL_DEV_OUT int ori_lane_flush(const struct ori_op_context *context,
				 const struct oriel_link *link, uint32_t n)
{
	uint32_t both = ORIEL_LINK_ORDERED | ORIEL_LINK_ATOMICS;
	struct oriel_queue *q = link->lanes[n].main;
	int err = ori_queue_wait(context, q, ori_queue_rung(q));

	if (err || n == 0 || (link->flags & both) == both)
		return err;
	q = link->lanes[0].main;
	return ori_queue_wait(context, q, ori_queue_rung(q));
}

#endif
