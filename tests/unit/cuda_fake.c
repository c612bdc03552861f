/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_fake.c - the fake driver itself: it must catch the mistakes that it is made to
 * catch.  Each mistake is made in its own process, which must end by a signal and say which mistake
 * it was.
 */
#include <oriel/oriel.h>

#include "../check.h"
#include "device/cuda/driver.h"
#include "device/device.h"
#include "fake_cuda/apart.h"
#include "fake_cuda/fake_cuda.h"

struct bench {
	const struct ori_cuda_driver *cu;
	void *context, *stream;
	ori_cu_mem memory;
	ori_cu_ptr at;
	size_t bytes;
};

/* One piece of device memory, mapped, and a stream. */
static void bench_open(struct bench *b)
{
	struct ori_cu_prop prop = { .type = ORI_CU_ALLOC_PINNED,
				    .handle_types = ORI_CU_HANDLE_FD,
				    .location = { ORI_CU_LOCATION_DEVICE, 0 } };
	struct ori_cu_access access = { { ORI_CU_LOCATION_DEVICE, 0 }, ORI_CU_ACCESS_READWRITE };

	b->bytes = (size_t)2 << 20;
	if (ori_cuda_driver_get(&b->cu) || b->cu->cuDevicePrimaryCtxRetain(&b->context, 0) ||
	    b->cu->cuCtxPushCurrent(b->context) ||
	    b->cu->cuStreamCreateWithPriority(&b->stream, ORI_CU_STREAM_NON_BLOCKING, 0) ||
	    b->cu->cuMemCreate(&b->memory, b->bytes, &prop, 0) ||
	    b->cu->cuMemAddressReserve(&b->at, b->bytes, 0, 0, 0) ||
	    b->cu->cuMemMap(b->at, b->bytes, 0, b->memory, 0) ||
	    b->cu->cuMemSetAccess(b->at, b->bytes, &access, 1)) {
		fprintf(stderr, "the bench cannot be made\n");
		_exit(9);
	}
}

static void free_mapped(struct bench *b)
{
	b->cu->cuMemAddressFree(b->at, b->bytes);
}

static void unmap_twice(struct bench *b)
{
	b->cu->cuMemUnmap(b->at, b->bytes);
	b->cu->cuMemUnmap(b->at, b->bytes);
}

static void release_twice(struct bench *b)
{
	b->cu->cuMemRelease(b->memory);
	b->cu->cuMemRelease(b->memory);
}

static void copy_beyond(struct bench *b)
{
	static char host[64];

	b->cu->cuMemcpyAsync(b->at + b->bytes - 32, (ori_cu_ptr)(uintptr_t)host, 64, b->stream);
}

static void copy_after_free(struct bench *b)
{
	static char host[64];

	b->cu->cuMemUnmap(b->at, b->bytes);
	b->cu->cuMemcpyAsync(b->at, (ori_cu_ptr)(uintptr_t)host, 64, b->stream);
}

static void unmap_under_copy(struct bench *b)
{
	static char host[64];

	fake_cuda_hold("cuMemcpyAsync", 1); /* for ever: this process ends first */
	b->cu->cuMemcpyAsync(b->at, (ori_cu_ptr)(uintptr_t)host, 64, b->stream);
	b->cu->cuMemUnmap(b->at, b->bytes);
}

static void touch_from_host(struct bench *b)
{
	*(volatile char *)(uintptr_t)b->at = 1;
}

static void touch_reserved(struct bench *b)
{
	b->cu->cuMemUnmap(b->at, b->bytes);
	*(volatile char *)(uintptr_t)b->at = 1;
}

static void default_stream(struct bench *b)
{
	b->cu->cuMemsetD8Async(b->at, 0, 64, NULL);
}

static void stream_after_destroy(struct bench *b)
{
	b->cu->cuStreamDestroy(b->stream);
	b->cu->cuStreamQuery(b->stream);
}

static void unpin_unpinned(struct bench *b)
{
	b->cu->cuMemHostUnregister(b);
}

static void pop_empty(struct bench *b)
{
	void *context;

	b->cu->cuCtxPopCurrent(&context);
	b->cu->cuCtxPopCurrent(&context);
}

static void release_context_twice(struct bench *b)
{
	b->cu->cuDevicePrimaryCtxRelease(0);
	b->cu->cuDevicePrimaryCtxRelease(0);
}

static void launch_anything(struct bench *b)
{
	void *params[] = { b };

	b->cu->cuLaunchKernel(b, 1, 1, 1, 1, 1, 1, 0, b->stream, params, NULL);
}

static const struct mistake {
	void (*make)(struct bench *);
	const char *says;
} mistakes[] = {
	{ free_mapped, "where memory is mapped" },
	{ unmap_twice, "not mapped so" },
	{ release_twice, "was released" },
	{ copy_beyond, "32 bytes beyond its allocation" },
	{ copy_after_free, "nothing is mapped there" },
	{ unmap_under_copy, "while work on a stream uses it" },
	{ touch_from_host, "host code touched device memory" },
	{ touch_reserved, "touched and not mapped" },
	{ default_stream, "on a default stream" },
	{ stream_after_destroy, "no stream or was destroyed" },
	{ unpin_unpinned, "not pinned so" },
	{ pop_empty, "was not pushed" },
	{ release_context_twice, "once too often" },
	{ launch_anything, "which is no function" },
};

static void make_mistake(void *arg)
{
	const struct mistake *m = arg;
	struct bench b;

	bench_open(&b);
	m->make(&b);
}

TEST(mistakes_end_the_program)
{
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		struct mistake m = mistakes[i];
		struct apart a;

		apart_begin(&a, make_mistake, &m);
		apart_end(&a);
		/* A sanitizer turns the signal into an exit status. */
		CHECK(WIFSIGNALED(a.status) || WEXITSTATUS(a.status) != 0);
		CHECK(!WIFEXITED(a.status) || WEXITSTATUS(a.status) != 9);
		CHECK_HAS(a.text, "fake_cuda: ");
		CHECK_HAS(a.text, m.says);
	}
}

static void no_mistake(void *arg)
{
	char left[256];
	struct bench b;

	(void)arg;
	bench_open(&b);
	CHECK_EQ(fake_cuda_live(left, sizeof(left)), 6);
	b.cu->cuMemRelease(b.memory); /* the mapping keeps it */
	fake_cuda_write((void *)(uintptr_t)b.at, "here", 5);
	fake_cuda_read(left, (void *)(uintptr_t)b.at, 5);
	CHECK(!strcmp(left, "here"));
	CHECK_EQ(b.cu->cuMemUnmap(b.at, b.bytes), 0);
	CHECK_EQ(b.cu->cuMemAddressFree(b.at, b.bytes), 0);
	CHECK_EQ(b.cu->cuStreamDestroy(b.stream), 0);
	b.cu->cuCtxPopCurrent(&b.context);
	b.cu->cuDevicePrimaryCtxRelease(0);
	CHECK_EQ(fake_cuda_live(left, sizeof(left)), 0);
	CHECK(!left[0]);
}

TEST(right_use_leaves_nothing)
{
	struct apart a;

	apart_run(&a, no_mistake, NULL);
}
