/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/engine.c - what the engine of queued peers has counted, summed over the ranks.
 *
 * The library gives a line such as "soft: wqes 12, packets sent 30 received 28": a name, then
 * numbers, each behind its words.  This file knows only this format, so an engine may count
 * anything.
 * Called by main.c after the last row, on the host thread of all ranks.
 */
#include "perf.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 320

/* Copies the words before a number, with single blanks.  Returns the number's place, or NULL. */
static const char *take_key(const char *at, char *key, size_t key_bytes)
{
	size_t n = 0;

	for (; *at && !isdigit((unsigned char)*at); at++) {
		if (isalpha((unsigned char)*at) && n + 1 < key_bytes)
			key[n++] = *at;
		else if (*at == ' ' && n && n + 1 < key_bytes && key[n - 1] != ' ')
			key[n++] = ' ';
	}
	while (n && key[n - 1] == ' ')
		n--;
	key[n] = '\0';
	return *at ? at : NULL;
}

static void add_count(struct perf_engine *e, const char *key, uint64_t count)
{
	int i = 0;

	while (i < e->n && strcmp(e->counts[i].key, key))
		i++;
	if (i == PERF_COUNTS)
		return;
	if (i == e->n) {
		memset(&e->counts[i], 0, sizeof(e->counts[i]));
		snprintf(e->counts[i].key, sizeof(e->counts[i].key), "%s", key);
		e->n++;
	}
	e->counts[i].count += count;
}

static void add_line(struct perf_engine *e, const char *line)
{
	const char *at = strchr(line, ':');
	char key[32], *end;

	/* A rank without queued peers has the name "none", which is ignored. */
	if (!e->name[0] || at)
		snprintf(e->name, sizeof(e->name), "%.*s", (int)strcspn(line, ":"), line);
	if (!at)
		return;
	for (at = take_key(at + 1, key, sizeof(key)); at; at = take_key(end, key, sizeof(key)))
		add_count(e, key, strtoull(at, &end, 10));
}

int perf_engine_gather(struct perf_job *job)
{
	char mine[LINE_BYTES] = "", *all = calloc((size_t)job->nranks, LINE_BYTES);
	int err = all ? oriel_comm_engine(job->comm, mine, sizeof(mine)) : ORIEL_ENOMEM;

	err = perf_agree(job, err, "asking the engine");
	if (!err)
		err = oriel_comm_allgather(job->comm, ORIEL_WORLD, mine, all, LINE_BYTES);
	memset(&job->engine, 0, sizeof(job->engine));
	for (int r = 0; !err && r < job->nranks; r++)
		add_line(&job->engine, all + (size_t)r * LINE_BYTES);
	free(all);
	return err;
}
