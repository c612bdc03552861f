/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/tune/cache.c - reads the file in which oriel-tune keeps its measurements.
 *
 * It owns the format: lines of words and whole numbers.  The first lines say what the table is
 * valid for.  The last line is a checksum of everything before it.  save.c writes the file.  The
 * contents are untrusted: a file that is not exactly as save.c writes it is refused.  agree.c
 * decides which file a run reads and how a table is used.
 *
 * Any thread.  Called by: agree.c, oriel-tune, tests.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../util/util.h"
#include "tune.h"

const char *const ori_plan_kinds[ORI_PLAN_KINDS] = { "mapped", "queued" };

/* FNV-1a */
uint64_t ori_tune_checksum(const char *text, size_t bytes)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < bytes; i++)
		h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
	return h;
}

/* bad: the input was not as expected; all further calls do nothing. */
struct reader {
	const char *at, *end;
	int bad;
};

static void expect(struct reader *r, const char *text)
{
	size_t n = strlen(text);

	if (r->bad || (size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0)
		r->bad = 1;
	else
		r->at += n;
}

/* A decimal number, at most `most`, as save.c writes it. */
static uint64_t number(struct reader *r, uint64_t most)
{
	const char *start = r->at;
	uint64_t value = 0;

	for (; !r->bad && r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
		uint64_t digit = (uint64_t)(*r->at - '0');

		if (value > (most - digit) / 10)
			r->bad = 1;
		else
			value = value * 10 + digit;
	}
	if (r->at == start)
		r->bad = 1;
	return r->bad ? 0 : value;
}

static uint64_t named(struct reader *r, const char *name, uint64_t most)
{
	expect(r, name);
	expect(r, " ");
	return number(r, most);
}

/* Reads the rest of the line into a text of a key. */
static void line(struct reader *r, const char *name, char *out)
{
	size_t n = 0;

	expect(r, name);
	expect(r, " ");
	for (; !r->bad && r->at < r->end && *r->at != '\n'; r->at++) {
		if (n + 1 >= ORI_TUNE_KEY_BYTES)
			r->bad = 1;
		else
			out[n++] = *r->at;
	}
	out[n] = '\0';
	expect(r, "\n");
}

static void read_key(struct reader *r, struct ori_tune_key *key)
{
	line(r, "device", key->device);
	line(r, "engine", key->engine);
	line(r, "shape", key->shape);
	line(r, "version", key->version);
}

#define NUMBER_MAX 1000000000000000u /* 11 days in ns, a petabyte per second */

static void read_kind(struct reader *r, struct ori_tune_table *t, int k)
{
	t->rows[k] = (uint32_t)named(r, ori_plan_kinds[k], ORI_TUNE_ROWS);
	expect(r, "\n");
	t->model[k].latency_us = (double)named(r, "latency", NUMBER_MAX) / 1e3;
	t->model[k].rate = (double)named(r, " rate", NUMBER_MAX) / 1e3;
	t->model[k].block_rate = (double)named(r, " block_rate", NUMBER_MAX) / 1e3;
	t->model[k].error = (double)named(r, " error", NUMBER_MAX) / 1e3;
	expect(r, "\n");
	for (uint32_t i = 0; !r->bad && i < t->rows[k]; i++) {
		struct ori_tune_row *row = &t->row[k][i];

		row->bytes = named(r, "bytes", UINT64_MAX);
		row->blocks = (uint16_t)named(r, " blocks", ORI_TUNE_BLOCKS_MAX);
		row->warps = (uint16_t)named(r, " warps", ORI_TUNE_WARPS_MAX);
		row->chunk = (uint32_t)named(r, " chunk", ORI_TUNE_CHUNK_MAX);
		row->us = (float)((double)named(r, " ns", NUMBER_MAX) / 1e3);
		expect(r, "\n");
	}
}

static void read_numbers(struct reader *r, struct ori_tune_table *t)
{
	t->overlap = (double)named(r, "overlap", 1000) / 1e3;
	expect(r, "\n");
	t->small = (uint32_t)named(r, "small", 1u << 20);
	expect(r, "\n");
	t->ways.cells = (uint32_t)named(r, "cells", ORI_TUNE_CELLS_MAX);
	t->ways.once = (uint32_t)named(r, " once", ORI_TUNE_ONCE_MAX);
	t->ways.host_once = (uint32_t)named(r, " host_once", ORI_TUNE_ONCE_MAX);
	t->ways.long_from = (uint32_t)named(r, " long_from", ORI_TUNE_LONG_MAX);
	expect(r, "\n");
	for (int k = 0; k < ORI_PLAN_KINDS; k++)
		read_kind(r, t, k);
	if (r->at != r->end)
		r->bad = 1;
}

static int ways_fit(const struct ori_tune_ways *w)
{
	return w->cells <= ORI_TUNE_CELLS_MAX && w->cells % 8 == 0 &&
	       w->once <= ORI_TUNE_ONCE_MAX && w->host_once <= ORI_TUNE_ONCE_MAX &&
	       w->long_from >= ORI_TUNE_LONG_MIN && w->long_from <= ORI_TUNE_LONG_MAX;
}

int ori_tune_table_check(const struct ori_tune_table *t)
{
	if (!(t->overlap >= 0 && t->overlap <= 1) || t->small > 1u << 20)
		return ORIEL_EPROTO;
	if (!ways_fit(&t->ways))
		return ORIEL_EPROTO;
	for (int k = 0; k < ORI_PLAN_KINDS; k++) {
		const struct ori_tune_model *m = &t->model[k];

		if (t->rows[k] > ORI_TUNE_ROWS)
			return ORIEL_EPROTO;
		if (!(m->latency_us >= 0 && m->rate >= 0 && m->block_rate >= 0 && m->error >= 0))
			return ORIEL_EPROTO;
		for (uint32_t i = 0; i < t->rows[k]; i++) {
			const struct ori_tune_row *r = &t->row[k][i];

			if (i && r->bytes <= r[-1].bytes)
				return ORIEL_EPROTO;
			if (r->blocks < 1 || r->blocks > ORI_TUNE_BLOCKS_MAX || r->warps < 1 ||
			    r->warps > ORI_TUNE_WARPS_MAX)
				return ORIEL_EPROTO;
			if (r->chunk < 16 || r->chunk % 16 || r->chunk > ORI_TUNE_CHUNK_MAX ||
			    !(r->us >= 0))
				return ORIEL_EPROTO;
		}
	}
	return 0;
}

/* The last line is "check" and 16 digits; the sum covers all text before it. */
static int check_sum(struct reader *r)
{
	static const size_t tail = 6 + 16 + 1;
	char want[6 + 16 + 2];
	size_t n = (size_t)(r->end - r->at);

	if (n < tail)
		return -1;
	n -= tail;
	snprintf(want, sizeof(want), "check %016llx\n",
		 (unsigned long long)ori_tune_checksum(r->at, n));
	if (memcmp(r->at + n, want, tail) != 0)
		return -1;
	r->end -= tail;
	return 0;
}

static int differs(const char *what, const char *theirs, const char *ours, char *why, size_t bytes)
{
	if (!strcmp(theirs, ours))
		return 0;
	snprintf(why, bytes, "it is for %s \"%s\", and this is \"%s\"", what, theirs, ours);
	return 1;
}

static int parse(const char *text, size_t n, const struct ori_tune_key *key,
		 struct ori_tune_table *out, char *why, size_t bytes)
{
	struct reader r = { text, text + n, 0 };
	struct ori_tune_table t;
	struct ori_tune_key theirs;
	char head[32];

	memset(&t, 0, sizeof(t));
	snprintf(head, sizeof(head), "oriel-tune %d\n", ORI_TUNE_VERSION);
	snprintf(why, bytes, "it is no tuning file of this version, or damaged");
	expect(&r, head);
	r.at = text;
	if (r.bad || check_sum(&r))
		return ORIEL_EPROTO;
	expect(&r, head);
	read_key(&r, &theirs);
	if (!r.bad && (differs("device", theirs.device, key->device, why, bytes) ||
		       differs("engine", theirs.engine, key->engine, why, bytes) ||
		       differs("topology", theirs.shape, key->shape, why, bytes) ||
		       differs("version", theirs.version, key->version, why, bytes)))
		return ORIEL_EMISMATCH;
	read_numbers(&r, &t);
	if (r.bad || ori_tune_table_check(&t))
		return ORIEL_EPROTO;
	*out = t;
	why[0] = '\0';
	return 0;
}

/* Reads only a plain file: a pipe in its place must not block the run. */
static ssize_t read_whole(const char *path, char *text, size_t room, char *why, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t n = -1;
	size_t have = 0;

	if (fd < 0) {
		snprintf(why, bytes, "it cannot be opened: %s", strerror(errno));
		return errno == ENOENT ? -2 : -1;
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		snprintf(why, bytes, "it is no plain file");
		close(fd);
		return -1;
	}
	while (have < room && (n = read(fd, text + have, room - have)) != 0) {
		if (n < 0 && errno != EINTR)
			break;
		if (n > 0)
			have += (size_t)n;
	}
	if (n < 0)
		snprintf(why, bytes, "it cannot be read: %s", strerror(errno));
	close(fd);
	return n < 0 ? -1 : (ssize_t)have;
}

int ori_tune_load(const char *path, const struct ori_tune_key *key, struct ori_tune_table *t,
		  char *why, size_t bytes)
{
	char *text = malloc(ORI_TUNE_FILE_BYTES);
	ssize_t n;
	int err;

	if (!text) {
		snprintf(why, bytes, "no memory");
		return ORIEL_ENOMEM;
	}
	n = read_whole(path, text, ORI_TUNE_FILE_BYTES, why, bytes);
	if (n < 0)
		err = n == -2 ? ORIEL_EUNSUPPORTED : ORIEL_ESYSTEM;
	else
		err = parse(text, (size_t)n, key, t, why, bytes);
	free(text);
	return err;
}

const struct ori_tune_row *ori_tune_row(const struct ori_tune_table *t, int kind, uint64_t bytes)
{
	uint32_t i = 0;

	if (!t->rows[kind])
		return NULL;
	while (i + 1 < t->rows[kind] && bytes > t->row[kind][i].bytes)
		i++;
	return &t->row[kind][i];
}
