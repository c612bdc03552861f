/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/fetch.h - values fetched from queued peers: where they arrive, and how to wait.
 *
 * A fetched value arrives in one of the comm's result slots.  The block chooses the slot, and the
 * waiting thread locks it, so that no answer for another group arrives there.
 */
#ifndef ORIEL_DEVICE_FETCH_H
#define ORIEL_DEVICE_FETCH_H

#include "post.h"

/* The source of a fetched value, and the block that fetches it. */
struct ori_fetch {
	const struct oriel_link *link;
	uint32_t lane;
	uint32_t block; /* chooses the result slot */
	uint64_t remote;
	const uint32_t *rkey; /* [nic] */
};

/* Locks the result slot of a block. */
ORIEL_DEV int ori_result_take(const struct ori_op_context *context, uint32_t block, uint32_t *slot)
{
	struct oriel_result *r;
	struct ori_spin s;
	int err = 0;

	*slot = block % ORIEL_RESULT_SLOTS;
	r = &context->comm->results[*slot];
	ori_spin_begin(&s, context->comm, context->window_failure,
		       ORIEL_OP_QUEUE | context->call << ORIEL_CALL_SHIFT, context->comm->rank,
		       (int)*slot, context->window, 0);
	/* [FETCH1] acquire, system scope; partner [FETCH2]: the last user has read its value. */
	while (!err && ori_compare_swap_acq_rel_sys(&r->lock, 0, 1) != 0)
		err = ori_spin(&s, 1);
	ori_spin_end(&s);
	return err;
}

ORIEL_DEV void ori_result_give(const struct ori_op_context *context, uint32_t slot)
{
	/*
	 * [FETCH2] release, system scope; partner [FETCH1].  This thread has read the words.
	 * Without it the next user's NIC could overwrite them before the load, and two groups would
	 * get one value.
	 */
	ori_store_release_sys(&context->comm->results[slot].lock, 0);
}

/* The words that the NIC wrote, in the host's half of control memory. */
ORIEL_DEV const uint64_t *ori_result_words(const struct oriel_comm_dev *comm, uint32_t slot)
{
	return ((const struct oriel_result *)ori_host_half(comm, &comm->results[slot]))->words;
}

/* The address, under comm->result_key, where the NIC writes the value. */
ORIEL_DEV uint64_t ori_result_address(uint32_t slot)
{
	return (uint64_t)slot * sizeof(struct oriel_result) + offsetof(struct oriel_result, words);
}

/* Fetches 1 to 32 bytes of the peer's memory.  Called by one thread. */
ORIEL_DEV_OUT int ori_fetch_bytes(const struct ori_op_context *context,
				  const struct ori_fetch *fetch, void *out, uint64_t bytes)
{
	struct oriel_queue *q = fetch->link->lanes[fetch->lane].main;
	struct ori_post read;
	uint32_t slot;
	int err = ori_result_take(context, fetch->block, &slot);

	if (err)
		return err;
	ori_post_init(&read);
	read.remote = fetch->remote;
	read.rkey = fetch->rkey;
	read.local = ori_result_address(slot);
	read.lkey = context->comm->result_key;
	read.bytes = bytes;
	err = ori_queue_read(context, fetch->link, fetch->lane, &read);
	if (!err)
		err = ori_queue_wait(context, q, ori_queue_rung(q));
	/*
	 * After a failure the answer may still arrive.  The slot stays locked: the comm is
	 * unusable.
	 */
	if (err)
		return err;
	memcpy(out, ori_result_words(context->comm, slot), bytes);
	ori_result_give(context, slot);
	return 0;
}

/*
 * The lane of an atomic.  The first NIC of a word's rank executes the atomics of all ranks on it,
 * because NICs are atomic only with themselves.  So the block's operations on a lane of another NIC
 * must be delivered first.
 */
ORIEL_DEV int ori_atomic_lane(const struct ori_op_context *context, const struct oriel_link *link,
			      uint32_t *n)
{
	struct oriel_queue *q = link->lanes[*n].main;

	if (link->lanes[*n].nic == 0)
		return 0;
	*n = 0;
	return ori_queue_wait(context, q, ori_queue_rung(q));
}

/* fetch-add (compare == 0) or compare-swap.  Called by one thread. */
ORIEL_DEV_OUT int ori_fetch_atomic(const struct ori_op_context *context,
				   const struct ori_fetch *fetch, int compare, uint64_t expected,
				   uint64_t value, uint64_t *old)
{
	const struct oriel_lane *lane;
	struct oriel_queue *q;
	struct ori_wqe *w;
	uint32_t slot, n = fetch->lane, rkey, lkey;
	uint64_t base;
	int err = ori_atomic_lane(context, fetch->link, &n);

	if (!err)
		err = ori_result_take(context, fetch->block, &slot);
	if (err)
		return err;
	lane = &fetch->link->lanes[n];
	q = lane->main;
	rkey = fetch->rkey[lane->nic];
	lkey = context->comm->result_key[lane->nic];
	err = ori_queue_reserve(context, q, 1, &base);
	if (err)
		return err;
	w = ori_queue_slot(q, base);
	if (compare)
		ori_wqe_compare_swap(w, base, q->qpn, fetch->remote, rkey, expected, value,
				     ori_result_address(slot), lkey, 0);
	else
		ori_wqe_fetch_add(w, base, q->qpn, fetch->remote, rkey, value,
				  ori_result_address(slot), lkey, 0);
	err = ori_queue_publish(context, q, base, 1);
	if (!err)
		err = ori_queue_wait(context, q, base + 1);
	if (err)
		return err;
	*old = ori_result_words(context->comm, slot)[0];
	ori_result_give(context, slot);
	return 0;
}

#endif
