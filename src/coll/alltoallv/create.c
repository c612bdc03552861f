/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/alltoallv/create.c - creates and destroys all-to-all-v requests.
 *
 * A request is a window and a separate send buffer.  The window's buffer holds the rows of all
 * peers, this rank's state and the receive buffer.  Creation is a round in which ranks compare
 * options, then the rounds of the window, then a last one.  A rank that failed still takes part in
 * each round, and all ranks fail alike.
 *
 * Called by users, on all ranks at once.
 */
#include <stdlib.h>
#include <string.h>

#include "../../window/window.h"
#include "../../util/options.h"
#include "../../comm/agree.h"
#include "../../comm/failure.h"
#include "../connect.h"
#include "alltoallv.h"

#define BYTES_MAX (1ull << 44)
#define PAGE 4096u

static_assert(BYTES_MAX < ORI_A2A_INLINE, "elements of a message in the word that tells of it");

int ori_alltoallv_check(struct oriel_alltoallv_request *a, const char *call)
{
	return ori_live_check(a, ORI_LIVE_ALLTOALLV, call);
}

/* ---- options --------------------------------------------------------------------------------- */

static int check_bytes(const char *what, uint64_t bytes)
{
	if (bytes <= BYTES_MAX)
		return 0;
	return ori_fail(ORIEL_ERANGE, "oriel_alltoallv_create: %s %llu, at most %llu", what,
			(unsigned long long)bytes, BYTES_MAX);
}

ORI_OPTIONS_NO_PADDING(struct oriel_alltoallv_options, queued);

static int take_options(const struct oriel_alltoallv_options *given,
			struct oriel_alltoallv_options *o)
{
	const struct oriel_alltoallv_options init = ORIEL_ALLTOALLV_OPTIONS_INIT;

	*o = init;
	if (!given)
		return ori_fail(ORIEL_EINVAL, "oriel_alltoallv_create: no options");
	return ori_options_take("oriel_alltoallv_create", "ORIEL_ALLTOALLV_OPTIONS_INIT", given, o,
				sizeof(*o));
}

/* Copies a setting of the options.  It is refused if no plan can have it. */
static int take_setting(const char *name, const struct oriel_alltoallv_setting *given,
			struct ori_a2a_setting *s)
{
	*s = (struct ori_a2a_setting){ given->blocks, given->warps, given->chunk_bytes };
	if (!(s->blocks | s->warps | s->chunk) || ori_tune_setting_fits(s))
		return 0;
	return ori_fail(ORIEL_ERANGE,
			"oriel_alltoallv_create: %s has %u blocks, %u warps and chunks of %llu "
			"bytes, must be 1 to 64, 1 to 32 and a multiple of 16 up to 1 GiB, or all "
			"0",
			name, s->blocks, s->warps, (unsigned long long)s->chunk);
}

static int check_options(const struct oriel_alltoallv_options *o)
{
	int err;

	if (!o->slot_bytes == !o->recv_bytes)
		return ori_fail(ORIEL_EINVAL,
				"oriel_alltoallv_create: one of slot_bytes (fixed slots) and "
				"recv_bytes (packed) must be given, not %s",
				o->slot_bytes ? "both" : "none");
	if (!o->elem_bytes)
		return ori_fail(ORIEL_EINVAL, "oriel_alltoallv_create: elements of 0 bytes");
	if (o->synchronised != 0 && o->synchronised != 1)
		return ori_fail(ORIEL_EINVAL,
				"oriel_alltoallv_create: synchronised is %d, must be 0 or 1",
				o->synchronised);
	if (o->reserved)
		return ori_fail(ORIEL_EINVAL,
				"oriel_alltoallv_create: reserved is %d, must be 0: use "
				"ORIEL_ALLTOALLV_OPTIONS_INIT",
				o->reserved);
	err = check_bytes("slot_bytes", o->slot_bytes);
	if (!err)
		err = check_bytes("recv_bytes", o->recv_bytes);
	if (!err)
		err = check_bytes("send_bytes", o->send_bytes);
	return err ? err : check_bytes("elem_bytes", o->elem_bytes);
}

static const char *options_differ(const struct oriel_alltoallv_options *a,
				  const struct oriel_alltoallv_options *b)
{
	if (a->slot_bytes != b->slot_bytes)
		return "slot_bytes";
	if (a->recv_bytes != b->recv_bytes)
		return "recv_bytes";
	if (a->elem_bytes != b->elem_bytes)
		return "elem_bytes";
	if (!a->synchronised != !b->synchronised)
		return "synchronised";
	if (a->first_count != b->first_count)
		return "first_count";
	return NULL;
}

/* What a rank sends in the round. */
struct create_record {
	struct oriel_alltoallv_options options;
	int32_t connected; /* it has queues to all its queued peers */
	int32_t pad;
};

/* The same status on all ranks: each rank compares all options with those of rank 0. */
static int compare_options(const struct create_record *all, int nranks)
{
	for (int r = 1; r < nranks; r++) {
		const char *field = options_differ(&all[0].options, &all[r].options);

		if (field)
			return ori_fail(ORIEL_EMISMATCH,
					"oriel_alltoallv_create: rank %d and rank 0 differ in "
					"option %s",
					r, field);
	}
	return 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static uint64_t place(uint64_t *end, uint64_t bytes, uint64_t align)
{
	uint64_t at = round_up(*end, align);

	*end = at + bytes;
	return at;
}

/*
 * Elements of a slot.  Offsets count elements, and a slot begins at a multiple of 16 bytes.  So a
 * slot is a whole number of both.  0: a slot has no room for one element.
 */
static uint64_t slot_elems(const struct oriel_alltoallv_options *o)
{
	uint64_t unit = o->elem_bytes, step = 16;

	if (o->slot_bytes < o->elem_bytes)
		return 0;
	for (; step > 1 && unit % 2 == 0; step /= 2)
		unit /= 2;
	return round_up((o->slot_bytes + o->elem_bytes - 1) / o->elem_bytes, step);
}

void ori_alltoallv_layout(const struct oriel_alltoallv_options *o, int nranks,
			  struct ori_a2a_layout *l)
{
	uint64_t n = (uint64_t)nranks, end = 0,
		 most = o->slot_bytes ? o->slot_bytes : o->recv_bytes;

	l->inbox_bytes = round_up(most < ORI_A2A_INBOX_BYTES ? most : ORI_A2A_INBOX_BYTES,
				  ORIEL_LINE_BYTES);
	l->row_stride = sizeof(struct ori_a2a_row) + 2 * l->inbox_bytes;
	l->slot_elems = slot_elems(o);
	l->slot_stride = l->slot_elems ? l->slot_elems * o->elem_bytes :
					 round_up(o->slot_bytes, 16);
	l->recv_bytes = o->slot_bytes ? n * l->slot_stride : o->recv_bytes;
	(void)place(&end, n * l->row_stride, ORIEL_LINE_BYTES); /* rows are at 0 */
	l->state = place(&end, sizeof(struct ori_a2a_state), ORIEL_LINE_BYTES);
	l->arrived = place(&end, n * sizeof(uint32_t), ORIEL_LINE_BYTES);
	l->handle = place(&end, sizeof(struct oriel_window_dev), ORIEL_LINE_BYTES);
	l->recv = place(&end, l->recv_bytes, PAGE);
	l->bytes = end;
}

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

static int prepare(struct oriel_alltoallv_request *a, const struct oriel_alltoallv_options *options,
		   struct ori_a2a_layout *l)
{
	int err = take_options(options, &a->options);

	if (!err)
		err = check_options(&a->options);
	if (!err)
		err = take_setting("mapped", &a->options.mapped, &a->given[ORI_PLAN_MAPPED]);
	if (!err)
		err = take_setting("queued", &a->options.queued, &a->given[ORI_PLAN_QUEUED]);
	if (err)
		return err;
	ori_alltoallv_layout(&a->options, a->comm->nranks, l);
	a->send_bytes = a->options.send_bytes ? a->options.send_bytes : l->recv_bytes;
	/* room for copied data: every peer's part starts at a multiple of 16 bytes */
	err = oriel_alloc(a->comm, a->send_bytes + 16u * (uint64_t)a->comm->nranks, &a->send);
	if (!err)
		err = oriel_alloc(a->comm, l->bytes, &a->memory);
	return err ? err : set_first_counts(a, l);
}

static int make_window(struct oriel_alltoallv_request *a, const struct ori_a2a_layout *l)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int err;

	o.signals = ORI_A2A_SIGNALS;
	o.counters = 0;
	o.barriers = 0;
	o.buffer = a->memory;
	o.bytes = l->bytes;
	o.first_count = a->options.first_count;
	err = oriel_window_create(a->comm, &o, &a->window);
	if (!err)
		ori_window_use_set(a->window, ORI_USE_ALLTOALLV);
	return err;
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

/* Called by a failed comm, which destroys window and memory itself. */
static void destroy_child(struct ori_child *child)
{
	ori_live_remove(child);
	free(child);
}

/* Frees a request, also an unfinished one.  The window, if any, is already destroyed. */
static void free_request(struct oriel_alltoallv_request *a)
{
	(void)oriel_free(a->comm, a->memory);
	(void)oriel_free(a->comm, a->send);
	free(a);
}

int oriel_alltoallv_destroy(struct oriel_alltoallv_request *a)
{
	const char *call = "oriel_alltoallv_destroy", *outer;
	int err;

	if (!a)
		return 0;
	err = ori_alltoallv_check(a, call);
	if (err)
		return err;
	/* No rank continues before all have arrived, so no rank writes here after this. */
	outer = ori_boot_serve_begin(a->comm->boot, call);
	err = oriel_window_destroy(a->window);
	ori_boot_serve_end(a->comm->boot, outer);
	if (err && !ori_comm_failed(a->comm))
		return err; /* the same on all ranks: requests differ and all stay */
	ori_child_remove(a->comm, &a->child);
	ori_live_remove(a);
	free_request(a);
	return err;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* The rounds after the memory is allocated.  On failure the window is destroyed again. */
static int meet(struct oriel_alltoallv_request *a, int status, const struct ori_a2a_layout *l,
		struct create_record *all)
{
	struct oriel_comm *c = a->comm;
	struct create_record mine = { .options = a->options,
				      .connected = ori_coll_is_connected(c) };
	int err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_ALLTOALLV_CREATE, status, &mine, all,
			    sizeof(mine));
	int connected = 1;

	if (!err)
		err = compare_options(all, c->nranks);
	for (int r = 0; !err && r < c->nranks; r++)
		connected &= all[r].connected;
	if (!err)
		err = ori_tune_agree(c);
	if (!err && !connected)
		err = ori_coll_connect(c, ORI_CALL_ALLTOALLV_CREATE);
	if (!err)
		err = make_window(a, l);
	if (err)
		return err;
	status = fill_args(a, l);
	if (!status)
		status = ori_live_add(a, ORI_LIVE_ALLTOALLV);
	err = ori_agree(c->boot, c->timeout_ns, ORI_CALL_ALLTOALLV_CREATE, status, NULL, NULL, 0);
	if (err) {
		ori_live_remove(a);
		(void)oriel_window_destroy(a->window);
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
