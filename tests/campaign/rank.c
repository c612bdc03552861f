/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/campaign/rank.c - one rank of a program: does its actions in order and reports every
 * difference from the model.
 *
 * The first failure of a rank ends the rank and, by an abort, the waits of all other ranks.  run.c
 * decides which failure is the cause: a wrong byte comes before a failed call, a failed call before
 * a deadline, a deadline before an abort.
 */
#include <stdarg.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "rank.h"

static const char *const code_names[CAMP_CODES] = {
#define CAMP_OP_NAME(name, text) text,
	CAMP_OP_LIST(CAMP_OP_NAME)
#undef CAMP_OP_NAME
};

/* ---- failures -------------------------------------------------------------------------------- */

static const char *step_name(const struct camp_state *s, int step)
{
	const struct camp_program *p = s->emit->program;

	return step < 0 ? "begin" : step >= p->nsteps ? "end" : camp_kind_name(p->steps[step].kind);
}

int camp_fail(struct camp_state *s, int level, int step, const char *fmt, ...)
{
	va_list args;
	int n;

	if (s->failed)
		return -1;
	s->failed = 1;
	s->told->step = step;
	n = snprintf(s->told->text, sizeof(s->told->text), "rank %d, step %d (%s): ", s->rank, step,
		     step_name(s, step));
	va_start(args, fmt);
	vsnprintf(s->told->text + n, sizeof(s->told->text) - (size_t)n, fmt, args);
	va_end(args);
	s->told->level = level;
	for (int i = 0; i < CAMP_COMMS; i++)
		if (s->comms[i])
			(void)oriel_comm_abort(s->comms[i], ORIEL_EABORTED);
	return -1;
}

static int level_of(int status)
{
	return status == ORIEL_ETIMEDOUT                         ? CAMP_LEVEL_TIMEOUT :
	       status == ORIEL_EABORTED || status == ORIEL_EPEER ? CAMP_LEVEL_ABORTED :
								   CAMP_LEVEL_CALL;
}

int camp_call(struct camp_state *s, const struct camp_act *a, int status, const char *call)
{
	if (!status)
		return 0;
	return camp_fail(s, level_of(status), a->step, "%s: %s: %s", call,
			 oriel_status_name(status), oriel_last_error());
}

/* ---- what kernels found ---------------------------------------------------------------------- */

static void name_place(const struct camp_state *s, const struct camp_report *r, char *out,
		       size_t bytes)
{
	const struct camp_window *w = &s->emit->windows[r->window];

	if (r->place == w->buffer_place)
		snprintf(out, bytes, "window %d", r->window);
	else
		snprintf(out, bytes, "%s (place %d)",
			 r->place == w->pool_place ? "own memory" : "memory", r->place);
}

static int tell_report(struct camp_state *s, const struct camp_report *r)
{
	char place[48];

	name_place(s, r, place, sizeof(place));
	if (r->status)
		return camp_fail(s, level_of(r->status), r->step,
				 "%s returned %s: window %d, peer %d, id %d, block %d",
				 code_names[r->code], oriel_status_name(r->status), r->window,
				 r->peer, r->id, r->block);
	if (r->code == CAMP_CHECK || r->code == CAMP_CHECK_WORD)
		return camp_fail(s, CAMP_LEVEL_WRONG, r->step,
				 "%s offset %llu: expected 0x%llx, found 0x%llx (%s, block %d)",
				 place, (unsigned long long)r->off, (unsigned long long)r->expected,
				 (unsigned long long)r->found, code_names[r->code], r->block);
	return camp_fail(s, CAMP_LEVEL_WRONG, r->step,
			 "%s of window %d, peer %d, id %d, offset %llu: expected %llu, found %llu "
			 "(block %d)",
			 code_names[r->code], r->window, r->peer, r->id, (unsigned long long)r->off,
			 (unsigned long long)r->expected, (unsigned long long)r->found, r->block);
}

/* No kernel runs any more, or (CUDA) those that do are of no interest. */
static int look_at_report(struct camp_state *s, const struct camp_act *a)
{
	struct camp_report r;
	int err = camp_call(s, a, oriel_copy(s->comms[0], &r, s->dev_report, sizeof(r)),
			    "oriel_copy");

	if (err)
		return err;
	s->told->nops = r.checked;
	return r.wrong ? tell_report(s, &r) : 0;
}

/* ---- kernels and host-issued operations ------------------------------------------------------ */

static int do_launch(struct camp_state *s, const struct camp_act *a)
{
	const struct oriel_kernel *k = s->cuda ? camp_gpu_kernel(camp_kernel) : camp_kernel;
	struct camp_args args;
	int err;

	memset(&args, 0, sizeof(args));
	args.windows = s->dev_windows;
	args.places = s->dev_places;
	args.ops = s->dev_ops + a->first;
	args.count = a->count;
	args.report = s->dev_report;
	args.cells = s->dev_cells;
	err = camp_call(s, a,
			oriel_launch(s->comms[0], k, a->nblocks, a->nthreads, &args, sizeof(args),
				     s->streams[a->stream]),
			"oriel_launch");
	return err || s->cuda ? err : look_at_report(s, a);
}

static int do_window_op(struct camp_state *s, const struct camp_act *a)
{
	const struct oriel_source *src = &s->places[a->place].source;
	struct oriel_window *w = s->windows[a->window];
	void *stream = s->streams[a->stream];

	switch (a->kind) {
	case CAMP_ACT_PUT:
		return camp_call(s, a,
				 oriel_window_put(w, a->peer, a->off, src, a->src_off, a->bytes,
						  stream),
				 "oriel_window_put");
	case CAMP_ACT_GET:
		return camp_call(s, a,
				 oriel_window_get(w, a->peer, a->off, src, a->src_off, a->bytes,
						  stream),
				 "oriel_window_get");
	case CAMP_ACT_PUT_SIGNAL:
		return camp_call(s, a,
				 oriel_window_put_signal(w, a->peer, a->off, src, a->src_off,
							 a->bytes, a->id, a->how, a->value, stream),
				 "oriel_window_put_signal");
	case CAMP_ACT_SIGNAL:
		return camp_call(s, a,
				 oriel_window_signal(w, a->peer, a->id, a->how, a->value, stream),
				 "oriel_window_signal");
	case CAMP_ACT_WAIT:
		return camp_call(s, a,
				 oriel_window_wait_signal(w, a->peer, a->id, a->how, a->value,
							  stream),
				 "oriel_window_wait_signal");
	default:
		return camp_call(s, a, oriel_window_barrier(w, a->id, stream),
				 "oriel_window_barrier");
	}
}

static int do_sync(struct camp_state *s, const struct camp_act *a)
{
	int err = oriel_comm_sync(s->comms[0], s->streams[a->stream]);

	/* why it failed is in the report, if a kernel knows */
	if (look_at_report(s, a))
		return -1;
	return camp_call(s, a, err, "oriel_comm_sync");
}

/* ---- looks at memory ------------------------------------------------------------------------- */

static int check_window(struct camp_state *s, const struct camp_act *a)
{
	uint64_t bytes = s->emit->windows[a->window].bytes;
	uint8_t *mine = malloc(bytes);
	int err = 0;

	if (!mine)
		return camp_fail(s, CAMP_LEVEL_CALL, a->step, "no memory");
	err = camp_call(s, a,
			oriel_copy(s->comms[0], mine, oriel_window_buffer(s->windows[a->window]),
				   bytes),
			"oriel_copy");
	for (uint64_t i = 0; i < bytes && !err; i++)
		if (mine[i] != a->image[i])
			err = camp_fail(s, CAMP_LEVEL_WRONG, a->step,
					"window %d offset %llu: expected 0x%x, "
					"found 0x%x (all of it)",
					a->window, (unsigned long long)i, a->image[i], mine[i]);
	free(mine);
	return err;
}

/* Swaps: what went in and what came out, over all ranks, is what the word is now. */
static int check_sum(struct camp_state *s, const struct camp_act *a)
{
	uint64_t mine = 0, all[CAMP_RANKS], sum = 0, word = 0;
	int err = do_sync(s, a);

	if (!err)
		err = camp_call(s, a,
				oriel_copy(s->comms[0], &mine, s->dev_cells + a->id, sizeof(mine)),
				"oriel_copy");
	if (!err)
		err = camp_call(s, a,
				oriel_comm_allgather(s->comms[a->comm], ORIEL_WORLD, &mine, all,
						     sizeof(mine)),
				"oriel_comm_allgather");
	if (err || oriel_comm_rank(s->comms[a->comm]) != a->peer)
		return err;
	for (int r = 0; r < oriel_comm_size(s->comms[a->comm]); r++)
		sum += all[r];
	err = camp_call(s, a,
			oriel_copy(s->comms[0], &word,
				   (uint8_t *)oriel_window_buffer(s->windows[a->window]) + a->off,
				   sizeof(word)),
			"oriel_copy");
	if (!err && camp_mix(word) - camp_mix(0) != sum)
		err = camp_fail(s, CAMP_LEVEL_WRONG, a->step,
				"window %d offset %llu: %#llx does not follow from "
				"what was swapped",
				a->window, (unsigned long long)a->off, (unsigned long long)word);
	return err;
}

/* ---- the list -------------------------------------------------------------------------------- */

static int do_act(struct camp_state *s, const struct camp_act *a)
{
	switch (a->kind) {
	case CAMP_ACT_SPLIT:
		return camp_do_split(s, a);
	case CAMP_ACT_MEMORY:
		return camp_do_memory(s, a);
	case CAMP_ACT_FREE:
		return camp_do_free(s, a);
	case CAMP_ACT_WINDOW:
		return camp_do_window(s, a);
	case CAMP_ACT_WINDOW_DESTROY:
		return camp_do_window_destroy(s, a);
	case CAMP_ACT_SOURCE:
		return camp_do_source(s, a);
	case CAMP_ACT_LAUNCH:
		return do_launch(s, a);
	case CAMP_ACT_COMM_BARRIER:
		return camp_call(s, a, oriel_comm_barrier(s->comms[0], ORIEL_WORLD),
				 "oriel_comm_barrier");
	case CAMP_ACT_STREAM_SYNC:
		return do_sync(s, a);
	case CAMP_ACT_CHECK_WINDOW:
		return do_sync(s, a) ? -1 : check_window(s, a);
	case CAMP_ACT_CHECK_SUM:
		return check_sum(s, a);
	case CAMP_ACT_BUFFER:
	case CAMP_ACT_BUFFER_RELEASE:
		return camp_do_buffer(s, a);
	case CAMP_ACT_GATHER:
	case CAMP_ACT_GATHER_INIT:
	case CAMP_ACT_GATHER_EXEC:
	case CAMP_ACT_GATHER_DESTROY:
		return camp_do_gather(s, a);
	case CAMP_ACT_A2A_CREATE:
	case CAMP_ACT_A2A_EXEC:
	case CAMP_ACT_A2A_DESTROY:
		return camp_do_a2a(s, a);
	case CAMP_ACT_BROADCAST:
	case CAMP_ACT_ALLREDUCE:
	case CAMP_ACT_REDUCESCATTER:
		return camp_do_reduce(s, a);
	case CAMP_ACT_CAPTURE:
	case CAMP_ACT_CAPTURED:
	case CAMP_ACT_GRAPH_LAUNCH:
	case CAMP_ACT_GRAPH_DESTROY:
		return camp_do_graph(s, a);
	default:
		return do_window_op(s, a);
	}
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void *make_table(struct camp_state *s, const struct camp_act *a, size_t bytes)
{
	char *zero = calloc(1, bytes + 1);
	void *p = NULL;

	if (!zero || camp_call(s, a, oriel_alloc(s->comms[0], bytes, &p), "oriel_alloc") ||
	    camp_call(s, a, oriel_copy(s->comms[0], p, zero, bytes), "oriel_copy"))
		p = NULL;
	free(zero);
	return p;
}

static int make_tables(struct camp_state *s)
{
	const struct camp_rank *r = &s->emit->ranks[s->rank];
	size_t ops = r->nops * sizeof(*r->ops);
	struct camp_act none;

	memset(&none, 0, sizeof(none));
	none.step = -1;
	s->dev_places = make_table(s, &none, sizeof(s->places));
	s->dev_windows = make_table(s, &none, CAMP_WINDOWS * sizeof(*s->dev_windows));
	s->dev_report = make_table(s, &none, sizeof(*s->dev_report));
	s->dev_cells = make_table(s, &none, CAMP_CELLS * sizeof(*s->dev_cells));
	s->dev_ops = make_table(s, &none, ops + 1);
	if (!s->dev_places || !s->dev_windows || !s->dev_report || !s->dev_cells || !s->dev_ops)
		return -1;
	for (int i = 0; i < s->config->streams && s->cuda; i++)
		if (camp_gpu_stream(s->comms[0], &s->streams[i]))
			return camp_fail(s, CAMP_LEVEL_CALL, -1, "no stream");
	return camp_call(s, &none, ops ? oriel_copy(s->comms[0], s->dev_ops, r->ops, ops) : 0,
			 "oriel_copy");
}

/*
 * A driver may keep the first kernel of a stream behind that of another thread's new stream until
 * the latter has ended (docs/decisions/0024): kernels that wait for each other are not the first.
 */
static int begin_streams(struct camp_state *s)
{
	static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
	struct camp_act empty;
	int err = 0;

	memset(&empty, 0, sizeof(empty));
	empty.step = -1;
	empty.nblocks = empty.nthreads = 1;
	pthread_mutex_lock(&one_at_a_time);
	for (int i = 0; i < s->config->streams && !err; i++) {
		empty.stream = i;
		err = do_launch(s, &empty);
		if (!err)
			err = camp_call(s, &empty, oriel_comm_sync(s->comms[0], s->streams[i]),
					"oriel_comm_sync");
	}
	pthread_mutex_unlock(&one_at_a_time);
	return err ? err :
		     camp_call(s, &empty, oriel_comm_barrier(s->comms[0], ORIEL_WORLD),
			       "oriel_comm_barrier");
}

static void free_tables(struct camp_state *s)
{
	void *tables[] = { s->dev_places, s->dev_windows, s->dev_report, s->dev_cells, s->dev_ops };

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && !s->failed; i++)
		(void)oriel_free(s->comms[0], tables[i]);
}

static void destroy_splits(struct camp_state *s)
{
	struct camp_act none;

	memset(&none, 0, sizeof(none));
	none.step = s->emit->program->nsteps;
	for (int i = CAMP_COMMS - 1; i > 0; i--) {
		struct oriel_comm *c = s->comms[i];

		s->comms[i] = NULL;
		if (!s->failed)
			(void)camp_call(s, &none, oriel_comm_destroy(c), "oriel_comm_destroy");
		else
			(void)oriel_comm_destroy(c);
	}
}

void camp_rank_main(struct rank_env *env)
{
	struct camp_shared *shared = env->arg;
	struct camp_state *s = calloc(1, sizeof(*s));
	const struct camp_rank *r = &shared->emit->ranks[env->rank];
	int err;

	if (!s)
		abort();
	s->env = env;
	s->rank = env->rank;
	s->emit = shared->emit;
	s->config = s->emit->config;
	s->cuda = s->config->device != CAMP_CPU;
	s->told = &shared->told[env->rank];
	s->comms[0] = env->comm;
	err = make_tables(s);
	if (!err && s->cuda)
		err = begin_streams(s);
	for (size_t i = 0; i < r->nacts && !err; i++)
		err = do_act(s, &r->acts[i]);
	camp_drop_objects(s);
	destroy_splits(s);
	free_tables(s);
	free(s);
}
