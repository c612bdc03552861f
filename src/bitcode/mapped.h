/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * src/bitcode/mapped.h - externs for windows without queued peers, where latency counts.
 *
 * They do what signal(), wait_signal_from() and put_signal() do, and leave out the rest: queues,
 * tests of arguments, and meetings that the caller does not need.  So a kernel that uses only these
 * compiles in a second and has few registers.  The caller makes sure that win->queued_peers is 0.
 */
#ifndef ORIEL_BITCODE_MAPPED_H
#define ORIEL_BITCODE_MAPPED_H

#include "caller.h"

/* The handle in registers.  No call that is not inlined may get its address: see put_fast(). */
ORIEL_DEV struct oriel_window_dev mapped_handle(int64_t win)
{
	struct oriel_window_dev w;

	load_constants(&w, caller_window(win), offsetof(struct oriel_window_dev, inline_peers));
	return w;
}

/* The address of a peer's entry, and the entry at that address. */
ORIEL_DEV int64_t mapped_find(int64_t win, int peer)
{
	const struct oriel_window_dev *memory = caller_window(win);
	const struct oriel_window_peer *peers = memory->inline_peers;

	if (peer >= ORIEL_INLINE_PEERS)
		peers = (const struct oriel_window_peer *)
			load_constant(memory, offsetof(struct oriel_window_dev, peers));
	return (int64_t)&peers[peer];
}

ORIEL_DEV struct oriel_window_peer mapped_entry(int64_t entry)
{
	struct oriel_window_peer p;

	load_constants(&p, (const void *)entry, sizeof(p));
	return p;
}

/* Loads a constant here, not where it is used first; the asm has no instruction. */
#define MAPPED_KEEP(value) asm volatile("" ::"l"((uint64_t)(value)))

/*
 * Called once, after the caller's own first loads.  Loads the constants that the other calls use
 * for this peer: they run together with the caller's loads, and no acquire repeats them.
 *
 * Returns the address of the peer's entry, for these calls.
 *
 * tells: mapped_tell() will follow.  Then the leader's fence, the first half of its release, runs
 * together with all these loads.  On an H200 the fence takes 1 us and the loads 0.7.
 */
ORIEL_EXTERN_FAST int64_t oriel_triton_mapped_begin(int64_t win, int64_t src, int peer, int tells)
{
	int64_t entry = mapped_find(win, peer);
	struct oriel_window_dev w = mapped_handle(win);
	struct oriel_window_peer p = mapped_entry(entry);

	MAPPED_KEEP(w.comm.timeout_ns);
	MAPPED_KEEP(w.comm.failure);
	MAPPED_KEEP(w.failure);
	MAPPED_KEEP(w.number);
	MAPPED_KEEP(w.first_count);
	MAPPED_KEEP(w.signal_stride);
	MAPPED_KEEP(w.signal_words);
	MAPPED_KEEP(w.signal_base);
	MAPPED_KEEP(p.flags);
	MAPPED_KEEP(p.buffer);
	MAPPED_KEEP(p.signals);
	MAPPED_KEEP(load_constant((const void *)src, 0));
	if (tells && threadIdx.x == 0)
		ori_release_begin(); /* the first half of [TRITON3] */
	ori_release_hold(caller_warp(), 32);
	return entry;
}

/*
 * After mapped_begin(): sets the peer's word, by one thread and without a meeting.  It publishes
 * what earlier kernels did, and nothing of this block.  It tests no failure; the next wait does.
 */
ORIEL_EXTERN_FAST int oriel_triton_mapped_tell(int64_t win, int64_t entry, int id, int64_t value)
{
	struct oriel_window_dev w = mapped_handle(win);
	struct oriel_window_peer p = mapped_entry(entry);

	/*
	 * [TRITON3] release, system scope, begun in mapped_begin(); partner [TRITON1] or [SIG2].
	 * Publishes that this rank has read what earlier calls brought.  Without it the peer's data
	 * could overwrite bytes that an earlier kernel still reads.
	 */
	if (threadIdx.x == 0)
		ori_publish(ori_release_at(&p.signals[id]), ORIEL_SET,
			    w.first_count + (uint64_t)value, NULL);
	return 0;
}

/* ori_word_wait() for a count that may wrap; *seen is the word then. */
ORIEL_DEV int mapped_poll(struct ori_spin *s, struct ori_failures look, const uint64_t *word,
			  uint64_t base, uint64_t *seen)
{
	/* the polls are the first half of [TRITON1]: the acquire is complete with ori_poll_end() */
	uint64_t have = ori_poll_sys(word) - base;
	int err = ori_failures_status(look);
	uint32_t more;

	while (!err && !ori_reached(have, s->want)) {
		err = ori_spin(s, have);
		have = ori_poll_sys(word) - base;
		for (more = ori_spin_polls(s); more && !ori_reached(have, s->want); more--)
			have = ori_poll_sys(word) - base; /* as [TRITON1] */
	}
	/* [TRITON1] acquire, system scope, with the polls; partner [TRITON2], [TRITON3], [SIG1]. */
	ori_poll_end();
	ori_spin_end(s);
	*seen = have;
	return err;
}

/*
 * Waits until the word of (peer, id) has reached `value`.  Returns a status below 0; or 0 if the
 * bits of the word in `mask` are those of `bits`; else 1.
 */
ORIEL_EXTERN_FAST int oriel_triton_mapped_wait(int64_t win, int peer, int id, int64_t value,
					       int64_t mask, int64_t bits)
{
	const struct oriel_window_dev *memory = caller_window(win);
	struct oriel_window_dev w = mapped_handle(win);
	uint64_t i = (uint64_t)(uint32_t)peer * w.signal_stride + (uint32_t)id, seen;
	struct ori_spin s;
	int verdict = 0;

	if (threadIdx.x == 0) {
		ori_spin_begin(&s, &w.comm, w.failure, ORIEL_OP_SIGNAL, peer, id, w.number,
			       (uint64_t)value);
		s.comm = &memory->comm; /* the slow path is called: it must not see the copy */
		verdict = mapped_poll(&s, ori_failures_of_window(&w), &w.signal_words[i],
				      ori_load_relaxed_sys(&w.signal_base[i]), &seen);
		if (!verdict)
			verdict = ((seen ^ (uint64_t)bits) & (uint64_t)mask) != 0;
	}
	return ori_group_agree(caller_block(0), verdict);
}

/* Copies chunk by chunk.  Each thread ends early after a failure, which a later test finds. */
ORIEL_DEV void mapped_copy(const struct oriel_window_dev *w, uint8_t *to, const uint8_t *from,
			   uint64_t bytes, uint64_t chunk)
{
	struct ori_failures look = { 0, 0 };
	uint64_t piece;

	for (; bytes && !ori_failures_any(look); bytes -= piece) {
		piece = bytes < chunk ? bytes : chunk;
		/* the load runs while the chunk is copied */
		if (bytes > piece)
			look = ori_failures_of_window(w);
		ori_group_copy(caller_block(0), to, from, piece);
		to += piece;
		from += piece;
	}
}

/*
 * put_signal() with ORIEL_ADD.  It does not begin with a meeting: the source was written by an
 * earlier kernel, or the block has met since.
 */
ORIEL_EXTERN_FAST int oriel_triton_mapped_put_add(int64_t win, int64_t entry, int peer,
						  int64_t dst_off, int64_t src, int64_t src_off,
						  int64_t bytes, int64_t chunk, int id,
						  int64_t value)
{
	struct oriel_window_dev w = mapped_handle(win);
	struct oriel_window_peer p = mapped_entry(entry);
	const uint8_t *from = (const uint8_t *)load_constant((const void *)src, 0) + src_off;
	struct ori_failures look = { 0, 0 };
	struct oriel_group g = caller_block(0);
	uint64_t *word = ori_release_at(&p.signals[id]);
	int err;

	if (threadIdx.x == 0)
		look = ori_failures_of_window(&w); /* runs while data is copied */
	if (!ori_copy_once(g, p.buffer + dst_off, from, (uint64_t)bytes)) {
		mapped_copy(&w, p.buffer + dst_off, from, (uint64_t)bytes, (uint64_t)chunk);
		if (threadIdx.x == 0)
			look = ori_failures_of_window(&w); /* a failure may have ended the copy */
	}
	err = ori_group_agree_failures(g, look);
	if (err || threadIdx.x)
		return err;
	if (p.flags & ORIEL_PEER_NO_ATOMICS) {
		ori_signal_in_turn(caller_window(win), peer, id, (uint64_t)value);
		return 0;
	}
	/*
	 * [TRITON2] release, system scope; partner [TRITON1] or [SIG2] at the peer.
	 * Publishes the bytes that all threads of the block copied before they met [GROUP1].
	 * Without it the peer finds the signal and reads old bytes of its buffer.
	 */
	ori_release_begin();
	ori_publish(word, ORIEL_ADD, (uint64_t)value, NULL);
	return 0;
}

/* fail_window() of words.h, for a window without queued peers. */
ORIEL_EXTERN int oriel_triton_mapped_fail(int64_t win, int status, int peer)
{
	const struct oriel_window_dev *w = caller_window(win);
	uint64_t first, failure = ORIEL_FAILURE_LATE(status, peer, w->comm.rank);
	int rank;

	__syncthreads();
	if (threadIdx.x == 0 && !ori_load_relaxed_sys(w->comm.failure)) {
		/* acq_rel without a partner: waits only compare a failure word with 0 */
		first = ori_compare_swap_acq_rel_sys(w->failure, 0, failure);
		for (rank = 0; rank < w->comm.nranks; rank++)
			if (rank != w->comm.rank)
				ori_tell_failure(&w->peers[rank], first ? first : failure);
	}
	__syncthreads();
	return status;
}

#endif
