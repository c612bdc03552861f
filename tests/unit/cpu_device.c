/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cpu_device.c - device/cpu: launches, the barrier of a block, blocks that wait for each
 * other.
 */
#include <pthread.h>
#include <unistd.h>

#include <oriel/device.h>

#include "../check.h"
#include "device/device.h"
#include "util/util.h"

static struct ori_device *open_device(double timeout_s)
{
	struct ori_device *device = NULL;

	if (ori_device_open("cpu", (uint64_t)(timeout_s * 1e9), &device))
		check_fail(__FILE__, __LINE__, "no cpu device");
	return device;
}

struct count_args {
	uint32_t *seen; /* [block * nthreads + thread] */
	uint32_t *rounds;
};

/* Every thread adds in every round; after the barrier all must see all additions of the round. */
ORIEL_KERNEL(count_kernel, struct count_args)
{
	struct oriel_group g = oriel_group_block();

	ori_fetch_add32_acq_rel(&a->seen[g.block * g.size + g.thread], 1);
	for (uint32_t round = 1; round <= 50; round++) {
		ori_fetch_add32_acq_rel(&a->rounds[g.block], 1);
		oriel_group_sync(g);
		if (__atomic_load_n(&a->rounds[g.block], __ATOMIC_RELAXED) < round * g.size)
			ori_fetch_add32_acq_rel(&a->seen[0], 1000);
		oriel_group_sync(g);
	}
	return 0;
}

TEST(every_thread_runs_once_and_meets_the_others)
{
	static const int shapes[][2] = {
		{ 1, 1 }, { 1, 2 }, { 3, 4 }, { 1, 32 }, { 8, 4 }, { 5, 1 }
	};
	struct ori_device *device = open_device(60);

	REQUIRE(device);
	for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
		uint32_t seen[64] = { 0 }, rounds[8] = { 0 };
		struct count_args args = { seen, rounds };

		CHECK_EQ(device->ops->launch(device, &count_kernel, shapes[s][0], shapes[s][1],
					     &args, sizeof(args), NULL, NULL),
			 0);
		for (int i = 0; i < shapes[s][0] * shapes[s][1]; i++)
			CHECK_EQ(seen[i], 1);
	}
	device->ops->close(device);
}

struct agree_args {
	int32_t *verdicts; /* [round * 32 + thread] */
	uint64_t *values;
};

ORIEL_KERNEL(agree_kernel, struct agree_args)
{
	struct oriel_group g = oriel_group_block();

	for (uint32_t round = 0; round < 64; round++) {
		uint64_t value = g.thread == 0 ? round * 7 + 1 : 999;
		int mine = g.thread == 0 ? -(int)round : -12345;

		a->verdicts[round * 32 + g.thread] = ori_group_agree_value(g, mine, &value);
		a->values[round * 32 + g.thread] = value;
	}
	return 0;
}

TEST(the_leaders_word_reaches_all)
{
	static int32_t verdicts[64 * 32];
	static uint64_t values[64 * 32];
	struct agree_args args = { verdicts, values };
	struct ori_device *device = open_device(60);

	REQUIRE(device);
	for (int n = 2; n <= 32; n *= 2) {
		memset(verdicts, 1, sizeof(verdicts));
		CHECK_EQ(device->ops->launch(device, &agree_kernel, 1, n, &args, sizeof(args), NULL,
					     NULL),
			 0);
		for (int round = 0; round < 64; round++)
			for (int t = 0; t < n; t++) {
				CHECK_EQ(verdicts[round * 32 + t], -round);
				CHECK_EQ(values[round * 32 + t], round * 7 + 1);
			}
	}
	device->ops->close(device);
}

struct chain_args {
	uint64_t *words; /* one a block */
	int32_t *wrong;
};

/* Block b waits for block b+1: works only if all blocks are live at once. */
ORIEL_KERNEL(chain_kernel, struct chain_args)
{
	struct oriel_group g = oriel_group_block();

	if (g.block + 1 < g.nblocks)
		while (!ori_load_acquire_sys(&a->words[g.block + 1]))
			usleep(100);
	ori_store_release_sys(&a->words[g.block], 1);
	return 0;
}

TEST(blocks_may_wait_for_each_other)
{
	uint64_t words[64] = { 0 };
	struct chain_args args = { words, NULL };
	struct ori_device *device = open_device(60);

	REQUIRE(device);
	CHECK_EQ(device->ops->launch(device, &chain_kernel, 64, 1, &args, sizeof(args), NULL, NULL),
		 0);
	CHECK_EQ(words[0], 1);
	device->ops->close(device);
}

struct broken_args {
	int32_t *status;
};

/* One thread leaves without the call the others make: they must come back with a status. */
ORIEL_KERNEL(broken_kernel, struct broken_args)
{
	struct oriel_group g = oriel_group_block();

	if (g.thread == 1)
		return 0;
	a->status[g.thread] = oriel_group_sync(g);
	return a->status[g.thread];
}

TEST(a_thread_that_leaves_does_not_hang_its_block)
{
	int32_t status[4] = { 1, 1, 1, 1 };
	struct broken_args args = { status };
	struct ori_device *device = open_device(60);
	uint64_t start = ori_now_ns();

	REQUIRE(device);
	CHECK_EQ(device->ops->launch(device, &broken_kernel, 1, 4, &args, sizeof(args), NULL, NULL),
		 0);
	CHECK_EQ(status[0], ORIEL_EABORTED);
	CHECK_EQ(status[1], 1);
	CHECK_EQ(status[2], ORIEL_EABORTED);
	CHECK_EQ(status[3], ORIEL_EABORTED);
	CHECK(ori_now_ns() - start < 30 * ORI_NS_PER_S);
	device->ops->close(device);
}

TEST(impossible_launches_are_refused)
{
	static const struct oriel_kernel empty = { "empty", NULL, 0, NULL, NULL };
	struct ori_device *device = open_device(60), *none = NULL;
	struct broken_args args = { NULL };

	REQUIRE(device);
	CHECK_EQ(device->ops->launch(device, &broken_kernel, 1, 33, &args, sizeof(args), NULL,
				     NULL),
		 ORIEL_ERANGE);
	CHECK_EQ(device->ops->launch(device, &broken_kernel, 4096, 2, &args, sizeof(args), NULL,
				     NULL),
		 ORIEL_ERANGE);
	CHECK_EQ(device->ops->launch(device, &empty, 1, 1, NULL, 0, NULL, NULL), ORIEL_EINVAL);
	device->ops->close(device);
	/* also where there is a GPU */
	CHECK_EQ(setenv("ORIEL_CUDA_LIBRARY", "libno-cuda-here.so.1", 1), 0);
	CHECK_EQ(ori_device_open("cuda", 1, &none), ORIEL_EUNSUPPORTED);
	CHECK_EQ(ori_device_open("gpu", 1, &none), ORIEL_ECONFIG);
	CHECK(!none);
}

struct wide {
	struct ori_device *device;
	int err;
};

static void *launch_often(void *arg)
{
	struct wide *w = arg;

	for (int i = 0; i < 20 && !w->err; i++) {
		uint32_t seen[8] = { 0 }, rounds[2] = { 0 };
		struct count_args args = { seen, rounds };

		w->err = w->device->ops->launch(w->device, &count_kernel, 2, 4, &args, sizeof(args),
						NULL, NULL);
		for (int t = 0; t < 8; t++)
			w->err |= seen[t] != 1;
	}
	return NULL;
}

TEST(two_host_threads_launch_at_once)
{
	struct wide w[2] = { { open_device(60), 0 }, { NULL, 0 } };
	pthread_t thread;

	REQUIRE(w[0].device);
	w[1].device = w[0].device;
	REQUIRE(!pthread_create(&thread, NULL, launch_often, &w[1]));
	launch_often(&w[0]);
	pthread_join(thread, NULL);
	CHECK_EQ(w[0].err, 0);
	CHECK_EQ(w[1].err, 0);
	w[0].device->ops->close(w[0].device);
}

/* ---- what host memory and one stream make trivial ------------------------------------------ */

static void gone(void *arg)
{
	*(int *)arg = 1;
}

/* Entries of the table that the comm calls on GPUs: on a CPU they promise the same. */
TEST(streams_are_in_order)
{
	struct ori_device *device = open_device(60);
	uint32_t seen[4] = { 0 }, rounds[2] = { 0 };
	struct count_args args = { seen, rounds };
	struct ori_mark *mark = (struct ori_mark *)(void *)seen;
	int held = 1, was_gone = 0;

	REQUIRE(device);
	CHECK_EQ(device->streams->hold(device, NULL, gone, &was_gone, &held), 0);
	CHECK_EQ(held, 0); /* so gone() is never called */
	CHECK_EQ(was_gone, 0);
	CHECK_EQ(device->streams->launch(device, &count_kernel, 2, 2, &args, sizeof(args), NULL,
					 &mark),
		 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(seen[i], 1);
	CHECK(mark == NULL);
	CHECK_EQ(device->streams->passed(device, mark), 1);
	CHECK_EQ(device->streams->follow(device, NULL, mark), 0);
	ori_device_drop(device);
}

TEST(memory_of_others_is_reached_but_not_given)
{
	struct ori_device *device = open_device(60);
	struct ori_allocation a;
	int on_stack = 0, nblocks = 0;

	REQUIRE(device);
	CHECK_EQ(device->ops->can_store(device, &on_stack), 1);
	CHECK_EQ(device->ops->describe(device, &on_stack, sizeof(on_stack), &a), ORIEL_EEXPORT);
	CHECK_HAS(ori_last_error_text(), "oriel_alloc");
	CHECK_EQ(device->ops->resident(device, &count_kernel, 4, &nblocks), 0);
	CHECK(nblocks >= 32);
	ori_device_drop(device);
}
