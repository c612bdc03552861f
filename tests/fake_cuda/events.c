/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/events.c - events: positions in a stream, and streams that wait for them.
 *
 * Each record of an event is its own object.  The stream marks it as passed when it reaches it.  A
 * wait refers to the last record at the time of the call, as with a real driver.  A later record of
 * the event, on any stream, neither delays nor ends the wait.  An event without a record delays no
 * stream.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fake.h"

struct fake_record {
	int uses; /* the event's, and one for each operation that names it */
	int passed;
};

struct event {
	struct event *next;
	struct fake_record *last;
};

static struct event *all_events; /* under fake_lock, like records */
static pthread_cond_t one_passed = PTHREAD_COND_INITIALIZER;

/* Wants fake_lock, as all below. */
static struct event *event_check(void *event, const char *call)
{
	struct event *e = all_events;

	while (e && e != event)
		e = e->next;
	if (!e)
		fake_fault("%s of %p, which is no event or was destroyed", call, event);
	return e;
}

static void drop(struct fake_record *r)
{
	if (r && --r->uses == 0)
		free(r);
}

void fake_record_run(struct fake_op *op)
{
	struct fake_record *r = op->record;

	pthread_mutex_lock(&fake_lock);
	if (op->kind == FAKE_OP_RECORD) {
		r->passed = 1;
		pthread_cond_broadcast(&one_passed);
	}
	while (!r->passed)
		pthread_cond_wait(&one_passed, &fake_lock);
	drop(r);
	pthread_mutex_unlock(&fake_lock);
}

static struct fake_op *op_new(enum fake_op_kind kind, enum fake_call call, struct fake_record *r)
{
	struct fake_op *op = calloc(1, sizeof(*op));

	if (!op)
		fake_fault("no memory for work on a stream");
	op->kind = kind;
	op->call = call;
	op->record = r;
	r->uses++;
	return op;
}

ori_cu_result cuEventCreate(void **event, unsigned int flags)
{
	int err = fake_enter_context(FAKE_cuEventCreate, NULL);
	struct event *e;

	if (err)
		return err;
	if (flags != ORI_CU_EVENT_NO_TIMING)
		fake_fault("an event that takes the time costs more than the library wants");
	e = calloc(1, sizeof(*e));
	if (!e)
		return ORI_CU_OUT_OF_MEMORY;
	pthread_mutex_lock(&fake_lock);
	e->next = all_events;
	all_events = e;
	pthread_mutex_unlock(&fake_lock);
	*event = e;
	return 0;
}

ori_cu_result cuEventDestroy_v2(void *event)
{
	int err = fake_enter(FAKE_cuEventDestroy);
	struct event **at = &all_events, *e;

	if (fake_refuses(err))
		return err;
	pthread_mutex_lock(&fake_lock);
	e = event_check(event, "cuEventDestroy");
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	drop(e->last);
	free(e);
	pthread_mutex_unlock(&fake_lock);
	return err;
}

ori_cu_result cuEventRecord(void *event, void *stream)
{
	int err = fake_enter_context(FAKE_cuEventRecord, NULL);
	struct fake_record *r;
	struct fake_op *op;
	struct event *e;

	if (!err)
		err = fake_broken();
	if (err)
		return err;
	r = calloc(1, sizeof(*r));
	if (!r)
		fake_fault("no memory for an event");
	pthread_mutex_lock(&fake_lock);
	e = event_check(event, "cuEventRecord");
	drop(e->last);
	e->last = r;
	r->uses = 1;
	op = op_new(FAKE_OP_RECORD, FAKE_cuEventRecord, r);
	pthread_mutex_unlock(&fake_lock);
	fake_submit(stream, op, "cuEventRecord");
	return 0;
}

ori_cu_result cuStreamWaitEvent(void *stream, void *event, unsigned int flags)
{
	int err = fake_enter_context(FAKE_cuStreamWaitEvent, NULL);
	struct fake_op *op = NULL;
	struct event *e;

	if (!err)
		err = fake_broken();
	if (err || flags)
		return err ? err : FAKE_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	e = event_check(event, "cuStreamWaitEvent");
	if (e->last)
		op = op_new(FAKE_OP_WAIT, FAKE_cuStreamWaitEvent, e->last);
	pthread_mutex_unlock(&fake_lock);
	if (op)
		fake_submit(stream, op, "cuStreamWaitEvent");
	return 0;
}

ori_cu_result cuEventQuery(void *event)
{
	int err = fake_enter(FAKE_cuEventQuery), pending;
	struct event *e;

	if (fake_refuses(err))
		return err;
	if (!err)
		err = fake_broken();
	pthread_mutex_lock(&fake_lock);
	e = event_check(event, "cuEventQuery");
	pending = e->last && !e->last->passed;
	pthread_mutex_unlock(&fake_lock);
	return err ? err : pending ? ORI_CU_NOT_READY : 0;
}

int fake_events_live(char *text, size_t bytes)
{
	int live = 0;

	for (struct event *e = all_events; e; e = e->next)
		live++;
	if (live)
		snprintf(text, bytes, " %d events;", live);
	return live;
}
