/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/api.c - public calls on a comm that exists: questions, small collectives, memory, launches.
 *
 * The top floor of src/comm: it checks arguments, and the files below do the work.  No file of the
 * folder calls it.  Creation and destruction are in comm.c and destroy.c, windows in src/window.
 *
 * User threads, any of them.
 */
#include <stdio.h>

#include "agree.h"
#include "failure.h"
#include "gone.h"
#include "kept.h"
#include "object.h"
#include "returned.h"
#include "settle.h"
#include "trace.h"

/* ---- questions ------------------------------------------------------------------------------ */

int oriel_comm_rank(struct oriel_comm *c)
{
	int err = ori_comm_check(c, "oriel_comm_rank");

	return err ? err : c->rank;
}

int oriel_comm_size(struct oriel_comm *c)
{
	int err = ori_comm_check(c, "oriel_comm_size");

	return err ? err : c->nranks;
}

int oriel_comm_nodes(struct oriel_comm *c)
{
	int err = ori_comm_check(c, "oriel_comm_nodes");

	return err ? err : c->topology.nnodes;
}

int oriel_comm_node(struct oriel_comm *c, int rank)
{
	int err = ori_comm_check_rank(c, rank, "oriel_comm_node");

	return err ? err : c->topology.node[rank];
}

int oriel_comm_node_rank(struct oriel_comm *c, int rank)
{
	int err = ori_comm_check_rank(c, rank, "oriel_comm_node_rank");

	return err ? err : c->topology.node_rank[rank];
}

int oriel_comm_node_size(struct oriel_comm *c, int rank)
{
	int err = ori_comm_check_rank(c, rank, "oriel_comm_node_size");

	return err ? err : c->topology.node_size[rank];
}

int oriel_comm_peer_kind(struct oriel_comm *c, int rank)
{
	int err = ori_comm_check_rank(c, rank, "oriel_comm_peer_kind");

	return err ? err : c->peers[rank].pair.kind;
}

const char *oriel_comm_peer_reason(struct oriel_comm *c, int rank)
{
	if (ori_comm_check_rank(c, rank, "oriel_comm_peer_reason"))
		return NULL;
	return c->peers[rank].pair.reason;
}

int oriel_comm_device(struct oriel_comm *c, struct oriel_comm_dev *dev)
{
	int err = ori_comm_check(c, "oriel_comm_device");

	if (err)
		return err;
	if (!dev)
		return ori_fail(ORIEL_EINVAL, "oriel_comm_device: no place for the handle");
	*dev = c->dev;
	return 0;
}

int oriel_comm_engine(struct oriel_comm *c, char *text, size_t bytes)
{
	int err = ori_comm_check(c, "oriel_comm_engine");
	char counts[256] = "";

	if (err)
		return err;
	if (!text || !bytes)
		return ori_fail(ORIEL_EINVAL, "oriel_comm_engine: no place for the line");
	if (!c->engine) {
		snprintf(text, bytes, "none");
		return 0;
	}
	c->engine->ops->statistics(c->engine, counts, sizeof(counts));
	snprintf(text, bytes, "%s%s%s", c->engine->ops->name, counts[0] ? ": " : "", counts);
	return 0;
}

int oriel_comm_status(struct oriel_comm *c)
{
	int err = ori_comm_check(c, "oriel_comm_status");

	return err ? err : ori_comm_ask(c);
}

/* ---- ranks together ------------------------------------------------------------------------- */

/* With a bad scope scope_boot() is the whole comm: all ranks learn of the error. */
static int check_scope(enum oriel_scope scope, const char *call)
{
	if (scope == ORIEL_WORLD || scope == ORIEL_NODE)
		return 0;
	return ori_fail(ORIEL_EINVAL, "%s: scope %d is not ORIEL_WORLD or ORIEL_NODE", call,
			(int)scope);
}

static struct oriel_boot *scope_boot(struct oriel_comm *c, enum oriel_scope scope)
{
	return scope == ORIEL_NODE ? c->node_boot : c->boot;
}

/* The limits are the same on every boot, so a program of thread ranks also runs as processes. */
static int check_gather(const struct oriel_boot *boot, const void *mine, const void *all,
			size_t bytes)
{
	if (bytes && (!mine || !all))
		return ori_fail(ORIEL_EINVAL, "oriel_comm_allgather: null buffer");
	if (bytes <= ORI_BOOT_PART_MAX && (size_t)boot->nranks * bytes <= ORI_BOOT_RESULT_MAX)
		return 0;
	return ori_fail(ORIEL_ERANGE,
			"oriel_comm_allgather: %zu bytes from each of %d ranks; at most %u from "
			"each and %u in all are possible; oriel_allgather() moves more",
			bytes, boot->nranks, ORI_BOOT_PART_MAX, ORI_BOOT_RESULT_MAX);
}

int oriel_comm_allgather(struct oriel_comm *c, enum oriel_scope scope, const void *mine, void *all,
			 size_t bytes)
{
	struct oriel_boot *boot;
	int status, err = ori_comm_check(c, "oriel_comm_allgather");

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	boot = scope_boot(c, scope);
	status = check_scope(scope, "oriel_comm_allgather");
	if (!status)
		status = check_gather(boot, mine, all, bytes);
	/* A small contribution travels in the record of the round that compares the calls. */
	if (bytes <= ORI_RECORD_BYTES)
		return ori_agree_bytes(boot, c->timeout_ns, ORI_CALL_ALLGATHER, status, mine, all,
				       status ? 0 : bytes, bytes);
	err = ori_agree_bytes(boot, c->timeout_ns, ORI_CALL_ALLGATHER, status, NULL, NULL, 0,
			      bytes);
	return err ? err :
		     ori_boot_round(boot, ori_call_name(ORI_CALL_ALLGATHER), mine, all, bytes,
				    c->timeout_ns);
}

int oriel_comm_barrier(struct oriel_comm *c, enum oriel_scope scope)
{
	int err = ori_comm_check(c, "oriel_comm_barrier");

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	err = ori_agree(scope_boot(c, scope), c->timeout_ns, ORI_CALL_BARRIER,
			check_scope(scope, "oriel_comm_barrier"), NULL, NULL, 0);
	ori_gone_check_all(c);
	return err;
}

int oriel_comm_abort(struct oriel_comm *c, int why)
{
	int err = ori_comm_check(c, "oriel_comm_abort");
	char text[128];

	if (err)
		return err;
	if (why >= 0)
		return ori_fail(ORIEL_EINVAL, "oriel_comm_abort: %d is not an error", why);
	snprintf(text, sizeof(text), "rank %d aborted the comm: %s", c->rank,
		 oriel_status_text(why));
	ori_log(ORI_LOG_ERROR, "%s", text);
	ori_comm_fail_all(c, ORIEL_EABORTED, text);
	return 0;
}

/* ---- memory --------------------------------------------------------------------------------- */

int oriel_alloc(struct oriel_comm *c, size_t bytes, void **ptr)
{
	struct ori_memory *m;
	int err = ori_comm_check(c, "oriel_alloc");

	if (err)
		return err;
	if (!ptr || !bytes)
		return ori_fail(ORIEL_EINVAL, "oriel_alloc: %s",
				ptr ? "0 bytes" : "no place for the pointer");
	ori_gone_check_all(c);
	err = ori_memory_alloc(c, bytes, &m);
	if (!err)
		*ptr = m->allocation.base;
	return err;
}

static int free_memory(struct oriel_comm *c, const char *call, const void *ptr)
{
	struct ori_memory *m = NULL;
	int err = ori_memory_claim(c, call, ptr, &m);

	if (err)
		return err;
	err = ori_comm_settle(c);
	/*
	 * If kernels or queues may still use the memory, it stays.  A failed comm frees it all the
	 * same: its queues are never used again.
	 */
	if (err && !ori_comm_ask(c)) {
		ori_memory_unclaim(c, m);
		return err;
	}
	ori_memory_end(c, m);
	return 0;
}

int oriel_free(struct oriel_comm *c, void *ptr)
{
	int err = ori_comm_check(c, "oriel_free");

	if (err || !ptr)
		return err;
	if (ori_memory_is_kept(c, ptr))
		return ori_fail(ORIEL_EBUSY, "oriel_free: %p is kept: call oriel_memory_drop", ptr);
	return free_memory(c, "oriel_free", ptr);
}

int oriel_memory_keep(struct oriel_comm *c, void *ptr, struct oriel_memory **memory)
{
	int err = ori_comm_check(c, "oriel_memory_keep");

	if (err)
		return err;
	if (!memory)
		return ori_fail(ORIEL_EINVAL, "oriel_memory_keep: no place for the handle");
	return ori_kept_make(c, "oriel_memory_keep", ptr, memory);
}

int oriel_memory_drop(struct oriel_memory *memory)
{
	int err;

	if (!memory)
		return 0;
	err = ori_live_check(memory, ORI_LIVE_MEMORY, "oriel_memory_drop");
	if (!err && memory->comm)
		err = free_memory(memory->comm, "oriel_memory_drop",
				  memory->memory->allocation.base);
	if (!err)
		ori_kept_free(memory);
	return err;
}

int oriel_copy(struct oriel_comm *c, void *to, const void *from, size_t bytes)
{
	int err = ori_comm_check(c, "oriel_copy");

	if (err || !bytes)
		return err;
	if (!to || !from)
		return ori_fail(ORIEL_EINVAL, "oriel_copy: null pointer");
	if (bytes > UINTPTR_MAX - (uintptr_t)to || bytes > UINTPTR_MAX - (uintptr_t)from)
		return ori_fail(ORIEL_ERANGE,
				"oriel_copy: %zu bytes from %p to %p pass the end of memory", bytes,
				from, to);
	return ori_comm_device_status(c, c->device->ops->copy(c->device, to, from, bytes));
}

/* ---- kernels -------------------------------------------------------------------------------- */

int oriel_launch(struct oriel_comm *c, const struct oriel_kernel *kernel, int nblocks, int nthreads,
		 const void *args, size_t args_bytes, void *stream)
{
	int err = ori_comm_check(c, "oriel_launch");
	struct ori_launch launch;
	uint64_t begin_ns;

	if (err)
		return err;
	if (!kernel || (!args && args_bytes))
		return ori_fail(ORIEL_EINVAL, "oriel_launch: no %s",
				kernel ? "arguments" : "kernel");
	if (!kernel->name)
		return ori_fail(ORIEL_EINVAL,
				"oriel_launch: the kernel has no name: ORIEL_KERNEL() defines one");
	if (kernel->args_bytes != args_bytes)
		return ori_fail(ORIEL_EINVAL,
				"oriel_launch: kernel \"%s\" takes %zu bytes of arguments, got %zu",
				kernel->name, kernel->args_bytes, args_bytes);
	if (nblocks < 1 || nthreads < 1)
		return ori_fail(ORIEL_ERANGE, "oriel_launch: %d blocks of %d threads", nblocks,
				nthreads);
	/* A kernel that posts cannot wake a sleeping engine thread, so it is woken now. */
	if (c->engine && c->device->separate)
		c->engine->ops->drive(c->engine);
	ori_returned_prepare(c, kernel, &launch);
	begin_ns = ori_trace_call_begin(c);
	err = c->device->ops->launch(c->device, kernel, nblocks, nthreads, args, args_bytes, stream,
				     &launch);
	ori_trace_call(c, begin_ns, kernel->name, 0, err);
	/* The failure that ended the kernel's calls becomes this thread's last error. */
	if (!err && !c->device->separate) {
		(void)ori_comm_failed(c);
		return ori_returned_note(c, kernel, &launch);
	}
	return ori_comm_device_status(c, err);
}

int oriel_comm_sync(struct oriel_comm *c, void *stream)
{
	int err = ori_comm_check(c, "oriel_comm_sync");

	if (!err)
		err = ori_comm_device_status(c, c->device->ops->sync(c->device, stream));
	return err ? err : ori_returned_take(c);
}

int oriel_kernels_add(const void *image, size_t bytes)
{
	return ori_device_images_add(image, bytes);
}
