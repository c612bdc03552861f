/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/window_queued.h - the window's calls on queued peers, in terms of queue.h.
 *
 * One thread of the group posts, between two meetings of the group: before the first all its data is
 * written, and the second hands out how the posting went.  A block's operations to a peer use lane
 * `block % lanes`, so they are executed in order.
 */
#ifndef ORIEL_DEVICE_WINDOW_QUEUED_H
#define ORIEL_DEVICE_WINDOW_QUEUED_H

#include "check.h"
#include "fetch.h"

ORIEL_DEV struct ori_op_context ori_window_context(const struct oriel_window_dev *win)
{
	struct ori_op_context context;

	context.comm = &win->comm;
	context.window_failure = win->failure;
	context.window = win->number;
	context.reserved = 0;
	context.timeout_ns = win->comm.timeout_ns;
	return context;
}

ORIEL_DEV uint32_t ori_lane_of(const struct oriel_link *link, struct oriel_group g)
{
	return g.block % link->nlanes;
}

/* Barrier of the group that hands the first failure, as its leader sees it, to all. */
ORIEL_DEV int ori_agree_window(const struct oriel_window_dev *win, struct oriel_group g)
{
	return ori_agree_failure(&win->comm, win->failure, g);
}

/* Index of the counter word of (peer, lane, id). */
ORIEL_DEV uint64_t ori_counter_index(const struct oriel_window_dev *win, int peer, uint32_t lane,
				     int id)
{
	return ((uint64_t)peer * win->counter_lanes + lane) * win->counter_stride + (uint64_t)id;
}

ORIEL_DEV uint64_t *ori_counter_word(const struct oriel_window_dev *win, int peer, uint32_t lane,
				     int id)
{
	return ori_words_of(win, peer, &win->counter_words[ori_counter_index(win, peer, lane, id)]);
}

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

	/* The engine's names are offsets, alike in both halves of control memory. */
	post->count = (uint64_t *)ori_host_half(&win->comm, near);
	post->count_address = (uint64_t)((uint8_t *)near - win->control);
	post->count_key = win->control_key;
}

/* The put family; value != NULL: bytes by value; signal < 0 and counter < 0: none. */
ORIEL_DEV_OUT int ori_put_queued(ORI_WIN, int peer, uint64_t dst_off,
				 const struct oriel_source *src, uint64_t src_off,
				 const void *value, uint64_t bytes, int signal, int op,
				 uint64_t signal_value, int counter)
{
	const struct oriel_window_link *l = ori_peer_entry(win, peer)->link;
	struct ori_op_context context;
	struct ori_post post;
	uint32_t lane;
	int err;

	if (!l)
		return ORIEL_ENOTCONN;
	err = ori_agree_window(win, g);
	if (!err && oriel_group_is_leader(g)) {
		lane = ori_lane_of(l->link, g);
		context = ori_window_context(win);
		ori_post_init(&post);
		post.remote = l->buffer_skew + dst_off;
		post.rkey = l->buffer_key;
		post.bytes = bytes;
		post.value = value;
		/*
		 * What fits a WQE is read here and travels in it.  On a CPU the engine reads as fast, and checks the
		 * key; from a GPU it would be a copy of 11 us instead of one of 7.
		 */
		if (ORIEL_ON_GPU && src && bytes && bytes <= ORI_WQE_INLINE_BYTES)
			post.value = (const void *)(uintptr_t)(src->address + src_off);
		if (src) {
			post.local = src->address + src_off;
			post.lkey = src->key;
		}
		if (signal >= 0)
			ori_post_set_signal(win, &post, l, peer, signal, op, signal_value);
		if (counter >= 0)
			ori_post_set_counter(win, &post, peer, lane, counter);
		err = ori_queue_post(&context, l->link, lane, &post);
	}
	return ori_group_agree(g, err);
}

/* By one thread: the word alone. */
ORIEL_DEV_OUT int ori_signal_queued(const struct oriel_window_dev *win, struct oriel_group g,
				    const struct oriel_window_link *l, int peer, int id, int op,
				    uint64_t value)
{
	struct ori_op_context context = ori_window_context(win);
	struct ori_post post;

	if (!l)
		return ORIEL_ENOTCONN;
	ori_post_init(&post);
	ori_post_set_signal(win, &post, l, peer, id, op, value);
	return ori_queue_post(&context, l->link, ori_lane_of(l->link, g), &post);
}

/* By one thread: my arrival number `count` of barrier `id` at a queued peer. */
ORIEL_DEV_OUT int ori_arrive_queued(const struct oriel_window_dev *win, struct oriel_group g,
				    const struct oriel_window_link *l, int id, uint64_t count)
{
	struct ori_op_context context = ori_window_context(win);
	struct ori_post post;

	if (!l)
		return ORIEL_ENOTCONN;
	ori_post_init(&post);
	/*
	 * An add where the NIC can: groups of different lanes may use the id one after the other, and a
	 * late store of an old count would take the word back.
	 */
	post.signal = l->link->flags & ORIEL_LINK_ATOMICS ? ORIEL_ADD : ORIEL_SET;
	post.signal_value = post.signal == ORIEL_ADD ? 1 : count;
	post.word = l->arrivals + 8u * (uint64_t)id;
	post.word_stride = ori_arrival_plane(win) * 8u;
	post.word_key = l->control_key;
	return ori_queue_post(&context, l->link, ori_lane_of(l->link, g), &post);
}

/* By one thread: tells a queued peer's window that it has failed, if the queue still takes it. */
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

ORIEL_DEV_OUT int ori_get_queued(ORI_WIN, const struct oriel_window_link *l, uint64_t src_off,
				 const struct oriel_source *dst, uint64_t dst_off, uint64_t bytes,
				 int blocking)
{
	struct ori_op_context context;
	uint32_t lane;
	int err;

	if (!l)
		return ORIEL_ENOTCONN;
	err = ori_agree_window(win, g);
	if (!err && oriel_group_is_leader(g)) {
		context = ori_window_context(win);
		lane = ori_lane_of(l->link, g);
		err = ori_queue_read(&context, l->link, lane, l->buffer_skew + src_off,
				     l->buffer_key, dst->address + dst_off, dst->key, bytes);
		if (!err && blocking)
			err = ori_lane_flush(&context, l->link, lane);
	}
	return ori_group_agree(g, err);
}

/* By one thread: what the block's lane to a queued peer holds is complete, and so delivered. */
ORIEL_DEV_OUT int ori_flush_queued(const struct oriel_window_dev *win, struct oriel_group g,
				   const struct oriel_window_link *l)
{
	struct ori_op_context context = ori_window_context(win);

	return l ? ori_lane_flush(&context, l->link, ori_lane_of(l->link, g)) : ORIEL_ENOTCONN;
}

#endif
