/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_prepared.c - what device/cuda has ready so that nothing must wait for it later, on
 * the fake driver of tests/fake_cuda: room on the stacks of kernels, the kind of its own memory.
 */
#include <oriel/oriel.h>

#include "../check.h"
#include "device/cuda/driver.h"
#include "device/device.h"
#include "fake_cuda/fake_cuda.h"

static struct ori_device *open_gpu(const char *knobs)
{
	struct ori_device *device = NULL;

	fake_cuda_knobs(knobs);
	if (ori_device_open("cuda:0", 30000000000ull, &device))
		check_fail(__FILE__, __LINE__, "no device: %s", oriel_last_error());
	return device;
}

static void close_gpu(struct ori_device *device)
{
	char left[256];

	device->ops->close(device);
	if (fake_cuda_live(left, sizeof(left)))
		check_fail(__FILE__, __LINE__, "left over:%s", left);
}

/* Between memories that the device made or pinned itself the driver is not asked what they are. */
TEST(copies_know_the_memory_that_is_ours)
{
	static uint64_t host[512] __attribute__((aligned(4096)));
	struct ori_device *d = open_gpu("");
	struct ori_allocation a, b;
	char *user;
	int asked;

	REQUIRE(d);
	REQUIRE_OK(d->ops->alloc(d, 4096, &a));
	REQUIRE_OK(d->ops->alloc(d, 4096, &b));
	REQUIRE_OK(d->ops->pin(d, host, sizeof(host)));
	user = fake_cuda_malloc(0, FAKE_CUDA_MALLOC, 4096);
	host[1] = 0x1234;
	CHECK_EQ(d->ops->copy(d, (char *)a.base + 8, &host[1], 8), 0);
	CHECK_EQ(d->ops->copy(d, (char *)b.base + a.bytes - 8, (char *)a.base + 8, 8), 0);
	CHECK_EQ(d->ops->copy(d, &host[2], (char *)b.base + b.bytes - 8, 8), 0);
	CHECK_EQ(host[2], 0x1234);
	CHECK_EQ(fake_cuda_count("cuPointerGetAttributes"), 0);
	CHECK_EQ(d->ops->copy(d, user, a.base, 8), 0);
	asked = fake_cuda_count("cuPointerGetAttributes");
	CHECK(asked > 0);
	d->ops->unpin(d, host);
	CHECK_EQ(d->ops->copy(d, &host[3], (char *)a.base + 8, 8), 0);
	CHECK_EQ(host[3], 0x1234);
	CHECK(fake_cuda_count("cuPointerGetAttributes") > asked);
	fake_cuda_free(user);
	d->ops->free(d, &a);
	d->ops->free(d, &b);
	close_gpu(d);
}

/* A handle on a kernel's stack must fit, whatever the context had; it never gets less. */
TEST(kernels_have_room_for_a_handle)
{
	const struct ori_cuda_driver *cu;
	struct ori_device *d;
	size_t stack = 0;
	void *context;

	REQUIRE_OK(ori_cuda_driver_get(&cu));
	REQUIRE(!cu->cuDevicePrimaryCtxRetain(&context, 0) && !cu->cuCtxPushCurrent(context));
	d = open_gpu("");
	REQUIRE(d);
	CHECK(!cu->cuCtxGetLimit(&stack, ORI_CU_LIMIT_STACK));
	CHECK(stack >= sizeof(struct oriel_window_dev) + 256);
	d->ops->close(d);
	CHECK(!cu->cuCtxSetLimit(ORI_CU_LIMIT_STACK, 65536));
	d = open_gpu("");
	REQUIRE(d);
	CHECK_EQ(fake_cuda_count("cuCtxSetLimit"), 0);
	CHECK(!cu->cuCtxGetLimit(&stack, ORI_CU_LIMIT_STACK));
	CHECK_EQ(stack, 65536);
	d->ops->close(d);
	/* one that will not be changed is as it is */
	CHECK(!cu->cuCtxSetLimit(ORI_CU_LIMIT_STACK, 1024));
	d = open_gpu("fail=cuCtxSetLimit:1");
	REQUIRE(d);
	cu->cuCtxPopCurrent(&context);
	cu->cuDevicePrimaryCtxRelease(0);
	close_gpu(d);
}
