/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/stream.c - lines from ranks, tagged, to oriel-run's own stdout and stderr.
 *
 * A stream is read only while its sink has nothing pending (job.c sees to that), so a reader that
 * stops reading stops the ranks, as it would without a launcher, and memory stays bounded.
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
#define TAG_BYTES 32
#define WRITE_BYTES 4096 /* PIPE_BUF: a pipe that polls writable takes this much without blocking */

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

/* A reader that has gone is no error: it has read what it wanted. */
static void sink_break(struct run_sink *s, int error)
{
	s->broken = 1;
	s->error = error == EPIPE ? 0 : error;
	s->begin = s->end = 0;
}

/* Room for `bytes` more; without memory the sink counts as broken. */
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

static void sink_line(struct run_sink *s, const char *tag, const char *line, size_t bytes)
{
	if (!sink_room(s, bytes + TAG_BYTES + 1))
		return;
	s->end += (size_t)sprintf(s->text + s->end, "%s", tag);
	memcpy(s->text + s->end, line, bytes);
	s->end += bytes;
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

/* As many whole lines as one write may have, so that others' lines do not get in between. */
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
		if (n < 0 && errno == EAGAIN) /* somebody else filled it first */
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

/*
 * Lines of the library name the rank themselves: "oriel: rank 3: error: ...".  Behind the tag they
 * are "[3] oriel: error: ...".  Returns how many bytes of the line the tag replaces.
 */
static size_t make_tag(const struct run_stream *s, char tag[TAG_BYTES])
{
	size_t own = (size_t)snprintf(tag, TAG_BYTES, "oriel: rank %d: ", s->rank);
	int is_library = !s->cut && s->used >= own && !memcmp(s->line, tag, own);

	snprintf(tag, TAG_BYTES, is_library ? "[%d] oriel: " : "[%d] ", s->rank);
	return is_library ? own : 0;
}

static void stream_put(struct run_stream *s, int cut)
{
	char tag[TAG_BYTES];
	size_t skip = make_tag(s, tag);

	sink_line(s->sink, tag, s->line + skip, s->used - skip);
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
		if (newline && !s->used && s->cut) /* ends a line whose pieces are all out */
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
	/* As if the rank had written there itself: it gets SIGPIPE, but from a full disk it does not. */
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
	/* More than a pipe holds, or a process that keeps writing would keep us here. */
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
