/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/graphs.c - captured streams, graphs and their contents, and batches of copies.
 *
 * While a stream is captured, its work goes into a list instead of its queue.  A launch of the
 * graph puts a copy of the list into a queue.  A graph and its instances share one body.  The body
 * is freed with the last of them and then releases its user objects, as with a real driver.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define CAPTURE_ACTIVE 1
#define USER_OBJECT_MOVE 1u
#define USER_OBJECT_NO_SYNC 1u

struct object {
	void *ptr;
	void (*destroy)(void *);
	unsigned int refs;
	struct object *next; /* of the body that has it */
};

struct body {
	struct body *next; /* of those that are being captured */
	void *stream;
	struct fake_op *first, **last;
	struct object *objects;
	int refs; /* handles: the graph, its instances */
};

static struct body *captured; /* under fake_lock */
static int graphs_live, objects_live;

/* Wants fake_lock. */
static struct body *capture_of(void *stream)
{
	struct body *b = captured;

	while (b && b->stream != stream)
		b = b->next;
	return b;
}

int fake_captured(void *stream)
{
	return capture_of(stream) != NULL;
}

/* Called by fake_submit() with fake_lock: was the operation for a graph? */
int fake_capture(void *stream, struct fake_op *op)
{
	struct body *b = capture_of(stream);

	if (!b)
		return 0;
	if (op->record)
		fake_fault(
			"an event on a stream that is captured: work outside of the graph cannot be "
			"ordered with it");
	fake_uses_pend(op, -1);
	op->nmore = 0;
	op->next = NULL;
	*b->last = op;
	b->last = &op->next;
	return 1;
}

ori_cu_result cuStreamBeginCapture_v2(void *stream, int mode)
{
	struct body *b = calloc(1, sizeof(*b));

	(void)mode;
	if (!b)
		return ORI_CU_OUT_OF_MEMORY;
	b->stream = stream;
	b->last = &b->first;
	b->refs = 1;
	pthread_mutex_lock(&fake_lock);
	if (capture_of(stream))
		fake_fault("a stream is captured twice");
	b->next = captured;
	captured = b;
	graphs_live++;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

ori_cu_result cuStreamEndCapture(void *stream, void **graph)
{
	struct body **at = &captured, *b;

	pthread_mutex_lock(&fake_lock);
	b = capture_of(stream);
	if (!b)
		fake_fault("cuStreamEndCapture of a stream that is not captured");
	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	b->stream = NULL;
	pthread_mutex_unlock(&fake_lock);
	*graph = b;
	return 0;
}

ori_cu_result cuStreamIsCapturing(void *stream, int *status)
{
	pthread_mutex_lock(&fake_lock);
	*status = capture_of(stream) ? CAPTURE_ACTIVE : 0;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

ori_cu_result cuStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long long *id,
					void **graph, const void **dependencies, const void **edges,
					size_t *n)
{
	struct body *b;

	(void)id;
	(void)dependencies;
	(void)edges;
	(void)n;
	pthread_mutex_lock(&fake_lock);
	b = capture_of(stream);
	pthread_mutex_unlock(&fake_lock);
	*status = b ? CAPTURE_ACTIVE : 0;
	if (graph)
		*graph = b;
	return 0;
}

ori_cu_result cuUserObjectCreate(void **object, void *ptr, void (*destroy)(void *),
				 unsigned int refs, unsigned int flags)
{
	struct object *o = calloc(1, sizeof(*o));

	if (!o || refs != 1 || flags != USER_OBJECT_NO_SYNC)
		fake_fault("cuUserObjectCreate: %u references, flags %u", refs, flags);
	o->ptr = ptr;
	o->destroy = destroy;
	o->refs = refs;
	pthread_mutex_lock(&fake_lock);
	objects_live++;
	pthread_mutex_unlock(&fake_lock);
	*object = o;
	return 0;
}

ori_cu_result cuUserObjectRelease(void *object, unsigned int refs)
{
	struct object *o = object;

	o->refs -= refs;
	if (o->refs)
		return 0;
	o->destroy(o->ptr);
	free(o);
	pthread_mutex_lock(&fake_lock);
	objects_live--;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

ori_cu_result cuGraphRetainUserObject(void *graph, void *object, unsigned int refs,
				      unsigned int flags)
{
	struct object *o = object;
	struct body *b = graph;

	if (refs != 1 || flags != USER_OBJECT_MOVE)
		fake_fault("cuGraphRetainUserObject: %u references, flags %u", refs, flags);
	o->next = b->objects;
	b->objects = o;
	return 0;
}

ori_cu_result cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
	struct body *b = graph;

	(void)flags;
	pthread_mutex_lock(&fake_lock);
	b->refs++;
	pthread_mutex_unlock(&fake_lock);
	*exec = b;
	return 0;
}

ori_cu_result cuGraphLaunch(void *exec, void *stream)
{
	struct body *b = exec;

	fake_await_turn();
	for (struct fake_op *op = b->first; op; op = op->next)
		fake_submit(stream, fake_op_copy(op), "cuGraphLaunch");
	return 0;
}

static void drop(struct body *b)
{
	struct fake_op *op;
	struct object *o;
	int last;

	pthread_mutex_lock(&fake_lock);
	last = --b->refs == 0;
	graphs_live -= last;
	pthread_mutex_unlock(&fake_lock);
	if (!last)
		return;
	while ((op = b->first)) {
		b->first = op->next;
		fake_op_free(op);
	}
	while ((o = b->objects)) {
		b->objects = o->next;
		(void)cuUserObjectRelease(o, 1);
	}
	free(b);
}

ori_cu_result cuGraphExecDestroy(void *exec)
{
	drop(exec);
	return 0;
}

ori_cu_result cuGraphDestroy(void *graph)
{
	drop(graph);
	return 0;
}

ori_cu_result cuMemcpyBatchAsync_v2(ori_cu_ptr *to, ori_cu_ptr *from, size_t *bytes, size_t n,
				    struct ori_cu_copy_attributes *a, size_t *first,
				    size_t nattributes, void *stream)
{
	int err = 0, capturing = 0;

	(void)cuStreamIsCapturing(stream, &capturing);
	if (capturing || (uintptr_t)stream <= 1 || nattributes != 1 || first[0] ||
	    a->source_order != 1)
		return FAKE_INVALID_VALUE;
	for (size_t i = 0; i < n && !err; i++)
		err = cuMemcpyAsync(to[i], from[i], bytes[i], stream);
	return err;
}

int fake_graphs_live(char *text, size_t bytes)
{
	int live = graphs_live + objects_live;

	if (live)
		snprintf(text, bytes, " %d graphs, %d user objects;", graphs_live, objects_live);
	return live;
}
