/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/graph.c - finds deadlocks and late ranks in the reports of all ranks.
 *
 * A rank can never go on if each of its waits needs a rank that can never go on.  The search starts
 * with all ranks that wait, and takes away ranks until nothing changes.  What is left is a
 * deadlock, and each of its ranks leads to a cycle.  A wait for several ranks at once needs all of
 * them.  A wait for the rank's own operations (a counter, a queue) needs a NIC and no rank.
 *
 * Reports are not taken at the same moment.  A wait counts only if it began before the collection
 * did: then all waits that count have existed at the same time.
 *
 * Pure functions.  Called on any thread, and by oriel-doctor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/device/types.h>
#include <oriel/status.h>

#include "diag.h"
#include "graph.h"

/* What was sent before the collection began has arrived after this time. */
#define FLIGHT_US 100000u

int ori_graph_open(struct ori_graph *g, int nranks)
{
	size_t n = nranks > 0 ? (size_t)nranks : 1;

	g->nranks = nranks;
	g->deadlocks = 0;
	g->reports = calloc(n, sizeof(*g->reports));
	g->marks = calloc(n, 1);
	g->next = calloc(n, sizeof(*g->next));
	if (!g->reports || !g->marks || !g->next) {
		ori_graph_close(g);
		return ORIEL_ENOMEM;
	}
	for (int r = 0; r < nranks; r++)
		ori_report_clear(&g->reports[r]);
	return 0;
}

void ori_graph_close(struct ori_graph *g)
{
	free(g->reports);
	free(g->marks);
	free(g->next);
	g->reports = NULL;
	g->marks = NULL;
	g->next = NULL;
}

/* ---- edges ----------------------------------------------------------------------------------- */

static int is_old(const struct ori_report *r, const struct ori_report_wait *w)
{
	return w->age_us >= r->sampled_us + FLIGHT_US;
}

int ori_graph_has_old_wait(const struct ori_graph *g)
{
	for (int r = 0; r < g->nranks; r++)
		for (int i = 0; i < g->reports[r].nwaits; i++)
			if (is_old(&g->reports[r], &g->reports[r].waits[i]))
				return 1;
	return 0;
}

/* Blocks of the rank itself meet in a grid sync: it ends when the other blocks go on. */
static int is_inner(const struct ori_report_wait *w)
{
	return ORIEL_OP_OF(w->op) == ORIEL_OP_GRID;
}

/* Is the rank in the same collective call? */
static int is_in_round(const struct ori_report *r, const struct ori_report_wait *round)
{
	for (int i = 0; i < r->nwaits; i++)
		if (r->waits[i].op == ORI_REPORT_ROUND && r->waits[i].comm == round->comm)
			return 1;
	return 0;
}

int ori_graph_needs(const struct ori_graph *g, const struct ori_report_wait *w, int rank, int peer)
{
	if (peer == rank)
		return 0;
	if (w->op == ORI_REPORT_ROUND)
		return ori_report_is_member(w->members, peer) && !is_in_round(&g->reports[peer], w);
	return w->peer == peer;
}

/* The first rank that this wait needs and that cannot go on; -1: none. */
static int blocked_by(const struct ori_graph *g, const struct ori_report_wait *w, int rank)
{
	if (w->op != ORI_REPORT_ROUND) /* most waits: no search */
		return w->peer >= 0 && w->peer < g->nranks && w->peer != rank &&
				       g->marks[w->peer] == ORI_MARK_DEADLOCK ?
			       w->peer :
			       -1;
	for (int p = 0; p < g->nranks; p++)
		if (g->marks[p] == ORI_MARK_DEADLOCK && ori_graph_needs(g, w, rank, p))
			return p;
	return -1;
}

/* ---- deadlocks ------------------------------------------------------------------------------- */

/* Can the rank never go on?  Then *next is the rank that it waits for. */
static int is_blocked(const struct ori_graph *g, int rank, int *next)
{
	const struct ori_report *r = &g->reports[rank];

	*next = -1;
	if (r->more)
		return 0; /* a wait that is not listed may succeed */
	for (int i = 0; i < r->nwaits; i++) {
		const struct ori_report_wait *w = &r->waits[i];
		int by;

		if (is_inner(w))
			continue;
		by = is_old(r, w) && !ori_diag_is_own(w->op) ? blocked_by(g, w, rank) : -1;
		if (by < 0)
			return 0;
		if (*next < 0)
			*next = by;
	}
	return *next >= 0;
}

static void find_blocked(struct ori_graph *g)
{
	int changed = 1;

	for (int r = 0; r < g->nranks; r++) {
		g->marks[r] = g->reports[r].nwaits ? ORI_MARK_DEADLOCK : ORI_MARK_NONE;
		g->next[r] = -1;
	}
	while (changed) {
		changed = 0;
		for (int r = 0; r < g->nranks; r++) {
			if (g->marks[r] != ORI_MARK_DEADLOCK || is_blocked(g, r, &g->next[r]))
				continue;
			g->marks[r] = ORI_MARK_WAITS;
			g->next[r] = -1;
			changed = 1;
		}
	}
}

/* Does the chain that starts at the rank come back to it? */
static int is_on_cycle(const struct ori_graph *g, int rank)
{
	int at = g->next[rank];

	for (int steps = 0; at >= 0 && at != rank && steps < g->nranks; steps++)
		at = g->next[at];
	return at == rank;
}

int ori_graph_begins_cycle(const struct ori_graph *g, int rank)
{
	if (g->marks[rank] != ORI_MARK_DEADLOCK)
		return 0;
	for (int at = g->next[rank]; at != rank; at = g->next[at])
		if (at < rank)
			return 0;
	return 1;
}

/* Ranks that only lead to a cycle are marked apart. */
static void find_cycles(struct ori_graph *g)
{
	for (int r = 0; r < g->nranks; r++)
		if (g->marks[r] == ORI_MARK_DEADLOCK && !is_on_cycle(g, r))
			g->marks[r] = ORI_MARK_STUCK;
	g->deadlocks = 0;
	for (int r = 0; r < g->nranks; r++)
		g->deadlocks += ori_graph_begins_cycle(g, r);
}

/* ---- late ranks ------------------------------------------------------------------------------ */

/* Its own operations to the peer do not count: a NIC completes them, not the peer. */
static int waits_for(const struct ori_graph *g, int rank, int peer)
{
	const struct ori_report *r = &g->reports[rank];

	for (int i = 0; i < r->nwaits; i++)
		if (is_old(r, &r->waits[i]) && !ori_diag_is_own(r->waits[i].op) &&
		    ori_graph_needs(g, &r->waits[i], rank, peer))
			return 1;
	return 0;
}

/* Does it wait for an act of another rank? */
static int waits_for_any(const struct ori_report *r)
{
	for (int i = 0; i < r->nwaits; i++)
		if (!ori_diag_is_own(r->waits[i].op) && !is_inner(&r->waits[i]))
			return 1;
	return 0;
}

static int has_waiter(const struct ori_graph *g, int rank)
{
	for (int r = 0; r < g->nranks; r++)
		if (waits_for(g, r, rank))
			return 1;
	return 0;
}

void ori_graph_judge(struct ori_graph *g)
{
	find_blocked(g);
	find_cycles(g);
	for (int r = 0; r < g->nranks; r++)
		if (g->marks[r] <= ORI_MARK_WAITS && !waits_for_any(&g->reports[r]) &&
		    has_waiter(g, r))
			g->marks[r] = ORI_MARK_LATE;
}

/* Ranks that wait for `rank`, directly or through others. */
static void mark_waiters(const struct ori_graph *g, int rank, unsigned char *waits)
{
	for (int r = 0; r < g->nranks; r++)
		if (!waits[r] && r != rank && waits_for(g, r, rank)) {
			waits[r] = 1;
			mark_waiters(g, r, waits);
		}
}

/* Appends "3" or "3-5". */
static void add_range(char *out, size_t bytes, int first, int last)
{
	size_t at = strlen(out);

	snprintf(out + at, bytes - at, "%s%d", at ? "," : "", first);
	at = strlen(out);
	if (last > first)
		snprintf(out + at, bytes - at, "-%d", last);
}

int ori_graph_waiters(const struct ori_graph *g, int rank, char *out, size_t bytes)
{
	unsigned char *waits = calloc((size_t)g->nranks, 1);
	int count = 0, end;

	out[0] = '\0';
	if (!waits)
		return 0;
	mark_waiters(g, rank, waits);
	for (int r = 0; r < g->nranks; r = end + 1) {
		for (end = r; end < g->nranks && waits[end]; end++)
			count++;
		if (end > r)
			add_range(out, bytes, r, end - 1);
	}
	free(waits);
	return count;
}
