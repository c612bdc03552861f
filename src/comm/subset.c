/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/subset.c - makes a comm from listed ranks of a comm, or from those that live.
 *
 * The members first meet at the boot (subset in boot.h), which compares their lists.  From then on
 * they have a boot of their own, and the comm is built on it as any other.  The call uses nothing
 * of the parent that other calls change, so it may run beside them.
 *
 * Called on user threads.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agree.h"
#include "failure.h"
#include "object.h"

#define PAUSE_US 2000
#define NEWS_NS ORI_NS_PER_S /* the boot learns of a death within this time */

static const char call_name[] = "oriel_comm_subset";

/* seen: [nranks], all 0. */
static int check_ranks(const struct oriel_comm *c, const int *ranks, int n, unsigned char *seen)
{
	for (int i = 0; i < n; i++) {
		if (ranks[i] < 0 || ranks[i] >= c->nranks)
			return ori_fail(ORIEL_ERANGE,
					"%s: rank %d does not exist (ranks are 0 to %d)", call_name,
					ranks[i], c->nranks - 1);
		if (seen[ranks[i]]++)
			return ori_fail(ORIEL_EINVAL, "%s: rank %d is in the list twice", call_name,
					ranks[i]);
	}
	if (!seen[c->rank])
		return ori_fail(ORIEL_EINVAL, "%s: rank %d is not in its own list", call_name,
				c->rank);
	return 0;
}

static int check_list(const struct oriel_comm *c, const int *ranks, int n, int tag)
{
	unsigned char *seen;
	int err;

	if (!ranks)
		return ori_fail(ORIEL_EINVAL, "%s: ranks is NULL", call_name);
	if (n < 1 || n > c->nranks)
		return ori_fail(ORIEL_ERANGE, "%s: %d ranks (must be 1 to %d)", call_name, n,
				c->nranks);
	if (tag < 0)
		return ori_fail(ORIEL_ERANGE, "%s: tag %d is negative", call_name, tag);
	seen = calloc((size_t)c->nranks, 1);
	if (!seen)
		return ori_fail(ORIEL_ENOMEM, "%s: no memory for %d ranks", call_name, n);
	err = check_ranks(c, ranks, n, seen);
	free(seen);
	return err;
}

/* One deadline for the call: it counts from the member that came first (decision 0031). */
static uint64_t end_of_call(const struct oriel_comm *c, const struct oriel_boot *boot)
{
	uint64_t least = c->timeout_ns < ORI_NS_PER_S ? c->timeout_ns : ORI_NS_PER_S;
	uint64_t left = boot->waited_ns < c->timeout_ns ? c->timeout_ns - boot->waited_ns : 0;

	return ori_deadline_ns(left > least ? left : least);
}

/* The members have met. */
static int build(struct oriel_comm *c, struct oriel_boot *boot, const int *ranks, int n,
		 enum ori_call call, struct oriel_comm **sub)
{
	struct ori_origin origin = { .parent = c, .call = call };
	int *nodes = calloc((size_t)n, sizeof(*nodes)), status = 0, err;

	if (!nodes)
		status = ori_fail(ORIEL_ENOMEM, "%s: no memory for %d ranks", ori_call_name(call),
				  n);
	else if (!sub)
		status = ori_fail(ORIEL_EINVAL, "%s: no place for the comm", ori_call_name(call));
	for (int i = 0; nodes && i < n; i++)
		nodes[i] = c->topology.node[ranks[i]];
	origin.nodes = nodes;
	origin.end_ns = end_of_call(c, boot);
	err = ori_comm_build(boot, &c->config, status, &origin, sub);
	free(nodes);
	return err;
}

int oriel_comm_subset(struct oriel_comm *c, const int *ranks, int n, int tag,
		      struct oriel_comm **sub)
{
	struct oriel_boot *boot;
	int err = ori_comm_check(c, call_name);

	if (!err)
		err = ori_comm_failed(c);
	if (!err)
		err = check_list(c, ranks, n, tag);
	if (!err)
		err = c->boot->ops->subset(c->boot, ranks, n, (uint32_t)tag, call_name,
					   c->timeout_ns, &boot);
	return err ? err : build(c, boot, ranks, n, ORI_CALL_COMM_SUBSET, sub);
}

/* ---- survivors ------------------------------------------------------------------------------- */

static int list_living(const struct oriel_comm *c, const unsigned char *gone, int *ranks)
{
	int n = 0;

	for (int r = 0; r < c->nranks; r++)
		if (!gone[r])
			ranks[n++] = r;
	return n;
}

/*
 * Is there news of another death, or is it on its way?  A rank may see effects of a death before
 * the boot tells of it: a peer fails, or memory of a rank that has given up already cannot be
 * mapped.
 */
static int has_news(const struct oriel_comm *c, const unsigned char *before, unsigned char *now)
{
	uint64_t end = ori_deadline_ns(NEWS_NS);

	for (;;) {
		c->boot->ops->gone(c->boot, now);
		if (memcmp(before, now, (size_t)c->nranks) != 0)
			return 1;
		if (ori_now_ns() >= end)
			return 0;
		usleep(PAUSE_US);
	}
}

/* gone: [2 * nranks]. */
static int shrink(struct oriel_comm *c, unsigned char *gone, int *ranks, struct oriel_comm **sub)
{
	uint64_t end = ori_deadline_ns(c->timeout_ns), now;
	struct oriel_boot *boot;
	int n, err;

	while ((now = ori_now_ns()) < end) {
		c->boot->ops->gone(c->boot, gone);
		n = list_living(c, gone, ranks);
		err = c->boot->ops->subset(c->boot, ranks, n, ORI_BOOT_SURVIVORS,
					   "oriel_comm_shrink", end - now, &boot);
		if (err == ORIEL_EMISMATCH) { /* some ranks do not have the news yet */
			usleep(PAUSE_US);
			continue;
		}
		if (err && err != ORIEL_EPEER)
			return err;
		if (!err)
			err = build(c, boot, ranks, n, ORI_CALL_COMM_SHRINK, sub);
		if (!err || !has_news(c, gone, gone + c->nranks))
			return err;
	}
	return ori_fail(ORIEL_ETIMEDOUT,
			"oriel_comm_shrink: news of deaths came until the deadline");
}

int oriel_comm_shrink(struct oriel_comm *c, struct oriel_comm **sub)
{
	unsigned char *gone;
	int *ranks, err = ori_comm_check(c, "oriel_comm_shrink");

	if (err)
		return err;
	if (!c->boot->ops->gone)
		return ori_fail(ORIEL_EUNSUPPORTED,
				"oriel_comm_shrink: a comm of oriel_boot_user does not learn of "
				"deaths");
	gone = calloc(2, (size_t)c->nranks);
	ranks = calloc((size_t)c->nranks, sizeof(*ranks));
	if (gone && ranks)
		err = shrink(c, gone, ranks, sub);
	else
		err = ori_fail(ORIEL_ENOMEM, "oriel_comm_shrink: no memory for %d ranks",
			       c->nranks);
	free(gone);
	free(ranks);
	return err;
}
