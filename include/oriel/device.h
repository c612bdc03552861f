/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device.h - the device API: what a kernel may do with a window.
 *
 * The same source is C for CPU threads and CUDA for a GPU.  This file is the reference of the
 * calls; their bodies are in oriel/device/.
 *
 * All threads of the group `g` make every call, with equal arguments.  All of them get the same
 * status: 0, ORIEL_ETIMEDOUT, ORIEL_EABORTED, ORIEL_ENOTCONN, ORIEL_EUNSUPPORTED, or the first
 * failure of the window or its comm.  A call means the same for this rank, mapped peers and queued
 * peers.
 *
 * A window created with `checked` tests ranks, ids and ranges, and returns ORIEL_ERANGE or
 * ORIEL_EINVAL for bad ones.  It returns ORIEL_ESTALE if it was destroyed.  Without `checked` the
 * caller must pass valid arguments.
 *
 * An operation has three states.  It is *posted* when the call returns.  It is *complete* when its
 * source may be written again (ticket, counter, flush).  It is *delivered* when it is visible at
 * the peer (signal, barrier, flush).  Delivered does not imply complete: a NIC may read the source
 * again.  The end of a kernel completes nothing: flush first if the host or a later kernel writes
 * the source.  docs/rules.md has these rules with examples.
 *
 * A kernel is written with ORIEL_KERNEL (device/port.h) and launched with oriel_launch():
 *
 *	struct args { struct oriel_window_dev win; };
 *
 *	ORIEL_KERNEL(meet, struct args)		// `a` points to the arguments, which are constant
 *	{
 *		return oriel_barrier(&a->win, oriel_group_block(), 0);
 *	}
 *
 * Device functions of your own are marked with ORIEL_DEV.
 *
 * The peer executes a block's operations in order, with one exception.  On links without
 * ORIEL_LINK_WRITES_ORDERED, writes may overtake each other: EFA, and a ConnectX whose fabric may
 * route adaptively.  There, two puts over the same bytes need a fence between them.
 */
#ifndef ORIEL_DEVICE_H
#define ORIEL_DEVICE_H

#include "device/port.h"
#include "device/types.h"

/* ---- groups: the threads that make a call together ------------------------------------------- */

/*
 * oriel_group_thread makes a group of this thread alone; oriel_group_warp makes a group of the
 * threads of a warp; oriel_group_block makes a group of all threads of a block.  They work at any
 * point of a kernel.  Every thread of the group must take part in each call that the group makes.
 * On the CPU a block has 1 to 32 threads and is one warp.
 */
ORIEL_DEV struct oriel_group oriel_group_thread(void);
ORIEL_DEV struct oriel_group oriel_group_warp(void);
ORIEL_DEV struct oriel_group oriel_group_block(void);
/*
 * Tells if this thread is the first one of its group: 1 or 0.  g.thread is its index among the
 * g.size threads of the group.  g.block is the index of its block among the g.nblocks blocks of the
 * launch.
 */
ORIEL_DEV int oriel_group_is_leader(struct oriel_group g);
/*
 * Barrier of the group's threads on this device.  After it, every thread sees what any of them
 * wrote before it.  Peers do not take part.  Returns 0, or ORIEL_EABORTED (CPU) if a thread never
 * arrived.
 */
ORIEL_DEV int oriel_group_sync(struct oriel_group g);
/*
 * Gives the same group with its own deadline.  It is in milliseconds; 0 is the comm's deadline.
 * The deadline applies to waits that use the returned group: words, signals, counters, barriers,
 * grid_sync, send, recv and packets.  They return ORIEL_ETIMEDOUT after that time.
 * oriel_wait_local has a parameter for this instead.
 *
 *	err = oriel_wait_signal_from(win, oriel_group_within(g, 50), peer, id, ORIEL_GE, 1);
 */
ORIEL_DEV struct oriel_group oriel_group_within(struct oriel_group g, uint32_t timeout_ms);

/* ---- ranks, peers and addresses -------------------------------------------------------------- */

/* This rank's number. */
ORIEL_DEV int oriel_rank(const struct oriel_window_dev *win);
/* How many ranks the window has. */
ORIEL_DEV int oriel_nranks(const struct oriel_window_dev *win);
/*
 * How a peer is reached: ORIEL_PEER_SELF, _MAPPED, _QUEUED, or _NONE for a rank that does not
 * exist.
 */
ORIEL_DEV int oriel_peer_kind(const struct oriel_window_dev *win, int peer);
/*
 * oriel_peer_to_index gives the index of a rank among the other ranks; oriel_index_to_peer gives
 * the rank of an index among the other ranks.  Indices are 0 .. nranks-2.  A loop over the index
 * visits every rank except this one.
 */
ORIEL_DEV int oriel_peer_to_index(const struct oriel_window_dev *win, int peer);
ORIEL_DEV int oriel_index_to_peer(const struct oriel_window_dev *win, int index);
/*
 * The address of a byte of the peer's window buffer.  NULL if the peer is neither this rank nor
 * mapped.
 *
 * A kernel reads and writes its own window buffer with plain loads and stores: win->buffer is its
 * first byte and win->bytes its size.  It may read data that a peer has put there after a wait or
 * barrier confirms the delivery.
 */
ORIEL_DEV void *oriel_mapped_address(const struct oriel_window_dev *win, int peer, uint64_t offset);

/* ---- data ------------------------------------------------------------------------------------ */

/*
 * Puts data into the peer's window buffer.  Copies `bytes` from (src, src_off) to dst_off there.
 * `bytes` may be 0.  Source and destination must not overlap, unless they are the same place.  Any
 * alignment works.  The source must not be written before the put is complete.  A put does not
 * begin with a meeting of the group: if other threads of the group wrote the source, call
 * oriel_group_sync(g) before it.
 */
ORIEL_DEV int oriel_put(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			uint64_t dst_off, const struct oriel_source *src, uint64_t src_off,
			uint64_t bytes);
/*
 * Puts data, then signals the peer.  This is oriel_put(), then oriel_signal() with the id `signal`:
 * the peer's word (this rank, signal) grows by `value` if `op` is ORIEL_ADD, or becomes `value` if
 * it is ORIEL_SET.  A thread of the peer that sees the signal also sees the data.  0 bytes still
 * signal.
 */
ORIEL_DEV int oriel_put_signal(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			       uint64_t dst_off, const struct oriel_source *src, uint64_t src_off,
			       uint64_t bytes, int signal, int op, uint64_t value);
/*
 * Puts data and counts the put when it is complete.  This is oriel_put(); counter (peer, counter)
 * of this rank grows by 1 when the put is complete.  Wait for it with oriel_wait_counter() before
 * you write the source again.
 */
ORIEL_DEV int oriel_put_counter(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				uint64_t dst_off, const struct oriel_source *src, uint64_t src_off,
				uint64_t bytes, int counter);
/*
 * Puts data, signals the peer and counts the put.  This is oriel_put_signal(); counter (peer,
 * counter) of this rank grows by 1 when the source may be written again.
 */
ORIEL_DEV int oriel_put_signal_counter(const struct oriel_window_dev *win, struct oriel_group g,
				       int peer, uint64_t dst_off, const struct oriel_source *src,
				       uint64_t src_off, uint64_t bytes, int signal, int op,
				       uint64_t value, int counter);
/*
 * Puts 1 to 28 bytes given by value.  The leader's bytes are used.  `value` may be written again on
 * return.  No source needs to be registered.
 */
ORIEL_DEV int oriel_put_value(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			      uint64_t dst_off, const void *value, uint64_t bytes);
/*
 * Gets data of the peer's window buffer.  Copies `bytes` from src_off there to (dst, dst_off).  On
 * return all threads of the group may read the data.
 */
ORIEL_DEV int oriel_get(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			uint64_t src_off, const struct oriel_source *dst, uint64_t dst_off,
			uint64_t bytes);
/*
 * Gets data without waiting for it.  This is oriel_get(), but the data may be read only after
 * oriel_flush() or oriel_wait_local().
 */
ORIEL_DEV int oriel_get_nbi(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			    uint64_t src_off, const struct oriel_source *dst, uint64_t dst_off,
			    uint64_t bytes);
/*
 * Gets 1 to 28 bytes into every thread's own `out`.  They are from the peer's window buffer.  All
 * threads get the same bytes, also while the peer writes there.
 */
ORIEL_DEV int oriel_get_value(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			      uint64_t src_off, void *out, uint64_t bytes);

/* ---- atomics: 8-byte aligned words of the peer's window buffer ------------------------------- */

/*
 * oriel_fetch_add adds `value` to a word of the peer's window buffer.  oriel_swap stores `value` in
 * a word of the peer's window buffer.  oriel_compare_swap stores `value` in a word of the peer's
 * window buffer if it has `expected`.
 *
 * The group makes one atomic.  Every thread gets the previous value of the word in *old, which may
 * be NULL.  A rank whose atomic sees the new value also sees what the group wrote before.
 *
 * An atomic is atomic only among operations that reach the word by the same transport.  There are
 * two.  Mapped peers and the word's own rank use the first.  Queued peers use the second: all their
 * atomics go through the first NIC of the word's rank.  Plain stores are not atomic with either.
 *
 * ORIEL_EUNSUPPORTED, on all threads, if the NIC of a queued peer has no atomics, or if this GPU
 * has none on the GPU of a mapped peer (over PCIe; see oriel_comm_peer_reason).  Signals work
 * there.
 */
ORIEL_DEV int oriel_fetch_add(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			      uint64_t offset, uint64_t value, uint64_t *old);
ORIEL_DEV int oriel_swap(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			 uint64_t offset, uint64_t value, uint64_t *old);
ORIEL_DEV int oriel_compare_swap(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				 uint64_t offset, uint64_t expected, uint64_t value, uint64_t *old);

/*
 * Makes an atomic on an element of any type in the peer's window buffer.  The element has 1 to 8
 * bytes and is aligned to its size.  `type` is an integer, ORIEL_TYPE_INT8 to _UINT64,
 * ORIEL_TYPE_FLOAT or ORIEL_TYPE_DOUBLE.  `op` is ORIEL_ATOMIC_FETCH, _SET, _SWAP, _COMPARE_SWAP,
 * _ADD, or for integers _AND, _OR, _XOR.  Sums of integers wrap.  `expected` and `value` hold the
 * bits of the element in their low bits; upper bits are ignored.  compare_swap compares bits.
 * *old, which may be NULL, gets the previous bits, with the sign of signed integers extended.
 * Order, transports and refusals are those of the calls above.  The atomic also wakes a wait of a
 * mapped peer for the word.
 *
 * A NIC has atomics of 8 bytes only.  So the atomic of a queued peer on a shorter element works on
 * the 8 aligned bytes that hold it.  All of them must lie in the window, else ORIEL_EINVAL in a
 * checked window.  It writes all of them back, also for ORIEL_ATOMIC_FETCH, which adds 0 there.  So
 * no rank may change any of these bytes by another transport or a plain store at the same time.
 */
ORIEL_DEV int oriel_atomic(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			   uint64_t offset, int type, int op, uint64_t expected, uint64_t value,
			   uint64_t *old);

/* ---- words of this rank's own window buffer -------------------------------------------------- */

/*
 * Waits until an integer of this rank's own window buffer compares.  That is: until "the integer at
 * `offset` <cmp> value" is true; cmp is ORIEL_EQ, _NE, _GT, _GE, _LT or _LE.  The integer has the
 * size and the sign of `type` (ORIEL_TYPE_INT8 to _UINT64) and is aligned to its size.  Unlike
 * counts of signals, two values are never further apart than their type allows: INT64_MIN is the
 * smallest.  A passed deadline fails only this call.
 *
 * Any rank may write the word: by oriel_put_value(), a put of its bytes, an atomic, or (mapped
 * peers) a store.  The group sees what that rank wrote before, if the write was an atomic, or if a
 * fence or flush came before it.  A wait may sleep for up to 1 ms on the CPU: a mapped peer that
 * only stores calls oriel_wake() after it.
 */
ORIEL_DEV int oriel_wait_word(const struct oriel_window_dev *win, struct oriel_group g,
			      uint64_t offset, int type, int cmp, uint64_t value);
/*
 * Waits until one of several words compares, and gives its index.  All threads get it.  The search
 * begins with word `first`, so that a caller can be fair.  If no word is left (count is 0, or all
 * are skipped), *index is words->count at once.
 */
ORIEL_DEV int oriel_wait_any_word(const struct oriel_window_dev *win, struct oriel_group g,
				  const struct oriel_words *words, uint64_t first, uint64_t *index);
/*
 * Finds a word that compares now, without waiting.  Returns the index of the first such word, from
 * `first` on, or words->count.  The call does not wait, and one thread may make it alone.
 */
ORIEL_DEV uint64_t oriel_find_word(const struct oriel_window_dev *win,
				   const struct oriel_words *words, uint64_t first);
/* Reads a word of this rank's buffer, with its sign extended.  One thread may call it alone. */
ORIEL_DEV uint64_t oriel_read_word(const struct oriel_window_dev *win, uint64_t offset, int type);
/*
 * Wakes waits of `peer` that sleep on the CPU.  One thread calls it after its stores into the
 * peer's window.  It costs a load if nobody sleeps.  Puts to queued peers, atomics and signals wake
 * by themselves.  A wake is a hint: a wait that misses it finds the word after at most 1 ms.
 */
ORIEL_DEV void oriel_wake(const struct oriel_window_dev *win, int peer);

/* ---- signals: one 64-bit word at the receiver per (source, id) ------------------------------- */

/*
 * Signals a peer: adds to a word there, or sets it.  The peer's word (this rank, id) grows by
 * `value` (ORIEL_ADD) or becomes `value` (ORIEL_SET).  An id uses one of the two, never both.  The
 * signal is delivered after all earlier operations of the block to that peer.
 */
ORIEL_DEV int oriel_signal(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			   int id, int op, uint64_t value);
/*
 * Signals every rank except this one.  ORIEL_ENOTCONN, and no signal at all, if a rank is
 * unreachable.
 */
ORIEL_DEV int oriel_signal_all(const struct oriel_window_dev *win, struct oriel_group g, int id,
			       int op, uint64_t value);
/*
 * Waits for a signal of one rank.  That is: until "the word of (peer, id) <cmp> value" is true; cmp
 * is ORIEL_EQ, _NE, _GT, _GE, _LT or _LE.  The signal does not change.  Then the group sees
 * everything that the peer wrote before it signalled.  A passed deadline fails only this call.
 */
ORIEL_DEV int oriel_wait_signal_from(const struct oriel_window_dev *win, struct oriel_group g,
				     int peer, int id, int cmp, uint64_t value);
/*
 * Waits for the signals of all ranks together.  That is: until the sum of id over all sources, this
 * rank included, is at least `value`.  For ids that use ORIEL_ADD.  A passed deadline fails only
 * this call.
 */
ORIEL_DEV int oriel_wait_signal(const struct oriel_window_dev *win, struct oriel_group g, int id,
				uint64_t value);
/*
 * oriel_read_signal gives the current sum of a signal over all ranks; oriel_read_signal_from gives
 * the current signal of one rank.  They do not wait, and one thread may call them alone.  That
 * thread sees what the sources wrote before they signalled.
 */
ORIEL_DEV uint64_t oriel_read_signal(const struct oriel_window_dev *win, int id);
ORIEL_DEV uint64_t oriel_read_signal_from(const struct oriel_window_dev *win, int peer, int id);
/*
 * Lets later reads and waits of `id` count from its present value.  The receiver calls it.  The
 * call stores to no word, so a signal in flight is not lost.  Not for ids that use ORIEL_SET: there
 * the source sets 0.  Only one group at a time may reset or advance an id.
 */
ORIEL_DEV int oriel_reset_signal(const struct oriel_window_dev *win, struct oriel_group g, int id);
/*
 * oriel_signal_advance raises the base of the sum of a signal by `value`; oriel_signal_advance_from
 * raises the base of a signal of one rank by `value`.  Later reads and waits of `id` count from
 * that base.  So a captured graph can wait for "one more" at each launch.
 */
ORIEL_DEV int oriel_signal_advance(const struct oriel_window_dev *win, struct oriel_group g, int id,
				   uint64_t value);
ORIEL_DEV int oriel_signal_advance_from(const struct oriel_window_dev *win, struct oriel_group g,
					int peer, int id, uint64_t value);

/* ---- counters: completions of this rank's operations, per (peer, id) ------------------------- */

/*
 * Waits for a counter of one peer.  That is: until "the counter (peer, id) <cmp> value" is true;
 * cmp is ORIEL_EQ, _NE, _GT, _GE, _LT or _LE.  The counter counts the complete operations of this
 * rank to the peer that named the id.  A passed deadline fails only this call.
 */
ORIEL_DEV int oriel_wait_counter(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				 int id, int cmp, uint64_t value);
/* Waits until the sum of counter `id` over all peers is at least `value`. */
ORIEL_DEV int oriel_wait_counter_all(const struct oriel_window_dev *win, struct oriel_group g,
				     int id, uint64_t value);
/*
 * The current value of a counter.  The call does not wait, and one thread may make it alone.
 * Sources of the counted operations may be written again.
 */
ORIEL_DEV uint64_t oriel_read_counter(const struct oriel_window_dev *win, int peer, int id);
/* Lets later reads and waits of a counter count from its present value.  One group at a time. */
ORIEL_DEV int oriel_reset_counter(const struct oriel_window_dev *win, struct oriel_group g,
				  int peer, int id);

/* ---- completion and order -------------------------------------------------------------------- */

/*
 * Orders the block's operations to `peer`, without waiting.  Later ones take effect after earlier
 * ones, gets included.  The call itself does not wait for them.
 */
ORIEL_DEV int oriel_fence(const struct oriel_window_dev *win, struct oriel_group g, int peer);
/*
 * oriel_flush waits until the block's operations to `peer` are complete and delivered;
 * oriel_flush_all waits until the block's operations to all peers are complete and delivered.
 * Neither waits for operations of other blocks.
 */
ORIEL_DEV int oriel_flush(const struct oriel_window_dev *win, struct oriel_group g, int peer);
ORIEL_DEV int oriel_flush_all(const struct oriel_window_dev *win, struct oriel_group g);
/*
 * oriel_take_ticket takes a ticket for the operations posted to `peer` so far.  They are those of
 * the block.  oriel_wait_local waits until the operations of a ticket are complete.  Then their
 * sources may be written, and gets have arrived.  timeout_ns 0 is the comm's deadline.
 */
ORIEL_DEV int oriel_take_ticket(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				struct oriel_ticket *ticket);
ORIEL_DEV int oriel_wait_local(const struct oriel_window_dev *win, struct oriel_group g,
			       const struct oriel_ticket *ticket, uint64_t timeout_ns);

/* ---- barriers: per id, one group of a rank at a time ----------------------------------------- */

/*
 * One group of every rank calls a barrier with the same id.  Ids are independent.  An id may be
 * used by many launches, and by both barrier and barrier_peer.  Both ranks of every pair must make
 * the same sequence of calls on it.  A deadline that passes here fails the window.
 */

/*
 * Barrier of all ranks that does not flush.  On return, data that a peer's calling block had put to
 * this rank is visible.
 */
ORIEL_DEV int oriel_barrier_arrive_wait(const struct oriel_window_dev *win, struct oriel_group g,
					int id);
/*
 * Barrier of all ranks.  Flushes the block's operations to all peers, then meets all ranks.  On
 * return, data that any calling block had put to any rank is visible there, also to third ranks.
 */
ORIEL_DEV int oriel_barrier(const struct oriel_window_dev *win, struct oriel_group g, int id);
/*
 * oriel_barrier() in two halves, with room for other work between them.  oriel_barrier_arrive
 * flushes and tells all ranks that this one has arrived.  oriel_barrier_wait waits until all ranks
 * have arrived.
 */
ORIEL_DEV int oriel_barrier_arrive(const struct oriel_window_dev *win, struct oriel_group g,
				   int id);
ORIEL_DEV int oriel_barrier_wait(const struct oriel_window_dev *win, struct oriel_group g, int id);
/* Barrier of two ranks.  Flushes the block's operations to `peer`, then meets that peer. */
ORIEL_DEV int oriel_barrier_peer(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				 int id);
/*
 * Barrier of all blocks of this launch, on this rank only.  After it, every thread of the launch
 * sees what any of them wrote before.  `g` is a whole block.  `id` is one of the barriers' ids.
 * Two launches that run at the same time need different ids.  No reset is needed between launches
 * or in graphs.  If a block returns without calling it, the others reach their deadline, which
 * fails the window.
 */
ORIEL_DEV int oriel_grid_sync(const struct oriel_window_dev *win, struct oriel_group g, int id);

/* ---- staged send and receive (window options staging_*) -------------------------------------- */

/*
 * oriel_send sends a message of `bytes` on a channel of the window; oriel_recv receives a message
 * of `bytes` on a channel of the window.  src and dst are any memory of the device.  Both ends use
 * the same channel and size; the size may be 0.  Only one group at a time uses a (peer, channel,
 * direction).  send returns when src may be written again, recv when dst holds the message.  A
 * passed deadline, or different sizes, fail the window.
 */
ORIEL_DEV int oriel_send(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			 int channel, const void *src, uint64_t bytes);
ORIEL_DEV int oriel_recv(const struct oriel_window_dev *win, struct oriel_group g, int peer,
			 int channel, void *dst, uint64_t bytes);

/* ---- packets (window options boxes and box_bytes) -------------------------------------------- */

/*
 * Packets are short messages with the least latency.  A box takes the packets of one peer, in
 * order.  oriel_packet_send puts a packet of `bytes` into `box` of the peer; oriel_packet_recv
 * takes the next packet of `source` from `box`.  Both ends name the same size, 0 to box_bytes; a
 * larger one is ORIEL_ERANGE.  src and dst are any memory of the device, with any alignment.  Only
 * one group at a time uses a (peer, box, direction).  Several boxes are independent.
 *
 * send returns when src may be written again.  It does not begin with a meeting of the group: if
 * other threads wrote the source, call oriel_group_sync(g) before it.  It waits only while the box
 * is full; a box holds at least four packets of box_bytes.  recv returns when all threads may read
 * dst.
 *
 * A packet publishes its own bytes and nothing else.  It has no order with puts and signals.
 *
 * A passed deadline fails only this call, and no packet is lost: the call may be made again.  Then
 * dst may hold a part of the packet.  Different sizes are ORIEL_EMISMATCH and fail the window.
 */
ORIEL_DEV int oriel_packet_send(const struct oriel_window_dev *win, struct oriel_group g, int peer,
				int box, const void *src, uint64_t bytes);
ORIEL_DEV int oriel_packet_recv(const struct oriel_window_dev *win, struct oriel_group g,
				int source, int box, void *dst, uint64_t bytes);

/* ---- lines: a box that a group holds open ---------------------------------------------------- */

/*
 * For kernels that exchange many packets with the same peer.  oriel_line_open opens a line: a box
 * that this group holds; oriel_line_send sends a packet on a line; oriel_line_recv receives a
 * packet on a line; oriel_line_close closes a line.  A line keeps addresses and counts in
 * registers, where a single call loads them each time.  Each thread of the group has its own struct
 * oriel_line; all threads make every call.
 *
 *	struct oriel_line line;
 *
 *	err = oriel_line_open(&line, &a->win, g, peer, box);
 *	for (i = 0; i < rounds && !err; i++) {
 *		err = oriel_line_send(&line, g, mine, bytes);
 *		if (!err)
 *			err = oriel_line_recv(&line, g, theirs, bytes);
 *	}
 *	last = oriel_line_close(&line, g);
 *
 * Packets are the same as those of packet_send and packet_recv, and either end may use either kind
 * of call.  While a line is open, no other call of this rank uses the (peer, box).  Every line that
 * was opened must be closed before its kernel ends, also after an error; otherwise the box is lost.
 * A line whose opening failed may be closed too.
 *
 * A send does not end with a meeting: each thread has read its own part of src.  Call
 * oriel_group_sync(g) before another thread writes src; a receive meets too.  A send does not look
 * at failures unless the box is full.  close returns the window's failure, or 0.
 */
struct oriel_line;
ORIEL_DEV int oriel_line_open(struct oriel_line *line, const struct oriel_window_dev *win,
			      struct oriel_group g, int peer, int box);
ORIEL_DEV int oriel_line_send(struct oriel_line *line, struct oriel_group g, const void *src,
			      uint64_t bytes);
ORIEL_DEV int oriel_line_recv(struct oriel_line *line, struct oriel_group g, void *dst,
			      uint64_t bytes);
ORIEL_DEV int oriel_line_close(struct oriel_line *line, struct oriel_group g);

/* ---- paths: puts to one peer, again and again ------------------------------------------------ */

/*
 * For kernels that put and signal to the same peer many times.  oriel_path_open opens a path: the
 * puts of this group to a peer, from one source, with one signal; oriel_path_put_signal puts and
 * signals on a path; oriel_path_wait waits for the peer's signal of the same number.  A path keeps
 * addresses in registers, where oriel_put_signal and oriel_wait_signal_from find them each time.
 * Everything else is as in these calls, and either end may use either kind.  Each thread of the
 * group has its own struct oriel_path; all threads make every call.  There is nothing to close.
 *
 *	struct oriel_path path;
 *
 *	err = oriel_path_open(&path, &a->win, g, peer, &a->source, signal);
 *	for (i = 1; i <= rounds && !err; i++) {
 *		err = oriel_path_put_signal(&path, g, dst_off, src_off, bytes, ORIEL_SET, i);
 *		if (!err)
 *			err = oriel_path_wait(&path, g, i);
 *	}
 *
 * open meets nobody.  A peer or signal that does not exist is ORIEL_ERANGE.  A path that only
 * signals or waits needs no source: NULL, and 0 bytes.  A path uses the window's handle and the
 * source where they are; both must live as long as it is used.  wait waits until the signals of the
 * peer are `value` or more.
 */
struct oriel_path;
ORIEL_DEV int oriel_path_open(struct oriel_path *path, const struct oriel_window_dev *win,
			      struct oriel_group g, int peer, const struct oriel_source *src,
			      int signal);
ORIEL_DEV int oriel_path_put_signal(struct oriel_path *path, struct oriel_group g, uint64_t dst_off,
				    uint64_t src_off, uint64_t bytes, int op, uint64_t value);
ORIEL_DEV int oriel_path_wait(struct oriel_path *path, struct oriel_group g, uint64_t value);

/* The bodies. */
#include "device/put.h"
#include "device/window.h"
#include "device/signal.h"
#include "device/signal_send.h"
#include "device/counter.h"
#include "device/barrier.h"
#include "device/grid.h"
#include "device/atomic.h"
#include "device/atomic_typed.h"
#include "device/word.h"
#include "device/staged.h"
#include "device/packet.h"
#include "device/line.h"
#include "device/path.h"
#include "device/queued.h"

#endif
