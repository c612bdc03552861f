/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/apart.h - runs a function of a test in a process of its own and keeps what it printed.
 *
 * The driver is found once in the life of a process and does not survive fork(), so tests that need
 * it fresh, broken or in several processes keep their own process free of it.
 */
#ifndef ORI_FAKE_APART_H
#define ORI_FAKE_APART_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "util/util.h"

#define APART_S 120

struct apart {
	pid_t pid;
	int fd;
	int status;      /* of waitpid */
	char text[8192]; /* begin of what it printed on standard error */
};

typedef void apart_fn(void *arg);

/* Failed checks of fn become those of the caller's test at apart_end(). */
static inline void apart_begin(struct apart *a, apart_fn *fn, void *arg)
{
	int fd[2];

	fflush(NULL);
	if (pipe(fd)) {
		perror("pipe");
		abort();
	}
	a->pid = fork();
	if (a->pid == 0) {
		dup2(fd[1], STDERR_FILENO);
		close(fd[0]);
		close(fd[1]);
		alarm(APART_S);
		check_failures = 0;
		fn(arg);
		fflush(NULL);
		_exit(check_failures ? 1 : 0);
	}
	close(fd[1]);
	a->fd = fd[0];
}

/* Reads until the child has ended.  Children have an alarm, so this ends, too. */
static inline void apart_end(struct apart *a)
{
	char rest[1024];
	size_t used = 0;
	ssize_t n;

	for (;;) {
		int full = used == sizeof(a->text) - 1;

		n = read(a->fd, full ? rest : a->text + used,
			 full ? sizeof(rest) : sizeof(a->text) - 1 - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		used += full ? 0 : (size_t)n;
	}
	a->text[used] = '\0';
	close(a->fd);
	while (waitpid(a->pid, &a->status, 0) < 0 && errno == EINTR)
		;
}

/* For a function that should succeed. */
static inline void apart_end_well(struct apart *a)
{
	apart_end(a);
	if (!WIFEXITED(a->status) || WEXITSTATUS(a->status))
		check_fail(__FILE__, __LINE__, "%s", a->text[0] ? a->text : "ended by a signal");
}

static inline void apart_run(struct apart *a, apart_fn *fn, void *arg)
{
	apart_begin(a, fn, arg);
	apart_end_well(a);
}

#endif
