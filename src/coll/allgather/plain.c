/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/plain.c - the all-gather without a request of the user's.
 *
 * Finds the window or exchanged buffer that covers recvbuf and keeps a request for it, by offset, length and stream.
 * Ranks make the same calls in the same order, so all find a request kept or none does.  Without one the data goes
 * through a window of the library's and is copied out.
 *
 * Called on user threads.
 */
#include <stdlib.h>
#include <string.h>

#include "gather.h"

#define KEPT_MAX 64u
#define STAGING_BYTES (8ull << 20) /* of all ranks' blocks */
#define STAGING_LEAST 4096ull

static const char call[] = "oriel_allgather";

/* ---- kept requests ----------------------------------------------------------------------------------- */

struct key {
	struct oriel_window *window;
	struct oriel_buffer *buffer;
	uint64_t offset, bytes;
	void *stream;
};

static int is_of(const struct oriel_allgather *r, const struct key *k)
{
	return r->cached && !r->retired && r->window == k->window && r->buffer == k->buffer &&
	       r->options.offset == k->offset && r->options.bytes == k->bytes &&
	       r->stream == k->stream;
}

/* The one that is kept; *oldest: the one to go when there are too many, else NULL. */
static struct oriel_allgather *find_kept(struct ori_gather_state *s, const struct key *k,
					 struct oriel_allgather **oldest)
{
	struct oriel_allgather *found = NULL;
	unsigned int n = 0;

	*oldest = NULL;
	pthread_mutex_lock(&s->lock);
	for (struct oriel_allgather *r = s->requests; r && !found; r = r->next) {
		if (is_of(r, k))
			found = r;
		if (!r->cached || r->retired || r == s->staged)
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

static int keep(struct oriel_comm *c, struct ori_gather_state *s, const struct key *k,
		struct oriel_allgather **out)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	struct oriel_allgather *oldest;
	int err;

	*out = find_kept(s, k, &oldest);
	if (*out)
		return 0;
	if (oldest)
		ori_gather_retire(oldest);
	o.offset = k->offset;
	o.bytes = k->bytes;
	err = ori_gather_init(c, call, 0, k->window, k->buffer, &o, 1, out);
	if (err)
		return err;
	(*out)->stream = k->stream;
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

/* Made again when a larger block comes, up to a size; ranks come to that together. */
static int open_staging(struct oriel_comm *c, struct ori_gather_state *s, uint64_t slice)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int err = 0;

	o.signals = o.counters = o.barriers = 0;
	o.bytes = slice * (uint64_t)c->nranks;
	if (s->staging && s->staging->options.bytes >= o.bytes)
		return 0;
	if (!s->told)
		ori_log(ORI_LOG_WARN,
			"oriel_allgather: no window or exchanged buffer covers recvbuf: data goes "
			"through one of the library's (said once)");
	s->told = 1;
	if (s->staging) {
		err = oriel_window_destroy(s->staging); /* its request goes with it */
		s->staging = NULL;
	}
	if (!err)
		err = oriel_window_create(c, &o, &s->staging);
	if (err)
		return err;
	s->staging->child.along = 1;
	return ori_gather_init(c, call, 0, s->staging, NULL, NULL, 1, &s->staged);
}

/* All ranks' blocks of a slice, to where they belong. */
static int copy_out(struct oriel_comm *c, const uint8_t *from, uint8_t *to, uint64_t stride,
		    uint64_t bytes, void *stream)
{
	struct ori_copy copies[16];
	int err = 0, n = 0;

	for (int r = 0; r < c->nranks && !err; r++) {
		copies[n++] = (struct ori_copy){ to + (uint64_t)r * stride,
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
	int err = open_staging(c, s, slice);

	for (uint64_t at = 0; at < bytes && !err; at += n) {
		n = bytes - at < slice ? bytes - at : slice;
		err = ori_gather_exec(s->staged, call, from + at, n, 1, stream);
		if (!err)
			err = copy_out(c, s->staged->view.buffer, to + at, bytes, n, stream);
	}
	return err;
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
	struct oriel_allgather *r;
	struct key k = { .stream = stream };
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
