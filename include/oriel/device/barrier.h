/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/barrier.h - bodies of device.h: sync, barrier, their halves, barrier_peer.
 *
 * Arrivals are counted per pair: arrival_sent[p][id] is how often I arrived at p, and
 * arrival_words[p][id] how often p arrived at me.  Both ends of a pair make the same sequence of
 * calls on an id, so I wait until p has arrived as often as I have.  Counts run for ever in window
 * memory: launches, late ranks and a barrier_peer in between need no reset, and an early arrival for
 * the next round cannot stand in for a missing one of another rank.
 */
#ifndef ORIEL_DEVICE_BARRIER_H
#define ORIEL_DEVICE_BARRIER_H

#include "window.h"

/* By the leader, after the group agreed. */
ORIEL_DEV int ori_arrive(ORI_WIN, int peer, int id)
{
	const struct oriel_window_peer *p = ori_window_peer(win, peer);
	uint64_t *sent = &win->arrival_sent[(uint64_t)peer * win->barrier_stride + (uint64_t)id];
	uint64_t count = ori_load_relaxed_sys(sent) + 1;

	ori_store_relaxed_sys(sent, count);
	if (!ori_peer_is_mapped(p))
		return ori_arrive_queued(win, g, p->link, id, count);
	/* A store, not an add: one group at a time uses an id, so this word has one writer. */
	ori_mapped_signal(&p->arrivals[id], ORIEL_SET, count, p->waiters);
	return 0;
}

/* One deadline for all peers of a call: `s` goes on from peer to peer. */
ORIEL_DEV int ori_await(const struct oriel_window_dev *win, struct ori_spin *s, int peer, int id)
{
	uint64_t i = (uint64_t)peer * win->barrier_stride + (uint64_t)id;

	ori_spin_next(s, peer, ori_load_relaxed_sys(&win->arrival_sent[i]));
	return ori_mapped_wait_count(s, &win->arrival_words[i]);
}

/*
 * A barrier that ended without its peers leaves the pair's counts apart, so the window is of no
 * more use: its first failure is kept and every later call returns it.
 */
ORIEL_DEV_OUT int ori_fail_window(const struct oriel_window_dev *win, int err, int peer)
{
	const struct oriel_window_peer *p = ori_window_peer(win, peer);

	if (err != ORIEL_ETIMEDOUT && err != ORIEL_EMISMATCH)
		return err;
	ori_compare_swap_acq_rel_sys(win->failure, 0, ORIEL_FAILURE(err, peer));
	/* The peer's half is of no more use either: it should not wait for what will not come. */
	if (p->failure) {
		ori_compare_swap_acq_rel_sys(p->failure, 0, ORIEL_FAILURE(err, win->comm.rank));
		ori_wake(p->waiters);
	} else if (p->link) {
		ori_fail_queued(win, p->link, ORIEL_FAILURE(err, win->comm.rank));
	}
	return err;
}

/* Checked windows: is another group inside a barrier call on this id? */
ORIEL_DEV int ori_barrier_enter(ORI_WIN, const char *call, int id)
{
	int agreed, err = 0;

	if (!win->checked)
		return 0;
	err = ori_check_id(win, g, call, "barrier id out of range", id, win->barriers);
	if (!err)
		err = ori_check_live(win, g, call);
	if (err)
		return err;
	if (oriel_group_is_leader(g) && ori_fetch_add32_acq_rel(&win->barrier_users[id], 1) != 0) {
		ori_fetch_add32_acq_rel(&win->barrier_users[id], (uint32_t)-1);
		err = ori_refuse(win, g, ORIEL_EBUSY, call,
				 "another group is in a barrier of this id", (uint64_t)id, 1);
	}
	agreed = ori_group_agree(g, err);
	/* A group that broke up at the meeting is not inside. */
	if (agreed && !err && oriel_group_is_leader(g))
		ori_fetch_add32_acq_rel(&win->barrier_users[id], (uint32_t)-1);
	return agreed;
}

ORIEL_DEV void ori_barrier_leave(const struct oriel_window_dev *win, int id)
{
	if (win->checked)
		ori_fetch_add32_acq_rel(&win->barrier_users[id], (uint32_t)-1);
}

#define ORI_ARRIVE 1
#define ORI_WAIT 2
#define ORI_FLUSH 4

/* Flushes, arrives at ranks [first, last) but self, waits for them: the body of all calls below. */
ORIEL_DEV_OUT int ori_barrier(ORI_WIN, const char *call, int id, int first, int last, int parts)
{
	struct ori_spin s;
	int peer, err = ori_barrier_enter(win, g, call, id);

	if (err)
		return err;
	err = ori_agree_window(win, g);
	if (oriel_group_is_leader(g)) {
		ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_BARRIER, first, id,
			       win->number, 0);
		for (peer = first; peer < last && !err && win->queued_peers && (parts & ORI_FLUSH);
		     peer++)
			if (!ori_peer_is_mapped(ori_window_peer(win, peer)))
				err = ori_flush_queued(win, g, ori_window_peer(win, peer)->link);
		for (peer = first; peer < last && !err && (parts & ORI_ARRIVE); peer++)
			if (peer != win->comm.rank)
				err = ori_fail_window(win, ori_arrive(win, g, peer, id), peer);
		for (peer = first; peer < last && !err && (parts & ORI_WAIT); peer++)
			if (peer != win->comm.rank)
				err = ori_fail_window(win, ori_await(win, &s, peer, id), peer);
		ori_spin_end(&s);
		ori_barrier_leave(win, id);
	}
	return ori_group_agree(g, err);
}

ORIEL_DEV int oriel_sync(ORI_WIN, int id)
{
	return ori_barrier(win, g, "sync", id, 0, win->comm.nranks, ORI_ARRIVE | ORI_WAIT);
}

/* Mapped peers: the group's copies are done when it has met, so the flush is the agreement. */
ORIEL_DEV int oriel_barrier(ORI_WIN, int id)
{
	return ori_barrier(win, g, "barrier", id, 0, win->comm.nranks,
			   ORI_FLUSH | ORI_ARRIVE | ORI_WAIT);
}

ORIEL_DEV int oriel_barrier_arrive(ORI_WIN, int id)
{
	return ori_barrier(win, g, "barrier_arrive", id, 0, win->comm.nranks,
			   ORI_FLUSH | ORI_ARRIVE);
}

ORIEL_DEV int oriel_barrier_wait(ORI_WIN, int id)
{
	return ori_barrier(win, g, "barrier_wait", id, 0, win->comm.nranks, ORI_WAIT);
}

ORIEL_DEV int oriel_barrier_peer(ORI_WIN, int peer, int id)
{
	int err = 0;

	if (win->checked)
		err = ori_check_peer(win, g, "barrier_peer", peer);
	return err ? err :
		     ori_barrier(win, g, "barrier_peer", id, peer, peer + 1,
				 ORI_FLUSH | ORI_ARRIVE | ORI_WAIT);
}

#endif
