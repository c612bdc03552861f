/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * models/queue.pml - a work queue of include/oriel/device/queue.h: reserve, fill, turn, ring, poll.
 *
 * Three producers post POSTS WQEs each to a queue of DEPTH slots, so slots are used several times.
 * The NIC fetches what was rung, executes it, and writes one CQE per WQE.
 *
 * Safety: the NIC finds in each slot the whole WQE of this lap; doorbells never go back; a CQE is
 * taken only for the WQE that it belongs to.
 * Progress: all WQEs complete, and every producer ends.
 *
 * mutants: 1 2 3
 *   1  rings without waiting for its turn
 *   2  fills a slot without waiting for its last WQE
 *   3  passes the turn on before it rings
 */
#define PRODUCERS 3
#define POSTS 2
#define DEPTH 2
#define TOTAL (PRODUCERS * POSTS)
#define NONE 255

byte reserved, produced, completed; /* of struct oriel_queue; counts of WQEs */
byte doorbell;
byte head[DEPTH] = NONE, tail[DEPTH] = NONE; /* two halves of a slot: the index written there */
byte cqe[DEPTH] = NONE;                      /* index of the WQE that is complete */

/* ori_queue_note_completed(): a compare-swap loop that only raises the count. */
inline ori_queue_note_completed(count)
{
	do
	:: seen = completed;
	   if
	   :: seen >= count -> break
	   :: else ->
		atomic {
			if
			:: completed == seen -> completed = count; break
			:: else
			fi
		}
	   fi
	od
}

/* ori_queue_wait(): polls `completed` and the CQE of WQE count - 1. */
inline ori_queue_wait(count)
{
	if
	:: completed >= count
	:: cqe[(count - 1) % DEPTH] == count - 1 -> ori_queue_note_completed(count)
	fi
}

/* ori_queue_reserve(): takes a number, then waits until its slot is free. */
inline ori_queue_reserve()
{
	atomic {
		base = reserved;
		reserved++
	}
#if MUTANT != 2
	if
	:: base >= DEPTH -> ori_queue_wait(base + 1 - DEPTH)
	:: else
	fi
#endif
}

inline fill()
{
	head[base % DEPTH] = base;
	tail[base % DEPTH] = base
}

/* ori_queue_publish(): the turn, the doorbell, and the turn of the next producer. */
inline ori_queue_publish()
{
#if MUTANT != 1
	produced == base; /* ori_queue_turn() */
#endif
#if MUTANT == 3
	produced = base + 1;
#endif
	assert(doorbell <= base + 1);
	doorbell = base + 1; /* ori_queue_ring() */
#if MUTANT != 3
	produced = base + 1
#endif
}

active [PRODUCERS] proctype producer()
{
	byte base, seen, n;

	do
	:: n < POSTS ->
		ori_queue_reserve();
		fill();
		ori_queue_publish();
		n++
	:: else -> break
	od;
	ori_queue_wait(base + 1) /* oriel_flush */
}

active proctype nic()
{
	byte ci, pi;

	do
	:: ci < pi ->
		assert(head[ci % DEPTH] == ci && tail[ci % DEPTH] == ci);
		cqe[ci % DEPTH] = ci;
		ci++
	:: ci == pi && pi < TOTAL ->
		doorbell > pi;
		assert(doorbell - ci <= DEPTH);
		pi = doorbell
	:: ci == TOTAL -> break
	od
}
