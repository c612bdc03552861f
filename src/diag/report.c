/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/report.c - writes and reads reports (report.h).
 *
 * Pure functions on texts.  A text may come from another machine: numbers are checked, and texts
 * are cut to their fields.  Called on any thread, and by oriel-doctor.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/device/types.h>

#include "diag.h"
#include "report.h"

/* ---- writing --------------------------------------------------------------------------------- */

void ori_lines_begin(struct ori_lines *l, char *text, size_t bytes)
{
	l->text = text;
	l->bytes = bytes;
	l->used = 0;
	text[0] = '\0';
}

void ori_lines_add(struct ori_lines *l, const char *fmt, ...)
{
	size_t left = l->bytes - l->used;
	char *begin = l->text + l->used;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(begin, left, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n + 2 > left) {
		begin[0] = '\0';
		return;
	}
	for (char *c = begin; *c; c++) /* a text from outside stays one line */
		if ((unsigned char)*c < 0x20)
			*c = ' ';
	begin[n] = '\n';
	begin[n + 1] = '\0';
	l->used += (size_t)n + 1;
}

static int in_job(const struct ori_report_comm *c, int rank)
{
	if (rank < 0 || rank >= c->nranks)
		return -1;
	return c->world ? c->world[rank] : rank;
}

void ori_report_board(struct ori_lines *l, const struct ori_report_comm *c,
		      const struct oriel_board *board)
{
	struct oriel_board_slot slot;

	for (int n = 0; n < ORIEL_BOARD_SLOTS; n++) {
		int peer;

		if (!ori_board_read(board, n, &slot))
			continue;
		peer = slot.peer;
		if (ORIEL_OP_OF(slot.op) == ORIEL_OP_SIGNAL_SUM && c->late_source)
			peer = c->late_source(c->ctx, slot.window, slot.id);
		ori_lines_add(l,
			      "wait %" PRIx64 " %d %d %d %d %d %" PRIu64 " %" PRIu64 " %" PRIu64
			      " %s",
			      c->key, slot.op,
			      ori_diag_is_window_word(&slot) ? peer : in_job(c, peer), slot.id,
			      slot.window, slot.block, slot.have, slot.want,
			      ori_diag_age_ns(slot.since_ns) / 1000,
			      ori_diag_call_text(slot.op, slot.window));
	}
}

/* ---- reading --------------------------------------------------------------------------------- */

void ori_report_clear(struct ori_report *r)
{
	memset(r, 0, sizeof(*r));
	r->rank = -1;
	r->told_us = UINT64_MAX;
}

static void read_who(struct ori_report *r, const char *line)
{
	struct ori_report got = *r;

	if (sscanf(line, "%d %d %" SCNx64 " %d %d %63s %31s", &got.rank, &got.ranks, &got.job,
		   &got.pid, &got.node, got.host, got.device) == 7 &&
	    got.rank >= 0 && got.rank < got.ranks)
		*r = got;
}

static struct ori_report_wait *next_wait(struct ori_report *r)
{
	struct ori_report_wait *w = &r->waits[r->nwaits];

	if (r->nwaits == ORI_REPORT_WAITS) {
		r->more++;
		return NULL;
	}
	memset(w, 0, sizeof(*w));
	return w;
}

static void read_wait(struct ori_report *r, const char *line)
{
	struct ori_report_wait *w = next_wait(r);

	if (w &&
	    sscanf(line, "%" SCNx64 " %d %d %d %d %d %" SCNu64 " %" SCNu64 " %" SCNu64 " %47[^\n]",
		   &w->comm, &w->op, &w->peer, &w->id, &w->window, &w->block, &w->have, &w->want,
		   &w->age_us, w->call) == 10)
		r->nwaits++;
}

static void read_round(struct ori_report *r, const char *line)
{
	struct ori_report_wait *w = next_wait(r);

	if (w && sscanf(line, "%" SCNx64 " %" SCNu64 " %63s %47[^\n]", &w->comm, &w->age_us,
			w->members, w->call) == 4) {
		w->op = ORI_REPORT_ROUND;
		w->peer = w->window = -1;
		r->nwaits++;
	}
}

static void read_queue(struct ori_report *r, const char *line)
{
	struct ori_report_queue *q = &r->queues[r->nqueues];

	if (r->nqueues < ORI_REPORT_QUEUES &&
	    sscanf(line, "%d %d %" SCNu64 " %" SCNu64 " %d", &q->peer, &q->lane, &q->posted,
		   &q->complete, &q->status) == 5)
		r->nqueues++;
}

static void read_text(char *out, size_t bytes, const char *line)
{
	snprintf(out, bytes, "%.*s", (int)strcspn(line, "\n"), line);
}

static void read_line(struct ori_report *r, const char *word, const char *rest)
{
	if (!strcmp(word, "who"))
		read_who(r, rest);
	else if (!strcmp(word, "wait"))
		read_wait(r, rest);
	else if (!strcmp(word, "round"))
		read_round(r, rest);
	else if (!strcmp(word, "queue"))
		read_queue(r, rest);
	else if (!strcmp(word, "kinds"))
		read_text(r->kinds, sizeof(r->kinds), rest);
	else if (!strcmp(word, "told"))
		r->told_us = strtoull(rest, NULL, 10);
	else if (!strcmp(word, "windows"))
		r->windows += atoi(rest);
	else if (!strcmp(word, "failure"))
		read_text(r->failure, sizeof(r->failure), rest);
	else if (!strcmp(word, "syndrome"))
		read_text(r->syndrome, sizeof(r->syndrome), rest);
	else if (!strcmp(word, "engine"))
		read_text(r->engine, sizeof(r->engine), rest);
	else if (!strcmp(word, "silent"))
		read_text(r->silent, sizeof(r->silent), rest);
}

void ori_report_parse(struct ori_report *r, const char *text)
{
	char word[16];
	int used;

	while (*text) {
		used = 0;
		if (sscanf(text, "%15[a-z] %n", word, &used) == 1 && used)
			read_line(r, word, text + used);
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
}

/* ---- texts ----------------------------------------------------------------------------------- */

void ori_report_wait_text(const struct ori_report_wait *w, char *out, size_t bytes)
{
	struct oriel_board_slot slot = { .op = w->op,
					 .peer = w->peer,
					 .id = w->id,
					 .window = w->window,
					 .block = w->block,
					 .have = w->have,
					 .want = w->want };

	if (w->op == ORI_REPORT_ROUND)
		snprintf(out, bytes, "ranks that have not called it");
	else if (w->op == ORI_REPORT_FETCH)
		snprintf(out, bytes, "memory of rank %d", w->peer);
	else
		ori_diag_wait_text(&slot, out, bytes);
}

int ori_report_is_member(const char *members, int rank)
{
	int first, last, used;

	if (members[0] == '*')
		return 1;
	while (sscanf(members, "%d%n", &first, &used) == 1) {
		members += used;
		last = first;
		if (sscanf(members, "-%d%n", &last, &used) == 1)
			members += used;
		if (rank >= first && rank <= last)
			return 1;
		if (*members++ != ',')
			return 0;
	}
	return 0;
}
