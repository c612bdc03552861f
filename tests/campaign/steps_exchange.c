/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/steps_exchange.c - data and signals: exchange, pingpong, chain.
 *
 * A flow is bytes from one rank to another.  Its receiver waits for a signal and for nothing
 * else, then checks.
 */
#include <stdlib.h>

#include "campaign.h"

#define FLOWS_MAX (CAMP_RANKS * CAMP_RANKS)

struct flow {
	int from, to, block;
	uint64_t bytes, dst, src, tag;
};

enum route { KERNEL, HOST };
enum reuse { REUSE_NONE, REUSE_COUNTER, REUSE_TICKET, REUSE_FLUSH, REUSES };

/* What all flows of a step have in common. */
struct exchange {
	int w, n, nflows;
	struct flow flows[FLOWS_MAX];
	enum route route;
	enum reuse reuse;
	int op, id, counter; /* signal */
	int sum;             /* receivers wait for the sum over sources */
	int overlap;         /* other bytes are put there first */
	int apart;           /* the signal is an operation of its own */
	int sliced;          /* every block sends a part, and adds to the same word */
	int pieces;
	uint64_t value;
};

static void add_flow(struct exchange *x, int from, int to)
{
	struct flow *f = &x->flows[x->nflows++];

	f->from = from;
	f->to = to;
}

/* Ring, everybody to everybody, to one, from one, some pairs; oneself at times. */
static void draw_pairs(struct camp_emit *e, struct exchange *x)
{
	int n = x->n, how = camp_below(&e->random, 5), one = camp_below(&e->random, n);
	int self = camp_chance(&e->random, 25), shift = 1 + camp_below(&e->random, n - 1);

	for (int a = 0; a < n; a++)
		for (int b = 0; b < n; b++) {
			if (a == b && !self)
				continue;
			if ((how == 0 && (a + shift) % n == b) || how == 1 ||
			    (how == 2 && b == one) || (how == 3 && a == one) ||
			    (how == 4 && camp_chance(&e->random, 40)))
				add_flow(x, a, b);
		}
	if (!x->nflows)
		add_flow(x, 0, 1);
}

static void draw_flows(struct camp_emit *e, struct exchange *x)
{
	struct camp_comm *c = &e->comms[e->windows[x->w].comm];
	int alike = camp_chance(&e->random, 50);
	uint64_t bytes = camp_some_bytes(e, x->w, x->n);

	for (int i = 0; i < x->nflows; i++) {
		struct flow *f = &x->flows[i];

		f->bytes = alike ? bytes : camp_some_bytes(e, x->w, x->n);
		f->block = x->sum || x->sliced || x->route == HOST ? 0 : i % e->nblocks;
		f->tag = camp_tag(e);
		f->dst = camp_take(e, x->w, f->to, f->bytes, camp_chance(&e->random, 60) ? 16 : 1);
		f->src = camp_take_pool(e, c->world[f->from], f->bytes);
		camp_model_bytes(e, x->w, f->to, f->dst, f->tag, 0, f->bytes);
	}
}

/* ---- the sender ------------------------------------------------------------------------------ */

static void put_piece(struct camp_emit *e, const struct exchange *x, const struct flow *f, int code,
		      uint64_t at, uint64_t bytes)
{
	struct camp_window *w = &e->windows[x->w];
	struct camp_op *o = camp_op(e, f->from, f->block, code, x->w);

	o->place = w->pool_place;
	o->peer = f->to;
	o->id = x->id;
	o->cell = x->counter;
	o->how = x->op;
	o->value = x->value;
	o->off = f->dst + at;
	o->src_off = f->src + at;
	o->bytes = bytes;
	if (code == CAMP_PUT_VALUE) {
		o->tag = f->tag;
		o->src_off = at;
		o->how = 0;
	}
	if (code == CAMP_PUT_COUNTER || code == CAMP_PUT_SIGNAL_COUNTER)
		w->counters[f->from][f->to][x->counter]++;
}

static void op_to(struct camp_emit *e, const struct exchange *x, const struct flow *f, int code)
{
	camp_op(e, f->from, f->block, code, x->w)->peer = f->to;
}

/* Bytes that nobody may find there: put first, in the same order. */
static void put_other(struct camp_emit *e, const struct exchange *x, const struct flow *f)
{
	struct camp_comm *c = &e->comms[e->windows[x->w].comm];
	struct flow other = *f;

	other.src = camp_take_pool(e, c->world[f->from], f->bytes);
	camp_op_fill(e, x->w, f->from, f->block, other.src, f->bytes, camp_tag(e));
	put_piece(e, x, &other, CAMP_PUT, 0, f->bytes);
	if (e->config->unordered || camp_chance(&e->random, 40))
		op_to(e, x, f, CAMP_FENCE);
}

static void signal_alone(struct camp_emit *e, const struct exchange *x, const struct flow *f)
{
	struct camp_op *o = camp_op(e, f->from, f->block, CAMP_SIGNAL, x->w);

	o->peer = f->to;
	o->id = x->id;
	o->how = x->op;
	o->value = x->value;
}

/* The source is overwritten as soon as this is allowed; the data that was put must not change. */
static void reuse_source(struct camp_emit *e, const struct exchange *x, const struct flow *f)
{
	struct camp_window *w = &e->windows[x->w];
	struct camp_op *o;

	if (x->reuse == REUSE_NONE)
		return;
	if (x->reuse == REUSE_TICKET)
		op_to(e, x, f, CAMP_TICKET);
	o = camp_op(e, f->from, f->block,
		    x->reuse == REUSE_COUNTER ? CAMP_WAIT_COUNTER :
		    x->reuse == REUSE_TICKET  ? CAMP_WAIT_LOCAL :
						CAMP_FLUSH,
		    x->w);
	o->peer = f->to;
	o->id = x->counter;
	o->value = w->counters[f->from][f->to][x->counter];
	camp_op_fill(e, x->w, f->from, f->block, f->src, f->bytes, camp_tag(e));
}

/*
 * Pieces, the last one with the signal or before it.  One that is missing on purpose is the
 * campaign's own test.
 */
static void send_by_kernel(struct camp_emit *e, const struct exchange *x, const struct flow *f)
{
	int counts = x->reuse == REUSE_COUNTER, by_value = f->bytes && f->bytes <= 28 && x->apart;
	uint64_t at = 0, less = 0;

	camp_op_fill(e, x->w, f->from, f->block, f->src, f->bytes, f->tag);
	if (x->overlap)
		put_other(e, x, f);
	if (e->sabotage == 1 && f->bytes) {
		less = 1;
		e->sabotage = 0;
	}
	for (int p = 1; p < x->pieces; p++) {
		uint64_t bytes = (f->bytes - at) / 2;

		put_piece(e, x, f, counts ? CAMP_PUT_COUNTER : CAMP_PUT, at, bytes);
		at += bytes;
	}
	put_piece(e, x, f,
		  x->apart ? (by_value && !counts && at < f->bytes ? CAMP_PUT_VALUE :
			      counts                               ? CAMP_PUT_COUNTER :
								     CAMP_PUT) :
		  counts   ? CAMP_PUT_SIGNAL_COUNTER :
			     CAMP_PUT_SIGNAL,
		  at, f->bytes - at > less ? f->bytes - at - less : f->bytes - at);
	if (x->apart && e->sabotage != 2)
		signal_alone(e, x, f);
	if (x->apart && e->sabotage == 2)
		e->sabotage = 0;
	reuse_source(e, x, f);
}

/* Every block has a part of the bytes and adds to the one word that the receiver waits for. */
static void send_in_slices(struct camp_emit *e, const struct exchange *x, const struct flow *f)
{
	uint64_t blocks = (uint64_t)e->nblocks, at, end;

	for (int b = 0; b < e->nblocks; b++) {
		struct flow mine = *f;
		struct camp_op *o;

		mine.block = b;
		at = f->bytes * (uint64_t)b / blocks;
		end = f->bytes * ((uint64_t)b + 1) / blocks;
		o = camp_op(e, f->from, b, CAMP_FILL, x->w);
		o->place = e->windows[x->w].pool_place;
		o->off = f->src + at;
		o->src_off = at;
		o->bytes = end - at;
		o->tag = f->tag;
		for (int i = 1; i < x->pieces; i++)
			put_piece(e, x, &mine, CAMP_PUT_SIGNAL, at, end - at);
		put_piece(e, x, &mine, CAMP_PUT_SIGNAL, at, end - at);
	}
}

static void send_by_host(struct camp_emit *e, const struct exchange *x, const struct flow *f)
{
	struct camp_window *w = &e->windows[x->w];
	int world = e->comms[w->comm].world[f->from];
	uint64_t first = x->apart ? f->bytes : x->pieces > 1 ? f->bytes / 2 : 0;
	struct camp_act *a;

	camp_op_fill(e, x->w, f->from, 0, f->src, f->bytes, f->tag);
	for (int last = 0; last < 2; last++) {
		if (!last && !first)
			continue;
		a = camp_act(e, world,
			     !last    ? CAMP_ACT_PUT :
			     x->apart ? CAMP_ACT_SIGNAL :
					CAMP_ACT_PUT_SIGNAL);
		a->window = x->w;
		a->place = w->pool_place;
		a->peer = f->to;
		a->off = f->dst + (last ? first : 0);
		a->src_off = f->src + (last ? first : 0);
		a->bytes = last ? f->bytes - first : first;
		a->id = x->id;
		a->how = x->op;
		a->value = x->value;
	}
}

/* ---- the receiver ---------------------------------------------------------------------------- */

static void wait_for(struct camp_emit *e, const struct exchange *x, const struct flow *f,
		     uint64_t value)
{
	struct camp_window *w = &e->windows[x->w];
	struct camp_act *a;
	struct camp_op *o;

	if (x->route == HOST) {
		a = camp_act(e, e->comms[w->comm].world[f->to], CAMP_ACT_WAIT);
		a->window = x->w;
		a->peer = x->sum ? -1 : f->from;
		a->id = x->id;
		a->how = ORIEL_GE;
		a->value = value;
		return;
	}
	o = camp_op(e, f->to, f->block, x->sum ? CAMP_WAIT_SUM : CAMP_WAIT_FROM, x->w);
	o->peer = f->from;
	o->id = x->id;
	o->how = camp_chance(&e->random, 70) ? ORIEL_GE : ORIEL_EQ;
	o->value = value;
}

static void receive(struct camp_emit *e, const struct exchange *x, int rank)
{
	struct camp_window *w = &e->windows[x->w];
	uint64_t sum = 0;
	int waited = 0;

	for (int r = 0; r < x->n; r++)
		sum += w->signals[rank][r][x->id];
	for (int i = 0; i < x->nflows; i++) {
		const struct flow *f = &x->flows[i];

		if (f->to != rank)
			continue;
		if (!x->sum || !waited)
			wait_for(e, x, f, x->sum ? sum : w->signals[rank][f->from][x->id]);
		waited = 1;
		camp_op_check(e, x->w, rank, f->block, f->dst, f->bytes, f->tag);
	}
}

/* ---- exchange -------------------------------------------------------------------------------- */

static void draw_exchange(struct camp_emit *e, struct exchange *x)
{
	struct camp_random *r = &e->random;
	struct camp_window *w = &e->windows[x->w];

	x->route = camp_chance(r, 30) ? HOST : KERNEL;
	x->op = camp_chance(r, 25) ? ORIEL_SET : ORIEL_ADD;
	x->sliced = x->op == ORIEL_ADD && x->route == KERNEL && camp_chance(r, 35);
	x->sum = x->op == ORIEL_ADD && camp_chance(r, 30);
	x->reuse = x->route == HOST || camp_chance(r, 50) ? REUSE_NONE :
							    (enum reuse)camp_below(r, REUSES);
	x->overlap = x->route == KERNEL && camp_chance(r, 20);
	x->apart = camp_chance(r, 30);
	x->pieces = 1 + camp_below(r, 3);
	x->value = 1 + (uint64_t)camp_below(r, 5);
	x->counter = camp_take_counter(e, x->w);
	x->id = x->op == ORIEL_SET ? w->next_set_id++ : camp_take_id(e, x->w);
	if (x->op == ORIEL_SET)
		x->value = w->set_value += x->value;
}

static void model_signals(struct camp_emit *e, const struct exchange *x)
{
	struct camp_window *w = &e->windows[x->w];
	uint64_t signals = x->sliced ? (uint64_t)(e->nblocks * x->pieces) : 1;

	for (int i = 0; i < x->nflows; i++) {
		uint64_t *word = &w->signals[x->flows[i].to][x->flows[i].from][x->id];

		*word = x->op == ORIEL_SET ? x->value : *word + x->value * signals;
	}
}

void camp_step_exchange(struct camp_emit *e)
{
	struct exchange x = { .w = camp_any_window(e) };

	x.n = e->comms[e->windows[x.w].comm].n;
	camp_shape(e, 3);
	draw_exchange(e, &x);
	draw_pairs(e, &x);
	draw_flows(e, &x);
	model_signals(e, &x);
	camp_tell(e,
		  "  window %d: %d flows, the first of %llu bytes, by %s, %d pieces, "
		  "signal %d %s%s%s%s%s\n",
		  x.w, x.nflows, (unsigned long long)x.flows[0].bytes,
		  x.route == HOST ? "the host" : "kernels", x.pieces, x.id,
		  x.op == ORIEL_SET ? "SET" : "ADD", x.sum ? ", waits for the sum" : "",
		  x.overlap ? ", over other bytes" : "", x.apart ? ", signal apart" : "",
		  x.sliced ? ", a part from every block" : "");
	for (int r = 0; r < x.n; r++) {
		for (int i = 0; i < x.nflows; i++)
			if (x.flows[i].from != r)
				continue;
			else if (x.sliced)
				send_in_slices(e, &x, &x.flows[i]);
			else if (x.route == HOST)
				send_by_host(e, &x, &x.flows[i]);
			else
				send_by_kernel(e, &x, &x.flows[i]);
		receive(e, &x, r);
	}
}

/* ---- pingpong: the same bytes again and again, each time with leave -------------------------- */

static void ping(struct camp_emit *e, struct exchange *x, int from, int to, uint64_t round,
		 const struct flow *f)
{
	struct flow mine = *f;

	mine.from = from;
	mine.to = to;
	mine.tag = f->tag + round;
	camp_op_fill(e, x->w, from, 0, mine.src, mine.bytes, mine.tag);
	put_piece(e, x, &mine, CAMP_PUT_SIGNAL, 0, mine.bytes);
}

static void pong(struct camp_emit *e, struct exchange *x, int at, int from, uint64_t round,
		 const struct flow *f)
{
	struct camp_op *o = camp_op(e, at, 0, CAMP_WAIT_FROM, x->w);

	o->peer = from;
	o->id = x->id;
	o->how = ORIEL_GE;
	o->value = e->windows[x->w].signals[at][from][x->id] + round;
	camp_op_check(e, x->w, at, 0, f->dst, f->bytes, f->tag + round);
}

void camp_step_pingpong(struct camp_emit *e)
{
	struct exchange x = { .w = camp_any_window(e), .op = ORIEL_ADD, .value = 1 };
	struct camp_window *w = &e->windows[x.w];
	struct camp_comm *c = &e->comms[w->comm];
	uint64_t rounds = 2 + (uint64_t)camp_below(&e->random, 12);

	camp_shape(e, 2);
	x.id = camp_take_id(e, x.w);
	camp_tell(e, "  window %d: %llu rounds, signal %d\n", x.w, (unsigned long long)rounds,
		  x.id);
	for (int a = 0; a + 1 < c->n; a += 2) {
		struct flow f[2];

		for (int k = 0; k < 2; k++) {
			f[k].block = 0;
			f[k].bytes = camp_some_bytes(e, x.w, 2);
			f[k].tag = e->next_tag + 1;
			e->next_tag += rounds + 1;
			f[k].dst = camp_take(e, x.w, a + 1 - k, f[k].bytes, 1);
			f[k].src = camp_take_pool(e, c->world[a + k], f[k].bytes);
		}
		for (uint64_t i = 1; i <= rounds; i++) {
			ping(e, &x, a, a + 1, i, &f[0]);
			pong(e, &x, a + 1, a, i, &f[0]);
			ping(e, &x, a + 1, a, i, &f[1]);
			pong(e, &x, a, a + 1, i, &f[1]);
		}
		for (int k = 0; k < 2; k++) {
			camp_model_bytes(e, x.w, a + 1 - k, f[k].dst, f[k].tag + rounds, 0,
					 f[k].bytes);
			w->signals[a + k][a + 1 - k][x.id] += rounds;
		}
	}
}

/* ---- chain: who hears of it from others ------------------------------------------------------ */

/*
 * Rank a puts to the last rank and flushes, then signals the next rank, which signals the next one.
 * The last rank was signalled only by its neighbour, and must find the bytes of all.
 */
void camp_step_chain(struct camp_emit *e)
{
	struct exchange x = { .w = camp_any_window(e), .op = ORIEL_ADD, .value = 1 };
	struct camp_window *w = &e->windows[x.w];
	struct camp_comm *c = &e->comms[w->comm];
	int last = c->n - 1;

	camp_shape(e, 1);
	x.n = c->n;
	x.id = camp_take_id(e, x.w);
	for (int r = 0; r < last; r++) {
		struct flow *f = &x.flows[x.nflows++];

		f->from = r;
		f->to = last;
		f->block = 0;
	}
	draw_flows(e, &x);
	camp_tell(e, "  window %d: %d ranks, signal %d\n", x.w, c->n, x.id);
	for (int r = 0; r <= last; r++) {
		struct flow next = { .from = r, .to = r + 1 };
		struct camp_op *o;

		if (r < last) {
			camp_op_fill(e, x.w, r, 0, x.flows[r].src, x.flows[r].bytes,
				     x.flows[r].tag);
			put_piece(e, &x, &x.flows[r], CAMP_PUT, 0, x.flows[r].bytes);
			op_to(e, &x, &x.flows[r], CAMP_FLUSH);
		}
		if (r) {
			o = camp_op(e, r, 0, CAMP_WAIT_FROM, x.w);
			o->peer = r - 1;
			o->id = x.id;
			o->how = ORIEL_GE;
			o->value = ++w->signals[r][r - 1][x.id];
		}
		if (r < last)
			signal_alone(e, &x, &next);
	}
	for (int i = 0; i < last; i++)
		camp_op_check(e, x.w, last, 0, x.flows[i].dst, x.flows[i].bytes, x.flows[i].tag);
}
