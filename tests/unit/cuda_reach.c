/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_reach.c - kernels of a GPU that can access the queues and registers of a NIC, and
 * the messages if they cannot.
 */
#include <stdlib.h>

#include "../check.h"
#include "device/device.h"
#include "fake_cuda/fake_cuda.h"
#include "util/util.h"

static char page[8192] __attribute__((aligned(4096)));
static char why[256];

static int reach(struct ori_device *d, int registers)
{
	why[0] = '\0';
	return d->nics->reach(d, page, sizeof(page), registers, why, sizeof(why));
}

static struct ori_device *open_gpu(void)
{
	struct ori_device *d = NULL;

	fake_cuda_knobs("");
	CHECK_EQ(ori_device_open("cuda", 5 * ORI_NS_PER_S, &d), 0);
	return d;
}

TEST(pages_and_registers)
{
	struct ori_device *d = open_gpu();

	REQUIRE(d);
	for (int registers = 0; registers < 2; registers++) {
		CHECK_EQ(reach(d, registers), 0);
		CHECK_EQ(fake_cuda_count("cuMemHostRegister"), registers + 1);
		d->nics->unreach(d, page);
		CHECK_EQ(fake_cuda_count("cuMemHostUnregister"), registers + 1);
	}
	ori_device_drop(d);
}

TEST(a_driver_that_maps_no_registers)
{
	struct ori_device *d = open_gpu();

	REQUIRE(d);
	fake_cuda_fail("cuMemHostRegister", 1, 800);
	CHECK(reach(d, 1) < 0);
	CHECK_HAS(why, "800");
	CHECK_HAS(why, "PeerMappingOverride=1");
	fake_cuda_fail("cuMemHostRegister", 1, 2);
	CHECK(reach(d, 0) < 0);
	CHECK_HAS(why, "ulimit -l");
	/* one that knows it by no address is let go again */
	fake_cuda_fail("cuMemHostGetDevicePointer", 1, 1);
	CHECK(reach(d, 0) < 0);
	CHECK_HAS(why, "another address");
	CHECK_EQ(fake_cuda_count("cuMemHostUnregister"), 1);
	ori_device_drop(d);
}

TEST(a_gpu_that_does_not_order_writes)
{
	struct ori_device *d = open_gpu();

	REQUIRE(d);
	CHECK_EQ(d->nics->ordered(d, why, sizeof(why)), 0);
	fake_cuda_fail("cuDeviceGetAttribute", 1, 1);
	CHECK(d->nics->ordered(d, why, sizeof(why)) < 0);
	CHECK_HAS(why, "sm_90");
	CHECK_HAS(why, "ORIEL_NIC_ORDER=0");
	fake_cuda_knobs("order=0");
	CHECK(d->nics->ordered(d, why, sizeof(why)) < 0);
	fake_cuda_knobs("c2c=1");
	CHECK(d->nics->ordered(d, why, sizeof(why)) < 0);
	CHECK_HAS(why, "coherent");
	CHECK_HAS(why, "ORIEL_NIC_ORDER=0");
	ori_device_drop(d);
}

/* Its kernels are the host's threads. */
TEST(the_cpu_reaches_all)
{
	struct ori_device *d = NULL;

	REQUIRE(!ori_device_open("cpu", 5 * ORI_NS_PER_S, &d));
	CHECK_EQ(reach(d, 1), 0);
	d->nics->unreach(d, page);
	ori_device_drop(d);
}
