/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_cuda/streams.c - streams: a queue and a thread that executes it in order; copies.
 *
 * A call that submits work returns at once, as on a GPU.  So code that forgets to wait reads old
 * data.  Streams wait for each other only through events: all are non-blocking streams.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "util/util.h"

#define HOLE_BYTES ((size_t)1 << 20)
#define LATE_MOST_US 3000
#define LATE_SOME_US 100

struct fake_stream {
	struct fake_stream *next;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	struct fake_op *first, **last;
	unsigned long long id; /* no other stream has had it */
	uint64_t turns;        /* pieces of work so far; by the thread */
	int busy;              /* an operation is being executed */
	int ending;            /* the thread ends when the queue is empty */
	int alone;             /* and frees the stream: nobody joins it */
};

static struct fake_stream *all_streams;
static unsigned long long last_id;

/* ---- the thread of a stream ------------------------------------------------------------------ */

/* A word is written in one piece, after all earlier bytes: kernels poll such words. */
static void copy(char *to, const char *from, size_t bytes)
{
	uint64_t word;

	if (bytes != sizeof(word) || ((uintptr_t)to | (uintptr_t)from) % sizeof(word)) {
		memmove(to, from, bytes);
		return;
	}
	/*
	 * [F1] release and acquire; partners are the loads and stores of kernels ([SIG2], [SIG1]).
	 */
	word = __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
	__atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
}

/* Zeros in large amounts are a hole: writing them would take longer than a GPU does. */
static void fill(struct fake_op *op)
{
	const struct fake_phys *p = op->uses[0]->phys;
	off_t at = op->to - p->alias;

	if (op->value || op->bytes < HOLE_BYTES ||
	    fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, (off_t)op->bytes))
		memset(op->to, op->value, op->bytes);
}

/*
 * Knob late: how long the nth piece of work of a stream is kept back.  Most are not, some so long
 * that other streams do a good deal meanwhile.  The same for the same seed, whatever the machine
 * does.
 */
static unsigned int late_us(const struct fake_stream *s)
{
	uint64_t x = (uint64_t)fake_knobs.late * 0x9e3779b97f4a7c15u + s->id * 0xbf58476d1ce4e5b9u +
		     s->turns;

	if (!fake_knobs.late)
		return 0;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	if (x % 16 == 0)
		return (unsigned int)(x >> 32) % LATE_MOST_US;
	return x % 4 ? 0 : (unsigned int)(x >> 32) % LATE_SOME_US;
}

static void execute(struct fake_op *op)
{
	fake_await_release(op->call);
	fake_sleep_us(op->slow_us);
	switch (op->kind) {
	case FAKE_OP_COPY:
		copy(op->to, op->from, op->bytes);
		break;
	case FAKE_OP_SET:
		fill(op);
		break;
	case FAKE_OP_KERNEL:
		fake_run_kernel(op);
		break;
	case FAKE_OP_RECORD:
	case FAKE_OP_WAIT:
		fake_record_run(op);
		break;
	}
	pthread_mutex_lock(&fake_lock);
	fake_uses_pend(op, -1);
	pthread_mutex_unlock(&fake_lock);
	if (op->kind == FAKE_OP_KERNEL)
		fake_kernel_counts(-1);
	fake_op_free(op);
}

static void stream_free(struct fake_stream *s)
{
	pthread_cond_destroy(&s->moved);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void *stream_main(void *arg)
{
	struct fake_stream *s = arg;
	struct fake_op *op;
	int alone;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		while (!s->first && !s->ending)
			pthread_cond_wait(&s->moved, &s->lock);
		op = s->first;
		if (!op)
			break;
		s->first = op->next;
		if (!s->first)
			s->last = &s->first;
		s->busy = 1;
		s->turns++;
		pthread_mutex_unlock(&s->lock);
		fake_sleep_us(late_us(s));
		execute(op);
		pthread_mutex_lock(&s->lock);
		s->busy = 0;
	}
	alone = s->alone;
	pthread_mutex_unlock(&s->lock);
	if (alone)
		stream_free(s);
	return NULL;
}

/* ---- streams --------------------------------------------------------------------------------- */

static void *default_stream;

void fake_cuda_default_stream(void *stream)
{
	pthread_mutex_lock(&fake_lock);
	default_stream = stream;
	pthread_mutex_unlock(&fake_lock);
}

/* Wants fake_lock. */
static struct fake_stream *stream_check(void *stream, const char *call)
{
	struct fake_stream *s = all_streams;

	if ((uintptr_t)stream == 1 && default_stream)
		stream = default_stream;
	if ((uintptr_t)stream <= 2)
		fake_fault("%s on a default stream: ranks that share a process would wait "
			   "there for each other",
			   call);
	while (s && s != stream)
		s = s->next;
	if (!s)
		fake_fault("%s on %p, which is no stream or was destroyed", call, stream);
	return s;
}

void fake_submit(void *stream, struct fake_op *op, const char *call)
{
	struct fake_stream *s;

	pthread_mutex_lock(&fake_lock);
	s = stream_check(stream, call);
	if (fake_capture(stream, op)) {
		pthread_mutex_unlock(&fake_lock);
		return;
	}
	if (op->kind == FAKE_OP_KERNEL)
		fake_kernel_counts(1);
	pthread_mutex_lock(&s->lock);
	*s->last = op;
	s->last = &op->next;
	pthread_cond_signal(&s->moved);
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_unlock(&fake_lock);
}

ori_cu_result cuStreamCreateWithPriority(void **stream, unsigned int flags, int priority)
{
	int err = fake_enter_context(FAKE_cuStreamCreateWithPriority, NULL);
	struct fake_stream *s;

	(void)priority;
	if (err)
		return err;
	if (flags != ORI_CU_STREAM_NON_BLOCKING)
		fake_fault(
			"a stream that waits for the default stream: ranks would wait for each other");
	s = calloc(1, sizeof(*s));
	if (!s)
		return ORI_CU_OUT_OF_MEMORY;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->moved, NULL);
	s->last = &s->first;
	if (pthread_create(&s->thread, NULL, stream_main, s)) {
		free(s);
		return ORI_CU_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&fake_lock);
	s->id = ++last_id;
	s->next = all_streams;
	all_streams = s;
	pthread_mutex_unlock(&fake_lock);
	*stream = s;
	return 0;
}

/* Returns at once; work that is there is still done, behind the caller's back. */
ori_cu_result cuStreamDestroy_v2(void *stream)
{
	int err = fake_enter(FAKE_cuStreamDestroy);
	struct fake_stream **at = &all_streams, *s;
	pthread_t thread;
	int alone;

	if (fake_refuses(err))
		return err;
	pthread_mutex_lock(&fake_lock);
	s = stream_check(stream, "cuStreamDestroy");
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	pthread_mutex_unlock(&fake_lock);
	pthread_mutex_lock(&s->lock);
	thread = s->thread;
	alone = s->alone = s->busy || s->first;
	s->ending = 1;
	pthread_cond_signal(&s->moved);
	pthread_mutex_unlock(&s->lock);
	if (alone) {
		pthread_detach(thread);
	} else {
		pthread_join(thread, NULL);
		stream_free(s);
	}
	return err;
}

ori_cu_result cuStreamGetId(void *stream, unsigned long long *id)
{
	pthread_mutex_lock(&fake_lock);
	if (fake_captured(stream))
		fake_fault("cuStreamGetId of a stream that is captured, which ends the capture");
	*id = stream_check(stream, "cuStreamGetId")->id;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

static _Thread_local int capture_mode; /* global, as every thread begins */

ori_cu_result cuThreadExchangeStreamCaptureMode(int *mode)
{
	int err = fake_enter(FAKE_cuThreadExchangeStreamCaptureMode), before = capture_mode;

	if (err)
		return err;
	if (*mode < 0 || *mode > ORI_CU_CAPTURE_RELAXED)
		return FAKE_INVALID_VALUE;
	capture_mode = *mode;
	*mode = before;
	return 0;
}

/* Wants fake_lock. */
static int stream_busy(struct fake_stream *s)
{
	int busy;

	pthread_mutex_lock(&s->lock);
	busy = s->busy || s->first;
	pthread_mutex_unlock(&s->lock);
	return busy;
}

/* An error here is that of the work: nothing of it runs any more. */
ori_cu_result cuStreamQuery(void *stream)
{
	int err = fake_enter(FAKE_cuStreamQuery), busy;

	if (fake_refuses(err))
		return err;
	if (!err)
		err = fake_broken();
	for (;;) {
		pthread_mutex_lock(&fake_lock);
		busy = stream_busy(stream_check(stream, "cuStreamQuery"));
		pthread_mutex_unlock(&fake_lock);
		if (!err || !busy)
			break;
		fake_sleep_us(1000);
	}
	return err ? err : busy ? ORI_CU_NOT_READY : 0;
}

int fake_streams_live(char *text, size_t bytes)
{
	int live = 0;

	for (struct fake_stream *s = all_streams; s; s = s->next)
		live++;
	if (live)
		snprintf(text, bytes, " %d streams;", live);
	return live;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static struct fake_op *op_new(enum fake_op_kind kind, enum fake_call call)
{
	struct fake_op *op = calloc(1, sizeof(*op));

	if (!op)
		fake_fault("no memory for work on a stream");
	op->kind = kind;
	op->call = call;
	op->slow_us = fake_slow_us(call);
	op->rank = ori_log_rank_get();
	return op;
}

/* Looks the range up when the call is made, and holds it until the work is done. */
static char *use(struct fake_op *op, int i, ori_cu_ptr addr, size_t bytes, const char *call)
{
	char *at = fake_bytes((void *)(uintptr_t)addr, bytes, call, &op->uses[i]);

	return at;
}

ori_cu_result cuMemcpyAsync(ori_cu_ptr to, ori_cu_ptr from, size_t bytes, void *stream)
{
	int err = fake_enter_context(FAKE_cuMemcpyAsync, NULL);
	struct fake_op *op;

	if (!err)
		err = fake_broken();
	if (err || !bytes)
		return err;
	op = op_new(FAKE_OP_COPY, FAKE_cuMemcpyAsync);
	pthread_mutex_lock(&fake_lock);
	op->bytes = bytes;
	op->to = use(op, 0, to, bytes, "cuMemcpyAsync");
	op->from = use(op, 1, from, bytes, "cuMemcpyAsync");
	fake_uses_pend(op, 1);
	pthread_mutex_unlock(&fake_lock);
	fake_submit(stream, op, "cuMemcpyAsync");
	return 0;
}

ori_cu_result cuMemsetD8Async(ori_cu_ptr to, unsigned char value, size_t bytes, void *stream)
{
	int err = fake_enter_context(FAKE_cuMemsetD8Async, NULL);
	struct fake_op *op;

	if (!err)
		err = fake_broken();
	if (err || !bytes)
		return err;
	op = op_new(FAKE_OP_SET, FAKE_cuMemsetD8Async);
	pthread_mutex_lock(&fake_lock);
	op->bytes = bytes;
	op->value = value;
	op->to = use(op, 0, to, bytes, "cuMemsetD8Async");
	if (!op->uses[0])
		fake_fault("cuMemsetD8Async of %#llx, which is no device memory", to);
	fake_uses_pend(op, 1);
	pthread_mutex_unlock(&fake_lock);
	fake_submit(stream, op, "cuMemsetD8Async");
	return 0;
}
