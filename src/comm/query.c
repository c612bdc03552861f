/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/query.c - questions about a comm, and its small host-side collectives.
 */
#include <stdio.h>
#include <string.h>

#include "comm.h"

int ori_comm_check(struct oriel_comm *c, const char *call)
{
	return ori_live_check(c, ORI_LIVE_COMM, call);
}

int ori_comm_check_rank(struct oriel_comm *c, int rank, const char *call)
{
	int err = ori_comm_check(c, call);

	if (!err && (rank < 0 || rank >= c->nranks))
		err = ori_fail(ORIEL_ERANGE, "%s: rank %d does not exist (ranks are 0 to %d)", call,
			       rank, c->nranks - 1);
	return err;
}

void ori_child_add(struct oriel_comm *c, struct ori_child *child)
{
	pthread_mutex_lock(&c->lock);
	child->next = c->children;
	c->children = child;
	pthread_mutex_unlock(&c->lock);
}

void ori_child_unlink(struct oriel_comm *c, struct ori_child *child)
{
	for (struct ori_child **at = &c->children; *at; at = &(*at)->next)
		if (*at == child) {
			*at = child->next;
			break;
		}
}

void ori_child_remove(struct oriel_comm *c, struct ori_child *child)
{
	pthread_mutex_lock(&c->lock);
	ori_child_unlink(c, child);
	pthread_mutex_unlock(&c->lock);
}

void ori_attachment_add(struct oriel_comm *c, struct ori_attachment *a)
{
	pthread_mutex_lock(&c->lock);
	a->next = c->attachments;
	c->attachments = a;
	pthread_mutex_unlock(&c->lock);
}

struct ori_attachment *ori_attachment_find(struct oriel_comm *c,
					   void (*destroy)(struct ori_attachment *))
{
	struct ori_attachment *a;

	pthread_mutex_lock(&c->lock);
	for (a = c->attachments; a && a->destroy != destroy; a = a->next)
		;
	pthread_mutex_unlock(&c->lock);
	return a;
}

/* Nothing is taken off the list before the comm goes, so it may be walked without the lock. */
static struct ori_attachment *first_attachment(struct oriel_comm *c)
{
	struct ori_attachment *first;

	pthread_mutex_lock(&c->lock);
	first = c->attachments;
	pthread_mutex_unlock(&c->lock);
	return first;
}

void ori_attachments_reap(struct oriel_comm *c)
{
	for (struct ori_attachment *a = first_attachment(c); a; a = a->next)
		if (a->reap)
			a->reap(a);
}

void ori_attachments_forget(struct oriel_comm *c, const void *owner)
{
	for (struct ori_attachment *a = first_attachment(c); a; a = a->next)
		a->forget(a, owner);
}

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

/* A bad scope is told to the whole comm: nobody knows whom else to tell. */
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

/* On every boot alike: what works with thread ranks is to work with processes. */
static int check_gather(const struct oriel_boot *boot, const void *mine, const void *all,
			size_t bytes)
{
	if (bytes && (!mine || !all))
		return ori_fail(ORIEL_EINVAL, "oriel_comm_allgather: null buffer");
	if (bytes <= ORI_BOOT_PART_MAX && (size_t)boot->nranks * bytes <= ORI_BOOT_RESULT_MAX)
		return 0;
	return ori_fail(ORIEL_ERANGE,
			"oriel_comm_allgather: %zu bytes from each of %d ranks; at most %u from each "
			"and %u in all are possible; oriel_allgather() moves more",
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
	/* What fits a record goes with the round in which ranks learn that all are well. */
	if (bytes <= ORI_RECORD_BYTES)
		return ori_agree_bytes(boot, c->timeout_ns, ORI_CALL_ALLGATHER, status, mine, all,
				       status ? 0 : bytes, bytes);
	err = ori_agree_bytes(boot, c->timeout_ns, ORI_CALL_ALLGATHER, status, NULL, NULL, 0,
			      bytes);
	return err ? err : boot->ops->allgather(boot, mine, all, bytes, c->timeout_ns);
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

int oriel_launch(struct oriel_comm *c, const struct oriel_kernel *kernel, int nblocks, int nthreads,
		 const void *args, size_t args_bytes, void *stream)
{
	int err = ori_comm_check(c, "oriel_launch");
	struct ori_launch launch;

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
	/* A kernel that posts wakes nobody: the engine of its queues should be looking. */
	if (c->engine && c->device->separate)
		c->engine->ops->drive(c->engine);
	ori_returned_prepare(c, kernel, &launch);
	err = c->device->ops->launch(c->device, kernel, nblocks, nthreads, args, args_bytes, stream,
				     &launch);
	/* What ended the kernel's calls is this thread's last error, wherever it was decided. */
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

int oriel_kernels_add(const void *image, size_t bytes)
{
	return ori_cuda_images_add(image, bytes);
}
