/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/turn.h - adds to words of a mapped peer whose memory this GPU cannot add to.
 *
 * GPUs that reach each other over PCIe can load and store, but their atomics on each other's memory
 * are not atomic.  A signal word has one source, so that source can keep the sum.  Every add goes
 * to a total in this rank's own memory, and the total is stored to the peer.  Several blocks may
 * add to one word at once.  So blocks store in turn, by tickets, and a late store never sets the
 * word back.
 *
 *   total    the value that the word must reach; any block adds to it
 *   asked    tickets taken; a block takes one after it has added
 *   served   tickets whose adds have been stored; written by the block that has the turn
 *
 * A block has the turn when all earlier tickets are served.  It stores the adds of all tickets
 * taken by then, so that the others need not store again.  Between launches asked and served are
 * equal.
 */
#ifndef ORIEL_DEVICE_TURN_H
#define ORIEL_DEVICE_TURN_H

#include "mapped.h"

/*
 * Called by one thread: waits until all tickets before `mine` are served.  *served is their count
 * then.
 */
ORIEL_DEV int ori_turn_wait(const struct oriel_comm_dev *comm, uint64_t *window_failure, int window,
			    const struct oriel_turn *turn, uint64_t mine, uint64_t *served)
{
	struct ori_spin s;
	int err = 0;

	ori_spin_begin(&s, comm, window_failure, ORIEL_OP_QUEUE, comm->rank, 0, window, mine);
	/*
	 * [TURN3] acquire, system scope; partner [TURN4]: the word has been stored before this
	 * rank stores it again.
	 */
	while (!ori_reached(*served = ori_load_acquire_sys(&turn->served), mine) && !err)
		err = ori_spin(&s, *served);
	ori_spin_end(&s);
	return ori_reached(*served, mine) ? 0 : err;
}

/*
 * Called by one thread after its group met, as ori_word_signal() with ORIEL_ADD.  A passed deadline
 * here means that a block of this rank hangs while it has the turn.  It fails the window.
 */
ORIEL_DEV_OUT void ori_add_in_turn(const struct oriel_comm_dev *comm, uint64_t *window_failure,
				   int window, struct oriel_turn *turn, uint64_t *word,
				   uint64_t value, struct oriel_waiters *waiters)
{
	uint64_t mine, asked, served, total;
	int err;

	/*
	 * [TURN1] release, system scope; partner [TURN2].  Publishes what the group wrote to the
	 * peer.  The block that stores this add passes it on with [SIG1], even before this ticket
	 * is taken.  Without it the peer sees the signal and reads old data.
	 */
	ori_fetch_add_acq_rel_sys(&turn->total, value);
	/*
	 * [TURN5] release, system scope; partner [TURN6].  Publishes the add above.  Without it a
	 * block serves this ticket with a total that lacks the add, and no block stores the add.
	 */
	mine = ori_fetch_add_acq_rel_sys(&turn->asked, 1);
	err = ori_turn_wait(comm, window_failure, window, turn, mine, &served);
	if (err == ORIEL_ETIMEDOUT)
		/* No partner: readers load a failure word relaxed. */
		ori_compare_swap_acq_rel_sys(window_failure, 0, ORIEL_FAILURE(err, comm->rank));
	/* Failed, or an earlier block has stored this add with its own. */
	if (err || served != mine)
		return;
	/* [TURN6] acquire, system scope; partner [TURN5] of every ticket up to there. */
	asked = ori_load_acquire_sys(&turn->asked);
	/* [TURN2] acquire, system scope; partner [TURN1] of all adds in the total. */
	total = ori_load_acquire_sys(&turn->total);
	ori_word_signal(word, ORIEL_SET, total, waiters);
	/*
	 * [TURN4] release, system scope; partner [TURN3].  The word has been stored.  Without it
	 * the next block's store could come first, and this one would set the word back.
	 */
	ori_store_release_sys(&turn->served, asked);
}

#endif
