/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_take.c - what the hub's messages mean for a rank's groups.
 *
 * Owns no state.  The input is untrusted: numbers are checked before they index anything.
 *
 * Called by: tcp_reader.c, on the reader's thread.
 * Protocol: docs/protocols/boot-tcp.md
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tcp_client.h"

#define EARLY_MAX 256

/* The group that waits for the result of that collective.  NULL: it gave up meanwhile. */
static struct tcp_group *find_pending(struct tcp_client *c, const struct tcp_header *h)
{
	struct tcp_group *g = ori_tcp_group_find(c, h->gid);

	return g && g->pending && !g->answered && g->pending_seq == h->seq ? g : NULL;
}

static void answer(struct tcp_group *g, int status)
{
	g->status = status;
	g->answered = 1;
	g->client->failed |= status != 0;
	pthread_cond_broadcast(&g->client->cond);
}

static int take_result(struct tcp_client *c, const struct tcp_header *h, const void *body)
{
	struct tcp_group *g = find_pending(c, h);

	if (!g)
		return 0;
	if (h->bytes != g->all_bytes)
		return -EPROTO;
	g->base.waited_ns = (uint64_t)h->rank * 1000000;
	if (h->bytes)
		memcpy(g->all, body, h->bytes);
	answer(g, 0);
	return 0;
}

/* The result is complete, so a failure of a member no longer affects it. */
static void take_complete(struct tcp_client *c, const struct tcp_header *h)
{
	struct tcp_group *g = find_pending(c, h);

	if (g && c->relay.link == TCP_LINK_UP)
		g->complete = 1;
}

static int report_is_sound(const struct ori_round_report *r, const struct tcp_group *g)
{
	if (r->status > 0 || r->count > ORI_GATHER_NAMED || r->total > (uint32_t)g->base.nranks)
		return 0;
	if (r->kind == ORI_GATHER_BYTES && r->count != 2)
		return 0;
	if (r->kind == ORI_GATHER_LISTS && r->count != 1)
		return 0;
	for (uint32_t i = 0; i < r->count; i++) {
		if (r->ranks[i] >= (uint32_t)g->base.nranks)
			return 0;
	}
	return 1;
}

static int take_report(struct tcp_client *c, const struct tcp_header *h, const void *body)
{
	struct tcp_group *g = find_pending(c, h);
	struct ori_round_report r;
	char text[ORI_BOOT_WHY_BYTES];

	if (!g)
		return 0;
	if (h->bytes != sizeof(r))
		return -EPROTO;
	memcpy(&r, body, sizeof(r));
	if (!report_is_sound(&r, g) || (h->type == TCP_FAIL && !r.status))
		return -EPROTO;
	ori_round_text(&r, g->world, text, sizeof(text));
	if (h->type == TCP_LATE) {
		ori_log(ORI_LOG_WARN, "%s is late: %s", g->call, text);
		return 0;
	}
	memcpy(g->text, text, sizeof(g->text));
	answer(g, ori_status_received(r.status, ORIEL_EPROTO));
	return 0;
}

/*
 * A group that waits for a rank that left cannot go on.  But the group has not failed, as it would
 * after a death.
 */
static void fail_pending_left(struct tcp_client *c, int world_rank)
{
	char name[64];

	for (struct tcp_group *g = c->groups; g; g = g->next) {
		int rank = ori_tcp_group_index(g, world_rank);

		/* A rank that aborted before it left has aborted: that answer remains. */
		if (rank < 0 || !g->pending || g->answered || g->complete || g->failed)
			continue;
		ori_boot_rank_text(g->world, rank, name, sizeof(name));
		snprintf(g->text, sizeof(g->text), "%s left the group", name);
		answer(g, ORIEL_EPEER);
	}
}

/*
 * The next group with that member that has not failed.  The lock is released between calls, so the
 * list cannot be walked.
 */
static struct tcp_group *next_whole(struct tcp_client *c, int world_rank)
{
	struct tcp_group *g = c->groups;

	while (g && (g->failed || ori_tcp_group_index(g, world_rank) < 0))
		g = g->next;
	return g;
}

static int take_left(struct tcp_client *c, const struct tcp_header *h, const unsigned char *body)
{
	uint32_t rank;

	if (!h->bytes || h->bytes % sizeof(rank))
		return -EPROTO;
	for (uint32_t at = 0; at < h->bytes; at += sizeof(rank)) {
		memcpy(&rank, body + at, sizeof(rank));
		if (rank >= (uint32_t)c->nranks)
			return -EPROTO;
		c->gone[rank] = TCP_GONE_LEFT;
		fail_pending_left(c, (int)rank);
	}
	return 0;
}

static int take_dead(struct tcp_client *c, const struct tcp_header *h)
{
	int world_rank = (int)h->rank;
	struct tcp_group *g;
	char name[64], why[96];

	if (h->rank >= (uint32_t)c->nranks)
		return -EPROTO;
	c->gone[world_rank] = TCP_GONE_DEAD;
	while ((g = next_whole(c, world_rank))) {
		int rank = ori_tcp_group_index(g, world_rank);

		ori_boot_rank_text(g->world, rank, name, sizeof(name));
		snprintf(why, sizeof(why), "%s died", name);
		ori_tcp_group_fail(g, ORIEL_EPEER, rank, why);
	}
	return 0;
}

static void keep_early(struct tcp_client *c, const struct tcp_header *h, int status,
		       const char *why)
{
	struct tcp_early *e = c->nearly < EARLY_MAX ? calloc(1, sizeof(*e)) : NULL;

	if (!e)
		return; /* the group's members will time out instead */
	e->gid = h->gid;
	e->status = status;
	e->rank = (int)h->rank;
	snprintf(e->why, sizeof(e->why), "%.300s", why);
	e->next = c->early;
	c->early = e;
	c->nearly++;
}

static int take_abort(struct tcp_client *c, const struct tcp_header *h, const unsigned char *body)
{
	char text[TCP_TEXT_MAX + 1], name[64], why[ORI_BOOT_WHY_BYTES];
	struct tcp_group *g;
	int32_t status;
	int rank;

	if (h->bytes < 4 || h->rank >= (uint32_t)c->nranks)
		return -EPROTO;
	memcpy(&status, body, 4);
	memcpy(text, body + 4, h->bytes - 4);
	text[h->bytes - 4] = '\0';
	if (status >= 0)
		return -EPROTO;
	status = ori_status_received(status, ORIEL_EABORTED);
	g = ori_tcp_group_find(c, h->gid);
	if (!g) {
		keep_early(c, h, status, text);
		return 0;
	}
	rank = ori_tcp_group_index(g, (int)h->rank);
	if (rank < 0)
		return -EPROTO;
	ori_boot_rank_text(g->world, rank, name, sizeof(name));
	snprintf(why, sizeof(why), "%s aborted: %.300s", name, text);
	ori_tcp_group_fail(g, status, rank, why);
	return 0;
}

int ori_tcp_client_take(struct tcp_client *c, const struct tcp_packet *packet)
{
	const unsigned char *body = packet->data + sizeof(struct tcp_header);
	struct tcp_header header, *h = &header;
	int err = 0;

	memcpy(h, packet->data, sizeof(*h));
	if (h->type == TCP_ASK) {
		ori_tcp_take_ask(c, h);
		return 0;
	}
	pthread_mutex_lock(&c->lock);
	switch (h->type) {
	case TCP_RESULT:
	case TCP_SPREAD:
		err = take_result(c, h, body);
		break;
	case TCP_COMPLETE:
		take_complete(c, h);
		break;
	case TCP_FAIL:
	case TCP_LATE:
		err = take_report(c, h, body);
		break;
	case TCP_DEAD:
		err = take_dead(c, h);
		break;
	case TCP_LEFT:
		err = take_left(c, h, body);
		break;
	case TCP_ABORT:
		err = take_abort(c, h, body);
		break;
	case TCP_TELL:
		ori_tcp_take_tell(c, h, body);
		break;
	default:
		err = -EPROTO;
	}
	pthread_mutex_unlock(&c->lock);
	return err;
}
