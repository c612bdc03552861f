/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * models/barrier.pml - the barrier of include/oriel/device/barrier.h, mapped peers.
 *
 * Three ranks pass a barrier ROUNDS times.  Between the rounds ranks 0 and 1 also pass a
 * barrier_peer on the same id, so the counts of the pairs differ.  Counts never restart.
 *
 * Safety: a rank that leaves a round finds what every other rank put before that round.
 * Progress: no end state but the end of all ranks.
 *
 * mutants: 1 2
 *   1  waits for the number of arrivals before its own one (`sent` before it is counted up)
 *   2  waits for each peer before it arrives there
 */
#define RANKS 3
#define ROUNDS 3

byte arrivals[9];     /* arrival_words: [rank * RANKS + peer], written by the peer */
byte arrival_sent[9]; /* [rank * RANKS + peer], of the rank itself */
byte put[9];          /* what `peer` put into the window of `rank`: its number of calls */
byte calls[9];        /* calls of the pair so far */

/* ori_arrive_mapped(): one release store at the peer, then the own count. */
inline ori_arrive_mapped(peer)
{
	sent = arrival_sent[_pid * RANKS + peer] + 1;
	put[peer * RANKS + _pid] = sent; /* the put before the call */
	arrivals[peer * RANKS + _pid] = sent;
	arrival_sent[_pid * RANKS + peer] = sent
}

/* ori_await(): an acquire load until the peer has arrived as often as this rank. */
inline ori_await(peer)
{
	sent = arrival_sent[_pid * RANKS + peer];
#if MUTANT == 1
	sent = sent - 1;
#endif
	arrivals[_pid * RANKS + peer] >= sent;
}

/* The body of ori_barrier_any(): arrives at all peers [first, last), then waits for them. */
inline ori_barrier_any(first, last)
{
	p = first;
	do
	:: p < last ->
		if
		:: p != _pid ->
#if MUTANT == 2
			arrivals[_pid * RANKS + p] > arrival_sent[_pid * RANKS + p];
#endif
			ori_arrive_mapped(p)
		:: else
		fi;
		p++
	:: else -> break
	od;
	p = first;
	do
	:: p < last ->
		if
		:: p != _pid ->
			ori_await(p);
			calls[_pid * RANKS + p]++;
			/* the peer's put of this call, or of the next one, is here */
			assert(put[_pid * RANKS + p] >= calls[_pid * RANKS + p])
		:: else
		fi;
		p++
	:: else -> break
	od
}

active [RANKS] proctype rank()
{
	byte p, sent, round;

	do
	:: round < ROUNDS ->
		ori_barrier_any(0, RANKS);
		if
		:: _pid == 0 -> ori_barrier_any(1, 2) /* oriel_barrier_peer(1) */
		:: _pid == 1 -> ori_barrier_any(0, 1) /* oriel_barrier_peer(0) */
		:: else
		fi;
		round++
	:: else -> break
	od
}
