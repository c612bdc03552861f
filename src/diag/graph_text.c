/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/graph_text.c - a graph in words: one line per wait, then the verdict.
 *
 * The verdict comes last, because a terminal shows the last lines.  Called on any thread, and by
 * oriel-doctor.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <oriel/oriel.h>

#include "graph.h"

#define RANKS_SAID 64 /* in a log, which a large job must not flood */

struct speech {
	void (*say)(void *ctx, const char *line);
	void *ctx;
};

__attribute__((format(printf, 2, 3))) static void say(const struct speech *s, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	s->say(s->ctx, line);
}

const char *ori_mark_text(int mark)
{
	switch (mark) {
	case ORI_MARK_WAITS:
		return "waits";
	case ORI_MARK_LATE:
		return "late";
	case ORI_MARK_STUCK:
		return "stuck";
	case ORI_MARK_DEADLOCK:
		return "deadlock";
	default:
		return "runs";
	}
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void say_waits(const struct speech *s, const struct ori_report *r, int rank)
{
	char text[192];

	for (int i = 0; i < r->nwaits; i++) {
		const struct ori_report_wait *w = &r->waits[i];

		ori_report_wait_text(w, text, sizeof(text));
		say(s, "  rank %d waits %.1f s in %s for %s", rank, (double)w->age_us * 1e-6,
		    w->call, text);
	}
	if (r->more)
		say(s, "  rank %d has %d more waits", rank, r->more);
}

static void say_rank(const struct speech *s, const struct ori_report *r, int rank)
{
	if (r->silent[0])
		say(s, "  rank %d does not answer: %s", rank, r->silent);
	if (r->rank < 0 && !r->silent[0])
		say(s, "  rank %d: nothing is known of it", rank);
	say_waits(s, r, rank);
	if (r->rank >= 0 && !r->silent[0] && !r->nwaits)
		say(s, "  rank %d waits for nothing in Oriel", rank);
}

static void say_detail(const struct speech *s, const struct ori_report *r, int rank)
{
	for (int i = 0; i < r->nqueues; i++) {
		const struct ori_report_queue *q = &r->queues[i];

		say(s, "  rank %d queue to %d, lane %d: %llu posted, %llu seen complete%s%s", rank,
		    q->peer, q->lane, (unsigned long long)q->posted,
		    (unsigned long long)q->complete, q->status ? ", failed: " : "",
		    q->status ? oriel_status_name(q->status) : "");
	}
	if (r->syndrome[0])
		say(s, "  rank %d last error of a queue: %s", rank, r->syndrome);
	if (r->failure[0])
		say(s, "  rank %d has failed: %s", rank, r->failure);
	if (r->engine[0])
		say(s, "  rank %d engine: %s", rank, r->engine);
}

/* ---- verdict --------------------------------------------------------------------------------- */

void ori_graph_cycle_text(const struct ori_graph *g, int rank, char *out, size_t bytes)
{
	size_t at = (size_t)snprintf(out, bytes, "rank %d", rank);
	int next = rank;

	do {
		next = g->next[next];
		if (at < bytes)
			at += (size_t)snprintf(out + at, bytes - at, " waits for %d", next);
	} while (next != rank);
	if (at >= bytes && bytes > 4)
		memcpy(out + bytes - 4, "...", 4);
}

static void say_late(const struct speech *s, const struct ori_graph *g, int rank)
{
	const struct ori_report *r = &g->reports[rank];
	char who[128], text[192] = "waits for nothing in Oriel";
	int n = ori_graph_waiters(g, rank, who, sizeof(who));

	if (r->silent[0])
		snprintf(text, sizeof(text), "does not answer: %s", r->silent);
	else if (r->nwaits)
		ori_report_wait_text(&r->waits[0], text, sizeof(text));
	say(s, "late: rank %d %s%s; %d rank%s wait%s for it (%s)", rank,
	    r->nwaits && !r->silent[0] ? "waits for " : "", text, n, n == 1 ? "" : "s",
	    n == 1 ? "s" : "", who);
}

/* No rank is late, and there is no deadlock. */
static void say_nothing_found(const struct speech *s, const struct ori_graph *g)
{
	int waiting = 0;

	for (int r = 0; r < g->nranks; r++)
		waiting += g->reports[r].nwaits > 0;
	if (ori_graph_has_old_wait(g))
		say(s, "no deadlock, and no late rank: the waits are for a rank's own operations, "
		       "blocks or signals");
	else if (waiting)
		say(s, "no deadlock, and no late rank: the waits have just begun");
	else
		say(s, "no rank waits");
}

static void say_verdict(const struct speech *s, const struct ori_graph *g)
{
	char cycle[400];
	int late = 0;

	for (int r = 0; r < g->nranks; r++) {
		late += g->marks[r] == ORI_MARK_LATE;
		if (g->marks[r] == ORI_MARK_LATE)
			say_late(s, g, r);
	}
	for (int r = 0; r < g->nranks; r++) {
		if (!ori_graph_begins_cycle(g, r))
			continue;
		ori_graph_cycle_text(g, r, cycle, sizeof(cycle));
		say(s, "deadlock: %s", cycle);
	}
	if (!late && !g->deadlocks)
		say_nothing_found(s, g);
}

void ori_graph_print(const struct ori_graph *g, int detail,
		     void (*say_line)(void *ctx, const char *line), void *ctx)
{
	struct speech s = { say_line, ctx };

	for (int r = 0; r < g->nranks; r++) {
		if (!detail && r == RANKS_SAID) {
			say(&s, "  and %d more ranks: oriel-doctor shows them", g->nranks - r);
			break;
		}
		say_rank(&s, &g->reports[r], r);
		if (detail)
			say_detail(&s, &g->reports[r], r);
	}
	say_verdict(&s, g);
}
