/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/transport.h - the transport layer's half for peers that are reached through work queues.
 *
 * For people who build their own collectives, as device/mapped.h is for mapped peers: puts, signals and
 * counts on memory the caller owns.  oriel_buffer_exchange + oriel_buffer_remote name the peer's memory,
 * oriel_buffer_source names this rank's; `comm` is the handle of oriel_comm_device().  A signal word and
 * a counter are waited for with oriel_mapped_wait() on their address, by whoever owns them.
 *
 * All threads of the group make a call, with equal arguments, and get the same status: 0,
 * ORIEL_ENOTCONN (no queue to that peer), ORIEL_ERANGE, ORIEL_EINVAL (a word not 8-byte aligned, an op
 * that is none), ORIEL_EUNSUPPORTED, ORIEL_ETIMEDOUT, or the comm's first failure.  A block's operations
 * to one peer are executed in order; *posted*, *complete* and *delivered* are those of oriel/device.h.
 */
#ifndef ORIEL_DEVICE_TRANSPORT_H
#define ORIEL_DEVICE_TRANSPORT_H

#include "post.h"
#include "window_queued.h"

/* What calls of this file begin with. */
#define ORI_COMM const struct oriel_comm_dev *comm, struct oriel_group g, int peer

/* A signal word in a peer's memory. */
struct oriel_queue_word {
	struct oriel_remote memory;
	uint64_t offset; /* of the word in it */
	/*
	 * A word of this rank for what ORIEL_ADD has come to, one for each signal word and starting at its
	 * value: where the NIC cannot add, the sum is made here and stored there.  NULL: without NIC
	 * atomics ORIEL_ADD is ORIEL_EUNSUPPORTED.  Only calls of this file touch it.
	 */
	uint64_t *total;
};

/* ---- the operation is put together by every thread, and posted by the leader ---------------------- */

ORIEL_DEV const struct oriel_link *ori_transport_link(const struct oriel_comm_dev *comm, int peer)
{
	return peer < 0 || peer >= comm->nranks ? NULL : comm->peers[peer].link;
}

ORIEL_DEV int ori_outside(uint64_t offset, uint64_t bytes, uint64_t limit)
{
	return offset > limit || bytes > limit - offset;
}

ORIEL_DEV int ori_transport_data(struct ori_post *post, const struct oriel_remote *dst,
				 uint64_t dst_off, const struct oriel_source *src, uint64_t src_off,
				 uint64_t bytes)
{
	if (ori_outside(dst_off, bytes, dst->bytes) || ori_outside(src_off, bytes, src->bytes))
		return ORIEL_ERANGE;
	post->remote = dst->address + dst_off;
	post->rkey = dst->key;
	post->local = src->address + src_off;
	post->lkey = src->key;
	post->bytes = bytes;
	return 0;
}

ORIEL_DEV int ori_transport_word(const struct oriel_link *link, struct ori_post *post,
				 const struct oriel_queue_word *word, int op, uint64_t value)
{
	if (ori_outside(word->offset, 8, word->memory.bytes))
		return ORIEL_ERANGE;
	if ((op != ORIEL_ADD && op != ORIEL_SET) || ((word->memory.address + word->offset) & 7u))
		return ORIEL_EINVAL;
	if (op == ORIEL_ADD && !word->total && !(link->flags & ORIEL_LINK_ATOMICS))
		return ORIEL_EUNSUPPORTED;
	post->signal = op;
	post->signal_value = value;
	post->word = word->memory.address + word->offset;
	post->word_key = word->memory.key;
	post->one_nic = 1; /* whoever else signals it, from this lane or another */
	post->total = word->total;
	return 0;
}

ORIEL_DEV int ori_transport_count(struct ori_post *post, const struct oriel_source *counter,
				  uint64_t offset)
{
	if (ori_outside(offset, 8, counter->bytes))
		return ORIEL_ERANGE;
	if ((counter->address + offset) & 7u)
		return ORIEL_EINVAL;
	post->count_address = counter->address + offset;
	post->count_key = counter->key;
	post->count = (uint64_t *)(uintptr_t)post->count_address;
	return 0;
}

ORIEL_DEV int ori_transport_post(const struct oriel_comm_dev *comm, struct oriel_group g,
				 const struct oriel_link *link, const struct ori_post *post)
{
	struct ori_op_context context;
	/* The group meets: all its data is written. */
	int err = ori_agree_failure(comm, NULL, g);

	if (!err && oriel_group_is_leader(g)) {
		context = ori_comm_context(comm);
		err = ori_queue_post(&context, link, ori_lane_of(link, g), post);
	}
	return ori_group_agree(g, err);
}

/* Any of the three parts may be missing: dst, word, counter NULL. */
ORIEL_DEV_OUT int ori_transport(ORI_COMM, const struct oriel_remote *dst, uint64_t dst_off,
				const struct oriel_source *src, uint64_t src_off, uint64_t bytes,
				const struct oriel_queue_word *word, int op, uint64_t value,
				uint32_t flags, const struct oriel_source *counter,
				uint64_t counter_off)
{
	const struct oriel_link *link = ori_transport_link(comm, peer);
	struct ori_post post;
	int err = 0;

	if (!link)
		return ORIEL_ENOTCONN;
	ori_post_init(&post);
	post.signal_flags = flags;
	if (dst)
		err = ori_transport_data(&post, dst, dst_off, src, src_off, bytes);
	if (!err && word)
		err = ori_transport_word(link, &post, word, op, value);
	if (!err && counter)
		err = ori_transport_count(&post, counter, counter_off);
	return err ? err : ori_transport_post(comm, g, link, &post);
}

/* ---- public ------------------------------------------------------------------------------------------- */

/* Copies (src, src_off) into the peer's memory at dst_off; complete by ticket, counter or flush. */
ORIEL_DEV int oriel_queue_put(ORI_COMM, const struct oriel_remote *dst, uint64_t dst_off,
			      const struct oriel_source *src, uint64_t src_off, uint64_t bytes)
{
	return ori_transport(comm, g, peer, dst, dst_off, src, src_off, bytes, NULL, 0, 0, 0, NULL,
			     0);
}

/* After the block's earlier puts to that peer.  op: ORIEL_ADD or ORIEL_SET. */
ORIEL_DEV int oriel_queue_signal(ORI_COMM, const struct oriel_queue_word *word, int op,
				 uint64_t value)
{
	return ori_transport(comm, g, peer, NULL, 0, NULL, 0, 0, word, op, value, 0, NULL, 0);
}

/* ... and after its earlier reads and atomics have come back. */
ORIEL_DEV int oriel_queue_signal_fence(ORI_COMM, const struct oriel_queue_word *word, int op,
				       uint64_t value)
{
	return ori_transport(comm, g, peer, NULL, 0, NULL, 0, 0, word, op, value, ORI_WQE_FENCE,
			     NULL, 0);
}

/* Who sees the signal sees the data.  0 bytes still signal. */
ORIEL_DEV int oriel_queue_put_signal(ORI_COMM, const struct oriel_remote *dst, uint64_t dst_off,
				     const struct oriel_source *src, uint64_t src_off,
				     uint64_t bytes, const struct oriel_queue_word *word, int op,
				     uint64_t value)
{
	return ori_transport(comm, g, peer, dst, dst_off, src, src_off, bytes, word, op, value, 0,
			     NULL, 0);
}

/*
 * ... and the NIC adds 1 to the word at (counter, counter_off) when the source may be written again.
 * `counter` is of oriel_buffer_source(); blocks of different lanes count on different words.
 */
ORIEL_DEV int oriel_queue_put_signal_counter(ORI_COMM, const struct oriel_remote *dst,
					     uint64_t dst_off, const struct oriel_source *src,
					     uint64_t src_off, uint64_t bytes,
					     const struct oriel_queue_word *word, int op,
					     uint64_t value, const struct oriel_source *counter,
					     uint64_t counter_off)
{
	return ori_transport(comm, g, peer, dst, dst_off, src, src_off, bytes, word, op, value, 0,
			     counter, counter_off);
}

/* ... when the signal is complete. */
ORIEL_DEV int oriel_queue_signal_counter(ORI_COMM, const struct oriel_queue_word *word, int op,
					 uint64_t value, const struct oriel_source *counter,
					 uint64_t counter_off)
{
	return ori_transport(comm, g, peer, NULL, 0, NULL, 0, 0, word, op, value, 0, counter,
			     counter_off);
}

/* Names all the block has posted to `peer` so far. */
ORIEL_DEV int oriel_queue_take_ticket(ORI_COMM, struct oriel_ticket *ticket)
{
	const struct oriel_link *link = ori_transport_link(comm, peer);
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

/* Until all that the ticket names is complete; timeout_ns 0: the comm's.  A deadline fails this call only. */
ORIEL_DEV int oriel_queue_wait_local(const struct oriel_comm_dev *comm, struct oriel_group g,
				     const struct oriel_ticket *ticket, uint64_t timeout_ns)
{
	const struct oriel_link *link = ori_transport_link(comm, ticket->peer);
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
ORIEL_DEV int oriel_queue_fence(ORI_COMM)
{
	const struct oriel_link *link = ori_transport_link(comm, peer);
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

/* The block's operations to `peer` are complete and delivered. */
ORIEL_DEV int oriel_queue_flush(ORI_COMM)
{
	const struct oriel_link *link = ori_transport_link(comm, peer);
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
 * The word starts again at `value`: written after the block's earlier operations, delivered on return.
 * The total starts again with it.  Nobody else signals the word meanwhile.
 */
ORIEL_DEV int oriel_queue_reset(ORI_COMM, const struct oriel_queue_word *word, uint64_t value)
{
	int err = ori_transport(comm, g, peer, NULL, 0, NULL, 0, 0, word, ORIEL_SET, value,
				ORI_WQE_FENCE, NULL, 0);

	return err ? err : oriel_queue_flush(comm, g, peer);
}

#endif
