/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/child.c - runs another program with input from memory, for a limited time.
 *
 * The program may end before it has read its input, or not read at all: writing never blocks, and
 * SIGPIPE is ignored meanwhile.
 * Called by: plot.c on rank 0, while no kernel runs.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_MS 5

extern char **environ;

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int start(char *const argv[], int in_fd, int out_fd, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	int err = posix_spawn_file_actions_init(&actions);

	if (err)
		return -err;
	err = posix_spawn_file_actions_adddup2(&actions, in_fd, STDIN_FILENO);
	if (!err)
		err = posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
	if (!err)
		err = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -err;
}

/* Writes until all is written, the reader has gone, or the time is over. */
static void feed(int fd, const char *input, size_t bytes, int64_t until_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	while (bytes && now_ms() < until_ms) {
		ssize_t n = write(fd, input, bytes);

		if (n > 0) {
			input += n;
			bytes -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			(void)poll(&p, 1, PAUSE_MS);
		} else if (n < 0 && errno != EINTR) {
			return;
		}
	}
}

static int await(pid_t pid, int64_t until_ms)
{
	int status, late = 0;
	pid_t ended;

	while ((ended = waitpid(pid, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
		if (!late && now_ms() >= until_ms) {
			late = 1;
			kill(pid, SIGKILL);
		}
		(void)poll(NULL, 0, PAUSE_MS);
	}
	if (ended < 0)
		return -errno;
	if (late)
		return -ETIMEDOUT;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int perf_child_run(char *const argv[], const char *input, size_t bytes, int out_fd, int seconds)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	int64_t until_ms = now_ms() + (int64_t)seconds * 1000;
	int in[2], status;
	pid_t pid = 0;

	if (pipe2(in, O_CLOEXEC))
		return -errno;
	status = start(argv, in[0], out_fd, &pid);
	close(in[0]);
	if (!status && !fcntl(in[1], F_SETFL, O_NONBLOCK)) {
		sigaction(SIGPIPE, &ignore, &before);
		feed(in[1], input, bytes, until_ms);
		sigaction(SIGPIPE, &before, NULL);
	}
	close(in[1]);
	return status ? status : await(pid, until_ms);
}
