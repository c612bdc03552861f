/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/steps_alltoallv.c - all-to-all-v: slots and packed, sizes of every kind.
 *
 * Sizes and data of a call are made by a kernel on its stream before it, and checked by one after
 * it.
 */
#include "campaign.h"

/* 8-byte aligned words of a rank's own memory. */
static uint64_t take_words(struct camp_emit *e, int rank, int n)
{
	return (camp_take_pool(e, rank, 8 * (uint64_t)n + 8) + 7) / 8 * 8;
}

#define A2A_MANY 240 /* calls, times ranks */

struct a2a {
	int w, request, place, packed, stream;
	uint64_t slot, elem;
	uint64_t sizes[CAMP_RANKS][CAMP_RANKS]; /* elements, [from][to] */
};

static void draw_sizes(struct camp_emit *e, struct a2a *x, int n)
{
	int how = camp_below(&e->random, 4);

	for (int a = 0; a < n; a++)
		for (int b = 0; b < n; b++) {
			uint64_t s = (uint64_t)camp_below(&e->random, (int)(x->slot / x->elem) + 1);

			s = how == 0                                ? x->slot / x->elem :
			    how == 1 && camp_chance(&e->random, 60) ? 0 :
								      s;
			x->sizes[a][b] = s;
		}
}

static void store(struct camp_emit *e, int w, int rank, uint64_t off, uint64_t value)
{
	struct camp_op *o = camp_op(e, rank, 0, CAMP_STORE_WORD, w);

	o->place = e->windows[w].pool_place;
	o->off = off;
	o->value = value;
}

static void check_word(struct camp_emit *e, int w, int rank, uint64_t off, uint64_t value)
{
	struct camp_op *o = camp_op(e, rank, 0, CAMP_CHECK_WORD, w);

	o->place = e->windows[w].pool_place;
	o->off = off;
	o->value = value;
}

/* One rank's part of a call: sizes and data by a kernel, the call, checks by a kernel. */
static void a2a_rank(struct camp_emit *e, const struct a2a *x, int rank, const uint64_t *tags)
{
	struct camp_window *w = &e->windows[x->w];
	struct camp_comm *c = &e->comms[w->comm];
	int own = camp_chance(&e->random, 50), offsets = camp_chance(&e->random, 40);
	uint64_t sizes = take_words(e, c->world[rank], c->n),
		 offs = take_words(e, c->world[rank], c->n);
	uint64_t came = take_words(e, c->world[rank], c->n), all = 0, at = 0, src;
	struct camp_act *a;

	for (int r = 0; r < c->n; r++)
		all += x->sizes[rank][r] * x->elem;
	src = own ? 0 : camp_take_pool(e, c->world[rank], all);
	for (int r = 0; r < c->n; r++) {
		uint64_t bytes = x->sizes[rank][r] * x->elem;
		struct camp_op *o = camp_op(e, rank, 0, CAMP_FILL, x->w);

		o->place = own ? x->place + CAMP_RANKS : w->pool_place;
		o->off = src + at;
		o->bytes = bytes;
		o->tag = tags[rank] + (uint64_t)r;
		store(e, x->w, rank, sizes + 8 * (uint64_t)r, x->sizes[rank][r]);
		store(e, x->w, rank, offs + 8 * (uint64_t)r, at / x->elem);
		at += bytes;
	}
	a = camp_act(e, c->world[rank], CAMP_ACT_A2A_EXEC);
	a->request = x->request;
	a->place = w->pool_place;
	a->off = sizes;
	a->value = offsets ? offs : UINT64_MAX;
	a->src_off = own ? UINT64_MAX : src;
	a->recv_off = (int64_t)came;
	e->streams_used |= 1u << x->stream;
	at = 0;
	for (int r = 0; r < c->n; r++) {
		uint64_t bytes = x->sizes[r][rank] * x->elem;
		struct camp_op *o = camp_op(e, rank, 0, CAMP_CHECK, x->w);

		o->place = x->place + (x->packed ? 0 : r);
		o->off = x->packed ? at : 0;
		o->bytes = bytes;
		o->tag = tags[r] + (uint64_t)rank;
		check_word(e, x->w, rank, came + 8 * (uint64_t)r, x->sizes[r][rank]);
		at += bytes;
	}
}

static void a2a_create(struct camp_emit *e, const struct a2a *x)
{
	struct camp_comm *c = &e->comms[e->windows[x->w].comm];

	for (int r = 0; r < c->n; r++) {
		struct camp_act *a = camp_act(e, c->world[r], CAMP_ACT_A2A_CREATE);

		a->comm = e->windows[x->w].comm;
		a->request = x->request;
		a->place = x->place;
		a->how = x->packed;
		a->bytes = x->packed ? x->slot * (uint64_t)c->n : x->slot;
		a->value = x->elem;
	}
}

void camp_step_alltoallv(struct camp_emit *e)
{
	static const uint64_t elems[] = { 1, 4, 8, 16 };
	struct a2a x = { .w = camp_any_window(e) };
	struct camp_comm *c = &e->comms[e->windows[x.w].comm];
	int calls = 1 + camp_below(&e->random, 5), many = camp_chance(&e->random, 30), settled;

	if (e->nrequests >= CAMP_REQUESTS || e->nplaces + CAMP_RANKS + 1 > CAMP_PLACES)
		return;
	camp_shape(e, 1);
	x.stream = e->stream;
	x.request = e->nrequests++;
	x.place = e->nplaces;
	e->nplaces += CAMP_RANKS + 1;
	x.packed = camp_chance(&e->random, 40);
	x.elem = elems[camp_below(&e->random, 4)];
	x.slot = 16 + (uint64_t)camp_below(&e->random, camp_chance(&e->random, 20) ? 12000 : 1000);
	x.slot = x.slot / 16 * 16;
	if (many) {
		x.slot = 1024;
		calls = A2A_MANY / c->n;
	}
	camp_tell(e, "  comm of window %d: %s, up to %llu bytes to a peer, %d calls on stream %d\n",
		  x.w, x.packed ? "packed" : "slots", (unsigned long long)x.slot, calls, x.stream);
	a2a_create(e, &x);
	for (int k = 0; k < calls; k++) {
		uint64_t tags[CAMP_RANKS];

		for (int r = 0; r < c->n; r++) {
			tags[r] = e->next_tag + 1;
			e->next_tag += CAMP_RANKS;
		}
		draw_sizes(e, &x, c->n);
		for (int r = 0; r < c->n; r++)
			a2a_rank(e, &x, r, tags);
	}
	settled = camp_chance(&e->random, 50);
	if (settled)
		camp_settle(e, 0);
	for (int r = 0; r < c->n; r++) {
		(void)camp_act(e, c->world[r], CAMP_ACT_STREAM_SYNC);
		camp_act(e, c->world[r], CAMP_ACT_A2A_DESTROY)->request = x.request;
	}
}
