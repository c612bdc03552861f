/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/warden.c - a process that ends the rest of a job if oriel-run was killed.
 *
 * After SIGKILL oriel-run cannot act.  The kernel kills the ranks (PR_SET_PDEATHSIG in spawn.c),
 * but processes that the ranks have started go on, as children of init.  The warden is in a session
 * of its own, so signals to oriel-run's group or session do not reach it.  It holds one end of a
 * pipe and waits until oriel-run closes the other.  If oriel-run did not write to the pipe before,
 * the warden kills every process that was started with the job's mark in its environment, until
 * none is left.
 *
 * It cannot find processes that were started with another environment, and cannot kill those of
 * another user.  Called by main(), before and after the job.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"
#include "util/util.h"

#define PAUSE_NS (ORI_NS_PER_S / 50)
#define QUIET_ROUNDS 5 /* scans without a find before it ends: a process may just have started */
#define KILL_NS (10 * ORI_NS_PER_S)
#define STOP_MS 5000

/* ---- in the warden --------------------------------------------------------------------------- */

/* Reads a whole file of /proc, of any size.  NULL: it cannot be read. */
static char *read_whole(int fd, size_t *bytes)
{
	size_t size = 1 << 16;
	char *text = malloc(size), *more;
	ssize_t n;

	*bytes = 0;
	while (text && (n = read(fd, text + *bytes, size - *bytes)) > 0) {
		*bytes += (size_t)n;
		if (*bytes < size)
			continue;
		more = realloc(text, size *= 2);
		if (!more)
			break;
		text = more;
	}
	return text;
}

/* Was the process started with the mark as a variable of its environment? */
static int has_mark(pid_t pid, const char *mark)
{
	size_t length = strlen(mark), bytes, at = 0;
	char path[64], *text;
	int fd, found = 0;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	text = read_whole(fd, &bytes);
	close(fd);
	while (text && !found && at + length < bytes) {
		found = !memcmp(text + at, mark, length) && text[at + length] == '=';
		at += strnlen(text + at, bytes - at) + 1;
	}
	free(text);
	return found;
}

/* Checks the mark again after pidfd_open(): the pid may belong to another process by then. */
static int kill_marked(pid_t pid, const char *mark)
{
	int fd, killed;

	if (!has_mark(pid, mark))
		return 0;
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return errno == ENOSYS && kill(pid, SIGKILL) == 0;
	killed = has_mark(pid, mark) && syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0;
	close(fd);
	return killed;
}

static int kill_all_marked(const char *mark)
{
	DIR *proc = opendir("/proc");
	const struct dirent *e;
	int found = 0;

	while (proc && (e = readdir(proc))) {
		pid_t pid = isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;

		if (pid > 1 && pid != getpid())
			found += kill_marked(pid, mark);
	}
	if (proc)
		closedir(proc);
	return found;
}

static void end_job(const char *mark)
{
	uint64_t until = ori_deadline_ns(KILL_NS);
	int quiet = 0;

	while (quiet < QUIET_ROUNDS && ori_now_ns() < until) {
		quiet = kill_all_marked(mark) ? 0 : quiet + 1;
		ori_sleep_ns(PAUSE_NS);
	}
}

static void keep_watch(const char *mark, int hold_fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	ssize_t n;
	char word;

	/* A program that reads the output of oriel-run must not wait for us. */
	for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	do
		n = read(hold_fd, &word, 1);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		end_job(mark);
}

/* ---- in oriel-run ---------------------------------------------------------------------------- */

/* Forks twice: as our child, it would keep the job from ending, and the job would kill it. */
static int fork_warden(const char *mark, const int hold[2], const int gone[2])
{
	pid_t pid = fork();
	int status = 0;

	if (pid < 0)
		return -1;
	if (pid == 0) {
		setsid();
		pid = fork();
		if (pid)
			_exit(pid < 0 ? 1 : 0);
		close(hold[1]);
		close(gone[0]);
		(void)!chdir("/"); /* do not keep a file system busy */
		keep_watch(mark, hold[0]);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	errno = EAGAIN;
	return run_status_failed(status) ? -1 : 0;
}

static int make_mark(char *mark, size_t size)
{
	uint64_t number;
	int err = ori_random_bytes(&number, sizeof(number));

	/* The mark is the variable's name, so a job inside a job has the marks of both. */
	snprintf(mark, size, "_ORIEL_RUN_%016llx", (unsigned long long)number);
	return err;
}

int run_warden_start(struct run_plan *plan, struct run_warden *w)
{
	int hold[2] = { -1, -1 }, gone[2] = { -1, -1 }, failed;

	w->hold_fd = w->gone_fd = -1;
	if (make_mark(plan->mark, sizeof(plan->mark)))
		return 1;
	failed = pipe2(hold, O_CLOEXEC) || pipe2(gone, O_CLOEXEC) ||
		 fork_warden(plan->mark, hold, gone);
	if (failed)
		fprintf(stderr,
			"oriel-run: cannot start the process that watches over the job: %s\n",
			strerror(errno));
	if (!failed) {
		w->hold_fd = hold[1];
		w->gone_fd = gone[0];
		hold[1] = gone[0] = -1;
	}
	for (int i = 0; i < 2; i++) {
		if (hold[i] >= 0)
			close(hold[i]);
		if (gone[i] >= 0)
			close(gone[i]);
	}
	return failed;
}

void run_warden_stop(struct run_warden *w)
{
	struct pollfd p = { .fd = w->gone_fd, .events = POLLIN };

	if (w->hold_fd < 0)
		return;
	/* If the warden was killed, write() fails, and there is nothing to wait for. */
	if (write(w->hold_fd, "", 1) == 1)
		(void)poll(&p, 1, STOP_MS);
	close(w->hold_fd);
	close(w->gone_fd);
	w->hold_fd = w->gone_fd = -1;
}
