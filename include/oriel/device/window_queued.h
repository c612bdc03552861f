/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/window_queued.h - the window's calls on queued peers, built on post.h and fetch.h.
 *
 * One thread of the group posts, between two meetings of the group.  Before the first meeting all
 * data of the group is written.  The second meeting gives the status of the post to all threads.
 */
#ifndef ORIEL_DEVICE_WINDOW_QUEUED_H
#define ORIEL_DEVICE_WINDOW_QUEUED_H

#include "fetch.h"

/* The word part of an operation: signal `id` of `peer`. */
ORIEL_DEV void ori_post_set_signal(const struct oriel_window_dev *win, struct ori_post *post,
				   const struct oriel_window_link *l, int peer, int id, int op,
				   uint64_t value)
{
	post->signal = op;
	post->word = l->signals + 8u * (uint64_t)id;
	post->word_key = l->control_key;
	post->signal_value = op == ORIEL_SET ? win->first_count + value : value;
	post->word_stride = ori_signal_plane(win) * 8u;
	post->one_nic = op == ORIEL_SET;
	post->total = &win->signal_totals[(uint64_t)peer * win->signal_stride + (uint64_t)id];
}

ORIEL_DEV void ori_post_set_counter(const struct oriel_window_dev *win, struct ori_post *post,
				    int peer, uint32_t lane, int id)
{
	uint64_t *near = &win->counter_words[ori_counter_index(win, peer, lane, id)];

	/* The engine uses offsets, which are the same in both halves of control memory. */
	post->count = (uint64_t *)ori_host_half(&win->comm, near);
	post->count_address = (uint64_t)((uint8_t *)near - win->control);
	post->count_key = win->control_key;
}

/* The data part of an operation. */
ORIEL_DEV void ori_post_set_data(struct ori_post *post, const struct oriel_window_link *l,
				 struct ori_transfer t)
{
	post->remote = l->buffer_skew + t.offset;
	post->rkey = l->buffer_key;
	post->bytes = t.bytes;
	post->value = t.value;
	if (!t.local)
		return;
	post->local = t.local->address + t.local_off;
	post->lkey = t.local->key;
	/*
	 * Data that fits into a WQE is read here and sent inside it.  On a CPU the engine reads as
	 * fast, and it also checks the key.  From a GPU that would be a copy of 11 us instead of
	 * one of 7 us.
	 */
	if (ORIEL_ON_GPU && t.bytes && t.bytes <= ORI_WQE_INLINE_BYTES)
		post->value = ori_transfer_local(t);
}

/* The put family, to a queued peer. */
ORIEL_DEV_OUT int ori_put_queued(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				 ORI_VALUE(ori_transfer) t)
{
	const struct oriel_window_link *l = ori_peer_entry(win, t.peer)->link;
	struct ori_op_context context;
	struct ori_post post;
	uint32_t lane;
	int err;

	if (!l)
		return ORIEL_ENOTCONN;
	err = ori_agree_window(win, g);
	if (!err && oriel_group_is_leader(g)) {
		lane = ori_lane_of(l->link, g);
		context = ori_call_context(win, ORIEL_CALL_PUT);
		ori_post_init(&post);
		ori_post_set_data(&post, l, t);
		if (t.signal >= 0)
			ori_post_set_signal(win, &post, l, t.peer, t.signal, t.op, t.signal_value);
		if (t.counter >= 0)
			ori_post_set_counter(win, &post, t.peer, lane, t.counter);
		err = ori_queue_post(&context, l->link, lane, &post);
	}
	return ori_group_agree(g, err);
}

/* Called by one thread: posts only the word. */
ORIEL_DEV_OUT int ori_signal_queued(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				    const struct oriel_window_link *l, int peer, int id, int op,
				    uint64_t value)
{
	struct ori_op_context context = ori_call_context(win, ORIEL_CALL_SIGNAL);
	struct ori_post post;

	if (!l)
		return ORIEL_ENOTCONN;
	ori_post_init(&post);
	ori_post_set_signal(win, &post, l, peer, id, op, value);
	return ori_queue_post(&context, l->link, ori_lane_of(l->link, g), &post);
}

/*
 * Called by one thread: posts this rank's arrival number `count` of barrier `id` at a queued peer.
 */
ORIEL_DEV_OUT int ori_arrive_queued(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				    const struct oriel_window_link *l, int id, uint64_t count)
{
	struct ori_op_context context = ori_call_context(win, ORIEL_CALL_BARRIERS);
	struct ori_post post;

	if (!l)
		return ORIEL_ENOTCONN;
	ori_post_init(&post);
	/*
	 * An add if the NIC can add.  Groups of different lanes may use the id one after the other,
	 * and a late store of an old count would set the word back.
	 */
	post.signal = l->link->flags & ORIEL_LINK_ATOMICS ? ORIEL_ADD : ORIEL_SET;
	post.signal_value = post.signal == ORIEL_ADD ? 1 : count;
	post.word = l->arrivals + 8u * (uint64_t)id;
	post.word_stride = ori_arrival_plane(win) * 8u;
	post.word_key = l->control_key;
	return ori_queue_post(&context, l->link, ori_lane_of(l->link, g), &post);
}

/*
 * Called by one thread: tells a queued peer that its window has failed, if the queue still works.
 */
ORIEL_DEV_OUT void ori_fail_queued(const struct oriel_window_dev *win,
				   const struct oriel_window_link *l, uint64_t failure)
{
	struct ori_op_context context = ori_comm_context(&win->comm);
	struct ori_post post;

	ori_post_init(&post);
	post.signal = ORIEL_SET;
	post.signal_value = failure;
	post.word = (uint64_t)((uint8_t *)win->failure - win->control);
	post.word_key = l->control_key;
	(void)ori_queue_post(&context, l->link, 0, &post);
}

/*
 * Called by one thread with the status of a wait or post that ended.  A barrier or stream that
 * ended without its peer leaves the counts of the pair different.  So the window is unusable from
 * now on.  Its first failure is kept, and every later call returns it.
 */
ORIEL_DEV_OUT int ori_fail_window(const struct oriel_window_dev *win, int err, int peer)
{
	const struct oriel_window_peer *p = ori_peer_entry(win, peer);
	uint64_t first, failure = ORIEL_FAILURE_LATE(err, peer, win->comm.rank);

	if (err != ORIEL_ETIMEDOUT && err != ORIEL_EMISMATCH)
		return err;
	/*
	 * A thread that gives up because of an earlier failure passes that failure on.  The order
	 * has no partner: readers load a failure word relaxed.
	 */
	first = ori_compare_swap_acq_rel_sys(win->failure, 0, failure);
	failure = first ? first : failure;
	/* The peer's half is unusable too.  The peer must not wait for data that will not come. */
	if (p->failure)
		ori_tell_failure(p, failure);
	else if (p->link)
		ori_fail_queued(win, p->link, failure);
	return err;
}

/* The source of a value that is fetched from the peer's window buffer. */
ORIEL_DEV struct ori_fetch ori_window_fetch(const struct oriel_window_link *l, struct oriel_group g,
					    uint64_t offset)
{
	struct ori_fetch fetch;

	fetch.link = l->link;
	fetch.lane = ori_lane_of(l->link, g);
	fetch.block = g.block;
	fetch.remote = l->buffer_skew + offset;
	fetch.rkey = l->buffer_key;
	return fetch;
}

ORIEL_DEV_OUT int ori_get_queued(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				 const struct oriel_window_link *l, ORI_VALUE(ori_transfer) t,
				 int blocking)
{
	struct ori_op_context context;
	struct ori_post read;
	uint32_t lane;
	int err;

	if (!l)
		return ORIEL_ENOTCONN;
	if (!t.local)
		return ORIEL_EINVAL;
	err = ori_agree_window(win, g);
	if (!err && oriel_group_is_leader(g)) {
		context = ori_call_context(win, ORIEL_CALL_GET);
		lane = ori_lane_of(l->link, g);
		ori_post_init(&read);
		ori_post_set_data(&read, l, t);
		err = ori_queue_read(&context, l->link, lane, &read);
		if (!err && blocking)
			err = ori_lane_flush(&context, l->link, lane);
	}
	return ori_group_agree(g, err);
}

/*
 * Called by one thread: waits until all operations on the block's lane to a queued peer are
 * complete, and so delivered.
 */
ORIEL_DEV_OUT int ori_flush_queued(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				   const struct oriel_window_link *l)
{
	struct ori_op_context context = ori_call_context(win, ORIEL_CALL_FLUSH);

	ori_context_within(&context, g);
	return l ? ori_lane_flush(&context, l->link, ori_lane_of(l->link, g)) : ORIEL_ENOTCONN;
}

#endif
