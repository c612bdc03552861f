/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/window.h - bodies of device.h: puts, gets, completion and order.
 *
 * Shape of every operation: test the arguments (checked windows), move the data, let the group
 * agree on the leader's look at the failure words, and only then publish.  So an operation on a
 * failed window publishes nothing, and all threads return the same status.
 */
#ifndef ORIEL_DEVICE_WINDOW_H
#define ORIEL_DEVICE_WINDOW_H

#include "check.h"
#include "turn.h"
#include "window_queued.h"

/* By one thread, after its group met: ORIEL_ADD on a mapped peer without atomics. */
ORIEL_DEV_OUT void ori_signal_in_turn(const struct oriel_window_dev *win, int peer, int id,
				      uint64_t value)
{
	const struct oriel_window_peer *p = ori_peer_entry(win, peer);
	uint64_t i = (uint64_t)(uint32_t)peer * win->signal_stride + (uint32_t)id;

	ori_add_in_turn(&win->comm, win->failure, win->number, &win->signal_turns[i],
			&p->signals[id], value, p->waiters);
}

/* ---- puts ---------------------------------------------------------------------------------------- */

ORIEL_DEV void ori_count(const struct oriel_window_dev *win, int peer, int counter)
{
	/* [S1] release: who sees the count may write the source again; partner [W1]. */
	ori_word_signal(ori_counter_word(win, peer, 0, counter), ORIEL_ADD, 1, win->comm.waiters);
}

/*
 * A few bytes are the business of a GPU's first warp: the others of the block go straight to the
 * meeting, for what sixteen warps find out before it all of them wait for.  Not where queues are
 * posted to, which the whole group does.
 */
ORIEL_DEV int ori_put_is_few(ORI_WIN, uint64_t bytes)
{
	return ORIEL_ON_GPU && g.scope == ORIEL_GROUP_BLOCK && bytes < 64 &&
	       !(win->queued_peers | win->comm.flags);
}

/* As ori_put_entry(), to a peer that is queued or has no atomics: called, so that others pay nothing. */
ORIEL_DEV_OUT int ori_put_not_plain(ORI_WIN, int peer, uint64_t dst_off,
				    const struct oriel_source *src, uint64_t src_off,
				    uint64_t bytes, int signal, int op, uint64_t value, int counter)
{
	struct oriel_window_peer p = *ori_peer_entry(win, peer);
	int err;

	if (!ori_peer_is_mapped(&p))
		return ori_put_queued(win, g, peer, dst_off, src, src_off, NULL, bytes, signal, op,
				      value, counter);
	if (bytes)
		ori_group_copy(g, p.buffer + dst_off,
			       (const uint8_t *)(uintptr_t)src->address + src_off, bytes);
	err = ori_agree_window(win, g);
	if (err || !oriel_group_is_leader(g))
		return err;
	if (signal >= 0 && op == ORIEL_ADD)
		ori_signal_in_turn(win, peer, signal, value);
	else if (signal >= 0)
		ori_word_signal(&p.signals[signal], op, win->first_count + value, p.waiters);
	if (counter >= 0)
		ori_count(win, peer, counter);
	return 0;
}

/* The put family; signal < 0 and counter < 0 mean none and fold away. */
ORIEL_DEV int ori_put_entry(ORI_WIN, const struct oriel_window_peer *entry, int peer,
			    uint64_t dst_off, const struct oriel_source *src, uint64_t src_off,
			    uint64_t bytes, int signal, int op, uint64_t value, int counter)
{
	int few = ori_put_is_few(win, g, bytes), err;
	struct ori_failures look = { 0, 0 };
	struct ori_early early = { 0, 0 };
	struct oriel_waiters *waiters = NULL;
	struct oriel_group movers = g;
	uint64_t *at = NULL;

	if (!few || g.thread < 32u) {
		struct oriel_window_peer p = *entry;

		if (few && g.size > 32u)
			movers.size = 32u;
		waiters = p.waiters;
		/* On their way while the rest is found out: the look is not needed before the end. */
		if (ORIEL_ON_GPU && bytes)
			early = ori_copy_early(movers, src->address + src_off, bytes);
		if (oriel_group_is_leader(g))
			look = ori_failures_of_window(win);
		if (!few && !ori_peer_is_plain(&p))
			return ori_put_not_plain(win, g, peer, dst_off, src, src_off, bytes, signal,
						 op, value, counter);
		/* The line of the signal is fetched while the data is copied, not after. */
		if (signal >= 0 && oriel_group_is_leader(g)) {
			ori_prefetch_for_write(&p.signals[signal]);
			at = ori_release_at(&p.signals[signal]);
		}
		if (bytes && !ori_copy_late(movers, early, p.buffer + dst_off, bytes))
			ori_group_copy(movers, p.buffer + dst_off,
				       (const uint8_t *)(uintptr_t)src->address + src_off, bytes);
	}
	/* One thread: [S1] of the signal begins before the look is there, see mapped.h. */
	if (signal >= 0 && g.scope == ORIEL_GROUP_THREAD)
		ori_release_begin();
	err = ori_group_agree_failures(g, look);
	if (err || !oriel_group_is_leader(g))
		return err;
	if (signal >= 0) {
		/* [S1] release, system scope; partner [W1] in ori_word_wait(). */
		if (g.scope != ORIEL_GROUP_THREAD)
			ori_release_begin();
		ori_publish(at, op, op == ORIEL_SET ? win->first_count + value : value, waiters);
	}
	if (counter >= 0)
		ori_count(win, peer, counter);
	return 0;
}

ORIEL_DEV_OUT int ori_put_beyond(ORI_WIN, int peer, uint64_t dst_off,
				 const struct oriel_source *src, uint64_t src_off, uint64_t bytes,
				 int signal, int op, uint64_t value, int counter)
{
	return ori_put_entry(win, g, &win->peers[peer], peer, dst_off, src, src_off, bytes, signal,
			     op, value, counter);
}

/*
 * Entries that travel in the handle are constants to a GPU.  Loads of the others, next to them,
 * would share a scoreboard with those of the data, and so wait for them: they are called.
 */
ORIEL_DEV int ori_put_bytes(ORI_WIN, int peer, uint64_t dst_off, const struct oriel_source *src,
			    uint64_t src_off, uint64_t bytes, int signal, int op, uint64_t value,
			    int counter)
{
	if (ORIEL_ON_GPU && peer >= ORIEL_INLINE_PEERS)
		return ori_put_beyond(win, g, peer, dst_off, src, src_off, bytes, signal, op, value,
				      counter);
	return ori_put_entry(win, g,
			     ORIEL_ON_GPU ? &win->inline_peers[peer] : ori_peer_entry(win, peer),
			     peer, dst_off, src, src_off, bytes, signal, op, value, counter);
}

ORIEL_DEV int oriel_put(ORI_WIN, int peer, uint64_t dst_off, const struct oriel_source *src,
			uint64_t src_off, uint64_t bytes)
{
	int err = 0;

	if (win->checked)
		err = ori_check_transfer(win, g, "put", peer, dst_off, src, src_off, bytes);
	return err ? err : ori_put_bytes(win, g, peer, dst_off, src, src_off, bytes, -1, 0, 0, -1);
}

ORIEL_DEV int oriel_put_signal(ORI_WIN, int peer, uint64_t dst_off, const struct oriel_source *src,
			       uint64_t src_off, uint64_t bytes, int signal, int op, uint64_t value)
{
	int err = 0;

	if (win->checked)
		err = ori_check_put_signal(win, g, "put_signal", peer, dst_off, src, src_off, bytes,
					   signal, op);
	return err ? err :
		     ori_put_bytes(win, g, peer, dst_off, src, src_off, bytes, signal, op, value,
				   -1);
}

ORIEL_DEV int oriel_put_counter(ORI_WIN, int peer, uint64_t dst_off, const struct oriel_source *src,
				uint64_t src_off, uint64_t bytes, int counter)
{
	int err = 0;

	if (win->checked) {
		err = ori_check_id(win, g, "put_counter", "counter", counter, win->counters);
		if (!err)
			err = ori_check_transfer(win, g, "put_counter", peer, dst_off, src, src_off,
						 bytes);
	}
	return err ? err :
		     ori_put_bytes(win, g, peer, dst_off, src, src_off, bytes, -1, 0, 0, counter);
}

ORIEL_DEV int oriel_put_signal_counter(ORI_WIN, int peer, uint64_t dst_off,
				       const struct oriel_source *src, uint64_t src_off,
				       uint64_t bytes, int signal, int op, uint64_t value,
				       int counter)
{
	int err = 0;

	if (win->checked) {
		err = ori_check_id(win, g, "put_signal_counter", "counter", counter, win->counters);
		if (!err)
			err = ori_check_put_signal(win, g, "put_signal_counter", peer, dst_off, src,
						   src_off, bytes, signal, op);
	}
	return err ? err :
		     ori_put_bytes(win, g, peer, dst_off, src, src_off, bytes, signal, op, value,
				   counter);
}

#define ORI_VALUE_BYTES 28u

ORIEL_DEV int ori_check_value(const struct oriel_window_dev *win, struct oriel_group g,
			      const char *call, int peer, uint64_t off, uint64_t bytes)
{
	int err;

	if (bytes < 1 || bytes > ORI_VALUE_BYTES)
		return ori_refuse(win, g, ORIEL_EINVAL, call, "a value has 1 to 28 bytes", bytes,
				  ORI_VALUE_BYTES);
	err = ori_check_range(win, g, call, "end of the window passed", off, bytes, win->bytes);
	return err ? err : ori_check_peer(win, g, call, peer);
}

ORIEL_DEV int oriel_put_value(ORI_WIN, int peer, uint64_t dst_off, const void *value,
			      uint64_t bytes)
{
	const struct oriel_window_peer *p;
	int err = 0;

	if (win->checked)
		err = ori_check_value(win, g, "put_value", peer, dst_off, bytes);
	if (err)
		return err;
	p = ori_peer_entry(win, peer);
	if (!ori_peer_is_mapped(p))
		return ori_put_queued(win, g, peer, dst_off, NULL, 0, value, bytes, -1, 0, 0, -1);
	if (oriel_group_is_leader(g))
		memcpy(p->buffer + dst_off, value, bytes);
	return ori_agree_window(win, g);
}

/* ---- gets ---------------------------------------------------------------------------------------- */

ORIEL_DEV_OUT int ori_get_bytes(ORI_WIN, const char *call, int peer, uint64_t src_off,
				const struct oriel_source *dst, uint64_t dst_off, uint64_t bytes,
				int blocking)
{
	const struct oriel_window_peer *p;
	int err = 0;

	if (win->checked)
		err = ori_check_transfer(win, g, call, peer, src_off, dst, dst_off, bytes);
	if (err)
		return err;
	p = ori_peer_entry(win, peer);
	if (!ori_peer_is_mapped(p))
		return ori_get_queued(win, g, p->link, src_off, dst, dst_off, bytes, blocking);
	/* A mapped peer's bytes are there when the copy ends: nothing to wait for at flush. */
	if (bytes)
		ori_group_copy(g, (uint8_t *)(uintptr_t)dst->address + dst_off, p->buffer + src_off,
			       bytes);
	return ori_agree_window(win, g);
}

ORIEL_DEV int oriel_get(ORI_WIN, int peer, uint64_t src_off, const struct oriel_source *dst,
			uint64_t dst_off, uint64_t bytes)
{
	return ori_get_bytes(win, g, "get", peer, src_off, dst, dst_off, bytes, 1);
}

ORIEL_DEV int oriel_get_nbi(ORI_WIN, int peer, uint64_t src_off, const struct oriel_source *dst,
			    uint64_t dst_off, uint64_t bytes)
{
	return ori_get_bytes(win, g, "get_nbi", peer, src_off, dst, dst_off, bytes, 0);
}

ORIEL_DEV int oriel_get_value(ORI_WIN, int peer, uint64_t src_off, void *out, uint64_t bytes)
{
	const struct oriel_window_peer *p;
	uint64_t words[4] = { 0, 0, 0, 0 };
	int err = 0;
	uint32_t i;

	if (win->checked)
		err = ori_check_value(win, g, "get_value", peer, src_off, bytes);
	if (err)
		return err;
	p = ori_peer_entry(win, peer);
	if (!ori_peer_is_mapped(p) && !p->link)
		return ORIEL_ENOTCONN;
	/* The leader reads, so that all threads get the same bytes while the peer may be writing. */
	if (oriel_group_is_leader(g)) {
		err = ori_failed(&win->comm, win->failure);
		if (!err && ori_peer_is_mapped(p)) {
			memcpy(words, p->buffer + src_off, bytes);
		} else if (!err) {
			struct ori_op_context scope = ori_window_context(win);

			err = ori_fetch_bytes(&scope, p->link->link, ori_lane_of(p->link->link, g),
					      g.block, p->link->buffer_skew + src_off,
					      p->link->buffer_key, words, bytes);
		}
	}
	for (i = 0; i < (bytes + 7) / 8; i++)
		err = ori_group_agree_value(g, err, &words[i]);
	if (!err)
		memcpy(out, words, bytes);
	return err;
}

/* ---- completion and order -------------------------------------------------------------------------- */

/*
 * Mapped and self: every thread's own stores are put before what follows (docs/decisions/0007), then the
 * group meets.
 */
ORIEL_DEV int oriel_fence(ORI_WIN, int peer)
{
	const struct oriel_window_peer *p;
	struct ori_op_context scope;
	int err = 0;

	if (win->checked)
		err = ori_check_peer(win, g, "fence", peer);
	ori_fence_sys();
	if (!err)
		err = ori_agree_window(win, g);
	if (err)
		return err;
	p = ori_peer_entry(win, peer);
	if (ori_peer_is_mapped(p))
		return 0;
	if (!p->link)
		return ORIEL_ENOTCONN;
	if (oriel_group_is_leader(g)) {
		scope = ori_window_context(win);
		err = ori_lane_fence(&scope, p->link->link, ori_lane_of(p->link->link, g));
	}
	return ori_group_agree(g, err);
}

ORIEL_DEV int oriel_flush(ORI_WIN, int peer)
{
	const struct oriel_window_peer *p;
	int err = 0;

	if (win->checked)
		err = ori_check_peer(win, g, "flush", peer);
	ori_fence_sys();
	if (!err)
		err = ori_agree_window(win, g);
	if (err)
		return err;
	p = ori_peer_entry(win, peer);
	if (ori_peer_is_mapped(p))
		return 0;
	if (oriel_group_is_leader(g))
		err = ori_flush_queued(win, g, p->link);
	return ori_group_agree(g, err);
}

/* By one thread. */
ORIEL_DEV_OUT int ori_flush_queued_all(const struct oriel_window_dev *win, struct oriel_group g)
{
	int peer, err = 0;

	for (peer = 0; peer < win->comm.nranks && !err && win->queued_peers; peer++)
		/* to a peer without queues nothing was posted */
		if (ori_peer_entry(win, peer)->link)
			err = ori_flush_queued(win, g, ori_peer_entry(win, peer)->link);
	return err;
}

ORIEL_DEV int oriel_flush_all(ORI_WIN)
{
	int err = 0;

	if (win->checked)
		err = ori_check_live(win, g, "flush_all");
	ori_fence_sys();
	if (!err)
		err = ori_agree_window(win, g);
	if (err || !win->queued_peers)
		return err;
	if (oriel_group_is_leader(g))
		err = ori_flush_queued_all(win, g);
	return ori_group_agree(g, err);
}

ORIEL_DEV int oriel_take_ticket(ORI_WIN, int peer, struct oriel_ticket *ticket)
{
	const struct oriel_window_peer *p;
	int err = 0;

	if (win->checked)
		err = ori_check_peer(win, g, "take_ticket", peer);
	if (err)
		return err;
	p = ori_peer_entry(win, peer);
	ticket->peer = peer;
	ticket->lane = 0;
	ticket->index = 0;
	if (ori_peer_is_mapped(p))
		return 0;
	if (!p->link)
		return ORIEL_ENOTCONN;
	ticket->lane = ori_lane_of(p->link->link, g);
	if (oriel_group_is_leader(g))
		ticket->index =
			ori_load_acquire_sys(&p->link->link->lanes[ticket->lane].main->produced);
	return ori_group_agree_value(g, 0, &ticket->index);
}

ORIEL_DEV int oriel_wait_local(ORI_WIN, const struct oriel_ticket *ticket, uint64_t timeout_ns)
{
	const struct oriel_window_peer *p;
	struct ori_op_context scope;
	int err = 0;

	if (win->checked)
		err = ori_check_peer(win, g, "wait_local", ticket->peer);
	if (!err)
		err = ori_agree_window(win, g);
	if (err)
		return err;
	p = ori_peer_entry(win, ticket->peer);
	if (ori_peer_is_mapped(p))
		return 0;
	if (!p->link)
		return ORIEL_ENOTCONN;
	if (oriel_group_is_leader(g)) {
		scope = ori_window_context(win);
		if (timeout_ns)
			scope.timeout_ns = timeout_ns;
		err = ori_queue_wait(&scope, p->link->link->lanes[ticket->lane].main,
				     ticket->index);
	}
	return ori_group_agree(g, err);
}

#endif
