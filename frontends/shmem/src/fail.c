/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fail.c - how a job ends early: errors, and shmem_global_exit().
 *
 * Calls of OpenSHMEM return no status.  So an error prints one line with the PE, the call and the
 * reason, and ends the job.
 *
 * shmem_global_exit() must also end PEs that compute and call nothing.  A thread per PE sleeps on
 * the PE's exit word.  Any PE can store to that word: mapped PEs wake the thread, and for queued
 * ones it looks at the word ten times per second.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "osh.h"

#define LOOK_NS 100000000
#define FLUSH_S 2    /* the most that output may take at an early end */
#define CAUSE_MS 150 /* how long the death of another PE may take, in most cases */
#define TELL_S 1     /* the most that shmem_global_exit() waits for queued PEs */

static pthread_t watcher;
static int watching;

/* ---- ending ---------------------------------------------------------------------------------- */

static volatile sig_atomic_t leave_status;

static void leave_now(int sig)
{
	(void)sig;
	_exit(leave_status);
}

/*
 * Ends this process at once, after its output is written.  Another thread may hold the lock of a
 * stream for ever, for example in fgets().  Then the alarm ends the process, with the same status.
 * The alarm needs a thread that does not block it: this one.
 */
static void leave(int status) __attribute__((noreturn));
static void leave(int status)
{
	struct sigaction act = { .sa_handler = leave_now };
	sigset_t alarm_only;

	leave_status = status;
	sigemptyset(&act.sa_mask);
	sigaction(SIGALRM, &act, NULL);
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
	alarm(FLUSH_S);
	fflush(NULL);
	_exit(status);
}

/* Is this process a PE, and not a child that it forked? */
static int is_pe(void)
{
	return osh.comm && osh.pid == getpid();
}

static void leave_if_told(void)
{
	uint32_t word;

	if (!is_pe() || !osh.control)
		return;
	/* Relaxed: the word is all that is read. */
	word = __atomic_load_n(&osh.control->exit, __ATOMIC_RELAXED);
	if (word & OSH_EXIT)
		leave((int)(word & 0xff));
}

static void fail_with(const char *call, const char *text) __attribute__((noreturn));
static void fail_with(const char *call, const char *text)
{
	char line[1024];
	int pe = osh.pid ? osh.pe : -1, n; /* known from shmem_init() on, and after the comm */

	if (pe < 0)
		n = snprintf(line, sizeof(line), "shmem: %s: %s\n", call, text);
	else
		n = snprintf(line, sizeof(line), "shmem: PE %d: %s: %s\n", pe, call, text);
	if (n >= (int)sizeof(line)) {
		n = sizeof(line) - 1;
		line[n - 1] = '\n';
	}
	/* One write: lines of several PEs do not mix. */
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		(void)errno; /* there is nobody left to tell */
	if (is_pe()) {
		/* The PE that is the cause should be seen to end before those that notice it. */
		if (oriel_comm_status(osh.comm))
			usleep(CAUSE_MS * 1000u);
		(void)oriel_comm_abort(osh.comm, ORIEL_EABORTED);
	}
	leave(1);
}

void osh_fail(const char *call, const char *format, ...)
{
	char text[900];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	fail_with(call, text);
}

void osh_fail_status(const char *call, int err)
{
	const char *text;

	leave_if_told();
	/* A device call keeps no text: the window has it. */
	if (osh.window)
		(void)oriel_window_status(osh.window);
	text = oriel_last_error();
	osh_fail(call, "%s", *text ? text : oriel_status_text(err));
}

void osh_fail_pe(const char *call, int pe, int npes)
{
	osh_check_ready(call);
	osh_fail(call, "PE %d does not exist (PEs are 0 to %d)", pe, npes - 1);
}

void osh_fail_not_ready(const char *call)
{
	osh_fail(call, "the library is not initialised: call shmem_init() first");
}

void osh_fail_ctx(const char *call)
{
	osh_fail(call, "the context is SHMEM_CTX_INVALID");
}

void osh_fail_address(const char *call, const char *what, const void *address, uint64_t bytes)
{
	const struct osh_region *r;
	unsigned int i;

	osh_check_ready(call);
	for (i = 0; i < osh.nregions; i++) {
		r = &osh.regions[i];
		if ((uintptr_t)address - r->base < r->bytes)
			osh_fail(call,
				 "%s %p with %llu bytes goes beyond the end of %s: %llu bytes are "
				 "left there",
				 what, address, (unsigned long long)bytes, r->name,
				 (unsigned long long)(r->bytes - ((uintptr_t)address - r->base)));
	}
	osh_fail(call,
		 "%s %p is not symmetric: use memory of shmem_malloc(), or a global or static "
		 "variable",
		 what, address);
}

void osh_debug(const char *format, ...)
{
	char text[900];
	va_list list;

	if (!osh.debug)
		return;
	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	fprintf(stderr, "shmem: PE %d: %s\n", osh.pe, text);
}

/* ---- shmem_global_exit() --------------------------------------------------------------------- */

/* Signals of the program are for its own threads. */
static int start_thread(pthread_t *thread, void *(*body)(void *), void *arg)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(thread, NULL, body, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

/* Stores the word of every mapped PE and wakes its thread. */
static void tell_mapped(uint32_t word)
{
	struct osh_control *c;
	int pe;

	for (pe = 0; pe < (int)osh.npes; pe++) {
		c = (struct osh_control *)osh.peers[pe];
		if (!c || pe == osh.pe)
			continue;
		/* Relaxed: the word publishes nothing. */
		__atomic_store_n(&c->exit, word, __ATOMIC_RELAXED);
		syscall(SYS_futex, &c->exit, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
}

static void *tell_queued(void *arg)
{
	const uint64_t at = offsetof(struct osh_control, exit);
	uint32_t word = (uint32_t)(uintptr_t)arg;
	int pe;

	for (pe = 0; pe < (int)osh.npes; pe++)
		if (!osh.peers[pe])
			(void)oriel_put_value(&osh.dev, osh.context.group, pe, at, &word,
					      sizeof(word));
	(void)oriel_flush_all(&osh.dev, osh.context.group);
	return NULL;
}

/*
 * A full queue to a PE that does not answer holds a post until the comm's deadline: a post that has
 * its place in the queue cannot give up.  So a thread makes the posts, and this one waits for it
 * as long as it wants.
 */
static void tell_queued_soon(uint32_t word)
{
	struct timespec until;
	pthread_t thread;

	if (start_thread(&thread, tell_queued, (void *)(uintptr_t)word)) {
		(void)tell_queued((void *)(uintptr_t)word);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += TELL_S;
	(void)pthread_timedjoin_np(thread, NULL, &until);
}

void shmem_global_exit(int status)
{
	uint32_t word = OSH_EXIT | ((uint32_t)status & 0xff);

	if (!is_pe())
		leave(status);
	tell_mapped(word);
	if (osh.nqueued)
		tell_queued_soon(word);
	leave(status);
}

static void *watch(void *unused)
{
	const struct timespec look = { 0, LOOK_NS };
	uint32_t word;

	(void)unused;
	/* Relaxed: the word is all that is read. */
	while (!(word = __atomic_load_n(&osh.control->exit, __ATOMIC_RELAXED)))
		syscall(SYS_futex, &osh.control->exit, FUTEX_WAIT, 0, osh.nqueued ? &look : NULL,
			NULL, 0);
	if (word & OSH_EXIT)
		leave((int)(word & 0xff));
	return NULL;
}

void osh_watch_start(void)
{
	int err = start_thread(&watcher, watch, NULL);

	if (err)
		osh_fail("shmem_init", "cannot start a thread: %s", strerror(err));
	watching = 1;
}

void osh_watch_stop(void)
{
	uint32_t none = 0;

	if (!watching)
		return;
	/* If the job is ending, the word stays, and the thread ends this process. */
	__atomic_compare_exchange_n(&osh.control->exit, &none, OSH_STOP, 0, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	syscall(SYS_futex, &osh.control->exit, FUTEX_WAKE, 1, NULL, NULL, 0);
	pthread_join(watcher, NULL);
	watching = 0;
}
