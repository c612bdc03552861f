/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_hub_meet.c - the hub's meetings: some ranks make a group, without the others.
 *
 * A rank sends the list of all members.  When all have come with the same list, each gets the
 * counts of all, from which all compute the same number for their group.  The counts of a rank only
 * grow, so no two groups have the same.
 *
 * A meeting that is complete or has failed is forgotten at once: the next one with the same list
 * begins afresh.  On the hub's thread.
 */
#include <stdlib.h>
#include <string.h>

#include "meet.h"
#include "tcp_hub.h"

/* A rank's message, checked. */
struct visitor {
	struct tcp_contrib part;
	struct tcp_meet meet;
	uint32_t *members; /* part.n; the caller frees it */
};

/* Returns 0 if the message is sound. */
static int parse(const struct tcp_hub *hub, const struct hub_conn *c, struct visitor *v)
{
	size_t fixed = sizeof(v->part) + sizeof(v->meet), bytes = c->in.header.bytes;

	if (bytes < fixed || c->in.header.rank != (uint32_t)c->rank)
		return -1;
	memcpy(&v->part, c->body, sizeof(v->part));
	memcpy(&v->meet, c->body + sizeof(v->part), sizeof(v->meet));
	if (v->part.n < 1 || v->part.n > (uint32_t)hub->nranks || v->part.index >= v->part.n ||
	    bytes - fixed != v->part.n * sizeof(*v->members))
		return -1;
	v->members = malloc(bytes - fixed);
	if (!v->members)
		return -1;
	memcpy(v->members, c->body + fixed, bytes - fixed);
	for (uint32_t i = 0; i < v->part.n; i++) {
		if (v->members[i] >= (uint32_t)hub->nranks)
			goto err_members;
	}
	if (v->members[v->part.index] == (uint32_t)c->rank)
		return 0;

err_members:
	free(v->members);
	return -1;
}

/* Then the client has been told by LEFT or DEAD, or will be, and gives up by itself. */
static int has_gone_member(const struct tcp_hub *hub, const struct visitor *v)
{
	for (uint32_t i = 0; i < v->part.n; i++) {
		enum slot_state state = hub->slots[v->members[i]].state;

		if (state == SLOT_LEFT || state == SLOT_DEAD)
			return 1;
	}
	return 0;
}

/* A rank that comes to a meeting has given up every other one of that scope. */
static void withdraw(struct tcp_hub *hub, uint64_t scope, uint32_t rank)
{
	struct ori_round *m;

	while ((m = ori_meeting_of(hub->meetings, scope, rank))) {
		m->have[ori_meeting_index(m, rank)] = 0;
		if (--m->arrived == 0)
			ori_round_destroy(&hub->meetings, m);
	}
}

static void refuse(struct tcp_hub *hub, struct ori_round *m)
{
	ori_hub_send_report(hub, m, TCP_FAIL, &m->failed);
	ori_round_destroy(&hub->meetings, m);
}

/* The members compare gid and seq of the answer with those of their question. */
static struct ori_round *open_meeting(struct tcp_hub *hub, const struct hub_conn *c,
				      const struct visitor *v)
{
	int n = (int)v->part.n;
	struct ori_round *m = ori_meeting_find(hub->meetings, v->meet.scope, v->members, n);

	if (m)
		return m;
	m = ori_meeting_create(&hub->meetings, v->meet.scope, v->members, n, sizeof(v->meet.count),
			       v->part.index);
	if (!m)
		return NULL;
	m->gid = c->in.header.gid;
	m->seq = c->in.header.seq;
	return m;
}

static void come(struct tcp_hub *hub, struct hub_conn *c, const struct visitor *v)
{
	struct ori_round *m, *other;

	withdraw(hub, v->meet.scope, (uint32_t)c->rank);
	if (has_gone_member(hub, v))
		return;
	m = open_meeting(hub, c, v);
	if (!m) {
		ori_hub_warn(hub, "a rank, for want of memory");
		c->broken = 1;
		return;
	}
	ori_round_add(m, v->part.index, (uint32_t)c->rank, m->n, &v->meet.count,
		      sizeof(v->meet.count), v->part.timeout_ns, v->part.late_ns);
	other = ori_meeting_clash(hub->meetings, m);
	if (other)
		refuse(hub, other);
	if (m->failed.status) {
		refuse(hub, m);
	} else if (m->arrived == m->n) {
		ori_hub_send_result(hub, m);
		ori_round_destroy(&hub->meetings, m);
	}
}

void ori_hub_meet(struct tcp_hub *hub, struct hub_conn *c)
{
	struct visitor v;

	if (parse(hub, c, &v)) {
		ori_hub_warn(hub, "a malformed meeting");
		c->broken = 1;
		return;
	}
	come(hub, c, &v);
	free(v.members);
}

uint64_t ori_hub_meet_timer(struct tcp_hub *hub, uint64_t now)
{
	uint64_t next = ori_hub_round_timer(hub, hub->meetings, now);

	for (struct ori_round *m = hub->meetings, *after; m; m = after) {
		after = m->next;
		if (m->failed.status)
			ori_round_destroy(&hub->meetings, m);
	}
	return next;
}

/* The clients learn it by LEFT or DEAD, and fail the meeting themselves. */
void ori_hub_meet_gone(struct tcp_hub *hub, int rank)
{
	for (struct ori_round *m = hub->meetings, *after; m; m = after) {
		after = m->next;
		if (ori_meeting_index(m, (uint32_t)rank) >= 0)
			ori_round_destroy(&hub->meetings, m);
	}
}
