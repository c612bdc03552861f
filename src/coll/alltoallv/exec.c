/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/alltoallv/exec.c - one call of an all-to-all-v request: arguments, plan, launch, status.
 *
 * On the CPU the call runs on the caller's thread, and on workers if the plan has more blocks.  It
 * returns the status of the call.  On a separate device it is a kernel on the caller's stream.
 * Nothing here waits for that kernel, and everything is allowed while the stream is captured.
 *
 * Called by users on any thread, one call at a time per request.
 */
#include <stdio.h>
#include <string.h>

#include <oriel/device.h>

#include "../../util/options.h"
#include "../../comm/control.h"
#include "../../comm/failure.h"
#include "../../comm/trace.h"
#include "alltoallv.h"

/* ---- arguments ------------------------------------------------------------------------------- */

ORI_OPTIONS_NO_PADDING(struct oriel_alltoallv_args, expect_bytes);

static int take_args(const struct oriel_alltoallv_args *given, struct oriel_alltoallv_args *in)
{
	int err;

	if (!given)
		return ori_fail(ORIEL_EINVAL, "oriel_alltoallv_exec: no arguments");
	err = ori_options_take("oriel_alltoallv_exec", "ORIEL_ALLTOALLV_ARGS_INIT", given, in,
			       sizeof(*in));
	if (!err && !in->send_sizes)
		err = ori_fail(ORIEL_EINVAL, "oriel_alltoallv_exec: no send_sizes");
	return err;
}

static void set_pointers(struct oriel_alltoallv_request *a, const struct oriel_alltoallv_args *in)
{
	const uint8_t *base = a->send, *send = in->send ? in->send : base;
	struct ori_a2a_args *args = &a->args;
	uint64_t off = (uint64_t)((uintptr_t)send - (uintptr_t)base);

	args->send = send;
	args->copy_in = off >= a->send_bytes;
	args->staging_off = args->copy_in ? 0 : off;
	args->send_elems = (a->send_bytes - args->staging_off) / a->options.elem_bytes;
	args->send_sizes = in->send_sizes;
	args->send_offsets = in->send_offsets;
	args->recv_sizes = in->recv_sizes;
	args->recv_offsets = in->recv_offsets;
}

/* ---- plan ------------------------------------------------------------------------------------ */

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t at_least_one(uint32_t n)
{
	return n ? n : 1;
}

/*
 * May blocks follow the sizes?  A message can then have as many blocks as there are items, which
 * must be fewer than `came` counts.
 */
static int follows_sizes(const struct oriel_alltoallv_request *a)
{
	uint64_t items = (uint64_t)a->comm->nranks * (a->args.most_blocks + 1);

	return a->plan.spread && !a->handle.queued_peers && items < 1u << ORI_A2A_CAME_SHIFT;
}

/* The smallest kernel variant that fits.  block_each: each item may have its own block. */
static int kernel_for(const struct oriel_alltoallv_request *a, int block_each)
{
	if (a->handle.queued_peers)
		return ORI_A2A_KERNEL_MIXED;
	if (!block_each || !a->options.slot_bytes)
		return ORI_A2A_KERNEL_MAPPED;
	return follows_sizes(a) ? ORI_A2A_KERNEL_SHARES : ORI_A2A_KERNEL_SLOTS;
}

/*
 * One block per item, or as many as can be resident together with those of other ranks.  In the
 * second case blocks execute several items in turn.  more: items that are useful only if there is
 * room for their blocks.
 */
static int set_grid_separate(struct oriel_alltoallv_request *a, uint32_t warps, uint32_t more)
{
	uint32_t items = a->args.items;
	int resident = 0, err = 0;

	a->threads = 32 * (int)warps < ORI_A2A_THREADS ? 32 * (int)warps : ORI_A2A_THREADS;
	for (int block_each = 1; !err && block_each >= 0 && resident < (int)items; block_each--) {
		a->kernel = ori_a2a_kernel(kernel_for(a, block_each));
		err = a->comm->device->ops->resident(a->comm->device, a->kernel, a->threads,
						     &resident);
	}
	for (; more && resident > (int)items; more--)
		items++;
	a->args.items = items;
	a->grid = resident < (int)items ? resident : (int)items;
	/* with less than one, the launch refuses and gives the reason */
	a->grid = a->grid > 0 ? a->grid : 1;
	return err;
}

static void set_grid_cpu(struct oriel_alltoallv_request *a, uint32_t threads, uint32_t more)
{
	uint32_t cores = at_least_one(a->plan.cores), items = a->args.items + more;

	a->args.items = items;
	a->threads = (int)(threads < 32 ? threads : 32);
	a->grid = (int)(cores < items ? cores : items);
	a->kernel = ori_a2a_kernel(kernel_for(a, (uint32_t)a->grid == items));
}

static int apply_plan(struct oriel_alltoallv_request *a)
{
	const struct ori_a2a_plan *plan = &a->plan;
	struct ori_a2a_args *args = &a->args;
	uint32_t n = (uint32_t)a->comm->nranks, queued = a->handle.queued_peers, warps = 1;
	int err = 0;

	args->most_blocks = 1;
	for (int kind = 0; kind < ORI_PLAN_KINDS; kind++) {
		args->blocks[kind] = at_least_one(plan->kind[kind].blocks);
		args->chunk[kind] = plan->kind[kind].chunk ? plan->kind[kind].chunk : 1u << 20;
		/* the mapped kind is always used: a rank is its own mapped peer */
		if (kind == ORI_PLAN_QUEUED && !queued)
			continue;
		if (args->blocks[kind] > args->most_blocks)
			args->most_blocks = args->blocks[kind];
		if (plan->kind[kind].warps > warps)
			warps = plan->kind[kind].warps;
	}
	args->small = plan->small < args->inbox_bytes ? plan->small : (uint32_t)args->inbox_bytes;
	args->early = (a->plan_forced ? a->options.slot_bytes : a->plan_bytes) > args->small;
	args->shares = 0;
	args->items = n * args->most_blocks;
	if (a->comm->device->separate)
		err = set_grid_separate(a, warps, follows_sizes(a) ? n : 0);
	else
		set_grid_cpu(a, warps, follows_sizes(a) ? n : 0);
	/* so that all messages together have at most as many blocks as there are items */
	if (follows_sizes(a))
		args->shares = least(n * args->most_blocks, args->items - n + 1);
	args->counted = (uint32_t)a->grid;
	if ((uint32_t)a->grid == args->items && !args->shares)
		args->counted = (n - queued) * args->blocks[ORI_PLAN_MAPPED] +
				queued * args->blocks[ORI_PLAN_QUEUED];
	return err;
}

/* The largest size for one peer.  On a separate device only the caller knows it. */
static uint64_t expected_bytes(const struct oriel_alltoallv_request *a,
			       const struct oriel_alltoallv_args *in)
{
	uint64_t most = 0;

	if (in->expect_bytes)
		return in->expect_bytes;
	if (a->comm->device->separate) {
		most = a->options.slot_bytes ? a->options.slot_bytes :
					       a->options.recv_bytes / (uint64_t)a->comm->nranks;
		return a->options.expect_bytes ? a->options.expect_bytes : most;
	}
	for (int r = 0; r < a->comm->nranks; r++)
		if (in->send_sizes[r] > most)
			most = in->send_sizes[r];
	return most <= a->args.most_elems ? most * a->options.elem_bytes : a->options.slot_bytes;
}

static int choose_plan(struct oriel_alltoallv_request *a, const struct oriel_alltoallv_args *in)
{
	uint64_t bytes;
	int err;

	if (a->plan_forced)
		return 0;
	bytes = expected_bytes(a, in);
	if (a->plan_known && bytes == a->plan_bytes)
		return 0;
	err = ori_tune_plan_with(a->comm, bytes, a->given, &a->plan);
	if (err)
		return err;
	a->plan_bytes = bytes;
	err = apply_plan(a);
	a->plan_known = !err;
	return err;
}

int ori_alltoallv_plan_set(struct oriel_alltoallv_request *a, const struct ori_a2a_plan *plan)
{
	int err = ori_alltoallv_check(a, "ori_alltoallv_plan_set");

	if (err)
		return err;
	a->plan_forced = plan != NULL;
	a->plan_known = 0;
	if (!plan)
		return 0;
	a->plan = *plan;
	return apply_plan(a);
}

/* What runs for the plan of `a`: apply_plan() has cut it to what this rank can run at once. */
static void tell_grid(const struct oriel_alltoallv_request *a, char *text, size_t bytes)
{
	size_t n = strlen(text);

	if (a->args.small < a->plan.small && n < bytes)
		n += (size_t)snprintf(text + n, bytes - n, "; messages up to %u bytes are small",
				      a->args.small);
	if (n < bytes)
		(void)snprintf(text + n, bytes - n, "; runs %d %s of %d %s: %s%s", a->grid,
			       a->grid == 1 ? "block" : "blocks", a->threads,
			       a->threads == 1 ? "thread" : "threads", a->kernel->name,
			       a->args.shares ? ", blocks follow the sizes if these differ" : "");
}

int oriel_alltoallv_explain(struct oriel_alltoallv_request *a, uint64_t bytes_per_peer, char *text,
			    size_t bytes)
{
	int err = ori_alltoallv_check(a, "oriel_alltoallv_explain");
	struct oriel_alltoallv_request look;

	if (err)
		return err;
	if (!text || !bytes)
		return ori_fail(ORIEL_EINVAL, "oriel_alltoallv_explain: no place for the text");
	/* not of the request itself: its next call keeps the plan that it has */
	look = *a;
	look.plan_bytes = bytes_per_peer;
	look.plan_forced = 0;
	err = ori_tune_plan_with(a->comm, bytes_per_peer, a->given, &look.plan);
	if (!err)
		err = apply_plan(&look);
	if (!err)
		err = ori_tune_explain_with(a->comm, bytes_per_peer, a->given, text, bytes);
	if (!err)
		tell_grid(&look, text, bytes);
	return err;
}

/* ---- status ---------------------------------------------------------------------------------- */

/* CPU: logs what was wrong with this rank's sizes, if this rank caused the refusal. */
static int refuse_own(const struct oriel_alltoallv_request *a)
{
	const struct ori_a2a_args *args = &a->args;
	unsigned long long total = 0, count, off;

	for (int r = 0; r < a->comm->nranks; r++) {
		count = args->send_sizes[r];
		off = args->send_offsets ? args->send_offsets[r] : total;
		if (count > args->most_elems)
			return ori_fail(ORIEL_ERANGE,
					"oriel_alltoallv_exec: %llu elements for rank %d, at most "
					"%llu",
					count, r, (unsigned long long)args->most_elems);
		if (off > args->send_elems || count > args->send_elems - off)
			return ori_fail(ORIEL_ERANGE,
					"oriel_alltoallv_exec: %llu elements at %llu for rank %d, "
					"the send buffer ends at %llu",
					count, off, r, (unsigned long long)args->send_elems);
		total += count;
	}
	return ori_fail(ORIEL_ERANGE,
			"oriel_alltoallv_exec: more is sent here, or copied to the send buffer, "
			"than there is room for (receive buffer %llu bytes, send buffer %llu)",
			(unsigned long long)(args->recv_elems * args->elem_bytes),
			(unsigned long long)a->send_bytes);
}

static int refused(const struct oriel_alltoallv_request *a, uint64_t word)
{
	int rank = ORIEL_FAILURE_RANK(word), status = ORIEL_FAILURE_STATUS(word);

	if (rank == a->comm->rank && !a->comm->device->separate)
		return refuse_own(a);
	return ori_fail(status,
			"oriel_alltoallv_exec: rank %d refused a call: sizes or offsets beyond the "
			"capacity",
			rank);
}

/* Reads and clears the word, so that the next call starts without it. */
static int take_refusal(struct oriel_alltoallv_request *a)
{
	uint64_t *word = &a->args.state->refused, value;

	/* If the device cannot copy any more, the comm has failed and says why. */
	(void)ori_comm_device_status(a->comm, ori_control_load(a->comm, word, &value));
	if (!value)
		return 0;
	(void)ori_control_store(a->comm, word, 0);
	return refused(a, value);
}

int oriel_alltoallv_status(struct oriel_alltoallv_request *a)
{
	int err = ori_alltoallv_check(a, "oriel_alltoallv_status");

	if (!err)
		err = oriel_window_status(a->window);
	return err ? err : take_refusal(a);
}

/* Leaves room for comms that were created on the GPU after the plan was made. */
static int fit_grid(struct oriel_alltoallv_request *a)
{
	int resident = 0, err;

	err = a->comm->device->ops->resident(a->comm->device, a->kernel, a->threads, &resident);
	return err || resident >= a->grid || a->grid == 1 ? err : apply_plan(a);
}

/* As oriel_launch(), together with other kernels that wait for ranks. */
static int launch_separate(struct oriel_alltoallv_request *a, void *stream)
{
	struct oriel_comm *c = a->comm;
	int err = fit_grid(a);

	if (err)
		return err;
	/* a posting kernel cannot wake the engine, so the engine must already be polling */
	if (c->engine)
		c->engine->ops->drive(c->engine);
	err = c->device->streams->launch(c->device, a->kernel, a->grid, a->threads, &a->args,
					 sizeof(a->args), stream, NULL);
	return ori_comm_device_status(c, err);
}

int oriel_alltoallv_exec(struct oriel_alltoallv_request *a,
			 const struct oriel_alltoallv_args *given, void *stream)
{
	struct oriel_alltoallv_args in = ORIEL_ALLTOALLV_ARGS_INIT;
	int err = ori_alltoallv_check(a, "oriel_alltoallv_exec");
	uint64_t begin_ns;

	if (!err)
		err = take_args(given, &in);
	if (err)
		return err;
	set_pointers(a, &in);
	err = choose_plan(a, &in);
	begin_ns = ori_trace_call_begin(a->comm);
	if (!err && a->comm->device->separate) {
		err = launch_separate(a, stream);
		ori_trace_call(a->comm, begin_ns, "all-to-all-v", 0, err);
		return err;
	}
	if (!err)
		err = oriel_launch(a->comm, a->kernel, a->grid, a->threads, &a->args,
				   sizeof(a->args), stream);
	ori_trace_call(a->comm, begin_ns, "all-to-all-v", 0, err);
	if (err)
		return err;
	/* relaxed: the launch has ended, so nothing writes these words any more */
	if (ori_failures_any(ori_failures_of_window(&a->handle)))
		return oriel_window_status(a->window);
	return a->args.state->refused ? take_refusal(a) : 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

void *oriel_alltoallv_send_buffer(struct oriel_alltoallv_request *a)
{
	return ori_alltoallv_check(a, "oriel_alltoallv_send_buffer") ? NULL : a->send;
}

void *oriel_alltoallv_recv_buffer(struct oriel_alltoallv_request *a)
{
	if (ori_alltoallv_check(a, "oriel_alltoallv_recv_buffer"))
		return NULL;
	return a->args.recv;
}

void *oriel_alltoallv_slot(struct oriel_alltoallv_request *a, int rank)
{
	if (ori_alltoallv_check(a, "oriel_alltoallv_slot") ||
	    ori_comm_check_rank(a->comm, rank, "oriel_alltoallv_slot") || !a->args.slot_stride)
		return NULL;
	return a->args.recv + (uint64_t)rank * a->args.slot_stride;
}
