/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * models/companion.pml - counters of queued peers (ori_post_count() of include/oriel/device/post.h,
 * engine/soft/requester.c): the companion queue WAITs for a CQE of the main queue, then adds.
 *
 * Two threads share a lane.  Each posts an operation on the main queue, then {WAIT, fetch-add} on
 * the companion.  The threads may post in different orders on the two queues.  Any operation may
 * fail: then its CQE is an error CQE, all later ones are flushed, and the comm fails.
 *
 * Safety: the counter never exceeds the operations that were delivered.
 * Progress: a thread that waits for the counter ends, by the count or by the failure.
 *
 * mutants: 1 2 3
 *   1  an error CQE passes a WAIT
 *   2  the companion adds without a WAIT
 *   3  the failure is not told
 */
#define POSTERS 2

byte produced;               /* main queue: WQEs rung */
byte companion[POSTERS];     /* companion queue: the main index that each pair WAITs for */
byte companion_produced;
byte cqes, good_cqes;        /* CQEs of the main queue; those before the first error */
byte delivered;              /* operations placed at the peer */
byte counter;
bool failed;                 /* failure word of the comm */
bool turn, companion_turn;   /* ori_queue_turn(): one producer at a time rings */

active [POSTERS] proctype poster()
{
	byte index;

	/* ori_post_burst() on the main queue */
	atomic { !turn -> turn = true };
	index = produced;
	produced = index + 1;
	turn = false;
	/* ori_post_count() on the companion: WAIT, fetch-add */
	atomic { !companion_turn -> companion_turn = true };
	companion[companion_produced] = index;
	companion_produced++;
	companion_turn = false;
	/* oriel_wait_counter() for the operations of both */
	(counter == POSTERS || failed);
	assert(failed || delivered == POSTERS)
}

/* The NIC executes the main queue in order. */
active proctype main_queue()
{
	bool error;

	do
	:: cqes < POSTERS ->
		cqes < produced;
		if
		:: !error ->
			delivered++;
			good_cqes++
		:: true ->
#if MUTANT != 3
			failed = true; /* doomed(): before anything that could look like a success */
#endif
			error = true
		fi;
		cqes++
	:: else -> break
	od
}

/* The NIC executes the companion: WAIT, then an add through the loopback. */
active proctype companion_queue()
{
	byte ci;

	do
	:: ci < POSTERS ->
		ci < companion_produced;
#if MUTANT != 2
		cqes > companion[ci]; /* waits() */
#endif
#if MUTANT != 1 && MUTANT != 2
		if
		:: good_cqes > companion[ci]
		:: else -> goto flushed /* an error CQE does not pass a WAIT */
		fi;
#endif
		counter++;
		assert(counter <= delivered);
		ci++
	:: else -> break
	od;
flushed:
	skip
}
