/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/check.h - who is who in a window, and the tests of a checked one.
 *
 * A refusal is one line from the leader and the same status on all threads.  Tests look at
 * arguments and the handle only, so every thread comes to the same answer; what may change under
 * a running group (does the window still live?) the leader answers for all.
 */
#ifndef ORIEL_DEVICE_CHECK_H
#define ORIEL_DEVICE_CHECK_H

#include "mapped.h"

/*
 * ---- the handle
 * --------------------------------------------------------------------------------
 */

ORIEL_DEV const struct oriel_window_peer *ori_peer_entry(const struct oriel_window_dev *win,
							 int peer)
{
	return peer < ORIEL_INLINE_PEERS ? &win->inline_peers[peer] : &win->peers[peer];
}

/*
 * The same by value, for the short ways.  A kernel's argument lies in the constant bank as long
 * as no address of it is taken: a pointer that may go there or to memory makes each member a load
 * through the caches, which every acquire empties (0.3 us each, and they wait for each other).
 */
ORIEL_DEV struct oriel_window_peer ori_window_entry(const struct oriel_window_dev *win, int peer)
{
	if (ORIEL_ON_GPU && peer < ORIEL_INLINE_PEERS)
		return win->inline_peers[peer];
	return ORIEL_ON_GPU ? win->peers[peer] : *ori_peer_entry(win, peer);
}

/* A window always has its failure word. */
ORIEL_DEV struct ori_failures ori_failures_of_window(const struct oriel_window_dev *win)
{
	struct ori_failures look;

	look.window = ori_load_relaxed_sys(win->failure);
	look.comm = ori_load_relaxed_sys(win->comm.failure);
	return look;
}

ORIEL_DEV int ori_peer_is_mapped(const struct oriel_window_peer *p)
{
	return p->kind == ORIEL_PEER_SELF || p->kind == ORIEL_PEER_MAPPED;
}

/* Mapped, with atomics: the usual peer, whose way through every call has no detour. */
ORIEL_DEV int ori_peer_is_plain(const struct oriel_window_peer *p)
{
	return ori_peer_is_mapped(p) && !p->flags;
}

ORIEL_DEV_OUT int ori_peer_is_queued(const struct oriel_window_dev *win, int peer)
{
	return !ori_peer_is_mapped(ori_peer_entry(win, peer));
}

/* By one thread: a mapped peer's window has failed, too; its first failure stays. */
ORIEL_DEV_OUT void ori_tell_failure(const struct oriel_window_peer *p, uint64_t failure)
{
	if (!(p->flags & ORIEL_PEER_NO_ATOMICS))
		ori_compare_swap_acq_rel_sys(p->failure, 0, failure);
	else if (!ori_load_relaxed_sys(p->failure)) /* of two at once either may stay */
		ori_store_release_sys(p->failure, failure);
	ori_wake(p->waiters);
}

/*
 * Does an engine write this peer's words in this rank's control memory?  Windows without queued
 * peers know without asking.
 */
ORIEL_DEV int ori_words_are_host(const struct oriel_window_dev *win, int peer)
{
	return win->queued_peers && ori_peer_is_queued(win, peer);
}

/*
 * The words of a peer in this rank's control memory.  An engine writes those of a queued peer, so
 * they lie in the host's half (comm.host_shift); all others lie in the device's.
 */
ORIEL_DEV uint64_t *ori_words_of(const struct oriel_window_dev *win, int peer, uint64_t *words)
{
	return ori_words_are_host(win, peer) ? (uint64_t *)ori_host_half(&win->comm, words) : words;
}

/*
 * A queued peer's adds come through several NICs, each atomic only within itself: one word for each.  Words
 * from one NIC's rows to the next one's; a peer has win->word_nics of them if it is queued, else one.
 */
ORIEL_DEV uint64_t ori_signal_plane(const struct oriel_window_dev *win)
{
	return (uint64_t)(uint32_t)win->comm.nranks * win->signal_stride;
}

ORIEL_DEV uint64_t ori_arrival_plane(const struct oriel_window_dev *win)
{
	return (uint64_t)(uint32_t)win->comm.nranks * win->barrier_stride;
}

ORIEL_DEV int oriel_rank(const struct oriel_window_dev *win)
{
	return win->comm.rank;
}

ORIEL_DEV int oriel_nranks(const struct oriel_window_dev *win)
{
	return win->comm.nranks;
}

ORIEL_DEV int oriel_peer_kind(const struct oriel_window_dev *win, int peer)
{
	if (peer < 0 || peer >= win->comm.nranks)
		return ORIEL_PEER_NONE;
	return ori_peer_entry(win, peer)->kind;
}

ORIEL_DEV int oriel_peer_to_index(const struct oriel_window_dev *win, int peer)
{
	return peer < win->comm.rank ? peer : peer - 1;
}

ORIEL_DEV int oriel_index_to_peer(const struct oriel_window_dev *win, int index)
{
	return index < win->comm.rank ? index : index + 1;
}

ORIEL_DEV void *oriel_mapped_address(const struct oriel_window_dev *win, int peer, uint64_t offset)
{
	const struct oriel_window_peer *p;

	if (peer < 0 || peer >= win->comm.nranks || offset > win->bytes)
		return NULL;
	p = ori_peer_entry(win, peer);
	return ori_peer_is_mapped(p) && p->buffer ? p->buffer + offset : NULL;
}

/*
 * ---- tests of a checked window: one line from the leader, the same status on all
 * ------------------
 */

/*
 * what: a text, with `value` and, unless it is 0, `limit` behind it.  One word is a thing that is
 * numbered ("rank", "signal"): value does not exist, there are `limit` of them.  "mixed": value is
 * an op above 32 bits of signal id, for rank `limit`; that signal had the other op before.
 */
ORIEL_DEV_OUT int ori_refuse(const struct oriel_window_dev *win, struct oriel_group g, int status,
			     const char *call, const char *what, uint64_t value, uint64_t limit)
{
#if !ORIEL_ON_GPU
	if (oriel_group_is_leader(g))
		oriel_cpu_report(&win->comm, call, what, value, limit);
#else
	(void)win;
	(void)g;
	(void)call;
	(void)what;
	(void)value;
	(void)limit;
#endif
	return status;
}

/* The window still lives?  By the leader, for all: the answer may change under a running group. */
ORIEL_DEV int ori_check_live(const struct oriel_window_dev *win, struct oriel_group g,
			     const char *call)
{
	int err = 0;

	if (oriel_group_is_leader(g) &&
	    ori_load_acquire_sys(win->generation_word) != win->generation)
		err = ori_refuse(win, g, ORIEL_ESTALE, call, "window was destroyed; number",
				 (uint64_t)win->number, 0);
	return ori_group_agree(g, err);
}

ORIEL_DEV int ori_check_peer(const struct oriel_window_dev *win, struct oriel_group g,
			     const char *call, int peer)
{
	if (peer < 0 || peer >= win->comm.nranks)
		return ori_refuse(win, g, ORIEL_ERANGE, call, "rank", (uint64_t)(int64_t)peer,
				  (uint64_t)win->comm.nranks);
	return ori_check_live(win, g, call);
}

ORIEL_DEV int ori_check_id(const struct oriel_window_dev *win, struct oriel_group g,
			   const char *call, const char *what, int id, uint32_t ids)
{
	if (id < 0 || (uint32_t)id >= ids)
		return ori_refuse(win, g, ORIEL_ERANGE, call, what, (uint64_t)(int64_t)id, ids);
	return 0;
}

ORIEL_DEV int ori_check_signal(const struct oriel_window_dev *win, struct oriel_group g,
			       const char *call, int id, int op)
{
	if (op != ORIEL_ADD && op != ORIEL_SET)
		return ori_refuse(win, g, ORIEL_EINVAL, call, "op is not ORIEL_ADD or ORIEL_SET",
				  (uint64_t)(int64_t)op, ORIEL_SET);
	return ori_check_id(win, g, call, "signal", id, win->signals);
}

/*
 * A source either adds to a signal or sets it, and never both.  The leader keeps what was used
 * first and answers for all.  The swap orders nothing: the word stands alone.
 */
ORIEL_DEV_OUT int ori_check_mixed(const struct oriel_window_dev *win, struct oriel_group g,
				  const char *call, int peer, int id, int op)
{
	uint64_t i = (uint64_t)(uint32_t)peer * win->signal_stride + (uint32_t)id, first;
	int err = 0;

	if (oriel_group_is_leader(g)) {
		first = ori_compare_swap_acq_rel_sys(&win->signal_ops[i], 0, (uint64_t)op);
		if (first && first != (uint64_t)op)
			err = ori_refuse(win, g, ORIEL_EINVAL, call, "mixed",
					 (uint64_t)op << 32 | (uint32_t)id, (uint64_t)peer);
	}
	return ori_group_agree(g, err);
}

ORIEL_DEV int ori_check_compare(const struct oriel_window_dev *win, struct oriel_group g,
				const char *call, int cmp)
{
	if (cmp < ORIEL_EQ || cmp > ORIEL_LE)
		return ori_refuse(win, g, ORIEL_EINVAL, call, "unknown comparison",
				  (uint64_t)(int64_t)cmp, ORIEL_LE);
	return 0;
}

/* [off, off + bytes) lies in `limit` bytes, without overflow. */
ORIEL_DEV int ori_check_range(const struct oriel_window_dev *win, struct oriel_group g,
			      const char *call, const char *what, uint64_t off, uint64_t bytes,
			      uint64_t limit)
{
	if (off > limit || bytes > limit - off)
		return ori_refuse(win, g, ORIEL_ERANGE, call, what, off + bytes, limit);
	return 0;
}

/* A copy within this rank's memory: the same place is fine, a shifted one is not. */
ORIEL_DEV int ori_check_overlap(const struct oriel_window_dev *win, struct oriel_group g,
				const char *call, uint64_t a, uint64_t b, uint64_t bytes)
{
	uint64_t apart = a > b ? a - b : b - a;

	if (apart != 0 && apart < bytes)
		return ori_refuse(win, g, ORIEL_EINVAL, call,
				  "source and destination overlap; apart", apart, bytes);
	return 0;
}

ORIEL_DEV_OUT int ori_check_transfer(const struct oriel_window_dev *win, struct oriel_group g,
				     const char *call, int peer, uint64_t off,
				     const struct oriel_source *local, uint64_t local_off,
				     uint64_t bytes)
{
	int err;

	if (!local)
		return ori_refuse(win, g, ORIEL_EINVAL, call, "no source", 0, 0);
	err = ori_check_range(win, g, call, "end of the window passed", off, bytes, win->bytes);
	if (!err)
		err = ori_check_range(win, g, call, "end of the source passed", local_off, bytes,
				      local->bytes);
	if (!err)
		err = ori_check_peer(win, g, call, peer);
	if (!err && peer == win->comm.rank && bytes)
		err = ori_check_overlap(win, g, call, (uintptr_t)win->buffer + off,
					(uintptr_t)local->address + local_off, bytes);
	return err;
}

/*
 * ---- all tests of one call, out of the way of windows that are not checked
 * ------------------
 */

/* A transfer that signals. */
ORIEL_DEV_OUT int ori_check_put_signal(const struct oriel_window_dev *win, struct oriel_group g,
				       const char *call, int peer, uint64_t off,
				       const struct oriel_source *local, uint64_t local_off,
				       uint64_t bytes, int signal, int op)
{
	int err = ori_check_signal(win, g, call, signal, op);

	if (!err)
		err = ori_check_transfer(win, g, call, peer, off, local, local_off, bytes);
	return err ? err : ori_check_mixed(win, g, call, peer, signal, op);
}

/* A call on a signal of one source. */
ORIEL_DEV_OUT int ori_check_wait(const struct oriel_window_dev *win, struct oriel_group g,
				 const char *call, int peer, int id, int cmp)
{
	int err = ori_check_id(win, g, call, "signal", id, win->signals);

	if (!err)
		err = ori_check_compare(win, g, call, cmp);
	return err ? err : ori_check_peer(win, g, call, peer);
}

/* A call on a signal of all sources. */
ORIEL_DEV_OUT int ori_check_signals(const struct oriel_window_dev *win, struct oriel_group g,
				    const char *call, int id)
{
	int err = ori_check_id(win, g, call, "signal", id, win->signals);

	return err ? err : ori_check_live(win, g, call);
}

#endif
