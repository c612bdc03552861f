/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_client.c - a rank's connection to the hub: its groups, how they fail, sending, and the
 * end.
 *
 * Owns the socket and the list of the rank's groups.  The lowest of the client's files.  It does
 * not know what messages mean (tcp_take.c), which thread reads them (tcp_reader.c), or the tree
 * (tcp_relay.c).
 *
 * Threads: any thread of the rank, and its reader.  send_lock admits one sender at a time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tcp_client.h"

#define CLOSE_NS (2 * ORI_NS_PER_S)
#define FAILED_NS ORI_NS_PER_S

/* ---- groups --------------------------------------------------------------------------------- */

struct tcp_group *ori_tcp_group_find(struct tcp_client *c, uint64_t gid)
{
	struct tcp_group *g = c->groups;

	while (g && g->gid != gid)
		g = g->next;
	return g;
}

int ori_tcp_group_index(const struct tcp_group *g, int world_rank)
{
	for (int i = 0; i < g->base.nranks; i++) {
		if (g->world[i] == world_rank)
			return i;
	}
	return -1;
}

void ori_tcp_hub_text(const struct tcp_group *g, char *text, size_t bytes)
{
	const struct tcp_client *c = g->client;
	int rank = ori_tcp_group_index(g, c->hub_rank);
	char name[64];

	if (c->hub_rank < 0) {
		snprintf(text, bytes, "the rendezvous at %.60s", c->place.name);
		return;
	}
	if (rank >= 0)
		ori_boot_rank_text(g->world, rank, name, sizeof(name));
	else
		snprintf(name, sizeof(name), "world rank %d", c->hub_rank);
	snprintf(text, bytes, "%s (the rendezvous)", name);
}

void ori_tcp_group_fail(struct tcp_group *g, int status, int rank, const char *why)
{
	struct tcp_client *c = g->client;

	if (g->failed)
		return;
	g->failed = status;
	g->failed_rank = rank;
	c->failed = 1;
	snprintf(g->why, sizeof(g->why), "%s", why);
	pthread_cond_broadcast(&c->cond);
	if (rank != g->base.rank)
		ori_watch_tell(&g->watch, &c->lock, &c->cond, status, rank, why);
}

/* ---- sending, losing, closing --------------------------------------------------------------- */

int ori_tcp_client_send(struct tcp_client *c, const struct tcp_header *h, const void *head,
			size_t head_bytes, const void *data, size_t bytes, uint64_t deadline_ns)
{
	unsigned char start[sizeof(*h) + sizeof(struct tcp_contrib)];
	int err;

	memcpy(start, h, sizeof(*h));
	if (head_bytes)
		memcpy(start + sizeof(*h), head, head_bytes);
	pthread_mutex_lock(&c->send_lock);
	err = ori_tcp_send_all(c->fd, start, sizeof(*h) + head_bytes, deadline_ns);
	if (!err && bytes)
		err = ori_tcp_send_all(c->fd, data, bytes, deadline_ns);
	pthread_mutex_unlock(&c->send_lock);
	return err;
}

void ori_tcp_client_lost(struct tcp_client *c, int status, const char *what)
{
	struct tcp_group *g;
	char hub[80], why[ORI_BOOT_WHY_BYTES];

	pthread_mutex_lock(&c->lock);
	if (!c->lost) {
		c->lost = status;
		snprintf(c->lost_why, sizeof(c->lost_why), "%s", what);
	}
	for (;;) {
		for (g = c->groups; g && g->failed; g = g->next)
			;
		if (!g)
			break;
		ori_tcp_hub_text(g, hub, sizeof(hub));
		snprintf(why, sizeof(why), "%s %s", hub, c->lost_why);
		ori_tcp_group_fail(g, c->lost, ori_tcp_group_index(g, c->hub_rank), why);
	}
	pthread_mutex_unlock(&c->lock);
}

void ori_tcp_client_unlinked(struct tcp_client *c)
{
	pthread_mutex_lock(&c->lock);
	for (struct tcp_group *g = c->groups; g; g = g->next)
		g->complete = 0;
	pthread_cond_broadcast(&c->cond);
	pthread_mutex_unlock(&c->lock);
}

static void say_bye(struct tcp_client *c)
{
	struct tcp_header h;
	struct timespec when;
	int err = 0;

	ori_tcp_header_fill(&h, TCP_BYE, 0, 0, c->rank, 0);
	if (!ori_tcp_client_send(c, &h, NULL, 0, NULL, 0, ori_deadline_ns(CLOSE_NS)))
		shutdown(c->fd, SHUT_WR);
	/*
	 * The hub answers by closing the connection.  The reader takes the remaining messages, so
	 * that the connection is not reset.
	 */
	pthread_mutex_lock(&c->lock);
	ori_boot_timespec(ori_deadline_ns(c->hub_silent ? CLOSE_NS / 20 : CLOSE_NS), &when);
	while (!c->reader_ended && err != ETIMEDOUT)
		err = pthread_cond_timedwait(&c->cond, &c->lock, &when);
	pthread_mutex_unlock(&c->lock);
	shutdown(c->fd, SHUT_RDWR);
	pthread_join(c->reader, NULL);
}

void ori_tcp_client_close(struct tcp_client *c)
{
	/* A child of fork() has no reader, and its copy of the socket was closed. */
	int ours = c->pid == getpid();

	if (ours && c->fd >= 0) {
		pthread_mutex_lock(&c->lock);
		c->closing = 1;
		pthread_mutex_unlock(&c->lock);
		say_bye(c);
		ori_tcp_close(c->fd);
	}
	/* The other ranks know of the failure, or learn of it within this time. */
	ori_tcp_hub_release(c->hub,
			    c->failed && c->timeout_ns > FAILED_NS ? FAILED_NS : c->timeout_ns);
	while (c->early) {
		struct tcp_early *e = c->early;

		c->early = e->next;
		free(e);
	}
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->send_lock);
	pthread_cond_destroy(&c->cond);
	free(c->gone);
	free(c);
}
