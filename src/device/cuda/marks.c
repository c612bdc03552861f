/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/marks.c - marks in the order of a stream: the driver's events.
 *
 * Owns the events of a device.  An unused event is kept for the next mark, so a busy stream needs
 * no new ones.  Streams belong to the program and may be gone when a mark is queried.  So a mark is
 * recorded right behind its work.  A stream is identified by the driver's number, which is never
 * reused.
 *
 * If no event can be recorded, the stream is waited for, until the deadline: memory that its work
 * uses must not be freed.
 *
 * Any thread.  Nothing else here waits, and all calls are permitted while a stream is being
 * captured.
 */
#include <stdlib.h>

#include "../../util/util.h"
#include "cuda_device.h"

struct ori_mark {
	void *event;
	uint64_t stream; /* number of its stream */
	int refs;        /* under the device's marks_lock */
	struct ori_mark *next;
};

/*
 * The mark of work whose end will never be known: no event could be recorded, and the stream was
 * not idle in time.  All devices share it.  It is never freed, so it has no reference count.
 */
static struct ori_mark lost;

/*
 * Old drivers have no numbers.  There the handle is used, which may be reused: a stream is then
 * followed once too seldom.
 */
uint64_t ori_cuda_stream_number(struct ori_cuda_device *d, void *stream)
{
	const struct ori_cuda_stream_calls *cu = &d->gpu->cu->streams;
	unsigned long long id = 0;

	if (cu->cuStreamGetId && !cu->cuStreamGetId(stream, &id))
		return id;
	return (uint64_t)(uintptr_t)stream;
}

int ori_cuda_is_capturing(struct ori_cuda_device *d, void *stream, int *capturing)
{
	const struct ori_cuda_driver *cu = d->gpu->cu;
	int status = 0, err = cu->streams.cuStreamIsCapturing ?
				      cu->streams.cuStreamIsCapturing(stream, &status) :
				      0;

	*capturing = status != 0;
	return err ? ori_cuda_fail(err, "cuStreamIsCapturing", "a stream of GPU %d",
				   d->gpu->ordinal) :
		     0;
}

static struct ori_mark *take_free(struct ori_cuda_device *d)
{
	struct ori_mark *m;

	pthread_mutex_lock(&d->marks_lock);
	m = d->free_marks;
	if (m) {
		d->free_marks = m->next;
		m->refs = 1;
	}
	pthread_mutex_unlock(&d->marks_lock);
	return m;
}

static int make(struct ori_cuda_device *d, struct ori_mark **out)
{
	struct ori_mark *m = take_free(d);
	int err;

	*out = m;
	if (m)
		return 0;
	m = calloc(1, sizeof(*m));
	if (!m)
		return ori_fail(ORIEL_ENOMEM, "no memory for a mark on a stream");
	m->refs = 1;
	err = d->gpu->cu->cuEventCreate(&m->event, ORI_CU_EVENT_NO_TIMING);
	if (err) {
		free(m);
		return ori_cuda_fail(err, "cuEventCreate", "a mark on a stream of GPU %d",
				     d->gpu->ordinal);
	}
	*out = m;
	return 0;
}

struct ori_mark *ori_cuda_mark_share(struct ori_cuda_device *d, struct ori_mark *mark)
{
	if (!mark || mark == &lost)
		return mark;
	pthread_mutex_lock(&d->marks_lock);
	mark->refs++;
	pthread_mutex_unlock(&d->marks_lock);
	return mark;
}

/*
 * The stream has work, but no event could be recorded behind it.  When the stream is idle, no mark
 * is needed.  A stream that returns an error has no more work.
 */
static int wait_instead(struct ori_cuda_device *d, void *stream, struct ori_mark **mark)
{
	int err = ori_cuda_stream_poll(d->gpu->cu, stream, d->timeout_ns);

	*mark = NULL;
	if (err == ORI_CU_NOT_READY) {
		*mark = &lost;
		return ori_fail(ORIEL_ETIMEDOUT,
				"GPU %d: no event could be recorded behind work on a stream, and "
				"the work is not complete after %.1f s: its memory stays until "
				"the comm is destroyed (oriel_comm_abort, then destroy)",
				d->gpu->ordinal, (double)d->timeout_ns / 1e9);
	}
	return err ? ori_cuda_fail(err, "cuStreamQuery", "work on a stream of GPU %d failed",
				   d->gpu->ordinal) :
		     0;
}

/* Always takes another mark: others may hold the old one, which remains valid. */
int ori_cuda_mark_record(struct ori_cuda_device *d, void *stream, uint64_t number,
			 struct ori_mark **mark)
{
	struct ori_mark *before = *mark, *next = NULL;
	int err = make(d, &next);

	if (!err) {
		err = d->gpu->cu->cuEventRecord(next->event, stream);
		if (err)
			err = ori_cuda_fail(err, "cuEventRecord", "a mark on a stream of GPU %d",
					    d->gpu->ordinal);
		else
			next->stream = number;
	}
	if (err) {
		ori_cuda_unmark(&d->base, next);
		err = wait_instead(d, stream, &next);
	}
	*mark = next;
	ori_cuda_unmark(&d->base, before);
	return err;
}

int ori_cuda_mark_follow(struct ori_cuda_device *d, void *stream, const struct ori_mark *mark)
{
	int err;

	if (mark == &lost)
		return ori_fail(ORIEL_ETIMEDOUT,
				"GPU %d: cannot wait for work on a stream that was not complete "
				"in time and has no event (an earlier message says why)",
				d->gpu->ordinal);
	if (mark->stream == ori_cuda_stream_number(d, stream))
		return 0;
	err = d->gpu->cu->cuStreamWaitEvent(stream, mark->event, 0);
	return err ? ori_cuda_fail(err, "cuStreamWaitEvent", "a stream of GPU %d",
				   d->gpu->ordinal) :
		     0;
}

int ori_cuda_mark_passed(struct ori_cuda_device *d, const struct ori_mark *mark)
{
	return mark != &lost && d->gpu->cu->cuEventQuery(mark->event) != ORI_CU_NOT_READY;
}

/* ---- the table's entries --------------------------------------------------------------------- */

int ori_cuda_capturing(struct ori_device *device, void *stream, int *captured)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;
	int err;

	*captured = 0;
	if (!stream)
		return 0; /* the comm's own stream, which is never captured */
	err = ori_cuda_enter(d->gpu, &scope);
	if (err)
		return err;
	err = ori_cuda_is_capturing(d, stream, captured);
	ori_cuda_leave(&scope);
	return err;
}

int ori_cuda_mark(struct ori_device *device, void *stream, struct ori_mark **mark)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;
	int captured = 0, err;

	stream = stream ? stream : d->stream;
	err = ori_cuda_enter(d->gpu, &scope);
	if (err)
		return err;
	err = ori_cuda_is_capturing(d, stream, &captured);
	if (!err && !captured)
		err = ori_cuda_mark_record(d, stream, ori_cuda_stream_number(d, stream), mark);
	ori_cuda_leave(&scope);
	return err;
}

int ori_cuda_follow(struct ori_device *device, void *stream, const struct ori_mark *mark)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;
	int captured = 0, err;

	if (!mark)
		return 0;
	stream = stream ? stream : d->stream;
	err = ori_cuda_enter(d->gpu, &scope);
	if (err)
		return err;
	err = ori_cuda_is_capturing(d, stream, &captured);
	if (!err && !captured)
		err = ori_cuda_mark_follow(d, stream, mark);
	ori_cuda_leave(&scope);
	return err;
}

int ori_cuda_passed(struct ori_device *device, const struct ori_mark *mark)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;
	int passed;

	if (!mark || ori_cuda_enter(d->gpu, &scope))
		return 1;
	passed = ori_cuda_mark_passed(d, mark);
	ori_cuda_leave(&scope);
	return passed;
}

void ori_cuda_unmark(struct ori_device *device, struct ori_mark *mark)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;

	if (!mark || mark == &lost)
		return;
	pthread_mutex_lock(&d->marks_lock);
	if (--mark->refs == 0) {
		mark->next = d->free_marks;
		d->free_marks = mark;
	}
	pthread_mutex_unlock(&d->marks_lock);
}

void ori_cuda_marks_close(struct ori_cuda_device *d)
{
	struct ori_mark *m;

	while ((m = take_free(d))) {
		(void)d->gpu->cu->cuEventDestroy(m->event);
		free(m);
	}
	pthread_mutex_destroy(&d->marks_lock);
}
