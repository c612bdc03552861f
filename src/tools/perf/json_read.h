/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/json_read.h - a JSON file as a tree of values.
 *
 * json_read.c makes the tree; compare.c looks values up.  One thread.
 */
#ifndef PERF_JSON_READ_H
#define PERF_JSON_READ_H

#include <stddef.h>

enum perf_json_kind { PERF_JSON_WORD, PERF_JSON_NUMBER, PERF_JSON_TEXT, PERF_JSON_LIST };

struct perf_json {
	enum perf_json_kind kind;         /* a word is true, false or null; objects are lists */
	const char *key;                  /* of a member of an object, else NULL */
	const char *text;                 /* PERF_JSON_TEXT, PERF_JSON_WORD */
	double number;                    /* PERF_JSON_NUMBER */
	const struct perf_json *children; /* PERF_JSON_LIST */
	const struct perf_json *next;     /* of the same list */
};

struct perf_json_file;

/* NULL: `why` says what is wrong with the file, and on which line. */
struct perf_json_file *perf_json_read(const char *path, char *why, size_t why_bytes);
const struct perf_json *perf_json_root(const struct perf_json_file *file);
void perf_json_free(struct perf_json_file *file);

/* The member of that name; NULL: there is none, or `object` is NULL. */
const struct perf_json *perf_json_find(const struct perf_json *object, const char *key);
/* Its value if it has that kind, else `other`. */
double perf_json_number(const struct perf_json *object, const char *key, double other);
const char *perf_json_text(const struct perf_json *object, const char *key, const char *other);

#endif
