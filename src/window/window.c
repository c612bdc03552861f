/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/window.c - creates and destroys windows.
 *
 * Creation takes two rounds.  Before the first, each rank checks its options and sets up its buffer
 * and control memory.  So everything is set before a peer knows of it.  In the first round ranks
 * exchange their options and memory addresses.  Before the second, each rank maps its peers'
 * buffers.  A rank that failed still takes part in the round, and all ranks fail alike.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/device.h>

#include "../comm/agree.h"
#include "../comm/control.h"
#include "../comm/failure.h"
#include "../comm/gone.h"
#include "../comm/imports.h"
#include "../comm/links.h"
#include "../comm/memory.h"
#include "../comm/settle.h"
#include "../comm/sources.h"
#include "../comm/trace.h"
#include "../kernels/clock.h"
#include "bounce.h"
#include "window.h"

struct create_record {
	struct oriel_window_options options;
	uint64_t control_offset;
	struct ori_export buffer;
	uint32_t control_key[ORIEL_NICS_MAX], buffer_key[ORIEL_NICS_MAX];
	struct ori_engine_blob control_tell, buffer_tell;
};
_Static_assert(sizeof(struct create_record) <= ORI_RECORD_BYTES, "must fit a record");

int ori_window_check(struct oriel_window *w, const char *call)
{
	return ori_live_check(w, ORI_LIVE_WINDOW, call);
}

/* ---- ending --------------------------------------------------------------------------------- */

static void free_control(struct oriel_window *w)
{
	struct oriel_comm *c = w->comm;
	struct ori_memory *slab = c->slab_memory;
	struct ori_window_header *header;

	if (!w->has_control)
		return;
	header = ori_control_near(c, w->control_offset + w->layout.header);
	(void)ori_control_store(c, &header->generation, 0);
	ori_window_handle_unpublish(w);
	ori_control_unpublish(c, w->near_peers, (uint64_t)c->nranks * sizeof(*w->peers));
	ori_control_unpublish(c, w->near_links, (uint64_t)c->nranks * sizeof(*w->links));
	/* After a failure a peer may still store here, so the pages are not reused. */
	if (ori_comm_has_failed(c))
		return;
	c->device->ops->discard(c->device, &slab->allocation, w->control_offset,
				(w->layout.bytes + ORI_SLAB_ALIGN - 1) &
					~(uint64_t)(ORI_SLAB_ALIGN - 1));
	pthread_mutex_lock(&c->lock);
	ori_slab_give(&c->slab, w->control_offset, w->layout.bytes);
	pthread_mutex_unlock(&c->lock);
}

/* Frees everything of a window, also of an unfinished one.  Involves no other rank. */
static void free_window(struct oriel_window *w)
{
	for (int r = 0; w->imports && w->links && r < w->comm->nranks; r++) {
		ori_import_drop(w->comm, w->imports[r]);
		ori_peer_memory_forget(w->comm, r, w->links[r].control_key);
		ori_peer_memory_forget(w->comm, r, w->links[r].buffer_key);
		if (w->queued_ids)
			ori_gone_forget(w->comm, r, w->queued_ids[r]);
	}
	ori_sources_end(w->comm, &w->sources);
	ori_bounce_free(w);
	pthread_mutex_destroy(&w->bounce_lock);
	if (w->registered) {
		ori_unregister(w->comm, w->control_key);
		ori_unregister(w->comm, w->buffer_key);
	}
	free_control(w);
	ori_memory_unuse(w->comm, w->memory);
	free(w->imports);
	free(w->queued_ids);
	free(w->links);
	free(w->peers);
	free(w);
}

static void destroy_window(struct ori_child *child)
{
	ori_live_remove(child);
	free_window((struct oriel_window *)child);
}

static int name_window(const struct ori_child *child, int rank, uint32_t nic, uint32_t key,
		       uint64_t address, char *out, size_t bytes)
{
	const struct oriel_window *w = (const struct oriel_window *)child;
	const struct oriel_window_link *link = &w->links[rank];
	char name[48];

	if (w->peers[rank].kind != ORIEL_PEER_QUEUED)
		return 0;
	ori_diag_window_text(w->dev.number, name, sizeof(name));
	if (link->buffer_key[nic] && link->buffer_key[nic] == key)
		snprintf(out, bytes, "offset %llu of %s, which has %llu bytes",
			 (unsigned long long)(address - link->buffer_skew), name,
			 (unsigned long long)w->options.bytes);
	else if (link->control_key[nic] && link->control_key[nic] == key)
		snprintf(out, bytes, "the signal and barrier words of %s", name);
	else
		return 0;
	return 1;
}

/*
 * Does not read words of a separate device: its driver may be unable to copy while a kernel waits.
 */
static int signal_from(const struct ori_child *child, int number, int id, int rank, uint64_t *value)
{
	const struct oriel_window *w = (const struct oriel_window *)child;

	if (w->number != number || id < 0 || (uint32_t)id >= w->options.signals ||
	    w->comm->device->separate)
		return 0;
	*value = oriel_read_signal_from(&w->host_dev, rank, id);
	return 1;
}

struct oriel_window *ori_window_covering(struct oriel_comm *c, const void *ptr, uint64_t bytes)
{
	uintptr_t begin = (uintptr_t)ptr, base;
	struct oriel_window *found = NULL;

	pthread_mutex_lock(&c->lock);
	for (struct ori_child *child = c->children; child && !found; child = child->next) {
		struct oriel_window *w = (struct oriel_window *)child;

		if (child->destroy != destroy_window || child->along || w->hidden || !w->buffer)
			continue;
		base = (uintptr_t)w->buffer;
		if (begin >= base && begin - base <= w->options.bytes &&
		    bytes <= w->options.bytes - (begin - base))
			found = w;
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}

struct oriel_window *ori_window_numbered(struct oriel_comm *c, int number)
{
	struct ori_child *child;

	pthread_mutex_lock(&c->lock);
	for (child = c->children; child; child = child->next)
		if (child->destroy == destroy_window &&
		    ((struct oriel_window *)child)->number == number)
			break;
	pthread_mutex_unlock(&c->lock);
	return (struct oriel_window *)child;
}

struct oriel_window *ori_window_left(struct oriel_comm *c, int *others)
{
	struct oriel_window *newest = NULL;

	*others = 0;
	pthread_mutex_lock(&c->lock);
	for (struct ori_child *child = c->children; child; child = child->next) {
		struct oriel_window *w = (struct oriel_window *)child;

		if (child->along)
			continue;
		if (child->destroy != destroy_window) {
			++*others;
			continue;
		}
		/* relaxed: the count is only for a message; check_unused() decides */
		*others += __atomic_load_n(&w->users, __ATOMIC_RELAXED);
		if (!newest)
			newest = w;
	}
	pthread_mutex_unlock(&c->lock);
	return newest;
}

/* Checks that nothing uses the window and that all started operations are complete. */
static int check_unused(struct oriel_window *w)
{
	int users, err = ori_comm_settle(w->comm);

	/* The comm's own stream is empty now, so requests kept for it can be freed. */
	ori_attachments_reap(w->comm);
	/*
	 * [WIN2] acquire, process scope; partner: the release in let_go() of
	 * coll/allgather/state.c, after the request's last use of the window.
	 */
	users = __atomic_load_n(&w->users, __ATOMIC_ACQUIRE);
	if (!err && users)
		err = ori_fail(ORIEL_EBUSY,
			       "oriel_window_destroy: %d requests, captured graphs or execs that "
			       "are pending on a stream use window %d",
			       users, w->number);
	return err;
}

/*
 * Returns when all ranks have arrived, with the same result on all ranks.  If they pass different
 * windows, all windows stay.  Otherwise each rank would free memory of a window that others still
 * use.
 */
static int meet_to_destroy(struct oriel_window *w, int *differ)
{
	struct oriel_comm *c = w->comm;
	int32_t mine = w->number, *all = calloc((size_t)c->nranks, sizeof(*all));
	int status = check_unused(w), err;

	if (!status && !all)
		status = ori_fail(ORIEL_ENOMEM, "oriel_window_destroy: no memory");
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_WINDOW_DESTROY, status, &mine, all,
			all ? sizeof(mine) : 0);
	for (int r = 1; !err && r < c->nranks; r++)
		if (all[r] != all[0]) {
			*differ = 1;
			err = ori_fail(ORIEL_EMISMATCH,
				       "oriel_window_destroy: rank %d destroys window %d, rank 0 "
				       "window %d; both stay",
				       r, all[r], all[0]);
		}
	free(all);
	return err;
}

int oriel_window_destroy(struct oriel_window *w)
{
	struct oriel_comm *c;
	int differ = 0, err;

	if (!w)
		return 0;
	err = ori_window_check(w, "oriel_window_destroy");
	if (err)
		return err;
	c = w->comm;
	/*
	 * No rank frees memory before every rank has stopped using it.  This waits for the comm's
	 * own stream; other streams are the caller's duty.  A failed comm does not wait for other
	 * ranks.
	 */
	if (!ori_comm_failed(c))
		err = meet_to_destroy(w, &differ);
	else
		(void)ori_comm_settle(c);
	if (err == ORIEL_EBUSY || differ)
		return err; /* the same on all ranks: the window stays usable */
	/* Absent ranks may still use their window, but this rank no longer takes part. */
	if (err)
		ori_comm_fail_all(c, err, ori_last_error_text());
	ori_attachments_forget(c, w);
	ori_child_remove(c, &w->child);
	destroy_window(&w->child);
	ori_gone_check_all(c);
	return err;
}

/* ---- making --------------------------------------------------------------------------------- */

static int prepare_buffer(struct oriel_window *w, struct ori_export *export)
{
	struct oriel_comm *c = w->comm;
	int err;

	memset(export, 0, sizeof(*export));
	if (!w->options.bytes)
		return 0;
	w->buffer = w->options.buffer;
	if (w->buffer) {
		err = ori_memory_check(c, "oriel_window_create", w->buffer, w->options.bytes);
		if (err)
			return err;
	} else {
		err = ori_memory_alloc(c, w->options.bytes, &w->memory);
		if (err)
			return err;
		w->memory->owned = 1;
		w->buffer = w->memory->allocation.base;
	}
	err = ori_memory_adopt(c, w->buffer, w->options.bytes, &w->memory);
	if (err)
		return err;
	return ori_memory_export(c, w->buffer, w->options.bytes, w->memory, export);
}

static int prepare_control(struct oriel_window *w)
{
	struct oriel_comm *c = w->comm;
	int err;

	ori_window_layout(&w->options, c->nranks, c->links ? (uint32_t)c->config.lanes : 0,
			  c->links ? c->engine->nics : 0, &w->layout);
	if (ori_facts_lack_atomics(c->facts, c->nranks))
		ori_window_layout_turns(c->nranks, &w->layout);
	pthread_mutex_lock(&c->lock);
	err = ori_slab_take(&c->slab, w->layout.bytes, &w->control_offset);
	pthread_mutex_unlock(&c->lock);
	if (err)
		return err;
	w->has_control = 1;
	/*
	 * A stale handle may read reused memory, so the number is one that no user's word is likely
	 * to hold.
	 */
	return ori_window_control_init(w, (c->generation_seed ^ ((uint64_t)w->number << 1)) | 1);
}

/* Keys by which queued peers address this rank's memory. */
static int register_memory(struct oriel_window *w, struct create_record *mine)
{
	struct ori_memory *slab = w->comm->slab_memory;
	struct ori_export control = { .id = slab->id, .offset = w->control_offset };
	int err;

	if (!w->comm->engine)
		return 0;
	w->registered = 1;
	err = ori_register_remote(w->comm, ori_control_host(w->comm, w->control_offset),
				  w->layout.bytes, &control, w->control_key, &mine->control_tell);
	if (!err)
		err = ori_register_remote(w->comm, w->buffer, w->options.bytes, &mine->buffer,
					  w->buffer_key, &mine->buffer_tell);
	memcpy(mine->control_key, w->control_key, sizeof(mine->control_key));
	memcpy(mine->buffer_key, w->buffer_key, sizeof(mine->buffer_key));
	return err;
}

static int prepare(struct oriel_window *w, const struct oriel_window_options *options,
		   struct create_record *mine)
{
	int err = ori_window_options_take(options, &w->options);

	if (err)
		return err;
	w->peers = calloc((size_t)w->comm->nranks, sizeof(*w->peers));
	w->imports = calloc((size_t)w->comm->nranks, sizeof(*w->imports));
	w->links = calloc((size_t)w->comm->nranks, sizeof(*w->links));
	w->queued_ids = calloc((size_t)w->comm->nranks, sizeof(*w->queued_ids));
	if (!w->peers || !w->imports || !w->links || !w->queued_ids)
		return ori_fail(ORIEL_ENOMEM, "oriel_window_create: no memory");
	err = prepare_buffer(w, &mine->buffer);
	if (!err)
		err = prepare_control(w);
	if (!err)
		err = register_memory(w, mine);
	mine->options = w->options;
	mine->control_offset = w->control_offset;
	return err;
}

/* The same result on all ranks: each compares all options with those of rank 0. */
static int compare_options(const struct create_record *all, int nranks)
{
	for (int r = 1; r < nranks; r++) {
		const char *field = ori_window_options_differ(&all[0].options, &all[r].options);

		if (field)
			return ori_fail(ORIEL_EMISMATCH,
					"oriel_window_create: rank %d and rank 0 differ in "
					"option %s",
					r, field);
	}
	return 0;
}

/* Tells the engine which memory the queues to the rank will address. */
static int tell_engine(struct oriel_window *w, int rank, const struct create_record *theirs)
{
	int err = ori_peer_memory(w->comm, rank, theirs->control_key, &theirs->control_tell);

	return err ? err : ori_peer_memory(w->comm, rank, theirs->buffer_key, &theirs->buffer_tell);
}

static int map_peers(struct oriel_window *w, const struct create_record *all)
{
	struct oriel_comm *c = w->comm;
	int err = compare_options(all, c->nranks);

	for (int r = 0; !err && r < c->nranks; r++) {
		void *buffer = NULL;

		/*
		 * Not connected when the window is created: operations on it are refused
		 * (ORIEL_PEER_NONE).
		 */
		if (c->peers[r].pair.kind == ORIEL_PEER_QUEUED && !ori_link_to(c, r))
			continue;
		if (c->peers[r].pair.kind == ORIEL_PEER_QUEUED) {
			w->queued_ids[r] = all[r].buffer.id;
			err = tell_engine(w, r, &all[r]);
			ori_window_link_fill(w, r, all[r].control_key, all[r].buffer_key,
					     all[r].buffer.address);
			continue;
		}
		if (all[r].control_offset > c->peers[r].slab_bytes ||
		    all[r].control_offset % ORI_SLAB_ALIGN ||
		    w->layout.bytes > c->peers[r].slab_bytes - all[r].control_offset ||
		    all[r].buffer.bytes != w->options.bytes)
			return ori_fail(ORIEL_EPROTO,
					"rank %d names memory that cannot be its window", r);
		if (r == c->rank)
			buffer = w->buffer;
		else if (w->options.bytes)
			err = ori_import_range(c, r, &all[r].buffer, &buffer, &w->imports[r]);
		if (!err)
			ori_window_peer_fill(w, r, all[r].control_offset, buffer);
	}
	return err;
}

/* Each call takes one number, even if it fails, so that all ranks number their windows alike. */
static int take_number(struct oriel_comm *c)
{
	int number;

	pthread_mutex_lock(&c->lock);
	number = c->next_window++;
	pthread_mutex_unlock(&c->lock);
	return number;
}

int ori_window_cannot_create(struct oriel_comm *c, int status)
{
	int err = ori_comm_failed(c);

	if (err)
		return err;
	(void)take_number(c);
	ori_comm_call_begin(c, ORI_CALL_WINDOW_CREATE);
	(void)ori_comm_agree(c, status, NULL, NULL, 0);
	return status;
}

int oriel_window_create(struct oriel_comm *c, const struct oriel_window_options *options,
			struct oriel_window **window)
{
	struct create_record mine, *all;
	struct oriel_window *w;
	int number, status, err = ori_comm_check(c, "oriel_window_create");

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	number = take_number(c);
	ori_comm_call_begin(c, ORI_CALL_WINDOW_CREATE);
	ori_gone_check_all(c);
	memset(&mine, 0, sizeof(mine));
	w = calloc(1, sizeof(*w));
	all = calloc((size_t)c->nranks, sizeof(*all));
	if (!w || !all) {
		free(w);
		free(all);
		err = ori_fail(ORIEL_ENOMEM, "oriel_window_create: no memory");
		(void)ori_comm_agree(c, err, NULL, NULL, 0);
		return err;
	}
	w->comm = c;
	w->number = number;
	pthread_mutex_init(&w->bounce_lock, NULL);
	w->child.destroy = destroy_window;
	w->child.name = name_window;
	w->child.signal_from = signal_from;
	status = window ? prepare(w, options, &mine) :
			  ori_fail(ORIEL_EINVAL, "oriel_window_create: no place for the window");
	err = ori_comm_agree(c, status, &mine, all, sizeof(mine));
	if (err)
		goto err_window;
	ori_trace_clock_device(c, ori_clock_kernel());
	status = map_peers(w, all);
	if (!status)
		status = ori_window_handle_build(w);
	if (!status)
		status = ori_live_add(w, ORI_LIVE_WINDOW);
	err = ori_comm_agree(c, status, NULL, NULL, 0);
	if (err)
		goto err_live;
	ori_child_add(c, &w->child);
	free(all);
	*window = w;
	return 0;

err_live:
	ori_live_remove(w);
err_window:
	free(all);
	free_window(w);
	return err;
}
