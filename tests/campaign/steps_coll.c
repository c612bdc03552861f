/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/steps_coll.c - all-gather, without a request and with one.
 *
 * A call's data is made by a kernel on the call's stream before it, and checked by one after it;
 * nothing else orders them.
 */
#include <stdlib.h>

#include "campaign.h"

static int any_stream(struct camp_emit *e)
{
	return camp_chance(&e->random, 60) ? e->stream : camp_below(&e->random, e->config->streams);
}

/* ---- all-gather without a request ------------------------------------------------------------ */

#define KEPT 64 /* requests that the library keeps */

enum cover { COVERED, UNCOVERED, BUFFER };

struct gather {
	int w, kind, request, in_place;
	int memory, place; /* BUFFER: registered memory */
	enum cover cover;
	uint64_t block; /* bytes of a rank */
	uint64_t elem;
	uint64_t recv[CAMP_RANKS], send[CAMP_RANKS], tag[CAMP_RANKS];
	int stream;
};

static void take_gather(struct camp_emit *e, struct gather *g)
{
	struct camp_window *w = &e->windows[g->w];
	struct camp_comm *c = &e->comms[w->comm];
	uint64_t all = g->block * (uint64_t)c->n, at = 0;

	if (g->cover == COVERED)
		at = camp_take_alike(e, g->w, all, camp_chance(&e->random, 70) ? 16 : 1);
	for (int r = 0; r < c->n; r++) {
		g->recv[r] = g->cover == COVERED ? at :
			     g->cover == BUFFER  ? 0 :
						   camp_take_pool(e, c->world[r], all);
		g->send[r] = camp_take_pool(e, c->world[r], g->block);
		g->tag[r] = camp_tag(e);
	}
}

static int recv_place(const struct camp_emit *e, const struct gather *g)
{
	return g->cover == COVERED ? e->windows[g->w].buffer_place :
	       g->cover == BUFFER  ? g->place :
				     e->windows[g->w].pool_place;
}

static void fill_send(struct camp_emit *e, const struct gather *g, int rank)
{
	struct camp_window *w = &e->windows[g->w];
	struct camp_op *o = camp_op(e, rank, 0, CAMP_FILL, g->w);

	o->place = g->in_place ? recv_place(e, g) : w->pool_place;
	o->off = g->in_place ? g->recv[rank] + (uint64_t)rank * g->block : g->send[rank];
	o->bytes = g->block;
	o->tag = g->tag[rank];
}

static void call_gather(struct camp_emit *e, const struct gather *g, int rank)
{
	struct camp_window *w = &e->windows[g->w];
	struct camp_act *a = camp_act(e, e->comms[w->comm].world[rank], g->kind);

	a->comm = w->comm;
	a->window = g->w;
	a->request = g->request;
	a->place = recv_place(e, g);
	a->off = g->recv[rank];
	a->how = g->in_place;
	a->src_off = g->send[rank];
	a->id = w->pool_place;
	a->bytes = g->elem;
	a->value = g->block / g->elem;
	a->stream = g->stream;
	e->streams_used |= 1u << g->stream;
}

static void check_gather(struct camp_emit *e, const struct gather *g, int rank)
{
	struct camp_window *w = &e->windows[g->w];
	int n = e->comms[w->comm].n;

	for (int r = 0; r < n; r++) {
		uint64_t off = g->recv[rank] + (uint64_t)r * g->block;
		struct camp_op *o = camp_op(e, rank, 0, CAMP_CHECK, g->w);

		o->place = recv_place(e, g);
		o->off = off;
		o->bytes = g->block;
		o->tag = g->tag[r];
		if (g->cover == COVERED)
			camp_model_bytes(e, g->w, rank, off, g->tag[r], 0, g->block);
	}
}

static void draw_block(struct camp_emit *e, struct gather *g, int shares)
{
	static const uint64_t elems[] = { 1, 1, 2, 4, 8, 16 };
	int n = e->comms[e->windows[g->w].comm].n;
	uint64_t most = 200000 / (uint64_t)n / (uint64_t)shares;

	g->elem = elems[camp_below(&e->random, 6)];
	g->block = g->cover == COVERED         ? camp_some_bytes(e, g->w, shares * n) :
		   camp_chance(&e->random, 60) ? camp_some_bytes(e, g->w, 1) :
						 (uint64_t)camp_below(&e->random, (int)most);
	g->block = g->block < most ? g->block : most;
	g->block = g->block / g->elem * g->elem;
}

static void on_stream(struct camp_emit *e, int stream)
{
	e->stream = stream;
}

/* Some calls on some streams; the checks come at once, or when all calls are made. */
static void gathers(struct camp_emit *e, struct gather *g, int n, int late)
{
	int size = e->comms[e->windows[g[0].w].comm].n;

	for (int r = 0; r < size; r++) {
		for (int i = 0; i < n; i++) {
			on_stream(e, g[i].stream);
			fill_send(e, &g[i], r);
			call_gather(e, &g[i], r);
			if (!late)
				check_gather(e, &g[i], r);
		}
		for (int i = 0; i < n && late; i++) {
			on_stream(e, g[i].stream);
			check_gather(e, &g[i], r);
		}
	}
}

void camp_step_gather(struct camp_emit *e)
{
	struct gather g[5];
	int n = 1 + camp_below(&e->random, 5), w = camp_any_window(e), late;

	camp_shape(e, 1);
	for (int i = 0; i < n; i++) {
		struct gather x = { .w = w, .kind = CAMP_ACT_GATHER };

		g[i] = x;
		g[i].cover = camp_chance(&e->random, 50) ? COVERED : UNCOVERED;
		if (camp_is_without(e->program->options, "uncovered"))
			g[i].cover = COVERED;
		g[i].in_place = camp_chance(&e->random, 25);
		g[i].stream = any_stream(e);
		if (camp_is_without(e->program->options, "gather_streams"))
			g[i].stream = 0;
		draw_block(e, &g[i], n);
		take_gather(e, &g[i]);
	}
	late = camp_chance(&e->random, 50);
	for (int i = 0; i < n; i++)
		camp_tell(e, "  window %d: %llu bytes a rank %s on stream %d%s\n", w,
			  (unsigned long long)g[i].block,
			  g[i].cover == COVERED ? "into the window" : "into other memory",
			  g[i].stream, g[i].in_place ? ", in place" : "");
	gathers(e, g, n, late);
}

/* Other bytes for the same places. */
static void renew(struct camp_emit *e, struct gather *g)
{
	struct camp_comm *c = &e->comms[e->windows[g->w].comm];

	for (int r = 0; r < c->n; r++) {
		g->send[r] = camp_take_pool(e, c->world[r], g->block);
		g->tag[r] = camp_tag(e);
	}
}

/*
 * More places than the number of requests that the library keeps.  The first ones are used alone;
 * then they are used again, so that calls are pending on the stream when new places come.
 */
void camp_step_gather_many(struct camp_emit *e)
{
	struct gather g[KEPT + 32];
	int w = camp_any_window(e), size = e->comms[e->windows[w].comm].n;
	int n = KEPT + 2 + camp_below(&e->random, 25), room;

	camp_shape(e, 1);
	camp_settle(e, 0);
	room = (int)(e->windows[w].bytes / 2 / (uint64_t)(size * 16 + 56));
	n = n < room ? n : room;
	for (int i = 0; i < n; i++) {
		struct gather x = { .w = w, .kind = CAMP_ACT_GATHER, .elem = 1 };

		g[i] = x;
		g[i].block = 8 + (uint64_t)camp_below(&e->random, 8);
		g[i].stream = e->stream;
		take_gather(e, &g[i]);
	}
	camp_tell(e, "  window %d: %d places of 8 to 15 bytes a rank on stream %d\n", w, n,
		  e->stream);
	gathers(e, g, n < KEPT ? n : KEPT, 1);
	for (int r = 0; r < size; r++)
		(void)camp_act(e, e->comms[e->windows[w].comm].world[r], CAMP_ACT_STREAM_SYNC);
	for (int i = 0; i < n; i++)
		renew(e, &g[i]);
	gathers(e, g, n, 1);
}

/* ---- requests -------------------------------------------------------------------------------- */

#define REQUESTS 2

static void init_request(struct camp_emit *e, struct gather *g, uint64_t most, int algorithm,
			 uint64_t chunk)
{
	struct camp_window *w = &e->windows[g->w];
	struct camp_comm *c = &e->comms[w->comm];

	for (int r = 0; r < c->n; r++) {
		struct camp_act *a = camp_act(e, c->world[r], CAMP_ACT_GATHER_INIT);

		a->comm = w->comm;
		a->window = g->w;
		a->request = g->request;
		a->off = g->recv[r];
		a->bytes = most * (uint64_t)c->n;
		a->how = algorithm;
		a->value = chunk;
		a->memory = g->cover == BUFFER ? g->memory : -1;
	}
}

/* Registered memory of every rank; released, and freed, when the request is gone. */
static void make_buffer(struct camp_emit *e, struct gather *g, uint64_t bytes)
{
	struct camp_comm *c = &e->comms[e->windows[g->w].comm];

	g->memory = e->nmemories++;
	g->place = e->nplaces++;
	for (int r = 0; r < c->n; r++) {
		struct camp_act *a;

		(void)camp_memory_make(e, c->world[r], e->windows[g->w].comm, g->memory,
				       CAMP_MEMORY_ALLOC, bytes);
		a = camp_act(e, c->world[r], CAMP_ACT_BUFFER);
		a->comm = e->windows[g->w].comm;
		a->memory = g->memory;
		a->place = g->place;
		a->bytes = bytes;
	}
}

static void end_buffer(struct camp_emit *e, const struct gather *g)
{
	struct camp_comm *c = &e->comms[e->windows[g->w].comm];

	for (int r = 0; r < c->n; r++) {
		camp_act(e, c->world[r], CAMP_ACT_BUFFER_RELEASE)->memory = g->memory;
		camp_act(e, c->world[r], CAMP_ACT_FREE)->memory = g->memory;
	}
}

/* One request: on the window, or on a buffer. */
static uint64_t draw_request(struct camp_emit *e, struct gather *g, int w, int n)
{
	static const uint64_t chunks[] = { 0, 0, 64, 1024 };
	struct gather x = { .w = w, .kind = CAMP_ACT_GATHER_EXEC, .request = e->nrequests++ };
	uint64_t most;

	*g = x;
	g->stream = any_stream(e);
	draw_block(e, g, 2 * n);
	most = g->block += 16;
	g->elem = 1;
	if (camp_chance(&e->random, 35) && e->nmemories < CAMP_MEMORIES - 1 &&
	    e->nplaces < CAMP_PLACES - 1) {
		g->cover = BUFFER;
		make_buffer(e, g, most * (uint64_t)e->comms[e->windows[w].comm].n);
	}
	take_gather(e, g);
	init_request(e, g, most, camp_below(&e->random, 4), chunks[camp_below(&e->random, 4)]);
	camp_tell(e, "  window %d: request %d of %llu bytes a rank%s on stream %d\n", w, g->request,
		  (unsigned long long)most, g->cover == BUFFER ? " on a buffer" : "", g->stream);
	return most;
}

static void exec_request(struct camp_emit *e, struct gather *g, uint64_t most)
{
	g->block = camp_chance(&e->random, 50) ? most : (uint64_t)camp_below(&e->random, (int)most);
	g->in_place = camp_chance(&e->random, 25);
	renew(e, g);
	gathers(e, g, 1, 0);
}

/* A request may go when its calls have returned, whatever its streams still have to do. */
static void end_requests(struct camp_emit *e, const struct gather *g, int n)
{
	struct camp_comm *c = &e->comms[e->windows[g[0].w].comm];
	int early = camp_chance(&e->random, 50), buffers = 0;

	if (!early || camp_is_without(e->program->options, "early_destroy"))
		camp_settle(e, 0);
	for (int i = 0; i < n; i++) {
		buffers += g[i].cover == BUFFER;
		for (int r = 0; r < c->n; r++)
			camp_act(e, c->world[r], CAMP_ACT_GATHER_DESTROY)->request = g[i].request;
	}
	if (buffers && early)
		camp_settle(e, 0);
	for (int i = 0; i < n; i++)
		if (g[i].cover == BUFFER)
			end_buffer(e, &g[i]);
}

/*
 * Requests that take turns, each on its stream; a result is checked before the next exec of its
 * request.
 */
void camp_step_request(struct camp_emit *e)
{
	int w = camp_any_window(e), n = 1 + camp_below(&e->random, REQUESTS);
	int execs = 1 + camp_below(&e->random, 6);
	struct gather g[REQUESTS];
	uint64_t most[REQUESTS];

	if (e->nrequests + REQUESTS > CAMP_REQUESTS)
		return;
	camp_shape(e, 1);
	for (int i = 0; i < n; i++)
		most[i] = draw_request(e, &g[i], w, n);
	camp_tell(e, "  %d execs\n", execs);
	for (int k = 0; k < execs; k++)
		for (int i = 0; i < n; i++)
			exec_request(e, &g[i], most[i]);
	end_requests(e, g, n);
}
