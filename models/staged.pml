/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * models/staged.pml - send and recv through staging slots (include/oriel/device/staged.h), queued
 * peers: the sender's slots, the receiver's slots, `ready` and the free count (the credits).
 *
 * The NIC reads the sender's slot when it sends, and again when it sends again: until the WQE is
 * complete.  The receiver's NIC places a message once, in order.
 *
 * Safety: the receiver takes the pieces in order and whole; the NIC never reads a slot of the
 * sender that holds a later piece.
 * Progress: all pieces arrive.
 *
 * mutants: 1 2 3
 *   1  the sender does not wait for the free count
 *   2  the sender does not wait until the slot's WQE is complete (`posted`)
 *   3  the receiver gives the slot back before it has copied
 */
#define DEPTH 2
#define PIECES 5
#define NONE 255

byte out[DEPTH] = NONE;        /* the sender's slots */
byte slot[DEPTH] = NONE;       /* the receiver's slots */
byte length[DEPTH] = NONE;
byte ready, free_count;        /* only grow */
byte posted, complete;         /* WQEs of pieces: rung, complete */
byte placed;                   /* pieces that the receiver's NIC has placed */

/* ori_send_queued() */
active proctype sender()
{
	byte cursor;

	do
	:: cursor < PIECES ->
		/* ori_staged_wait_free() */
#if MUTANT != 1
		free_count + DEPTH >= cursor + 1;
#endif
#if MUTANT != 2
		complete + DEPTH >= cursor + 1; /* ori_queue_wait(posted[slot]) */
#endif
		out[cursor % DEPTH] = cursor;   /* ori_group_copy() */
		posted = cursor + 1;            /* ori_staged_post(): data, length, ready */
		cursor++
	:: else -> break
	od
}

/* Sends in order, and sends again what is not complete yet. */
active proctype nic()
{
	byte again;

	do
	:: placed < posted ->
		assert(out[placed % DEPTH] == placed);
		slot[placed % DEPTH] = out[placed % DEPTH];
		length[placed % DEPTH] = placed;
		ready = placed + 1;
		placed++
	:: complete < placed -> /* the answer was lost: reads the source again, placed once */
		again = complete;
		assert(out[again % DEPTH] == again);
		complete = complete + 1
	:: complete == PIECES -> break
	od
}

/* ori_recv_queued() */
active proctype receiver()
{
	byte cursor;

	do
	:: cursor < PIECES ->
		ready >= cursor + 1; /* ori_channel_wait_filled() */
		assert(length[cursor % DEPTH] == cursor);
#if MUTANT == 3
		free_count = cursor + 1;
#endif
		assert(slot[cursor % DEPTH] == cursor); /* ori_group_copy() */
		cursor++;
		free_count = cursor /* ori_staged_free() */
	:: else -> break
	od
}
