/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/ops.c - operations of host code on a window.
 *
 * On the CPU a host-issued operation is the device call itself.  A group of one makes it on the
 * caller's thread, with the checked handle.  On a separate device it is a kernel of one block on
 * the caller's stream (kernels/window_ops.c).  Then the arguments are tested here, and an error of
 * the kernel becomes the window's failure.  Any thread may call; two threads may use one window at
 * the same time.
 */
#include <string.h>

#include <oriel/device.h>

#include "../comm/control.h"
#include "../comm/failure.h"
#include "../comm/memory.h"
#include "../comm/sources.h"
#include "../kernels/window_ops.h"
#include "window.h"

/*
 * The window's failure word.  0 if the device cannot copy any more: then the comm has failed and
 * says why.
 */
static uint64_t failure_word(struct oriel_window *w)
{
	uint64_t failure;

	(void)ori_comm_device_status(w->comm, ori_control_load(w->comm, w->dev.failure, &failure));
	return failure;
}

/* First failure of the window or its comm, with its text as the last error. */
static int window_failed(struct oriel_window *w)
{
	uint64_t failure = failure_word(w);
	char name[48], text[128];

	if (!failure)
		return ori_comm_failed(w->comm);
	ori_diag_window_text(w->dev.number, name, sizeof(name));
	ori_failure_text(failure, text, sizeof(text));
	return ori_fail_silent(ORIEL_FAILURE_STATUS(failure), "%s has failed: %s", name, text);
}

/*
 * Reports the first rank that had no queues when the window was created.  Calls to one peer report
 * that peer.
 */
static int not_connected(struct oriel_window *w, const char *call, int peer)
{
	int r = peer;

	for (int i = 0; peer < 0 && i < w->comm->nranks && r < 0; i++)
		if (w->peers[i].kind == ORIEL_PEER_NONE)
			r = i;
	return ori_fail(ORIEL_ENOTCONN,
			"%s: window %d was made before rank %d was connected: call "
			"oriel_comm_connect first, then oriel_window_create",
			call, w->number, r);
}

/* One host-issued operation: its name, its peer (-1: several), and the error texts before it. */
struct host_op {
	struct oriel_window *window;
	const char *call;
	int peer;
	uint64_t texts;
};

static struct host_op begin_op(struct oriel_window *w, const char *call, int peer)
{
	struct host_op op = { w, call, peer, ori_last_error_count() };

	return op;
}

/*
 * Gives every status a text as last error.  Another thread, which has the text, may have ended the
 * operation, or device code, which has none.  An older text of this thread belongs to another call.
 */
static int end_op(const struct host_op *op, int err)
{
	struct oriel_window *w = op->window;
	int has_text = ori_last_error_count() != op->texts;
	uint64_t failure;

	/* the wait that timed out has already logged what it waited for */
	if (!err || (has_text && err == ORIEL_ETIMEDOUT))
		return err;
	failure = ori_comm_failure(w->comm);
	if (ORIEL_FAILURE_STATUS(failure) == err)
		return ori_comm_failed(w->comm);
	if (has_text)
		return err;
	failure = failure_word(w);
	if (ORIEL_FAILURE_STATUS(failure) == err)
		return window_failed(w);
	if (err == ORIEL_ENOTCONN)
		return not_connected(w, op->call, op->peer);
	return ori_fail(err, "%s: window %d: %s", op->call, w->number, oriel_status_text(err));
}

int oriel_window_status(struct oriel_window *w)
{
	int err = ori_window_check(w, "oriel_window_status");

	if (!err)
		(void)ori_comm_ask(w->comm);
	return err ? err : window_failed(w);
}

void *oriel_window_buffer(struct oriel_window *w)
{
	return ori_window_check(w, "oriel_window_buffer") ? NULL : w->buffer;
}

void *oriel_window_mapped(struct oriel_window *w, int rank)
{
	if (ori_window_check(w, "oriel_window_mapped") ||
	    ori_comm_check_rank(w->comm, rank, "oriel_window_mapped"))
		return NULL;
	return w->peers[rank].buffer;
}

int oriel_window_device(struct oriel_window *w, struct oriel_window_dev *dev)
{
	int err = ori_window_check(w, "oriel_window_device");

	if (err)
		return err;
	if (!dev)
		return ori_fail(ORIEL_EINVAL, "oriel_window_device: no place for the handle");
	*dev = w->dev;
	return 0;
}

/* Is this part of the window's own buffer, which exists as long as the window? */
static int is_own(const struct oriel_window *w, const void *ptr, size_t bytes)
{
	uintptr_t begin = (uintptr_t)ptr, base = (uintptr_t)w->buffer;

	return base && begin >= base && begin - base <= w->options.bytes &&
	       bytes <= w->options.bytes - (begin - base);
}

int oriel_window_source(struct oriel_window *w, void *ptr, size_t bytes,
			struct oriel_source *source)
{
	struct oriel_source made;
	int err = ori_window_check(w, "oriel_window_source");

	if (err)
		return err;
	if (!source || (!ptr && bytes))
		return ori_fail(ORIEL_EINVAL, "oriel_window_source: %s",
				source ? "null pointer" : "no place for the source");
	err = bytes ? ori_memory_check(w->comm, "oriel_window_source", ptr, bytes) : 0;
	if (err)
		return err;
	err = ori_source_take(w->comm, &w->sources, ptr, bytes, is_own(w, ptr, bytes), &made);
	if (!err)
		*source = made;
	return err;
}

int oriel_window_source_release(struct oriel_window *w, struct oriel_source *source)
{
	int err = ori_window_check(w, "oriel_window_source_release");

	if (err || !source)
		return err;
	err = ori_source_give(w->comm, &w->sources, source);
	if (!err)
		memset(source, 0, sizeof(*source));
	return err;
}

/* ---- on the stream of a separate device ----------------------------------------------------- */

static int is_separate(const struct oriel_window *w)
{
	return w->comm->device->separate;
}

static int check_peer(const struct oriel_window *w, const char *call, int peer)
{
	if (peer >= 0 && peer < w->comm->nranks)
		return 0;
	return ori_fail(ORIEL_ERANGE, "%s: rank %d does not exist (ranks are 0 to %d)", call, peer,
			w->comm->nranks - 1);
}

static int check_id(const char *call, const char *what, int id, uint32_t ids)
{
	if (id >= 0 && (uint32_t)id < ids)
		return 0;
	if (!ids)
		return ori_fail(ORIEL_ERANGE, "%s: %s %d does not exist (the window has none)",
				call, what, id);
	return ori_fail(ORIEL_ERANGE, "%s: %s %d does not exist (ids are 0 to %u)", call, what, id,
			ids - 1);
}

static int check_signal_op(const char *call, int op)
{
	if (op == ORIEL_ADD || op == ORIEL_SET)
		return 0;
	return ori_fail(ORIEL_EINVAL, "%s: op %d is not ORIEL_ADD or ORIEL_SET", call, op);
}

static int check_range(const char *call, const char *what, uint64_t off, uint64_t bytes,
		       uint64_t limit)
{
	if (off <= limit && bytes <= limit - off)
		return 0;
	return ori_fail(ORIEL_ERANGE, "%s: %llu bytes at %llu pass the end of the %s (%llu)", call,
			(unsigned long long)bytes, (unsigned long long)off, what,
			(unsigned long long)limit);
}

static int check_transfer(const struct oriel_window *w, const char *call,
			  const struct ori_window_op *op)
{
	int err = check_peer(w, call, op->peer);

	if (!err)
		err = check_range(call, "window", op->window_off, op->bytes, w->options.bytes);
	if (!err)
		err = check_range(call, "source", op->source_off, op->bytes, op->source.bytes);
	return err;
}

static int check_op(const struct oriel_window *w, const char *call, const struct ori_window_op *op)
{
	int err = 0;

	switch (op->code) {
	case ORI_WINDOW_PUT_SIGNAL:
		err = check_id(call, "signal", op->id, w->options.signals);
		if (!err)
			err = check_signal_op(call, op->op);
		/* fall through */
	case ORI_WINDOW_PUT:
	case ORI_WINDOW_GET:
		return err ? err : check_transfer(w, call, op);
	case ORI_WINDOW_SIGNAL:
		err = check_id(call, "signal", op->id, w->options.signals);
		if (!err)
			err = check_signal_op(call, op->op);
		return err ? err : check_peer(w, call, op->peer);
	case ORI_WINDOW_WAIT_SIGNAL:
		err = check_id(call, "signal", op->id, w->options.signals);
		if (!err && (op->op < ORIEL_EQ || op->op > ORIEL_LE))
			err = ori_fail(ORIEL_EINVAL, "%s: unknown comparison %d", call, op->op);
		return err || op->peer < 0 ? err : check_peer(w, call, op->peer);
	case ORI_WINDOW_BARRIER:
		return check_id(call, "barrier", op->id, w->options.barriers);
	default:
		return 0;
	}
}

static int launch_op(struct oriel_window *w, const char *call, struct ori_window_op *op,
		     void *stream)
{
	int err = check_op(w, call, op);

	if (!err)
		err = ori_comm_failed(w->comm);
	if (err)
		return err;
	op->win = w->dev;
	err = w->comm->device->ops->launch(w->comm->device, ori_window_op_kernel(), 1,
					   ori_window_op_threads(op->code), op, sizeof(*op), stream,
					   NULL);
	return ori_comm_device_status(w->comm, err);
}

static int launch_transfer(struct oriel_window *w, const char *call, int code, int peer,
			   uint64_t window_off, const struct oriel_source *source,
			   uint64_t source_off, uint64_t bytes, int signal, int op, uint64_t value,
			   void *stream)
{
	struct ori_window_op o = { .window_off = window_off,
				   .source_off = source_off,
				   .bytes = bytes,
				   .value = value,
				   .code = code,
				   .peer = peer,
				   .id = signal,
				   .op = op };

	if (!source)
		return ori_fail(ORIEL_EINVAL, "%s: no source", call);
	o.source = *source;
	return launch_op(w, call, &o, stream);
}

static int launch_word(struct oriel_window *w, const char *call, int code, int peer, int id, int op,
		       uint64_t value, void *stream)
{
	struct ori_window_op o = { .value = value, .code = code, .peer = peer, .id = id, .op = op };

	return launch_op(w, call, &o, stream);
}

/* ---- public --------------------------------------------------------------------------------- */

int oriel_window_reset_signals(struct oriel_window *w, void *stream)
{
	struct oriel_group g = oriel_group_thread();
	int err = ori_window_check(w, "oriel_window_reset_signals");
	struct host_op op;

	if (!err && is_separate(w))
		return launch_word(w, "oriel_window_reset_signals", ORI_WINDOW_RESET_SIGNALS, 0, 0,
				   0, 0, stream);
	if (err)
		return err;
	op = begin_op(w, "oriel_window_reset_signals", -1);
	for (uint32_t id = 0; !err && id < w->options.signals; id++)
		err = oriel_reset_signal(&w->host_dev, g, (int)id);
	return end_op(&op, err);
}

/* Complete on return, also for queued peers, so the caller may reuse or free its source at once. */
static int end_put(const struct host_op *op, int status)
{
	if (!status)
		status = oriel_flush(&op->window->host_dev, oriel_group_thread(), op->peer);
	return end_op(op, status);
}

int oriel_window_put(struct oriel_window *w, int peer, uint64_t dst_off,
		     const struct oriel_source *src, uint64_t src_off, uint64_t bytes, void *stream)
{
	int err = ori_window_check(w, "oriel_window_put");
	struct host_op op;

	if (!err && is_separate(w))
		return launch_transfer(w, "oriel_window_put", ORI_WINDOW_PUT, peer, dst_off, src,
				       src_off, bytes, 0, 0, 0, stream);
	if (err)
		return err;
	op = begin_op(w, "oriel_window_put", peer);
	return end_put(&op, oriel_put(&w->host_dev, oriel_group_thread(), peer, dst_off, src,
				      src_off, bytes));
}

int oriel_window_get(struct oriel_window *w, int peer, uint64_t src_off,
		     const struct oriel_source *dst, uint64_t dst_off, uint64_t bytes, void *stream)
{
	int err = ori_window_check(w, "oriel_window_get");
	struct host_op op;

	if (!err && is_separate(w))
		return launch_transfer(w, "oriel_window_get", ORI_WINDOW_GET, peer, src_off, dst,
				       dst_off, bytes, 0, 0, 0, stream);
	if (err)
		return err;
	op = begin_op(w, "oriel_window_get", peer);
	return end_op(&op, oriel_get(&w->host_dev, oriel_group_thread(), peer, src_off, dst,
				     dst_off, bytes));
}

int oriel_window_put_signal(struct oriel_window *w, int peer, uint64_t dst_off,
			    const struct oriel_source *src, uint64_t src_off, uint64_t bytes,
			    int signal, int op, uint64_t value, void *stream)
{
	int err = ori_window_check(w, "oriel_window_put_signal");
	struct host_op host;

	if (!err && is_separate(w))
		return launch_transfer(w, "oriel_window_put_signal", ORI_WINDOW_PUT_SIGNAL, peer,
				       dst_off, src, src_off, bytes, signal, op, value, stream);
	if (err)
		return err;
	host = begin_op(w, "oriel_window_put_signal", peer);
	return end_put(&host, oriel_put_signal(&w->host_dev, oriel_group_thread(), peer, dst_off,
					       src, src_off, bytes, signal, op, value));
}

int oriel_window_signal(struct oriel_window *w, int peer, int id, int op, uint64_t value,
			void *stream)
{
	int err = ori_window_check(w, "oriel_window_signal");
	struct host_op host;

	if (!err && is_separate(w))
		return launch_word(w, "oriel_window_signal", ORI_WINDOW_SIGNAL, peer, id, op, value,
				   stream);
	if (err)
		return err;
	host = begin_op(w, "oriel_window_signal", peer);
	return end_op(&host, oriel_signal(&w->host_dev, oriel_group_thread(), peer, id, op, value));
}

/* *ms: the deadline in whole milliseconds, at least one. */
static int check_timeout(const char *call, double seconds, uint32_t *ms)
{
	if (!(seconds > 0) || seconds * 1e3 > (double)UINT32_MAX)
		return ori_fail(ORIEL_EINVAL, "%s: a deadline of %g s: more than 0, at most %u s",
				call, seconds, UINT32_MAX / 1000);
	*ms = (uint32_t)(seconds * 1e3);
	if (!*ms)
		*ms = 1;
	return 0;
}

static int wait_signal(struct oriel_window *w, const char *call, int peer, int id, int cmp,
		       uint64_t value, uint32_t timeout_ms, void *stream)
{
	struct oriel_group g = oriel_group_within(oriel_group_thread(), timeout_ms);
	struct host_op op;

	if (peer < 0 && cmp != ORIEL_GE)
		return ori_fail(ORIEL_EINVAL, "%s: a sum over sources waits by ORIEL_GE only",
				call);
	if (is_separate(w)) {
		struct ori_window_op o = { .value = value,
					   .code = ORI_WINDOW_WAIT_SIGNAL,
					   .peer = peer,
					   .id = id,
					   .op = cmp,
					   .timeout_ms = timeout_ms };

		return launch_op(w, call, &o, stream);
	}
	op = begin_op(w, call, peer);
	if (peer >= 0)
		return end_op(&op, oriel_wait_signal_from(&w->host_dev, g, peer, id, cmp, value));
	return end_op(&op, oriel_wait_signal(&w->host_dev, g, id, value));
}

int oriel_window_wait_signal(struct oriel_window *w, int peer, int id, int cmp, uint64_t value,
			     void *stream)
{
	int err = ori_window_check(w, "oriel_window_wait_signal");

	return err ? err :
		     wait_signal(w, "oriel_window_wait_signal", peer, id, cmp, value, 0, stream);
}

int oriel_window_wait_signal_timeout(struct oriel_window *w, int peer, int id, int cmp,
				     uint64_t value, double timeout, void *stream)
{
	static const char call[] = "oriel_window_wait_signal_timeout";
	int err = ori_window_check(w, call);
	uint32_t ms = 0;

	if (!err)
		err = check_timeout(call, timeout, &ms);
	return err ? err : wait_signal(w, call, peer, id, cmp, value, ms, stream);
}

static int barrier(struct oriel_window *w, const char *call, int id, uint32_t timeout_ms,
		   void *stream)
{
	struct oriel_group g = oriel_group_within(oriel_group_thread(), timeout_ms);
	struct host_op op;

	if (is_separate(w)) {
		struct ori_window_op o = { .code = ORI_WINDOW_BARRIER,
					   .id = id,
					   .timeout_ms = timeout_ms };

		return launch_op(w, call, &o, stream);
	}
	op = begin_op(w, call, -1);
	return end_op(&op, oriel_barrier(&w->host_dev, g, id));
}

int oriel_window_barrier(struct oriel_window *w, int id, void *stream)
{
	int err = ori_window_check(w, "oriel_window_barrier");

	return err ? err : barrier(w, "oriel_window_barrier", id, 0, stream);
}

int oriel_window_barrier_timeout(struct oriel_window *w, int id, double timeout, void *stream)
{
	static const char call[] = "oriel_window_barrier_timeout";
	int err = ori_window_check(w, call);
	uint32_t ms = 0;

	if (!err)
		err = check_timeout(call, timeout, &ms);
	return err ? err : barrier(w, call, id, ms, stream);
}
