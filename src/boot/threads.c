/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/threads.c - a boot whose ranks are threads of this process.
 *
 * Owns the collectives in progress, the watchers, and the subgroups that some members have not
 * fetched yet.  They are in the group that the ranks share (threads_group.c), under its lock.  Each
 * rank has a small boot that points to the group.
 *
 * Called by: comm through the table of boot.h; each rank's boot by that rank's threads.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "threads.h"

static const struct ori_boot_backend thread_ops;

static void thread_abort(struct oriel_boot *boot, int status, const char *why);

/* ---- allgather ------------------------------------------------------------------------------ */

/* The first missing member that has left for good, or -1. */
static int first_gone(const struct thread_group *g, const struct ori_round *gather)
{
	for (int i = 0; i < g->n; i++) {
		if (g->gone[i] && !gather->have[i])
			return i;
	}
	return -1;
}

/* call: the call of the waiting rank. */
static void warn_late(struct thread_group *g, struct ori_round *gather, const char *call)
{
	struct ori_round_report report;
	char text[ORI_BOOT_WHY_BYTES];

	gather->late_told = 1;
	ori_round_missing(gather, &report);
	ori_round_text(&report, g->world, text, sizeof(text));
	ori_log(ORI_LOG_WARN, "%s is late: %s", call, text);
}

/*
 * Waits until all members came or the collective failed.  Lock held.  Returns -1 for a failed
 * group, the number of a rank that left, or -2.
 */
static int wait_all(struct thread_group *g, struct ori_round *gather, const char *call)
{
	while (gather->arrived < g->n && !gather->failed.status) {
		uint64_t now = ori_now_ns(), until = gather->deadline_ns;
		struct timespec when;
		int gone = first_gone(g, gather);

		if (g->failed)
			return -1;
		if (gone >= 0)
			return gone;
		if (now >= gather->deadline_ns) {
			ori_round_expire(gather, ORIEL_ETIMEDOUT);
			pthread_cond_broadcast(&g->cond);
			break;
		}
		if (!gather->late_told && now >= gather->late_ns)
			warn_late(g, gather, call);
		if (!gather->late_told && gather->late_ns < until)
			until = gather->late_ns;
		ori_boot_timespec(until, &when);
		pthread_cond_timedwait(&g->cond, &g->lock, &when);
	}
	return -2;
}

/* Lock held.  Writes the verdict as text.  Returns 0 if the data are complete. */
static int verdict(struct thread_group *g, struct ori_round *gather, int gone, char *text)
{
	char name[64];

	if (gone == -1) {
		snprintf(text, ORI_BOOT_WHY_BYTES, "%s", g->why);
		return g->failed;
	}
	if (gone >= 0) {
		ori_boot_rank_text(g->world, gone, name, sizeof(name));
		snprintf(text, ORI_BOOT_WHY_BYTES, "%s left the group", name);
		return ORIEL_EPEER;
	}
	if (!gather->failed.status)
		return 0;
	ori_round_text(&gather->failed, g->world, text, ORI_BOOT_WHY_BYTES);
	return gather->failed.status;
}

static int thread_allgather(struct oriel_boot *boot, const void *mine, void *all, size_t bytes,
			    uint64_t timeout_ns)
{
	struct thread_boot *b = (struct thread_boot *)boot;
	struct thread_group *g = b->group;
	uint64_t seq = b->seq++;
	struct ori_round *gather;
	char text[ORI_BOOT_WHY_BYTES];
	int status, gives_up = 0;

	pthread_mutex_lock(&g->lock);
	if (g->failed) {
		status = verdict(g, NULL, -1, text);
		goto out;
	}
	gather = ori_round_find(g->gathers, 0, seq);
	if (!gather)
		gather = ori_round_create(&g->gathers, 0, seq, g->n, bytes, (uint32_t)boot->rank);
	if (!gather) {
		snprintf(text, sizeof(text), "no memory");
		status = ORIEL_ENOMEM;
		/* otherwise the others would wait for this rank until their deadline */
		gives_up = 1;
		goto out;
	}
	ori_round_add(gather, (uint32_t)boot->rank, (uint32_t)boot->rank, g->n, mine, bytes,
		      timeout_ns, g->late_ns);
	if (gather->arrived == g->n || gather->failed.status)
		pthread_cond_broadcast(&g->cond);
	status = verdict(g, gather, wait_all(g, gather, ori_boot_serves(boot)), text);
	boot->waited_ns = ori_now_ns() - gather->start_ns;
	if (!status && bytes)
		memcpy(all, gather->data, (size_t)g->n * bytes);
	/* The last member to leave destroys the record; round.h says why failed ones stay. */
	if (++gather->left == g->n)
		ori_round_destroy(&g->gathers, gather);
out:
	if (g->failed && g->failed_rank != boot->rank)
		ori_watch_settle(&g->watches[boot->rank], &g->lock, &g->cond, g->failed,
				 g->failed_rank, g->why);
	pthread_mutex_unlock(&g->lock);
	if (gives_up)
		thread_abort(boot, status, text);
	return status ? ori_fail(status, "%s: %s", ori_boot_serves(boot), text) : 0;
}

/* ---- subgroups ------------------------------------------------------------------------------ */

static struct thread_offer *offer_find(struct thread_group *g, uint64_t call, uint32_t tag)
{
	struct thread_offer *offer = g->offers;

	while (offer && (offer->call != call || offer->tag != tag))
		offer = offer->next;
	return offer;
}

static struct thread_offer *offer_create(struct thread_group *g, uint64_t call, uint32_t tag,
					 const int *members, int n)
{
	struct thread_offer *offer = calloc(1, sizeof(*offer));

	if (!offer)
		goto err_memory;
	offer->members = malloc((size_t)n * sizeof(*members));
	if (!offer->members)
		goto err_offer;
	memcpy(offer->members, members, (size_t)n * sizeof(*members));
	if (ori_thread_group_create(n, g->late_ns, members, g->world, &offer->group))
		goto err_members;
	offer->group->refs = 1; /* the offer's own reference */
	offer->call = call;
	offer->tag = tag;
	offer->n = n;
	offer->next = g->offers;
	g->offers = offer;
	return offer;

err_members:
	free(offer->members);
err_offer:
	free(offer);
err_memory:
	return NULL;
}

static void offer_remove(struct thread_group *g, struct thread_offer *offer)
{
	struct thread_offer **at = &g->offers;

	while (*at != offer)
		at = &(*at)->next;
	*at = offer->next;
	offer->next = NULL;
	ori_thread_offers_destroy(offer);
}

/*
 * Lock of the parent held.  The lock of the new group is taken inside it, never the other way
 * round.
 */
static int offer_fetch(struct thread_boot *b, uint32_t tag, const int *members, int n, int me,
		       struct oriel_boot **sub)
{
	struct thread_group *g = b->group;
	uint64_t call = b->subgroups++;
	struct thread_offer *offer = offer_find(g, call, tag);
	int err;

	if (!offer)
		offer = offer_create(g, call, tag, members, n);
	if (!offer)
		return ori_fail(ORIEL_ENOMEM, "no memory for a subgroup of %d ranks", n);
	if (offer->n != n || memcmp(offer->members, members, (size_t)n * sizeof(*members)))
		return ori_fail(ORIEL_EMISMATCH,
				"rank %d has another list of members for a subgroup", b->base.rank);
	err = ori_thread_boot_create(offer->group, &thread_ops, me, sub);
	if (!err && ++offer->fetched == n)
		offer_remove(g, offer);
	return err;
}

static int thread_subgroup(struct oriel_boot *boot, const int *members, int n, uint32_t tag,
			   uint64_t timeout_ns, struct oriel_boot **sub)
{
	struct thread_boot *b = (struct thread_boot *)boot;
	int me, err = ori_boot_members_check(boot, members, n, &me);

	(void)timeout_ns; /* no wait is needed: the first member that comes makes the group */
	if (err)
		return err;
	pthread_mutex_lock(&b->group->lock);
	err = offer_fetch(b, tag, members, n, me, sub);
	pthread_mutex_unlock(&b->group->lock);
	return err;
}

/* ---- watch, abort, close -------------------------------------------------------------------- */

static void thread_watch(struct oriel_boot *boot, ori_boot_watch_fn *fn, void *ctx)
{
	struct thread_group *g = ((struct thread_boot *)boot)->group;
	struct ori_watch *watch = &g->watches[boot->rank];

	pthread_mutex_lock(&g->lock);
	ori_watch_set(watch, &g->lock, &g->cond, fn, ctx);
	if (g->failed && g->failed_rank != boot->rank)
		ori_watch_tell(watch, &g->lock, &g->cond, g->failed, g->failed_rank, g->why);
	pthread_mutex_unlock(&g->lock);
}

static void thread_abort(struct oriel_boot *boot, int status, const char *why)
{
	struct thread_group *g = ((struct thread_boot *)boot)->group;
	char name[64];

	ori_boot_rank_text(g->world, boot->rank, name, sizeof(name));
	pthread_mutex_lock(&g->lock);
	if (!g->failed) {
		g->failed = status ? status : ORIEL_EABORTED;
		g->failed_rank = boot->rank;
		snprintf(g->why, sizeof(g->why), "%s aborted: %s", name, why ? why : "no reason");
		pthread_cond_broadcast(&g->cond);
		for (int r = 0; r < g->n; r++) {
			if (r != boot->rank)
				ori_watch_tell(&g->watches[r], &g->lock, &g->cond, g->failed,
					       boot->rank, g->why);
		}
	}
	pthread_mutex_unlock(&g->lock);
}

static void thread_answer(struct oriel_boot *boot, ori_boot_answer_fn *fn, void *ctx)
{
	struct thread_group *g = ((struct thread_boot *)boot)->group;

	pthread_mutex_lock(&g->lock);
	g->watches[boot->rank].answer = fn;
	g->watches[boot->rank].answer_ctx = ctx;
	pthread_mutex_unlock(&g->lock);
}

/* Calls the function under the lock, so that it is not called after its removal. */
static int thread_ask(struct oriel_boot *boot, int rank, char *out, size_t bytes,
		      uint64_t timeout_ns)
{
	struct thread_group *g = ((struct thread_boot *)boot)->group;
	struct ori_watch *them = &g->watches[rank];
	int err = ORIEL_EUNSUPPORTED;

	(void)timeout_ns;
	pthread_mutex_lock(&g->lock);
	if (them->answer) {
		them->answer(them->answer_ctx, out, bytes);
		err = 0;
	}
	pthread_mutex_unlock(&g->lock);
	return err;
}

static void thread_gone(struct oriel_boot *boot, unsigned char *gone)
{
	struct thread_group *g = ((struct thread_boot *)boot)->group;

	pthread_mutex_lock(&g->lock);
	memcpy(gone, g->gone, (size_t)boot->nranks);
	pthread_mutex_unlock(&g->lock);
}

static void thread_close(struct oriel_boot *boot)
{
	struct thread_group *g = ((struct thread_boot *)boot)->group;

	pthread_mutex_lock(&g->lock);
	ori_watch_set(&g->watches[boot->rank], &g->lock, &g->cond, NULL, NULL);
	g->watches[boot->rank].answer = NULL;
	g->gone[boot->rank] = 1;
	ori_thread_meet_gone(g, boot->rank);
	pthread_cond_broadcast(&g->cond);
	pthread_mutex_unlock(&g->lock);
	ori_thread_group_drop(g);
	free(boot);
}

static const struct ori_boot_backend thread_ops = {
	.name = "threads",
	.allgather = thread_allgather,
	.subgroup = thread_subgroup,
	.subset = ori_thread_subset,
	.gone = thread_gone,
	.watch = thread_watch,
	.abort = thread_abort,
	.answer = thread_answer,
	.ask = thread_ask,
	.close = thread_close,
};

int ori_boot_threads_create(int nranks, uint64_t late_ns, struct oriel_boot **boots)
{
	struct thread_group *g;
	int err = ori_thread_group_create(nranks, late_ns, NULL, NULL, &g);

	if (err)
		return err;
	g->refs = 1; /* until all boots exist */
	for (int r = 0; r < nranks && !err; r++) {
		err = ori_thread_boot_create(g, &thread_ops, r, &boots[r]);
		for (int i = 0; err && i < r; i++)
			ori_boot_drop(boots[i]);
	}
	ori_thread_group_drop(g);
	return err;
}
