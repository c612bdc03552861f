/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/steps_window.c - what barriers order: meet, fetch, staged messages, storms of
 * barriers.
 */
#include <stdlib.h>

#include "campaign.h"

/* ---- meet: puts, then a barrier -------------------------------------------------------------- */

enum meeting { BARRIER, SYNC, HALVES, FLUSH_SYNC, BY_HOST, PEER, MEETINGS };

static const char *const meetings[] = { "barrier",         "sync",     "arrive and wait",
					"flush_all, sync", "the host", "barrier_peer" };

static void put_to(struct camp_emit *e, int w, enum meeting how, int from, int to, int block,
		   uint64_t dst, uint64_t src, uint64_t bytes)
{
	struct camp_window *win = &e->windows[w];

	if (how == BY_HOST) {
		struct camp_act *a = camp_act(e, e->comms[win->comm].world[from], CAMP_ACT_PUT);

		a->window = w;
		a->place = win->pool_place;
		a->peer = to;
		a->off = dst;
		a->src_off = src;
		a->bytes = bytes;
	} else {
		struct camp_op *o = camp_op(e, from, block, CAMP_PUT, w);

		o->place = win->pool_place;
		o->peer = to;
		o->off = dst;
		o->src_off = src;
		o->bytes = bytes;
	}
}

static void host_barrier(struct camp_emit *e, int w, int rank)
{
	struct camp_act *a = camp_act(e, e->comms[e->windows[w].comm].world[rank],
				      CAMP_ACT_BARRIER);

	a->window = w;
	a->id = CAMP_STREAMS * CAMP_BLOCKS + e->stream;
}

static void meet_by(struct camp_emit *e, int w, enum meeting how, int rank, int block)
{
	switch (how) {
	case BARRIER:
		camp_op_meet(e, w, rank, block, CAMP_BARRIER);
		break;
	case SYNC:
		camp_op_meet(e, w, rank, block, CAMP_SYNC);
		break;
	case HALVES:
		camp_op_meet(e, w, rank, block, CAMP_ARRIVE);
		camp_op_meet(e, w, rank, block, CAMP_LEAVE);
		break;
	case FLUSH_SYNC:
		(void)camp_op(e, rank, block, CAMP_FLUSH_ALL, w);
		camp_op_meet(e, w, rank, block, CAMP_SYNC);
		break;
	case PEER:
		camp_op_meet(e, w, rank, block, CAMP_BARRIER_PEER);
		break;
	default:
		host_barrier(e, w, rank);
	}
}

struct meet_flow {
	int from, to, block;
	uint64_t dst, src, bytes, tag;
};

static int draw_meet(struct camp_emit *e, int w, enum meeting how, struct meet_flow *f)
{
	struct camp_comm *c = &e->comms[e->windows[w].comm];
	int n = 0;

	for (int a = 0; a < c->n; a++)
		for (int b = 0; b < c->n; b++) {
			if (how == PEER ? (a ^ 1) != b : a == b || !camp_chance(&e->random, 60))
				continue;
			f[n].from = a;
			f[n].to = b;
			f[n].block = how == BY_HOST ? 0 : n % e->nblocks;
			f[n].bytes = camp_some_bytes(e, w, c->n);
			f[n].tag = camp_tag(e);
			f[n].dst = camp_take(e, w, b, f[n].bytes, 1);
			f[n].src = camp_take_pool(e, c->world[a], f[n].bytes);
			camp_model_bytes(e, w, b, f[n].dst, f[n].tag, 0, f[n].bytes);
			n++;
		}
	return n;
}

static void meet_rank(struct camp_emit *e, int w, enum meeting how, int rank, int blocks)
{
	struct camp_comm *c = &e->comms[e->windows[w].comm];

	if (how == PEER && (rank ^ 1) >= c->n)
		return;
	for (int b = 0; b < blocks; b++) {
		meet_by(e, w, how, rank, b);
		if (how == PEER) {
			struct camp_rank *r = &e->ranks[c->world[rank]];

			r->ops[r->nops - 1].peer = rank ^ 1;
		}
	}
}

/* What a block put is seen by the block of the same number that met it. */
void camp_step_meet(struct camp_emit *e)
{
	int w = camp_any_window(e), blocks;
	struct camp_comm *c = &e->comms[e->windows[w].comm];
	enum meeting how = (enum meeting)camp_below(&e->random, MEETINGS);
	struct meet_flow f[CAMP_RANKS * CAMP_RANKS];
	int n;

	camp_shape(e, 3);
	blocks = how == BY_HOST ? 1 : e->nblocks;
	n = draw_meet(e, w, how, f);
	camp_tell(e, "  window %d: %d puts, then %s, %d blocks\n", w, n, meetings[how], blocks);
	for (int r = 0; r < c->n; r++) {
		for (int i = 0; i < n; i++)
			if (f[i].from == r)
				camp_op_fill(e, w, r, f[i].block, f[i].src, f[i].bytes, f[i].tag);
		for (int i = 0; i < n; i++)
			if (f[i].from == r)
				put_to(e, w, how, r, f[i].to, f[i].block, f[i].dst, f[i].src,
				       f[i].bytes);
		meet_rank(e, w, how, r, blocks);
		for (int i = 0; i < n; i++)
			if (f[i].to == r)
				camp_op_check(e, w, r, f[i].block, f[i].dst, f[i].bytes, f[i].tag);
	}
}

/* ---- fetch: gets of what lies there ---------------------------------------------------------- */

enum getting { GET, GET_FLUSH, GET_TICKET, GET_VALUE, GET_HOST, GETTINGS };

static void get_from(struct camp_emit *e, int w, enum getting how, int rank, int from, int block,
		     uint64_t off, uint64_t to, uint64_t bytes, uint64_t tag)
{
	struct camp_window *win = &e->windows[w];
	struct camp_op *o;

	if (how == GET_HOST) {
		struct camp_act *a = camp_act(e, e->comms[win->comm].world[rank], CAMP_ACT_GET);

		a->window = w;
		a->place = win->pool_place;
		a->peer = from;
		a->off = off;
		a->src_off = to;
		a->bytes = bytes;
		return;
	}
	o = camp_op(e, rank, block,
		    how == GET       ? CAMP_GET :
		    how == GET_VALUE ? CAMP_GET_VALUE :
				       CAMP_GET_NBI,
		    w);
	o->place = win->pool_place;
	o->peer = from;
	o->off = off;
	o->src_off = how == GET_VALUE ? 0 : to;
	o->bytes = bytes;
	o->tag = tag;
	if (how == GET_TICKET)
		camp_op(e, rank, block, CAMP_TICKET, w)->peer = from;
	if (how == GET_FLUSH || how == GET_TICKET)
		camp_op(e, rank, block, how == GET_FLUSH ? CAMP_FLUSH : CAMP_WAIT_LOCAL, w)->peer =
			from;
}

/*
 * Every rank gets from another what that one, or a third one, has put there before all met.  The
 * barrier makes it visible to third parties; a rank's own stores and sync do for its own bytes.
 */
void camp_step_fetch(struct camp_emit *e)
{
	int w = camp_any_window(e);
	struct camp_window *win = &e->windows[w];
	struct camp_comm *c = &e->comms[win->comm];
	enum getting how = (enum getting)camp_below(&e->random, GETTINGS);
	int third = camp_chance(&e->random, 50), sync = !third && camp_chance(&e->random, 50);
	int shift = 1 + camp_below(&e->random, c->n - 1),
	    putter = 1 + camp_below(&e->random, c->n - 1);
	uint64_t bytes = camp_some_bytes(e, w, 2), off[CAMP_RANKS], tag[CAMP_RANKS];

	camp_shape(e, 2);
	if (how == GET_VALUE)
		bytes = 1 + bytes % 28;
	camp_tell(e, "  window %d: %llu bytes of rank + %d, put there by %s, getting %d\n", w,
		  (unsigned long long)bytes, shift, third ? "a third one" : "itself", (int)how);
	for (int r = 0; r < c->n; r++) {
		off[r] = camp_take(e, w, r, bytes, 1);
		tag[r] = camp_tag(e);
		camp_model_bytes(e, w, r, off[r], tag[r], 0, bytes);
	}
	for (int r = 0; r < c->n; r++) {
		int from = (r + shift) % c->n, to = (r + putter) % c->n;
		uint64_t mine = camp_take_pool(e, c->world[r], bytes);

		if (third) {
			uint64_t src = camp_take_pool(e, c->world[r], bytes);

			camp_op_fill(e, w, r, 0, src, bytes, tag[to]);
			put_to(e, w, BARRIER, r, to, 0, off[to], src, bytes);
		} else {
			struct camp_op *o = camp_op(e, r, 0, CAMP_FILL, w);

			o->place = win->buffer_place;
			o->off = off[r];
			o->bytes = bytes;
			o->tag = tag[r];
		}
		camp_op_meet(e, w, r, 0, sync ? CAMP_SYNC : CAMP_BARRIER);
		get_from(e, w, how, r, from, 0, off[from], mine, bytes, tag[from]);
		if (how != GET_VALUE)
			camp_op_check_pool(e, w, r, 0, mine, bytes, tag[from]);
	}
}

/* ---- staged messages and packets ------------------------------------------------------------- */

static void message(struct camp_emit *e, int w, int send, int recv, int from, int to,
		    uint64_t bytes)
{
	struct camp_window *win = &e->windows[w];
	struct camp_comm *c = &e->comms[win->comm];
	uint64_t src = camp_take_pool(e, c->world[from], bytes);
	uint64_t dst = camp_take_pool(e, c->world[to], bytes), tag = camp_tag(e);
	struct camp_op *o;

	camp_op_fill(e, w, from, 0, src, bytes, tag);
	for (int end = 0; end < 2; end++) {
		o = camp_op(e, end ? to : from, 0, end ? recv : send, w);
		o->place = win->pool_place;
		o->peer = end ? from : to;
		o->id = e->stream;
		o->src_off = end ? dst : src;
		o->bytes = bytes;
	}
	camp_op_check_pool(e, w, to, 0, dst, bytes, tag);
}

/* All ranks send messages in the same order, so no cycle of waiting ranks is possible. */
void camp_step_staged(struct camp_emit *e)
{
	int w = camp_any_window(e), n = 1 + camp_below(&e->random, 10);
	struct camp_comm *c = &e->comms[e->windows[w].comm];

	camp_shape(e, 1);
	camp_tell(e, "  window %d: %d messages on channel %d\n", w, n, e->stream);
	for (int i = 0; i < n; i++) {
		int from = camp_below(&e->random, c->n);
		int to = (from + 1 + camp_below(&e->random, c->n - 1)) % c->n;

		message(e, w, CAMP_SEND, CAMP_RECV, from, to, camp_some_bytes(e, w, 4) % 20000);
	}
}

/* The same with packets, also to oneself.  Some are as long as a box allows. */
void camp_step_packets(struct camp_emit *e)
{
	int w = camp_any_window(e), n = 1 + camp_below(&e->random, 30);
	struct camp_window *win = &e->windows[w];
	uint64_t most = win->options.box_bytes;

	camp_shape(e, 1);
	camp_tell(e, "  window %d: %d packets in box %d, at most %llu bytes\n", w, n, e->stream,
		  (unsigned long long)most);
	for (int i = 0; i < n; i++) {
		int size = e->comms[win->comm].n, from = camp_below(&e->random, size);
		uint64_t bytes = (uint64_t)camp_below(&e->random, (int)most + 1);

		message(e, w, CAMP_PACKET_SEND, CAMP_PACKET_RECV, from,
			camp_below(&e->random, size), camp_chance(&e->random, 20) ? most : bytes);
	}
}

/* ---- storm: many meetings, of all blocks at once --------------------------------------------- */

static void signal_everybody(struct camp_emit *e, int w, int id, uint64_t value)
{
	struct camp_window *win = &e->windows[w];
	int n = e->comms[win->comm].n;

	for (int r = 0; r < n; r++) {
		struct camp_op *o = camp_op(e, r, 0, CAMP_SIGNAL_ALL, w);

		o->id = id;
		o->how = ORIEL_ADD;
		o->value = value;
		for (int to = 0; to < n; to++)
			win->signals[to][r][id] += to == r ? 0 : value;
	}
	for (int r = 0; r < n; r++) {
		struct camp_op *o = camp_op(e, r, 0, CAMP_WAIT_SUM, w);

		o->id = id;
		for (int from = 0; from < n; from++)
			o->value += win->signals[r][from][id];
		o = camp_op(e, r, 0, CAMP_READ_SUM, w);
		o[0].id = id;
		o[0].value = o[-1].value;
	}
}

/* All blocks add to one word of a peer at once, many times; the peer waits for all of them. */
static void burst(struct camp_emit *e, int w, int id)
{
	struct camp_window *win = &e->windows[w];
	int n = e->comms[win->comm].n, shift = 1 + camp_below(&e->random, n - 1);
	uint64_t times = 5 + (uint64_t)camp_below(&e->random, 60);

	camp_tell(e, "  %d blocks, %llu times signal %d to rank + %d\n", e->nblocks,
		  (unsigned long long)times, id, shift);
	for (int r = 0; r < n; r++) {
		int to = (r + shift) % n;

		for (int b = 0; b < e->nblocks; b++) {
			struct camp_op *o = camp_op(e, r, b, CAMP_SIGNAL, w);

			o->peer = to;
			o->id = id;
			o->how = ORIEL_ADD;
			o->value = 1;
			o->bytes = times;
		}
		win->signals[to][r][id] += times * (uint64_t)e->nblocks;
	}
	for (int r = 0; r < n; r++) {
		int from = (r + n - shift) % n;
		struct camp_op *o = camp_op(e, r, 0, CAMP_WAIT_FROM, w);

		o->peer = from;
		o->id = id;
		o->how = ORIEL_EQ;
		o->value = win->signals[r][from][id];
	}
}

void camp_step_storm(struct camp_emit *e)
{
	static const enum meeting ways[] = { BARRIER, SYNC, HALVES, PEER };
	int w = camp_any_window(e), rounds = 1 + camp_below(&e->random, 8);
	struct camp_comm *c = &e->comms[e->windows[w].comm];

	camp_shape(e, CAMP_BLOCKS);
	camp_tell(e, "  window %d: %d rounds of %d blocks\n", w, rounds, e->nblocks);
	for (int i = 0; i < rounds; i++) {
		enum meeting how = ways[camp_below(&e->random, 4)];

		for (int r = 0; r < c->n; r++)
			meet_rank(e, w, how, r, e->nblocks);
	}
	if (camp_chance(&e->random, 60))
		burst(e, w, camp_take_id(e, w));
	if (camp_chance(&e->random, 60))
		signal_everybody(e, w, camp_take_id(e, w), 1 + (uint64_t)camp_below(&e->random, 4));
}
