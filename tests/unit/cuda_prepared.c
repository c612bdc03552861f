/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_prepared.c - resources that device/cuda prepares, so that no later call must wait
 * for them, on the fake driver of tests/fake_cuda: stack space of kernels, the kind of its own
 * memory, pinned memory, streams, the program's kernels.
 */
#include <oriel/oriel.h>

#include "../check.h"
#include "device/cuda/driver.h"
#include "device/device.h"
#include "fake_cuda/fake_cuda.h"

#define TIMEOUT_NS 30000000000ull

static struct ori_device *open_gpu(const char *knobs)
{
	struct ori_device *device = NULL;

	fake_cuda_knobs(knobs);
	if (ori_device_open("cuda:0", TIMEOUT_NS, &device))
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
	struct ori_device *d = open_gpu("");
	struct ori_allocation a, b, pinned;
	uint64_t *host, plain;
	char *user;
	int asked;

	REQUIRE(d);
	REQUIRE_OK(d->ops->alloc(d, 4096, &a));
	REQUIRE_OK(d->ops->alloc(d, 4096, &b));
	REQUIRE_OK(d->ops->alloc_host(d, 4096, &pinned));
	host = pinned.base;
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
	CHECK_EQ(d->ops->copy(d, &plain, (char *)a.base + 8, 8), 0);
	CHECK_EQ(plain, 0x1234);
	CHECK(fake_cuda_count("cuPointerGetAttributes") > asked);
	d->ops->free_host(d, &pinned, 1);
	fake_cuda_free(user);
	d->ops->free(d, &a);
	d->ops->free(d, &b);
	close_gpu(d);
}

/*
 * Unpinning waits for kernels.  So freed memory stays pinned, and is given out again, zeroed, if
 * that is safe.
 */
TEST(host_memory_is_kept_until_the_last_rank_leaves)
{
	struct ori_device *d = open_gpu(""), *other;
	struct ori_allocation a, b, c;
	char *first;

	REQUIRE(d);
	REQUIRE_OK(ori_device_open("cuda", TIMEOUT_NS, &other));
	REQUIRE_OK(d->ops->alloc_host(d, 8192, &a));
	first = a.base;
	CHECK_EQ(first[0] + first[8191], 0);
	memset(first, 7, 8192);
	d->ops->free_host(d, &a, 1);
	d->ops->close(d);
	REQUIRE_OK(other->ops->alloc_host(other, 8192, &b));
	CHECK(b.base == first);
	CHECK_EQ(first[0] + first[8191], 0);
	/* a kernel may still store there: it stays pinned, and is not given out again */
	other->ops->free_host(other, &b, 0);
	REQUIRE_OK(other->ops->alloc_host(other, 8192, &c));
	CHECK(c.base != first);
	first[0] = 1;
	/* not one that is too small */
	REQUIRE_OK(other->ops->alloc_host(other, 16384, &a));
	CHECK_EQ(fake_cuda_count("cuMemHostRegister"), 3);
	other->ops->free_host(other, &a, 1);
	other->ops->free_host(other, &c, 1);
	CHECK_EQ(fake_cuda_count("cuMemHostUnregister"), 0);
	close_gpu(other);
	CHECK_EQ(fake_cuda_count("cuMemHostUnregister"), 3);
}

/*
 * A stream has had a kernel before anybody uses it; where that does not get its turn, another one
 * is taken.
 */
TEST(a_stream_is_begun_when_it_is_made)
{
	struct ori_device *d = open_gpu(""), *other = NULL;
	int streams = fake_cuda_count("cuStreamCreateWithPriority");

	REQUIRE(d);
	CHECK_EQ(fake_cuda_count("cuLaunchKernel"), 1);
	fake_cuda_hold("cuLaunchKernel", 1);
	CHECK_EQ(ori_device_open("cuda", TIMEOUT_NS, &other), 0);
	CHECK_EQ(fake_cuda_count("cuLaunchKernel"), 2);
	CHECK_EQ(fake_cuda_count("cuStreamCreateWithPriority"), streams + 2);
	CHECK_EQ(other->ops->sync(other, NULL), 0); /* nothing is in it */
	fake_cuda_hold("cuLaunchKernel", 0);
	other->ops->close(other);
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

/* ---- kernels of the program ------------------------------------------------------------------ */

struct nothing {
	int32_t unused;
};

ORIEL_KERNEL(nothing_kernel, struct nothing)
{
	(void)a;
	return 0;
}

static struct oriel_kernel noted; /* nothing_kernel, but that finding it is counted */
static int (*find_it)(const void *symbol, void **function);
static int finds, find_error;

static int find_and_count(const void *symbol, void **function)
{
	finds++;
	return find_error ? find_error : find_it(symbol, function);
}

static void prepare_noted(struct oriel_kernel_note *note)
{
	noted = *fake_cuda_kernel(&nothing_kernel);
	find_it = noted.gpu_find;
	noted.gpu_find = find_and_count;
	finds = find_error = 0;
	note->kernel = &noted;
	oriel_kernels_note(note);
}

static int launch_noted(struct ori_device *d)
{
	struct nothing args = { 0 };
	int err = d->ops->launch(d, &noted, 1, 1, &args, sizeof(args), NULL, NULL);

	return err ? err : d->ops->sync(d, NULL);
}

/* The runtime loads at the first question, which waits for running kernels: not at a launch. */
TEST(noted_kernels_are_found_when_the_gpu_is_opened)
{
	struct oriel_kernel_note note;
	struct ori_device *d;

	prepare_noted(&note);
	d = open_gpu("");
	REQUIRE(d);
	CHECK_EQ(finds, 1);
	CHECK_EQ(launch_noted(d), 0);
	CHECK_EQ(finds, 1);
	close_gpu(d);
	oriel_kernels_forget(&note);
	oriel_kernels_forget(&note); /* nothing happens */
	d = open_gpu("");
	REQUIRE(d);
	CHECK_EQ(finds, 1);
	CHECK_EQ(launch_noted(d), 0);
	CHECK_EQ(finds, 2);
	close_gpu(d);
}

/*
 * A library is closed, and another one has its kernel at the same addresses: it is not the one that
 * was found.
 */
TEST(kernels_of_a_closed_library_are_forgotten)
{
	struct oriel_kernel_note note, again;
	struct ori_device *d;

	prepare_noted(&note);
	d = open_gpu("");
	REQUIRE(d);
	CHECK_EQ(launch_noted(d), 0);
	CHECK_EQ(finds, 1);
	oriel_kernels_forget(&note);
	again = note;
	oriel_kernels_note(&again);
	CHECK_EQ(launch_noted(d), 0);
	CHECK_EQ(finds, 2);
	CHECK_EQ(launch_noted(d), 0);
	CHECK_EQ(finds, 2);
	oriel_kernels_forget(&again);
	find_error = 98;
	CHECK_EQ(launch_noted(d), 0); /* by its name, as images have it */
	CHECK_EQ(finds, 3);
	close_gpu(d);
}

/* Of many in a list any may go. */
TEST(notes_go_in_any_order)
{
	struct oriel_kernel_note note[3];
	struct ori_device *d;

	for (int i = 0; i < 3; i++)
		prepare_noted(&note[i]);
	oriel_kernels_forget(&note[1]);
	d = open_gpu("");
	REQUIRE(d);
	CHECK_EQ(finds, 2);
	close_gpu(d);
	oriel_kernels_forget(&note[2]);
	oriel_kernels_forget(&note[0]);
	d = open_gpu("");
	REQUIRE(d);
	CHECK_EQ(finds, 2);
	close_gpu(d);
}

/*
 * A kernel that is not built for this GPU is not an error by itself; its launch fails with a
 * message.
 */
TEST(a_noted_kernel_may_be_missing)
{
	struct oriel_kernel_note note;
	struct ori_device *d;

	prepare_noted(&note);
	noted.name = "missing";
	find_error = 98;
	d = open_gpu("");
	REQUIRE(d);
	CHECK_EQ(finds, 1);
	CHECK_EQ(launch_noted(d), ORIEL_EUNSUPPORTED);
	CHECK_HAS(oriel_last_error(), "error 98");
	close_gpu(d);
	oriel_kernels_forget(&note);
}

TEST(noted_kernels_have_the_stack_they_need)
{
	const struct ori_cuda_driver *cu;
	struct oriel_kernel_note note;
	struct ori_device *d;
	size_t stack = 0;
	void *context;

	prepare_noted(&note);
	REQUIRE_OK(ori_cuda_driver_get(&cu));
	REQUIRE(!cu->cuDevicePrimaryCtxRetain(&context, 0) && !cu->cuCtxPushCurrent(context));
	d = open_gpu("local=7000");
	REQUIRE(d);
	CHECK(!cu->cuCtxGetLimit(&stack, ORI_CU_LIMIT_STACK));
	CHECK(stack >= 7000);
	cu->cuCtxPopCurrent(&context);
	cu->cuDevicePrimaryCtxRelease(0);
	close_gpu(d);
	oriel_kernels_forget(&note);
}
