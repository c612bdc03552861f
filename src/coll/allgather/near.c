/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/near.c - a plan as tables in memory that kernels read.
 *
 * Owns that memory, which lasts as long as the request.  Calls none of the other files of this
 * folder.  Called by stream.c, when a plan is first used on a stream, and by state.c, when a
 * request ends.
 */
#include <stdlib.h>
#include <string.h>

#include "../../comm/control.h"
#include "gather.h"

static int count_sends(const struct ori_gather_plan *p)
{
	int n = 0;

	for (int f = 0; f < p->nout; f++)
		n += p->out[f].nitems;
	return n;
}

/*
 * Takes `count` numbers of the table: returns their place here; *near is their place for kernels.
 */
static int32_t *take(struct ori_gather_near *n, int *at, int count, const int32_t **near)
{
	int32_t *here = n->host + *at;

	*near = (const int32_t *)n->near + *at;
	*at += count;
	return here;
}

static void fill_sends(const struct ori_gather_plan *p, int32_t *first, int32_t *flow,
		       int32_t *place)
{
	int n = 0;

	for (int i = 0; i < p->nitems; i++) {
		first[i] = n;
		for (int f = 0; f < p->nout; f++)
			for (int k = 0; k < p->out[f].nitems; k++)
				if (p->out[f].items[k] == i) {
					flow[n] = f;
					place[n++] = k;
				}
	}
	first[p->nitems] = n;
}

static void fill_table(const struct ori_gather_map *m, const struct ori_gather_plan *p,
		       struct ori_gather_near *n)
{
	struct ori_gather_table *t = &n->table;
	int node = m->node[m->rank], size = m->size[node], at = 0, sends = count_sends(p);
	int32_t *to, *first, *flow;

	t->nmapped = size - 1;
	t->nin = p->nin;
	t->nout = p->nout;
	t->nitems = p->nitems;
	to = take(n, &at, size - 1, &t->mapped);
	for (int i = 0; i < size - 1; i++)
		to[i] = m->members[m->first[node] + (m->rail[m->rank] + 1 + i) % size];
	to = take(n, &at, p->nin, &t->in_peer);
	for (int f = 0; f < p->nin; f++)
		to[f] = p->in[f].peer;
	to = take(n, &at, p->nin, &t->in_items);
	for (int f = 0; f < p->nin; f++)
		to[f] = p->in[f].nitems;
	to = take(n, &at, p->nout, &t->out_peer);
	for (int f = 0; f < p->nout; f++)
		to[f] = p->out[f].peer;
	memcpy(take(n, &at, p->nitems, &t->block), p->block, sizeof(int32_t) * (size_t)p->nitems);
	memcpy(take(n, &at, p->nitems, &t->from), p->from, sizeof(int32_t) * (size_t)p->nitems);
	memcpy(take(n, &at, p->nitems, &t->place), p->place, sizeof(int32_t) * (size_t)p->nitems);
	first = take(n, &at, p->nitems + 1, &t->send_first);
	flow = take(n, &at, sends, &t->send_flow);
	fill_sends(p, first, flow, take(n, &at, sends, &t->send_place));
}

static void free_near(struct oriel_comm *c, struct ori_gather_near *n)
{
	if (!n)
		return;
	ori_control_unpublish(c, n->near, n->bytes);
	ori_control_unpublish(c, n->done, sizeof(n->zero));
	free(n->host);
	free(n);
}

void ori_gather_near_free(struct oriel_allgather_request *r)
{
	for (int a = 0; a < 4; a++) {
		free_near(r->comm, r->near[a]);
		r->near[a] = NULL;
	}
}

/*
 * The address is allocated before the contents are known: pointers in the table point into the
 * published copy.
 */
int ori_gather_near_make(struct oriel_allgather_request *r, const struct ori_gather_plan *p,
			 struct ori_gather_near **out)
{
	const struct ori_gather_map *m = &r->state->map;
	size_t words = (size_t)m->size[m->node[m->rank]] + 2 * (size_t)p->nin + (size_t)p->nout +
		       4 * (size_t)p->nitems + 1 + 2 * (size_t)count_sends(p);
	struct ori_gather_near *n = calloc(1, sizeof(*n));
	int err;

	if (n)
		n->host = calloc(words, sizeof(*n->host));
	if (!n || !n->host) {
		free(n);
		return ori_fail(ORIEL_ENOMEM, "no memory for the plan of an all-gather");
	}
	n->bytes = words * sizeof(*n->host);
	err = ori_control_publish(r->comm, n->host, n->bytes, &n->near);
	if (!err)
		err = ori_control_publish(r->comm, &n->zero, sizeof(n->zero), &n->done);
	if (!err) {
		fill_table(m, p, n);
		err = r->comm->device->ops->copy(r->comm->device, (void *)(uintptr_t)n->near,
						 n->host, n->bytes);
	}
	if (err) {
		free_near(r->comm, n);
		return err;
	}
	*out = n;
	return 0;
}
