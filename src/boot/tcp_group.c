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

static int tcp_allgather(struct oriel_boot *boot, const void *mine, void *all, size_t bytes,
			 uint64_t timeout_ns)
{
	struct tcp_group *g = (struct tcp_group *)boot;
	struct tcp_client *c = g->client;
	struct tcp_part part = { TCP_CONTRIB, mine, bytes, all, (size_t)boot->nranks * bytes };
	int err;

	if (bytes > TCP_CONTRIB_MAX || part.all_bytes > TCP_RESULT_MAX)
		return ori_fail(ORIEL_ERANGE, "%s: %zu bytes from each of %d ranks are too many",
				ori_boot_serves(boot), bytes, boot->nranks);
	err = ori_tcp_gather(g, &part, timeout_ns);
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

/* Lock held.  Is a thread of this rank in a meeting of that scope? */
static int is_meeting(const struct tcp_client *c, uint64_t scope)
{
	const struct tcp_group *g = c->groups;

	while (g && g->scope != scope)
		g = g->next;
	return g != NULL;
}

/* scope: of a meeting, else 0.  Returns ORIEL_EBUSY, without a message, if it has one already. */
static int group_create(struct tcp_client *c, uint64_t gid, uint64_t scope, const int *world,
			int rank, int n, struct oriel_boot **boot)
{
	struct tcp_group *g = calloc(1, sizeof(*g));
	int busy;

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
	g->scope = scope;
	for (int i = 0; i < n; i++)
		g->world[i] = world ? world[i] : i;
	pthread_mutex_lock(&c->lock);
	busy = scope && is_meeting(c, scope);
	if (!busy) {
		c->refs++;
		g->next = c->groups;
		c->groups = g;
		fail_if_late(g);
	}
	pthread_mutex_unlock(&c->lock);
	if (busy) {
		free(g->world);
		free(g);
		return ORIEL_EBUSY;
	}
	*boot = &g->base;
	return 0;
}

/* World ranks of members of the group; NULL: no memory. */
static int *world_of(const struct tcp_group *g, const int *members, int n)
{
	int *world = malloc((size_t)n * sizeof(*world));

	if (!world)
		ori_fail(ORIEL_ENOMEM, "no memory for a group of %d ranks", n);
	for (int i = 0; world && i < n; i++)
		world[i] = g->world[members[i]];
	return world;
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
	world = world_of(g, members, n);
	if (!world)
		return ORIEL_ENOMEM;
	err = group_create(g->client, gid, 0, world, me, n, sub);
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
	struct tcp_abort mine;
	size_t bytes;
	int err;

	if (!why || !*why)
		why = "no reason";
	bytes = strnlen(why, TCP_TEXT_MAX);
	snprintf(text, sizeof(text), "rank %d (this rank) aborted: %.300s", boot->rank, why);
	pthread_mutex_lock(&c->lock);
	ori_tcp_group_fail(g, code, boot->rank, text);
	pthread_mutex_unlock(&c->lock);
	ori_tcp_hub_abort_begin(c->hub, &mine, ori_deadline_ns(ori_boot_grace_ns(0)));
	ori_tcp_header_fill(&h, TCP_ABORT, g->gid, mine.number, c->rank, 4 + bytes);
	/* An error is not reported here: the reader notices a hub that cannot be reached. */
	err = ori_tcp_client_send(c, &h, &code, 4, why, bytes, mine.until_ns);
	ori_tcp_hub_abort_end(c->hub, &mine, err);
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

/* ---- subsets -------------------------------------------------------------------------------- */

/* What a rank sends to a meeting.  The list of members follows. */
static size_t meet_bytes(int n)
{
	return sizeof(struct tcp_meet) + (size_t)n * sizeof(uint32_t);
}

/*
 * Meets the other members: a group that exists for this one collective.  counts: how many meetings
 * each member has come to.  A count of this rank that is not the present one belongs to an earlier
 * call that was given up.
 */
static int meet(struct tcp_group *g, const char *call, unsigned char *message, uint64_t *counts,
		uint64_t timeout_ns)
{
	int n = g->base.nranks;
	struct tcp_part part = { TCP_MEET, message, meet_bytes(n), counts,
				 (size_t)n * sizeof(*counts) };
	struct tcp_meet head = { .scope = g->scope };
	uint32_t rank;
	int err;

	pthread_mutex_lock(&g->client->lock);
	head.count = ++g->client->meetings;
	pthread_mutex_unlock(&g->client->lock);
	memcpy(message, &head, sizeof(head));
	for (int i = 0; i < n; i++) {
		rank = (uint32_t)g->world[i];
		memcpy(message + sizeof(head) + (size_t)i * sizeof(rank), &rank, sizeof(rank));
	}
	g->base.serves = call;
	err = ori_tcp_gather(g, &part, timeout_ns);
	if (!err && counts[g->base.rank] != head.count)
		err = ori_fail(ORIEL_EPROTO, "%s: the answer belongs to an earlier call", call);
	return err;
}

/* Meetings of one scope exclude each other.  Survivors meet from wherever they are. */
static uint64_t scope_of(const struct tcp_group *g, uint32_t tag)
{
	return mix(mix(tag == ORI_BOOT_SURVIVORS ? 0 : g->gid, tag), 2) | 1;
}

/*
 * Only the members take part, so they have no common count of calls.  They meet at the hub, and the
 * number of their group follows from the counts of all members.
 */
static int tcp_subset(struct oriel_boot *boot, const int *members, int n, uint32_t tag,
		      const char *call, uint64_t timeout_ns, struct oriel_boot **sub)
{
	struct tcp_group *g = (struct tcp_group *)boot;
	uint64_t scope = scope_of(g, tag), gid = mix(scope, (uint64_t)n), *counts = NULL, waited;
	int me, err = ori_boot_members_check(boot, members, n, &me);
	struct oriel_boot *meeting;
	unsigned char *message = NULL;
	int *world;

	if (err)
		return err;
	world = world_of(g, members, n);
	if (!world)
		return ORIEL_ENOMEM;
	for (int i = 0; i < n; i++)
		gid = mix(gid, (uint64_t)world[i]);
	err = group_create(g->client, gid, scope, world, me, n, &meeting);
	if (err == ORIEL_EBUSY)
		err = ori_fail(err, "%s: another thread of rank %d is in a call with tag %u", call,
			       boot->rank, tag);
	if (err)
		goto out_world;
	counts = calloc((size_t)n, sizeof(*counts));
	message = malloc(meet_bytes(n));
	if (counts && message) {
		err = meet((struct tcp_group *)meeting, call, message, counts, timeout_ns);
	} else {
		err = ORIEL_ENOMEM;
		ori_fail(err, "%s: no memory for %d ranks", call, n);
	}
	waited = meeting->waited_ns;
	ori_boot_drop(meeting);
	gid = ~gid; /* else the counts would lead to the number of a meeting with a longer list */
	for (int i = 0; !err && i < n; i++)
		gid = mix(gid, counts[i]);
	if (!err)
		err = group_create(g->client, gid, 0, world, me, n, sub);
	if (!err)
		(*sub)->waited_ns = waited;
	free(counts);
	free(message);
out_world:
	free(world);
	return err;
}

static void tcp_gone(struct oriel_boot *boot, unsigned char *gone)
{
	struct tcp_group *g = (struct tcp_group *)boot;

	pthread_mutex_lock(&g->client->lock);
	for (int i = 0; i < boot->nranks; i++)
		gone[i] = g->client->gone[g->world[i]] != TCP_HERE;
	pthread_mutex_unlock(&g->client->lock);
}

static const struct ori_boot_backend tcp_ops = {
	.name = "tcp",
	.allgather = tcp_allgather,
	.subgroup = tcp_subgroup,
	.subset = tcp_subset,
	.gone = tcp_gone,
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
	err = group_create(c, 0, 0, NULL, c->rank, c->nranks, boot);
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
