/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * src/bitcode/data.h - externs that move data: puts, gets, atomics, messages, packets, copies.
 *
 * Every one of them begins with a meeting of the block.  A Triton program stores a tensor with all
 * its threads and then puts it, with no place for a meeting of its own between the two.
 */
#ifndef ORIEL_BITCODE_DATA_H
#define ORIEL_BITCODE_DATA_H

#include "caller.h"

/* ---- puts ------------------------------------------------------------------------------------ */

/* The parts of a put. */
#define PUT_DATA 1
#define PUT_SIGNAL 2
#define PUT_COUNTER 4

/* Any put, as a call with scalars: to peers off the fast path, and in checked windows. */
ORIEL_DEV_OUT int put_slow(int64_t win, int what, int peer, uint64_t dst_off, int64_t src,
			   uint64_t src_off, uint64_t bytes, int signal, int op, uint64_t value,
			   int counter)
{
	const struct oriel_window_dev *w = caller_window(win);
	struct oriel_group g = caller_block(0);
	struct oriel_source local;

	if (!(what & PUT_DATA))
		return oriel_signal(w, g, peer, signal, op, value);
	if (!src)
		return ORIEL_EINVAL;
	local = caller_source(src);
	what &= ~PUT_DATA;
	if (what == (PUT_SIGNAL | PUT_COUNTER))
		return oriel_put_signal_counter(w, g, peer, dst_off, &local, src_off, bytes, signal,
						op, value, counter);
	if (what == PUT_SIGNAL)
		return oriel_put_signal(w, g, peer, dst_off, &local, src_off, bytes, signal, op,
					value);
	if (what == PUT_COUNTER)
		return oriel_put_counter(w, g, peer, dst_off, &local, src_off, bytes, counter);
	return oriel_put(w, g, peer, dst_off, &local, src_off, bytes);
}

/* What a put reads before it starts: constants, as long as the kernel runs. */
struct put_constants {
	struct oriel_window_dev w; /* without its peers */
	struct oriel_window_peer entry;
	struct oriel_source local;
	uint32_t slot; /* whose entry this is: the peer's, or 0 if it has none in the handle */
};

ORIEL_DEV void put_load(struct put_constants *c, int64_t win, int peer, int64_t src)
{
	const struct oriel_window_dev *memory = caller_window(win);

	c->slot = (uint32_t)peer < ORIEL_INLINE_PEERS ? (uint32_t)peer : 0;
	load_constants(&c->w, memory, offsetof(struct oriel_window_dev, inline_peers));
	load_constants(&c->entry, &memory->inline_peers[c->slot], sizeof(c->entry));
	c->local = caller_source(src ? src : win); /* any memory that can be read: not used if 0 */
}

/*
 * A pure function of its arguments, so Triton calls it before a loop if they do not change in the
 * loop.  Its loads then stand before the loop, and the compiler uses them for the puts inside.
 * Without it the loads of a put after a wait would follow the wait's acquire: 0.3 us.  The value
 * has no meaning; it exists so that the call is kept.
 */
ORIEL_EXTERN_FAST int64_t oriel_triton_put_ready(int64_t win, int peer, int64_t src)
{
	struct put_constants c;

	put_load(&c, win, peer, src);
	return (int64_t)((uint64_t)c.w.checked ^ c.w.queued_peers ^ c.w.comm.flags ^
			 c.w.first_count ^ (uint64_t)c.w.failure ^ (uint64_t)c.w.comm.failure ^
			 (uint64_t)c.entry.kind ^ c.entry.flags ^ (uint64_t)c.entry.buffer ^
			 (uint64_t)c.entry.signals ^ c.local.address);
}

/*
 * The fast path of device/put.h, on a copy of the handle in registers.  Only for plain peers whose
 * entry is inside the handle.  No call that is not inlined may get the address of the copy: it
 * would move the copy into memory.  This is why counters, which look for queued peers, need a
 * window without any.
 *
 * The loads come first, under no condition and before the meeting.  So the compiler may move them
 * out of a loop that begins with a put, also without `ready`.
 */
ORIEL_DEV int put_fast(int64_t win, int what, int peer, uint64_t dst_off, int64_t src,
		       uint64_t src_off, uint64_t bytes, int signal, int op, uint64_t value,
		       int counter, int64_t ready)
{
	struct put_constants c;
	struct ori_transfer t;

	asm volatile("" ::"l"(ready)); /* keeps the call of oriel_triton_put_ready() */
	put_load(&c, win, peer, src);
	__syncthreads();
	if (c.w.checked || c.slot != (uint32_t)peer || !ori_peer_is_plain(&c.entry) ||
	    ((what & PUT_DATA) && !src) || ((what & PUT_COUNTER) && c.w.queued_peers))
		return put_slow(win, what, peer, dst_off, src, src_off, bytes, signal, op, value,
				counter);
	t = ori_transfer_of(peer, dst_off, &c.local, src_off, bytes);
	if (what & PUT_SIGNAL)
		t = ori_transfer_signal(t, signal, op, value);
	if (what & PUT_COUNTER)
		t.counter = counter;
	return ori_put_entry(&c.w, caller_block(0), &c.entry, t, NULL);
}

ORIEL_EXTERN_FAST int oriel_triton_put(int64_t win, int peer, int64_t dst_off, int64_t src,
				       int64_t src_off, int64_t bytes, int64_t ready)
{
	return put_fast(win, PUT_DATA, peer, (uint64_t)dst_off, src, (uint64_t)src_off,
			(uint64_t)bytes, 0, 0, 0, 0, ready);
}

ORIEL_EXTERN_FAST int oriel_triton_put_signal(int64_t win, int peer, int64_t dst_off, int64_t src,
					      int64_t src_off, int64_t bytes, int signal, int op,
					      int64_t value, int64_t ready)
{
	return put_fast(win, PUT_DATA | PUT_SIGNAL, peer, (uint64_t)dst_off, src, (uint64_t)src_off,
			(uint64_t)bytes, signal, op, (uint64_t)value, 0, ready);
}

ORIEL_EXTERN_FAST int oriel_triton_put_counter(int64_t win, int peer, int64_t dst_off, int64_t src,
					       int64_t src_off, int64_t bytes, int counter,
					       int64_t ready)
{
	return put_fast(win, PUT_DATA | PUT_COUNTER, peer, (uint64_t)dst_off, src,
			(uint64_t)src_off, (uint64_t)bytes, 0, 0, 0, counter, ready);
}

ORIEL_EXTERN_FAST int oriel_triton_put_signal_counter(int64_t win, int peer, int64_t dst_off,
						      int64_t src, int64_t src_off, int64_t bytes,
						      int signal, int op, int64_t value,
						      int counter, int64_t ready)
{
	return put_fast(win, PUT_DATA | PUT_SIGNAL | PUT_COUNTER, peer, (uint64_t)dst_off, src,
			(uint64_t)src_off, (uint64_t)bytes, signal, op, (uint64_t)value, counter,
			ready);
}

/* A signal is a put of no bytes: the same fast path. */
ORIEL_EXTERN_FAST int oriel_triton_signal(int64_t win, int peer, int id, int op, int64_t value,
					  int64_t ready)
{
	return put_fast(win, PUT_SIGNAL, peer, 0, 0, 0, 0, id, op, (uint64_t)value, 0, ready);
}

/* Warp w of the block makes a put of its own: row w of the source to row w of the destination. */
ORIEL_EXTERN int oriel_triton_put_warp(int64_t win, int peer, int64_t dst_off, int64_t dst_stride,
				       int64_t src, int64_t src_off, int64_t src_stride,
				       int64_t bytes)
{
	struct oriel_source local = caller_source(src);
	uint64_t row = threadIdx.x >> 5;
	int err;

	__syncthreads();
	err = oriel_put(caller_window(win), caller_warp(), peer,
			(uint64_t)dst_off + row * (uint64_t)dst_stride, &local,
			(uint64_t)src_off + row * (uint64_t)src_stride, (uint64_t)bytes);
	return ori_group_agree_any(caller_block(0), err);
}

/* Warps share one put: chunk c is moved by warp c % warps.  They meet once, at the end. */
ORIEL_EXTERN int oriel_triton_put_chunked(int64_t win, int peer, int64_t dst_off, int64_t src,
					  int64_t src_off, int64_t bytes, int64_t chunk)
{
	const struct oriel_window_dev *w = caller_window(win);
	struct oriel_source local = caller_source(src);
	uint64_t at, step, n, all = (uint64_t)bytes;
	int err = chunk > 0 ? 0 : ORIEL_EINVAL;

	__syncthreads();
	step = (uint64_t)chunk * (blockDim.x >> 5);
	for (at = (uint64_t)chunk * (threadIdx.x >> 5); at < all && !err; at += step) {
		n = all - at < (uint64_t)chunk ? all - at : (uint64_t)chunk;
		err = oriel_put(w, caller_warp(), peer, (uint64_t)dst_off + at, &local,
				(uint64_t)src_off + at, n);
	}
	return ori_group_agree_any(caller_block(0), err);
}

/* `value` is little-endian, so its first bytes are its low ones. */
ORIEL_EXTERN int oriel_triton_put_value(int64_t win, int peer, int64_t dst_off, int64_t value,
					int bytes)
{
	if (bytes < 1 || bytes > 8)
		return ORIEL_EINVAL;
	__syncthreads();
	return oriel_put_value(caller_window(win), caller_block(0), peer, (uint64_t)dst_off, &value,
			       (uint64_t)bytes);
}

/* ---- gets ------------------------------------------------------------------------------------ */

ORIEL_EXTERN int oriel_triton_get(int64_t win, int peer, int64_t src_off, int64_t dst,
				  int64_t dst_off, int64_t bytes)
{
	struct oriel_source local = caller_source(dst);

	__syncthreads();
	return oriel_get(caller_window(win), caller_block(0), peer, (uint64_t)src_off, &local,
			 (uint64_t)dst_off, (uint64_t)bytes);
}

ORIEL_EXTERN int oriel_triton_get_nbi(int64_t win, int peer, int64_t src_off, int64_t dst,
				      int64_t dst_off, int64_t bytes)
{
	struct oriel_source local = caller_source(dst);

	__syncthreads();
	return oriel_get_nbi(caller_window(win), caller_block(0), peer, (uint64_t)src_off, &local,
			     (uint64_t)dst_off, (uint64_t)bytes);
}

/* 1 to 8 bytes, with zeros above them.  0 if it failed; then *status has the reason. */
ORIEL_EXTERN int64_t oriel_triton_get_value(int64_t win, int peer, int64_t src_off, int bytes,
					    int64_t status)
{
	uint64_t value = 0;
	int err = ORIEL_EINVAL;

	__syncthreads();
	if (bytes >= 1 && bytes <= 8)
		err = oriel_get_value(caller_window(win), caller_block(0), peer, (uint64_t)src_off,
				      &value, (uint64_t)bytes);
	caller_report(status, err);
	return err ? 0 : (int64_t)value;
}

/* ---- atomics: the old value; 0 if it failed, and *status has the reason ---------------------- */

ORIEL_EXTERN int64_t oriel_triton_fetch_add(int64_t win, int peer, int64_t offset, int64_t value,
					    int64_t status)
{
	uint64_t old = 0;
	int err = oriel_fetch_add(caller_window(win), caller_block(0), peer, (uint64_t)offset,
				  (uint64_t)value, &old);

	caller_report(status, err);
	return err ? 0 : (int64_t)old;
}

ORIEL_EXTERN int64_t oriel_triton_swap(int64_t win, int peer, int64_t offset, int64_t value,
				       int64_t status)
{
	uint64_t old = 0;
	int err = oriel_swap(caller_window(win), caller_block(0), peer, (uint64_t)offset,
			     (uint64_t)value, &old);

	caller_report(status, err);
	return err ? 0 : (int64_t)old;
}

ORIEL_EXTERN int64_t oriel_triton_compare_swap(int64_t win, int peer, int64_t offset,
					       int64_t expected, int64_t value, int64_t status)
{
	uint64_t old = 0;
	int err = oriel_compare_swap(caller_window(win), caller_block(0), peer, (uint64_t)offset,
				     (uint64_t)expected, (uint64_t)value, &old);

	caller_report(status, err);
	return err ? 0 : (int64_t)old;
}

/* ---- staged messages ------------------------------------------------------------------------- */

ORIEL_EXTERN int oriel_triton_send(int64_t win, int peer, int channel, int64_t src, int64_t bytes,
				   int timeout_ms)
{
	__syncthreads();
	return oriel_send(caller_window(win), caller_block(timeout_ms), peer, channel,
			  (const void *)src, (uint64_t)bytes);
}

ORIEL_EXTERN int oriel_triton_recv(int64_t win, int peer, int channel, int64_t dst, int64_t bytes,
				   int timeout_ms)
{
	__syncthreads();
	return oriel_recv(caller_window(win), caller_block(timeout_ms), peer, channel, (void *)dst,
			  (uint64_t)bytes);
}

/* ---- packets --------------------------------------------------------------------------------- */

ORIEL_EXTERN int oriel_triton_packet_send(int64_t win, int peer, int box, int64_t src,
					  int64_t bytes, int timeout_ms)
{
	__syncthreads();
	return oriel_packet_send(caller_window(win), caller_block(timeout_ms), peer, box,
				 (const void *)src, (uint64_t)bytes);
}

ORIEL_EXTERN int oriel_triton_packet_recv(int64_t win, int peer, int box, int64_t dst,
					  int64_t bytes, int timeout_ms)
{
	__syncthreads();
	return oriel_packet_recv(caller_window(win), caller_block(timeout_ms), peer, box,
				 (void *)dst, (uint64_t)bytes);
}

/* ---- copies of this rank --------------------------------------------------------------------- */

/* By the whole block; any size and alignment. */
ORIEL_EXTERN int oriel_triton_self_copy(int64_t dst, int64_t src, int64_t bytes)
{
	__syncthreads();
	if (bytes > 0 && dst != src)
		ori_group_copy(caller_block(0), (void *)dst, (const void *)src, (uint64_t)bytes);
	__syncthreads();
	return bytes < 0 ? ORIEL_EINVAL : 0;
}

#endif
