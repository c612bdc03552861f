/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/json_read.c - reads a JSON file into a tree of values.
 *
 * It accepts what RFC 8259 calls JSON, with two limits: the size of the file and the depth of the
 * tree.  Texts are unescaped in place; of \u only ASCII characters are kept, others become '?',
 * because this program compares names only.  Any bytes give a tree or an error, never a crash.
 * Called by: compare.c on rank 0.
 */
#include "json_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX (64u << 20)
#define DEPTH_MAX 32
#define CHUNK_NODES 256

struct chunk {
	struct chunk *next;
	struct perf_json nodes[CHUNK_NODES];
};

struct perf_json_file {
	char *text;
	struct chunk *chunks;
	int used; /* nodes of the first chunk */
	const struct perf_json *root;
};

struct reader {
	struct perf_json_file *file;
	char *at;
	int depth;
	const char *wrong; /* the first mistake; NULL: none */
};

static struct perf_json *read_value(struct reader *r);

/* ---- characters ------------------------------------------------------------------------------ */

static void *reject(struct reader *r, const char *what)
{
	if (!r->wrong)
		r->wrong = what;
	return NULL;
}

static void skip_blanks(struct reader *r)
{
	r->at += strspn(r->at, " \t\r\n");
}

/* Takes the character if it is the next one behind blanks. */
static int take(struct reader *r, char c)
{
	skip_blanks(r);
	if (*r->at != c)
		return 0;
	r->at++;
	return 1;
}

static struct perf_json *new_node(struct reader *r, enum perf_json_kind kind)
{
	struct perf_json_file *f = r->file;
	struct chunk *c = f->chunks;

	if (!c || f->used == CHUNK_NODES) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return reject(r, "out of memory");
		c->next = f->chunks;
		f->chunks = c;
		f->used = 0;
	}
	c->nodes[f->used].kind = kind;
	return &c->nodes[f->used++];
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Unescapes the character behind a backslash; returns the place behind it, or NULL. */
static char *unescape(char *at, char *out)
{
	static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *letter = *at ? strchr(letters, *at) : NULL;
	unsigned code = 0;

	if (letter) {
		*out = values[letter - letters];
		return at + 1;
	}
	if (*at != 'u' || strspn(at + 1, "0123456789abcdefABCDEF") < 4)
		return NULL;
	if (sscanf(at + 1, "%4x", &code) != 1)
		return NULL;
	*out = code && code < 0x80 ? (char)code : '?';
	return at + 5;
}

/* The text whose opening quotation mark has been taken. */
static const char *read_text(struct reader *r)
{
	char *begin = r->at, *out = begin, *at = begin;

	while (*at && *at != '"') {
		if ((unsigned char)*at < 0x20)
			return reject(r, "a text contains a control character");
		if (*at != '\\') {
			*out++ = *at++;
			continue;
		}
		at = unescape(at + 1, out++);
		if (!at)
			return reject(r, "a text contains an unknown escape");
	}
	if (!*at)
		return reject(r, "a text has no end");
	*out = '\0';
	r->at = at + 1;
	return begin;
}

static struct perf_json *read_number(struct reader *r)
{
	size_t length = strspn(r->at, "+-.0123456789eE");
	struct perf_json *node = new_node(r, PERF_JSON_NUMBER);
	char *end;

	if (!node)
		return NULL;
	node->number = strtod(r->at, &end);
	if (*r->at == '+' || end != r->at + length)
		return reject(r, "a number is not one");
	r->at = end;
	return node;
}

static struct perf_json *read_word(struct reader *r)
{
	static const char *const words[] = { "true", "false", "null" };
	struct perf_json *node;

	for (int i = 0; i < 3; i++) {
		if (strncmp(r->at, words[i], strlen(words[i])) != 0)
			continue;
		r->at += strlen(words[i]);
		node = new_node(r, PERF_JSON_WORD);
		if (node)
			node->text = words[i];
		return node;
	}
	return reject(r, *r->at ? "a value is missing" : "the file ends too early");
}

/* A member of an object (with its key) or of an array. */
static struct perf_json *read_member(struct reader *r, char closing)
{
	const char *key = NULL;
	struct perf_json *node;

	if (closing == '}') {
		if (!take(r, '"'))
			return reject(r, "the name of a member is missing");
		key = read_text(r);
		if (key && !take(r, ':'))
			return reject(r, "a colon is missing");
	}
	node = r->wrong ? NULL : read_value(r);
	if (node)
		node->key = key;
	return node;
}

static struct perf_json *read_list(struct reader *r, char closing)
{
	struct perf_json *list = new_node(r, PERF_JSON_LIST), *member = NULL;
	const struct perf_json **link;

	if (!list || take(r, closing))
		return list;
	if (++r->depth > DEPTH_MAX)
		return reject(r, "values are nested too deeply");
	link = &list->children;
	do {
		member = read_member(r, closing);
		if (!member)
			return NULL;
		*link = member;
		link = &member->next;
	} while (take(r, ','));
	r->depth--;
	return take(r, closing) ? list : reject(r, "a comma or a bracket is missing");
}

static struct perf_json *read_value(struct reader *r)
{
	struct perf_json *node;

	if (take(r, '{'))
		return read_list(r, '}');
	if (take(r, '['))
		return read_list(r, ']');
	if (take(r, '"')) {
		node = new_node(r, PERF_JSON_TEXT);
		if (node)
			node->text = read_text(r);
		return node && node->text ? node : NULL;
	}
	return *r->at == '-' || (*r->at >= '0' && *r->at <= '9') ? read_number(r) : read_word(r);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A pipe or a device could make us wait for ever, so only ordinary files are read. */
static FILE *open_ordinary(const char *path, size_t *bytes)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), bad;
	struct stat st;

	if (fd < 0)
		return NULL;
	bad = fstat(fd, &st) ? errno : !S_ISREG(st.st_mode) ? EINVAL : 0;
	if (!bad && (uint64_t)st.st_size > FILE_BYTES_MAX)
		bad = EFBIG;
	if (bad) {
		close(fd);
		errno = bad;
		return NULL;
	}
	*bytes = (size_t)st.st_size;
	return fdopen(fd, "r");
}

/* Ends with a null byte; NULL: errno says why. */
static char *read_bytes(const char *path, size_t *bytes)
{
	FILE *f = open_ordinary(path, bytes);
	char *text = f ? malloc(*bytes + 1) : NULL;

	if (text) {
		*bytes = fread(text, 1, *bytes, f);
		text[*bytes] = '\0';
	}
	if (f)
		fclose(f);
	return text;
}

static int line_of(const char *text, const char *at)
{
	int line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

struct perf_json_file *perf_json_read(const char *path, char *why, size_t why_bytes)
{
	struct perf_json_file *file = calloc(1, sizeof(*file));
	struct reader r = { .file = file };
	size_t bytes = 0;

	if (file)
		file->text = read_bytes(path, &bytes);
	if (!file || !file->text) {
		snprintf(why, why_bytes, "%s", strerror(errno));
		perf_json_free(file);
		return NULL;
	}
	r.at = file->text;
	file->root = read_value(&r);
	skip_blanks(&r);
	if (!r.wrong && r.at != file->text + bytes)
		reject(&r, "there is more behind the last bracket");
	if (!r.wrong)
		return file;
	snprintf(why, why_bytes, "line %d: %s", line_of(file->text, r.at), r.wrong);
	perf_json_free(file);
	return NULL;
}

const struct perf_json *perf_json_root(const struct perf_json_file *file)
{
	return file->root;
}

void perf_json_free(struct perf_json_file *file)
{
	struct chunk *next;

	if (!file)
		return;
	for (struct chunk *c = file->chunks; c; c = next) {
		next = c->next;
		free(c);
	}
	free(file->text);
	free(file);
}

/* ---- members --------------------------------------------------------------------------------- */

const struct perf_json *perf_json_find(const struct perf_json *object, const char *key)
{
	const struct perf_json *m = object ? object->children : NULL;

	while (m && !(m->key && !strcmp(m->key, key)))
		m = m->next;
	return m;
}

double perf_json_number(const struct perf_json *object, const char *key, double other)
{
	const struct perf_json *m = perf_json_find(object, key);

	return m && m->kind == PERF_JSON_NUMBER ? m->number : other;
}

const char *perf_json_text(const struct perf_json *object, const char *key, const char *other)
{
	const struct perf_json *m = perf_json_find(object, key);

	return m && m->kind == PERF_JSON_TEXT ? m->text : other;
}
