/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/pool.h - runs many small cases, each in its own forked process, several at a time.
 *
 * Most of the time of a case is the wait for a deadline.  So cases wait in parallel, and the
 * deadline need not be short.  For alloc_faults.c, syscall_faults.c, cuda_faults.c and
 * deaths.c, on the main thread.  The process must have no other threads and no other children.
 */
#ifndef ORI_TEST_POOL_H
#define ORI_TEST_POOL_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

#ifndef POOL_WIDTH
#define POOL_WIDTH 48
#endif
#define POOL_HANG_S 100 /* a case that hangs is ended, and has failed */

struct pool {
	int count;            /* of cases */
	int (*wanted)(int i); /* in the test: what ended so far may make it needless */
	void (*run)(int i);   /* in the child; its CHECKs count */
	const char *what;     /* of the cases, for messages */
};

/* Zeroed memory that the cases and the test share; never freed. */
static inline void *pool_shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("shared memory");
		_exit(1);
	}
	return p;
}

static inline pid_t pool_start(const struct pool *pool, int i)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		_exit(1);
	}
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	alarm(POOL_HANG_S);
	check_failures = 0;
	pool->run(i);
	fflush(NULL);
	_exit(check_failures ? 99 : 0);
}

/* Waits until one has ended. */
static inline void pool_collect(const struct pool *pool, pid_t *pids, const int *cases)
{
	int status, at = 0;
	pid_t pid;

	do
		pid = waitpid(-1, &status, 0);
	while (pid < 0 && errno == EINTR);
	while (at < POOL_WIDTH && pids[at] != pid)
		at++;
	if (pid < 0 || at == POOL_WIDTH) {
		fprintf(stderr, "%s: a child that nobody knows\n", __FILE__);
		_exit(1);
	}
	pids[at] = 0;
	if (status)
		check_fail(__FILE__, __LINE__, "%s %d ended with %s %d", pool->what, cases[at],
			   WIFSIGNALED(status) ? "signal" : "status",
			   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static inline void pool_run(const struct pool *pool)
{
	pid_t pids[POOL_WIDTH] = { 0 };
	int cases[POOL_WIDTH] = { 0 }, live = 0, next = 0;

	while (next < pool->count || live) {
		int at = 0;

		if (next < pool->count && !pool->wanted(next)) {
			next++;
			continue;
		}
		if (next == pool->count || live == POOL_WIDTH) {
			pool_collect(pool, pids, cases);
			live--;
			continue;
		}
		while (pids[at])
			at++;
		cases[at] = next;
		pids[at] = pool_start(pool, next++);
		live++;
	}
}

#endif
