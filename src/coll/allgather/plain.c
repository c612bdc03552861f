/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/plain.c - the all-gather without a request of the user's.
 *
 * Finds the window or exchanged buffer that covers recvbuf and keeps a request for it, by offset
 * and length.  Ranks make the same calls in the same order, so all find a request kept or none
 * does; streams are not compared, for a rank's have nothing to do with another's.  Without a window
 * the data goes through an area of the library's and is copied out.
 *
 * What a call has put on a stream is still to come when it returns.  So a request that gives way to
 * another is freed when its work has passed (state.c), an area is used by one call after the other,
 * on whatever streams, and one that has become too small stays until the comm goes.  A captured
 * call has an area to itself, as long as its graph lives: when that is replayed, and beside what,
 * nobody knows.
 *
 * Called on user threads.
 */
#include <stdlib.h>
#include <string.h>

#include "../../comm/agree.h"
#include "../../comm/buffers.h"
#include "../../comm/failure.h"
#include "gather.h"

#define KEPT_MAX 64u
#define PENDING_MAX 1024u          /* that have given way and are still needed */
#define STAGING_BYTES (8ull << 20) /* of all ranks' blocks */
#define STAGING_LEAST 4096ull
#define OFFERS 64

static const char call[] = "oriel_allgather";

/* ---- kept requests ----------------------------------------------------------------------------------- */

struct key {
	struct oriel_window *window;
	struct oriel_buffer *buffer;
	uint64_t offset, bytes;
};

static int is_of(const struct oriel_allgather_request *r, const struct key *k)
{
	return r->cached && !r->retired && r->window == k->window && r->buffer == k->buffer &&
	       r->options.offset == k->offset && r->options.bytes == k->bytes;
}

/* The one that is kept; *oldest: the one to go when there are too many, else NULL. */
static struct oriel_allgather_request *find_kept(struct ori_gather_state *s, const struct key *k,
						 struct oriel_allgather_request **oldest)
{
	struct oriel_allgather_request *found = NULL;
	unsigned int n = 0;

	*oldest = NULL;
	pthread_mutex_lock(&s->lock);
	for (struct oriel_allgather_request *r = s->requests; r && !found; r = r->next) {
		if (is_of(r, k))
			found = r;
		if (!r->cached || r->retired || r->staging)
			continue;
		n++;
		if (!*oldest || r->last_used < (*oldest)->last_used)
			*oldest = r;
	}
	if (found)
		found->last_used = ++s->clock;
	pthread_mutex_unlock(&s->lock);
	if (n < KEPT_MAX)
		*oldest = NULL;
	return found;
}

/*
 * Memory is bounded, and nobody waits for a stream of the user's behind his back: so the call is
 * refused, on all ranks.
 */
static int check_pending(struct ori_gather_state *s)
{
	unsigned int n = 0;

	pthread_mutex_lock(&s->lock);
	for (struct oriel_allgather_request *r = s->requests; r; r = r->next)
		n += r->cached && r->retired;
	pthread_mutex_unlock(&s->lock);
	if (n < s->pending_max)
		return 0;
	return ori_fail(ORIEL_EBUSY,
			"%s: %u calls with other receive memory are pending on streams or captured "
			"in graphs: wait for the stream first (oriel_comm_sync), or make requests "
			"(oriel_allgather_create)",
			call, n);
}

static int keep(struct oriel_comm *c, struct ori_gather_state *s, const struct key *k,
		struct oriel_allgather_request **out)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	struct oriel_allgather_request *oldest;
	int err;

	*out = find_kept(s, k, &oldest);
	if (*out)
		return 0;
	if (oldest)
		ori_gather_retire(oldest);
	ori_attachments_reap(c);
	o.offset = k->offset;
	o.bytes = k->bytes;
	err = ori_gather_init(c, call, check_pending(s), k->window, k->buffer, &o, 1, out);
	if (err)
		return err;
	(*out)->last_used = ++s->clock;
	return 0;
}

/* ---- through a window of the library's ------------------------------------------------------------------- */

/* Bytes of a block that go at once. */
static uint64_t staged_bytes(const struct oriel_comm *c, uint64_t bytes)
{
	uint64_t most = STAGING_BYTES / (uint64_t)c->nranks, n = STAGING_LEAST;

	while (n < bytes && 2 * n <= most)
		n *= 2;
	return n;
}

static void tell_staging(struct ori_gather_state *s)
{
	if (!s->told)
		ori_log(ORI_LOG_WARN,
			"oriel_allgather: no window or exchanged buffer covers recvbuf: data goes "
			"through one of the library's (said once)");
	s->told = 1;
}

/* A window, and a request on it; ranks come to that together. */
static int make_area(struct oriel_comm *c, struct ori_gather_state *s, uint64_t slice,
		     struct ori_gather_area **out)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct ori_gather_area *a = calloc(1, sizeof(*a));
	int err;

	tell_staging(s);
	o.signals = o.counters = o.barriers = 0;
	o.bytes = slice * (uint64_t)c->nranks;
	/* a rank without memory takes part all the same, and fails for all */
	err = oriel_window_create(c, a ? &o : NULL, a ? &a->window : NULL);
	if (!err && a) {
		a->window->child.along = 1;
		err = ori_gather_init(c, call, 0, a->window, NULL, NULL, 1, &a->request);
		/* on all ranks, as it failed on all */
		if (err)
			(void)oriel_window_destroy(a->window);
	}
	if (err || !a) {
		free(a);
		return err ? err : ORIEL_ENOMEM;
	}
	a->request->staging = 1;
	a->bytes = slice;
	a->number = s->next_area++;
	a->next = s->areas;
	s->areas = a;
	*out = a;
	return 0;
}

/* What a rank says of a captured call. */
struct area_record {
	uint64_t slice;
	uint32_t noffers;
	uint32_t offers[OFFERS]; /* areas that are free here and large enough */
};
_Static_assert(sizeof(struct area_record) <= ORI_RECORD_BYTES, "must fit a record");

static void offer_areas(const struct ori_gather_state *s, uint64_t slice, struct area_record *mine)
{
	mine->slice = slice;
	for (struct ori_gather_area *a = s->areas; a && mine->noffers < OFFERS; a = a->next)
		if (a != s->staging && a->bytes >= slice && !ori_gather_is_needed(a->request))
			mine->offers[mine->noffers++] = (uint32_t)a->number;
}

static int has_offer(const struct area_record *r, uint64_t number)
{
	for (uint32_t i = 0; i < r->noffers && i < OFFERS; i++)
		if (r->offers[i] == number)
			return 1;
	return 0;
}

/* The area that all ranks offer, the last that was made if there are several; NULL: none. */
static int common_area(struct ori_gather_state *s, const struct area_record *all,
		       struct ori_gather_area **out)
{
	int n = s->comm->nranks;

	*out = NULL;
	for (int r = 1; r < n; r++)
		if (all[r].slice != all[0].slice)
			return ori_fail(ORIEL_EMISMATCH,
					"%s: rank %d and rank 0 differ in the bytes of a block",
					call, r);
	for (struct ori_gather_area *a = s->areas; a && !*out; a = a->next) {
		int has = 1;

		for (int r = 0; r < n && has; r++)
			has = has_offer(&all[r], a->number);
		if (has)
			*out = a;
	}
	return 0;
}

/*
 * For a call that is captured, on all ranks: one that neither a graph nor a stream uses, on any
 * rank.
 */
static int open_captured(struct oriel_comm *c, struct ori_gather_state *s, uint64_t slice,
			 struct ori_gather_area **out)
{
	struct area_record mine = { 0 }, *all = calloc((size_t)c->nranks, sizeof(*all));
	int status = all ? 0 : ori_fail(ORIEL_ENOMEM, "%s: no memory", call), err;

	ori_attachments_reap(c);
	offer_areas(s, slice, &mine);
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_GATHER_INIT, status, &mine, all,
			all ? sizeof(mine) : 0);
	if (!err)
		err = common_area(s, all, out);
	free(all);
	return err || *out ? err : make_area(c, s, slice, out);
}

/*
 * Another one is made when a larger block comes, up to a size; the one before may still be needed.
 */
static int open_staging(struct oriel_comm *c, struct ori_gather_state *s, uint64_t slice,
			struct ori_gather_area **out)
{
	int err = 0;

	if (!s->staging || s->staging->bytes < slice)
		err = make_area(c, s, slice, &s->staging);
	*out = s->staging;
	return err;
}

/* All ranks' blocks of a slice, to where they belong. */
static int copy_out(struct oriel_comm *c, const uint8_t *from, uint8_t *to, uint64_t stride,
		    uint64_t bytes, void *stream)
{
	struct ori_copy_job copies[16];
	int err = 0, n = 0;

	for (int r = 0; r < c->nranks && !err; r++) {
		copies[n++] = (struct ori_copy_job){ to + (uint64_t)r * stride,
						     from + (uint64_t)r * bytes, bytes };
		if (n == (int)ORI_COUNT(copies) || r + 1 == c->nranks) {
			err = c->device->streams->copies(c->device, copies, n, stream);
			n = 0;
		}
	}
	return err;
}

static int run_staged(struct oriel_comm *c, struct ori_gather_state *s, const uint8_t *from,
		      uint8_t *to, uint64_t bytes, void *stream)
{
	uint64_t slice = staged_bytes(c, bytes), n;
	struct ori_gather_area *area = NULL;
	int captured = 0, marked, err = c->device->streams->capturing(c->device, stream, &captured);

	if (!err)
		err = captured ? open_captured(c, s, slice, &area) :
				 open_staging(c, s, slice, &area);
	if (err)
		return err;
	for (uint64_t at = 0; at < bytes && !err; at += n) {
		n = bytes - at < slice ? bytes - at : slice;
		err = ori_gather_exec(area->request, call, from + at, n, 1, stream);
		if (!err)
			err = copy_out(c, area->request->view.buffer, to + at, bytes, n, stream);
	}
	/* the next call, on whatever stream, follows the copies, too */
	marked = c->device->streams->mark(c->device, stream, &area->request->mark);
	return err ? err : marked;
}

/* ---- the call --------------------------------------------------------------------------------------------- */

static void find_owner(struct oriel_comm *c, const uint8_t *recvbuf, struct key *k)
{
	void *base;

	k->window = ori_window_covering(c, recvbuf, k->bytes);
	if (k->window) {
		k->offset = (uint64_t)(recvbuf - (const uint8_t *)k->window->buffer);
		return;
	}
	k->buffer = ori_buffer_covering(c, recvbuf, k->bytes);
	if (k->buffer) {
		ori_buffer_range(k->buffer, &base);
		k->offset = (uint64_t)(recvbuf - (const uint8_t *)base);
	}
}

int oriel_allgather(struct oriel_comm *c, const void *sendbuf, void *recvbuf, uint64_t count,
		    uint64_t elem_bytes, void *stream)
{
	struct ori_gather_state *s;
	struct oriel_allgather_request *r;
	struct key k = { 0 };
	uint64_t bytes = 0;
	int err = ori_comm_check(c, call);

	if (!err)
		err = ori_comm_failed(c);
	if (!err)
		err = ori_gather_bytes(call, c->nranks, count, elem_bytes, &bytes);
	if (!err && bytes && !recvbuf)
		err = ori_fail(ORIEL_EINVAL, "%s: recvbuf is NULL", call);
	if (!err)
		err = ori_gather_state_get(c, &s);
	if (err || !bytes)
		return err;
	k.bytes = bytes * (uint64_t)c->nranks;
	find_owner(c, recvbuf, &k);
	if (!sendbuf)
		sendbuf = (uint8_t *)recvbuf + (uint64_t)c->rank * bytes;
	if (!k.window && !k.buffer)
		return run_staged(c, s, sendbuf, recvbuf, bytes, stream);
	err = keep(c, s, &k, &r);
	return err ? err : ori_gather_exec(r, call, sendbuf, count, elem_bytes, stream);
}
