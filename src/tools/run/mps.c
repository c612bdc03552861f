/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/mps.c - oriel-run's side of --mps: a private MPS daemon for the job.
 *
 * A keeper (mps_keeper.c), a process of its own, starts and ends the daemon.  A pipe shows it when
 * oriel-run has ended, even by SIGKILL.  This file starts the keeper, waits until the daemon is
 * ready, and sets the variables by which CUDA in the ranks finds the daemon.  Called by main()
 * before and after the job, on the only thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"
#include "util/util.h"

/* Longer than all deadlines of the keeper together: only a keeper that hangs reaches them. */
#define START_NS (45 * ORI_NS_PER_S)
#define STOP_NS (30 * ORI_NS_PER_S)
#define LOOK_MS 50

/*
 * Returns the length of the folder's name; 0: it could not be made.  CUDA makes a unix socket in
 * it, and paths of sockets have at most 107 bytes.
 */
static size_t make_folder(char *folder, size_t size)
{
	const char *where = getenv("TMPDIR");

	if (!where || where[0] != '/' || strlen(where) > 60)
		where = "/tmp";
	snprintf(folder, size, "%s/oriel-mps-XXXXXX", where);
	return mkdtemp(folder) ? strlen(folder) : 0;
}

/*
 * Forks twice, because the keeper must not be our child: the job ends only when no child is left,
 * and it kills children that are not ranks.
 */
static int fork_keeper(const struct run_plan *plan, const char *folder, int hold[2], int say[2])
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -1;
	if (pid == 0) {
		setsid();
		pid = fork();
		if (pid)
			_exit(pid < 0 ? 1 : 0);
		close(hold[1]);
		close(say[0]);
		run_mps_keep(plan, folder, hold[0], say[1]);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	errno = EAGAIN;
	return run_status_failed(status) ? -1 : 0;
}

/* The pending signal that asks us to end; 0: none.  The job's loop does not run yet. */
static int asked_to_end(const struct run_plan *plan)
{
	static const int asking[] = { SIGINT, SIGTERM, SIGQUIT, SIGHUP };
	sigset_t pending;

	sigpending(&pending);
	for (size_t i = 0; i < sizeof(asking) / sizeof(asking[0]); i++)
		if (sigismember(&plan->signals, asking[i]) && sigismember(&pending, asking[i]))
			return asking[i];
	return 0;
}

/*
 * Waits for the next message of the keeper.  1: a text; 0: the keeper has ended; -1: too late; -2:
 * a signal asks us to end.  With `plan` NULL signals are not looked at.
 */
static int hear(const struct run_mps *mps, const struct run_plan *plan, uint64_t within_ns,
		char *text, size_t size)
{
	uint64_t end = ori_deadline_ns(within_ns);
	struct pollfd p = { .fd = mps->say_fd, .events = POLLIN };
	ssize_t n;

	while (poll(&p, 1, LOOK_MS) <= 0) {
		if (plan && asked_to_end(plan))
			return -2;
		if (ori_now_ns() >= end)
			return -1;
	}
	n = read(mps->say_fd, text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Prints each line of the text: a read may return several messages. */
static void print(char *text)
{
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (line[0] != '+')
			fprintf(stderr, "oriel-run: --mps: %s\n", line);
}

static void let_go(struct run_mps *mps)
{
	if (mps->hold_fd >= 0)
		close(mps->hold_fd);
	if (mps->say_fd >= 0)
		close(mps->say_fd);
	mps->hold_fd = mps->say_fd = -1;
}

/* The keeper writes "+" when the daemon answers, or else what failed. */
static int await_ready(const struct run_plan *plan, struct run_mps *mps)
{
	char text[512];
	int heard = hear(mps, plan, START_NS, text, sizeof(text));

	if (heard == 1 && text[0] == '+')
		return 0;
	if (heard == 1)
		print(text);
	else if (heard == -1)
		fprintf(stderr, "oriel-run: --mps: the process that starts MPS does not answer\n");
	else if (heard == 0)
		fprintf(stderr, "oriel-run: --mps: the process that starts MPS has died\n");
	run_mps_stop(mps);
	return heard == -2 ? RUN_EXIT_SIGNAL + asked_to_end(plan) : 1;
}

static int set_variables(const struct run_options *o, const char *folder)
{
	char percent[16];

	if (setenv("CUDA_MPS_PIPE_DIRECTORY", folder, 1) ||
	    setenv("CUDA_MPS_LOG_DIRECTORY", folder, 1))
		return -1;
	snprintf(percent, sizeof(percent), "%d", o->mps_percent);
	return o->mps_percent ? setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percent, 1) : 0;
}

static int start_failed(const char *what)
{
	fprintf(stderr, "oriel-run: --mps: %s: %s\n", what, strerror(errno));
	return 1;
}

int run_mps_start(const struct run_plan *plan, struct run_mps *mps)
{
	int hold[2] = { -1, -1 }, say[2] = { -1, -1 }, code = 1;
	char folder[96];

	mps->hold_fd = mps->say_fd = -1;
	if (!plan->options->mps)
		return 0;
	if (!make_folder(folder, sizeof(folder)))
		return start_failed("cannot create a temporary folder");
	if (pipe2(hold, O_CLOEXEC) || pipe2(say, O_CLOEXEC) ||
	    fork_keeper(plan, folder, hold, say)) {
		code = start_failed("cannot start a process");
		rmdir(folder);
		goto out;
	}
	mps->hold_fd = hold[1];
	mps->say_fd = say[0];
	hold[1] = say[0] = -1;
	close(say[1]); /* otherwise read() would never see the end of the pipe */
	say[1] = -1;
	code = await_ready(plan, mps);
	if (!code && set_variables(plan->options, folder)) {
		code = start_failed("no memory");
		run_mps_stop(mps);
	}
out:
	for (int i = 0; i < 2; i++) {
		if (hold[i] >= 0)
			close(hold[i]);
		if (say[i] >= 0)
			close(say[i]);
	}
	return code;
}

void run_mps_stop(struct run_mps *mps)
{
	char text[512];
	int heard;

	if (mps->hold_fd < 0)
		return;
	close(mps->hold_fd);
	mps->hold_fd = -1;
	while ((heard = hear(mps, NULL, STOP_NS, text, sizeof(text))) == 1)
		print(text);
	if (heard < 0)
		fprintf(stderr, "oriel-run: --mps: the process that ends MPS does not answer\n");
	let_go(mps);
}
