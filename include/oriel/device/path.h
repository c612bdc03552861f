/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/path.h - bodies of device.h: puts with a signal to one peer, again and again.
 *
 * A put that stands alone finds out each time who the peer is and where its words are.  On a GPU
 * that takes a third as long as the way to the peer.  A path finds it out once, and a thread keeps
 * it in registers.  What is unusual is done by the ordinary calls: other peers than mapped ones
 * with atomics, watched windows, failures, waits that are long.  There is one such call in each
 * function, at its end: what must survive a call would lie on the stack.
 */
#ifndef ORIEL_DEVICE_PATH_H
#define ORIEL_DEVICE_PATH_H

#include "signal.h"

/* One thread's copy of a path.  The members belong to the calls. */
struct oriel_path {
	const struct oriel_window_dev *win;
	const struct oriel_source *source;
	uint8_t *to;         /* the peer's buffer; NULL: the ordinary calls are used */
	const uint8_t *from; /* the source */
	uint64_t *there;     /* the signal at the peer */
	const uint64_t *here, *base;
	struct oriel_waiters *waiters;
	int32_t peer, signal;
};

#define ORI_PATH_POLLS (ORIEL_ON_GPU ? 512u : 64u)

ORIEL_DEV int oriel_path_open(struct oriel_path *path, const struct oriel_window_dev *win,
			      struct oriel_group g, int peer, const struct oriel_source *src,
			      int signal)
{
	struct oriel_window_peer p;
	uint64_t i;

	(void)g;
	memset(path, 0, sizeof(*path));
	path->win = win;
	path->source = src;
	path->peer = peer;
	path->signal = signal;
	if (peer < 0 || peer >= win->comm.nranks || signal < 0 || (uint32_t)signal >= win->signals)
		return ORIEL_ERANGE;
	p = ori_window_entry(win, peer);
	if (!ori_peer_is_plain(&p) || ori_window_is_watched(win))
		return 0;
	i = ori_signal_index(win, peer, signal);
	path->to = p.buffer;
	path->from = src ? (const uint8_t *)(uintptr_t)src->address : NULL;
	path->there = ori_release_at(&p.signals[signal]);
	path->here = &win->signal_words[i];
	path->base = &win->signal_base[i];
	path->waiters = p.waiters;
	return 0;
}

/* ---- put ------------------------------------------------------------------------------------- */

ORIEL_DEV_OUT int ori_path_put_call(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				    ORI_VALUE(ori_transfer) t)
{
	return oriel_put_signal(win, g, t.peer, t.offset, t.local, t.local_off, t.bytes, t.signal,
				t.op, t.signal_value);
}

/* Can the data be moved without a call?  Then it has been. */
ORIEL_DEV int ori_path_move(struct oriel_group g, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
#if ORIEL_ON_GPU
	uint32_t bits = (uint32_t)(uintptr_t)to | (uint32_t)(uintptr_t)from | (uint32_t)bytes;
	struct ori_early early;

	/* few bytes: the first warp, so that the meeting does not wait for the slowest of all */
	if (g.scope == ORIEL_GROUP_BLOCK && bytes < 64 && g.size > 32u) {
		if (g.thread >= 32u)
			return 1;
		g.size = 32u;
	}
	early = ori_copy_early(g, (uint64_t)(uintptr_t)from, bytes);
	if (ori_copy_late(g, early, to, bytes))
		return 1;
	if (bits & 15u)
		return 0;
	ori_copy_chunks(g, to, from, bytes / 16u);
	return 1;
#else
	ori_group_copy(g, to, from, bytes);
	return 1;
#endif
}

ORIEL_DEV int oriel_path_put_signal(struct oriel_path *path, struct oriel_group g, uint64_t dst_off,
				    uint64_t src_off, uint64_t bytes, int op, uint64_t value)
{
	struct ori_failures look = { 0, 0 };
	struct ori_transfer t;
	int odd = !path->to;

	if (!odd) {
		if (oriel_group_is_leader(g))
			look = ori_failures_of_window(path->win);
		odd = bytes && !ori_path_move(g, path->to + dst_off, path->from + src_off, bytes);
		/* One thread: [SIG1] begins before the failure words are used, see mapped.h. */
		if (g.scope == ORIEL_GROUP_THREAD)
			ori_release_begin();
		odd = ori_group_any(g, odd | ori_failures_any(look));
	}
	if (!odd && oriel_group_is_leader(g)) {
		/*
		 * [SIG1] release, system scope; partners [SIG2] and [SIG3].  Publishes the bytes
		 * that all threads of the group copied before they met [GROUP1].
		 */
		if (g.scope != ORIEL_GROUP_THREAD)
			ori_release_begin();
		ori_publish(path->there, op,
			    op == ORIEL_SET ? path->win->first_count + value : value,
			    path->waiters);
	}
	if (!odd)
		return 0;
	t = ori_transfer_of(path->peer, dst_off, path->source, src_off, bytes);
	t = ori_transfer_signal(t, path->signal, op, value);
	return ORI_RARE(ori_path_put_call)(path->win, g, ori_transfer_out(t));
}

/* ---- wait ------------------------------------------------------------------------------------ */

ORIEL_DEV_OUT int ori_path_wait_call(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				     int peer, int signal, uint64_t value)
{
	return oriel_wait_signal_from(win, g, peer, signal, ORIEL_GE, value);
}

ORIEL_DEV int oriel_path_wait(struct oriel_path *path, struct oriel_group g, uint64_t value)
{
	uint32_t polls = ORI_PATH_POLLS;
	struct ori_failures look;
	int odd = !path->to;
	uint64_t base;

	if (!odd && oriel_group_is_leader(g)) {
		/* loaded together with the first poll */
		look = ori_failures_of_window(path->win);
		base = ori_load_relaxed_sys(path->base);
		ORI_ROLLED
		do
			odd = ori_poll_sys(path->here) - base < value;
		while (odd && --polls);
		/* [SIG2] acquire, system scope, with the polls; partner [SIG1]. */
		ori_poll_end();
		odd |= ori_failures_any(look);
	}
	if (!ori_group_any(g, odd))
		return 0;
	return ORI_RARE(ori_path_wait_call)(path->win, g, path->peer, path->signal, value);
}

#endif
