/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/watch.c - calls a group's watcher once, and removes a watcher safely.
 *
 * Owns the rule of boot.h: no watcher is called after watch(NULL) has returned.  The lock and the
 * condition belong to the group.  Called by: threads.c and tcp_group.c, on any thread.
 */
#include "watch.h"

/*
 * fn belongs to the library and does not block, so the wait needs no deadline.  A watcher that
 * removes itself must not wait for itself.
 */
static void wait_idle(struct ori_watch *watch, pthread_mutex_t *lock, pthread_cond_t *cond)
{
	while (watch->calling && !pthread_equal(watch->caller, pthread_self()))
		pthread_cond_wait(cond, lock);
}

void ori_watch_set(struct ori_watch *watch, pthread_mutex_t *lock, pthread_cond_t *cond,
		   ori_boot_watch_fn *fn, void *ctx)
{
	watch->fn = NULL;
	wait_idle(watch, lock, cond);
	watch->fn = fn;
	watch->ctx = ctx;
	watch->told = 0;
}

void ori_watch_tell(struct ori_watch *watch, pthread_mutex_t *lock, pthread_cond_t *cond,
		    int status, int rank, const char *why)
{
	ori_boot_watch_fn *fn = watch->fn;
	void *ctx = watch->ctx;

	if (!fn || watch->told)
		return;
	watch->told = 1;
	watch->calling = 1;
	watch->caller = pthread_self();
	pthread_mutex_unlock(lock);
	fn(ctx, status, rank, why);
	pthread_mutex_lock(lock);
	watch->calling = 0;
	pthread_cond_broadcast(cond);
}

/*
 * Before a call returns the group's failure, the watcher has been called.  So a caller that knows
 * of the failure finds that the watcher knows too.  The rank that aborted is excluded: it knows.
 */
void ori_watch_settle(struct ori_watch *watch, pthread_mutex_t *lock, pthread_cond_t *cond,
		      int status, int rank, const char *why)
{
	ori_watch_tell(watch, lock, cond, status, rank, why);
	wait_idle(watch, lock, cond);
}
