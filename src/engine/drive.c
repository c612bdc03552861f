/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/drive.c - the thread of an engine: when it works and how it sleeps.  See drive.h.
 *
 * Owns the thread, and the words by which callers and thread notice each other.  All these words
 * are hints: a missed one costs a sleep of bounded length.
 */
#include "drive.h"

#include <sched.h>
#include <sys/prctl.h>

#include <oriel/device/port.h>

#include "../util/util.h"

#define IDLE_NS 10000000ull /* longest sleep: the cost of a missed wake */

/*
 * For queues that a device posts to.  Kernels of one burst follow each other within some 10 us.
 * Steps of a program that computes in between follow within about a millisecond.  The thread stays
 * awake through both.  Where ranks outnumber the cores, it gives its core away sooner.  A nap costs
 * 3 to 7 us of a core.  So naps of ORI_DRIVE_NAP_NS take 6 to 13 % of a core.  After a second of
 * them, naps of 500 us take 1.5 % at most.
 */
#define HOT_NS 2000000ull
#define HOT_CROWDED_NS 200000ull
#define NAP_FIRST_NS 2000ull
#define DOZE_AFTER_NS ORI_NS_PER_S
#define TIMER_SLACK_NS 1000ul
#define CLOCK_POLLS 16u /* polls between looks at the clock */

void ori_drive_note(struct ori_drive *d)
{
	__atomic_fetch_add(&d->drives, 1, __ATOMIC_RELAXED);
}

/* No fence is needed: a missed rest costs one pause between looks. */
void ori_drive_rest(struct ori_drive *d)
{
	if (!__atomic_load_n(&d->watching, __ATOMIC_RELAXED))
		return;
	/*
	 * [DRIVE1] release, process; partner [DRIVE2] in watch().  Publishes this caller's last
	 * ori_drive_note().  Without it the thread could see that note later and assume that a
	 * caller still drives.  It would then leave the engine alone for one more pause.
	 */
	__atomic_fetch_add(&d->rests, 1, __ATOMIC_RELEASE);
	ori_futex_wake_all(&d->rests);
}

int ori_drive_stopping(const struct ori_drive *d)
{
	/* [DRIVE4] acquire, process; partner [DRIVE3] in ori_drive_stop(). */
	return (int)__atomic_load_n(&d->stop, __ATOMIC_ACQUIRE);
}

/* ---- the thread where callers drive ---------------------------------------------------------- */

/*
 * While callers drive, the thread only checks from time to time.  *seen: the count of drives at the
 * last check.
 */
static void watch(struct ori_drive *d, uint64_t *seen, uint64_t ns)
{
	/* [DRIVE2] acquire, process; partner [DRIVE1] in ori_drive_rest(). */
	uint32_t rests = __atomic_load_n(&d->rests, __ATOMIC_ACQUIRE);

	__atomic_store_n(&d->watching, 1, __ATOMIC_RELAXED);
	ori_futex_wait(&d->rests, rests, ns);
	__atomic_store_n(&d->watching, 0, __ATOMIC_RELAXED);
	/*
	 * As [DRIVE2].  A caller has gone to sleep, perhaps the last one.  If others still drive,
	 * the next check sees it.
	 */
	if (__atomic_load_n(&d->rests, __ATOMIC_ACQUIRE) != rests)
		*seen = __atomic_load_n(&d->drives, __ATOMIC_RELAXED);
}

static void *backup_main(void *arg)
{
	struct ori_drive *d = arg;
	uint64_t seen = 0, pause = ORI_DRIVE_WATCH_NS, longest = d->ops->watch_ns;

	ori_log_rank_set(d->rank);
	while (!ori_drive_stopping(d)) {
		uint64_t drives = __atomic_load_n(&d->drives, __ATOMIC_RELAXED);
		int busy = 0, done;

		if (drives != seen) {
			seen = drives;
			watch(d, &seen, pause);
			pause = pause < longest / 2 ? pause * 2 : longest;
			continue;
		}
		pause = ORI_DRIVE_WATCH_NS;
		done = d->ops->step(d, &busy);
		/*
		 * Busy but nothing done: timers go on, and work that found no room is retried soon.
		 */
		if (done <= 0)
			(void)d->ops->sleep(d, done < 0 || busy ? ORI_DRIVE_BUSY_NS : IDLE_NS);
	}
	return NULL;
}

/* ---- the thread where a device posts --------------------------------------------------------- */

/* The length of the nap that follows one of nap_ns, after idle_ns without work.  0: stay awake. */
static uint64_t next_nap_ns(const struct ori_drive *d, uint64_t nap_ns, uint64_t idle_ns)
{
	uint64_t longest = idle_ns < DOZE_AFTER_NS ? ORI_DRIVE_NAP_NS : d->ops->doze_ns;

	if (!nap_ns)
		return idle_ns < (ori_crowded() ? HOT_CROWDED_NS : HOT_NS) ? 0 : NAP_FIRST_NS;
	return nap_ns * 2 < longest ? nap_ns * 2 : longest;
}

static void rest_awake(uint32_t *polls)
{
	if (ori_crowded())
		sched_yield();
	else
		ori_pause();
	(*polls)++;
}

/*
 * While awake, the thread answers within a microsecond.  Between bursts its naps become longer, and
 * it costs some percent of a core.
 */
static void *device_main(void *arg)
{
	struct ori_drive *d = arg;
	uint64_t idle_since_ns = 0, nap_ns = 0, seen = 0;
	uint32_t polls = 0;

	ori_log_rank_set(d->rank);
	/* The kernel may extend a sleep by 50 us by default, which is longer than a nap. */
	(void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
	while (!ori_drive_stopping(d)) {
		int done = nap_ns ? d->ops->sleep(d, nap_ns) : d->ops->step(d, NULL);
		uint64_t drives = __atomic_load_n(&d->drives, __ATOMIC_RELAXED);

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
		nap_ns = next_nap_ns(d, nap_ns, ori_now_ns() - idle_since_ns);
	}
	return NULL;
}

/* ---- its life -------------------------------------------------------------------------------- */

int ori_drive_start(struct ori_drive *d, int device_posts, const char *name)
{
	if (pthread_create(&d->thread, NULL, device_posts ? device_main : backup_main, d))
		return ori_fail(ORIEL_ENOMEM, "cannot start the thread of the %s engine", name);
	d->started = 1;
	return 0;
}

void ori_drive_stop(struct ori_drive *d)
{
	if (!d->started)
		return;
	/*
	 * [DRIVE3] release, process; partner [DRIVE4].  Publishes the stores of the closing thread.
	 * A sleep that ops->wake() does not end must not begin after this.
	 */
	__atomic_store_n(&d->stop, 1, __ATOMIC_RELEASE);
	d->ops->wake(d);
	ori_drive_rest(d);
	pthread_join(d->thread, NULL);
	d->started = 0;
}
