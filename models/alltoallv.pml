/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * models/alltoallv.pml - the words of all-to-all-v (src/kernels/alltoallv.h, alltoallv_steps.h):
 * told[], came, and the two inboxes of a row.  Mapped peers, fixed slots, `synchronised`.
 *
 * Two ranks make CALLS calls.  In each call each rank chooses a small message (inbox) or a large
 * one (straight into the receive buffer).  A rank may read its receive buffer until its next call.
 *
 * Safety: a rank gets what the peer sent in this call, and its receive buffer does not change until
 * it makes the next call.
 * Progress: all calls end.
 *
 * mutants: 1 2 3
 *   1  one inbox instead of two
 *   2  does not wait for the peer's word before it sends a large message
 *   3  told before the small message is in the inbox
 */
#define RANKS 2
#define CALLS 4
#define INLINE 16
#define NUMBER(word) ((word) % INLINE)
#if MUTANT == 1
#define PARITY(k) 0
#else
#define PARITY(k) ((k) % 2)
#endif

/* The rows: [receiver * 2 + parity], written by the peer.  A word is k + 1, and INLINE. */
byte told[4], inbox[4];
byte came[RANKS];
byte buffer[RANKS]; /* the receive buffer: the call whose data it has, from 1 on */

/* ori_a2a_tell(): enters the call, with all data of a small message. */
inline ori_a2a_tell()
{
	if
	:: small = true
	:: small = false
	fi;
	if
	:: small ->
#if MUTANT == 3
		told[peer * 2 + PARITY(k)] = (k + 1) + INLINE;
#endif
		inbox[peer * 2 + PARITY(k)] = k + 1;
#if MUTANT != 3
		told[peer * 2 + PARITY(k)] = (k + 1) + INLINE;
#endif
		came[peer] = k + 1
	:: else -> told[peer * 2 + PARITY(k)] = k + 1
	fi
}

/* ori_a2a_send(): ori_a2a_target() waits until the peer is in the call, then sends the data. */
inline ori_a2a_send()
{
	if
	:: small
	:: else ->
#if MUTANT != 2
		NUMBER(told[_pid * 2 + PARITY(k)]) >= k + 1;
#endif
		buffer[peer] = k + 1;
		came[peer] = k + 1 /* ori_a2a_deliver() */
	fi
}

/* ori_a2a_receive(): ori_a2a_wait_data(), then ori_a2a_take(). */
inline ori_a2a_receive()
{
	NUMBER(told[_pid * 2 + PARITY(k)]) >= k + 1;
	word = told[_pid * 2 + PARITY(k)];
	assert(NUMBER(word) == k + 1);
	if
	:: word >= INLINE ->
		buffer[_pid] = inbox[_pid * 2 + PARITY(k)]
	:: else ->
		came[_pid] >= k + 1
	fi;
	assert(buffer[_pid] == k + 1)
}

active [RANKS] proctype rank()
{
	byte k, word, peer = 1 - _pid;
	bool small;

	do
	:: k < CALLS ->
		ori_a2a_tell();
		ori_a2a_send();
		ori_a2a_receive();
		/* the user reads until the next call */
		assert(buffer[_pid] == k + 1);
		k++
	:: else -> break
	od
}
