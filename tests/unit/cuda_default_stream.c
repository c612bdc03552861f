/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_default_stream.c - a user's work on CUDA's default stream, on the fake driver of
 * tests/fake_cuda.  PyTorch passes that stream unless a program makes another one.  The driver
 * refuses batches of copies there.
 */
#include <string.h>

#include <oriel/oriel.h>

#include "../check.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "device/device.h"
#include "fake_cuda/fake_cuda.h"

#define LONG_NS 60e9

TEST(copies_run_on_the_default_stream)
{
	static unsigned char host[3][64];
	struct ori_device *d = NULL;
	const struct ori_cuda_driver *cu;
	struct ori_allocation a;
	struct ori_copy_job jobs[3];
	void *stream, *context;

	REQUIRE_OK(ori_device_open("cuda", (uint64_t)LONG_NS, &d));
	REQUIRE_OK(ori_cuda_driver_get(&cu));
	REQUIRE(!cu->cuDevicePrimaryCtxRetain(&context, 0) && !cu->cuCtxPushCurrent(context));
	CHECK_EQ(d->ops->alloc(d, sizeof(host), &a), 0);
	REQUIRE(!cu->cuStreamCreateWithPriority(&stream, ORI_CU_STREAM_NON_BLOCKING, 0));
	fake_cuda_default_stream(stream);
	memset(host, 7, sizeof(host));
	for (int i = 0; i < 3; i++) {
		jobs[i].to = (char *)a.base + (size_t)i * sizeof(host[0]);
		jobs[i].from = host[i];
		jobs[i].bytes = sizeof(host[0]);
	}
	CHECK_EQ(d->streams->copies(d, jobs, 3, (void *)1), 0);
	CHECK_EQ(d->ops->sync(d, stream), 0);
	memset(host, 0, sizeof(host));
	CHECK_EQ(d->ops->copy(d, host, a.base, sizeof(host)), 0);
	CHECK_EQ(host[0][0] + host[2][63], 14);
	fake_cuda_default_stream(NULL);
	CHECK_EQ(cu->cuStreamDestroy(stream), 0);
	cu->cuCtxPopCurrent(&context);
	cu->cuDevicePrimaryCtxRelease(0);
	d->ops->free(d, &a);
	d->ops->close(d);
}
