/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device.h - the device API: what a kernel may do with a window.
 *
 * The same source is C for CPU threads and CUDA for a GPU.  This file is to be read; the
 * bodies are in oriel/device/.
 *
 * Every call is made by all threads of the group `g` with equal arguments, and all of them get
 * the same status: 0, ORIEL_ETIMEDOUT, ORIEL_EABORTED, ORIEL_ENOTCONN, ORIEL_EUNSUPPORTED, or the first
 * failure of the window or its comm.  Self, mapped and queued peers mean the same thing in every call.
 * In a window created with `checked`, ranks, ids and ranges are tested and bad ones get
 * ORIEL_ERANGE or ORIEL_EINVAL, a destroyed window ORIEL_ESTALE; without it they are the caller's duty.
 *
 * Three states of an operation: *posted* when the call returns, *complete* when its source may
 * be written again (ticket, counter, flush), *delivered* when it is visible at the peer (signal,
 * barrier, flush).  A block's operations to one peer are executed there in order, with one exception: where
 * writes may overtake each other (ORIEL_LINK_WRITES_ORDERED is missing, as with a ConnectX, whose fabric may
 * route adaptively, and with EFA) two puts over the same bytes need a fence between them.
 */
#ifndef ORIEL_DEVICE_H
#define ORIEL_DEVICE_H

#include "device/copy.h"
#include "device/group.h"
#include "device/port.h"
#include "device/spin.h"
#include "device/types.h"

/* ---- deadlines ---------------------------------------------------------------------------- */

/*
 * The same group with a deadline of its own, in milliseconds.  Waits for signals, counters,
 * barriers and other blocks, and those of send and recv, that are made with it end with
 * ORIEL_ETIMEDOUT after that time.  0: the comm's.  oriel_wait_local() has a parameter for it.
 *
 *	err = oriel_wait_signal_from(win, oriel_group_within(g, 50), peer, id, ORIEL_GE, 1);
 */
ORIEL_DEV struct oriel_group oriel_group_within(struct oriel_group g, uint32_t timeout_ms);

/* ---- who is who ------------------------------------------------------------------------- */

ORIEL_DEV int oriel_rank(const struct oriel_window_dev *win);
ORIEL_DEV int oriel_nranks(const struct oriel_window_dev *win);
/* ORIEL_PEER_SELF, _MAPPED, _QUEUED, or _NONE for a rank that does not exist. */
ORIEL_DEV int oriel_peer_kind(const struct oriel_window_dev *win, int peer);
/* The other ranks counted 0 .. nranks-2 with self left out, and back. */
ORIEL_DEV int oriel_peer_to_index(const struct oriel_window_dev *win, int peer);
ORIEL_DEV int oriel_index_to_peer(const struct oriel_window_dev *win, int index);
/* Address of a byte of the peer's window buffer, or NULL if it is not self or mapped. */
ORIEL_DEV void *oriel_mapped_address(const struct oriel_window_dev *win, int peer, uint64_t offset);

/* ---- data --------------------------------------------------------------------------------- */

/*
 * Copy `bytes` from (src, src_off) into the peer's window buffer at dst_off.  0 bytes is fine; a source
 * within the destination's bytes is not, unless it is the same place.
 */
ORIEL_DEV int oriel_put(ORI_WIN, int peer, uint64_t dst_off, const struct oriel_source *src,
			uint64_t src_off, uint64_t bytes);
/* ... and then signal: who sees the signal sees the data.  0 bytes still signal. */
ORIEL_DEV int oriel_put_signal(ORI_WIN, int peer, uint64_t dst_off, const struct oriel_source *src,
			       uint64_t src_off, uint64_t bytes, int signal, int op,
			       uint64_t value);
/* ... and count 1 on counter (peer, counter) when the source may be written again. */
ORIEL_DEV int oriel_put_counter(ORI_WIN, int peer, uint64_t dst_off, const struct oriel_source *src,
				uint64_t src_off, uint64_t bytes, int counter);
ORIEL_DEV int oriel_put_signal_counter(ORI_WIN, int peer, uint64_t dst_off,
				       const struct oriel_source *src, uint64_t src_off,
				       uint64_t bytes, int signal, int op, uint64_t value,
				       int counter);
/* 1 to 28 bytes given by value; the leader's are taken. */
ORIEL_DEV int oriel_put_value(ORI_WIN, int peer, uint64_t dst_off, const void *value,
			      uint64_t bytes);
/* Copy from the peer's window buffer; on return the group may read the data. */
ORIEL_DEV int oriel_get(ORI_WIN, int peer, uint64_t src_off, const struct oriel_source *dst,
			uint64_t dst_off, uint64_t bytes);
/* ... complete only at flush or wait_local. */
ORIEL_DEV int oriel_get_nbi(ORI_WIN, int peer, uint64_t src_off, const struct oriel_source *dst,
			    uint64_t dst_off, uint64_t bytes);
/* 1 to 28 bytes into every thread's `out`. */
ORIEL_DEV int oriel_get_value(ORI_WIN, int peer, uint64_t src_off, void *out, uint64_t bytes);

/* ---- atomics: 8-byte aligned words of the peer's window buffer; `old` may be NULL ----------- */

/*
 * Atomic among operations that reach the word by one transport: those of mapped peers and of its own rank,
 * or those of queued peers, which all go through the first NIC of the word's rank.  Not against the other
 * transport, nor against plain stores.
 * ORIEL_EUNSUPPORTED, on all threads, where the NIC of a queued
 * peer has no atomics, or the GPU of a mapped peer none with this rank's (over PCIe; oriel_comm_peer_reason says
 * so).  Signals work there.
 */
ORIEL_DEV int oriel_fetch_add(ORI_WIN, int peer, uint64_t offset, uint64_t value, uint64_t *old);
ORIEL_DEV int oriel_swap(ORI_WIN, int peer, uint64_t offset, uint64_t value, uint64_t *old);
ORIEL_DEV int oriel_compare_swap(ORI_WIN, int peer, uint64_t offset, uint64_t expected,
				 uint64_t value, uint64_t *old);

/* ---- signals: one 64-bit word at the receiver per (source, id) --------------------------- */

/* After all earlier operations of the block to that peer. op: ORIEL_ADD or ORIEL_SET, not both. */
ORIEL_DEV int oriel_signal(ORI_WIN, int peer, int id, int op, uint64_t value);
/* To every rank but this one. */
ORIEL_DEV int oriel_signal_all(ORI_WIN, int id, int op, uint64_t value);
/* Until the word of `peer` compares; a deadline fails this call only. */
ORIEL_DEV int oriel_wait_signal_from(ORI_WIN, int peer, int id, int cmp, uint64_t value);
/* Until the sum over all sources (self too) is at least `value`; for ORIEL_ADD. */
ORIEL_DEV int oriel_wait_signal(ORI_WIN, int id, uint64_t value);
/* Non-blocking, acquire; one thread may call these alone. */
ORIEL_DEV uint64_t oriel_read_signal(const struct oriel_window_dev *win, int id);
ORIEL_DEV uint64_t oriel_read_signal_from(const struct oriel_window_dev *win, int peer, int id);
/*
 * Receiver's side: later reads and waits of `id` count from what has arrived by now.  No word is
 * stored to, so a signal in flight is not lost.  Not for ORIEL_SET: there the source sets 0.
 * One group at a time resets or advances an id.
 */
ORIEL_DEV int oriel_reset_signal(ORI_WIN, int id);
/* Moves the start by `value` instead: a captured graph can wait for "one more" for ever. */
ORIEL_DEV int oriel_signal_advance(ORI_WIN, int id, uint64_t value);
ORIEL_DEV int oriel_signal_advance_from(ORI_WIN, int peer, int id, uint64_t value);

/* ---- counters: completions of this rank's operations, per (peer, id) ------------------------- */

ORIEL_DEV int oriel_wait_counter(ORI_WIN, int peer, int id, int cmp, uint64_t value);
/* Until the sum over all peers is at least `value`. */
ORIEL_DEV int oriel_wait_counter_all(ORI_WIN, int id, uint64_t value);
ORIEL_DEV uint64_t oriel_read_counter(const struct oriel_window_dev *win, int peer, int id);
ORIEL_DEV int oriel_reset_counter(ORI_WIN, int peer, int id);

/* ---- completion and order -------------------------------------------------------------------- */

/* Later operations of the block to `peer` take effect after its earlier ones, gets included. */
ORIEL_DEV int oriel_fence(ORI_WIN, int peer);
/* The block's operations to `peer` (to all peers) are complete and delivered. */
ORIEL_DEV int oriel_flush(ORI_WIN, int peer);
ORIEL_DEV int oriel_flush_all(ORI_WIN);
/* Names all the block has posted to `peer` so far; wait_local waits until that is complete. */
ORIEL_DEV int oriel_take_ticket(ORI_WIN, int peer, struct oriel_ticket *ticket);
ORIEL_DEV int oriel_wait_local(ORI_WIN, const struct oriel_ticket *ticket, uint64_t timeout_ns);

/* ---- barriers: one group of a rank at a time per id ------------------------------------------- */

/*
 * barrier_arrive_wait: on leaving, what a peer's calling block had put to me is visible to me.
 * barrier: flush of the block's operations to all peers, then the same; third parties see it too.
 * barrier_peer: the same between two ranks: flush of the block's operations to that peer, then they meet.
 * Ids are independent; many launches on one id, and barrier and barrier_peer on one id, are
 * fine as long as both ends of every pair make the same sequence of calls.
 * A deadline here fails the window.
 */
ORIEL_DEV int oriel_barrier_arrive_wait(ORI_WIN, int id);
ORIEL_DEV int oriel_barrier(ORI_WIN, int id);
ORIEL_DEV int oriel_barrier_arrive(ORI_WIN, int id);
ORIEL_DEV int oriel_barrier_wait(ORI_WIN, int id);
ORIEL_DEV int oriel_barrier_peer(ORI_WIN, int peer, int id);
/*
 * All blocks of this launch meet, on this rank alone: what any thread of the launch wrote before is
 * visible to all threads of it after.  `g` is a whole block.  id: one of the barriers' ids; two
 * launches that run at once need different ones.  Launches and graphs need no reset between them.
 * A block that returns without coming leaves the others to their deadline, which fails the window.
 */
ORIEL_DEV int oriel_grid_sync(const struct oriel_window_dev *win, struct oriel_group g, int id);

/* ---- staged send and receive (window option `staging`) ----------------------------------------- */

/*
 * A message of `bytes` on one of the window's channels.  Both ends name the same channel and
 * size (0 is a message too); one group at a time uses a (peer, channel, direction).  A deadline or a size that does
 * not match fails the window.
 */
ORIEL_DEV int oriel_send(ORI_WIN, int peer, int channel, const void *src, uint64_t bytes);
ORIEL_DEV int oriel_recv(ORI_WIN, int peer, int channel, void *dst, uint64_t bytes);

#include "device/mapped.h"
#include "device/window.h"
#include "device/signal.h"
#include "device/counter.h"
#include "device/barrier.h"
#include "device/grid.h"
#include "device/atomic.h"
#include "device/staged.h"
#include "device/transport.h"

#endif
