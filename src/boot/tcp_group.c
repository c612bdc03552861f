/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_group.c - the table of boot.h over a rank's TCP connection: one struct per group.
 *
 * Owns the groups.  The connection (tcp_client.c) and its reader live as long as one group does.
 * The highest of the client's files.  Called by: comm through the table, on any thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tcp_client.h"

static const struct ori_boot_backend tcp_ops;

/* ---- allgather ------------------------------------------------------------------------------ */

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
static int begin(struct tcp_group *g, void *all, size_t bytes, uint64_t *seq)
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
		g->all = all;
		g->all_bytes = (size_t)g->base.nranks * bytes;
	}
	pthread_mutex_unlock(&c->lock);
	return err;
}

static int contribute(struct tcp_group *g, uint64_t seq, const void *mine, size_t bytes,
		      uint64_t timeout_ns, uint64_t deadline_ns)
{
	struct tcp_client *c = g->client;
	struct tcp_contrib part;
	struct tcp_header h;

	memset(&part, 0, sizeof(part));
	part.index = (uint32_t)g->base.rank;
	part.n = (uint32_t)g->base.nranks;
	part.timeout_ns = timeout_ns;
	part.late_ns = c->late_ns;
	ori_tcp_header_fill(&h, TCP_CONTRIB, g->gid, seq, c->rank, sizeof(part) + bytes);
	return ori_tcp_client_send(c, &h, &part, sizeof(part), mine, bytes, deadline_ns);
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

static int gather(struct oriel_boot *boot, const void *mine, void *all, size_t bytes,
		  uint64_t timeout_ns)
{
	struct tcp_group *g = (struct tcp_group *)boot;
	uint64_t deadline = ori_deadline_ns(ori_boot_grace_ns(timeout_ns)), seq;
	int err;

	if (bytes > TCP_CONTRIB_MAX || (size_t)boot->nranks * bytes > TCP_RESULT_MAX)
		return ori_fail(ORIEL_ERANGE, "%s: %zu bytes from each of %d ranks are too many",
				ori_boot_serves(boot), bytes, boot->nranks);
	err = begin(g, all, bytes, &seq);
	if (err)
		return err;
	err = contribute(g, seq, mine, bytes, timeout_ns, deadline);
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

static int tcp_allgather(struct oriel_boot *boot, const void *mine, void *all, size_t bytes,
			 uint64_t timeout_ns)
{
	struct tcp_group *g = (struct tcp_group *)boot;
	struct tcp_client *c = g->client;
	int err = gather(boot, mine, all, bytes, timeout_ns);

	pthread_mutex_lock(&c->lock);
	if (err && g->failed && g->failed_rank != boot->rank)
		ori_watch_settle(&g->watch, &c->lock, &c->cond, g->failed, g->failed_rank, g->why);
	pthread_mutex_unlock(&c->lock);
	return err;
}

/* ---- groups --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t v)
{
	h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
	return h ^ (h >> 31);
}

/* Lock held.  Applies failures of members or of the group from before the group was made here. */
static void fail_if_late(struct tcp_group *g)
{
	struct tcp_client *c = g->client;
	struct tcp_early **at = &c->early;
	char name[64], why[ORI_BOOT_WHY_BYTES];

	for (int i = 0; i < g->base.nranks; i++) {
		if (c->gone[g->world[i]] != TCP_GONE_DEAD)
			continue;
		ori_boot_rank_text(g->world, i, name, sizeof(name));
		snprintf(why, sizeof(why), "%s died", name);
		ori_tcp_group_fail(g, ORIEL_EPEER, i, why);
	}
	while (*at && (*at)->gid != g->gid)
		at = &(*at)->next;
	if (*at) {
		struct tcp_early *e = *at;
		int rank = ori_tcp_group_index(g, e->rank);

		*at = e->next;
		c->nearly--;
		ori_boot_rank_text(g->world, rank < 0 ? 0 : rank, name, sizeof(name));
		snprintf(why, sizeof(why), "%s aborted: %.300s", name, e->why);
		ori_tcp_group_fail(g, e->status, rank, why);
		free(e);
	}
	if (c->lost) {
		ori_tcp_hub_text(g, name, sizeof(name));
		snprintf(why, sizeof(why), "%s %s", name, c->lost_why);
		ori_tcp_group_fail(g, c->lost, ori_tcp_group_index(g, c->hub_rank), why);
	}
}

static int group_create(struct tcp_client *c, uint64_t gid, const int *world, int rank, int n,
			struct oriel_boot **boot)
{
	struct tcp_group *g = calloc(1, sizeof(*g));

	if (!g)
		return ori_fail(ORIEL_ENOMEM, "no memory for a group of %d ranks", n);
	g->world = malloc((size_t)n * sizeof(*g->world));
	if (!g->world) {
		free(g);
		return ori_fail(ORIEL_ENOMEM, "no memory for a group of %d ranks", n);
	}
	ori_boot_init(&g->base, &tcp_ops, rank, n);
	g->client = c;
	g->gid = gid;
	for (int i = 0; i < n; i++)
		g->world[i] = world ? world[i] : i;
	pthread_mutex_lock(&c->lock);
	c->refs++;
	g->next = c->groups;
	c->groups = g;
	fail_if_late(g);
	pthread_mutex_unlock(&c->lock);
	*boot = &g->base;
	return 0;
}

/* All members compute the same number from the same calls, so nothing is sent. */
static int tcp_subgroup(struct oriel_boot *boot, const int *members, int n, uint32_t tag,
			uint64_t timeout_ns, struct oriel_boot **sub)
{
	struct tcp_group *g = (struct tcp_group *)boot;
	int me, err = ori_boot_members_check(boot, members, n, &me);
	uint64_t call, gid;
	int *world;

	(void)timeout_ns;
	if (err)
		return err;
	pthread_mutex_lock(&g->client->lock);
	call = g->subgroups++;
	pthread_mutex_unlock(&g->client->lock);
	gid = mix(mix(mix(g->gid, call), tag), 1);
	world = malloc((size_t)n * sizeof(*world));
	if (!world)
		return ori_fail(ORIEL_ENOMEM, "no memory for a group of %d ranks", n);
	for (int i = 0; i < n; i++)
		world[i] = g->world[members[i]];
	err = group_create(g->client, gid, world, me, n, sub);
	free(world);
	return err;
}

/* ---- watch, abort, close -------------------------------------------------------------------- */

static void tcp_watch(struct oriel_boot *boot, ori_boot_watch_fn *fn, void *ctx)
{
	struct tcp_group *g = (struct tcp_group *)boot;
	struct tcp_client *c = g->client;

	pthread_mutex_lock(&c->lock);
	ori_watch_set(&g->watch, &c->lock, &c->cond, fn, ctx);
	if (g->failed && g->failed_rank != boot->rank)
		ori_watch_tell(&g->watch, &c->lock, &c->cond, g->failed, g->failed_rank, g->why);
	pthread_mutex_unlock(&c->lock);
}

static void tcp_abort(struct oriel_boot *boot, int status, const char *why)
{
	struct tcp_group *g = (struct tcp_group *)boot;
	struct tcp_client *c = g->client;
	char text[ORI_BOOT_WHY_BYTES];
	struct tcp_header h;
	int32_t code = status < 0 ? status : ORIEL_EABORTED;
	size_t bytes;

	if (!why || !*why)
		why = "no reason";
	bytes = strnlen(why, TCP_TEXT_MAX);
	snprintf(text, sizeof(text), "rank %d (this rank) aborted: %.300s", boot->rank, why);
	pthread_mutex_lock(&c->lock);
	ori_tcp_group_fail(g, code, boot->rank, text);
	pthread_mutex_unlock(&c->lock);
	ori_tcp_header_fill(&h, TCP_ABORT, g->gid, 0, c->rank, 4 + bytes);
	/* An error is not reported here: the reader notices a hub that cannot be reached. */
	ori_tcp_client_send(c, &h, &code, 4, why, bytes, ori_deadline_ns(ori_boot_grace_ns(0)));
}

static void tcp_boot_close(struct oriel_boot *boot)
{
	struct tcp_group *g = (struct tcp_group *)boot;
	struct tcp_client *c = g->client;
	struct tcp_group **at;
	int last;

	pthread_mutex_lock(&c->lock);
	ori_watch_set(&g->watch, &c->lock, &c->cond, NULL, NULL);
	for (at = &c->groups; *at != g; at = &(*at)->next)
		;
	*at = g->next;
	last = --c->refs == 0;
	pthread_mutex_unlock(&c->lock);
	free(g->world);
	free(g);
	if (last)
		ori_tcp_client_close(c);
}

static const struct ori_boot_backend tcp_ops = {
	.name = "tcp",
	.allgather = tcp_allgather,
	.subgroup = tcp_subgroup,
	.watch = tcp_watch,
	.abort = tcp_abort,
	.answer = ori_tcp_answer,
	.ask = ori_tcp_ask,
	.close = tcp_boot_close,
};

int ori_tcp_join_create(const struct tcp_join *join, struct oriel_boot **boot)
{
	struct tcp_client *c = calloc(1, sizeof(*c));
	int err;

	if (!c) {
		ori_tcp_hub_release(join->hub, 0);
		return ori_fail(ORIEL_ENOMEM, "no memory for the connection of rank %d",
				join->rank);
	}
	c->fd = -1;
	c->pid = getpid();
	c->rank = join->rank;
	c->nranks = join->nranks;
	c->hub_rank = -1;
	c->place = *join->place;
	c->of_rank_0 = join->of_rank_0;
	c->listening = join->listening;
	c->ports = join->ports > 1 ? join->ports : 1;
	c->port = ori_tcp_port(&c->place);
	c->hub = join->hub;
	c->timeout_ns = join->timeout_ns;
	c->late_ns = join->late_ns;
	err = ori_boot_cond_init(&c->cond);
	if (err)
		goto err_client;
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->send_lock, NULL);
	c->gone = calloc((size_t)c->nranks, 1);
	if (!c->gone) {
		err = ori_fail(ORIEL_ENOMEM, "no memory for %d ranks", c->nranks);
		goto err_locks;
	}
	err = ori_tcp_meet(c);
	if (err)
		goto err_gone;
	err = group_create(c, 0, NULL, c->rank, c->nranks, boot);
	if (err)
		goto err_fd;
	err = ori_tcp_reader_start(c);
	if (!err)
		return 0;
	free(((struct tcp_group *)*boot)->world);
	free(*boot);
err_fd:
	ori_tcp_relay_end(c, 0);
	ori_tcp_close(c->fd);
err_gone:
	free(c->gone);
err_locks:
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->send_lock);
	pthread_cond_destroy(&c->cond);
err_client:
	ori_tcp_hub_release(c->hub, 0);
	free(c);
	return err;
}
