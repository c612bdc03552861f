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

int ori_cuda_enter(const struct ori_cuda_gpu *gpu, struct ori_cuda_scope *scope)
{
	int err;

	scope->cu = gpu->cu;
	scope->capture_mode = ORI_CU_CAPTURE_RELAXED;
	err = gpu->cu->cuThreadExchangeStreamCaptureMode(&scope->capture_mode);
	if (err)
		return ori_cuda_fail(err, "cuThreadExchangeStreamCaptureMode", "GPU %d",
				     gpu->ordinal);
	err = gpu->cu->cuCtxPushCurrent(gpu->context);
	if (!err)
		return 0;
	(void)gpu->cu->cuThreadExchangeStreamCaptureMode(&scope->capture_mode);
	return ori_cuda_fail(err, "cuCtxPushCurrent", "GPU %d", gpu->ordinal);
}

void ori_cuda_leave(struct ori_cuda_scope *scope)
{
	void *context;

	(void)scope->cu->cuCtxPopCurrent(&context);
	(void)scope->cu->cuThreadExchangeStreamCaptureMode(&scope->capture_mode);
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
