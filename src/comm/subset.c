/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/subset.c - makes a comm from listed ranks of a comm, without the others.
 *
 * The members first meet at the boot (subset in boot.h), which compares their lists.  From then on
 * they have a boot of their own, and the comm is built on it as any other.  The call uses nothing
 * of the parent that other calls change, so it may run beside them.
 *
 * Called on user threads.
 */
#include <stdlib.h>

#include "agree.h"
#include "failure.h"
#include "object.h"

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

int oriel_comm_subset(struct oriel_comm *c, const int *ranks, int n, int tag,
		      struct oriel_comm **sub)
{
	struct ori_origin origin = { .parent = c, .call = ORI_CALL_COMM_SUBSET };
	struct oriel_boot *boot;
	int *nodes, status = 0, err = ori_comm_check(c, call_name);

	if (!err)
		err = ori_comm_failed(c);
	if (!err)
		err = check_list(c, ranks, n, tag);
	if (err)
		return err;
	err = c->boot->ops->subset(c->boot, ranks, n, (uint32_t)tag, call_name, c->timeout_ns,
				   &boot);
	if (err)
		return err;
	nodes = calloc((size_t)n, sizeof(*nodes));
	if (!nodes)
		status = ori_fail(ORIEL_ENOMEM, "%s: no memory for %d ranks", call_name, n);
	else if (!sub)
		status = ori_fail(ORIEL_EINVAL, "%s: no place for the comm", call_name);
	for (int i = 0; nodes && i < n; i++)
		nodes[i] = c->topology.node[ranks[i]];
	origin.nodes = nodes;
	origin.end_ns = end_of_call(c, boot);
	err = ori_comm_build(boot, &c->config, status, &origin, sub);
	free(nodes);
	return err;
}
