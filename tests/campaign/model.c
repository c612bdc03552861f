/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/model.c - predicts the contents of memory and words, and decides which step may
 * use which of them.
 *
 * Ranges of windows and ids are given out once between two barriers of all ranks.  In between each
 * range has one writer, or only atomics.  Bytes that are not given out must keep their first value,
 * and are checked too.
 */
#include <stdlib.h>
#include <string.h>

#include "campaign.h"

#define GAP_MAX 40

/* ---- ranges and ids -------------------------------------------------------------------------- */

static uint64_t round_up(uint64_t x, uint64_t align)
{
	return (x + align - 1) / align * align;
}

static uint64_t take(struct camp_emit *e, uint64_t *cursor, uint64_t room, uint64_t bytes,
		     uint64_t align)
{
	uint64_t gap = (uint64_t)camp_below(&e->random, GAP_MAX);
	uint64_t at = round_up(*cursor + gap, align);

	if (at + bytes > room) {
		fprintf(stderr, "campaign: step %d takes more memory than it may\n", e->step);
		abort();
	}
	*cursor = at + bytes;
	return at;
}

uint64_t camp_take(struct camp_emit *e, int window, int rank, uint64_t bytes, uint64_t align)
{
	struct camp_window *w = &e->windows[window];

	return take(e, &w->cursor[rank], w->bytes, bytes, align);
}

uint64_t camp_take_alike(struct camp_emit *e, int window, uint64_t bytes, uint64_t align)
{
	struct camp_window *w = &e->windows[window];
	uint64_t most = 0, at;

	for (int r = 0; r < CAMP_RANKS; r++)
		most = w->cursor[r] > most ? w->cursor[r] : most;
	at = take(e, &most, w->bytes, bytes, align);
	for (int r = 0; r < CAMP_RANKS; r++)
		w->cursor[r] = most;
	return at;
}

uint64_t camp_take_pool(struct camp_emit *e, int rank, uint64_t bytes)
{
	return take(e, &e->pool_cursor[rank], CAMP_POOL, bytes,
		    camp_chance(&e->random, 70) ? 16 : 1);
}

/* Mostly small, with the sizes at which paths change; at times as much as there may be. */
uint64_t camp_some_bytes(struct camp_emit *e, int window, int shares)
{
	static const uint64_t edges[] = { 0,  1,   7,   8,   15,  16,   17,   28,   63,
					  64, 100, 255, 256, 257, 1000, 4095, 4096, 4097 };
	uint64_t most = e->windows[window].bytes / 2 / (uint64_t)shares - GAP_MAX - 16, n;

	n = edges[camp_below(&e->random, (int)(sizeof(edges) / sizeof(edges[0])))];
	if (camp_chance(&e->random, 12))
		n = (uint64_t)camp_below(&e->random, (int)(most < 100000 ? most : 100000));
	else if (camp_chance(&e->random, 30))
		n = (uint64_t)camp_below(&e->random, 600);
	return n < most ? n : most;
}

int camp_take_id(struct camp_emit *e, int window)
{
	return e->windows[window].next_id++;
}

int camp_take_counter(struct camp_emit *e, int window)
{
	return e->windows[window].next_counter++;
}

uint64_t camp_tag(struct camp_emit *e)
{
	return ++e->next_tag;
}

int camp_barrier_id(const struct camp_emit *e, int block)
{
	return e->stream * CAMP_BLOCKS + block;
}

int camp_is_queued(const struct camp_emit *e, int comm, int a, int b)
{
	const struct camp_comm *c = &e->comms[comm];

	return e->node[c->world[a]] != e->node[c->world[b]];
}

int camp_any_window(struct camp_emit *e)
{
	int w;

	do {
		w = camp_below(&e->random, e->nwindows);
	} while (!e->windows[w].alive);
	return w;
}

/* ---- the model ------------------------------------------------------------------------------- */

void camp_model_bytes(struct camp_emit *e, int window, int rank, uint64_t off, uint64_t tag,
		      uint64_t tag_off, uint64_t bytes)
{
	uint8_t *image = e->windows[window].image[rank];

	for (uint64_t i = 0; i < bytes; i++)
		image[off + i] = camp_byte(tag, tag_off + i);
}

void camp_model_word(struct camp_emit *e, int window, int rank, uint64_t off, uint64_t value)
{
	memcpy(e->windows[window].image[rank] + off, &value, sizeof(value));
}

/* ---- operations that many steps need --------------------------------------------------------- */

/* Of the rank's own memory. */
void camp_op_fill(struct camp_emit *e, int window, int rank, int block, uint64_t off,
		  uint64_t bytes, uint64_t tag)
{
	struct camp_op *o = camp_op(e, rank, block, CAMP_FILL, window);

	o->place = e->windows[window].pool_place;
	o->off = off;
	o->bytes = bytes;
	o->tag = tag;
}

static void check(struct camp_emit *e, int window, int rank, int block, int place, uint64_t off,
		  uint64_t bytes, uint64_t tag)
{
	struct camp_op *o = camp_op(e, rank, block, CAMP_CHECK, window);

	o->place = place;
	o->off = off;
	o->bytes = bytes;
	o->tag = tag;
}

void camp_op_check(struct camp_emit *e, int window, int rank, int block, uint64_t off,
		   uint64_t bytes, uint64_t tag)
{
	check(e, window, rank, block, e->windows[window].buffer_place, off, bytes, tag);
}

void camp_op_check_pool(struct camp_emit *e, int window, int rank, int block, uint64_t off,
			uint64_t bytes, uint64_t tag)
{
	check(e, window, rank, block, e->windows[window].pool_place, off, bytes, tag);
}

void camp_op_meet(struct camp_emit *e, int window, int rank, int block, int code)
{
	camp_op(e, rank, block, code, window)->id = camp_barrier_id(e, block);
}

/* ---- memory and windows ---------------------------------------------------------------------- */

int camp_memory_make(struct camp_emit *e, int rank, int comm, int memory, int kind, uint64_t bytes)
{
	struct camp_act *a = camp_act(e, rank, CAMP_ACT_MEMORY);

	a->comm = comm;
	a->memory = memory;
	a->how = kind;
	a->bytes = bytes;
	return memory;
}

/*
 * The user's own memory can be a window's unless a mapped peer in another process would have to
 * see it.
 */
static int own_memory_kind(struct camp_emit *e, struct camp_random *r)
{
	int mapped = 0;

	for (int i = 1; i < e->config->ranks; i++)
		for (int k = 0; k < i; k++)
			mapped |= e->node[i] == e->node[k];
	if (e->config->device == CAMP_CPU && e->config->processes && mapped)
		return CAMP_MEMORY_ALLOC;
	if (camp_driver_waits(e->config))
		return CAMP_MEMORY_ALLOC;
	return camp_chance(r, 50) ? CAMP_MEMORY_USER : CAMP_MEMORY_ALLOC;
}

static void draw_options(struct camp_window *w, struct camp_random *r)
{
	static const uint64_t sizes[] = { 8192, 16384, 65536, 65536, 65536, 262144 };
	static const uint64_t firsts[] = { 0, 0, 0, UINT64_MAX - 5, UINT32_MAX - 5 };
	static const uint64_t slots[] = { 64, 256, 1024 }, boxes[] = { 8, 100, 2000 };
	struct oriel_window_options init = ORIEL_WINDOW_OPTIONS_INIT;

	w->options = init;
	w->options.signals = w->options.counters = CAMP_IDS;
	w->options.barriers = CAMP_STREAMS * CAMP_BLOCKS + CAMP_STREAMS;
	w->options.checked = camp_chance(r, 30);
	w->options.bytes = sizes[camp_below(r, 6)];
	w->options.staging_slot_bytes = slots[camp_below(r, 3)];
	w->options.staging_depth = 1u << camp_below(r, 3);
	w->options.staging_channels = CAMP_STREAMS;
	w->options.boxes = CAMP_STREAMS;
	w->options.box_bytes = boxes[camp_below(r, 3)];
	w->options.first_count = firsts[camp_below(r, 5)];
	w->bytes = w->options.bytes;
}

static int new_place(struct camp_emit *e)
{
	if (e->nplaces >= CAMP_PLACES) {
		fprintf(stderr, "campaign: too many places\n");
		abort();
	}
	return e->nplaces++;
}

static void make_on(struct camp_emit *e, int w, int rank, int kind)
{
	struct camp_window *win = &e->windows[w];
	int world = e->comms[win->comm].world[rank];
	struct camp_act *a;

	if (win->memory >= 0)
		(void)camp_memory_make(e, world, win->comm, win->memory, kind, win->bytes);
	a = camp_act(e, world, CAMP_ACT_WINDOW);
	a->window = w;
	a->comm = win->comm;
	a->memory = win->memory;
	a->options = win->options;
	a->place = win->buffer_place;
	a = camp_act(e, world, CAMP_ACT_SOURCE);
	a->window = w;
	a->memory = 0;
	a->place = win->pool_place;
	a->bytes = CAMP_POOL;
}

/* What it holds before anybody puts: a tag's bytes. */
static void fill_first(struct camp_emit *e, int w, int rank)
{
	struct camp_window *win = &e->windows[w];
	struct camp_op *o = camp_op(e, rank, 0, CAMP_FILL, w);

	o->place = win->buffer_place;
	o->bytes = win->bytes;
	o->tag = camp_tag(e);
	win->image[rank] = malloc(win->bytes);
	if (!win->image[rank])
		abort();
	camp_model_bytes(e, w, rank, 0, o->tag, 0, win->bytes);
}

int camp_window_make(struct camp_emit *e, int comm, struct camp_random *r)
{
	int w = e->nwindows++, kind = own_memory_kind(e, r);
	struct camp_window *win = &e->windows[w];

	memset(win, 0, sizeof(*win));
	win->alive = 1;
	win->comm = comm;
	win->memory = camp_chance(r, 50) ? -1 : e->nmemories++;
	draw_options(win, r);
	win->pool_place = new_place(e);
	win->buffer_place = new_place(e);
	for (int i = 0; i < e->comms[comm].n; i++)
		make_on(e, w, i, kind);
	for (int i = 0; i < e->comms[comm].n; i++)
		fill_first(e, w, i);
	camp_tell(e, "window %d: %llu bytes on comm %d, memory %s, first_count %llu%s\n", w,
		  (unsigned long long)win->bytes, comm,
		  win->memory < 0          ? "of the library" :
		  kind == CAMP_MEMORY_USER ? "of the user" :
					     "of oriel_alloc",
		  (unsigned long long)win->options.first_count,
		  win->options.checked ? ", checked" : "");
	camp_settle(e, 0);
	return w;
}

/* After camp_settle(): nobody uses it. */
void camp_window_end(struct camp_emit *e, int w)
{
	struct camp_window *win = &e->windows[w];
	struct camp_comm *c = &e->comms[win->comm];

	win->alive = 0;
	for (int r = 0; r < c->n; r++)
		camp_act(e, c->world[r], CAMP_ACT_WINDOW_DESTROY)->window = w;
	for (int r = 0; r < c->n && win->memory >= 0; r++)
		camp_act(e, c->world[r], CAMP_ACT_FREE)->memory = win->memory;
}
