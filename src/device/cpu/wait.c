/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cpu/wait.c - the slow half of every wait on the CPU: when to yield, when to sleep, when to
 * give up.  The fast half is ori_spin() of device/spin.h.
 *
 * A wait has three phases.  First it polls for about 4 us.  If the ranks of this host outnumber the
 * cores, it polls only a few times, because the rank that it waits for needs this core.  Then it
 * yields between polls until it is 0.3 ms old and the engine has been idle for as long.  Then it
 * sleeps on the rank's futex word until a writer wakes it or 1 ms has passed.  If a NIC writes the
 * words, it sleeps at most 50 us, because a NIC wakes nobody.
 *
 * Called on any thread that waits.  Touches only the given ori_spin, the rank's waiters word and
 * its board.
 */
#include <sched.h>
#include <string.h>

#include <oriel/device/team.h>
#include <oriel/device/trace.h>

#include "../../diag/diag.h"
#include "../../engine/progress.h"
#include "../../util/util.h"
#include "cpu.h"

#define YIELD_NS 300000ull  /* age up to which a wait yields */
#define SLEEP_NS 1000000ull /* longest sleep: the cost of a missed wake */
#define BOARD_NS 1000000ull /* age from which the board shows the wait */
#define CROWDED_POLLS 4u    /* polls between yields if cores are crowded */
#define FIRST_POLLS 2000u   /* polls before the first look at the clock, otherwise */

uint32_t ori_cpu_spin_polls(void)
{
	return ori_crowded() ? CROWDED_POLLS : FIRST_POLLS;
}

/*
 * One step of sleeping.  The first call announces the sleeper and returns, so that the caller
 * checks the word once more.  Later calls sleep, unless the epoch has moved since the announcement.
 */
static void sleep_step(struct ori_spin *s, uint64_t left_ns)
{
	struct oriel_waiters *w = s->comm->waiters;

	if (s->asleep) {
		uint64_t longest_ns = s->comm->engine ? ori_progress_sleep_ns(s->comm->engine) : 0;

		if (!longest_ns)
			longest_ns = SLEEP_NS;
		if (s->comm->engine)
			ori_progress_rest(s->comm->engine);
		ori_futex_wait(&w->epoch, s->epoch, left_ns < longest_ns ? left_ns : longest_ns);
	} else {
		/*
		 * seq_cst without a partner: the announcement comes before the load of the epoch.
		 * The waker's load is relaxed (ori_wake() of device/port.h).  A sleeper that it
		 * misses wakes by its own timer.
		 */
		__atomic_fetch_add(&w->sleepers, 1, __ATOMIC_SEQ_CST);
	}
	s->asleep = 1;
	/* [CPU9] acquire, sys; partner [CPU8] in oriel_cpu_wake(). */
	s->epoch = __atomic_load_n(&w->epoch, __ATOMIC_ACQUIRE);
	s->polls = 0; /* one look at the word, then sleep */
}

/*
 * While this rank's engine finds work, a wait that drives it does not sleep.  Otherwise every burst
 * would cost two wake-ups: of the engine's thread and of this thread.
 */
static void note_work(struct ori_spin *s, uint64_t now)
{
	uint64_t work = s->comm->engine ? ori_progress_work(s->comm->engine) : 0;

	if (work == s->work)
		return;
	s->work = work;
	s->active_ns = now;
	if (s->asleep)
		/* seq_cst without a partner: a late subtraction costs one needless wake */
		__atomic_fetch_sub(&s->comm->waiters->sleepers, 1, __ATOMIC_SEQ_CST);
	s->asleep = 0;
}

int oriel_cpu_spin_slow(struct ori_spin *s, uint64_t have)
{
	int err = ori_failed_anywhere(s->comm, (uint64_t *)(uintptr_t)s->window_failure);
	uint64_t now, age;

	if (err)
		return err;
	now = ori_now_ns();
	if (!s->start_ns) {
		s->start_ns = now;
		s->block = oriel_cpu_this_thread()->block;
		if (!ori_cpu_in_kernel())
			s->op |= ORIEL_CALL_BY_HOST;
		s->next_late_ns = now + s->comm->late_ns;
	}
	age = now - s->start_ns;
	if (age > BOARD_NS)
		ori_board_update(s, have, s->block);
	if (age >= s->timeout_ns) {
		ori_diag_late(s, have, age, 1);
		return ORIEL_ETIMEDOUT;
	}
	if (now >= s->next_late_ns) {
		ori_diag_late(s, have, age, 0);
		s->next_late_ns = now + s->comm->late_ns;
	}
	s->rounds++;
	note_work(s, now);
	if (age >= YIELD_NS && now - s->active_ns >= YIELD_NS) {
		sleep_step(s, s->timeout_ns - age);
	} else {
		/*
		 * Needed even if there are enough cores: the scheduler may have put both ranks on
		 * one.
		 */
		sched_yield();
		if (ori_crowded())
			s->polls = CROWDED_POLLS;
	}
	return 0;
}

/* Does the call that waits note the wait itself?  Calls for a signal of one source say so. */
static int is_noted(const struct ori_spin *s, int op)
{
	return op == ORIEL_OP_SIGNAL_SUM || op == ORIEL_OP_BARRIER || s->op & ORIEL_CALL_NOTED;
}

/* Notes a wait that took the slow path. */
static void trace_wait(const struct ori_spin *s)
{
	int op = ORIEL_OP_OF(s->op); /* without the call that waits */
	struct ori_trace_note n = ori_trace_note_of(ORIEL_TRACE_WAIT, s->start_ns, s->peer, s->id,
						    s->window);

	if (is_noted(s, op))
		return;
	n.end = ori_now_ns();
	n.op = op;
	n.value = s->want;
	n.block = s->block;
	ori_trace_write(s->comm->trace, n);
}

void oriel_cpu_spin_end(struct ori_spin *s)
{
	if (ori_traced(s->comm))
		trace_wait(s);
	if (s->asleep)
		/* seq_cst without a partner, as in note_work() */
		__atomic_fetch_sub(&s->comm->waiters->sleepers, 1, __ATOMIC_SEQ_CST);
	ori_board_clear(s);
}

uint64_t oriel_cpu_now_ns(void)
{
	return ori_now_ns();
}

void oriel_cpu_yield(void)
{
	sched_yield();
}

void oriel_cpu_wake(struct oriel_waiters *w)
{
	/*
	 * [CPU8] release, sys: waiter and waker may be two processes; partners [CPU9] and [SOFT3].
	 * Publishes the word that the waker has just stored.  Without it a waiter could read the
	 * new epoch, then the old word, and sleep on the new epoch until its timer.
	 */
	__atomic_fetch_add(&w->epoch, 1, __ATOMIC_RELEASE);
	ori_futex_wake_all(&w->epoch);
}

/* what: see ori_refuse() of device/check.h. */
void oriel_cpu_report(const struct oriel_comm_dev *comm, const char *call, const char *what,
		      uint64_t value, uint64_t limit)
{
	(void)comm;
	if (!strcmp(what, "mixed"))
		(void)ori_fail(ORIEL_EINVAL,
			       "%s: %s on signal %u to rank %llu, which had %s before: use one of "
			       "the two on a signal",
			       call, value >> 32 == ORIEL_SET ? "ORIEL_SET" : "ORIEL_ADD",
			       (uint32_t)value, (unsigned long long)limit,
			       value >> 32 == ORIEL_SET ? "ORIEL_ADD" : "ORIEL_SET");
	else if (!strchr(what, ' ') && !limit)
		(void)ori_fail(ORIEL_ERANGE, "%s: %s %lld does not exist (the window has none)",
			       call, what, (long long)value);
	else if (!strchr(what, ' '))
		(void)ori_fail(ORIEL_ERANGE, "%s: %s %lld does not exist (%s are 0 to %llu)", call,
			       what, (long long)value, strcmp(what, "rank") ? "ids" : "ranks",
			       (unsigned long long)limit - 1);
	else if (!strncmp(what, "end of ", 7))
		(void)ori_fail(ORIEL_ERANGE,
			       "%s: the range ends at byte %llu, but %s has %llu bytes", call,
			       (unsigned long long)value, what + 7, (unsigned long long)limit);
	else
		(void)ori_fail(ORIEL_ERANGE, "%s: %s %lld", call, what, (long long)value);
}
