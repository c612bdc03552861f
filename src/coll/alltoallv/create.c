/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/alltoallv/create.c - creates and destroys all-to-all-v requests.
 *
 * A request is a window and a separate send buffer.  The window's buffer holds the rows of all
 * peers, this rank's state and the receive buffer.  Receive memory of the caller is a second
 * window instead, which only data goes to.  Creation is a round in which ranks compare options,
 * then the rounds of the windows, then a last one.  A rank that failed still takes part in each
 * round, and all ranks fail alike.
 *
 * Called by users, on all ranks at once.
 */
#include <stdlib.h>
#include <string.h>

#include "../../window/window.h"
#include "../../comm/agree.h"
#include "../../comm/failure.h"
#include "../connect.h"
#include "alltoallv.h"

int ori_alltoallv_check(struct oriel_alltoallv_request *a, const char *call)
{
	return ori_live_check(a, ORI_LIVE_ALLTOALLV, call);
}

/* What a rank sends in the round. */
struct create_record {
	struct oriel_alltoallv_options options;
	int32_t connected; /* it has queues to all its queued peers */
	int32_t pad;
};

_Static_assert(sizeof(struct create_record) <= ORI_RECORD_BYTES, "must fit a record");

/* The same status on all ranks: each rank compares all options with those of rank 0. */
static int compare_options(const struct create_record *all, int nranks)
{
	for (int r = 1; r < nranks; r++) {
		const char *field = ori_alltoallv_options_differ(&all[0].options, &all[r].options);

		if (field)
			return ori_fail(ORIEL_EMISMATCH,
					"oriel_alltoallv_create: rank %d and rank 0 differ in "
					"option %s",
					r, field);
	}
	return 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Sets the counts of a request that does not start at 0, before any peer knows the memory. */
static int set_first_counts(struct oriel_alltoallv_request *a, const struct ori_a2a_layout *l)
{
	uint64_t first = a->options.first_count, told = first << ORI_A2A_TOLD_SHIFT;
	struct ori_a2a_row row = { .told = { told, told },
				   .came = first << ORI_A2A_CAME_SHIFT,
				   .granted = first };
	struct ori_a2a_state state = { .calls = first };
	char *base = a->memory;
	int err = 0;

	if (!first)
		return 0; /* memory is zeroed */
	for (int r = 0; !err && r < a->comm->nranks; r++)
		err = oriel_copy(a->comm, base + (uint64_t)r * l->row_stride, &row, sizeof(row));
	return err ? err : oriel_copy(a->comm, base + l->state, &state, sizeof(state));
}

/*
 * The driver may wait for running kernels while it loads one that it has not used yet.  In a call
 * that would be too late: those kernels may wait for a peer that waits for this GPU.
 */
static int load_kernels(struct oriel_comm *c)
{
	int blocks, err = 0;

	for (int k = 0; k < ORI_A2A_KERNELS && c->device->separate && !err; k++)
		err = c->device->ops->resident(c->device, ori_a2a_kernel(k), ORI_A2A_THREADS,
					       &blocks);
	return err;
}

static int prepare(struct oriel_alltoallv_request *a, const struct oriel_alltoallv_options *options,
		   struct ori_a2a_layout *l)
{
	int err = ori_alltoallv_options_take(options, a->comm->nranks, &a->options, a->given, l);

	if (!err)
		err = load_kernels(a->comm);
	if (err)
		return err;
	a->send_bytes = a->options.send_bytes ? a->options.send_bytes : l->recv_bytes;
	/* room for copied data: every peer's part starts at a multiple of 16 bytes */
	err = oriel_alloc(a->comm, a->send_bytes + 16u * (uint64_t)a->comm->nranks, &a->send);
	if (!err)
		err = oriel_alloc(a->comm, l->bytes, &a->memory);
	return err ? err : set_first_counts(a, l);
}

static int make_window(struct oriel_alltoallv_request *a, uint32_t signals, void *buffer,
		       uint64_t bytes, struct oriel_window **window)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int err;

	o.signals = signals;
	o.counters = 0;
	o.barriers = 0;
	o.buffer = buffer;
	o.bytes = bytes;
	o.first_count = a->options.first_count;
	err = oriel_window_create(a->comm, &o, window);
	if (!err)
		ori_window_use_set(*window, ORI_USE_ALLTOALLV);
	return err;
}

/*
 * Destroys the windows.  *stays: a rank cannot, and all keep both.  Only the window of the rows can
 * be in use, or be another one on another rank: the second one is hidden, and goes with it.
 */
static int destroy_windows(struct oriel_alltoallv_request *a, int *stays)
{
	int err = oriel_window_destroy(a->window), second;

	*stays = err && !ori_comm_failed(a->comm);
	if (*stays)
		return err;
	second = oriel_window_destroy(a->recv_window); /* NULL: nothing */
	return err ? err : second;
}

/* On failure there is no window. */
static int make_windows(struct oriel_alltoallv_request *a, const struct ori_a2a_layout *l)
{
	int err = make_window(a, ORI_A2A_SIGNALS, a->memory, l->bytes, &a->window);

	if (err || !a->options.recv_memory)
		return err;
	err = make_window(a, 0, a->options.recv_memory, l->recv_bytes, &a->recv_window);
	if (err) {
		(void)oriel_window_destroy(a->window);
		return err;
	}
	pthread_mutex_lock(&a->comm->lock);
	a->recv_window->hidden = 1;
	pthread_mutex_unlock(&a->comm->lock);
	return 0;
}

/*
 * The handle of the second window, where kernels read it.  A put to it that waits must end when the
 * request fails, so it has the failure word of the first window, and its number for reports.
 */
static int put_recv_handle(struct oriel_alltoallv_request *a, const struct ori_a2a_layout *l)
{
	struct oriel_window_dev dev;
	int err = oriel_window_device(a->recv_window, &dev);

	dev.failure = a->handle.failure;
	dev.number = a->handle.number;
	return err ? err :
		     oriel_copy(a->comm, (char *)a->memory + l->recv_handle, &dev, sizeof(dev));
}

/* Fills the parts of the kernel's argument that are the same in all calls. */
static int fill_args(struct oriel_alltoallv_request *a, const struct ori_a2a_layout *l)
{
	struct ori_a2a_args *args = &a->args;
	uint64_t most = a->options.slot_bytes ? a->options.slot_bytes : a->options.recv_bytes;
	int err = oriel_window_device(a->window, &a->handle);

	if (!err)
		err = oriel_copy(a->comm, (char *)a->memory + l->handle, &a->handle,
				 sizeof(a->handle));
	if (!err)
		err = oriel_window_source(a->window, a->send,
					  a->send_bytes + 16u * (uint64_t)a->comm->nranks,
					  &args->staging);
	args->comm = a->handle.comm;
	args->win = (const struct oriel_window_dev *)(void *)((char *)a->memory + l->handle);
	args->recv_win = args->win;
	args->recv = (uint8_t *)a->memory + l->recv;
	if (a->recv_window) {
		args->recv = a->options.recv_memory;
		args->recv_win = (const struct oriel_window_dev *)(void *)((char *)a->memory +
									   l->recv_handle);
		if (!err)
			err = put_recv_handle(a, l);
	}
	args->buffer = a->handle.buffer;
	args->failure = a->handle.failure;
	args->number = a->handle.number;
	for (int r = 0; r < a->comm->nranks && r < ORI_A2A_INLINE_PEERS; r++)
		args->peers[r] = a->handle.inline_peers[r].buffer;
	args->state = (struct ori_a2a_state *)(void *)((char *)a->memory + l->state);
	args->arrived = (uint32_t *)(void *)((char *)a->memory + l->arrived);
	args->first = a->options.first_count;
	args->elem_bytes = a->options.elem_bytes;
	args->most_elems = most / a->options.elem_bytes;
	args->slot_stride = l->slot_stride;
	args->slot_elems = l->slot_elems;
	args->recv_elems = l->recv_bytes / a->options.elem_bytes;
	args->recv_off = l->recv;
	args->row_stride = l->row_stride;
	args->inbox_bytes = l->inbox_bytes;
	args->synchronised = a->options.synchronised != 0;
	return err;
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* Called by a failed comm, which destroys windows and memory itself. */
static void destroy_child(struct ori_child *child)
{
	ori_live_remove(child);
	free(child);
}

/* Frees a request, also an unfinished one.  Its windows, if any, are already destroyed. */
static void free_request(struct oriel_alltoallv_request *a)
{
	(void)oriel_free(a->comm, a->memory);
	(void)oriel_free(a->comm, a->send);
	free(a);
}

int oriel_alltoallv_destroy(struct oriel_alltoallv_request *a)
{
	const char *call = "oriel_alltoallv_destroy", *outer;
	int err, stays;

	if (!a)
		return 0;
	err = ori_alltoallv_check(a, call);
	if (err)
		return err;
	/* No rank continues before all have arrived, so no rank writes here after this. */
	outer = ori_boot_serve_begin(a->comm->boot, call);
	err = destroy_windows(a, &stays);
	ori_boot_serve_end(a->comm->boot, outer);
	if (stays)
		return err; /* the same on all ranks: requests differ and all stay */
	ori_child_remove(a->comm, &a->child);
	ori_live_remove(a);
	free_request(a);
	return err;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* The rounds after the memory is allocated.  On failure the windows are destroyed again. */
static int meet(struct oriel_alltoallv_request *a, int status, const struct ori_a2a_layout *l,
		struct create_record *all)
{
	struct oriel_comm *c = a->comm;
	struct create_record mine = { .options = a->options,
				      .connected = ori_coll_is_connected(c) };
	int err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_ALLTOALLV_CREATE, status, &mine, all,
			    sizeof(mine));
	int connected = 1, stays;

	if (!err)
		err = compare_options(all, c->nranks);
	for (int r = 0; !err && r < c->nranks; r++)
		connected &= all[r].connected;
	if (!err)
		err = ori_tune_agree(c);
	if (!err && !connected)
		err = ori_coll_connect(c, ORI_CALL_ALLTOALLV_CREATE);
	if (!err)
		err = make_windows(a, l);
	if (err)
		return err;
	status = fill_args(a, l);
	if (!status)
		status = ori_live_add(a, ORI_LIVE_ALLTOALLV);
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_ALLTOALLV_CREATE, status, NULL, NULL, 0);
	if (err) {
		ori_live_remove(a);
		(void)destroy_windows(a, &stays);
	}
	return err;
}

static int make_request(struct oriel_comm *c, const struct oriel_alltoallv_options *options,
			struct oriel_alltoallv_request **request)
{
	struct create_record *all;
	struct ori_a2a_layout layout;
	struct oriel_alltoallv_request *a;
	int status, err;

	memset(&layout, 0, sizeof(layout));
	a = calloc(1, sizeof(*a));
	all = calloc((size_t)c->nranks, sizeof(*all));
	if (!a || !all) {
		err = ori_fail(ORIEL_ENOMEM, "oriel_alltoallv_create: no memory");
		(void)ori_agree(c->boot, c->timeout_ns, ORI_CALL_ALLTOALLV_CREATE, err, NULL, NULL,
				0);
		free(a);
		free(all);
		return err;
	}
	a->comm = c;
	a->child.destroy = destroy_child;
	status = request ?
			 prepare(a, options, &layout) :
			 ori_fail(ORIEL_EINVAL, "oriel_alltoallv_create: no place for the request");
	err = meet(a, status, &layout, all);
	free(all);
	if (err) {
		free_request(a);
		return err;
	}
	ori_child_add(c, &a->child);
	*request = a;
	return 0;
}

int oriel_alltoallv_create(struct oriel_comm *c, const struct oriel_alltoallv_options *options,
			   struct oriel_alltoallv_request **request)
{
	const char *call = "oriel_alltoallv_create", *outer;
	int err = ori_comm_check(c, call);

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	outer = ori_boot_serve_begin(c->boot, call);
	err = make_request(c, options, request);
	ori_boot_serve_end(c->boot, outer);
	return err;
}
