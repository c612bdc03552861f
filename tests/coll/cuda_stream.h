/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/cuda_stream.h - what tests of CUDA ranks on the fake driver share: a stream as the
 * program makes it.
 */
#ifndef ORI_TEST_CUDA_STREAM_H
#define ORI_TEST_CUDA_STREAM_H

#include "../ranks.h"
#include "comm/comm.h"
#include "device/cuda/cuda_device.h"
#include "fake_cuda/fake.h"

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
