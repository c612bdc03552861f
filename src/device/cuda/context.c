/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device/cuda/context.c - the GPUs that this process has open, and how a thread enters their
 * context.
 *
 * Owns the list; gpu.c opens and closes its entries.  Any thread.
 */
#include "cuda_device.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ori_cuda_gpu *list;

/* The GPU that this thread has entered for several calls, and what it leaves then. */
static _Thread_local const struct ori_cuda_gpu *inside;
static _Thread_local struct ori_cuda_scope inside_scope;
static _Thread_local int inside_depth;

int ori_cuda_enter(const struct ori_cuda_gpu *gpu, struct ori_cuda_scope *scope)
{
	int err;

	scope->cu = NULL;
	if (inside == gpu)
		return 0;
	scope->capture_mode = ORI_CU_CAPTURE_RELAXED;
	err = gpu->cu->cuThreadExchangeStreamCaptureMode(&scope->capture_mode);
	if (err)
		return ori_cuda_fail(err, "cuThreadExchangeStreamCaptureMode", "GPU %d",
				     gpu->ordinal);
	err = gpu->cu->cuCtxPushCurrent(gpu->context);
	if (!err) {
		scope->cu = gpu->cu;
		return 0;
	}
	(void)gpu->cu->cuThreadExchangeStreamCaptureMode(&scope->capture_mode);
	return ori_cuda_fail(err, "cuCtxPushCurrent", "GPU %d", gpu->ordinal);
}

void ori_cuda_leave(struct ori_cuda_scope *scope)
{
	void *context;

	if (!scope->cu)
		return;
	(void)scope->cu->cuCtxPopCurrent(&context);
	(void)scope->cu->cuThreadExchangeStreamCaptureMode(&scope->capture_mode);
}

/*
 * To enter and leave takes four calls of the driver, and a collective is made of several steps: on
 * one stream the host's part can take longer than the kernels.
 */
int ori_cuda_stream_enter(struct ori_device *device)
{
	const struct ori_cuda_gpu *gpu = ((struct ori_cuda_device *)device)->gpu;
	int err = inside_depth ? 0 : ori_cuda_enter(gpu, &inside_scope);

	if (err)
		return err;
	if (!inside_depth++)
		inside = gpu;
	return 0;
}

void ori_cuda_stream_leave(struct ori_device *device)
{
	(void)device;
	if (--inside_depth)
		return;
	inside = NULL;
	ori_cuda_leave(&inside_scope);
}

struct ori_cuda_gpu **ori_cuda_gpus_lock(void)
{
	pthread_mutex_lock(&list_lock);
	return &list;
}

void ori_cuda_gpus_unlock(void)
{
	pthread_mutex_unlock(&list_lock);
}

int ori_cuda_gpus_each(int (*each)(struct ori_cuda_gpu *, void *arg), void *arg)
{
	int err = 0;

	pthread_mutex_lock(&list_lock);
	for (struct ori_cuda_gpu *gpu = list; gpu && !err; gpu = gpu->next)
		err = each(gpu, arg);
	pthread_mutex_unlock(&list_lock);
	return err;
}
