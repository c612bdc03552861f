/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * src/bitcode/words.h - externs on words: ranks, signals, counters, completion and barriers.
 *
 * One thread reads a word for all, because Triton needs equal scalars on all threads.  The meeting
 * of the block that spreads the value also spreads the order of the acquire.
 */
#ifndef ORIEL_BITCODE_WORDS_H
#define ORIEL_BITCODE_WORDS_H

#include "caller.h"

/* ---- ranks, peers and addresses -------------------------------------------------------------- */

ORIEL_EXTERN_FAST int oriel_triton_rank(int64_t win)
{
	return oriel_rank(caller_window(win));
}

ORIEL_EXTERN_FAST int oriel_triton_nranks(int64_t win)
{
	return oriel_nranks(caller_window(win));
}

ORIEL_EXTERN_FAST int oriel_triton_peer_kind(int64_t win, int peer)
{
	return oriel_peer_kind(caller_window(win), peer);
}

ORIEL_EXTERN_FAST int64_t oriel_triton_base(int64_t win)
{
	return (int64_t)caller_window(win)->buffer;
}

ORIEL_EXTERN_FAST int64_t oriel_triton_size(int64_t win)
{
	return (int64_t)caller_window(win)->bytes;
}

ORIEL_EXTERN_FAST int64_t oriel_triton_mapped_address(int64_t win, int peer, int64_t offset)
{
	return (int64_t)oriel_mapped_address(caller_window(win), peer, (uint64_t)offset);
}

/* The first failure word of the window, else of its comm: ORIEL_FAILURE_STATUS() and so on. */
ORIEL_EXTERN int64_t oriel_triton_window_failure(int64_t win)
{
	struct ori_failures look = { 0, 0 };

	if (threadIdx.x == 0)
		look = ori_failures_of_window(caller_window(win));
	return (int64_t)caller_agree(look.window ? look.window : look.comm);
}

ORIEL_EXTERN int oriel_triton_window_status(int64_t win)
{
	return ORIEL_FAILURE_STATUS((uint64_t)oriel_triton_window_failure(win));
}

/*
 * Fails the window here and on all other ranks, because a protocol of the caller's own ended
 * without `peer`.  The first failure is kept.  Later calls on the window return it at once.  If the
 * comm has failed, all ranks know that already.
 */
ORIEL_EXTERN int oriel_triton_fail_window(int64_t win, int status, int peer)
{
	const struct oriel_window_dev *w = caller_window(win);
	int rank;

	__syncthreads();
	if (threadIdx.x == 0 && !ori_load_relaxed_sys(w->comm.failure)) {
		/* acq_rel without a partner: waits only compare a failure word with 0 */
		(void)ori_compare_swap_acq_rel_sys(w->failure, 0,
						   ORIEL_FAILURE_LATE(status, peer, w->comm.rank));
		/* passes on the first failure, whatever its status */
		for (rank = 0; rank < w->comm.nranks; rank++)
			if (rank != w->comm.rank)
				(void)ori_fail_window(w, ORIEL_ETIMEDOUT, rank);
	}
	__syncthreads();
	return status;
}

/* ---- signals --------------------------------------------------------------------------------- */

ORIEL_EXTERN int oriel_triton_signal_all(int64_t win, int id, int op, int64_t value)
{
	return oriel_signal_all(caller_window(win), caller_block(0), id, op, (uint64_t)value);
}

ORIEL_EXTERN int oriel_triton_wait_signal(int64_t win, int id, int64_t value, int timeout_ms)
{
	return oriel_wait_signal(caller_window(win), caller_block(timeout_ms), id, (uint64_t)value);
}

ORIEL_EXTERN_FAST int oriel_triton_wait_signal_from(int64_t win, int peer, int id, int cmp,
						    int64_t value, int timeout_ms)
{
	return oriel_wait_signal_from(caller_window(win), caller_block(timeout_ms), peer, id, cmp,
				      (uint64_t)value);
}

ORIEL_EXTERN int64_t oriel_triton_read_signal(int64_t win, int id)
{
	return (int64_t)caller_agree(threadIdx.x ? 0 : oriel_read_signal(caller_window(win), id));
}

ORIEL_EXTERN int64_t oriel_triton_read_signal_from(int64_t win, int peer, int id)
{
	uint64_t value = threadIdx.x ? 0 : oriel_read_signal_from(caller_window(win), peer, id);

	return (int64_t)caller_agree(value);
}

ORIEL_EXTERN int oriel_triton_reset_signal(int64_t win, int id)
{
	return oriel_reset_signal(caller_window(win), caller_block(0), id);
}

ORIEL_EXTERN int oriel_triton_signal_advance(int64_t win, int id, int64_t value)
{
	return oriel_signal_advance(caller_window(win), caller_block(0), id, (uint64_t)value);
}

ORIEL_EXTERN int oriel_triton_signal_advance_from(int64_t win, int peer, int id, int64_t value)
{
	return oriel_signal_advance_from(caller_window(win), caller_block(0), peer, id,
					 (uint64_t)value);
}

/* ---- counters -------------------------------------------------------------------------------- */

ORIEL_EXTERN int oriel_triton_wait_counter(int64_t win, int peer, int id, int cmp, int64_t value,
					   int timeout_ms)
{
	return oriel_wait_counter(caller_window(win), caller_block(timeout_ms), peer, id, cmp,
				  (uint64_t)value);
}

ORIEL_EXTERN int oriel_triton_wait_counter_all(int64_t win, int id, int64_t value, int timeout_ms)
{
	return oriel_wait_counter_all(caller_window(win), caller_block(timeout_ms), id,
				      (uint64_t)value);
}

ORIEL_EXTERN int64_t oriel_triton_read_counter(int64_t win, int peer, int id)
{
	uint64_t value = threadIdx.x ? 0 : oriel_read_counter(caller_window(win), peer, id);

	return (int64_t)caller_agree(value);
}

ORIEL_EXTERN int oriel_triton_reset_counter(int64_t win, int peer, int id)
{
	return oriel_reset_counter(caller_window(win), caller_block(0), peer, id);
}

/* ---- completion and order -------------------------------------------------------------------- */

ORIEL_EXTERN int oriel_triton_fence(int64_t win, int peer)
{
	return oriel_fence(caller_window(win), caller_block(0), peer);
}

ORIEL_EXTERN int oriel_triton_flush(int64_t win, int peer, int timeout_ms)
{
	return oriel_flush(caller_window(win), caller_block(timeout_ms), peer);
}

ORIEL_EXTERN int oriel_triton_flush_all(int64_t win, int timeout_ms)
{
	return oriel_flush_all(caller_window(win), caller_block(timeout_ms));
}

/* ---- barriers -------------------------------------------------------------------------------- */

ORIEL_EXTERN int oriel_triton_barrier(int64_t win, int id, int timeout_ms)
{
	return oriel_barrier(caller_window(win), caller_block(timeout_ms), id);
}

ORIEL_EXTERN int oriel_triton_barrier_arrive_wait(int64_t win, int id, int timeout_ms)
{
	return oriel_barrier_arrive_wait(caller_window(win), caller_block(timeout_ms), id);
}

ORIEL_EXTERN int oriel_triton_barrier_arrive(int64_t win, int id, int timeout_ms)
{
	return oriel_barrier_arrive(caller_window(win), caller_block(timeout_ms), id);
}

ORIEL_EXTERN int oriel_triton_barrier_wait(int64_t win, int id, int timeout_ms)
{
	return oriel_barrier_wait(caller_window(win), caller_block(timeout_ms), id);
}

ORIEL_EXTERN int oriel_triton_barrier_peer(int64_t win, int peer, int id, int timeout_ms)
{
	return oriel_barrier_peer(caller_window(win), caller_block(timeout_ms), peer, id);
}

/* All blocks of this launch, on this rank. */
ORIEL_EXTERN int oriel_triton_grid_sync(int64_t win, int id, int timeout_ms)
{
	return oriel_grid_sync(caller_window(win), caller_block(timeout_ms), id);
}

#endif
