/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxied/drive.c - which threads step the proxies, and what ends the sleep of the engine's
 * thread.
 *
 * If CPU threads post, every thread that posts or waits also drives.  It uses a try-lock, so it
 * never waits for another driver.  The thread of ../drive.c is the backup.  It sleeps on the
 * descriptors of the fabrics (a completion channel, a socket set).  If a device posts
 * (world.device_posts), nobody else drives, and the thread does all the work.
 *
 * Writes of peers to this rank cause no completion here.  If the fabric executes them in progress()
 * (tcp), a step may change words of this rank without knowing it.  Sleepers are then woken on
 * suspicion, but not too often.  The fabric's file descriptor tells whether data come in, so that
 * waits go on driving and do not sleep.
 *
 * Owns: the lock.  Called through the table of engine.c, on any thread.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../util/util.h"
#include "proxied.h"

#define STEP_BUDGET 64
#define WATCH_LONG_NS 5000000ull /* while callers keep driving: every look takes a core from them */
#define SUSPECT_NS 50000ull      /* shortest time between two wakes on suspicion */
#define STIR_NS 20000ull         /* between checks for incoming data */
#define MISSED_STEPS 4           /* steps in a row for callers that found the lock taken */

static struct proxied_engine *engine_of(struct ori_drive *d)
{
	return (struct proxied_engine *)(void *)((char *)d -
						 offsetof(struct proxied_engine, drive));
}

/* ---- one step -------------------------------------------------------------------------------- */

static int try_lock(struct proxied_engine *e)
{
	/*
	 * [PROXY1] seq_cst, acquire, process; partner [PROXY2].  seq_cst: see try_lock_or_tell().
	 */
	return !__atomic_load_n(&e->lock, __ATOMIC_SEQ_CST) &&
	       !__atomic_exchange_n(&e->lock, 1, __ATOMIC_SEQ_CST);
}

/*
 * A caller found the lock taken, and has rung a doorbell that the running step may have passed.  It
 * sets `missed` [PROXY3] and tries the lock once more [PROXY1].  The driver unlocks [PROXY2] and
 * then loads `missed` [PROXY4].  All four accesses are seq_cst, so at least one of the two sees the
 * other, and no doorbell waits for the thread's next look.
 */
static int try_lock_or_tell(struct proxied_engine *e)
{
	if (try_lock(e))
		return 1;
	/*
	 * [PROXY3] seq_cst, process; partner [PROXY4].  With a weaker order the store could come
	 * after the second try.  The driver then finds nothing missed, and the doorbell waits.
	 */
	__atomic_store_n(&e->missed, 1, __ATOMIC_SEQ_CST);
	return try_lock(e);
}

static void tell_errors(struct proxied_engine *e, const struct proxied_error *errors, int n)
{
	for (int i = 0; i < n; i++)
		e->world.failed(e->world.ctx, errors[i].nic, errors[i].qpn, errors[i].wqe,
				errors[i].syndrome);
}

/* Are data coming in?  Asked before the step, which takes them. */
static int stirs(struct proxied_engine *e, uint64_t now)
{
	struct pollfd fds[ORIEL_NICS_MAX];
	nfds_t n = 0;

	if (!e->passive || now - e->stir_ns < STIR_NS)
		return 0;
	e->stir_ns = now;
	for (uint32_t i = 0; i < e->base.nics; i++) {
		const struct ori_fabric *f = e->nic[i].fabric;

		if (f->passive_progress && f->passive_fd >= 0)
			fds[n++] = (struct pollfd){ .fd = f->passive_fd, .events = POLLIN };
	}
	return n && poll(fds, n, 0) > 0;
}

/* The caller has the lock; this releases it.  *suspect: words may have changed unnoticed. */
static int step_locked(struct proxied_engine *e, int *busy, int *suspect)
{
	struct proxied_error errors[PROXIED_ERRORS_KEPT];
	uint64_t now = ori_now_ns();
	int done = 0, nerrors;

	/*
	 * seq_cst as [PROXY3]: the step begins after it, so it serves all doorbells reported before
	 */
	__atomic_store_n(&e->missed, 0, __ATOMIC_SEQ_CST);
	/*
	 * A caller drives because it has just rung.  A device may ring at any time since the last
	 * look.
	 */
	e->began_ns = e->world.device_posts && e->look_ns ? e->look_ns : now;
	e->look_ns = now;
	e->steps++;
	if (stirs(e, now))
		/* relaxed: a hint for waits that decide whether to sleep */
		__atomic_fetch_add(&e->base.work, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < e->base.nics && !e->silent; i++)
		done += ori_proxy_step(e->nic[i].proxy, STEP_BUDGET);
	if (busy) {
		*busy = 0;
		for (uint32_t i = 0; i < e->base.nics; i++)
			*busy |= ori_proxy_busy(e->nic[i].proxy);
	}
	*suspect = e->passive && now - e->woken_ns >= SUSPECT_NS;
	if (*suspect)
		e->woken_ns = now;
	nerrors = e->nerrors;
	e->nerrors = 0;
	memcpy(errors, e->errors, sizeof(errors[0]) * (size_t)nerrors);
	/*
	 * [PROXY2] seq_cst, release, process; partner [PROXY1].  Publishes the state of the
	 * proxies.  Without it the next driver could post a WQE twice.
	 */
	__atomic_store_n(&e->lock, 0, __ATOMIC_SEQ_CST);
	tell_errors(e, errors, nerrors);
	return done;
}

/*
 * Returns how much was done, or -1 if another thread is stepping.  Sets *busy (may be NULL) if more
 * work is to come.
 */
static int step_all(struct proxied_engine *e, int *busy)
{
	int done = 0, suspect = 0, again = MISSED_STEPS;

	if (!try_lock_or_tell(e))
		return -1;
	do {
		int more;

		done += step_locked(e, busy, &more);
		suspect |= more;
		/* [PROXY4] seq_cst, process; partner [PROXY3]. */
	} while (__atomic_load_n(&e->missed, __ATOMIC_SEQ_CST) && --again > 0 && try_lock(e));
	if (done)
		/* relaxed: as in step_locked() */
		__atomic_fetch_add(&e->base.work, 1, __ATOMIC_RELAXED);
	if (done || suspect)
		ori_wake(e->world.waiters);
	return done;
}

void ori_proxied_drive(struct ori_engine *engine)
{
	struct proxied_engine *e = (struct proxied_engine *)engine;

	if (step_all(e, NULL) >= 0)
		ori_drive_note(&e->drive);
}

void ori_proxied_rest(struct ori_engine *engine)
{
	ori_drive_rest(&((struct proxied_engine *)engine)->drive);
}

int ori_proxied_idle(struct ori_engine *engine)
{
	struct proxied_engine *e = (struct proxied_engine *)engine;
	int busy = 1;

	/* The step looks at the doorbells first, so doorbells rung before the call count. */
	return step_all(e, &busy) >= 0 && !busy;
}

/* ---- sleeping -------------------------------------------------------------------------------- */

/*
 * Sleeps until a fabric has something to do, or `ns` have passed.  Does not sleep if a fabric has
 * something to do now.  Fabrics are armed under the lock: a step in between would consume the
 * events that the arming is for.
 */
static void sleep_on_fabrics(struct proxied_engine *e, uint64_t ns)
{
	struct pollfd fds[ORIEL_NICS_MAX + 1] = { { .fd = e->wake_fd, .events = POLLIN } };
	struct timespec t;
	uint64_t woken;
	nfds_t n = 1;
	int ready = 0;

	if (!try_lock(e))
		return;
	for (uint32_t i = 0; i < e->base.nics && !ready; i++) {
		int fd = -1, armed = e->nic[i].fabric->ops->arm(e->nic[i].fabric, &fd);

		ready = armed == 0;
		if (armed > 0)
			fds[n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
		else if (ns > ORI_DRIVE_BUSY_NS && (e->passive || ori_proxy_busy(e->nic[i].proxy)))
			ns = ORI_DRIVE_BUSY_NS;
	}
	/* seq_cst as [PROXY2] and [PROXY4] */
	__atomic_store_n(&e->lock, 0, __ATOMIC_SEQ_CST);
	if (ready || __atomic_load_n(&e->missed, __ATOMIC_SEQ_CST) || ori_drive_stopping(&e->drive))
		return;
	t.tv_sec = (time_t)(ns / ORI_NS_PER_S);
	t.tv_nsec = (long)(ns % ORI_NS_PER_S);
	(void)ppoll(fds, n, &t, NULL);
	if (fds[0].revents)
		(void)!read(e->wake_fd, &woken, sizeof(woken));
}

static void wake_thread(struct proxied_engine *e)
{
	uint64_t one = 1;

	/* A full counter is also readable, so a write that finds it full has had its effect. */
	if (write(e->wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		ori_log(ORI_LOG_WARN, "%s engine: cannot wake its thread", e->table.name);
}

static int step_driven(struct ori_drive *d, int *busy)
{
	return step_all(engine_of(d), busy);
}

static int sleep_driven(struct ori_drive *d, uint64_t ns)
{
	struct proxied_engine *e = engine_of(d);

	sleep_on_fabrics(e, ns);
	return e->world.device_posts ? step_all(e, NULL) : 0;
}

static void wake_driven(struct ori_drive *d)
{
	wake_thread(engine_of(d));
}

static const struct ori_drive_ops driven = {
	.step = step_driven,
	.sleep = sleep_driven,
	.wake = wake_driven,
	.watch_ns = WATCH_LONG_NS,
	.doze_ns = ORI_DRIVE_NAP_NS, /* nothing ends a longer nap when a kernel is launched */
};

/* ---- for the table --------------------------------------------------------------------------- */

void ori_proxied_lock(struct proxied_engine *e)
{
	uint32_t never = 0;

	/* seq_cst as [PROXY1]; bounded by the longest step */
	while (__atomic_exchange_n(&e->lock, 1, __ATOMIC_SEQ_CST))
		ori_futex_wait(&never, 0, 20000);
}

/*
 * The thread serves callers that rang meanwhile and found the lock taken.  A step here could report
 * a failure to the comm, on a thread that may hold the comm's locks.
 */
void ori_proxied_unlock(struct proxied_engine *e)
{
	/* seq_cst as [PROXY2] and [PROXY4] */
	__atomic_store_n(&e->lock, 0, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&e->missed, __ATOMIC_SEQ_CST) && e->drive.started)
		wake_thread(e);
}

int ori_proxied_thread_start(struct proxied_engine *e)
{
	e->drive.ops = &driven;
	e->drive.rank = e->world.rank;
	return ori_drive_start(&e->drive, e->world.device_posts, e->table.name);
}

void ori_proxied_thread_stop(struct proxied_engine *e)
{
	ori_drive_stop(&e->drive);
}

void ori_proxied_silence(struct ori_engine *engine)
{
	struct proxied_engine *e = (struct proxied_engine *)engine;

	ori_proxied_thread_stop(e);
	ori_proxied_lock(e);
	e->silent = 1;
	for (uint32_t i = 0; i < e->base.nics; i++) {
		struct ori_fabric *f = e->nic[i].fabric;

		if (f->ops->silence)
			f->ops->silence(f);
	}
	ori_proxied_unlock(e);
}
