/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/common/progress.c - the line of progress.
 *
 * The terminal is opened anew, so that it does not block: if the user has stopped its output, a
 * line is lost, and no measurement waits for it.  A process of the background could be stopped by
 * SIGTTOU when it writes, so that signal is blocked meanwhile.
 * One thread.
 */
#include "progress.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 256
#define CLEAR "\r\033[K"

static struct {
	int opened;
	int fd; /* -1: nothing is shown */
	int shown;
	int64_t start_s;
} line = { .fd = -1 };

static int64_t now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec;
}

static void open_terminal(void)
{
	const char *term = getenv("TERM"), *given = getenv("_ORIEL_TERMINAL");
	char path[128] = "";

	line.opened = 1;
	line.start_s = now_s();
	if (!term || !*term || !strcmp(term, "dumb"))
		return;
	if (isatty(STDERR_FILENO) && ttyname_r(STDERR_FILENO, path, sizeof(path)))
		return;
	if (!path[0] && given)
		snprintf(path, sizeof(path), "%s", given);
	if (!path[0])
		return;
	line.fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (line.fd >= 0 && !isatty(line.fd)) {
		close(line.fd);
		line.fd = -1;
	}
}

static void write_terminal(const char *text, size_t bytes)
{
	sigset_t mask, before;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTTOU);
	pthread_sigmask(SIG_BLOCK, &mask, &before);
	(void)!write(line.fd, text, bytes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A line that is wider than the terminal could not be removed. */
static size_t columns(void)
{
	struct winsize size;

	return ioctl(line.fd, TIOCGWINSZ, &size) || size.ws_col < 20 ? 80 : size.ws_col;
}

void tool_progress_show(const char *text)
{
	char out[LINE_BYTES];
	size_t most;
	int n;

	if (!line.opened)
		open_terminal();
	if (line.fd < 0)
		return;
	n = snprintf(out, sizeof(out), CLEAR "%.200s, %lld s", text,
		     (long long)(now_s() - line.start_s));
	most = strlen(CLEAR) + columns() - 1;
	write_terminal(out, (size_t)n < most ? (size_t)n : most);
	line.shown = 1;
}

void tool_progress_clear(void)
{
	if (line.fd < 0 || !line.shown)
		return;
	write_terminal(CLEAR, strlen(CLEAR));
	line.shown = 0;
}
