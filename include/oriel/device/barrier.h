/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/barrier.h - bodies of device.h: the barriers.
 *
 * Arrivals are counted per pair: arrival_sent[p][id] counts this rank's arrivals at p, and
 * arrival_words[p][id] counts p's arrivals here.  Both ranks of a pair make the same sequence of
 * calls on an id.  So this rank waits until p has arrived as often as this rank has.  The arrivals
 * of a queued p are the sum of the words of its NICs.  The counts stay in window memory and never
 * restart, so launches, late ranks and a barrier_peer in between need no reset.  An early arrival
 * for the next round cannot replace a missing one of another rank.
 *
 * Only the part for mapped peers is inlined.  A called function gets the handle by address and
 * reads it through caches that every acquire empties.
 *
 * Model: models/barrier.pml
 */
#ifndef ORIEL_DEVICE_BARRIER_H
#define ORIEL_DEVICE_BARRIER_H

#include "window.h"

ORIEL_DEV uint64_t *ori_arrivals_sent(const struct oriel_window_dev *win, int peer, int id)
{
	return &win->arrival_sent[(uint64_t)(uint32_t)peer * win->barrier_stride + (uint32_t)id];
}

/*
 * Called by one thread after the group met: stores this rank's arrival number `count` at a mapped
 * peer.
 */
ORIEL_DEV void ori_arrive_mapped(const struct oriel_window_dev *win,
				 const struct oriel_window_peer *p, int peer, int id,
				 uint64_t count)
{
	/* A store, not an add: one group at a time uses an id, so this word has one writer. */
	ori_word_signal(&p->arrivals[id], ORIEL_SET, count, p->waiters);
	ori_store_relaxed_sys(ori_arrivals_sent(win, peer, id), count);
}

/* As ori_await(), for a queued peer.  Not inlined, so that mapped peers pay nothing for it. */
ORIEL_DEV_OUT int ori_await_queued(const struct oriel_window_dev *win, struct ori_spin *s,
				   uint64_t i)
{
	struct ori_nic_words words;

	ori_spin_host(s, 1);
	words.first = (uint64_t *)ori_host_half(&win->comm, &win->arrival_words[i]);
	words.stride = ori_arrival_plane(win);
	words.n = win->word_nics;
	return ori_nic_words_wait_count(s, &words);
}

/* All peers of a thread share one deadline: `s` continues from peer to peer. */
ORIEL_DEV int ori_await(const struct oriel_window_dev *win, struct ori_spin *s, int peer, int id,
			uint64_t count)
{
	uint64_t i = (uint64_t)(uint32_t)peer * win->barrier_stride + (uint32_t)id;

	ori_spin_next(s, peer, count);
	if (ori_words_are_host(win, peer))
		return ori_await_queued(win, s, i);
	ori_spin_host(s, 0);
	return ori_word_wait_count(s, &win->arrival_words[i]);
}

/* Checked windows: is another group inside a barrier call on this id? */
ORIEL_DEV_OUT int ori_barrier_enter(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				    const char *call, int id)
{
	int agreed, err;

	err = ori_check_id(win, g, call, "barrier", id, win->barriers);
	if (!err)
		err = ori_check_live(win, g, call);
	if (err)
		return err;
	/*
	 * [BARRIER2] acquire, device scope; partner [BARRIER3].  This group sees the arrival counts
	 * of the last group.  The two decrements below have no partner: that group did nothing.
	 */
	if (oriel_group_is_leader(g) && ori_fetch_add32_acq_rel(&win->barrier_users[id], 1) != 0) {
		ori_fetch_add32_acq_rel(&win->barrier_users[id], (uint32_t)-1);
		err = ori_refuse(win, g, ORIEL_EBUSY, call, "another group is inside barrier",
				 (uint64_t)id, 0);
	}
	agreed = ori_group_agree(g, err);
	/* A group whose meeting failed is not inside.  No partner: it did nothing. */
	if (agreed && !err && oriel_group_is_leader(g))
		ori_fetch_add32_acq_rel(&win->barrier_users[id], (uint32_t)-1);
	return agreed;
}

ORIEL_DEV_OUT void ori_barrier_leave(uint32_t *users)
{
	/*
	 * [BARRIER3] release, device scope: groups of one rank; partner [BARRIER2].  Publishes the
	 * arrival counts.  Without it the next group could arrive with an old count.
	 */
	ori_fetch_add32_acq_rel(users, (uint32_t)-1);
}

#define ORI_ARRIVE 1
#define ORI_WAIT 2
#define ORI_FLUSH 4
#define ORI_PAIR 8 /* a barrier of two ranks; only reports look at it */

/* What a barrier's wait is on the board: the parts tell which call it is. */
ORIEL_DEV int ori_barrier_op(int parts)
{
	return ORIEL_OP_BARRIER | (ORIEL_CALL_BARRIERS + parts) << ORIEL_CALL_SHIFT;
}

/* Called by the leader: flushes all queued peers before the first arrival anywhere. */
ORIEL_DEV_OUT int ori_flush_some(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				 int first, int last)
{
	const struct oriel_window_peer *p;
	int peer, err = 0;

	for (peer = first; peer < last && !err; peer++) {
		p = ori_peer_entry(win, peer);
		if (!ori_peer_is_mapped(p))
			err = ori_flush_queued(win, g, p->link);
	}
	return err;
}

ORIEL_DEV_OUT int ori_arrive_some(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				  int id, int first, int last)
{
	const struct oriel_window_peer *p;
	int peer, err = 0;
	uint64_t count;

	for (peer = first; peer < last && !err; peer++) {
		p = ori_peer_entry(win, peer);
		if (ori_peer_is_mapped(p))
			continue;
		count = ori_load_relaxed_sys(ori_arrivals_sent(win, peer, id)) + 1;
		ori_store_relaxed_sys(ori_arrivals_sent(win, peer, id), count);
		err = ori_fail_window(win, ori_arrive_queued(win, g, p->link, id, count), peer);
	}
	return err;
}

/*
 * Called before the first arrival.  A rank that cannot reach all peers must not leave half a
 * barrier.
 */
ORIEL_DEV_OUT int ori_reaches_some(const struct oriel_window_dev *win, int first, int last)
{
	int peer;

	for (peer = first; peer < last; peer++)
		if (ori_peer_entry(win, peer)->kind == ORIEL_PEER_NONE)
			return ORIEL_ENOTCONN;
	return 0;
}

/* Called by the leader, before the lanes arrive at mapped peers. */
ORIEL_DEV int ori_meet_queued(const struct oriel_window_dev *win, struct oriel_group g, int id,
			      int first, int last, int parts)
{
	/* No arrival in a window that a queued peer has given up: that barrier could never end. */
	int err = ori_failed_anywhere(&win->comm, win->failure);

	if (!err && win->absent_peers)
		err = ori_reaches_some(win, first, last);
	if (!err && (parts & ORI_FLUSH))
		err = ori_flush_some(win, g, first, last);
	if (!err && (parts & ORI_ARRIVE))
		err = ori_arrive_some(win, g, id, first, last);
	return err;
}

/*
 * The lanes of the group divide the peers among them (ori_group_lanes).  Each lane arrives at its
 * own peers and waits for them, so eight ranks take no longer than two.  `sent` is the count of the
 * lane's first peer, loaded before the group met.
 */
ORIEL_DEV void ori_arrive_lane(const struct oriel_window_dev *win, struct oriel_group g,
			       uint32_t lanes, int id, int first, int last, uint64_t sent)
{
	int peer;

	for (peer = first + (int)g.thread; peer < last; peer += (int)lanes) {
		struct oriel_window_peer p = ori_window_entry(win, peer);

		if (peer != first + (int)g.thread)
			sent = ori_load_relaxed_sys(ori_arrivals_sent(win, peer, id));
		if (peer != win->comm.rank && ori_peer_is_mapped(&p))
			ori_arrive_mapped(win, &p, peer, id, sent + 1);
	}
}

ORIEL_DEV int ori_await_lane(const struct oriel_window_dev *win, struct oriel_group g,
			     uint32_t lanes, int id, int first, int last, int parts)
{
	struct ori_spin s;
	int peer, err = 0;

	ori_spin_begin(&s, &win->comm, win->failure, ori_barrier_op(parts), first, id, win->number,
		       0);
	ori_spin_within(&s, g);
	for (peer = first + (int)g.thread; peer < last && !err; peer += (int)lanes) {
		if (peer == win->comm.rank)
			continue;
		err = ori_await(win, &s, peer, id,
				ori_load_relaxed_sys(ori_arrivals_sent(win, peer, id)));
		if (err)
			err = ori_fail_window(win, err, peer);
	}
	ori_spin_end(&s);
	return err;
}

/* Flushes, arrives at ranks [first, last) except self, and waits for them.  Works in any window. */
ORIEL_DEV int ori_barrier_any(const struct oriel_window_dev *win, struct oriel_group g,
			      const char *call, int id, int first, int last, int parts)
{
	uint32_t lanes = ori_group_lanes(g);
	struct ori_failures look = { 0, 0 };
	uint64_t sent = 0;
	int err = ori_window_is_checked(win) ? ori_barrier_enter(win, g, call, id) : 0;
	struct ori_trace_note n;

	if (err)
		return err;
	n = ori_trace_note_of(ORIEL_TRACE_BARRIER, ori_trace_begin(&win->comm, g),
			      last - first == 1 ? first : -1, id, win->number);
	n.op = parts;
	/* These loads run while the group meets. */
	if (g.thread < lanes) {
		look = ori_failures_load(&win->comm, win->failure);
		if ((parts & ORI_ARRIVE) && first + (int)g.thread < last)
			sent = ori_load_relaxed_sys(
				ori_arrivals_sent(win, first + (int)g.thread, id));
	}
	err = oriel_group_sync(g);
	if (g.thread < lanes) {
		err = err ? err : ori_failures_status(look);
		if (win->queued_peers) {
			if (!err && oriel_group_is_leader(g))
				err = ori_meet_queued(win, g, id, first, last, parts);
			/*
			 * The lanes that wait for queued peers read counts that the leader wrote.
			 */
			err = ori_lanes_status(lanes, err);
		}
		if (!err && (parts & ORI_ARRIVE))
			ori_arrive_lane(win, g, lanes, id, first, last, sent);
		if (!err && (parts & ORI_WAIT))
			err = ori_await_lane(win, g, lanes, id, first, last, parts);
	}
	err = ori_group_agree_any(g, err);
	ori_trace_end(&win->comm, g, n, err);
	if (ori_window_is_checked(win) && oriel_group_is_leader(g))
		ori_barrier_leave(&win->barrier_users[id]);
	return err;
}

ORIEL_DEV_OUT int ori_barrier_out(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				  const char *call, int id, int first, int last, int parts)
{
	return ori_barrier_any(win, g, call, id, first, last, parts);
}

/* Called by one lane: waits until the mapped rank `peer` has arrived `count` times. */
ORIEL_DEV int ori_await_mapped(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			       int id, uint64_t count, int parts)
{
	uint64_t i = (uint64_t)(uint32_t)peer * win->barrier_stride + (uint32_t)id;
	struct ori_spin s;
	int err;

	ori_spin_begin(&s, &win->comm, win->failure, ori_barrier_op(parts), peer, id, win->number,
		       count);
	ori_spin_within(&s, g);
	err = ori_word_wait_count(&s, &win->arrival_words[i]);
	if (ori_spin_was_short(&s))
		return 0;
	ori_spin_end(&s);
	return err ? ori_fail_window(win, err, peer) : 0;
}

/*
 * The same if all ranks are mapped and each has its own lane, so that there is nothing to divide.
 * The loads of count and failure words run while the group meets and during the first half of the
 * release.  The count stays in a register from the arrival to the wait.
 *
 * Order: the group's writes come before the meeting [GROUP1], which comes before each lane's
 * [BARRIER1].  Each lane's [SIG2] comes before the agreement, which is [GROUP1] again.  That comes
 * before all later reads of the group.
 */
ORIEL_DEV int ori_barrier_lanes(const struct oriel_window_dev *win, struct oriel_group g, int id,
				int first, int last, int parts)
{
	int peer = first + (int)g.thread, err;
	struct ori_failures look = { 0, 0 };
	struct oriel_waiters *waiters = NULL;
	uint64_t *there = NULL, count = 0;

	if (peer < last) {
		/*
		 * Each lane loads its entry from the table, not from the handle.  Constants at
		 * eight addresses are fetched one after the other; loads run together, and beside
		 * the loads above.
		 */
		const struct oriel_window_peer *p = ORIEL_ON_GPU ? &win->peers[peer] :
								   ori_peer_entry(win, peer);

		look = ori_failures_of_window(win);
		count = ori_load_relaxed_sys(ori_arrivals_sent(win, peer, id));
		there = p->arrivals + id;
		waiters = p->waiters;
	}
	err = oriel_group_sync(g);
	if (peer < last) {
		/* The first half of [BARRIER1]; the second one is the store below. */
		if (parts & ORI_ARRIVE)
			ori_release_begin();
		ori_release_hold(g, last - first);
		if (err || ori_failures_any(look)) {
			err = err ? err : ori_failures_status(look);
		} else if (peer != win->comm.rank) {
			if (parts & ORI_ARRIVE) {
				count++;
				/*
				 * [BARRIER1] release, system scope; partner [SIG2] in
				 * ori_word_wait_count().  Publishes what this group put to the
				 * peer.  Without it the peer leaves the barrier and reads old
				 * bytes of its buffer.
				 */
				ori_release_store(there, count);
				ori_wake(waiters);
				ori_store_relaxed_sys(ori_arrivals_sent(win, peer, id), count);
			}
			if (parts & ORI_WAIT)
				err = ori_await_mapped(win, g, peer, id, count, parts);
		}
	}
	return ori_group_agree_any(g, err);
}

/* The body of all calls below.  The fast path is inlined; the other one is called on a GPU. */
ORIEL_DEV int ori_barrier_steps(const struct oriel_window_dev *win, struct oriel_group g,
				const char *call, int id, int first, int last, int parts)
{
	if (!ori_window_is_watched(win) && !win->queued_peers &&
	    last - first <= (int)ori_group_lanes(g))
		return ori_barrier_lanes(win, g, id, first, last, parts);
	return ORIEL_ON_GPU ? ori_barrier_out(win, g, call, id, first, last, parts) :
			      ori_barrier_any(win, g, call, id, first, last, parts);
}

ORIEL_DEV int oriel_barrier_arrive_wait(const struct oriel_window_dev *win, struct oriel_group g,
					int id)
{
	return ori_barrier_steps(win, g, "barrier_arrive_wait", id, 0, win->comm.nranks,
				 ORI_ARRIVE | ORI_WAIT);
}

/* Mapped peers: the group's copies are finished when it has met, so the agreement is the flush. */
ORIEL_DEV int oriel_barrier(const struct oriel_window_dev *win, struct oriel_group g, int id)
{
	return ori_barrier_steps(win, g, "barrier", id, 0, win->comm.nranks,
				 ORI_FLUSH | ORI_ARRIVE | ORI_WAIT);
}

ORIEL_DEV int oriel_barrier_arrive(const struct oriel_window_dev *win, struct oriel_group g, int id)
{
	return ori_barrier_steps(win, g, "barrier_arrive", id, 0, win->comm.nranks,
				 ORI_FLUSH | ORI_ARRIVE);
}

ORIEL_DEV int oriel_barrier_wait(const struct oriel_window_dev *win, struct oriel_group g, int id)
{
	return ori_barrier_steps(win, g, "barrier_wait", id, 0, win->comm.nranks, ORI_WAIT);
}

ORIEL_DEV int oriel_barrier_peer(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				 int id)
{
	int err = 0;

	if (ori_window_is_checked(win))
		err = ori_check_peer(win, g, "barrier_peer", peer);
	return err ? err :
		     ori_barrier_steps(win, g, "barrier_peer", id, peer, peer + 1,
				       ORI_FLUSH | ORI_ARRIVE | ORI_WAIT | ORI_PAIR);
}

#endif
