/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/packet_queued.c - device/packet.h with a queued peer whose NIC the test stalls: what a
 * passed deadline leaves in the box and in the queue.
 *
 * The test plays the sender: it writes packets to the slots of rank 0, and finds the credits of
 * rank 0 in the memory of the NIC.
 */
#include <oriel/device.h>

#include "queue_nic.h"

#define BOX_BYTES 100
#define BOX_ROOM 32768 /* more than a box takes */
#define DEPTH 4u       /* of the queue: fewer than the credits of a box */
#define SOON_MS 5u     /* a deadline of calls that cannot post */

struct rig {
	struct nic *n;
	_Alignas(ORIEL_LINE_BYTES) uint64_t signals[2][ORIEL_LINE_BYTES / 8];
	_Alignas(ORIEL_LINE_BYTES) uint8_t boxes[2 * BOX_ROOM];
	uint64_t failure;
	struct oriel_window_link link;
	struct oriel_window_dev win;
};

/* Rank 0 with a box for rank 1, which is queued.  Offsets in the NIC's memory begin at its box. */
static struct rig *rig_open(void)
{
	struct ori_box_shape s = ori_box_shape_of(BOX_BYTES, 1);
	struct rig *r = aligned_alloc(ORIEL_LINE_BYTES, sizeof(*r));
	struct oriel_window_dev *d;

	if (!r)
		abort(); /* the test program's own memory */
	memset(r, 0, sizeof(*r));
	d = &r->win;
	r->n = nic_open(DEPTH, 0);
	r->link.link = &r->n->link;
	r->link.control_key[0] = NIC_REMOTE_KEY;
	d->comm = r->n->comm;
	d->failure = &r->failure;
	d->control = r->boxes;
	d->box_memory = r->boxes;
	d->boxes = 1;
	d->box_bytes = BOX_BYTES;
	d->box_stride = (uint32_t)s.stride;
	d->cell_mask = (uint32_t)s.cells - 1;
	d->slot_bytes = (uint32_t)s.slot_bytes;
	d->slot_mask = (uint32_t)s.slots - 1;
	d->queued_peers = 1;
	d->inline_peers[0].kind = ORIEL_PEER_SELF;
	d->inline_peers[1].kind = ORIEL_PEER_QUEUED;
	d->inline_peers[1].link = &r->link;
	if (s.stride > BOX_ROOM)
		abort();
	return r;
}

static void rig_close(struct rig *r)
{
	CHECK_EQ(r->n->broken, 0);
	free(r->n);
	free(r);
}

/* The sender's part: packet `count` of one byte arrives. */
static void arrive(struct rig *r, uint64_t count)
{
	uint8_t *slot = ori_box_slot(&r->win, ori_box_mine(&r->win, 1, 0), count);

	slot[ORI_SLOT_HEADER] = (uint8_t)count;
	((uint64_t *)(void *)slot)[1] = 1;
	((uint64_t *)(void *)slot)[0] = ori_slot_mark(count);
}

/* Receives a packet; one that is not number `count` is ORIEL_EREMOTE. */
static int take(struct rig *r, uint64_t count)
{
	struct oriel_group g = oriel_group_within(oriel_group_thread(), SOON_MS);
	uint8_t got = 0xee;
	int err = oriel_packet_recv(&r->win, g, 1, 0, &got, 1);

	return !err && got != (uint8_t)count ? ORIEL_EREMOTE : err;
}

/* The packets that were taken until a credit found the queue full. */
static uint64_t take_until_credit_is_owed(struct rig *r)
{
	struct oriel_box *mine = ori_box_mine(&r->win, 1, 0);
	uint64_t count = 0;

	for (; count <= r->win.slot_mask * DEPTH * 2; count++) {
		if (ori_slot_credit_is_due(&r->win, mine->taken, mine->returned))
			return count;
		arrive(r, count);
		if (take(r, count))
			break;
	}
	check_fail(__FILE__, __LINE__, "packet %d was lost, or no credit met a full queue",
		   (int)count);
	return count;
}

TEST(a_packet_whose_credit_is_late_is_not_lost)
{
	struct rig *r = rig_open();
	uint64_t count;

	r->n->stall = 1;
	count = take_until_credit_is_owed(r);
	CHECK_EQ(ori_box_mine(&r->win, 1, 0)->taken, count);
	/* no slot was held: the queue still works */
	CHECK_EQ(r->n->main.q.error, 0);
	CHECK_EQ(r->failure, 0);
	/* The next call reports the deadline before it takes anything, and may be repeated. */
	arrive(r, count);
	CHECK_EQ(take(r, count), ORIEL_ETIMEDOUT);
	CHECK_EQ(ori_box_mine(&r->win, 1, 0)->taken, count);
	r->n->stall = 0;
	CHECK_EQ(take(r, count), 0);
	(void)nic_step(r->n);
	CHECK_EQ(nic_word(r->n, 0), count);
	rig_close(r);
}

/* A sender without credit sends nothing, so the receiver must not wait for a packet first. */
TEST(a_credit_that_is_owed_leaves_before_the_wait)
{
	struct rig *r = rig_open();
	uint64_t count;

	r->n->stall = 1;
	count = take_until_credit_is_owed(r);
	r->n->stall = 0;
	CHECK_EQ(take(r, count), ORIEL_ETIMEDOUT); /* no packet */
	(void)nic_step(r->n);
	CHECK_EQ(nic_word(r->n, 0), count);
	CHECK_EQ(ori_box_mine(&r->win, 1, 0)->returned, count);
	rig_close(r);
}

/* The group has its own deadline, and the comm has one of 20 s. */
TEST(a_full_queue_ends_a_send_and_is_not_poisoned)
{
	struct oriel_group g = oriel_group_within(oriel_group_thread(), SOON_MS);
	struct rig *r = rig_open();
	uint8_t data = 7;
	int err = 0, sent = -1;

	r->n->stall = 1;
	for (; !err; sent++)
		err = oriel_packet_send(&r->win, g, 1, 0, &data, 1);
	CHECK_EQ(err, ORIEL_ETIMEDOUT);
	CHECK_EQ(sent, DEPTH / 2);
	CHECK_EQ(r->n->main.q.error, 0);
	CHECK_EQ(ori_box_mine(&r->win, 1, 0)->sent, (uint64_t)sent);
	rig_close(r);
}
