/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/watch.h - the watcher of one member of a group, and the function that answers for that
 * member (watch.c).
 *
 * For threads.c and the TCP client.
 */
#ifndef ORI_BOOT_WATCH_H
#define ORI_BOOT_WATCH_H

#include <pthread.h>

#include "boot.h"

/* All fields are under the owner's lock, which is not held while fn runs. */
struct ori_watch {
	ori_boot_watch_fn *fn;
	void *ctx;
	int told;    /* this fn was called and is not called again */
	int calling; /* fn is running, on thread `caller` */
	pthread_t caller;
	/* Answers for this rank when others ask.  Called with the lock held. */
	ori_boot_answer_fn *answer;
	void *answer_ctx;
};

/* Lock held on entry and exit, released meanwhile.  Waits for fn if another thread runs it. */
void ori_watch_set(struct ori_watch *, pthread_mutex_t *, pthread_cond_t *, ori_boot_watch_fn *,
		   void *ctx);
/* Calls fn, once per fn that was set.  Lock as above. */
void ori_watch_tell(struct ori_watch *, pthread_mutex_t *, pthread_cond_t *, int status, int rank,
		    const char *why);
void ori_watch_settle(struct ori_watch *, pthread_mutex_t *lock, pthread_cond_t *cond, int status,
		      int rank, const char *why);

#endif
