/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_hub_round.c - the hub's collectives: contributions in, one result or failure out.
 *
 * Owns the list of collectives in progress.  Knows groups by number only; the contributions show
 * who is a member.  On the hub's thread.
 */
#include <string.h>

#include "tcp_hub.h"

void ori_hub_send_report(struct tcp_hub *hub, const struct ori_round *g, enum tcp_type type,
			 const struct ori_round_report *report)
{
	/* those of the hub's own process last, as in ori_hub_send_others() */
	for (int own = 0; own <= 1; own++)
		for (int i = 0; i < g->n; i++) {
			struct hub_conn *c = g->have[i] ? hub->slots[g->who[i]].conn : NULL;

			if (c && c->has_hub == own)
				ori_hub_send(c, type, g->gid, g->seq, 0, report, sizeof(*report));
		}
}

/* All ranks share one copy of the result. */
void ori_hub_send_result(struct tcp_hub *hub, const struct ori_round *g)
{
	struct hub_blob *blob = ori_hub_blob(TCP_RESULT, g->gid, g->seq, ori_round_age_ms(g),
					     g->data, (size_t)g->n * g->bytes);

	for (int i = 0; i < g->n; i++) {
		struct hub_conn *c = hub->slots[g->who[i]].conn;

		if (!c)
			continue;
		if (blob)
			ori_hub_send_blob(c, blob);
		else
			/* no memory: an error at the rank is better than an endless wait */
			c->broken = 1;
	}
	if (blob)
		ori_hub_blob_drop(blob);
}

static int contrib_is_sound(const struct tcp_hub *hub, const struct hub_conn *c,
			    const struct tcp_contrib *part, size_t bytes)
{
	if (c->in.header.rank != (uint32_t)c->rank)
		return 0;
	if (part->n < 1 || part->n > (uint32_t)hub->nranks || part->index >= part->n)
		return 0;
	return (uint64_t)part->n * bytes <= TCP_RESULT_MAX;
}

void ori_hub_contrib(struct tcp_hub *hub, struct hub_conn *c)
{
	const struct tcp_header *h = &c->in.header;
	struct tcp_contrib part;
	struct ori_round *g;
	size_t bytes;
	int had_failed;

	if (h->bytes < sizeof(part))
		goto err_malformed;
	memcpy(&part, c->body, sizeof(part));
	bytes = h->bytes - sizeof(part);
	if (!contrib_is_sound(hub, c, &part, bytes))
		goto err_malformed;
	g = ori_round_find(hub->gathers, h->gid, h->seq);
	if (!g)
		g = ori_round_create(&hub->gathers, h->gid, h->seq, (int)part.n, bytes, part.index);
	if (!g) {
		ori_hub_warn(hub, "no memory for a collective");
		c->broken = 1;
		return;
	}
	had_failed = g->failed.status;
	ori_round_add(g, part.index, (uint32_t)c->rank, (int)part.n, c->body + sizeof(part), bytes,
		      part.timeout_ns, part.late_ns);
	if (g->failed.status && !had_failed)
		ori_hub_send_report(hub, g, TCP_FAIL, &g->failed);
	/* A late member, or one that is not in the list of the others. */
	if (g->failed.status && (had_failed || g->failed.kind == ORI_GATHER_LISTS))
		ori_hub_send(c, TCP_FAIL, g->gid, g->seq, 0, &g->failed, sizeof(g->failed));
	if (g->arrived < g->n)
		return;
	if (!g->failed.status && !ori_hub_tree_send(hub, g))
		ori_hub_send_result(hub, g);
	ori_round_destroy(&hub->gathers, g);
	return;

err_malformed:
	ori_hub_warn(hub, "a malformed contribution");
	c->broken = 1;
}

uint64_t ori_hub_round_timer(struct tcp_hub *hub, struct ori_round *list, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (struct ori_round *g = list; g; g = g->next) {
		struct ori_round_report report;

		if (g->failed.status)
			continue;
		if (now >= g->deadline_ns) {
			ori_round_expire(g, ORIEL_ETIMEDOUT);
			ori_hub_send_report(hub, g, TCP_FAIL, &g->failed);
			continue;
		}
		if (!g->late_told && now >= g->late_ns) {
			g->late_told = 1;
			ori_round_missing(g, &report);
			ori_hub_send_report(hub, g, TCP_LATE, &report);
		}
		if (g->deadline_ns < next)
			next = g->deadline_ns;
		if (!g->late_told && g->late_ns < next)
			next = g->late_ns;
	}
	return next;
}
