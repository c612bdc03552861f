/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * models/rounds.pml - short rounds of a team's channel, and a line of parts between them:
 * include/oriel/device/coll_cells.h, coll_line.h, team_cells.h.
 *
 * Three ranks make an ordinary call, open a line of three parts, make `calls` calls on it, close
 * it, and make two more ordinary calls.  The part here has the pairs 1 and 2, and 0 with itself.  A
 * place has one cell, whose value is the mark: the number of the round.
 *
 * Safety: a cell that a rank waits for is not written again before the rank has read it, nor
 * cleared after it was written.  A cell that two ranks exchange nothing in holds no mark while the
 * line is open, so no mark of it can become old.
 * Progress: no end state but the end of all ranks.
 *
 * mutants: 1 2 3 4
 *   1  an odd number of calls does not end with a round of its own
 *   2  it leaves out a number instead
 *   3  a round of the line that clears places clears those of all sources
 *   4  opening takes one round
 */
#define RANKS 3
#define PLACE(rank, source, number) place[(rank) * 6 + (source) * 2 + ((number) & 1)]

byte place[18]; /* what `source` has written at `rank`, for even and odd rounds */
byte calls;     /* of the line: the same on all ranks */
byte clears;    /* the number of a round in the line that clears places */
bool ready;     /* both are chosen */

/* ori_round_store(): one relaxed store of data and mark. */
inline ori_round_store(peer)
{
	PLACE(peer, _pid, round) = round
}

/* ori_short_wait(): loads until the mark is there. */
inline ori_short_wait(source)
{
	PLACE(_pid, source, round) >= round;
	assert(PLACE(_pid, source, round) == round)
}

/* ori_short_round() of a call with terms: all ranks. */
inline ori_round_of_all()
{
	p = 0;
	do
	:: p < RANKS -> ori_round_store(p); p++
	:: else -> break
	od;
	p = 0;
	do
	:: p < RANKS -> ori_short_wait(p); p++
	:: else -> break
	od;
	round++
}

/* The same in a line, with the one rank of this part. */
inline ori_round_of_part()
{
	ori_round_store(peer);
	ori_short_wait(peer);
	q = (peer + 1) % RANKS;
	assert(PLACE(_pid, q, opened + 1) == 0);
	assert(PLACE(_pid, q, opened) == 0 || PLACE(_pid, q, opened) > round);
	if
	:: round == clears ->
#if MUTANT == 3
		ori_places_clear(round)
#else
		PLACE(_pid, peer, round) = 0
#endif
	:: else
	fi;
	round++
}

/* ori_places_clear() of all sources. */
inline ori_places_clear(number)
{
	p = 0;
	do
	:: p < RANKS -> PLACE(_pid, p, number) = 0; p++
	:: else -> break
	od
}

/* ori_line_compare() */
inline ori_line_compare()
{
	ori_round_of_all();
	ori_places_clear(round - 1);
#if MUTANT != 4
	ori_round_of_all();
	ori_places_clear(round - 1);
#endif
	opened = round
}

/* oriel_coll_close() */
inline oriel_coll_close()
{
	if
	:: (round ^ opened) & 1 ->
#if MUTANT == 1
		skip
#elif MUTANT == 2
		round++
#else
		ori_round_of_part()
#endif
	:: else
	fi
}

active [RANKS] proctype rank()
{
	byte p, q, round = 1, opened, made, peer = (RANKS - _pid) % RANKS;

	if
	:: _pid == 0 ->
		select (p : 1 .. 3);
		calls = p;
		select (p : 4 .. 6);
		clears = p;
		ready = 1
	:: else -> ready
	fi;
	ori_round_of_all();
	ori_line_compare();
	do
	:: made < calls -> ori_round_of_part(); made++
	:: else -> break
	od;
	oriel_coll_close();
	ori_round_of_all();
	ori_round_of_all()
}
