/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/packet.h - bodies of device.h: packets; and packets in slots, for CPUs and for
 * queued peers.
 *
 * A slot is filled like the buffer of a put with a signal.  The group copies the data, meets, and
 * the leader publishes the mark [SIG1].  The receiver's leader waits for the mark [SIG2], the group
 * copies and meets, and the leader gives the slot back by the credit [SIG1].  A queued peer's slot
 * is filled by a WQE, whose word is the mark; its credit is a WQE too.
 *
 * A call that ends early leaves the counts as they were.  So a passed deadline loses nothing, and
 * the call may be made again.
 */
#ifndef ORIEL_DEVICE_PACKET_H
#define ORIEL_DEVICE_PACKET_H

#include "box_queued.h"
#include "packet_cells.h"

/* ---- waits ----------------------------------------------------------------------------------- */

/* Called by the leader: waits until the slot has the mark of packet `count`. */
ORIEL_DEV int ori_slot_wait_mark(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				 int box, const uint64_t *word, uint64_t count, int host)
{
	uint64_t mark = ori_slot_mark(count), have;
	struct ori_failures look = ori_failures_of_window(win);
	struct ori_spin s;
	uint32_t more;
	int err;

	ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_PACKET_RECV, peer, box, win->number,
		       count + 1);
	ori_spin_within(&s, g);
	ori_spin_host(&s, host);
	have = ori_poll_sys(word);
	err = ori_failures_status(look);
	while (have != mark && !err) {
		err = ori_spin(&s, count);
		have = ori_poll_sys(word);
		for (more = ori_spin_polls(&s); more && have != mark; more--)
			have = ori_poll_sys(word);
	}
	/*
	 * [SIG2] acquire, system scope, with the polls; partner [SIG1], or [SOFT9] or the NIC's
	 * write.
	 */
	ori_poll_end();
	ori_spin_end(&s);
	return err;
}

/*
 * Called by the leader: waits until the slot of packet `count` is free.  It looks at the credit
 * only if the last look is not enough.
 */
ORIEL_DEV int ori_slot_wait_free(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				 int box, uint64_t *credit, uint64_t count, uint64_t *freed,
				 int host)
{
	uint64_t want = count - win->slot_mask;
	struct ori_spin s;
	int err;

	if (ori_reached(*freed, want))
		return 0;
	ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_PACKET_SEND, peer, box, win->number,
		       want);
	ori_spin_within(&s, g);
	ori_spin_host(&s, host);
	err = ori_word_wait_count(&s, credit);
	ori_spin_end(&s);
	/* [SIG2] again, for all that the credit covers by now. */
	if (!err)
		*freed = ori_load_acquire_sys(credit);
	return err;
}

/* ---- slots of a mapped peer ------------------------------------------------------------------ */

ORIEL_DEV int ori_slot_send(const struct oriel_window_dev *win, struct oriel_group g,
			    const struct oriel_window_peer *p, int peer, int box, const void *src,
			    uint64_t bytes)
{
	struct oriel_box *mine = ori_box_mine(win, peer, box);
	struct oriel_box *theirs = ori_box_theirs(win, p, box);
	uint64_t count = mine->sent, freed = 0;
	uint8_t *slot;
	int err = 0;

	if (oriel_group_is_leader(g)) {
		freed = mine->freed;
		err = ori_slot_wait_free(win, g, peer, box, &mine->credit, count, &freed, 0);
	}
	err = ori_group_agree(g, err);
	if (err)
		return err;
	slot = ori_box_slot(win, theirs, count);
	ori_slot_copy(g, slot + ORI_SLOT_HEADER, src, bytes, src);
	err = ori_agree_window(win, g);
	if (!err && oriel_group_is_leader(g)) {
		/* Relaxed: the mark publishes it. */
		ori_store_relaxed_sys((uint64_t *)(void *)slot + 1, bytes);
		ori_word_signal((uint64_t *)(void *)slot, ORIEL_SET, ori_slot_mark(count),
				p->waiters);
		ori_store_pair(&mine->sent, count + 1, freed);
		ori_prefetch_for_write(ori_box_slot(win, theirs, count + 1));
	}
	/* The next call of any thread reads the count. */
	return g.size == 1 ? err : ori_group_agree(g, err);
}

/*
 * The packet number `count`, from the slot to `dst`.  All threads of the group call it.  `queued`:
 * an engine writes the slots, in the host's half.
 */
ORIEL_DEV int ori_slot_take(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			    int box, uint64_t count, void *dst, uint64_t bytes, int queued)
{
	uint8_t *slot = ori_box_slot(win, ori_box_mine(win, peer, box), count);
	int err = 0;

	if (queued)
		slot = (uint8_t *)ori_host_half(&win->comm, slot);
	if (oriel_group_is_leader(g)) {
		err = ori_slot_wait_mark(win, g, peer, box, (const uint64_t *)(const void *)slot,
					 count, queued && win->comm.host_shift != 0);
		/* Relaxed: the wait acquired what was written before the mark. */
		if (!err && ori_load_relaxed_sys((const uint64_t *)(const void *)slot + 1) != bytes)
			err = ori_packet_mismatch(win, peer, bytes);
	}
	err = ori_group_agree(g, err);
	if (err)
		return err;
	ori_slot_copy(g, dst, slot + ORI_SLOT_HEADER, bytes, dst);
	/* Credits before this meeting would let the sender write over what is being copied. */
	return ori_agree_window(win, g);
}

/* How many packets may be taken before their credit is given: a quarter of the slots. */
ORIEL_DEV int ori_slot_credit_is_due(const struct oriel_window_dev *win, uint64_t count,
				     uint64_t returned)
{
	return count - returned > win->slot_mask / ORI_BOX_PACKETS;
}

ORIEL_DEV int ori_slot_recv(const struct oriel_window_dev *win, struct oriel_group g,
			    const struct oriel_window_peer *p, int peer, int box, void *dst,
			    uint64_t bytes)
{
	struct oriel_box *mine = ori_box_mine(win, peer, box);
	uint64_t count = mine->taken, returned;
	int err = ori_slot_take(win, g, peer, box, count, dst, bytes, 0);

	if (!err && oriel_group_is_leader(g)) {
		count++;
		returned = mine->returned;
		if (ori_slot_credit_is_due(win, count, returned)) {
			returned = count;
			ori_word_signal(&ori_box_theirs(win, p, box)->credit, ORIEL_SET, count,
					p->waiters);
		}
		ori_store_pair(&mine->taken, count, returned);
	}
	return g.size == 1 ? err : ori_group_agree(g, err);
}

/* On a GPU slots are rare, and on a CPU cells are.  The rare form is not inlined. */
ORIEL_DEV_OUT int ori_packet_send_rare(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				       int peer, int box, const void *src, uint64_t bytes)
{
	const struct oriel_window_peer *p = ori_peer_entry(win, peer);

	return ORIEL_ON_GPU ? ori_slot_send(win, g, p, peer, box, src, bytes) :
			      ori_cells_send(win, g, p, peer, box, src, bytes);
}

ORIEL_DEV_OUT int ori_packet_recv_rare(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				       int peer, int box, void *dst, uint64_t bytes)
{
	const struct oriel_window_peer *p = ori_peer_entry(win, peer);

	return ORIEL_ON_GPU ? ori_slot_recv(win, g, p, peer, box, dst, bytes) :
			      ori_cells_recv(win, g, p, peer, box, dst, bytes);
}

/* ---- queued peers ---------------------------------------------------------------------------- */

/* Called by one thread: waits until the slot of packet `count` is free at both ends. */
ORIEL_DEV_OUT int ori_box_wait_free(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				    const struct oriel_window_link *l, int peer, int box,
				    uint64_t count, uint64_t *freed)
{
	struct oriel_box *mine = ori_box_mine(win, peer, box);
	struct ori_op_context context = ori_call_context(win, ORIEL_CALL_PACKET_SEND);
	uint64_t *credit = (uint64_t *)ori_host_half(&win->comm, &mine->credit);
	int err = ori_slot_wait_free(win, g, peer, box, credit, count, freed,
				     win->comm.host_shift != 0);

	if (err)
		return err;
	ori_context_within(&context, g);
	/* The peer has it, but the NIC may send it again until its WQE is complete. */
	err = ori_queue_wait(&context, l->link->lanes[ori_box_lane(l, box)].main,
			     ori_box_posted(win, mine)[count & win->slot_mask]);
	return err ? err : ori_box_wait_room(win, g, l, box);
}

ORIEL_DEV_OUT int ori_packet_send_queued(const struct oriel_window_dev *win,
					 ORI_VALUE(oriel_group) g, int peer, int box,
					 const void *src, uint64_t bytes)
{
	const struct oriel_window_link *l = ori_peer_entry(win, peer)->link;
	struct oriel_box *mine = ori_box_mine(win, peer, box);
	uint64_t count = mine->sent, freed = 0;
	uint8_t *out;
	int err = 0;

	if (!l)
		return ORIEL_ENOTCONN;
	if (oriel_group_is_leader(g)) {
		freed = mine->freed;
		err = ori_box_wait_free(win, g, l, peer, box, count, &freed);
	}
	err = ori_group_agree(g, err);
	if (err)
		return err;
	out = (uint8_t *)ori_host_half(&win->comm, ori_box_out(win, mine, count));
	ori_slot_copy(g, out + ORI_SLOT_HEADER, src, bytes, src);
	if (oriel_group_is_leader(g))
		*((uint64_t *)(void *)out + 1) = bytes;
	err = ori_agree_window(win, g);
	if (!err && oriel_group_is_leader(g)) {
		err = ori_box_post(win, l, peer, box, count, bytes);
		if (!err)
			ori_store_pair(&mine->sent, count + 1, freed);
	}
	return ori_group_agree(g, err);
}

/*
 * Called by the group before it takes packet `count`.  A receive whose packet came, but whose
 * credit did not leave in time, has left the credit to this call.  Without it the sender may wait
 * for that credit while this rank waits for the packet.
 */
ORIEL_DEV int ori_box_give_overdue(const struct oriel_window_dev *win, struct oriel_group g,
				   const struct oriel_window_link *l, struct oriel_box *mine,
				   int box, uint64_t count)
{
	int err = 0;

	if (!ori_slot_credit_is_due(win, count, mine->returned))
		return 0;
	if (oriel_group_is_leader(g))
		err = ori_box_give_credit(win, g, l, box, count);
	/* Before this meeting all threads have read the counts. */
	err = ori_group_agree(g, err);
	if (!err && oriel_group_is_leader(g))
		ori_store_pair(&mine->taken, count, count);
	return err;
}

/*
 * Called by the leader when `count` packets are taken.  The last one is delivered, so a passed
 * deadline of its credit is no error: the caller would repeat the call and miss a packet.
 */
ORIEL_DEV int ori_box_taken(const struct oriel_window_dev *win, struct oriel_group g,
			    const struct oriel_window_link *l, struct oriel_box *mine, int box,
			    uint64_t count)
{
	uint64_t returned = mine->returned;
	int err = 0;

	if (ori_slot_credit_is_due(win, count, returned)) {
		err = ori_box_give_credit(win, g, l, box, count);
		returned = err ? returned : count;
	}
	ori_store_pair(&mine->taken, count, returned);
	return err == ORIEL_ETIMEDOUT ? 0 : err;
}

ORIEL_DEV_OUT int ori_packet_recv_queued(const struct oriel_window_dev *win,
					 ORI_VALUE(oriel_group) g, int peer, int box, void *dst,
					 uint64_t bytes)
{
	const struct oriel_window_link *l = ori_peer_entry(win, peer)->link;
	struct oriel_box *mine = ori_box_mine(win, peer, box);
	uint64_t count = mine->taken;
	int err;

	if (!l)
		return ORIEL_ENOTCONN;
	err = ori_box_give_overdue(win, g, l, mine, box, count);
	if (!err)
		err = ori_slot_take(win, g, peer, box, count, dst, bytes, 1);
	if (!err && oriel_group_is_leader(g))
		err = ori_box_taken(win, g, l, mine, box, count + 1);
	return ori_group_agree(g, err);
}

/* ---- public ---------------------------------------------------------------------------------- */

ORIEL_DEV int oriel_packet_send(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				int box, const void *src, uint64_t bytes)
{
	struct oriel_window_peer p;
	int err = 0;

	if (!ori_packet_fits(win, bytes))
		return ori_packet_refuse(win, g, "packet_send", bytes);
	if (ori_window_is_checked(win))
		err = ori_check_packet(win, g, "packet_send", peer, box);
	if (err)
		return err;
	p = ori_window_entry(win, peer);
	if (!ori_peer_is_mapped(&p))
		return ori_packet_send_queued(win, g, peer, box, src, bytes);
	if ((int)win->box_marked != ORIEL_ON_GPU)
		return ori_packet_send_rare(win, g, peer, box, src, bytes);
	return ORIEL_ON_GPU ? ori_cells_send(win, g, &p, peer, box, src, bytes) :
			      ori_slot_send(win, g, &p, peer, box, src, bytes);
}

ORIEL_DEV int oriel_packet_recv(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				int box, void *dst, uint64_t bytes)
{
	struct oriel_window_peer p;
	int err = 0;

	if (!ori_packet_fits(win, bytes))
		return ori_packet_refuse(win, g, "packet_recv", bytes);
	if (ori_window_is_checked(win))
		err = ori_check_packet(win, g, "packet_recv", peer, box);
	if (err)
		return err;
	p = ori_window_entry(win, peer);
	if (!ori_peer_is_mapped(&p))
		return ori_packet_recv_queued(win, g, peer, box, dst, bytes);
	if ((int)win->box_marked != ORIEL_ON_GPU)
		return ori_packet_recv_rare(win, g, peer, box, dst, bytes);
	return ORIEL_ON_GPU ? ori_cells_recv(win, g, &p, peer, box, dst, bytes) :
			      ori_slot_recv(win, g, &p, peer, box, dst, bytes);
}

#endif
