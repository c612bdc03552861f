/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/cuda_stream.h - what tests of CUDA ranks share that call the driver, mostly the fake
 * one: a context and a stream as the program makes them.
 */
#ifndef ORI_TEST_CUDA_STREAM_H
#define ORI_TEST_CUDA_STREAM_H

#include "../ranks.h"
#include "comm/comm.h"
#include "device/cuda/cuda_device.h"
#include "fake_cuda/fake.h"

/* The GPU's context is current on this thread, as in a program that calls the driver itself. */
static inline int use_context(struct rank_env *env)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)env->comm->device;

	return d->gpu->cu->cuCtxPushCurrent(d->gpu->context);
}

static inline int make_stream(struct rank_env *env, void **stream)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)env->comm->device;
	struct ori_cuda_scope scope;
	int err = ori_cuda_enter(d->gpu, &scope);

	if (err)
		return err;
	err = cuStreamCreateWithPriority(stream, ORI_CU_STREAM_NON_BLOCKING, 0);
	ori_cuda_leave(&scope);
	return err;
}

#endif
