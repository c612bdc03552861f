/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/state.c - data that all-gathers keep per comm, and the end of requests.
 *
 * It owns the list of requests and the sets of words.  A request ends on each rank separately,
 * while other ranks may still store to its words (a wake after the last signal).  So words are not
 * freed: a later request of all ranks reuses them, and they are freed with the comm.  A request
 * that graphs or pending work of a stream still use outlives its handle.  Nobody waits for that
 * work.  A later call finds that it has finished, and frees the request.
 *
 * Called on user threads; graph_gone() on any thread of the driver.
 */
#include <stdlib.h>

#include "../../comm/buffers.h"
#include "../../comm/control.h"
#include "../../comm/failure.h"
#include "../../comm/links.h"
#include "gather.h"

/* ---- tokens ---------------------------------------------------------------------------------- */

static void drop_token(struct ori_gather_token *t)
{
	/*
	 * [AG4] acq_rel, process scope; its own partner.  Publishes a holder's last use of the
	 * token to the holder that frees it.  Without it the token could be freed before the
	 * driver's thread writes it in ori_gather_graph_gone().
	 */
	if (t && __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL) == 0)
		free(t);
}

static int graphs_of(const struct oriel_allgather_request *r)
{
	/* [AG5] acquire, process scope; partner [AG6]. */
	return r->token ? __atomic_load_n(&r->token->graphs, __ATOMIC_ACQUIRE) : 0;
}

/* State lock held. */
static int is_needed(const struct oriel_allgather_request *r)
{
	return graphs_of(r) || !r->comm->device->streams->passed(r->comm->device, r->mark);
}

int ori_gather_is_needed(const struct oriel_allgather_request *r)
{
	int needed;

	pthread_mutex_lock(&r->state->lock);
	needed = is_needed(r);
	pthread_mutex_unlock(&r->state->lock);
	return needed;
}

void ori_gather_set_mark(struct oriel_allgather_request *r, struct ori_mark *mark)
{
	struct ori_mark *before;

	if (!mark)
		return;
	pthread_mutex_lock(&r->state->lock);
	before = r->mark;
	r->mark = mark;
	pthread_mutex_unlock(&r->state->lock);
	/* not earlier: is_needed() used it, and the device reuses it */
	r->comm->device->streams->unmark(r->comm->device, before);
}

void ori_gather_graph_gone(void *token)
{
	struct ori_gather_token *t = token;

	/*
	 * [AG6] release, process scope; partner [AG5].  Publishes that the graph no longer runs.
	 * Without it a request could be freed while the graph's last run still reads from it.
	 */
	__atomic_sub_fetch(&t->graphs, 1, __ATOMIC_RELEASE);
	drop_token(t);
}

/* ---- who uses what --------------------------------------------------------------------------- */

/* State lock held.  While the request holds them, window or buffer stay. */
void ori_gather_hold(struct oriel_allgather_request *r)
{
	if (r->holds)
		return;
	r->holds = 1;
	if (r->window)
		__atomic_add_fetch(&r->window->users, 1, __ATOMIC_RELAXED);
	else
		ori_buffer_hold(r->buffer);
}

/* Not under the state's lock: releasing a buffer may call forget(), which frees r. */
static void let_go(struct oriel_allgather_request *r, int held)
{
	if (!held)
		return;
	if (r->window)
		/*
		 * [AG7] release, process scope; partner [WIN2] in check_unused() of
		 * window/window.c.  Publishes the request's last use of the window.  Without it the
		 * window could be destroyed while another thread still reads its tables.
		 */
		__atomic_sub_fetch(&r->window->users, 1, __ATOMIC_RELEASE);
	else
		ori_buffer_unhold(r->buffer);
}

/* ---- the end of a request -------------------------------------------------------------------- */

static void unlist(struct ori_gather_state *s, struct oriel_allgather_request *r)
{
	pthread_mutex_lock(&s->lock);
	for (struct oriel_allgather_request **at = &s->requests; *at; at = &(*at)->next)
		if (*at == r) {
			*at = r->next;
			break;
		}
	pthread_mutex_unlock(&s->lock);
}

/* Frees everything except the struct.  Words of a failed request are not reused. */
static void empty(struct oriel_allgather_request *r)
{
	struct ori_gather_state *s = r->state;
	uint64_t failure;
	int err;

	for (int a = 0; a < 4; a++) {
		ori_gather_plan_free(r->plans[a]);
		r->plans[a] = NULL;
	}
	ori_gather_near_free(r);
	ori_gather_view_free(r);
	if (r->words) {
		pthread_mutex_lock(&s->lock);
		err = ori_control_load(r->comm, r->words->window->dev.failure, &failure);
		(void)ori_comm_device_status(r->comm, err);
		r->words->taken = failure != 0;
		pthread_mutex_unlock(&s->lock);
	}
	(void)oriel_buffer_release(r->own);
	r->own = NULL;
	free(r->scratch);
	r->scratch = NULL;
	r->scratch_bytes = 0;
	drop_token(r->token);
	r->token = NULL;
	r->comm->device->streams->unmark(r->comm->device, r->mark);
	r->mark = NULL;
	r->words = NULL;
	r->state = NULL;
}

void ori_gather_free(struct oriel_allgather_request *r)
{
	if (r->state) {
		unlist(r->state, r);
		empty(r);
		let_go(r, r->holds);
	}
	free(r);
}

void ori_gather_retire(struct oriel_allgather_request *r)
{
	struct ori_gather_state *s = r->state;
	int needed = 0;

	if (s) {
		pthread_mutex_lock(&s->lock);
		needed = r->retired = is_needed(r); /* reap() frees it */
		pthread_mutex_unlock(&s->lock);
	}
	if (!needed)
		ori_gather_free(r);
}

/*
 * The first request of the list that is not needed.  If plain.c keeps it, it holds nothing from now
 * on, and *held tells whether it did.
 */
static struct oriel_allgather_request *find_idle(struct ori_gather_state *s, int *held)
{
	struct oriel_allgather_request *r;

	pthread_mutex_lock(&s->lock);
	for (r = s->requests; r; r = r->next)
		if ((r->retired || (r->cached && r->holds)) && !is_needed(r))
			break;
	*held = r && !r->retired;
	if (*held)
		r->holds = 0;
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* Requests of plain.c hold nothing by themselves, but their pending work does. */
static void hold_pending(struct ori_gather_state *s)
{
	pthread_mutex_lock(&s->lock);
	for (struct oriel_allgather_request *r = s->requests; r; r = r->next)
		if (r->cached && !r->holds && is_needed(r))
			ori_gather_hold(r);
	pthread_mutex_unlock(&s->lock);
}

static void reap(struct ori_attachment *a)
{
	struct ori_gather_state *s = (struct ori_gather_state *)a;
	struct oriel_allgather_request *r;
	int held;

	hold_pending(s);
	while ((r = find_idle(s, &held))) {
		if (held)
			let_go(r, held);
		else
			ori_gather_free(r);
	}
}

static struct oriel_allgather_request *find_on(struct ori_gather_state *s, const void *owner)
{
	struct oriel_allgather_request *r;

	pthread_mutex_lock(&s->lock);
	for (r = s->requests; r; r = r->next)
		if (r->window == owner || r->buffer == owner)
			break;
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* Requests with a user's handle stay as empty shells, for their destroy call. */
static void detach(struct ori_gather_state *s, struct oriel_allgather_request *r)
{
	unlist(s, r);
	r->holds = 0;
	empty(r);
	if (r->cached || r->retired)
		free(r);
}

static void forget(struct ori_attachment *a, const void *owner)
{
	struct ori_gather_state *s = (struct ori_gather_state *)a;
	struct oriel_allgather_request *r;

	while ((r = find_on(s, owner)))
		detach(s, r);
}

static void destroy(struct ori_attachment *a)
{
	struct ori_gather_state *s = (struct ori_gather_state *)a;
	struct ori_gather_area *area;
	struct ori_gather_words *w;

	while (s->requests)
		detach(s, s->requests);
	while ((area = s->areas)) {
		s->areas = area->next;
		free(area);
	}
	/* the comm frees the windows of areas and words: they are its children */
	while ((w = s->words)) {
		s->words = w->next;
		free(w);
	}
	ori_gather_map_free(&s->map);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

int ori_gather_state_get(struct oriel_comm *c, struct ori_gather_state **out)
{
	struct ori_gather_state *s = (struct ori_gather_state *)ori_attachment_find(c, destroy);
	int err;

	*out = s;
	if (s)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return ori_fail(ORIEL_ENOMEM, "no memory for an all-gather");
	err = ori_gather_map_make(&c->topology, c->rank, &s->map);
	if (err) {
		free(s);
		return err;
	}
	s->comm = c;
	s->pending_max = ORI_GATHER_PENDING_MAX;
	s->attachment.reap = reap;
	s->attachment.forget = forget;
	s->attachment.destroy = destroy;
	pthread_mutex_init(&s->lock, NULL);
	ori_attachment_add(c, &s->attachment);
	*out = s;
	return 0;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Do they have a queue to every peer that any plan may use? */
static int is_connected(const struct ori_gather_state *s, const struct ori_gather_words *w)
{
	struct oriel_comm *c = s->comm;

	for (int r = 0; r < c->nranks; r++)
		if (ori_link_to(c, r) && !w->window->links[r].link)
			return 0;
	return 1;
}

int ori_gather_words_offer(struct ori_gather_state *s, uint64_t *numbers, int room)
{
	int n = 0;

	pthread_mutex_lock(&s->lock);
	for (struct ori_gather_words *w = s->words; w && n < room; w = w->next)
		if (!w->taken && is_connected(s, w))
			numbers[n++] = w->number;
	pthread_mutex_unlock(&s->lock);
	return n;
}

struct ori_gather_words *ori_gather_words_take(struct ori_gather_state *s, uint64_t number)
{
	struct ori_gather_words *w;

	pthread_mutex_lock(&s->lock);
	for (w = s->words; w && w->number != number; w = w->next)
		;
	if (w)
		w->taken = 1;
	pthread_mutex_unlock(&s->lock);
	return w;
}

int ori_gather_words_make(struct ori_gather_state *s, struct ori_gather_words **out)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct ori_gather_words *w = calloc(1, sizeof(*w));
	int err;

	o.signals = ORI_GATHER_NET + (s->comm->links ? (uint32_t)s->comm->config.lanes : 0);
	o.counters = o.barriers = 0;
	o.bytes = ori_gather_shown_room(s->comm, &s->map);
	/* A rank without memory still takes part, and makes the call fail on all ranks. */
	if (!w) {
		err = ori_fail(ORIEL_ENOMEM, "no memory for the words of an all-gather");
		return ori_window_cannot_create(s->comm, err);
	}
	err = oriel_window_create(s->comm, &o, &w->window);
	if (err) {
		free(w);
		return err;
	}
	/*
	 * The user never sees this window.  It does not block the comm's destruction, and is
	 * destroyed with it.
	 */
	w->window->child.along = 1;
	ori_window_use_set(w->window, ORI_USE_ALLGATHER);
	w->taken = 1;
	w->number = s->next_number++;
	pthread_mutex_lock(&s->lock);
	w->next = s->words;
	s->words = w;
	pthread_mutex_unlock(&s->lock);
	*out = w;
	return 0;
}
