/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/round.c - one collective of a boot: which parts have come, which ranks are missing, and the
 * text that says so.
 *
 * Owns the records.  It neither waits nor sends, and has no threads, sockets or locks.  Those
 * belong to its owner: threads.c under its lock, or the TCP hub on its one thread.
 */
#include <stdlib.h>
#include <string.h>

#include "impl.h"
#include "round.h"

struct ori_round *ori_round_find(struct ori_round *list, uint64_t gid, uint64_t seq)
{
	while (list && (list->gid != gid || list->seq != seq))
		list = list->next;
	return list;
}

struct ori_round *ori_round_create(struct ori_round **list, uint64_t gid, uint64_t seq, int n,
				   size_t bytes, uint32_t first)
{
	struct ori_round *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->have = calloc((size_t)n, 1);
	g->who = calloc((size_t)n, sizeof(*g->who));
	if (!g->have || !g->who) {
		free(g->have);
		free(g->who);
		free(g);
		return NULL;
	}
	g->gid = gid;
	g->seq = seq;
	g->n = n;
	g->bytes = bytes;
	g->first = first;
	g->start_ns = ori_now_ns();
	g->deadline_ns = UINT64_MAX;
	g->late_ns = UINT64_MAX;
	g->next = *list;
	*list = g;
	/*
	 * Without memory for the data, the record lives on as failed, so that every member is told.
	 */
	if (bytes) {
		g->data = malloc((size_t)n * bytes);
		if (!g->data) {
			g->failed.kind = ORI_GATHER_NOMEM;
			g->failed.bytes[0] = (size_t)n * bytes;
			g->failed.status = ORIEL_ENOMEM;
		}
	}
	return g;
}

static void destroy(struct ori_round *g)
{
	free(g->have);
	free(g->who);
	free(g->data);
	free(g->members);
	free(g);
}

void ori_round_unlist(struct ori_round **list, struct ori_round *g)
{
	while (*list && *list != g)
		list = &(*list)->next;
	if (*list)
		*list = g->next;
}

void ori_round_destroy(struct ori_round **list, struct ori_round *g)
{
	ori_round_unlist(list, g);
	destroy(g);
}

void ori_round_destroy_all(struct ori_round **list)
{
	while (*list) {
		struct ori_round *g = *list;

		*list = g->next;
		destroy(g);
	}
}

static void fail(struct ori_round *g, const struct ori_round_report *report)
{
	if (g->failed.status)
		return;
	g->failed = *report;
	free(g->data); /* nobody will read it, and the record may stay for long */
	g->data = NULL;
}

static void fail_bytes(struct ori_round *g, uint32_t index, size_t bytes)
{
	struct ori_round_report r = { .status = ORIEL_EMISMATCH, .kind = ORI_GATHER_BYTES };

	r.count = 2;
	r.ranks[0] = g->first;
	r.ranks[1] = index;
	r.bytes[0] = g->bytes;
	r.bytes[1] = bytes;
	fail(g, &r);
}

void ori_round_fail_lists(struct ori_round *g, uint32_t index)
{
	struct ori_round_report r = { .status = ORIEL_EMISMATCH, .kind = ORI_GATHER_LISTS };

	r.count = 1;
	r.ranks[0] = index;
	fail(g, &r);
}

static uint64_t after(uint64_t now, uint64_t ns)
{
	return ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
}

void ori_round_add(struct ori_round *g, uint32_t index, uint32_t who, int n, const void *mine,
		   size_t bytes, uint64_t timeout_ns, uint64_t late_ns)
{
	uint64_t now = ori_now_ns();

	if (n != g->n || index >= (uint32_t)g->n || g->have[index]) {
		ori_round_fail_lists(g, index);
		return;
	}
	g->have[index] = 1;
	g->who[index] = who;
	g->arrived++;
	/* The member with the shortest timeout decides for all. */
	if (after(now, timeout_ns) < g->deadline_ns)
		g->deadline_ns = after(now, timeout_ns);
	if (after(now, late_ns) < g->late_ns)
		g->late_ns = after(now, late_ns);
	if (bytes != g->bytes)
		fail_bytes(g, index, bytes);
	if (bytes && !g->failed.status)
		memcpy(g->data + (size_t)index * bytes, mine, bytes);
}

int ori_round_age_ms(const struct ori_round *g)
{
	uint64_t ms = (ori_now_ns() - g->start_ns) / 1000000;

	return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

void ori_round_missing(const struct ori_round *g, struct ori_round_report *r)
{
	memset(r, 0, sizeof(*r));
	r->kind = ORI_GATHER_MISSING;
	r->ns = ori_now_ns() - g->start_ns;
	for (int i = 0; i < g->n; i++) {
		if (g->have[i])
			continue;
		if (r->count < ORI_GATHER_NAMED)
			r->ranks[r->count++] = (uint32_t)i;
		r->total++;
	}
}

void ori_round_expire(struct ori_round *g, int status)
{
	struct ori_round_report r;

	ori_round_missing(g, &r);
	r.status = status;
	fail(g, &r);
}

void ori_round_names(const struct ori_round_report *r, const int *world, char *text, size_t bytes)
{
	char name[64];
	size_t at = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < r->count && at < bytes; i++) {
		ori_boot_rank_text(world, (int)r->ranks[i], name, sizeof(name));
		at += (size_t)snprintf(text + at, bytes - at, "%s%s", i ? ", " : "", name);
	}
	if (r->total > r->count && at < bytes)
		snprintf(text + at, bytes - at, " and %u more", r->total - r->count);
}

void ori_round_text(const struct ori_round_report *r, const int *world, char *text, size_t bytes)
{
	char a[320], b[64]; /* `a` leaves room for the time in ORI_BOOT_WHY_BYTES */

	switch (r->kind) {
	case ORI_GATHER_MISSING:
		ori_round_names(r, world, a, sizeof(a));
		/* what a rank did before this round may have left it little time, or none */
		if (r->ns < ORI_NS_PER_S / 1000)
			snprintf(text, bytes, "%s did not come in time", a);
		else
			snprintf(text, bytes, "%s did not come within %.*f s", a,
				 r->ns < ORI_NS_PER_S / 10 ? 3 : 1, (double)r->ns / 1e9);
		break;
	case ORI_GATHER_BYTES:
		ori_boot_rank_text(world, (int)r->ranks[0], a, sizeof(a));
		ori_boot_rank_text(world, (int)r->ranks[1], b, sizeof(b));
		snprintf(text, bytes, "%s gives %llu bytes but %s gives %llu", a,
			 (unsigned long long)r->bytes[0], b, (unsigned long long)r->bytes[1]);
		break;
	case ORI_GATHER_LISTS:
		ori_boot_rank_text(world, (int)r->ranks[0], a, sizeof(a));
		snprintf(text, bytes, "the ranks have different lists of members (seen at %s)", a);
		break;
	default:
		snprintf(text, bytes, "no memory for a collective of %llu bytes",
			 (unsigned long long)r->bytes[0]);
		break;
	}
}
