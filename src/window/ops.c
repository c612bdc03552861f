/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/ops.c - what host code does with a window.
 *
 * On the CPU a host-issued operation is the device call made by a group of one, on the caller's thread, with
 * the checked handle.  Any thread; two may use one window at once.
 */
#include <string.h>

#include <oriel/device.h>

#include "window.h"

/* First failure of the window or its comm, with its text as the last error. */
static int window_failed(struct oriel_window *w)
{
	uint64_t failure = __atomic_load_n(w->dev.failure, __ATOMIC_ACQUIRE);
	int status = ORIEL_FAILURE_STATUS(failure);

	if (!failure)
		return ori_comm_failed(w->comm);
	return ori_fail_silent(status, "window %d has failed: %s (rank %d)", w->number,
			       oriel_status_text(status), ORIEL_FAILURE_RANK(failure));
}

/*
 * What ended an operation may have been decided on another thread, where its text is: this thread gets it
 * too.  What was decided here has its text already.
 */
static int end_op(struct oriel_window *w, int err)
{
	uint64_t failure = __atomic_load_n(w->comm->dev.failure, __ATOMIC_ACQUIRE);

	if (err && ORIEL_FAILURE_STATUS(failure) == err)
		(void)ori_comm_failed(w->comm);
	else if (err && !*ori_last_error_text())
		(void)window_failed(w);
	return err;
}

int oriel_window_status(struct oriel_window *w)
{
	int err = ori_window_check(w, "oriel_window_status");

	return err ? err : window_failed(w);
}

void *oriel_window_buffer(struct oriel_window *w)
{
	return ori_window_check(w, "oriel_window_buffer") ? NULL : w->buffer;
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

int oriel_window_source(struct oriel_window *w, void *ptr, size_t bytes,
			struct oriel_source *source)
{
	uint32_t key[ORIEL_NICS_MAX];
	int err = ori_window_check(w, "oriel_window_source");

	if (err)
		return err;
	if (!source || (!ptr && bytes))
		return ori_fail(ORIEL_EINVAL, "oriel_window_source: %s",
				source ? "null pointer" : "no place for the source");
	err = ori_register_local(w->comm, ptr, bytes, key);
	if (err)
		return err;
	source->address = (uint64_t)(uintptr_t)ptr;
	source->bytes = bytes;
	memcpy(source->key, key, sizeof(key));
	return 0;
}

int oriel_window_reset_signals(struct oriel_window *w, void *stream)
{
	struct oriel_group g = oriel_group_thread();
	int err = ori_window_check(w, "oriel_window_reset_signals");

	(void)stream;
	for (uint32_t id = 0; !err && id < w->options.signals; id++)
		err = oriel_reset_signal(&w->host_dev, g, (int)id);
	return err;
}

/* Done on return, also on queued peers: the caller may reuse, or leave, its source at once. */
static int end_put(struct oriel_window *w, int peer, int status)
{
	if (!status)
		status = oriel_flush(&w->host_dev, oriel_group_thread(), peer);
	return end_op(w, status);
}

int oriel_window_put(struct oriel_window *w, int peer, uint64_t dst_off,
		     const struct oriel_source *src, uint64_t src_off, uint64_t bytes, void *stream)
{
	int err = ori_window_check(w, "oriel_window_put");

	(void)stream;
	if (!err)
		err = end_put(w, peer,
			      oriel_put(&w->host_dev, oriel_group_thread(), peer, dst_off, src,
					src_off, bytes));
	return err;
}

int oriel_window_get(struct oriel_window *w, int peer, uint64_t src_off,
		     const struct oriel_source *dst, uint64_t dst_off, uint64_t bytes, void *stream)
{
	int err = ori_window_check(w, "oriel_window_get");

	(void)stream;
	if (!err)
		err = end_op(w, oriel_get(&w->host_dev, oriel_group_thread(), peer, src_off, dst,
					  dst_off, bytes));
	return err;
}

int oriel_window_put_signal(struct oriel_window *w, int peer, uint64_t dst_off,
			    const struct oriel_source *src, uint64_t src_off, uint64_t bytes,
			    int signal, int op, uint64_t value, void *stream)
{
	int err = ori_window_check(w, "oriel_window_put_signal");

	(void)stream;
	if (!err)
		err = end_put(w, peer,
			      oriel_put_signal(&w->host_dev, oriel_group_thread(), peer, dst_off,
					       src, src_off, bytes, signal, op, value));
	return err;
}

int oriel_window_signal(struct oriel_window *w, int peer, int id, int op, uint64_t value,
			void *stream)
{
	int err = ori_window_check(w, "oriel_window_signal");

	(void)stream;
	if (!err)
		err = end_op(w,
			     oriel_signal(&w->host_dev, oriel_group_thread(), peer, id, op, value));
	return err;
}

int oriel_window_wait_signal(struct oriel_window *w, int peer, int id, int cmp, uint64_t value,
			     void *stream)
{
	struct oriel_group g = oriel_group_thread();
	int err = ori_window_check(w, "oriel_window_wait_signal");

	(void)stream;
	if (err)
		return err;
	if (peer >= 0)
		return end_op(w, oriel_wait_signal_from(&w->host_dev, g, peer, id, cmp, value));
	if (cmp != ORIEL_GE)
		return ori_fail(ORIEL_EINVAL,
				"oriel_window_wait_signal: a sum over sources waits by ORIEL_GE only");
	return end_op(w, oriel_wait_signal(&w->host_dev, g, id, value));
}

int oriel_window_barrier(struct oriel_window *w, int id, void *stream)
{
	int err = ori_window_check(w, "oriel_window_barrier");

	(void)stream;
	return err ? err : end_op(w, oriel_barrier(&w->host_dev, oriel_group_thread(), id));
}
