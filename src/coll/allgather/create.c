/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/create.c - creates a request.
 *
 * In a first round the ranks compare their arguments.  Then come the steps that the answers
 * require: an exchange of the buffer, queues to neighbours, words, a measurement.  Each of these is
 * collective.  A last round follows.  Nothing is exchanged after that.  Called on user threads.
 */
#include <stdlib.h>
#include <string.h>

#include "../../util/options.h"
#include "../../comm/agree.h"
#include "../../comm/buffers.h"
#include "../../comm/failure.h"
#include "../../comm/links.h"
#include "gather.h"

#define OFFERS 16

/* What a rank sends in the round. */
struct init_record {
	struct oriel_allgather_options options;
	uint64_t bytes; /* of the receive memory */
	int32_t on;     /* 1: a window, 2: a buffer */
	int32_t number; /* the window's */
	int32_t exchanged, connected, has_speed;
	int32_t noffers;
	uint64_t offers[OFFERS]; /* words that are free here */
};
_Static_assert(sizeof(struct init_record) <= ORI_RECORD_BYTES, "must fit a record");

/* ---- arguments ------------------------------------------------------------------------------- */

ORI_OPTIONS_NO_PADDING(struct oriel_allgather_options, reserved);

static int check_options(const char *call, const struct oriel_allgather_options *o)
{
	if (o->algorithm < ORIEL_GATHER_AUTO || o->algorithm > ORIEL_GATHER_DOUBLING)
		return ori_fail(ORIEL_EINVAL, "%s: algorithm %d is none", call, o->algorithm);
	if (o->flags & ~ORIEL_GATHER_UNGUARDED)
		return ori_fail(ORIEL_EINVAL, "%s: unknown flags %#x", call, o->flags);
	if (o->policy < ORIEL_GATHER_POLICY_DEFAULT || o->policy > ORIEL_GATHER_NO_SMS)
		return ori_fail(ORIEL_EINVAL, "%s: policy %d is none", call, o->policy);
	if (o->reserved)
		return ori_fail(ORIEL_EINVAL,
				"%s: reserved is %d, must be 0: use ORIEL_ALLGATHER_OPTIONS_INIT",
				call, o->reserved);
	return 0;
}

/* Replaces the default by the policy that counts.  Ranks compare that one. */
static int take_policy(struct oriel_allgather_request *r, const char *call)
{
	int policy = r->options.policy;

	if (!policy)
		policy = ori_gather_policy_of(call, r->comm->config.gather_policy);
	if (policy < 0)
		return policy;
	r->options.policy = policy;
	r->kernel_bytes = ori_gather_kernel_bytes(&r->state->map, policy);
	return 0;
}

/* Finds the receive memory within the window or buffer. */
static int find_range(const char *call, uint64_t all, struct oriel_allgather_options *o,
		      uint64_t *bytes)
{
	if (o->offset > all || o->bytes > all - o->offset)
		return ori_fail(ORIEL_ERANGE,
				"%s: %llu bytes at offset %llu, but the memory has %llu", call,
				(unsigned long long)o->bytes, (unsigned long long)o->offset,
				(unsigned long long)all);
	*bytes = o->bytes ? o->bytes : all - o->offset;
	return 0;
}

static int compare(const char *call, const struct init_record *all, int nranks)
{
	for (int r = 1; r < nranks; r++) {
		const struct init_record *a = &all[0], *b = &all[r];
		const char *what = NULL;

		if (a->on != b->on || (a->on == 1 && a->number != b->number))
			what = "the window or buffer";
		else if (a->bytes != b->bytes)
			what = "the bytes of the receive memory";
		else if (a->options.algorithm != b->options.algorithm)
			what = "the algorithm";
		else if (a->options.flags != b->options.flags)
			what = "flags";
		else if (a->options.chunk_bytes != b->options.chunk_bytes)
			what = "chunk_bytes";
		else if (a->options.policy != b->options.policy)
			what = "the policy (option or ORIEL_GATHER_POLICY)";
		if (what)
			return ori_fail(ORIEL_EMISMATCH, "%s: rank %d and rank 0 differ in %s",
					call, r, what);
	}
	return 0;
}

/* ---- init ------------------------------------------------------------------------------------ */

static int add_peers(const struct ori_gather_map *m, int algorithm, int *peers, int *n)
{
	struct ori_gather_plan *p;
	int err = ori_gather_plan_make(m, algorithm, &p);

	if (err)
		return err;
	for (int f = 0; f < p->nin + p->nout; f++) {
		int peer = f < p->nin ? p->in[f].peer : p->out[f - p->nin].peer, i = 0;

		while (i < *n && peers[i] != peer)
			i++;
		if (i == *n)
			peers[(*n)++] = peer;
	}
	ori_gather_plan_free(p);
	return 0;
}

/*
 * Makes queues to the peers that the algorithm needs.  With a free choice and without queues to all
 * ranks, it is ring or doubling, which need few.
 */
static int connect_peers(struct ori_gather_state *s, int algorithm)
{
	int *peers = calloc((size_t)s->map.nranks, sizeof(*peers)), n = 0, err = 0;

	if (!peers)
		err = ori_fail(ORIEL_ENOMEM, "no memory for the peers of an all-gather");
	if (!err && algorithm)
		err = add_peers(&s->map, algorithm, peers, &n);
	if (!err && !algorithm)
		err = add_peers(&s->map, ORIEL_GATHER_RING, peers, &n);
	if (!err && !algorithm)
		err = add_peers(&s->map, ORIEL_GATHER_DOUBLING, peers, &n);
	err = ori_agree(s->comm->boot, s->comm->timeout_ns, ORI_CALL_GATHER_INIT, err, NULL, NULL,
			0);
	if (!err)
		err = oriel_comm_connect(s->comm, peers, n);
	free(peers);
	return err;
}

/* The smallest number that all ranks offer, or none. */
static int common_offer(const struct init_record *all, int nranks, uint64_t *number)
{
	int found = 0;

	for (int i = 0; i < all[0].noffers && i < OFFERS; i++) {
		uint64_t offer = all[0].offers[i];
		int has = 1;

		for (int r = 1; r < nranks && has; r++) {
			has = 0;
			for (int k = 0; k < all[r].noffers && k < OFFERS; k++)
				has |= all[r].offers[k] == offer;
		}
		if (has && (!found || offer < *number)) {
			*number = offer;
			found = 1;
		}
	}
	return found;
}

static int get_words(struct oriel_allgather_request *r, const struct init_record *all,
		     int connected)
{
	uint64_t number = 0;

	/* offered words have no queues to peers that were connected since */
	if (connected && common_offer(all, r->comm->nranks, &number)) {
		r->words = ori_gather_words_take(r->state, number);
		return 0; /* this rank offered it, so it exists */
	}
	return ori_gather_words_make(r->state, &r->words);
}

/*
 * Sends the memory's keys to all ranks.  A window that was created before its peers had queues
 * lacks their keys.  Its memory is then registered as an extra buffer.
 */
static int exchange(struct oriel_allgather_request *r)
{
	struct oriel_comm *c = r->comm;
	int err = 0;

	if (r->window)
		err = oriel_buffer_register(c, r->window->buffer, r->window->options.bytes,
					    &r->own);
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_GATHER_INIT, err, NULL, NULL, 0);
	return err ? err : oriel_buffer_exchange(c, r->window ? r->own : r->buffer);
}

/* Does the window know all queued peers' keys? */
static int has_keys(const struct oriel_window *w)
{
	for (int r = 0; r < w->comm->nranks; r++)
		if (w->comm->peers[r].pair.kind == ORIEL_PEER_QUEUED && !w->links[r].link)
			return !w->options.bytes;
	return 1;
}

/* The steps that the round requires; the same on all ranks. */
static int prepare(struct oriel_allgather_request *r, const struct init_record *all)
{
	struct ori_gather_state *s = r->state;
	int n = r->comm->nranks, exchanged = 1, connected = 1, measured = 1, err = 0;

	for (int p = 0; p < n; p++) {
		exchanged &= all[p].exchanged;
		connected &= all[p].connected;
		measured &= all[p].has_speed;
	}
	if (!connected)
		err = connect_peers(s, r->options.algorithm);
	if (!err && !exchanged)
		err = exchange(r);
	s->direct = connected;
	if (!err)
		err = get_words(r, all, connected);
	if (!err && !measured)
		err = ori_gather_measure(r->comm, &s->map, &s->speed);
	if (!err)
		s->has_speed = 1;
	return err;
}

static int make_view(struct oriel_allgather_request *r, const struct init_record *all)
{
	uint64_t *offsets = calloc((size_t)r->comm->nranks, sizeof(*offsets));
	int err;

	if (!offsets)
		return ori_fail(ORIEL_ENOMEM, "no memory for an all-gather");
	for (int p = 0; p < r->comm->nranks; p++)
		offsets[p] = all[p].options.offset;
	err = ori_gather_view_make(r, offsets, all[0].bytes);
	free(offsets);
	return err;
}

static int is_connected(struct oriel_comm *c)
{
	for (int r = 0; r < c->nranks; r++)
		if (c->peers[r].pair.kind == ORIEL_PEER_QUEUED && !ori_link_to(c, r))
			return 0;
	return 1;
}

/* This rank's part of the round. */
static int fill_record(struct oriel_allgather_request *r, const char *call,
		       struct init_record *mine)
{
	void *ptr;
	uint64_t all;
	int err = check_options(call, &r->options);

	if (!err)
		err = take_policy(r, call);
	if (err)
		return err;
	all = r->window ? r->window->options.bytes : ori_buffer_range(r->buffer, &ptr);
	err = find_range(call, all, &r->options, &mine->bytes);
	mine->options = r->options;
	mine->on = r->window ? 1 : 2;
	mine->number = r->window ? r->window->number : 0;
	mine->exchanged = r->window ? has_keys(r->window) : ori_buffer_is_exchanged(r->buffer);
	mine->connected = is_connected(r->comm);
	mine->has_speed = r->state->has_speed;
	mine->noffers = ori_gather_words_offer(r->state, mine->offers, OFFERS);
	return err;
}

static int new_request(struct oriel_comm *c, struct oriel_window *w, struct oriel_buffer *b,
		       const struct oriel_allgather_options *o,
		       struct oriel_allgather_request **out)
{
	struct oriel_allgather_request *r = calloc(1, sizeof(*r));
	struct ori_gather_token *token = calloc(1, sizeof(*token));
	struct ori_gather_state *s;

	if (!r || !token || ori_gather_state_get(c, &s)) {
		free(r);
		free(token);
		return ori_fail(ORIEL_ENOMEM, "no memory for an all-gather request");
	}
	token->refs = 1;
	*r = (struct oriel_allgather_request){ .state = s,
					       .comm = c,
					       .window = w,
					       .buffer = b,
					       .options = *o,
					       .lanes = c->links ? (uint32_t)c->config.lanes : 1,
					       .token = token };
	pthread_mutex_lock(&s->lock);
	r->next = s->requests;
	s->requests = r;
	pthread_mutex_unlock(&s->lock);
	*out = r;
	return 0;
}

/*
 * *room: 1, or less if a rank cannot have a block of each resident.  The driver may wait for
 * running kernels while it loads one that it has not used yet.  In a call that would be too late:
 * those kernels may wait for a peer that waits for this GPU.
 */
static int load_kernels(struct oriel_comm *c, int *room)
{
	const struct oriel_kernel *kernels[] = { ori_gather_kernel(), ori_gather_node_kernel() };
	int err = 0, blocks = 1;

	*room = 1;
	for (size_t i = 0; i < ORI_COUNT(kernels) && !err && c->device->separate; i++) {
		err = c->device->ops->resident(c->device, kernels[i], ORI_GATHER_COPY_THREADS,
					       &blocks);
		*room = !err && blocks < *room ? blocks : *room;
	}
	return err;
}

static int make_request(struct oriel_comm *c, const char *call, int status, struct oriel_window *w,
			struct oriel_buffer *b, const struct oriel_allgather_options *options,
			int cached, struct oriel_allgather_request **out)
{
	struct init_record mine = { 0 }, *all = calloc((size_t)c->nranks, sizeof(*all));
	struct oriel_allgather_options own = ORIEL_ALLGATHER_OPTIONS_INIT;
	struct oriel_allgather_request *r = NULL;
	int err, room;

	ori_attachments_reap(c);
	if (!status && !all)
		status = ori_fail(ORIEL_ENOMEM, "%s: no memory", call);
	if (!status && options)
		status = ori_options_take(call, "ORIEL_ALLGATHER_OPTIONS_INIT", options, &own,
					  sizeof(own));
	/* a library built without kernels has calls that need none */
	if (!status && c->device->ops->has_kernel(c->device, ori_gather_kernel()))
		status = load_kernels(c, &room);
	if (!status)
		status = new_request(c, w, b, &own, &r);
	if (!status)
		status = fill_record(r, call, &mine);
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_GATHER_INIT, status, &mine, all,
			all ? sizeof(mine) : 0);
	if (!err)
		err = compare(call, all, c->nranks);
	if (!err)
		err = prepare(r, all);
	if (err)
		goto err_request;
	pthread_mutex_lock(&r->state->lock);
	r->cached = cached;
	pthread_mutex_unlock(&r->state->lock);
	status = make_view(r, all);
	if (!status && !cached)
		status = ori_live_add(r, ORI_LIVE_ALLGATHER);
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_GATHER_INIT, status, NULL, NULL, 0);
	if (err)
		goto err_live;
	if (!cached) {
		pthread_mutex_lock(&r->state->lock);
		ori_gather_hold(r);
		pthread_mutex_unlock(&r->state->lock);
	}
	free(all);
	*out = r;
	return 0;

err_live:
	ori_live_remove(r);
err_request:
	if (r)
		ori_gather_free(r);
	free(all);
	return err;
}

int ori_gather_init(struct oriel_comm *c, const char *call, int status, struct oriel_window *w,
		    struct oriel_buffer *b, const struct oriel_allgather_options *options,
		    int cached, struct oriel_allgather_request **out)
{
	const char *outer = ori_boot_serve_begin(c->boot, call);
	int err = make_request(c, call, status, w, b, options, cached, out);

	ori_boot_serve_end(c->boot, outer);
	return err;
}

/* A GPU must have the library's kernels, and room for one block of each rank. */
static int check_kernels(struct oriel_comm *c)
{
	int room, err = load_kernels(c, &room);

	return err || room > 0 ? err :
				 ori_fail_silent(ORIEL_ERANGE,
						 "a block of %d threads for each rank and comm "
						 "does not fit the GPU",
						 ORI_GATHER_COPY_THREADS);
}

int oriel_allgather_supported(struct oriel_comm *c)
{
	int err = ori_comm_check(c, "oriel_allgather_supported");

	if (!err)
		err = ori_comm_failed(c);
	for (int r = 0; !err && r < c->nranks; r++)
		if (c->peers[r].pair.kind == ORIEL_PEER_NONE)
			err = ori_fail_silent(ORIEL_EUNSUPPORTED, "rank %d cannot be reached: %s",
					      r, c->peers[r].pair.reason);
	if (!err)
		err = check_kernels(c);
	if (err == ORIEL_EUNSUPPORTED || err == ORIEL_ERANGE)
		return 0;
	return err ? err : 1;
}

int oriel_allgather_create(struct oriel_comm *c, struct oriel_window *w,
			   const struct oriel_allgather_options *options,
			   struct oriel_allgather_request **request)
{
	const char *call = "oriel_allgather_create";
	int status, err = ori_comm_check(c, call);

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	status = ori_window_check(w, call);
	if (!status && w->comm != c)
		status = ori_fail(ORIEL_EINVAL, "%s: window of another comm", call);
	if (!status && !request)
		status = ori_fail(ORIEL_EINVAL, "%s: no place for the request", call);
	return ori_gather_init(c, call, status, w, NULL, options, 0, request);
}

int oriel_allgather_create_buffer(struct oriel_comm *c, struct oriel_buffer *b, uint64_t max_count,
				  uint64_t elem_bytes,
				  const struct oriel_allgather_options *options,
				  struct oriel_allgather_request **request)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	const char *call = "oriel_allgather_create_buffer";
	uint64_t bytes = 0;
	int status, err = ori_comm_check(c, call);

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	status = options ? ori_options_take(call, "ORIEL_ALLGATHER_OPTIONS_INIT", options, &o,
					    sizeof(o)) :
			   0;
	if (!status)
		status = ori_live_check(b, ORI_LIVE_BUFFER, call);
	if (!status && ori_buffer_comm(b) != c)
		status = ori_fail(ORIEL_EINVAL, "%s: buffer of another comm", call);
	if (!status && !request)
		status = ori_fail(ORIEL_EINVAL, "%s: no place for the request", call);
	if (!status)
		status = ori_gather_bytes(call, c->nranks, max_count, elem_bytes, &bytes);
	if (!status && !bytes) /* 0 would mean the whole buffer */
		status = ori_fail(ORIEL_EINVAL, "%s: max_count is 0", call);
	if (!status && o.bytes)
		status = ori_fail(ORIEL_EINVAL,
				  "%s: max_count says how many bytes, not the options", call);
	o.bytes = bytes * (uint64_t)c->nranks;
	return ori_gather_init(c, call, status, NULL, b, &o, 0, request);
}
