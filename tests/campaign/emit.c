/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/emit.c - turns steps into the work of every rank.
 *
 * Walks the kept steps once, before any rank starts.  Gives each rank a list of actions (host
 * calls) and a list of operations (kernels).  All ranks do their part of a step before the next
 * step, and no wait of a step needs a later step.  So a program cannot deadlock by itself.
 * Launches of neighbouring steps with the same shape may become one kernel; the seed decides.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "campaign.h"

/* ---- lists ----------------------------------------------------------------------------------- */

static void *grow(void *list, size_t n, size_t *room, size_t each)
{
	if (n < *room)
		return list;
	*room = *room ? 2 * *room : 64;
	list = realloc(list, *room * each);
	if (!list)
		abort();
	return list;
}

static struct camp_act *add_act(struct camp_rank *r, int kind, int step)
{
	struct camp_act *a;

	r->acts = grow(r->acts, r->nacts, &r->acts_room, sizeof(*r->acts));
	a = &r->acts[r->nacts++];
	memset(a, 0, sizeof(*a));
	a->kind = kind;
	a->step = step;
	return a;
}

static void end_launch(struct camp_emit *e, int rank)
{
	struct camp_rank *r = &e->ranks[rank];
	struct camp_act *a;

	if (!r->open)
		return;
	r->open = 0;
	a = add_act(r, CAMP_ACT_LAUNCH, r->ops[r->nops - 1].step);
	a->first = r->first;
	a->count = r->nops - r->first;
	a->nblocks = r->nblocks;
	a->nthreads = r->nthreads;
	a->stream = r->stream;
}

void camp_end_launches(struct camp_emit *e)
{
	for (int r = 0; r < e->config->ranks; r++)
		end_launch(e, r);
}

struct camp_act *camp_act(struct camp_emit *e, int rank, int kind)
{
	struct camp_act *a;

	end_launch(e, rank);
	a = add_act(&e->ranks[rank], kind, e->step);
	a->stream = e->stream;
	e->nops++;
	return a;
}

static void begin_launch(struct camp_emit *e, int rank)
{
	struct camp_rank *r = &e->ranks[rank];

	if (r->open && r->nblocks == e->nblocks && r->nthreads == e->nthreads &&
	    r->stream == e->stream)
		return;
	end_launch(e, rank);
	r->open = 1;
	r->first = r->nops;
	r->nblocks = e->nblocks;
	r->nthreads = e->nthreads;
	r->stream = e->stream;
	e->streams_used |= 1u << e->stream;
}

/* `rank` is the window's. */
struct camp_op *camp_op(struct camp_emit *e, int rank, int block, int code, int window)
{
	int world = e->comms[e->windows[window].comm].world[rank];
	struct camp_rank *r = &e->ranks[world];
	struct camp_op *o;

	begin_launch(e, world);
	r->ops = grow(r->ops, r->nops, &r->ops_room, sizeof(*r->ops));
	o = &r->ops[r->nops++];
	memset(o, 0, sizeof(*o));
	o->code = code;
	o->block = block;
	o->step = e->step;
	o->window = window;
	e->nops++;
	return o;
}

void camp_tell(struct camp_emit *e, const char *fmt, ...)
{
	va_list args;

	if (!e->text)
		return;
	va_start(args, fmt);
	vfprintf(e->text, fmt, args);
	va_end(args);
}

/* Half of the steps go on in the shape of the last one, so that their launches can be one. */
void camp_shape(struct camp_emit *e, int blocks)
{
	struct camp_random *r = &e->random;

	if (e->nblocks && e->nblocks <= blocks && camp_chance(r, 50))
		return;
	e->nblocks = camp_chance(r, 50) ? 1 : 1 + camp_below(r, blocks);
	e->nthreads = camp_chance(r, 50) ? e->config->threads : 1;
	e->stream = camp_below(r, e->config->streams);
}

/* ---- all ranks meet -------------------------------------------------------------------------- */

static void sync_streams(struct camp_emit *e)
{
	int stream = e->stream;

	camp_end_launches(e);
	for (int s = 0; s < e->config->streams; s++)
		for (int r = 0; r < e->config->ranks && (e->streams_used >> s & 1); r++) {
			e->stream = s;
			(void)camp_act(e, r, CAMP_ACT_STREAM_SYNC);
		}
	e->stream = stream;
	e->streams_used = 0;
}

/* By the host, or by a kernel of one block; the first window is the world's. */
static void meet(struct camp_emit *e)
{
	static const int codes[] = { CAMP_BARRIER, CAMP_SYNC };
	int host = camp_chance(&e->random, 60), code = codes[camp_below(&e->random, 2)];

	sync_streams(e);
	for (int r = 0; r < e->config->ranks; r++) {
		if (host) {
			(void)camp_act(e, r, CAMP_ACT_COMM_BARRIER);
			continue;
		}
		camp_op_meet(e, 0, r, 0, code);
	}
	if (!host)
		sync_streams(e);
}

static void look_at_words(struct camp_emit *e, int w, int rank)
{
	struct camp_window *win = &e->windows[w];
	int n = e->comms[win->comm].n;

	for (int id = 0; id < CAMP_IDS; id++)
		for (int p = 0; p < n; p++) {
			struct camp_op *o;

			if (!win->signals[rank][p][id] && !win->counters[rank][p][id])
				continue;
			o = camp_op(e, rank, 0, CAMP_READ_FROM, w);
			o->peer = p;
			o->id = id;
			o->value = win->signals[rank][p][id];
			o = camp_op(e, rank, 0, CAMP_READ_COUNTER, w);
			o->peer = p;
			o->id = id;
			o->value = win->counters[rank][p][id];
		}
}

/* Nobody signals now, so a reset loses nothing. */
static void reset_some(struct camp_emit *e, int w, int rank)
{
	struct camp_window *win = &e->windows[w];

	for (int id = CAMP_SET_IDS; id < CAMP_IDS; id++) {
		int used = 0;

		for (int p = 0; p < CAMP_RANKS; p++)
			used |= win->signals[rank][p][id] != 0;
		if (!used || !camp_chance(&e->random, 30))
			continue;
		camp_op(e, rank, 0, CAMP_RESET_SIGNAL, w)->id = id;
		for (int p = 0; p < CAMP_RANKS; p++)
			win->signals[rank][p][id] = 0;
	}
}

static void look(struct camp_emit *e, int w, int rank)
{
	struct camp_window *win = &e->windows[w];
	int world = e->comms[win->comm].world[rank];
	struct camp_act *a;

	look_at_words(e, w, rank);
	reset_some(e, w, rank);
	a = camp_act(e, world, CAMP_ACT_CHECK_WINDOW);
	a->window = w;
	a->image = malloc(win->bytes);
	if (!a->image)
		abort();
	memcpy(a->image, win->image[rank], win->bytes);
}

void camp_settle(struct camp_emit *e, int looks)
{
	meet(e);
	for (int w = 0; w < e->nwindows && looks; w++)
		for (int r = 0; r < e->comms[e->windows[w].comm].n && e->windows[w].alive; r++)
			look(e, w, r);
	if (looks)
		meet(e);
	for (int w = 0; w < e->nwindows; w++) {
		struct camp_window *win = &e->windows[w];

		memset(win->cursor, 0, sizeof(win->cursor));
		win->next_id = CAMP_SET_IDS;
		win->next_set_id = 0;
		win->next_counter = 0;
	}
	memset(e->pool_cursor, 0, sizeof(e->pool_cursor));
	camp_tell(e, "  all ranks meet%s\n", looks ? ", every byte and word is checked" : "");
}

/* A step takes at most half of a window, of the ids and of a rank's own memory. */
static int is_short(const struct camp_emit *e)
{
	for (int w = 0; w < e->nwindows; w++) {
		const struct camp_window *win = &e->windows[w];

		if (win->alive &&
		    (win->next_id > CAMP_IDS - 16 || win->next_counter > CAMP_IDS - 10 ||
		     win->next_set_id > CAMP_SET_IDS - 4))
			return 1;
		for (int r = 0; r < CAMP_RANKS && win->alive; r++)
			if (win->cursor[r] > win->bytes / 2)
				return 1;
	}
	for (int r = 0; r < e->config->ranks; r++)
		if (e->pool_cursor[r] > CAMP_POOL / 2)
			return 1;
	return 0;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void make_world(struct camp_emit *e)
{
	struct camp_comm *c = &e->comms[0];

	c->n = e->config->ranks;
	for (int r = 0; r < CAMP_RANKS; r++) {
		c->world[r] = r;
		c->of[r] = r < c->n ? r : -1;
	}
	e->ncomms = 1;
}

/* Colour and order by chance; a rank in no comm is possible, a comm of one rank too. */
static void make_split(struct camp_emit *e)
{
	struct camp_comm *c = &e->comms[e->ncomms];
	int how = camp_below(&e->random, 4), n = e->config->ranks, skip, reverse;

	reverse = camp_chance(&e->random, 30);
	skip = how == 3 && n > 2 ? camp_below(&e->random, n) : -1;
	memset(c->of, -1, sizeof(c->of));
	for (int i = 0; i < n; i++) {
		int r = reverse ? n - 1 - i : i, colour = how == 0 ? 0 : how == 1 ? r % 2 : 0;
		struct camp_act *a = camp_act(e, r, CAMP_ACT_SPLIT);

		colour = how == 2 ? r < (n + 1) / 2 ? 0 : 1 : colour;
		a->comm = e->ncomms;
		a->id = r == skip ? -1 : colour;
		a->value = (uint64_t)i;
		/*
		 * only the comm of colour 0 is used; ranks of another have one too, and leave it
		 * idle
		 */
		if (a->id)
			continue;
		c->of[r] = c->n;
		c->world[c->n++] = r;
	}
	camp_tell(e, "comm %d: %d of %d ranks%s\n", e->ncomms, c->n, n,
		  reverse ? ", reversed" : "");
	e->ncomms++;
}

static void begin(struct camp_emit *e)
{
	struct camp_random *r = &e->random;

	r->state = e->program->seed ^ 0x5851f42d4c957f2dull;
	e->nblocks = e->nthreads = 1;
	e->step = -1;
	make_world(e);
	e->ncells = 8; /* those before count replays */
	e->nmemories = 1;
	for (int i = 0; i < e->config->ranks; i++)
		(void)camp_memory_make(e, i, 0, 0,
				       camp_chance(r, 50) || camp_driver_waits(e->config) ?
					       CAMP_MEMORY_ALLOC :
					       CAMP_MEMORY_USER,
				       CAMP_POOL);
	if (camp_chance(r, 40))
		make_split(e);
	if (e->ncomms == 2 && camp_chance(r, 30))
		make_split(e);
	(void)camp_window_make(e, 0, r);
	for (int i = 1; i < e->ncomms; i++)
		if (e->comms[i].n > 1)
			(void)camp_window_make(e, i, r);
	if (e->nwindows < CAMP_LIVE && camp_chance(r, 40))
		(void)camp_window_make(e, 0, r);
}

static void do_step(struct camp_emit *e, int i)
{
	static camp_step_fn *const fns[CAMP_KINDS] = {
		camp_step_exchange,  camp_step_meet,        camp_step_fetch,
		camp_step_chain,     camp_step_pingpong,    camp_step_atomics,
		camp_step_staged,    camp_step_packets,     camp_step_storm,
		camp_step_gather,    camp_step_gather_many, camp_step_request,
		camp_step_alltoallv, camp_step_reduce,      camp_step_reuse,
		camp_step_again,     camp_step_graph,       NULL,
	};
	const struct camp_step *s = &e->program->steps[i];
	int merge;

	e->step = i;
	e->random.state = s->seed;
	merge = camp_chance(&e->random, 50);
	if (is_short(e))
		camp_settle(e, camp_chance(&e->random, 30));
	camp_tell(e, "step %d, %s\n", i, camp_kind_name(s->kind));
	if (s->kind == CAMP_STEP_SETTLE)
		camp_settle(e, 1);
	else
		fns[s->kind](e);
	if (!merge)
		camp_end_launches(e);
}

int camp_emit_program(const struct camp_program *p, FILE *text, struct camp_emit **out)
{
	struct camp_emit *e = calloc(1, sizeof(*e));

	if (!e)
		return -1;
	e->program = p;
	e->config = &p->config;
	e->text = text;
	e->sabotage = p->options->sabotage;
	camp_config_nodes(e->config, e->node);
	begin(e);
	for (int i = 0; i < p->nsteps; i++)
		if (p->steps[i].kept)
			do_step(e, i);
	e->step = p->nsteps;
	e->random.state = p->seed + 1;
	e->nblocks = e->nthreads = 1;
	camp_settle(e, 1);
	for (int w = e->nwindows - 1; w >= 0; w--)
		if (e->windows[w].alive)
			camp_window_end(e, w);
	camp_end_launches(e);
	*out = e;
	return 0;
}

void camp_emit_free(struct camp_emit *e)
{
	for (int r = 0; r < CAMP_RANKS; r++) {
		for (size_t i = 0; i < e->ranks[r].nacts; i++)
			free(e->ranks[r].acts[i].image);
		free(e->ranks[r].acts);
		free(e->ranks[r].ops);
	}
	for (int w = 0; w < e->nwindows; w++)
		for (int r = 0; r < CAMP_RANKS; r++)
			free(e->windows[w].image[r]);
	free(e);
}
