/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_gather.c - one collective of a group: sends this rank's part to the hub, and waits for
 * the answer.
 *
 * Owns the fields of a group that describe the collective in progress.  The reader writes the
 * answer (tcp_take.c).  Called by: tcp_group.c, on threads of the rank.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tcp_client.h"

/* Lock held.  Has a member left for good?  Returns 0, or ORIEL_EPEER with the text. */
static int check_left(struct tcp_group *g)
{
	char name[64];

	for (int i = 0; i < g->base.nranks; i++) {
		if (g->client->gone[g->world[i]] != TCP_GONE_LEFT)
			continue;
		ori_boot_rank_text(g->world, i, name, sizeof(name));
		snprintf(g->text, sizeof(g->text), "%s left the group", name);
		return ORIEL_EPEER;
	}
	return 0;
}

/* Lock held.  Returns the group's failure.  Logs it the first time, later only keeps the text. */
static int failed_status(struct tcp_group *g)
{
	if (g->logged)
		return ori_fail_silent(g->failed, "%s: %s", ori_boot_serves(&g->base), g->why);
	g->logged = 1;
	return ori_fail(g->failed, "%s: %s", ori_boot_serves(&g->base), g->why);
}

/* Returns 0 if the collective may be sent. */
static int begin(struct tcp_group *g, const struct tcp_part *part, uint64_t *seq)
{
	struct tcp_client *c = g->client;
	int err = 0;

	pthread_mutex_lock(&c->lock);
	*seq = g->seq++;
	if (g->failed) {
		err = failed_status(g);
	} else if (check_left(g)) {
		err = ori_fail(ORIEL_EPEER, "%s: %s", ori_boot_serves(&g->base), g->text);
	} else {
		g->pending = 1;
		g->call = ori_boot_serves(&g->base);
		g->answered = 0;
		g->complete = 0;
		g->pending_seq = *seq;
		g->all = part->all;
		g->all_bytes = part->all_bytes;
	}
	pthread_mutex_unlock(&c->lock);
	return err;
}

static int contribute(struct tcp_group *g, uint64_t seq, const struct tcp_part *part,
		      uint64_t timeout_ns, uint64_t deadline_ns)
{
	struct tcp_client *c = g->client;
	struct tcp_contrib head;
	struct tcp_header h;

	memset(&head, 0, sizeof(head));
	head.index = (uint32_t)g->base.rank;
	head.n = (uint32_t)g->base.nranks;
	head.timeout_ns = timeout_ns;
	head.late_ns = c->late_ns;
	ori_tcp_header_fill(&h, part->type, g->gid, seq, c->rank, sizeof(head) + part->bytes);
	return ori_tcp_client_send(c, &h, &head, sizeof(head), part->mine, part->bytes,
				   deadline_ns);
}

static int end(struct tcp_group *g, uint64_t timeout_ns, uint64_t deadline_ns)
{
	struct tcp_client *c = g->client;
	struct timespec when;
	char hub[80];
	int err = 0;

	ori_boot_timespec(deadline_ns, &when);
	pthread_mutex_lock(&c->lock);
	/* A complete collective is not lost when a member fails now: its result is on the way. */
	while (!g->answered && !(g->failed && !g->complete) && err != ETIMEDOUT)
		err = pthread_cond_timedwait(&c->cond, &c->lock, &when);
	g->pending = 0;
	if (g->answered) {
		err = g->status ? ori_fail(g->status, "%s: %s", g->call, g->text) : 0;
	} else if (g->failed) {
		err = failed_status(g);
	} else {
		c->hub_silent = 1;
		ori_tcp_hub_text(g, hub, sizeof(hub));
		err = ori_fail(ORIEL_ETIMEDOUT, "%s: no answer from %s within %.1f s", g->call, hub,
			       (double)timeout_ns / 1e9 + 2);
	}
	pthread_mutex_unlock(&c->lock);
	return err;
}

int ori_tcp_gather(struct tcp_group *g, const struct tcp_part *part, uint64_t timeout_ns)
{
	uint64_t deadline = ori_deadline_ns(ori_boot_grace_ns(timeout_ns)), seq;
	int err = begin(g, part, &seq);

	if (err)
		return err;
	err = contribute(g, seq, part, timeout_ns, deadline);
	/*
	 * Half a message may be sent, so this connection is unusable.  A hub that closed it may
	 * have sent the reason before.  The reader takes the remaining messages, and then the end
	 * of the stream, which shutdown() guarantees.  A child of fork() has no reader.
	 */
	if (err == -ETIMEDOUT)
		ori_tcp_client_lost(g->client, ORIEL_ETIMEDOUT, "does not take messages");
	else if (err && g->client->pid == getpid())
		shutdown(g->client->fd, SHUT_RDWR);
	else if (err)
		ori_tcp_client_lost(g->client, ORIEL_EPEER, "is gone");
	return end(g, timeout_ns, deadline);
}
