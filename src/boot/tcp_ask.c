/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_ask.c - asks another rank what it is doing: questions and answers through the hub.
 *
 * For ranks whose board cannot be read, because it is in another machine's memory.  Nothing is sent
 * before somebody asks.  A rank's reader thread answers, whatever the other threads do.  A rank
 * that does not answer is stopped or cannot be reached.
 *
 * Threads: ask on any thread of a rank; take_ask and take_tell on its reader.
 * Protocol: docs/protocols/boot-tcp.md
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tcp_client.h"

#define SEND_NS (2 * ORI_NS_PER_S)

void ori_tcp_answer(struct oriel_boot *boot, ori_boot_answer_fn *fn, void *ctx)
{
	struct tcp_group *g = (struct tcp_group *)boot;

	pthread_mutex_lock(&g->client->lock);
	g->watch.answer = fn;
	g->watch.answer_ctx = ctx;
	pthread_mutex_unlock(&g->client->lock);
}

void ori_tcp_take_ask(struct tcp_client *c, const struct tcp_header *h)
{
	char text[ORI_BOOT_ANSWER_BYTES] = "";
	struct tcp_header answer;
	struct tcp_group *g;

	pthread_mutex_lock(&c->lock);
	g = ori_tcp_group_find(c, h->gid);
	if (g && g->watch.answer)
		g->watch.answer(g->watch.answer_ctx, text, sizeof(text));
	pthread_mutex_unlock(&c->lock);
	if (!text[0])
		snprintf(text, sizeof(text), "has no such comm");
	ori_tcp_header_fill(&answer, TCP_TELL, h->gid, h->seq, (int)h->rank, strlen(text));
	/* An error is not reported here: the reader notices a hub that cannot be reached. */
	ori_tcp_client_send(c, &answer, NULL, 0, text, strlen(text), ori_deadline_ns(SEND_NS));
}

void ori_tcp_take_tell(struct tcp_client *c, const struct tcp_header *h, const unsigned char *body)
{
	struct tcp_group *g = ori_tcp_group_find(c, h->gid);
	struct tcp_ask *a = g ? g->asks : NULL;
	size_t n;

	while (a && (a->seq != h->seq || a->world_rank != (int)h->rank))
		a = a->next;
	if (!a || a->answered)
		return; /* the asker has given up */
	n = h->bytes < a->bytes - 1 ? h->bytes : a->bytes - 1;
	memcpy(a->out, body, n);
	a->out[n] = '\0';
	a->answered = 1;
	pthread_cond_broadcast(&c->cond);
}

static void unlist(struct tcp_group *g, const struct tcp_ask *ask)
{
	struct tcp_ask **at = &g->asks;

	while (*at != ask)
		at = &(*at)->next;
	*at = ask->next;
}

/* One question and its answer; 1: it came. */
static int ask_once(struct oriel_boot *boot, int rank, char *out, size_t bytes, uint64_t timeout_ns)
{
	struct tcp_group *g = (struct tcp_group *)boot;
	struct tcp_client *c = g->client;
	uint64_t deadline = ori_deadline_ns(timeout_ns);
	struct tcp_ask ask = { .world_rank = g->world[rank], .out = out, .bytes = bytes };
	struct tcp_header h;
	struct timespec when;
	int err = 0;

	pthread_mutex_lock(&c->lock);
	ask.seq = g->asked++;
	ask.next = g->asks;
	g->asks = &ask;
	pthread_mutex_unlock(&c->lock);
	ori_tcp_header_fill(&h, TCP_ASK, g->gid, ask.seq, ask.world_rank, 0);
	if (ori_tcp_client_send(c, &h, NULL, 0, NULL, 0, deadline))
		deadline = 0;
	ori_boot_timespec(deadline, &when);
	pthread_mutex_lock(&c->lock);
	while (!ask.answered && !c->lost && err != ETIMEDOUT)
		err = pthread_cond_timedwait(&c->cond, &c->lock, &when);
	unlist(g, &ask);
	pthread_mutex_unlock(&c->lock);
	return ask.answered;
}

/*
 * Every answer comes through the rendezvous.  A question to this rank itself goes the same way, so
 * without an answer to it the rendezvous is silent, and the rank that was asked may be well.
 */
static int hub_is_silent(struct tcp_group *g, int asked, uint64_t timeout_ns)
{
	char own[ORI_BOOT_ANSWER_BYTES];

	/* It gets as much time as the question had: on a busy machine all are slow. */
	return g->world[asked] != g->client->hub_rank && asked != g->base.rank &&
	       !ask_once(&g->base, g->base.rank, own, sizeof(own), timeout_ns);
}

int ori_tcp_ask(struct oriel_boot *boot, int rank, char *out, size_t bytes, uint64_t timeout_ns)
{
	struct tcp_group *g = (struct tcp_group *)boot;
	char hub[128];

	if (ask_once(boot, rank, out, bytes, timeout_ns))
		return 0;
	out[0] = '\0';
	if (hub_is_silent(g, rank, timeout_ns)) {
		ori_tcp_hub_text(g, hub, sizeof(hub));
		snprintf(out, bytes, "%s does not answer", hub);
	}
	return ORIEL_ETIMEDOUT;
}
