/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/stream.c - lines from ranks, tagged, to oriel-run's own stdout and stderr.
 *
 * job.c reads a stream only while its sink has nothing to write.  So if nobody reads our output,
 * the ranks block when they print, as without a launcher, and memory stays bounded.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

#define READ_BYTES 16384
#define WRITE_BYTES 4096 /* PIPE_BUF: a writable pipe takes this much without blocking */

void run_sink_init(struct run_sink *s, int fd)
{
	memset(s, 0, sizeof(*s));
	s->fd = fd;
}

void run_sink_free(struct run_sink *s)
{
	free(s->text);
	run_sink_init(s, s->fd);
}

int run_sink_pending(const struct run_sink *s)
{
	return s->end > s->begin;
}

/* EPIPE is no error: the reader has read what it needed. */
static void sink_break(struct run_sink *s, int error)
{
	s->broken = 1;
	s->error = error == EPIPE ? 0 : error;
	s->begin = s->end = 0;
}

/* Makes room for `bytes` more.  Without memory the sink is broken. */
static int sink_room(struct run_sink *s, size_t bytes)
{
	size_t size = s->size ? s->size : WRITE_BYTES;
	char *text;

	if (s->broken)
		return 0;
	while (size - s->end < bytes)
		size *= 2;
	if (size == s->size)
		return 1;
	text = realloc(s->text, size);
	if (!text) {
		sink_break(s, ENOMEM);
		return 0;
	}
	s->text = text;
	s->size = size;
	return 1;
}

/*
 * Messages of the library and its tools begin with "oriel: rank 3: " or "oriel-perf: rank 3: ".
 * The tag already says the rank, so it is left out of the message: "[3] oriel: ".  Returns the
 * length of the part before "rank 3: ", and that of "rank 3: " in *skip; 0 for all other lines.
 */
static size_t said_rank(int rank, const char *line, size_t bytes, size_t *skip)
{
	const char *colon = bytes > 5 && !memcmp(line, "oriel", 5) ? memchr(line, ':', bytes) :
								     NULL;
	size_t before = colon ? (size_t)(colon - line) + 2 : 0;
	char text[32];

	*skip = (size_t)snprintf(text, sizeof(text), " rank %d: ", rank) - 1;
	if (!colon || bytes < before + *skip || memcmp(colon + 1, text, *skip + 1)) {
		*skip = 0;
		return 0;
	}
	return before;
}

static void sink_line(struct run_sink *s, int rank, const char *line, size_t bytes)
{
	size_t skip, before = said_rank(rank, line, bytes, &skip);

	if (!sink_room(s, bytes + 32))
		return;
	s->end += (size_t)sprintf(s->text + s->end, "[%d] ", rank);
	memcpy(s->text + s->end, line, before);
	memcpy(s->text + s->end + before, line + before + skip, bytes - before - skip);
	s->end += bytes - skip;
	s->text[s->end++] = '\n';
}

void run_sink_say(struct run_sink *s, const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n >= sizeof(line))
		n = sizeof(line) - 1;
	if (!sink_room(s, (size_t)n + 16))
		return;
	s->end += (size_t)sprintf(s->text + s->end, "oriel-run: %s\n", line);
}

static int sink_writable(const struct run_sink *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLOUT };

	return poll(&p, 1, 0) == 1;
}

/* As many whole lines as one atomic write may have: lines of other processes do not mix in. */
static size_t sink_piece(const struct run_sink *s)
{
	size_t bytes = s->end - s->begin;
	const char *last;

	if (bytes <= WRITE_BYTES)
		return bytes;
	last = memrchr(s->text + s->begin, '\n', WRITE_BYTES);
	return last ? (size_t)(last - (s->text + s->begin)) + 1 : WRITE_BYTES;
}

void run_sink_flush(struct run_sink *s)
{
	while (run_sink_pending(s) && sink_writable(s)) {
		ssize_t n = write(s->fd, s->text + s->begin, sink_piece(s));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) /* another process has filled the pipe */
			return;
		if (n < 0) {
			sink_break(s, errno);
			return;
		}
		s->begin += (size_t)n;
	}
	if (!run_sink_pending(s))
		s->begin = s->end = 0;
}

static void stream_put(struct run_stream *s, int cut)
{
	sink_line(s->sink, s->rank, s->line, s->used);
	s->used = 0;
	s->cut = cut;
}

static void stream_take(struct run_stream *s, const char *text, size_t bytes)
{
	while (bytes) {
		size_t room = sizeof(s->line) - s->used;
		size_t n = bytes < room ? bytes : room;
		const char *newline = memchr(text, '\n', n);

		if (newline)
			n = (size_t)(newline - text);
		memcpy(s->line + s->used, text, n);
		s->used += n;
		text += n;
		bytes -= n;
		if (newline) {
			text++;
			bytes--;
		}
		if (newline && !s->used && s->cut) /* all pieces of the line are written */
			s->cut = 0;
		else if (newline || s->used == sizeof(s->line))
			stream_put(s, !newline);
	}
}

int run_stream_read(struct run_stream *s)
{
	char text[READ_BYTES];
	ssize_t n;

	if (s->fd < 0)
		return 0;
	/*
	 * If the reader of our stdout has gone, the rank gets SIGPIPE, as if it wrote there itself.
	 * Not if the disk is full.
	 */
	if (s->sink->broken && !s->sink->error && s->sink->fd == STDOUT_FILENO) {
		run_stream_end(s);
		return 0;
	}
	n = read(s->fd, text, sizeof(text));
	if (n > 0) {
		stream_take(s, text, (size_t)n);
		return 1;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return errno == EINTR;
	run_stream_end(s);
	return 0;
}

void run_stream_drain(struct run_stream *s)
{
	/* 64 reads are more than a pipe holds.  A limit, because a process may go on writing. */
	for (int i = 0; i < 64 && run_stream_read(s); i++)
		;
}

void run_stream_end(struct run_stream *s)
{
	if (s->fd < 0)
		return;
	if (s->used)
		stream_put(s, 0);
	close(s->fd);
	s->fd = -1;
}
