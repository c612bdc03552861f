/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/box_queued.h - the box of a queued peer: where its packets leave, and the posts of
 * packets and credits.
 */
#ifndef ORIEL_DEVICE_BOX_QUEUED_H
#define ORIEL_DEVICE_BOX_QUEUED_H

#include "box.h"

#define ORI_BOX_BURST 2u /* most WQEs that a packet or a credit takes at once */

/* ---- places ---------------------------------------------------------------------------------- */

/* Behind the data of a box: the queue's count that ends the use of each slot, then the slots. */
ORIEL_DEV uint64_t *ori_box_posted(const struct oriel_window_dev *win, struct oriel_box *box)
{
	return (uint64_t *)(void *)(ori_box_data(box) +
				    ori_box_data_bytes((uint64_t)win->cell_mask + 1,
						       (uint64_t)win->slot_mask + 1,
						       win->slot_bytes));
}

/* The slot from which packet `count` leaves. */
ORIEL_DEV uint8_t *ori_box_out(const struct oriel_window_dev *win, struct oriel_box *box,
			       uint64_t count)
{
	return (uint8_t *)(ori_box_posted(win, box) + ORI_BOX_SLOTS_MAX) +
	       (count & win->slot_mask) * win->slot_bytes;
}

/* A box has one lane, so its packets and credits come in order. */
ORIEL_DEV uint32_t ori_box_lane(const struct oriel_window_link *l, int box)
{
	return (uint32_t)box % l->link->nlanes;
}

/* Offset of this rank's box in the control memory of a queued peer. */
ORIEL_DEV uint64_t ori_box_remote(const struct oriel_window_dev *win,
				  const struct oriel_window_link *l, int box)
{
	return (uint64_t)((int64_t)l->signals + win->box_shift) +
	       (uint64_t)(uint32_t)box * win->box_stride;
}

/* ---- posts ----------------------------------------------------------------------------------- */

/*
 * Called by one thread: waits until the queues of the box have room for a post.  This wait holds no
 * slot of a queue, so it may end at the group's own deadline.  The post behind it has the comm's
 * deadline: a producer that gives up with a slot poisons the queue.
 */
ORIEL_DEV_OUT int ori_box_wait_room(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				    const struct oriel_window_link *l, int box)
{
	struct ori_op_context context = ori_call_context(win, ORIEL_CALL_PACKET_SEND);
	uint32_t lane = ori_box_lane(l, box);
	struct oriel_queue *q = l->link->lanes[lane].main;
	int err;

	ori_context_within(&context, g);
	err = ori_queue_wait(&context, q,
			     ori_load_relaxed_sys(&q->reserved) + ORI_BOX_BURST - q->depth);
	if (err || lane == 0)
		return err;
	q = l->link->lanes[0].main; /* the mark may leave there */
	return ori_queue_wait(&context, q,
			      ori_load_relaxed_sys(&q->reserved) + ORI_BOX_BURST - q->depth);
}

/* Called by one thread: posts size and data of packet `count`, then its mark. */
ORIEL_DEV_OUT int ori_box_post(const struct oriel_window_dev *win,
			       const struct oriel_window_link *l, int peer, int box, uint64_t count,
			       uint64_t bytes)
{
	struct oriel_box *mine = ori_box_mine(win, peer, box);
	uint64_t slot = ori_box_remote(win, l, box) + sizeof(struct oriel_box) +
			(count & win->slot_mask) * win->slot_bytes;
	struct ori_op_context context = ori_call_context(win, ORIEL_CALL_PACKET_SEND);
	uint32_t lane = ori_box_lane(l, box);
	struct ori_post post;
	int err;

	ori_post_init(&post);
	post.remote = slot + 8;
	post.rkey = l->control_key;
	post.local = (uint64_t)(ori_box_out(win, mine, count) - win->control) + 8;
	post.lkey = win->control_key;
	post.bytes = bytes + 8;
	post.signal = ORIEL_SET;
	post.word = slot;
	post.word_key = l->control_key;
	post.signal_value = ori_slot_mark(count);
	err = ori_queue_post(&context, l->link, lane, &post);
	if (!err)
		ori_box_posted(win, mine)[count & win->slot_mask] =
			ori_queue_rung(l->link->lanes[lane].main);
	return err;
}

/* Called by one thread: tells a queued sender that this rank has taken `count` packets. */
ORIEL_DEV_OUT int ori_box_give_credit(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				      const struct oriel_window_link *l, int box, uint64_t count)
{
	struct ori_op_context context = ori_call_context(win, ORIEL_CALL_PACKET_RECV);
	struct ori_post post;
	int err = ori_box_wait_room(win, g, l, box);

	if (err)
		return err;
	ori_post_init(&post);
	post.signal = ORIEL_SET;
	post.word = ori_box_remote(win, l, box);
	post.word_key = l->control_key;
	post.signal_value = count;
	return ori_queue_post(&context, l->link, ori_box_lane(l, box), &post);
}

#endif
