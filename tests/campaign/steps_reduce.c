/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/steps_reduce.c - the host's broadcast, all-reduce and reduce-scatter.
 *
 * The data of a reduction are blocks, as many as there are ranks.  Each block has bytes of a tag on
 * one rank and zeros on all others.  Every operator that is drawn leaves x as it is beside zeros.
 * So the result is those bytes, and each rank's data matter in one block.
 *
 * A call's data is made by a kernel on the call's stream before it, and checked by one after it;
 * nothing else orders them.
 */
#include "campaign.h"

#include <oriel/coll/reduce.h>

struct reduce {
	int w, kind, stream, in_place;
	int root, shift; /* block b has its bytes on rank (b + shift) % n */
	int type, op;
	uint64_t elem, count; /* of a block */
	uint64_t send[CAMP_RANKS], recv[CAMP_RANKS], tag[CAMP_RANKS];
};

static void draw(struct camp_emit *e, struct reduce *x)
{
	static const int types[] = { ORIEL_TYPE_UINT8, ORIEL_TYPE_UINT16, ORIEL_TYPE_UINT32,
				     ORIEL_TYPE_UINT64 };
	static const int ops[] = { ORIEL_REDUCE_SUM, ORIEL_REDUCE_MAX, ORIEL_REDUCE_OR,
				   ORIEL_REDUCE_XOR };
	struct camp_comm *c = &e->comms[e->windows[x->w].comm];
	int wide = camp_below(&e->random, 4);
	uint64_t n = (uint64_t)c->n, all;

	x->kind = CAMP_ACT_BROADCAST + camp_below(&e->random, 3);
	x->stream = camp_chance(&e->random, 60) ? e->stream :
						  camp_below(&e->random, e->config->streams);
	x->in_place = camp_chance(&e->random, 30);
	x->root = camp_below(&e->random, c->n);
	x->shift = camp_below(&e->random, c->n);
	x->type = types[wide];
	x->op = ops[camp_below(&e->random, 4)];
	x->elem = 1ull << wide;
	x->count = camp_chance(&e->random, 70) ? camp_some_bytes(e, x->w, 4) % 3000 :
						 (uint64_t)camp_below(&e->random, 8000);
	x->count = x->count / n / x->elem;
	all = n * x->count * x->elem;
	for (int r = 0; r < c->n; r++) {
		x->tag[r] = camp_tag(e);
		x->send[r] = camp_take_pool(e, c->world[r], all);
		x->recv[r] = x->in_place ? x->send[r] : camp_take_pool(e, c->world[r], all);
	}
}

/* A block of the pool: zeros, or bytes of a tag that are expected or made. */
static void block(struct camp_emit *e, const struct reduce *x, int rank, int code, uint64_t off,
		  uint64_t tag)
{
	struct camp_op *o = camp_op(e, rank, 0, code, x->w);

	o->place = e->windows[x->w].pool_place;
	o->off = off;
	o->bytes = x->count * x->elem;
	o->tag = tag;
}

static void fill(struct camp_emit *e, const struct reduce *x, int rank)
{
	int n = e->comms[e->windows[x->w].comm].n, from;
	uint64_t at;

	for (int b = 0; b < n; b++) {
		at = (uint64_t)b * x->count * x->elem;
		from = x->kind == CAMP_ACT_BROADCAST ? x->root : (b + x->shift) % n;
		at += x->kind == CAMP_ACT_BROADCAST ? x->recv[rank] : x->send[rank];
		block(e, x, rank, rank == from ? CAMP_FILL : CAMP_ZERO, at, x->tag[b]);
	}
}

static void call(struct camp_emit *e, const struct reduce *x, int rank)
{
	struct camp_window *w = &e->windows[x->w];
	struct camp_comm *c = &e->comms[w->comm];
	struct camp_act *a = camp_act(e, c->world[rank], x->kind);
	uint64_t n = (uint64_t)c->n;

	a->comm = w->comm;
	a->place = w->pool_place;
	a->peer = x->root;
	a->id = x->type;
	a->how = x->op;
	a->src_off = x->send[rank];
	a->off = x->recv[rank];
	a->stream = x->stream;
	a->value = x->kind == CAMP_ACT_BROADCAST ? n * x->count * x->elem :
		   x->kind == CAMP_ACT_ALLREDUCE ? n * x->count :
						   x->count;
	e->streams_used |= 1u << x->stream;
}

static void check(struct camp_emit *e, const struct reduce *x, int rank)
{
	int n = e->comms[e->windows[x->w].comm].n;

	if (x->kind == CAMP_ACT_REDUCESCATTER) {
		block(e, x, rank, CAMP_CHECK, x->recv[rank], x->tag[rank]);
		return;
	}
	for (int b = 0; b < n; b++)
		block(e, x, rank, CAMP_CHECK, x->recv[rank] + (uint64_t)b * x->count * x->elem,
		      x->tag[b]);
}

void camp_step_reduce(struct camp_emit *e)
{
	static const char *const names[] = { "broadcast", "all-reduce", "reduce-scatter" };
	int w = camp_any_window(e), n = 1 + camp_below(&e->random, 4);
	int size = e->comms[e->windows[w].comm].n, own = e->stream;
	struct reduce x[4] = { 0 };

	camp_shape(e, 1);
	for (int i = 0; i < n; i++) {
		x[i].w = w;
		draw(e, &x[i]);
		camp_tell(e, "  %s of %llu blocks of %llu bytes on stream %d%s\n",
			  names[x[i].kind - CAMP_ACT_BROADCAST], (unsigned long long)size,
			  (unsigned long long)(x[i].count * x[i].elem), x[i].stream,
			  x[i].in_place ? ", in place" : "");
	}
	for (int r = 0; r < size; r++)
		for (int i = 0; i < n; i++) {
			e->stream = x[i].stream;
			fill(e, &x[i], r);
			call(e, &x[i], r);
			check(e, &x[i], r);
		}
	e->stream = own;
}
