/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/copy.c - copies between any memories of host and device, and filling with zeros.
 *
 * A copy takes a lane: a high-priority stream and a pinned bounce buffer.  Lanes are made when the
 * GPU is opened, so nothing is allocated while kernels run.  The stream contains only this copy, so
 * the copy is complete when the stream is idle.  The copy engine executes such copies even under a
 * kernel that occupies every SM.  Host memory that is not pinned goes through the bounce buffer:
 * the driver's own copy of it could wait for kernels.
 *
 * Any thread.  There are as many copies at once as lanes; more callers wait for a lane.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "cuda_device.h"

#define SPIN_NS 50000
/*
 * Smaller areas are filled by copying zeros.  The driver fills with a kernel, which needs a free
 * SM.
 */
#define ZEROS_COPIED_MAX ((size_t)16 << 20)

/* ---- waiting --------------------------------------------------------------------------------- */

int ori_cuda_stream_poll(const struct ori_cuda_driver *cu, void *stream, uint64_t timeout_ns)
{
	uint64_t start = 0, age = 0;
	int err;

	for (;;) {
		err = cu->cuStreamQuery(stream);
		if (err != ORI_CU_NOT_READY)
			return err;
		if (!start)
			start = ori_now_ns();
		age = ori_now_ns() - start;
		if (age > timeout_ns)
			return err;
		if (age > SPIN_NS)
			sched_yield();
	}
}

int ori_cuda_stream_wait(const struct ori_cuda_driver *cu, void *stream, uint64_t timeout_ns,
			 const char *what)
{
	int err = ori_cuda_stream_poll(cu, stream, timeout_ns);

	if (err == ORI_CU_NOT_READY)
		return ori_fail(ORIEL_ETIMEDOUT, "%s: not complete after %.1f s", what,
				(double)timeout_ns / 1e9);
	return err ? ori_cuda_fail(err, "cuStreamQuery", "%s", what) : 0;
}

/* ---- lanes ----------------------------------------------------------------------------------- */

int ori_cuda_lanes_open(struct ori_cuda_gpu *gpu)
{
	const struct ori_cuda_driver *cu = gpu->cu;
	const char *call = "cuCtxGetStreamPriorityRange";
	int least, greatest, err;
	void *bounce;

	err = cu->cuCtxGetStreamPriorityRange(&least, &greatest);
	if (!err) {
		call = "cuMemHostAlloc";
		err = cu->cuMemHostAlloc(&bounce, (ORI_CUDA_LANES + 1) * ORI_CUDA_BOUNCE_BYTES,
					 ORI_CU_PIN_PORTABLE);
	}
	if (err)
		return ori_cuda_fail(err, call, "GPU %d", gpu->ordinal);
	gpu->bounce = bounce;
	gpu->zeros = gpu->bounce + ORI_CUDA_LANES * ORI_CUDA_BOUNCE_BYTES;
	memset(gpu->zeros, 0, ORI_CUDA_BOUNCE_BYTES);
	for (int i = 0; i < ORI_CUDA_LANES; i++) {
		struct ori_cuda_lane *lane = &gpu->lanes[i];

		lane->bounce = gpu->bounce + (size_t)i * ORI_CUDA_BOUNCE_BYTES;
		err = cu->cuStreamCreateWithPriority(&lane->stream, ORI_CU_STREAM_NON_BLOCKING,
						     greatest);
		if (err) {
			lane->stream = NULL;
			ori_cuda_lanes_close(gpu);
			return ori_cuda_fail(err, "cuStreamCreateWithPriority", "GPU %d",
					     gpu->ordinal);
		}
	}
	return 0;
}

static int overlap(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	return a && a < b + b_bytes && b < a + a_bytes;
}

/*
 * One look, lost_lock held: is the lane's lost work still running?  A stream that returns an error
 * has no more work.
 */
static int still_lost(struct ori_cuda_gpu *gpu, struct ori_cuda_lane *lane)
{
	if (!lane->lost)
		return 0;
	if (gpu->cu->cuStreamQuery(lane->stream) == ORI_CU_NOT_READY)
		return 1;
	lane->lost = 0;
	__atomic_store_n(&lane->busy, 0, __ATOMIC_RELEASE); /* as [CUDA2] */
	return 0;
}

int ori_cuda_lanes_lost(struct ori_cuda_gpu *gpu)
{
	int lost = 0;

	pthread_mutex_lock(&gpu->lost_lock);
	for (int i = 0; i < ORI_CUDA_LANES; i++)
		lost += still_lost(gpu, &gpu->lanes[i]);
	pthread_mutex_unlock(&gpu->lost_lock);
	return lost;
}

int ori_cuda_lanes_touch(struct ori_cuda_gpu *gpu, const void *base, size_t bytes)
{
	int touch = 0;

	pthread_mutex_lock(&gpu->lost_lock);
	for (int i = 0; i < ORI_CUDA_LANES; i++) {
		struct ori_cuda_lane *lane = &gpu->lanes[i];

		if (still_lost(gpu, lane))
			touch |= overlap(lane->to, lane->bytes, base, bytes) ||
				 overlap(lane->from, lane->bytes, base, bytes);
	}
	pthread_mutex_unlock(&gpu->lost_lock);
	return touch;
}

void ori_cuda_lanes_close(struct ori_cuda_gpu *gpu)
{
	int lost = ori_cuda_lanes_lost(gpu);

	for (int i = 0; i < ORI_CUDA_LANES; i++) {
		if (gpu->lanes[i].stream)
			(void)gpu->cu->cuStreamDestroy(gpu->lanes[i].stream);
		gpu->lanes[i].stream = NULL;
	}
	/* A copy that never ended may still use its buffer, and freeing would wait for it. */
	if (!lost)
		(void)gpu->cu->cuMemFreeHost(gpu->bounce);
	gpu->bounce = NULL;
}

/* The context is current. */
static int take_lane(struct ori_cuda_device *d, struct ori_cuda_lane **out)
{
	uint64_t end = ori_deadline_ns(d->timeout_ns);

	do {
		for (int i = 0; i < ORI_CUDA_LANES; i++) {
			struct ori_cuda_lane *lane = &d->gpu->lanes[i];

			if (__atomic_load_n(&lane->busy, __ATOMIC_RELAXED))
				continue;
			/* [CUDA1] acquire, process; partner [CUDA2] in give_lane(). */
			if (!__atomic_exchange_n(&lane->busy, 1, __ATOMIC_ACQUIRE)) {
				*out = lane;
				return 0;
			}
		}
		(void)ori_cuda_lanes_lost(d->gpu);
		sched_yield();
	} while (ori_now_ns() < end);
	return ori_fail(ORIEL_ETIMEDOUT, "a copy: all %d streams for copies on GPU %d are busy",
			ORI_CUDA_LANES, d->gpu->ordinal);
}

/*
 * After a deadline the lane stays taken.  The work in its stream may still use the buffer, and
 * memory that it touches must stay mapped.
 */
static void give_lane(struct ori_cuda_gpu *gpu, struct ori_cuda_lane *lane, int err, void *to,
		      const void *from, size_t bytes)
{
	if (err != ORIEL_ETIMEDOUT) {
		/*
		 * [CUDA2] release, process; partner [CUDA1] in take_lane().  Publishes that this
		 * user has read the lane's bounce buffer.  Without it the next user could fill the
		 * buffer while this one still copies from it.
		 */
		__atomic_store_n(&lane->busy, 0, __ATOMIC_RELEASE);
		return;
	}
	pthread_mutex_lock(&gpu->lost_lock);
	lane->to = to;
	lane->from = from;
	lane->bytes = bytes;
	lane->lost = 1;
	pthread_mutex_unlock(&gpu->lost_lock);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static int copy_through(struct ori_cuda_device *d, struct ori_cuda_lane *lane, void *to,
			const void *from, size_t bytes)
{
	int err = d->gpu->cu->cuMemcpyAsync((ori_cu_ptr)(uintptr_t)to, (ori_cu_ptr)(uintptr_t)from,
					    bytes, lane->stream);

	if (err)
		return ori_cuda_fail(err, "cuMemcpyAsync", "a copy of %zu bytes from %p to %p",
				     bytes, from, to);
	return ori_cuda_stream_wait(d->gpu->cu, lane->stream, d->timeout_ns, "a copy");
}

static int copy_bounced(struct ori_cuda_device *d, struct ori_cuda_lane *lane, char *to,
			const char *from, size_t bytes, int from_host)
{
	int err = 0;

	for (size_t at = 0, n; at < bytes && !err; at += n) {
		n = bytes - at < ORI_CUDA_BOUNCE_BYTES ? bytes - at : ORI_CUDA_BOUNCE_BYTES;
		if (from_host)
			memcpy(lane->bounce, from + at, n);
		err = copy_through(d, lane, from_host ? to + at : lane->bounce,
				   from_host ? lane->bounce : from + at, n);
		if (!from_host && !err)
			memcpy(to + at, lane->bounce, n);
	}
	return err;
}

int ori_cuda_copy(struct ori_device *device, void *to, const void *from, size_t bytes)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)device;
	int to_type = ori_cuda_memory_type(d->gpu, to);
	int from_type = ori_cuda_memory_type(d->gpu, from);
	struct ori_cuda_lane *lane;
	struct ori_cuda_scope scope;
	int err;

	if (!bytes)
		return 0;
	if (to_type < 0 || from_type < 0)
		return to_type < 0 ? to_type : from_type;
	if (to_type != ORI_CU_MEMORY_DEVICE && from_type != ORI_CU_MEMORY_DEVICE) {
		memmove(to, from, bytes);
		return 0;
	}
	err = ori_cuda_enter(d->gpu, &scope);
	if (err)
		return err;
	err = take_lane(d, &lane);
	if (!err) {
		if (to_type && from_type)
			err = copy_through(d, lane, to, from, bytes);
		else
			err = copy_bounced(d, lane, to, from, bytes, !from_type);
		give_lane(d->gpu, lane, err, to, from, bytes);
	}
	ori_cuda_leave(&scope);
	return err;
}

static int start_zeros(struct ori_cuda_gpu *gpu, void *stream, ori_cu_ptr at, size_t bytes)
{
	int err = 0;

	if (bytes > ZEROS_COPIED_MAX) {
		err = gpu->cu->cuMemsetD8Async(at, 0, bytes, stream);
		return err ? ori_cuda_fail(err, "cuMemsetD8Async", "zeros for %zu bytes", bytes) :
			     0;
	}
	for (size_t done = 0, n; done < bytes && !err; done += n) {
		n = bytes - done < ORI_CUDA_BOUNCE_BYTES ? bytes - done : ORI_CUDA_BOUNCE_BYTES;
		err = gpu->cu->cuMemcpyAsync(at + done, (ori_cu_ptr)(uintptr_t)gpu->zeros, n,
					     stream);
	}
	return err ? ori_cuda_fail(err, "cuMemcpyAsync", "zeros for %zu bytes", bytes) : 0;
}

int ori_cuda_zero(struct ori_cuda_device *d, void *base, size_t bytes)
{
	struct ori_cuda_lane *lane;
	int err = take_lane(d, &lane), waited;

	if (err)
		return err;
	err = start_zeros(d->gpu, lane->stream, (ori_cu_ptr)(uintptr_t)base, bytes);
	/* Also after an error: pieces may still be written to memory that is about to be freed. */
	waited = ori_cuda_stream_wait(d->gpu->cu, lane->stream, d->timeout_ns,
				      "filling with zeros");
	give_lane(d->gpu, lane, waited, base, NULL, bytes);
	return err ? err : waited;
}
