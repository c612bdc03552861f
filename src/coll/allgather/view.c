/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/view.c - the receive memory of all ranks as one struct, for windows and buffers.
 *
 * It owns the tables of the view.  Nothing is exchanged here: windows and buffers know their peers'
 * memory, and the offsets came with the request's round.  Called by create.c and state.c on the
 * thread that creates or ends a request.
 */
#include <stdlib.h>
#include <string.h>

#include "../../comm/control.h"
#include "gather.h"

static int is_queued(const struct oriel_allgather_request *r, int rank)
{
	return r->comm->peers[rank].pair.kind == ORIEL_PEER_QUEUED;
}

/* Fills one rank of the tables; its memory begins at `offset` in the window. */
static void fill_from_window(struct oriel_allgather_request *r, int rank, uint64_t offset,
			     uint8_t **mapped, struct oriel_remote *remote)
{
	const struct oriel_window_link *link = &r->window->links[rank];

	if (!is_queued(r, rank)) {
		if (r->window->peers[rank].buffer)
			*mapped = r->window->peers[rank].buffer + offset;
		return;
	}
	remote->address = link->buffer_skew + offset;
	remote->bytes = r->view.bytes;
	memcpy(remote->key, link->buffer_key, sizeof(remote->key));
}

/* The buffer of the request; NULL if it is on a window alone. */
static struct oriel_buffer *buffer_of(const struct oriel_allgather_request *r)
{
	return r->own ? r->own : r->buffer;
}

static int fill_from_buffer(struct oriel_allgather_request *r, int rank, uint64_t offset,
			    uint8_t **mapped, struct oriel_remote *remote)
{
	int err = 0;

	if (is_queued(r, rank)) {
		err = oriel_buffer_remote(buffer_of(r), rank, remote);
		remote->address += offset;
		remote->bytes = r->view.bytes;
		return err;
	}
	*mapped = oriel_buffer_mapped(buffer_of(r), rank);
	if (*mapped)
		*mapped += offset;
	return 0;
}

static int fill_source(struct oriel_allgather_request *r, uint64_t offset)
{
	struct oriel_source whole = { 0 };
	int err;

	if (buffer_of(r))
		err = oriel_buffer_source(buffer_of(r), &whole);
	else
		err = oriel_window_source(r->window, r->window->buffer, r->window->options.bytes,
					  &whole);
	r->view.buffer = (uint8_t *)(uintptr_t)whole.address + offset;
	r->view.source = whole;
	r->view.source.address += offset;
	r->view.source.bytes = r->view.bytes;
	return err;
}

static int publish(struct oriel_allgather_request *r)
{
	uint64_t n = (uint64_t)r->comm->nranks;
	const void *mapped, *remote = NULL;
	int err = ori_control_publish(r->comm, r->view.mapped, n * sizeof(*r->view.mapped),
				      &mapped);

	r->near_view = r->view;
	r->near_view.mapped = mapped;
	r->near_view.remote = NULL;
	if (!err)
		err = ori_control_publish(r->comm, r->view.remote, n * sizeof(*r->view.remote),
					  &remote);
	r->near_view.remote = remote;
	return err;
}

int ori_gather_view_make(struct oriel_allgather_request *r, const uint64_t *offsets, uint64_t bytes)
{
	int n = r->comm->nranks, err;
	uint8_t **mapped = calloc((size_t)n, sizeof(*mapped));
	struct oriel_remote *remote = calloc((size_t)n, sizeof(*remote));

	r->view.mapped = mapped;
	r->view.remote = remote;
	r->view.bytes = bytes;
	if (!mapped || !remote)
		return ori_fail(ORIEL_ENOMEM, "no memory for the view of an all-gather");
	err = fill_source(r, offsets[r->comm->rank]);
	for (int p = 0; p < n && !err; p++) {
		if (!buffer_of(r))
			fill_from_window(r, p, offsets[p], &mapped[p], &remote[p]);
		else
			err = fill_from_buffer(r, p, offsets[p], &mapped[p], &remote[p]);
		if (!err && bytes && !is_queued(r, p) && !mapped[p])
			err = ori_fail(ORIEL_EINVAL,
				       "rank %d is a mapped peer, but its receive memory is not "
				       "mapped here",
				       p);
	}
	return err ? err : publish(r);
}

void ori_gather_view_free(struct oriel_allgather_request *r)
{
	uint64_t n = (uint64_t)r->comm->nranks;

	ori_control_unpublish(r->comm, r->near_view.mapped, n * sizeof(*r->view.mapped));
	ori_control_unpublish(r->comm, r->near_view.remote, n * sizeof(*r->view.remote));
	free((void *)(uintptr_t)r->view.mapped);
	free((void *)(uintptr_t)r->view.remote);
	memset(&r->view, 0, sizeof(r->view));
	memset(&r->near_view, 0, sizeof(r->near_view));
}
