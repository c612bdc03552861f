/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/log.c - the log lines, and the text of each thread's last failure.
 *
 * Owns the log level (one per process) and two thread-local values: the thread's rank and its last
 * error.  The meaning of a status is in status.c.
 *
 * Called on any thread.  No locks: a line is built on the caller's stack and written with one call.
 * The kernel does not mix such a write with other writes to the same pipe.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util.h"

#define LINE_BYTES 1024
#define TEXT_BYTES 640

static int log_level = ORI_LOG_WARN; /* atomic, relaxed: orders nothing else */
static _Thread_local int log_rank = -1;
static _Thread_local char last_error[TEXT_BYTES];
static _Thread_local uint64_t last_error_count;

static const char *const level_words[] = { "error: ", "warning: ", "info: ", "debug: " };

void ori_log_level_set(enum ori_log_level level)
{
	__atomic_store_n(&log_level, (int)level, __ATOMIC_RELAXED);
}

enum ori_log_level ori_log_level_get(void)
{
	return (enum ori_log_level)__atomic_load_n(&log_level, __ATOMIC_RELAXED);
}

void ori_log_rank_set(int rank)
{
	log_rank = rank;
}

int ori_log_rank_get(void)
{
	return log_rank;
}

/*
 * A text may come from another rank or the environment.  Control characters are replaced, so that
 * it stays one line.
 */
static void make_printable(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = ' ';
	}
}

static void write_line(const char *line, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(STDERR_FILENO, line, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* stderr is closed: nothing can be reported */
		line += n;
		bytes -= (size_t)n;
	}
}

/* `word` is the level and ": ", or "". */
static void emit_word(const char *word, const char *text)
{
	char line[LINE_BYTES];
	int n;

	if (log_rank >= 0)
		n = snprintf(line, sizeof(line) - 1, "oriel: rank %d: %s%s", log_rank, word, text);
	else
		n = snprintf(line, sizeof(line) - 1, "oriel: %s%s", word, text);
	if (n < 0)
		return;
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n] = '\0';
	make_printable(line);
	line[n] = '\n';
	write_line(line, (size_t)n + 1);
}

static void emit(enum ori_log_level level, const char *text)
{
	emit_word(level_words[level], text);
}

void ori_log(enum ori_log_level level, const char *fmt, ...)
{
	char text[LINE_BYTES - 64];
	int saved = errno;
	va_list ap;

	if (level > ori_log_level_get())
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	emit(level, text);
	errno = saved;
}

void ori_log_answer(const char *fmt, ...)
{
	char text[LINE_BYTES - 64];
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	emit_word("", text);
	errno = saved;
}

/* The new text may quote the old one, so it is built in another buffer and then copied. */
static void keep(const char *text)
{
	size_t n = strnlen(text, sizeof(last_error) - 1);

	memcpy(last_error, text, n);
	last_error[n] = '\0';
	make_printable(last_error);
	last_error_count++;
}

int ori_fail(int status, const char *fmt, ...)
{
	char text[TEXT_BYTES];
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	keep(text);
	emit(ORI_LOG_ERROR, text);
	errno = saved;
	return status;
}

int ori_fail_silent(int status, const char *fmt, ...)
{
	char text[TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	keep(text);
	return status;
}

const char *ori_errno_text(int error, char *text, size_t bytes)
{
	struct rlimit files = { 0, 0 };
	char reason[128];

	if (error == EMFILE && !getrlimit(RLIMIT_NOFILE, &files))
		snprintf(text, bytes,
			 "%s; this process may have %llu, raise that limit (ulimit -n)",
			 strerror_r(error, reason, sizeof(reason)),
			 (unsigned long long)files.rlim_cur);
	else
		snprintf(text, bytes, "%s", strerror_r(error, reason, sizeof(reason)));
	return text;
}

int ori_fail_errno(int error, const char *fmt, ...)
{
	char text[TEXT_BYTES], reason[192];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return ori_fail(ORIEL_ESYSTEM, "%s: %s", text,
			ori_errno_text(error, reason, sizeof(reason)));
}

const char *ori_last_error_text(void)
{
	return last_error;
}

uint64_t ori_last_error_count(void)
{
	return last_error_count;
}

void ori_last_error_clear(void)
{
	last_error[0] = '\0';
}
