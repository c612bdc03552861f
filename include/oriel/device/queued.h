/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/queued.h - the half of the transport layer for peers reached through work queues.
 *
 * It is the counterpart of device/mapped.h, for people who build their own collectives: puts,
 * signals and counts on memory of the caller.  oriel_buffer_exchange and oriel_buffer_remote give
 * the peer's memory, oriel_buffer_source gives this rank's.  `comm` is the handle of
 * oriel_comm_device().  The owner of a signal word or counter waits for it with oriel_mapped_wait()
 * on its address.
 *
 * All threads of the group make a call, with equal arguments, and get the same status: 0,
 * ORIEL_ENOTCONN (no queue to that peer), ORIEL_ERANGE, ORIEL_EINVAL (a word that is not 8-byte
 * aligned, an unknown op), ORIEL_EUNSUPPORTED, ORIEL_ETIMEDOUT, or the comm's first failure.  A
 * block's operations to one peer are executed in order.  oriel/device.h explains *posted*,
 * *complete* and *delivered*.
 */
#ifndef ORIEL_DEVICE_QUEUED_H
#define ORIEL_DEVICE_QUEUED_H

#include "post.h"

/* A signal word in a peer's memory. */
struct oriel_queue_word {
	struct oriel_remote memory;
	uint64_t offset; /* of the word in it */
	/*
	 * A word of this rank that holds the sum of all ORIEL_ADD.  There is one per signal word,
	 * and it starts at that word's value.  If the NIC cannot add, the sum is made here and
	 * stored there.  NULL: without NIC atomics ORIEL_ADD is ORIEL_EUNSUPPORTED.  Only calls of
	 * this file access it.
	 */
	uint64_t *total;
};

/* ---- every thread builds the operation, and the leader posts it ------------------------------ */

/* The arguments of a call.  Each of the three parts may be missing: dst, word, counter NULL. */
struct ori_queued_args {
	const struct oriel_remote *dst;
	const struct oriel_source *src;
	uint64_t dst_off, src_off, bytes;
	const struct oriel_queue_word *word;
	uint64_t value;
	int32_t op;
	uint32_t flags; /* ORI_WQE_FENCE of the signal */
	const struct oriel_source *counter;
	uint64_t counter_off;
};

ORIEL_DEV struct ori_queued_args ori_queued_put(const struct oriel_remote *dst, uint64_t dst_off,
						const struct oriel_source *src, uint64_t src_off,
						uint64_t bytes)
{
	struct ori_queued_args args;

	memset(&args, 0, sizeof(args));
	args.dst = dst;
	args.src = src;
	args.dst_off = dst_off;
	args.src_off = src_off;
	args.bytes = bytes;
	return args;
}

/* The same operation with a signal after the data. */
ORIEL_DEV struct ori_queued_args ori_queued_signal(struct ori_queued_args args,
						   const struct oriel_queue_word *word, int op,
						   uint64_t value)
{
	args.word = word;
	args.op = op;
	args.value = value;
	return args;
}

ORIEL_DEV struct ori_queued_args ori_queued_signal_alone(const struct oriel_queue_word *word,
							 int op, uint64_t value)
{
	return ori_queued_signal(ori_queued_put(NULL, 0, NULL, 0, 0), word, op, value);
}

ORIEL_DEV const struct oriel_link *ori_queued_link(const struct oriel_comm_dev *comm, int peer)
{
	return peer < 0 || peer >= comm->nranks ? NULL : comm->peers[peer].link;
}

ORIEL_DEV int ori_outside(uint64_t offset, uint64_t bytes, uint64_t limit)
{
	return offset > limit || bytes > limit - offset;
}

ORIEL_DEV int ori_queued_set_data(struct ori_post *post, const struct ori_queued_args *args)
{
	if (ori_outside(args->dst_off, args->bytes, args->dst->bytes) ||
	    ori_outside(args->src_off, args->bytes, args->src->bytes))
		return ORIEL_ERANGE;
	post->remote = args->dst->address + args->dst_off;
	post->rkey = args->dst->key;
	post->local = args->src->address + args->src_off;
	post->lkey = args->src->key;
	post->bytes = args->bytes;
	return 0;
}

ORIEL_DEV int ori_queued_set_word(struct ori_post *post, const struct ori_queued_args *args,
				  const struct oriel_link *link)
{
	const struct oriel_queue_word *word = args->word;
	uint64_t at = word->memory.address + word->offset;

	if (ori_outside(word->offset, 8, word->memory.bytes))
		return ORIEL_ERANGE;
	if ((args->op != ORIEL_ADD && args->op != ORIEL_SET) || (at & 7u))
		return ORIEL_EINVAL;
	if (args->op == ORIEL_ADD && !word->total && !(link->flags & ORIEL_LINK_ATOMICS))
		return ORIEL_EUNSUPPORTED;
	post->signal = args->op;
	post->signal_flags = args->flags;
	post->signal_value = args->value;
	post->word = at;
	post->word_key = word->memory.key;
	post->one_nic = 1; /* other blocks may signal it from any lane */
	post->total = word->total;
	return 0;
}

ORIEL_DEV int ori_queued_set_count(struct ori_post *post, const struct ori_queued_args *args)
{
	uint64_t at = args->counter->address + args->counter_off;

	if (ori_outside(args->counter_off, 8, args->counter->bytes))
		return ORIEL_ERANGE;
	if (at & 7u)
		return ORIEL_EINVAL;
	post->count_address = at;
	post->count_key = args->counter->key;
	post->count = (uint64_t *)(uintptr_t)at;
	return 0;
}

ORIEL_DEV_OUT int ori_queued(const struct oriel_comm_dev *comm, ORI_VALUE(oriel_group) g, int peer,
			     ORI_VALUE(ori_queued_args) args)
{
	const struct oriel_link *link = ori_queued_link(comm, peer);
	struct ori_op_context context;
	struct ori_post post;
	int err = 0;

	if (!link)
		return ORIEL_ENOTCONN;
	ori_post_init(&post);
	if (args.dst)
		err = ori_queued_set_data(&post, &args);
	if (!err && args.word)
		err = ori_queued_set_word(&post, &args, link);
	if (!err && args.counter)
		err = ori_queued_set_count(&post, &args);
	if (err)
		return err;
	/* The group meets, so all its data is written. */
	err = ori_agree_failure(comm, NULL, g);
	if (!err && oriel_group_is_leader(g)) {
		context = ori_comm_context(comm);
		err = ori_queue_post(&context, link, ori_lane_of(link, g), &post);
	}
	return ori_group_agree(g, err);
}

/* ---- public ---------------------------------------------------------------------------------- */

/* Copies (src, src_off) into the peer's memory at dst_off; complete by ticket, counter or flush. */
ORIEL_DEV int oriel_queue_put(const struct oriel_comm_dev *comm, struct oriel_group g, int peer,
			      const struct oriel_remote *dst, uint64_t dst_off,
			      const struct oriel_source *src, uint64_t src_off, uint64_t bytes)
{
	return ori_queued(comm, g, peer, ori_queued_put(dst, dst_off, src, src_off, bytes));
}

/* Signals a word of the peer, after the block's earlier puts to it.  op: ORIEL_ADD or ORIEL_SET. */
ORIEL_DEV int oriel_queue_signal(const struct oriel_comm_dev *comm, struct oriel_group g, int peer,
				 const struct oriel_queue_word *word, int op, uint64_t value)
{
	return ori_queued(comm, g, peer, ori_queued_signal_alone(word, op, value));
}

/* The same, and also after the block's earlier reads and atomics are complete. */
ORIEL_DEV int oriel_queue_signal_fence(const struct oriel_comm_dev *comm, struct oriel_group g,
				       int peer, const struct oriel_queue_word *word, int op,
				       uint64_t value)
{
	struct ori_queued_args args = ori_queued_signal_alone(word, op, value);

	args.flags = ORI_WQE_FENCE;
	return ori_queued(comm, g, peer, args);
}

/* A put, then a signal.  A thread that sees the signal sees the data.  0 bytes still signal. */
ORIEL_DEV int oriel_queue_put_signal(const struct oriel_comm_dev *comm, struct oriel_group g,
				     int peer, const struct oriel_remote *dst, uint64_t dst_off,
				     const struct oriel_source *src, uint64_t src_off,
				     uint64_t bytes, const struct oriel_queue_word *word, int op,
				     uint64_t value)
{
	struct ori_queued_args args = ori_queued_put(dst, dst_off, src, src_off, bytes);

	return ori_queued(comm, g, peer, ori_queued_signal(args, word, op, value));
}

/*
 * The same; then the NIC adds 1 to the word at (counter, counter_off) when the source may be
 * written again.  `counter` comes from oriel_buffer_source().  Blocks of different lanes must use
 * different counter words.
 */
ORIEL_DEV int oriel_queue_put_signal_counter(
	const struct oriel_comm_dev *comm, struct oriel_group g, int peer,
	const struct oriel_remote *dst, uint64_t dst_off, const struct oriel_source *src,
	uint64_t src_off, uint64_t bytes, const struct oriel_queue_word *word, int op,
	uint64_t value, const struct oriel_source *counter, uint64_t counter_off)
{
	struct ori_queued_args args = ori_queued_put(dst, dst_off, src, src_off, bytes);

	args = ori_queued_signal(args, word, op, value);
	args.counter = counter;
	args.counter_off = counter_off;
	return ori_queued(comm, g, peer, args);
}

/* oriel_queue_signal(); then the NIC adds 1 to the counter when the signal is complete. */
ORIEL_DEV int oriel_queue_signal_counter(const struct oriel_comm_dev *comm, struct oriel_group g,
					 int peer, const struct oriel_queue_word *word, int op,
					 uint64_t value, const struct oriel_source *counter,
					 uint64_t counter_off)
{
	struct ori_queued_args args = ori_queued_signal_alone(word, op, value);

	args.counter = counter;
	args.counter_off = counter_off;
	return ori_queued(comm, g, peer, args);
}

/* The ticket stands for all operations that the block has posted to `peer` so far. */
ORIEL_DEV int oriel_queue_take_ticket(const struct oriel_comm_dev *comm, struct oriel_group g,
				      int peer, struct oriel_ticket *ticket)
{
	const struct oriel_link *link = ori_queued_link(comm, peer);
	uint64_t index = 0;
	uint32_t lane;
	int err;

	if (!link)
		return ORIEL_ENOTCONN;
	lane = ori_lane_of(link, g);
	if (oriel_group_is_leader(g))
		index = ori_queue_rung(link->lanes[lane].main);
	err = ori_group_agree_value(g, 0, &index);
	ticket->peer = peer;
	ticket->lane = lane;
	ticket->index = index;
	return err;
}

/*
 * Waits until all operations of the ticket are complete.  timeout_ns 0: the comm's deadline.  A
 * passed deadline fails only this call.
 */
ORIEL_DEV int oriel_queue_wait_local(const struct oriel_comm_dev *comm, struct oriel_group g,
				     const struct oriel_ticket *ticket, uint64_t timeout_ns)
{
	const struct oriel_link *link = ori_queued_link(comm, ticket->peer);
	struct ori_op_context context;
	int err;

	if (!link || ticket->lane >= link->nlanes)
		return ORIEL_ENOTCONN;
	err = ori_agree_failure(comm, NULL, g);
	if (!err && oriel_group_is_leader(g)) {
		context = ori_comm_context(comm);
		if (timeout_ns)
			context.timeout_ns = timeout_ns;
		err = ori_queue_wait(&context, link->lanes[ticket->lane].main, ticket->index);
	}
	return ori_group_agree(g, err);
}

/* Later operations of the block to `peer` take effect after its earlier ones, reads included. */
ORIEL_DEV int oriel_queue_fence(const struct oriel_comm_dev *comm, struct oriel_group g, int peer)
{
	const struct oriel_link *link = ori_queued_link(comm, peer);
	struct ori_op_context context;
	int err;

	if (!link)
		return ORIEL_ENOTCONN;
	err = ori_agree_failure(comm, NULL, g);
	if (!err && oriel_group_is_leader(g)) {
		context = ori_comm_context(comm);
		err = ori_lane_fence(&context, link, ori_lane_of(link, g));
	}
	return ori_group_agree(g, err);
}

/* Waits until the block's operations to `peer` are complete and delivered. */
ORIEL_DEV int oriel_queue_flush(const struct oriel_comm_dev *comm, struct oriel_group g, int peer)
{
	const struct oriel_link *link = ori_queued_link(comm, peer);
	struct ori_op_context context;
	int err;

	if (!link)
		return ORIEL_ENOTCONN;
	err = ori_agree_failure(comm, NULL, g);
	if (!err && oriel_group_is_leader(g)) {
		context = ori_comm_context(comm);
		err = ori_lane_flush(&context, link, ori_lane_of(link, g));
	}
	return ori_group_agree(g, err);
}

/*
 * Sets the word, and its total, to `value`.  The write comes after the block's earlier operations
 * and is delivered on return.  Nobody else may signal the word meanwhile.
 */
ORIEL_DEV int oriel_queue_reset(const struct oriel_comm_dev *comm, struct oriel_group g, int peer,
				const struct oriel_queue_word *word, uint64_t value)
{
	int err = oriel_queue_signal_fence(comm, g, peer, word, ORIEL_SET, value);

	return err ? err : oriel_queue_flush(comm, g, peer);
}

#endif
