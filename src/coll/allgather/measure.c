/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/measure.c - measures the speed of puts between nodes and of local copies.
 *
 * It runs once per comm, when the first request is created.  Every rank puts data to that rank of
 * the next node that its blocks would go to.  All ranks do so at once, as in an all-gather.  The
 * median over the ranks counts, so that one rank that stopped for a moment does not decide.  All
 * ranks have all figures and compute the same median.
 *
 * Called by create.c, on the thread that creates the request.
 */
#include <stdlib.h>
#include <string.h>

#include "../../comm/agree.h"
#include "gather.h"

/* Three times in the window: the target of puts, the source of all, the target of copies. */
#define PROBE_BYTES (256u << 10)
#define SMALL_BYTES 8u
#define TRIES 3

/* Used if nothing is measured: there is only one node. */
static const struct ori_gather_speed guess = { 5000, 0.1, 0.05 };

struct probe {
	struct oriel_window *window;
	struct oriel_source source;
	int peer;
};

/* The best of a few tries, in ns. */
static int time_put(struct oriel_comm *c, const struct probe *p, uint64_t bytes, double *best)
{
	int err = 0;

	*best = 1e18;
	for (int i = 0; i < TRIES && !err; i++) {
		uint64_t start = ori_now_ns();

		err = oriel_window_put(p->window, p->peer, 0, &p->source, 0, bytes, NULL);
		if (!err)
			err = oriel_comm_sync(c, NULL);
		if ((double)(ori_now_ns() - start) < *best)
			*best = (double)(ori_now_ns() - start);
	}
	return err;
}

static int measure_here(struct oriel_comm *c, const struct probe *p, struct ori_gather_speed *s)
{
	double small = 0, large = 0, copy = 1e18;
	char *base = oriel_window_buffer(p->window);
	int err = time_put(c, p, SMALL_BYTES, &small);

	if (!err)
		err = time_put(c, p, PROBE_BYTES, &large);
	for (int i = 0; i < TRIES && !err; i++) {
		uint64_t start = ori_now_ns();

		err = oriel_copy(c, base + 2 * PROBE_BYTES, base + PROBE_BYTES, PROBE_BYTES);
		if ((double)(ori_now_ns() - start) < copy)
			copy = (double)(ori_now_ns() - start);
	}
	s->latency_ns = small > 1 ? small : 1;
	s->net_ns_byte = (large > 1.1 * small ? large - small : 0.1 * small) / PROBE_BYTES;
	s->copy_ns_byte = copy / PROBE_BYTES;
	return err;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double middle(const struct ori_gather_speed *all, size_t field, int n, double *room)
{
	for (int r = 0; r < n; r++)
		memcpy(&room[r], (const char *)&all[r] + field, sizeof(double));
	qsort(room, (size_t)n, sizeof(*room), by_value);
	return room[n / 2];
}

static int open_probe(struct oriel_comm *c, const struct ori_gather_map *m, struct probe *p)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int node = (m->node[m->rank] + 1) % m->nnodes, err;

	o.signals = o.counters = o.barriers = 0;
	o.bytes = 3 * PROBE_BYTES;
	p->peer = m->members[m->first[node] + m->rail[m->rank] % m->size[node]];
	err = oriel_window_create(c, &o, &p->window);
	return err;
}

int ori_gather_measure(struct oriel_comm *c, const struct ori_gather_map *m,
		       struct ori_gather_speed *speed)
{
	struct ori_gather_speed mine = guess, *all;
	struct probe p = { 0 };
	double *room;
	int status, err;

	*speed = guess;
	if (m->nnodes == 1)
		return 0;
	err = open_probe(c, m, &p);
	if (err)
		return err;
	all = calloc((size_t)c->nranks, sizeof(*all));
	room = calloc((size_t)c->nranks, sizeof(*room));
	status = all && room ? 0 : ori_fail(ORIEL_ENOMEM, "no memory to measure links");
	if (!status)
		status = oriel_window_source(p.window,
					     (char *)oriel_window_buffer(p.window) + PROBE_BYTES,
					     PROBE_BYTES, &p.source);
	if (!status)
		status = measure_here(c, &p, &mine);
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_GATHER_INIT, status, &mine, all,
			all ? sizeof(mine) : 0);
	if (!err) {
		speed->latency_ns = middle(all, offsetof(struct ori_gather_speed, latency_ns),
					   c->nranks, room);
		speed->net_ns_byte = middle(all, offsetof(struct ori_gather_speed, net_ns_byte),
					    c->nranks, room);
		speed->copy_ns_byte = middle(all, offsetof(struct ori_gather_speed, copy_ns_byte),
					     c->nranks, room);
	}
	free(all);
	free(room);
	status = oriel_window_destroy(p.window);
	return err ? err : status;
}
