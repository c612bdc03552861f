/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/split.c - makes comms from the ranks of a comm, by colour.
 *
 * Ranks with colour < 0 also form a group, so that every rank makes the same boot calls.  That
 * group is dropped.  The new comm has its own boot and control memory, so it may outlive its
 * parent.  Both comms share the GPU and its default stream; the comm that ends last closes the GPU.
 *
 * Called on user threads.
 */
#include <stdlib.h>

#include "agree.h"
#include "failure.h"
#include "object.h"

struct split_record {
	int32_t color, key;
};

struct member {
	int rank, key;
};

static int by_key_then_rank(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank < y->rank ? -1 : 1;
}

static int same_group(int a, int b)
{
	return a == b || (a < 0 && b < 0);
}

/* Lists the ranks of this colour in their new order.  *lowest is a different tag per group. */
static int list_members(const struct split_record *all, int nranks, int color, struct member *m,
			int *ranks, int *lowest)
{
	int n = 0;

	for (int r = 0; r < nranks; r++)
		if (same_group(all[r].color, color)) {
			m[n].rank = r;
			m[n++].key = all[r].key;
		}
	*lowest = m[0].rank;
	qsort(m, (size_t)n, sizeof(*m), by_key_then_rank);
	for (int i = 0; i < n; i++)
		ranks[i] = m[i].rank;
	return n;
}

int oriel_comm_split(struct oriel_comm *c, int color, int key, struct oriel_comm **sub)
{
	struct split_record mine = { color, key }, *all = NULL;
	struct oriel_boot *boot = NULL;
	struct member *members = NULL;
	struct ori_origin origin = { .parent = c, .call = ORI_CALL_COMM_SPLIT };
	int *ranks = NULL, *nodes = NULL;
	int n, lowest = 0, status = 0, err = ori_comm_check(c, "oriel_comm_split");

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	ori_comm_call_begin(c, ORI_CALL_COMM_SPLIT);
	all = calloc((size_t)c->nranks, sizeof(*all));
	members = calloc((size_t)c->nranks, sizeof(*members));
	ranks = calloc((size_t)c->nranks, sizeof(*ranks));
	nodes = calloc((size_t)c->nranks, sizeof(*nodes));
	if (!all || !members || !ranks || !nodes)
		status = ori_fail(ORIEL_ENOMEM, "oriel_comm_split: no memory");
	else if (!sub)
		status = ori_fail(ORIEL_EINVAL, "oriel_comm_split: no place for the comm");
	err = ori_comm_agree(c, status, &mine, all, sizeof(mine));
	if (err)
		goto out;
	n = list_members(all, c->nranks, color, members, ranks, &lowest);
	err = c->boot->ops->subgroup(c->boot, ranks, n, (uint32_t)lowest + 1, ori_comm_round_ns(c),
				     &boot);
	if (err)
		goto out;
	if (color < 0) {
		ori_boot_drop(boot);
		*sub = NULL;
		goto out;
	}
	for (int i = 0; i < n; i++)
		nodes[i] = c->topology.node[ranks[i]];
	origin.nodes = nodes;
	origin.end_ns = c->call_end_ns;
	err = ori_comm_build(boot, &c->config, 0, &origin, sub);
out:
	free(all);
	free(members);
	free(ranks);
	free(nodes);
	return err;
}
