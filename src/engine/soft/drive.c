/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/drive.c - who steps the NICs of the software engine, and when its thread sleeps.
 *
 * Where CPU threads post, whoever posts or waits drives (try-lock, so nobody waits for a driver).
 * The thread backs them up: it works when a packet arrives while the rank computes, and when nobody
 * else has driven for a moment; with nothing outstanding it sleeps until a peer's kick or its
 * timer. Where a device posts (world.device_posts) nobody drives, and the thread does all of it.
 *
 * Owns: the lock, the thread.  Called through the table of engine.c, on any thread.
 */
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>

#include <oriel/device/port.h>

#include "../../device/cpu/cpu.h"
#include "../../util/util.h"
#include "soft_engine.h"

#define STEP_BUDGET 64
#define WATCH_NS 200000ull  /* a look at what the callers do */
#define BUSY_NS 50000ull    /* longest sleep while answers are awaited: timers run on */
#define IDLE_NS 10000000ull /* longest sleep: the cost of a missed kick */

/*
 * A device posts.  Kernels of one burst follow each other within some 10 us, steps of a program
 * that computes in between within a millisecond or so: through both the thread stays awake.  Where
 * ranks outnumber the cores it gives way, and soon.  NAP_NS is what the first doorbell after a
 * pause may wait; a nap costs 3 to 7 us of a core, so these take 6 to 13 % of it, and after a
 * second of them the longer ones take 1.5 % at most.
 */
#define HOT_NS 2000000ull
#define HOT_CROWDED_NS 200000ull
#define NAP_FIRST_NS 2000ull
#define NAP_NS 50000ull
#define DOZE_AFTER_NS ORI_NS_PER_S
#define DOZE_NS 500000ull
#define TIMER_SLACK_NS 1000ul
#define CLOCK_POLLS 16u /* polls between looks at the clock */

static void tell_errors(struct soft_engine *e, const struct soft_queue_error *errors, int n)
{
	for (int i = 0; i < n; i++)
		e->world.failed(e->world.ctx, errors[i].nic, errors[i].qpn, errors[i].wqe,
				errors[i].syndrome);
}

/* How much was done; -1 if somebody else is at it.  *busy, if asked for: more is to come. */
static int step_all(struct soft_engine *e, int *busy)
{
	struct soft_queue_error errors[SOFT_ERRORS_KEPT];
	int done = 0, nerrors;

	/* [N1] acquire; partner [N2]: the NICs' state passes from driver to driver. */
	if (__atomic_load_n(&e->lock, __ATOMIC_RELAXED) ||
	    __atomic_exchange_n(&e->lock, 1, __ATOMIC_ACQUIRE))
		return -1;
	for (uint32_t n = 0; n < e->base.nics; n++)
		done += soft_nic_step(e->nic[n], STEP_BUDGET);
	if (busy) {
		*busy = 0;
		for (uint32_t n = 0; n < e->base.nics; n++)
			*busy |= soft_nic_busy(e->nic[n]);
	}
	nerrors = e->nerrors;
	e->nerrors = 0;
	memcpy(errors, e->errors, sizeof(errors[0]) * (size_t)nerrors);
	/* [N2] release; partner [N1]. */
	__atomic_store_n(&e->lock, 0, __ATOMIC_RELEASE);
	if (done) {
		/* relaxed: a hint for waits that wonder whether to sleep */
		__atomic_fetch_add(&e->base.work, 1, __ATOMIC_RELAXED);
		ori_wake(e->world.waiters);
	}
	tell_errors(e, errors, nerrors);
	return done;
}

void soft_engine_drive(struct ori_engine *engine)
{
	struct soft_engine *e = (struct soft_engine *)engine;

	if (e->world.device_posts) {
		/*
		 * a host that launches: its device is about to post, so the thread had better be
		 * awake
		 */
		__atomic_fetch_add(&e->drives, 1, __ATOMIC_RELAXED);
		ori_wake(e->kicks);
	} else if (step_all(e, NULL) >= 0) {
		__atomic_fetch_add(&e->drives, 1, __ATOMIC_RELAXED);
	}
}

/* A missed one costs WATCH_NS, so no fence. */
void soft_engine_rest(struct ori_engine *engine)
{
	struct soft_engine *e = (struct soft_engine *)engine;

	if (!__atomic_load_n(&e->watching, __ATOMIC_RELAXED))
		return;
	__atomic_fetch_add(&e->rests, 1, __ATOMIC_RELEASE);
	ori_futex_wake_all(&e->rests);
}

/* While callers drive, the thread only looks in now and then; *seen: how often they had. */
static void watch(struct soft_engine *e, uint64_t *seen)
{
	uint32_t rests = __atomic_load_n(&e->rests, __ATOMIC_ACQUIRE);

	__atomic_store_n(&e->watching, 1, __ATOMIC_RELAXED);
	ori_futex_wait(&e->rests, rests, WATCH_NS);
	__atomic_store_n(&e->watching, 0, __ATOMIC_RELAXED);
	/* One has gone to sleep: perhaps the last.  Others that still drive will be seen. */
	if (__atomic_load_n(&e->rests, __ATOMIC_ACQUIRE) != rests)
		*seen = __atomic_load_n(&e->drives, __ATOMIC_RELAXED);
}

/* Looks once more after having announced itself, then sleeps until a kick, at most `ns`. */
static int sleep_until_kick(struct soft_engine *e, uint64_t ns)
{
	uint32_t epoch;
	int busy = 0, done;

	__atomic_fetch_add(&e->kicks->sleepers, 1, __ATOMIC_SEQ_CST);
	epoch = __atomic_load_n(&e->kicks->epoch, __ATOMIC_ACQUIRE);
	done = step_all(e, ns > BUSY_NS ? &busy : NULL);
	if (done <= 0 && !__atomic_load_n(&e->stop, __ATOMIC_ACQUIRE))
		ori_futex_wait(&e->kicks->epoch, epoch, busy ? BUSY_NS : ns);
	__atomic_fetch_sub(&e->kicks->sleepers, 1, __ATOMIC_SEQ_CST);
	return done;
}

/* ---- the thread where callers drive ---------------------------------------------------------- */

static void *backup_main(void *arg)
{
	struct soft_engine *e = arg;
	uint64_t seen = 0;

	while (!__atomic_load_n(&e->stop, __ATOMIC_ACQUIRE)) {
		uint64_t drives = __atomic_load_n(&e->drives, __ATOMIC_RELAXED);
		int busy = 0, done;

		if (drives != seen) {
			seen = drives;
			watch(e, &seen);
			continue;
		}
		done = step_all(e, &busy);
		if (done <= 0)
			(void)sleep_until_kick(e, done < 0 ? BUSY_NS : IDLE_NS);
	}
	return NULL;
}

/* ---- the thread where a device posts --------------------------------------------------------- */

/* The nap after one of nap_ns, when nothing was found for idle_ns; 0: stay awake. */
static uint64_t next_nap_ns(uint64_t nap_ns, uint64_t idle_ns)
{
	uint64_t longest = idle_ns < DOZE_AFTER_NS ? NAP_NS : DOZE_NS;

	if (!nap_ns)
		return idle_ns < (ori_cpu_crowded() ? HOT_CROWDED_NS : HOT_NS) ? 0 : NAP_FIRST_NS;
	return nap_ns * 2 < longest ? nap_ns * 2 : longest;
}

static void rest_awake(uint32_t *polls)
{
	if (ori_cpu_crowded())
		sched_yield();
	else
		ori_pause();
	(*polls)++;
}

/*
 * Nobody tells that a device has rung: its doorbells must be looked at.  Awake the thread answers
 * within a microsecond; between bursts it naps, longer and longer, and costs some percent of a
 * core.
 */
static void *device_main(void *arg)
{
	struct soft_engine *e = arg;
	uint64_t idle_since_ns = 0, nap_ns = 0, seen = 0;
	uint32_t polls = 0;

	/* naps are shorter than the 50 us by which the kernel may stretch a sleep */
	(void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
	while (!__atomic_load_n(&e->stop, __ATOMIC_ACQUIRE)) {
		int done = nap_ns ? sleep_until_kick(e, nap_ns) : step_all(e, NULL);
		uint64_t drives = __atomic_load_n(&e->drives, __ATOMIC_RELAXED);

		if (done > 0 || drives != seen) {
			seen = drives;
			idle_since_ns = nap_ns = 0;
			continue;
		}
		if (!nap_ns) {
			rest_awake(&polls);
			if (polls % CLOCK_POLLS)
				continue;
		}
		if (!idle_since_ns)
			idle_since_ns = ori_now_ns();
		nap_ns = next_nap_ns(nap_ns, ori_now_ns() - idle_since_ns);
	}
	return NULL;
}

/* ---- for the table --------------------------------------------------------------------------- */

void soft_engine_lock(struct soft_engine *e)
{
	uint32_t never = 0;

	/* Bounded by the longest step. */
	while (__atomic_exchange_n(&e->lock, 1, __ATOMIC_ACQUIRE))
		ori_futex_wait(&never, 0, 20000);
}

void soft_engine_unlock(struct soft_engine *e)
{
	__atomic_store_n(&e->lock, 0, __ATOMIC_RELEASE);
}

int soft_engine_thread_start(struct soft_engine *e)
{
	if (pthread_create(&e->thread, NULL, e->world.device_posts ? device_main : backup_main, e))
		return ori_fail(ORIEL_ENOMEM, "cannot start the thread of the software NIC");
	e->started = 1;
	return 0;
}

void soft_engine_thread_stop(struct soft_engine *e)
{
	if (!e->started)
		return;
	__atomic_store_n(&e->stop, 1, __ATOMIC_RELEASE);
	oriel_cpu_wake(e->kicks);
	pthread_join(e->thread, NULL);
	e->started = 0;
}
