/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/steps_memory.c - atomics on one word; memory and windows that go and come again.
 */
#include <stdlib.h>

#include "campaign.h"

#define REUSE_BYTES 140000u

/* ---- atomics --------------------------------------------------------------------------------- */

enum atomic { ADD, SWAP, CAS, ATOMICS };

/* Atomics are atomic only among ranks that reach the target by the same transport. */
static int draw_actors(struct camp_emit *e, int w, int target, int *actors)
{
	int comm = e->windows[w].comm, n = e->comms[comm].n, queued = 0, k = 0;

	for (int r = 0; r < n; r++)
		queued += camp_is_queued(e, comm, r, target);
	queued = queued && !e->config->no_atomics &&
		 (queued == n - 1 || camp_chance(&e->random, 60));
	for (int r = 0; r < n; r++)
		if (camp_is_queued(e, comm, r, target) == queued)
			actors[k++] = r;
	return k;
}

static void word_op(struct camp_emit *e, int w, int rank, int code, uint64_t off, uint64_t value)
{
	struct camp_op *o = camp_op(e, rank, 0, code, w);

	o->place = e->windows[w].buffer_place;
	o->off = off;
	o->value = value;
}

/* What came before, on any block, is over on all ranks. */
static void all_blocks_meet(struct camp_emit *e, int w)
{
	camp_end_launches(e);
	for (int r = 0; r < e->comms[e->windows[w].comm].n; r++)
		camp_op_meet(e, w, r, 0, CAMP_BARRIER);
	camp_end_launches(e);
}

static void act(struct camp_emit *e, int w, int rank, int block, int target, enum atomic how,
		uint64_t off, int field, uint64_t times, int cell)
{
	struct camp_op *o = camp_op(e, rank, block,
				    how == ADD  ? CAMP_ADD_FIELD :
				    how == SWAP ? CAMP_SWAP :
						  CAMP_CAS_ADD,
				    w);

	o->peer = target;
	o->off = off;
	o->id = field;
	o->bytes = times;
	o->value = 1 + ((uint64_t)field << 32);
	o->cell = cell;
}

/*
 * The last value is unknown.  So the sum of the values swapped in is compared with the sum of those
 * that came out.
 */
static void check_swaps(struct camp_emit *e, int w, int target, uint64_t off, int cell)
{
	struct camp_comm *c = &e->comms[e->windows[w].comm];

	for (int r = 0; r < c->n; r++) {
		struct camp_act *a = camp_act(e, c->world[r], CAMP_ACT_CHECK_SUM);

		a->comm = e->windows[w].comm;
		a->window = w;
		a->peer = target;
		a->off = off;
		a->id = cell;
	}
	word_op(e, w, target, CAMP_STORE_WORD, off, 0);
}

void camp_step_atomics(struct camp_emit *e)
{
	static const char *const names[] = { "fetch_add", "swap", "compare_swap" };
	int w = camp_any_window(e), actors[CAMP_RANKS], cell = 0, field = 0;
	int target = camp_below(&e->random, e->comms[e->windows[w].comm].n);
	int n = draw_actors(e, w, target, actors);
	enum atomic how = (enum atomic)camp_below(&e->random, ATOMICS);
	uint64_t off = camp_take(e, w, target, 8, 8), times, all = 0;

	camp_shape(e, n <= 2 ? 3 : n <= 4 ? 2 : 1);
	times = 1 + (uint64_t)camp_below(&e->random, how == CAS ? 12 : 30);
	if (how == SWAP && e->ncells >= CAMP_CELLS - 1)
		how = ADD;
	if (how == SWAP)
		cell = e->ncells++;
	camp_tell(e, "  window %d: %d ranks, %d blocks each, %llu times %s on a word of rank %d\n",
		  w, n, e->nblocks, (unsigned long long)times, names[how], target);
	word_op(e, w, target, CAMP_STORE_WORD, off, 0);
	all_blocks_meet(e, w);
	for (int i = 0; i < n; i++)
		for (int b = 0; b < e->nblocks; b++, field++) {
			act(e, w, actors[i], b, target, how, off, field, times, cell);
			all += how == ADD ? times << (8 * field) : how == CAS ? times : 0;
		}
	all_blocks_meet(e, w);
	if (how == SWAP)
		check_swaps(e, w, target, off, cell);
	else
		word_op(e, w, target, CAMP_CHECK_WORD, off, all);
	camp_model_word(e, w, target, off, all);
}

/* ---- reuse: a source whose memory is freed and made again ------------------------------------ */

struct reuse {
	int w, from, to, memory, place, kind, host;
	uint64_t bytes, value;
	int id;
};

static void put_from(struct camp_emit *e, const struct reuse *x, uint64_t dst, uint64_t tag)
{
	int world = e->comms[e->windows[x->w].comm].world[x->from];
	struct camp_op *o;

	o = camp_op(e, x->from, 0, CAMP_FILL, x->w);
	o->place = x->place;
	o->bytes = x->bytes;
	o->tag = tag;
	if (x->host) {
		struct camp_act *a = camp_act(e, world, CAMP_ACT_PUT_SIGNAL);

		a->window = x->w;
		a->place = x->place;
		a->peer = x->to;
		a->off = dst;
		a->bytes = x->bytes;
		a->id = x->id;
		a->how = ORIEL_ADD;
		a->value = 1;
		return;
	}
	o = camp_op(e, x->from, 0, CAMP_PUT_SIGNAL, x->w);
	o->place = x->place;
	o->peer = x->to;
	o->off = dst;
	o->bytes = x->bytes;
	o->id = x->id;
	o->how = ORIEL_ADD;
	o->value = 1;
	/* complete: the memory may go */
	camp_op(e, x->from, 0, CAMP_FLUSH, x->w)->peer = x->to;
}

/* What was put, into the same memory: it is a target of gets as well. */
static void get_back(struct camp_emit *e, const struct reuse *x, uint64_t dst, uint64_t tag)
{
	struct camp_op *o;

	if (!camp_chance(&e->random, 50))
		return;
	o = camp_op(e, x->from, 0, CAMP_GET, x->w);
	o->place = x->place;
	o->peer = x->to;
	o->off = dst;
	o->src_off = REUSE_BYTES / 2;
	o->bytes = x->bytes;
	o = camp_op(e, x->from, 0, CAMP_CHECK, x->w);
	o->place = x->place;
	o->off = REUSE_BYTES / 2;
	o->bytes = x->bytes;
	o->tag = tag;
}

/* The other one has it: so the NIC has read it. */
static void take_back(struct camp_emit *e, const struct reuse *x, uint64_t dst, uint64_t tag)
{
	struct camp_window *w = &e->windows[x->w];
	struct camp_op *o = camp_op(e, x->to, 0, CAMP_WAIT_FROM, x->w);

	o->peer = x->from;
	o->id = x->id;
	o->how = ORIEL_GE;
	o->value = ++w->signals[x->to][x->from][x->id];
	camp_op_check(e, x->w, x->to, 0, dst, x->bytes, tag);
	camp_model_bytes(e, x->w, x->to, dst, tag, 0, x->bytes);
	if (!x->host) {
		get_back(e, x, dst, tag);
		return;
	}
	o = camp_op(e, x->to, 0, CAMP_SIGNAL, x->w);
	o->peer = x->from;
	o->id = x->id;
	o->how = ORIEL_ADD;
	o->value = 1;
	o = camp_op(e, x->from, 0, CAMP_WAIT_FROM, x->w);
	o->peer = x->to;
	o->id = x->id;
	o->how = ORIEL_GE;
	o->value = ++w->signals[x->from][x->to][x->id];
	get_back(e, x, dst, tag);
}

/*
 * The driver of a GPU waits for all kernels of the process when memory is freed.  So no kernel may
 * then wait for one that is not launched yet.
 */
static void quiet(struct camp_emit *e, int world)
{
	if (e->config->device == CAMP_GPU)
		camp_settle(e, 0);
	else
		(void)camp_act(e, world, CAMP_ACT_STREAM_SYNC);
}

void camp_step_reuse(struct camp_emit *e)
{
	struct reuse x = { .w = camp_any_window(e) };
	struct camp_comm *c = &e->comms[e->windows[x.w].comm];
	int rounds = 2 + camp_below(&e->random, 2), world;

	if (e->nmemories >= CAMP_MEMORIES || e->nplaces + rounds >= CAMP_PLACES)
		return;
	camp_shape(e, 1);
	x.from = camp_below(&e->random, c->n);
	x.to = (x.from + 1 + camp_below(&e->random, c->n - 1)) % c->n;
	x.host = camp_chance(&e->random, 40);
	x.kind = camp_chance(&e->random, 80) ? CAMP_MEMORY_USER : CAMP_MEMORY_ALLOC;
	x.memory = e->nmemories++;
	world = c->world[x.from];
	camp_tell(e, "  window %d: rank %d to %d, memory %s made %d times, put by %s\n", x.w,
		  x.from, x.to, x.kind == CAMP_MEMORY_USER ? "of the user" : "of oriel_alloc",
		  rounds, x.host ? "the host" : "a kernel");
	for (int i = 0; i < rounds; i++) {
		uint64_t tag = camp_tag(e), dst;
		struct camp_act *a;

		x.bytes = camp_some_bytes(e, x.w, 2 * rounds);
		x.bytes += x.bytes ? 0 : 9;
		if (e->config->device == CAMP_GPU)
			quiet(e, world);
		x.id = camp_take_id(e, x.w);
		dst = camp_take(e, x.w, x.to, x.bytes, 1);
		(void)camp_memory_make(e, world, 0, x.memory, x.kind, REUSE_BYTES);
		a = camp_act(e, world, CAMP_ACT_SOURCE);
		a->window = x.w;
		a->memory = x.memory;
		a->place = x.place = e->nplaces++;
		a->bytes = REUSE_BYTES;
		if (e->config->device == CAMP_GPU)
			quiet(e, world);
		put_from(e, &x, dst, tag);
		take_back(e, &x, dst, tag);
		quiet(e, world);
		camp_act(e, world, CAMP_ACT_FREE)->memory = x.memory;
	}
}

/* ---- again: a window goes, another one comes ------------------------------------------------- */

void camp_step_again(struct camp_emit *e)
{
	int live = 0, last = -1, comm = 0;

	for (int w = 1; w < e->nwindows; w++)
		if (e->windows[w].alive) {
			live++;
			last = w;
		}
	if (e->nwindows >= CAMP_WINDOWS || e->nmemories >= CAMP_MEMORIES ||
	    e->nplaces + 2 > CAMP_PLACES)
		return;
	camp_settle(e, camp_chance(&e->random, 50));
	if (live) {
		comm = e->windows[last].comm;
		camp_window_end(e, last);
		camp_tell(e, "  window %d goes\n", last);
	}
	(void)camp_window_make(e, comm, &e->random);
}
