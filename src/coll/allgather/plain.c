/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/plain.c - the all-gather without a request of the user.
 *
 * It finds the window or exchanged buffer that covers recvbuf and keeps a request for it, by offset
 * and length.  Ranks make the same calls in the same order, so either all ranks find a kept request
 * or none does.  Streams are not compared, because the streams of different ranks are unrelated.
 * Without a window the data goes through an area of the library and is copied out.  With GPUs the
 * ranks then meet before they create or choose an area, because either all must capture the call or
 * none.
 *
 * The work of a call may still be pending on its stream when the call returns.  So a replaced
 * request is freed only when its work has finished (state.c).  Calls use an area one after the
 * other, even on different streams.  An area that became too small stays until the comm is
 * destroyed.  A captured call has its own area as long as its graph exists, because the graph may
 * be replayed at any time.
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
#define STAGING_BYTES (8ull << 20) /* of all ranks' blocks */
#define STAGING_LEAST 4096ull
#define OFFERS 64

static const char call[] = "oriel_allgather";

/* ---- kept requests --------------------------------------------------------------------------- */

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

/*
 * Returns the kept request, or NULL.  *oldest: the one to replace if there are too many, else NULL.
 */
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
 * Memory is bounded, and the library never waits for a user's stream on its own.  So the call is
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

/* ---- through a window of the library --------------------------------------------------------- */

/* Bytes of a block that are sent at once. */
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

/* Creates a window and a request on it.  Collective. */
static int make_area(struct oriel_comm *c, struct ori_gather_state *s, uint64_t slice,
		     struct ori_gather_area **out)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct ori_gather_area *a = calloc(1, sizeof(*a));
	int err;

	tell_staging(s);
	o.signals = o.counters = o.barriers = 0;
	o.bytes = slice * (uint64_t)c->nranks;
	/* a rank without memory still takes part, and makes the call fail on all ranks */
	if (!a) {
		err = ori_fail(ORIEL_ENOMEM, "%s: no memory for a window", call);
		return ori_window_cannot_create(c, err);
	}
	err = oriel_window_create(c, &o, &a->window);
	if (!err) {
		a->window->child.along = 1;
		err = ori_gather_init(c, call, 0, a->window, NULL, NULL, 1, &a->request);
		/* destroyed on all ranks, since the call failed on all */
		if (err)
			(void)oriel_window_destroy(a->window);
	}
	if (err) {
		free(a);
		return err;
	}
	a->request->staging = 1;
	a->bytes = slice;
	a->number = s->next_area++;
	a->next = s->areas;
	s->areas = a;
	*out = a;
	return 0;
}

/* What a rank sends about a call. */
struct area_record {
	uint64_t bytes; /* of a block */
	uint32_t captured;
	uint32_t noffers;
	uint32_t offers[OFFERS]; /* if captured: areas that are free here and large enough */
};
_Static_assert(sizeof(struct area_record) <= ORI_RECORD_BYTES, "must fit a record");

static void offer_areas(const struct ori_gather_state *s, uint64_t slice, struct area_record *mine)
{
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

/* Returns the same status on all ranks. */
static int compare_calls(const struct area_record *all, int n)
{
	for (int r = 1; r < n; r++) {
		int captures = all[r].captured ? r : 0;

		if (all[r].bytes != all[0].bytes)
			return ori_fail(ORIEL_EMISMATCH,
					"%s: rank %d gives blocks of %llu bytes, rank 0 of %llu",
					call, r, (unsigned long long)all[r].bytes,
					(unsigned long long)all[0].bytes);
		if (all[r].captured != all[0].captured)
			return ori_fail(ORIEL_EMISMATCH,
					"%s: rank %d captures the call into a graph, rank %d does "
					"not: capture it on all ranks or on none",
					call, captures, r - captures);
	}
	return 0;
}

/* The newest area that all ranks offer; NULL if there is none. */
static struct ori_gather_area *common_area(struct ori_gather_state *s,
					   const struct area_record *all)
{
	struct ori_gather_area *a;
	int has = 0;

	for (a = s->areas; a; a = a->next) {
		has = 1;
		for (int r = 0; r < s->comm->nranks && has; r++)
			has = has_offer(&all[r], a->number);
		if (has)
			break;
	}
	return a;
}

/* A rank whose device never captures need not ask the others if theirs never capture either. */
static int may_capture(const struct oriel_comm *c)
{
	for (int r = 0; r < c->nranks; r++)
		if (c->facts[r].device != ORI_DEVICE_CPU)
			return 1;
	return 0;
}

/*
 * Ranks that capture use other memory than ranks that do not.  They would wait for each other until
 * their deadlines.  So every rank reports what it does, or that it cannot tell.  *area, if all
 * capture: an area that no graph and no stream uses on any rank, or NULL.
 */
static int meet(struct oriel_comm *c, struct ori_gather_state *s, uint64_t bytes, int captured,
		int status, struct ori_gather_area **area)
{
	struct area_record mine = { .bytes = bytes, .captured = (uint32_t)captured };
	struct area_record *all = calloc((size_t)c->nranks, sizeof(*all));
	int err;

	if (!status && !all)
		status = ori_fail(ORIEL_ENOMEM, "%s: no memory", call);
	if (captured) {
		ori_attachments_reap(c);
		offer_areas(s, staged_bytes(c, bytes), &mine);
	}
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_GATHER, status, &mine, all,
			all ? sizeof(mine) : 0);
	if (!err)
		err = compare_calls(all, c->nranks);
	if (!err && captured)
		*area = common_area(s, all);
	free(all);
	return err;
}

/*
 * Chooses the area of a call, together with all ranks.  Calls that no graph holds share one area.
 * A larger block needs a new area, up to a maximum size; the previous one may still be in use.
 */
static int choose_area(struct oriel_comm *c, struct ori_gather_state *s, uint64_t bytes,
		       int captured, int status, struct ori_gather_area **out)
{
	const char *outer = ori_boot_serve_begin(c->boot, call);
	int err = status;

	if (may_capture(c))
		err = meet(c, s, bytes, captured, status, out);
	if (!err && !*out)
		err = make_area(c, s, staged_bytes(c, bytes), captured ? out : &s->staging);
	ori_boot_serve_end(c->boot, outer);
	return err;
}

static int open_area(struct oriel_comm *c, struct ori_gather_state *s, uint64_t bytes, void *stream,
		     struct ori_gather_area **out)
{
	int captured = 0, err = c->device->streams->capturing(c->device, stream, &captured);

	*out = NULL;
	/* Every rank gets here in the same calls, except one that captures alone. */
	if (captured || !s->staging || s->staging->bytes < staged_bytes(c, bytes))
		err = choose_area(c, s, bytes, captured, err, out);
	if (!err && !captured)
		*out = s->staging;
	return err;
}

/* Copies all ranks' blocks of a slice to their final places. */
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
	int marked, err = open_area(c, s, bytes, stream, &area);

	if (err)
		return err;
	for (uint64_t at = 0; at < bytes && !err; at += n) {
		n = bytes - at < slice ? bytes - at : slice;
		err = ori_gather_exec(area->request, call, from + at, n, 1, stream);
		if (!err)
			err = copy_out(c, area->request->view.buffer, to + at, bytes, n, stream);
	}
	/* the next call, on any stream, must follow these copies too */
	marked = ori_gather_mark(area->request, stream);
	return err ? err : marked;
}

/* ---- the call -------------------------------------------------------------------------------- */

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
