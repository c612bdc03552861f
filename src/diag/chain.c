/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/chain.c - follows a chain of waits to its last rank, or back to one of its own, which is a
 * deadlock.
 *
 * Every rank in the chain is asked what it does, as late.c asks the first one.  The answer is a
 * text, also from ranks of other hosts, and is parsed here.  A rank whose blocks wait for different
 * ranks ends the chain, because one of these waits may still succeed.  A wait for
 * the rank's own operations (a counter, a queue) ends it too: no other program completes those.
 *
 * Called by: late.c, on the thread that reports a late wait.
 */
#include <stdio.h>
#include <string.h>

#include "diag.h"

#define HOPS_MAX 16

/* The one rank that `does` waits for since at least least_s.  -1: none, or several. */
static int waits_for(const char *does, double least_s)
{
	const char *at = strstr(does, " from rank ");
	double age_s;
	int rank;

	if (sscanf(does, "itself waits %lf s for", &age_s) != 1 || age_s < least_s)
		return -1;
	if (!at) /* "itself waits 1.0 s for rank 0 in an all-gather (window 1)" */
		at = strstr(does, " s for rank ");
	if (!at || strstr(at, " other waits)") || !(at = strstr(at, "rank ")) ||
	    sscanf(at, "rank %d", &rank) != 1)
		return -1;
	return rank;
}

/* The position of a rank in the path, or -1. */
static int find(const int *path, int n, int rank)
{
	for (int i = 0; i < n; i++)
		if (path[i] == rank)
			return i;
	return -1;
}

static void cycle_text(const int *path, int first, int n, char *out, size_t bytes)
{
	size_t at = (size_t)snprintf(out, bytes, "; deadlock: rank %d", path[first]);

	for (int i = first + 1; i <= n && at < bytes; i++)
		at += (size_t)snprintf(out + at, bytes - at, " waits for %d",
				       path[i < n ? i : first]);
}

/*
 * Others on the chain must have waited at least half as long as this rank.  A rank that has just
 * begun to wait may have just sent what this rank waits for.  In a deadlock, the rank that came
 * last finds only older waits, so a deadlock is always reported.
 */
void ori_diag_chain_text(const struct oriel_board *own, int rank, int peer, const char *does,
			 uint64_t age_ns, char *out, size_t bytes)
{
	/* texts are rounded to tenths of a second */
	double least_s = (double)age_ns * 0.5e-9 - 0.05;
	int path[HOPS_MAX] = { rank, peer }, n = 2, next, at;
	char text[256];

	out[0] = '\0';
	snprintf(text, sizeof(text), "%s", does);
	while ((next = waits_for(text, least_s)) >= 0 && next != path[n - 1]) {
		at = find(path, n, next);
		if (at >= 0) {
			cycle_text(path, at, n, out, bytes);
			return;
		}
		if (n == HOPS_MAX || !ori_diag_ask(own, next, 1, text, sizeof(text))) {
			snprintf(out, bytes, "; the chain of waits leads to rank %d", next);
			return;
		}
		path[n++] = next;
	}
	if (n > 2)
		snprintf(out, bytes, "; the chain of waits ends at rank %d, which %.120s",
			 path[n - 1], text);
}
