/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * models/failure.pml - how a failure reaches all ranks (src/comm/failure.c, object.c, and the boot
 * that tells of deaths: src/boot/tcp_hub_conn.c, tcp_take.c).
 *
 * Each of three ranks waits for a signal of the next one.  Rank 2 may die before it signals.  Rank
 * 0 may lose patience, once: it then fails the comm for all.  All ranks are mapped, so a rank that
 * gives up writes the words of the others itself, and also tells the boot.
 *
 * Safety: a failure word keeps its first value; it names a rank that died, or one that gave up when
 * it knew of no failure.
 * Progress: every rank that lives ends its wait.
 *
 * mutants: 1 2 3
 *   1  a rank that gives up passes on itself as the cause, though it knows another one
 *   2  a wait does not test the failure word
 *   3  a failure word is stored, not compared and swapped
 */
#define RANKS 3
#define NOBODY 0
#define NAME(rank) ((rank) + 1) /* in a failure word */

byte word[RANKS];   /* control->failure: NOBODY, or the rank that is the cause */
byte first[RANKS];  /* what the word was set to at first, for the assertion */
bool signal[RANKS]; /* at this rank, from the next one */
bool died[RANKS], gave_up[RANKS]; /* gave_up: without knowing of a failure */
chan hub = [4] of { byte };           /* to the boot: a rank that died or aborted */
chan watcher[RANKS] = [4] of { byte }; /* from the boot to a rank's watcher */
byte ended;

/* ori_failure_set(): a compare-swap from 0. */
inline ori_failure_set(rank, cause)
{
	d_step {
#if MUTANT == 3
		word[rank] = cause;
#else
		if
		:: word[rank] == NOBODY -> word[rank] = cause
		:: else
		fi;
#endif
		if
		:: first[rank] == NOBODY -> first[rank] = word[rank]
		:: else
		fi;
		assert(word[rank] == first[rank]);
		assert(died[word[rank] - 1] || gave_up[word[rank] - 1])
	}
}

/* ori_comm_fail_all() */
inline ori_comm_fail_all()
{
	atomic {
		gave_up[me] = (word[me] == NOBODY);
		ori_failure_set(me, NAME(me))
	}
#if MUTANT == 1
	cause = NAME(me);
#else
	cause = word[me]; /* passes the first failure on, not its own */
#endif
	r = 0;
	do
	:: r < RANKS ->
		if
		:: r != me -> ori_failure_set(r, cause)
		:: else
		fi;
		r++
	:: else -> break
	od;
	hub ! NAME(me) /* boot->ops->abort() */
}

proctype rank(byte me)
{
	byte r, cause;

	if
	:: me == 2 -> /* dies */
		died[me] = true;
		hub ! NAME(me);
		goto gone
	:: signal[(me + RANKS - 1) % RANKS] = true /* put_signal to the rank before */
	fi;
	if
	:: signal[me] /* wait_signal */
#if MUTANT != 2
	:: word[me] != NOBODY
#endif
	:: me == 0 -> /* its deadline passes */
		ori_comm_fail_all()
	fi;
gone:
	ended++
}

/* The hub tells all other ranks: TCP_DEAD or TCP_ABORT. */
proctype boot()
{
	byte cause, r;

end:	do
	:: hub ? cause ->
		r = 0;
		do
		:: r < RANKS ->
			if
			:: r != cause - 1 -> watcher[r] ! cause
			:: else
			fi;
			r++
		:: else -> break
		od
	od
}

/* on_boot_failure(): the boot's watcher fails the comm, and so ends the waits. */
proctype watch(byte me)
{
	byte cause;

end:	do
	:: watcher[me] ? cause ->
		/* an abort of a rank that passed a failure on carries that failure's word */
		if
		:: died[cause - 1] || gave_up[cause - 1] -> ori_failure_set(me, cause)
		:: else -> assert(word[me] != NOBODY)
		fi
	od
}

init
{
	atomic {
		run boot();
		run watch(0);
		run watch(1);
		run watch(2);
		run rank(0);
		run rank(1);
		run rank(2)
	}
	ended == RANKS
}
