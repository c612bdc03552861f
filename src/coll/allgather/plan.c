/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/plan.c - the route of each block between nodes.
 *
 * Pure: it depends only on the topology and the algorithm, so the plans of all ranks fit together.
 * Called by create.c and request.c on the thread that creates or runs a request.
 *
 * Every block starts at its owner and travels over distances in nodes: 0 is the owner's node, N-1
 * the farthest.  A ring forwards it from distance d to d + 1.  Doubling forwards it from d to d +
 * 2^k for every 2^k > d below N.  This is a binomial tree; for a power of two it is recursive
 * doubling, and it works for any N.  On each node one rank carries the block.  The rail selects it:
 * the owner's index in its node, modulo the size of the receiving node.
 */
#include <stdlib.h>

#include "gather.h"

int ori_gather_map_make(const struct ori_topology *t, int rank, struct ori_gather_map *m)
{
	int at = 0;

	*m = (struct ori_gather_map){ .nranks = t->nranks,
				      .nnodes = t->nnodes,
				      .rank = rank,
				      .node = t->node,
				      .rail = t->node_rank };
	m->first = calloc((size_t)t->nnodes, sizeof(*m->first));
	m->size = calloc((size_t)t->nnodes, sizeof(*m->size));
	m->members = calloc((size_t)t->nranks, sizeof(*m->members));
	if (!m->first || !m->size || !m->members) {
		ori_gather_map_free(m);
		return ori_fail(ORIEL_ENOMEM, "no memory for the nodes of an all-gather");
	}
	for (int r = 0; r < t->nranks; r++)
		m->size[t->node[r]]++;
	for (int n = 0; n < t->nnodes; n++) {
		m->first[n] = at;
		at += m->size[n];
		m->rails = m->size[n] > m->rails ? m->size[n] : m->rails;
	}
	for (int r = 0; r < t->nranks; r++)
		m->members[m->first[t->node[r]] + t->node_rank[r]] = r;
	return 0;
}

void ori_gather_map_free(struct ori_gather_map *m)
{
	free(m->first);
	free(m->size);
	free(m->members);
	m->first = m->size = m->members = NULL;
}

/* The rank that carries the blocks of that rail on that node. */
static int carrier(const struct ori_gather_map *m, int node, int rail)
{
	return m->members[m->first[node] + rail % m->size[node]];
}

/* The distance from which a block comes to `d`. */
static int distance_before(int algorithm, int d)
{
	int bit = 1;

	if (algorithm == ORIEL_GATHER_RING)
		return d - 1;
	while (bit <= d / 2)
		bit *= 2;
	return d - bit;
}

/* The nth distance to which it goes from `d`, or -1 if there is none. */
static int distance_after(int algorithm, int d, int n, int nnodes)
{
	int64_t bit = 1;

	if (algorithm == ORIEL_GATHER_RING)
		return n == 0 && d + 1 < nnodes ? d + 1 : -1;
	while (bit <= d)
		bit *= 2;
	bit <<= n;
	return d + bit < nnodes ? (int)(d + bit) : -1;
}

/* ---- building a plan ------------------------------------------------------------------------- */

/* Index of the flow with that peer, created if missing; -1: no memory. */
static int flow_with(struct ori_gather_flow **flows, int *n, int peer)
{
	struct ori_gather_flow *more;

	for (int f = *n - 1; f >= 0; f--)
		if ((*flows)[f].peer == peer)
			return f;
	/* room grows by powers of two */
	if (!(*n & (*n - 1))) {
		more = realloc(*flows, sizeof(**flows) * (size_t)(*n ? 2 * *n : 1));
		if (!more)
			return -1;
		*flows = more;
	}
	(*flows)[*n] = (struct ori_gather_flow){ .peer = peer };
	return (*n)++;
}

static int flow_add(struct ori_gather_flow *f, int item)
{
	int *more;

	if (!(f->nitems & (f->nitems - 1))) {
		more = realloc(f->items, sizeof(*more) * (size_t)(f->nitems ? 2 * f->nitems : 1));
		if (!more)
			return -1;
		f->items = more;
	}
	f->items[f->nitems++] = item;
	return 0;
}

static int add_item(struct ori_gather_plan *p, int block, int source)
{
	int i = p->nitems++, f;

	p->block[i] = block;
	p->from[i] = -1;
	p->place[i] = 0;
	if (source < 0)
		return 0;
	f = flow_with(&p->in, &p->nin, source);
	if (f < 0)
		return -1;
	p->from[i] = f;
	p->place[i] = p->in[f].nitems;
	return flow_add(&p->in[f], i);
}

static int add_send(struct ori_gather_plan *p, int item, int peer)
{
	int f = flow_with(&p->out, &p->nout, peer);

	return f < 0 ? -1 : flow_add(&p->out[f], item);
}

/*
 * Everything goes directly to its target.  The next rank comes first, so that ranks do not all
 * begin with the same target.
 */
static int plan_direct(const struct ori_gather_map *m, struct ori_gather_plan *p)
{
	int err = add_item(p, m->rank, -1);

	for (int i = 1; i < m->nranks && !err; i++) {
		int to = (m->rank + i) % m->nranks, from = (m->rank + m->nranks - i) % m->nranks;

		if (m->node[to] != m->node[m->rank])
			err = add_send(p, 0, to);
		if (!err && m->node[from] != m->node[m->rank])
			err = add_item(p, from, from);
	}
	return err;
}

static int add_sends(const struct ori_gather_map *m, struct ori_gather_plan *p, int item, int d,
		     int origin, int rail)
{
	int err = 0, next;

	for (int n = 0; !err; n++) {
		next = distance_after(p->algorithm, d, n, m->nnodes);
		if (next < 0)
			break;
		err = add_send(p, item, carrier(m, (origin + next) % m->nnodes, rail));
	}
	return err;
}

/* Plans the blocks of one distance that come through this rank. */
static int plan_distance(const struct ori_gather_map *m, struct ori_gather_plan *p, int d)
{
	int here = m->node[m->rank], origin = (here + m->nnodes - d) % m->nnodes, err = 0;
	int before = (origin + distance_before(p->algorithm, d)) % m->nnodes;

	for (int rail = 0; rail < m->size[origin] && !err; rail++) {
		if (carrier(m, here, rail) != m->rank)
			continue;
		err = add_item(p, carrier(m, origin, rail), carrier(m, before, rail));
		if (!err)
			err = add_sends(m, p, p->nitems - 1, d, origin, rail);
	}
	return err;
}

static int plan_relay(const struct ori_gather_map *m, struct ori_gather_plan *p)
{
	int here = m->node[m->rank], err = add_item(p, m->rank, -1);

	p->relay = 1;
	if (!err)
		err = add_sends(m, p, 0, 0, here, m->rail[m->rank]);
	for (int d = 1; d < m->nnodes && !err; d++)
		err = plan_distance(m, p, d);
	return err;
}

int ori_gather_plan_make(const struct ori_gather_map *m, int algorithm,
			 struct ori_gather_plan **out)
{
	struct ori_gather_plan *p = calloc(1, sizeof(*p));
	size_t n = (size_t)m->nranks;
	int err = -1;

	if (p) {
		p->algorithm = algorithm;
		p->block = calloc(n, sizeof(int));
		p->from = calloc(n, sizeof(int));
		p->place = calloc(n, sizeof(int));
	}
	if (p && p->block && p->from && p->place)
		err = algorithm == ORIEL_GATHER_DIRECT ? plan_direct(m, p) : plan_relay(m, p);
	if (err) {
		ori_gather_plan_free(p);
		return ori_fail(ORIEL_ENOMEM, "no memory for the plan of an all-gather");
	}
	*out = p;
	return 0;
}

void ori_gather_plan_free(struct ori_gather_plan *p)
{
	if (!p)
		return;
	for (int f = 0; f < p->nin; f++)
		free(p->in[f].items);
	for (int f = 0; f < p->nout; f++)
		free(p->out[f].items);
	free(p->in);
	free(p->out);
	free(p->block);
	free(p->from);
	free(p->place);
	free(p);
}
