/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/handle.h - access to a handle: the peer's entry, the context of waits, the lane of a
 * block, and the first failure.
 *
 * It reads the handles of types.h and the words behind them.  It moves no data, posts nothing and
 * never waits.  Both halves of the transport layer (mapped.h, queued.h) and the window use it.
 */
#ifndef ORIEL_DEVICE_HANDLE_H
#define ORIEL_DEVICE_HANDLE_H

#include "spin.h"

/* ---- the context of an operation ------------------------------------------------------------- */

/* The context of an operation's waits: a comm, and a window or none. */
struct ori_op_context {
	const struct oriel_comm_dev *comm;
	const uint64_t *window_failure; /* NULL: no window */
	int32_t window;                 /* its number, for reports; -1: none */
	int32_t call;                   /* ORIEL_CALL_*, for reports; 0: none */
	uint64_t timeout_ns;
};

ORIEL_DEV struct ori_op_context ori_comm_context(const struct oriel_comm_dev *comm)
{
	struct ori_op_context context;

	context.comm = comm;
	context.window_failure = NULL;
	context.window = -1;
	context.call = 0;
	context.timeout_ns = comm->timeout_ns;
	return context;
}

/* The deadline of the group's own, if it has one; not for waits that hold a slot of a queue. */
ORIEL_DEV void ori_context_within(struct ori_op_context *context, struct oriel_group g)
{
	if (g.timeout_ms)
		context->timeout_ns = (uint64_t)g.timeout_ms * 1000000u;
}

ORIEL_DEV struct ori_op_context ori_window_context(const struct oriel_window_dev *win)
{
	struct ori_op_context context;

	context.comm = &win->comm;
	context.window_failure = win->failure;
	context.window = win->number;
	context.call = 0;
	context.timeout_ns = win->comm.timeout_ns;
	return context;
}

/* The same for the waits of one call, which reports name. */
ORIEL_DEV struct ori_op_context ori_call_context(const struct oriel_window_dev *win, int call)
{
	struct ori_op_context context = ori_window_context(win);

	context.call = call;
	return context;
}

/* A block's operations to a peer use one lane, so they are executed in order. */
ORIEL_DEV uint32_t ori_lane_of(const struct oriel_link *link, struct oriel_group g)
{
	return g.block % link->nlanes;
}

/* ---- failures -------------------------------------------------------------------------------- */

/* A barrier of the group.  All threads get the first failure as the leader saw it. */
ORIEL_DEV int ori_agree_failure(const struct oriel_comm_dev *comm, const uint64_t *window_failure,
				struct oriel_group g)
{
	struct ori_failures look = { 0, 0 };

	if (oriel_group_is_leader(g))
		look = ori_failures_load(comm, window_failure);
	return ori_group_agree_failures(g, look);
}

ORIEL_DEV int ori_agree_window(const struct oriel_window_dev *win, struct oriel_group g)
{
	return ori_agree_failure(&win->comm, win->failure, g);
}

/* As ori_failures_load(); a window always has its failure word. */
ORIEL_DEV struct ori_failures ori_failures_of_window(const struct oriel_window_dev *win)
{
	struct ori_failures look;

	look.window = ori_load_relaxed_sys(win->failure);
	look.comm = ori_load_relaxed_sys(win->comm.failure);
	return look;
}

/*
 * Called by one thread: tells a mapped peer that its window has failed.  Keeps the first failure of
 * the peer.
 */
ORIEL_DEV_OUT void ori_tell_failure(const struct oriel_window_peer *p, uint64_t failure)
{
	/* No partner for either: readers load a failure word relaxed. */
	if (!(p->flags & ORIEL_PEER_NO_ATOMICS))
		ori_compare_swap_acq_rel_sys(p->failure, 0, failure);
	else if (!ori_load_relaxed_sys(p->failure)) /* of two at once either may stay */
		ori_store_release_sys(p->failure, failure);
	ori_wake(p->waiters);
}

/* Does the window test the arguments of its calls?  See also trace.h. */
ORIEL_DEV int ori_window_is_checked(const struct oriel_window_dev *win)
{
	return win->checked & ORIEL_WINDOW_CHECKED;
}

/* Does a call go through a function beside its fast path?  For traces only on a CPU (trace.h). */
ORIEL_DEV int ori_window_goes_beside(const struct oriel_window_dev *win)
{
	return ORI_TRACES_BESIDE ? win->checked : ori_window_is_checked(win);
}

/* Must a call do more than its work?  Code that cannot write traces does not ask for them. */
ORIEL_DEV int ori_window_is_watched(const struct oriel_window_dev *win)
{
	return ORIEL_TRACES ? win->checked : ori_window_is_checked(win);
}

/* ---- a peer's entry -------------------------------------------------------------------------- */

ORIEL_DEV const struct oriel_window_peer *ori_peer_entry(const struct oriel_window_dev *win,
							 int peer)
{
	return peer < ORIEL_INLINE_PEERS ? &win->inline_peers[peer] : &win->peers[peer];
}

/*
 * The same by value, for the fast paths.  A kernel's argument stays in the constant bank unless an
 * address in it is taken.  A pointer that may point there or to memory makes each member a load
 * through the caches.  Every acquire empties these: 0.3 us per load, one after the other.
 */
ORIEL_DEV struct oriel_window_peer ori_window_entry(const struct oriel_window_dev *win, int peer)
{
	if (ORIEL_ON_GPU && peer < ORIEL_INLINE_PEERS)
		return win->inline_peers[peer];
	return ORIEL_ON_GPU ? win->peers[peer] : *ori_peer_entry(win, peer);
}

ORIEL_DEV int ori_peer_is_mapped(const struct oriel_window_peer *p)
{
	return p->kind == ORIEL_PEER_SELF || p->kind == ORIEL_PEER_MAPPED;
}

/* Mapped and with atomics: the usual peer, which takes the fast path in every call. */
ORIEL_DEV int ori_peer_is_plain(const struct oriel_window_peer *p)
{
	return ori_peer_is_mapped(p) && !p->flags;
}

ORIEL_DEV_OUT int ori_peer_is_queued(const struct oriel_window_dev *win, int peer)
{
	return !ori_peer_is_mapped(ori_peer_entry(win, peer));
}

/* ---- this rank's words of a peer ------------------------------------------------------------- */

/*
 * Does an engine write this peer's words in this rank's control memory?  In a window without queued
 * peers the answer is no, without a look at the table.
 */
ORIEL_DEV int ori_words_are_host(const struct oriel_window_dev *win, int peer)
{
	return win->queued_peers && ori_peer_is_queued(win, peer);
}

/*
 * The words of a peer in this rank's control memory.  An engine writes the words of a queued
 * peer, so these lie in the host's half (comm.host_shift).  All others lie in the device's half.
 */
ORIEL_DEV uint64_t *ori_words_of(const struct oriel_window_dev *win, int peer, uint64_t *words)
{
	return ori_words_are_host(win, peer) ? (uint64_t *)ori_host_half(&win->comm, words) : words;
}

/*
 * A queued peer's adds come through several NICs, and each NIC is atomic only with itself.  So a
 * queued peer has one word per NIC (win->word_nics); any other peer has one word.  These functions
 * return the distance, in words, from the rows of one NIC to those of the next.
 */
ORIEL_DEV uint64_t ori_signal_plane(const struct oriel_window_dev *win)
{
	return (uint64_t)(uint32_t)win->comm.nranks * win->signal_stride;
}

ORIEL_DEV uint64_t ori_arrival_plane(const struct oriel_window_dev *win)
{
	return (uint64_t)(uint32_t)win->comm.nranks * win->barrier_stride;
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

/* ---- bodies of device.h: ranks and peers ----------------------------------------------------- */

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

/* ---- the arguments of a put or a get --------------------------------------------------------- */

/*
 * Passed by value.  Inlined functions take it apart again, and a call that is not inlined builds it
 * only on its own path.  A pointer to it would force it into memory on every path.
 */
struct ori_transfer {
	int32_t peer;
	int32_t signal;  /* id, or -1: none */
	int32_t op;      /* ORIEL_ADD or ORIEL_SET */
	int32_t counter; /* id, or -1: none */
	uint64_t offset; /* in the peer's window buffer */
	const struct oriel_source *local;
	uint64_t local_off;
	uint64_t bytes;
	/* the bytes of a put by value, else NULL; then `local` is NULL */
	const void *value;
	uint64_t signal_value;
};

ORIEL_DEV struct ori_transfer ori_transfer_of(int peer, uint64_t offset,
					      const struct oriel_source *local, uint64_t local_off,
					      uint64_t bytes)
{
	struct ori_transfer t;

	t.peer = peer;
	t.signal = -1;
	t.op = 0;
	t.counter = -1;
	t.offset = offset;
	t.local = local;
	t.local_off = local_off;
	t.bytes = bytes;
	t.value = NULL;
	t.signal_value = 0;
	return t;
}

/* The same with a signal. */
ORIEL_DEV struct ori_transfer ori_transfer_signal(struct ori_transfer t, int signal, int op,
						  uint64_t value)
{
	t.signal = signal;
	t.op = op;
	t.signal_value = value;
	return t;
}

/*
 * For calls that are not inlined: a copy made member by member.  GCC then keeps the original in
 * registers and builds the copy only on the path of that call.  This saves 6 to 11 instructions per
 * put.
 */
ORIEL_DEV struct ori_transfer ori_transfer_out(struct ori_transfer t)
{
	struct ori_transfer out;

	out = ori_transfer_of(t.peer, t.offset, t.local, t.local_off, t.bytes);
	out = ori_transfer_signal(out, t.signal, t.op, t.signal_value);
	out.counter = t.counter;
	out.value = t.value;
	return out;
}

ORIEL_DEV const uint8_t *ori_transfer_local(struct ori_transfer t)
{
	return (const uint8_t *)(uintptr_t)t.local->address + t.local_off;
}

#endif
