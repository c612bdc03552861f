/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/steps_graph.c - CUDA graphs: kernels, host-issued operations or all-gathers are
 * captured once and replayed, each replay with bytes of its own.
 */
#include "campaign.h"

enum captured { BY_KERNELS, BY_HOST, BY_GATHER, CAPTURED };

struct graph {
	int w, id, cell, request;
	enum captured how;
	uint64_t bytes, off[CAMP_RANKS], src[CAMP_RANKS], tag[CAMP_RANKS];
};

static struct camp_op *replayed(struct camp_emit *e, const struct graph *g, int rank, int code,
				int place, uint64_t off, int tag_of)
{
	struct camp_op *o = camp_op(e, rank, 0, code, g->w);

	o->place = place;
	o->off = off;
	o->bytes = g->bytes;
	o->tag = g->tag[tag_of];
	o->how = CAMP_REPLAYED;
	o->cell = g->cell;
	return o;
}

/* An exec of a request; it may go before its graph does. */
static void capture_gather(struct camp_emit *e, const struct graph *g, int r)
{
	struct camp_window *w = &e->windows[g->w];
	struct camp_comm *c = &e->comms[w->comm];
	struct camp_act *a;

	camp_op(e, r, 0, CAMP_REPLAY, g->w)->cell = g->cell;
	(void)replayed(e, g, r, CAMP_FILL, w->pool_place, g->src[r], r);
	a = camp_act(e, c->world[r], CAMP_ACT_GATHER_EXEC);
	a->request = g->request;
	a->place = w->buffer_place;
	a->id = w->pool_place;
	a->src_off = g->src[r];
	a->bytes = 1;
	a->value = g->bytes;
	for (int i = 0; i < c->n; i++)
		(void)replayed(e, g, r, CAMP_CHECK, w->buffer_place,
			       g->off[r] + (uint64_t)i * g->bytes, i);
}

static void init_gather(struct camp_emit *e, struct graph *g)
{
	struct camp_window *w = &e->windows[g->w];
	struct camp_comm *c = &e->comms[w->comm];
	uint64_t all = g->bytes * (uint64_t)c->n, at = camp_take_alike(e, g->w, all, 16);

	g->request = e->nrequests++;
	for (int r = 0; r < c->n; r++) {
		struct camp_act *a = camp_act(e, c->world[r], CAMP_ACT_GATHER_INIT);

		a->comm = w->comm;
		a->window = g->w;
		a->request = g->request;
		a->off = g->off[r] = at;
		a->bytes = all;
		a->memory = -1;
	}
}

static void end_gather(struct camp_emit *e, const struct graph *g)
{
	struct camp_comm *c = &e->comms[e->windows[g->w].comm];

	for (int r = 0; r < c->n; r++)
		camp_act(e, c->world[r], CAMP_ACT_GATHER_DESTROY)->request = g->request;
}

static void put_and_wait_by_host(struct camp_emit *e, const struct graph *g, int r, int left,
				 int right, uint64_t want)
{
	struct camp_window *w = &e->windows[g->w];
	int world = e->comms[w->comm].world[r];
	struct camp_act *a = camp_act(e, world, CAMP_ACT_PUT_SIGNAL);

	a->place = w->pool_place;
	a->window = g->w;
	a->peer = right;
	a->off = g->off[right];
	a->src_off = g->src[r];
	a->bytes = g->bytes;
	a->id = g->id;
	a->how = ORIEL_ADD;
	a->value = 1;
	a = camp_act(e, world, CAMP_ACT_WAIT);
	a->window = g->w;
	a->peer = left;
	a->id = g->id;
	a->how = ORIEL_GE;
	a->value = want;
}

static void put_and_wait(struct camp_emit *e, const struct graph *g, int r, int left, int right,
			 uint64_t want)
{
	struct camp_op *o = camp_op(e, r, 0, CAMP_PUT_SIGNAL, g->w);

	o->place = e->windows[g->w].pool_place;
	o->peer = right;
	o->off = g->off[right];
	o->src_off = g->src[r];
	o->bytes = g->bytes;
	o->id = g->id;
	o->how = ORIEL_ADD;
	o->value = 1;
	o = camp_op(e, r, 0, CAMP_WAIT_FROM, g->w);
	o->peer = left;
	o->id = g->id;
	o->how = ORIEL_GE;
	o->value = want;
}

/* A ring: every replay has bytes of its own and waits for one more signal. */
static void capture(struct camp_emit *e, const struct graph *g, int r, int left, int right)
{
	struct camp_window *w = &e->windows[g->w];
	uint64_t want = w->signals[r][left][g->id] + 1;
	struct camp_op *o;

	camp_op(e, r, 0, CAMP_REPLAY, g->w)->cell = g->cell;
	(void)replayed(e, g, r, CAMP_FILL, w->pool_place, g->src[r], r);
	if (g->how == BY_HOST)
		put_and_wait_by_host(e, g, r, left, right, want);
	else
		put_and_wait(e, g, r, left, right, want);
	o = camp_op(e, r, 0, CAMP_ADVANCE_FROM, g->w);
	o->peer = left;
	o->id = g->id;
	o->value = 1;
	(void)replayed(e, g, r, CAMP_CHECK, w->buffer_place, g->off[r], left);
	camp_op_meet(e, g->w, r, 0, CAMP_BARRIER);
}

/* What the last replay leaves. */
static void model_graph(struct camp_emit *e, const struct graph *g, int replays)
{
	int n = e->comms[e->windows[g->w].comm].n;
	uint64_t last = (uint64_t)replays << 32;

	for (int r = 0; r < n; r++)
		if (g->how != BY_GATHER)
			camp_model_bytes(e, g->w, r, g->off[r], g->tag[(r + n - 1) % n] + last, 0,
					 g->bytes);
		else
			for (int i = 0; i < n; i++)
				camp_model_bytes(e, g->w, r, g->off[r] + (uint64_t)i * g->bytes,
						 g->tag[i] + last, 0, g->bytes);
}

static void draw_graph(struct camp_emit *e, struct graph *g)
{
	struct camp_comm *c = &e->comms[e->windows[g->w].comm];

	g->id = camp_take_id(e, g->w);
	g->cell = e->ncells++;
	g->how = (enum captured)camp_below(&e->random, CAPTURED);
	g->bytes = camp_some_bytes(e, g->w, 2 * c->n) + 1;
	for (int r = 0; r < c->n; r++) {
		if (g->how != BY_GATHER)
			g->off[r] = camp_take(e, g->w, r, g->bytes, 1);
		g->src[r] = camp_take_pool(e, c->world[r], g->bytes);
		g->tag[r] = camp_tag(e);
	}
}

static void all_meet(struct camp_emit *e)
{
	for (int r = 0; r < e->config->ranks; r++)
		(void)camp_act(e, r, CAMP_ACT_COMM_BARRIER);
}

/*
 * All ranks have their graphs ready before one is launched: making one may wait for kernels that
 * run.
 */
void camp_step_graph(struct camp_emit *e)
{
	struct graph g = { .w = camp_any_window(e) };
	struct camp_comm *c = &e->comms[e->windows[g.w].comm];
	int replays = 1 + camp_below(&e->random, 12), graph = e->nrequests, early;

	if (e->ncells >= CAMP_CELLS - 1 || e->nrequests + 2 > CAMP_REQUESTS)
		return;
	camp_shape(e, 1);
	camp_settle(e, 0);
	e->nrequests++;
	draw_graph(e, &g);
	if (g.how == BY_GATHER)
		init_gather(e, &g);
	early = g.how == BY_GATHER && camp_chance(&e->random, 30);
	camp_tell(e, "  window %d: %llu bytes %s, %d replays%s\n", g.w, (unsigned long long)g.bytes,
		  g.how == BY_GATHER ? "gathered" :
		  g.how == BY_HOST   ? "round a ring by the host" :
				       "round a ring by kernels",
		  replays, early ? ", the request goes first" : "");
	for (int r = 0; r < c->n; r++) {
		(void)camp_act(e, c->world[r], CAMP_ACT_CAPTURE);
		if (g.how == BY_GATHER)
			capture_gather(e, &g, r);
		else
			capture(e, &g, r, (r + c->n - 1) % c->n, (r + 1) % c->n);
		camp_act(e, c->world[r], CAMP_ACT_CAPTURED)->request = graph;
	}
	model_graph(e, &g, replays);
	if (early)
		end_gather(e, &g);
	all_meet(e);
	for (int r = 0; r < c->n; r++) {
		for (int i = 0; i < replays; i++)
			camp_act(e, c->world[r], CAMP_ACT_GRAPH_LAUNCH)->request = graph;
		(void)camp_act(e, c->world[r], CAMP_ACT_STREAM_SYNC);
	}
	all_meet(e);
	for (int r = 0; r < c->n; r++)
		camp_act(e, c->world[r], CAMP_ACT_GRAPH_DESTROY)->request = graph;
	if (g.how == BY_GATHER && !early)
		end_gather(e, &g);
}
