/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/drive.c - which threads step the NICs of the software engine, and what ends the sleep
 * of its thread.
 *
 * If CPU threads post, every thread that posts or waits also drives.  It uses a try-lock, so it
 * never waits for another driver.  The thread of ../drive.c is the backup.  If nothing is
 * outstanding, it sleeps until a peer's kick or its timer.  If a device posts (world.device_posts),
 * nobody else drives, and the thread does all the work.
 *
 * Owns: the lock.  Called through the table of engine.c, on any thread.
 */
#include <stddef.h>
#include <string.h>

#include "../../util/util.h"
#include "soft_engine.h"

#define STEP_BUDGET 64
#define DOZE_NS 500000ull /* a launch wakes the thread, so longer naps are possible */

static struct soft_engine *engine_of(struct ori_drive *d)
{
	return (struct soft_engine *)(void *)((char *)d - offsetof(struct soft_engine, drive));
}

static void tell_errors(struct soft_engine *e, const struct soft_queue_error *errors, int n)
{
	for (int i = 0; i < n; i++)
		e->world.failed(e->world.ctx, errors[i].nic, errors[i].qpn, errors[i].wqe,
				errors[i].syndrome);
}

/*
 * Returns how much was done, or -1 if another thread is stepping.  Sets *busy (may be NULL) if more
 * work is to come.
 */
static int step_all(struct soft_engine *e, int *busy)
{
	struct soft_queue_error errors[SOFT_ERRORS_KEPT];
	int done = 0, nerrors;

	/* [SOFT1] acquire, process; partner [SOFT2]. */
	if (__atomic_load_n(&e->lock, __ATOMIC_RELAXED) ||
	    __atomic_exchange_n(&e->lock, 1, __ATOMIC_ACQUIRE))
		return -1;
	for (uint32_t n = 0; n < e->base.nics && !e->silent; n++)
		done += soft_nic_step(e->nic[n], STEP_BUDGET);
	if (busy) {
		*busy = 0;
		for (uint32_t n = 0; n < e->base.nics; n++)
			*busy |= soft_nic_busy(e->nic[n]);
	}
	nerrors = e->nerrors;
	e->nerrors = 0;
	memcpy(errors, e->errors, sizeof(errors[0]) * (size_t)nerrors);
	/*
	 * [SOFT2] release, process; partner [SOFT1].  Publishes the state of the NICs.  Without it
	 * the next driver could send a packet twice, or work on a queue that this one has removed.
	 */
	__atomic_store_n(&e->lock, 0, __ATOMIC_RELEASE);
	if (done) {
		/* relaxed: a hint for waits that decide whether to sleep */
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
		 * The host launches a kernel: its device is about to post, so the thread should be
		 * awake.
		 */
		ori_drive_note(&e->drive);
		ori_wake(e->kicks);
	} else if (step_all(e, NULL) >= 0) {
		ori_drive_note(&e->drive);
	}
}

void soft_engine_rest(struct ori_engine *engine)
{
	ori_drive_rest(&((struct soft_engine *)engine)->drive);
}

static int step_driven(struct ori_drive *d, int *busy)
{
	return step_all(engine_of(d), busy);
}

/* Announces itself and looks once more.  Then sleeps until a kick, at most `ns`. */
static int sleep_until_kick(struct ori_drive *d, uint64_t ns)
{
	struct soft_engine *e = engine_of(d);
	uint32_t epoch;
	int busy = 0, done;

	/*
	 * seq_cst without a partner: the announcement comes before the load of the epoch.  A kick
	 * loads relaxed (ori_wake() of device/port.h), and a kick that misses the sleeper costs
	 * `ns`.
	 */
	__atomic_fetch_add(&e->kicks->sleepers, 1, __ATOMIC_SEQ_CST);
	/* [SOFT3] acquire, sys; partner [CPU8] in oriel_cpu_wake(): the step finds the packet. */
	epoch = __atomic_load_n(&e->kicks->epoch, __ATOMIC_ACQUIRE);
	done = step_all(e, ns > ORI_DRIVE_BUSY_NS ? &busy : NULL);
	if (done <= 0 && !ori_drive_stopping(d))
		ori_futex_wait(&e->kicks->epoch, epoch, busy ? ORI_DRIVE_BUSY_NS : ns);
	/* seq_cst without a partner: a late subtraction costs one needless wake */
	__atomic_fetch_sub(&e->kicks->sleepers, 1, __ATOMIC_SEQ_CST);
	return done;
}

static void wake_driven(struct ori_drive *d)
{
	oriel_cpu_wake(engine_of(d)->kicks);
}

static const struct ori_drive_ops driven = {
	.step = step_driven,
	.sleep = sleep_until_kick,
	.wake = wake_driven,
	.watch_ns = ORI_DRIVE_WATCH_NS,
	.doze_ns = DOZE_NS,
};

/* ---- for the table --------------------------------------------------------------------------- */

void soft_engine_lock(struct soft_engine *e)
{
	uint32_t never = 0;

	/* acquire as [SOFT1]; bounded by the longest step */
	while (__atomic_exchange_n(&e->lock, 1, __ATOMIC_ACQUIRE))
		ori_futex_wait(&never, 0, 20000);
}

void soft_engine_unlock(struct soft_engine *e)
{
	__atomic_store_n(&e->lock, 0, __ATOMIC_RELEASE); /* as [SOFT2] */
}

int soft_engine_thread_start(struct soft_engine *e)
{
	e->drive.ops = &driven;
	e->drive.rank = e->world.rank;
	return ori_drive_start(&e->drive, e->world.device_posts, "soft");
}

void soft_engine_thread_stop(struct soft_engine *e)
{
	ori_drive_stop(&e->drive);
}

void soft_engine_silence(struct ori_engine *engine)
{
	struct soft_engine *e = (struct soft_engine *)engine;

	soft_engine_thread_stop(e);
	soft_engine_lock(e);
	e->silent = 1;
	soft_engine_unlock(e);
}
