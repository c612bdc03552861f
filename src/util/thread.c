/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/thread.c - starts a thread of the library.
 */
#include <signal.h>

#include "util.h"

/*
 * Signals belong to the program, so they are blocked in this thread.  SIGSEGV is not: a program may
 * make pages unwritable for a moment and let stores to them wait in its handler, and the kernel
 * ends a process that blocks it.
 */
int ori_thread_start(pthread_t *thread, void *(*body)(void *), void *arg)
{
	sigset_t blocked, old;
	int err;

	sigfillset(&blocked);
	sigdelset(&blocked, SIGSEGV);
	pthread_sigmask(SIG_SETMASK, &blocked, &old);
	err = pthread_create(thread, NULL, body, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}
