/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/stream.c - what streams do besides kernels: copies by the copy engines, and
 * references that a captured graph holds.  Marks are in marks.c, launches of collectives in
 * flights.c.
 *
 * Any thread.  All calls here are permitted while the stream is being captured.
 */
#include "../../util/util.h"
#include "cuda_device.h"

#define BATCH 16

/* CUDA's default stream, as a caller names it (CU_STREAM_LEGACY). */
#define DEFAULT_STREAM ((void *)1)

/* Several copies in one driver call.  They may run at the same time. */
static int copy_batch(struct ori_cuda_device *d, const struct ori_copy_job *copies, int n,
		      void *stream)
{
	struct ori_cu_copy_attributes how = { .source_order = ORI_CU_SOURCE_ORDER_STREAM,
					      .flags = ORI_CU_COPY_OVERLAP };
	ori_cu_ptr to[BATCH], from[BATCH];
	size_t bytes[BATCH], first = 0;
	int err = 0, some;

	for (int at = 0; at < n && !err; at += some) {
		some = n - at < BATCH ? n - at : BATCH;
		for (int i = 0; i < some; i++) {
			to[i] = (ori_cu_ptr)(uintptr_t)copies[at + i].to;
			from[i] = (ori_cu_ptr)(uintptr_t)copies[at + i].from;
			bytes[i] = copies[at + i].bytes;
		}
		err = d->gpu->cu->streams.cuMemcpyBatchAsync(to, from, bytes, (size_t)some, &how,
							     &first, 1, stream);
	}
	return err ? ori_cuda_fail(err, "cuMemcpyBatchAsync", "%d copies of %zu bytes", n,
				   copies[0].bytes) :
		     0;
}

static int copy_each(struct ori_cuda_device *d, const struct ori_copy_job *copies, int n,
		     void *stream)
{
	int err = 0;

	for (int i = 0; i < n && !err; i++) {
		err = d->gpu->cu->cuMemcpyAsync((ori_cu_ptr)(uintptr_t)copies[i].to,
						(ori_cu_ptr)(uintptr_t)copies[i].from,
						copies[i].bytes, stream);
		if (err)
			err = ori_cuda_fail(err, "cuMemcpyAsync",
					    "a copy of %zu bytes from %p to %p", copies[i].bytes,
					    copies[i].from, copies[i].to);
	}
	return err;
}

static int cuda_copies(struct ori_device *device, const struct ori_copy_job *copies, int n,
		       void *stream)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	struct ori_cuda_scope scope;
	int err, capturing = 0;

	if (!stream)
		stream = d->stream;
	err = ori_cuda_enter(d->gpu, &scope);
	if (err)
		return err;
	err = ori_cuda_is_capturing(d, stream, &capturing);
	/* The driver takes a batch neither into a graph nor on the default stream. */
	if (!err && n > 1 && !capturing && stream != DEFAULT_STREAM &&
	    d->gpu->cu->streams.cuMemcpyBatchAsync)
		err = copy_batch(d, copies, n, stream);
	else if (!err)
		err = copy_each(d, copies, n, stream);
	ori_cuda_leave(&scope);
	return err;
}

/* The graph takes over the object, which is destroyed with the graph and all its instances. */
static int hold_by(struct ori_cuda_device *d, void *graph, void (*gone)(void *), void *arg)
{
	const struct ori_cuda_stream_calls *cu = &d->gpu->cu->streams;
	void *object = NULL;
	int err = cu->cuUserObjectCreate(&object, arg, gone, 1, ORI_CU_USER_OBJECT_NO_SYNC);

	if (err)
		return ori_cuda_fail(err, "cuUserObjectCreate", "a captured graph");
	err = cu->cuGraphRetainUserObject(graph, object, 1, ORI_CU_USER_OBJECT_MOVE);
	if (!err)
		return 0;
	/*
	 * The object now has no owner, and its end would call gone() for a hold that the caller
	 * undoes.  So it is leaked.
	 */
	return ori_cuda_fail(err, "cuGraphRetainUserObject", "a captured graph");
}

static int cuda_hold(struct ori_device *device, void *stream, void (*gone)(void *), void *arg,
		     int *held)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	const struct ori_cuda_stream_calls *cu = &d->gpu->cu->streams;
	struct ori_cuda_scope scope;
	void *graph = NULL;
	int err, status = 0, capturing = 0;

	*held = 0;
	if (!stream)
		return 0; /* the comm's own stream, which is never captured */
	err = ori_cuda_enter(d->gpu, &scope);
	if (err)
		return err;
	err = ori_cuda_is_capturing(d, stream, &capturing);
	if (!err && capturing) {
		if (!cu->cuStreamGetCaptureInfo || !cu->cuUserObjectCreate ||
		    !cu->cuGraphRetainUserObject)
			err = ori_fail(ORIEL_EUNSUPPORTED,
				       "a captured graph must hold references to the objects it "
				       "uses: install a driver of CUDA 12.3 or newer");
		if (!err) {
			err = cu->cuStreamGetCaptureInfo(stream, &status, NULL, &graph, NULL, NULL,
							 NULL);
			err = err ? ori_cuda_fail(err, "cuStreamGetCaptureInfo",
						  "a captured stream") :
				    0;
		}
		if (!err)
			err = hold_by(d, graph, gone, arg);
		*held = !err;
	}
	ori_cuda_leave(&scope);
	return err;
}

const struct ori_stream_ops ori_cuda_stream_ops = {
	.enter = ori_cuda_stream_enter,
	.leave = ori_cuda_stream_leave,
	.copies = cuda_copies,
	.hold = cuda_hold,
	.capturing = ori_cuda_capturing,
	.mark = ori_cuda_mark,
	.passed = ori_cuda_passed,
	.follow = ori_cuda_follow,
	.unmark = ori_cuda_unmark,
	.launch = ori_cuda_launch_together,
};
