/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/crowd.c - crowded cores, and sleeping on a word. */
#include <pthread.h>

#include "../../src/util/util.h"
#include "../check.h"

#define LONG_NS (20 * ORI_NS_PER_S)

TEST(threads_and_ranks_crowd_the_cores)
{
	int cores = ori_core_count();

	CHECK(!ori_crowded());
	ori_crowd_threads_add(cores);
	CHECK(!ori_crowded());
	ori_crowd_threads_add(1);
	CHECK(ori_crowded());
	ori_crowd_threads_add(-cores - 1);
	CHECK(!ori_crowded());
	ori_crowd_ranks_set(cores, 1);
	CHECK(!ori_crowded());
	ori_crowd_threads_add(2); /* other processes are assumed to run as many */
	CHECK(ori_crowded());
	ori_crowd_threads_add(-2);
	CHECK(!ori_crowded());
	ori_crowd_ranks_set(cores + 1, 1);
	ori_crowd_ranks_set(1, 1); /* the largest value counts */
	CHECK(ori_crowded());
}

TEST(a_wait_ends_by_its_time_or_by_another_value)
{
	uint32_t word = 1;
	uint64_t start = ori_now_ns();

	ori_futex_wait(&word, 0, LONG_NS);
	CHECK(ori_now_ns() - start < LONG_NS);
	ori_futex_wait(&word, 1, 1000000);
	CHECK(ori_now_ns() - start < LONG_NS);
}

static void *change_and_wake(void *arg)
{
	uint32_t *word = arg;

	ori_sleep_ns(10000000);
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	ori_futex_wake_all(word);
	return NULL;
}

TEST(a_waker_ends_a_wait)
{
	uint64_t start = ori_now_ns();
	uint32_t word = 0;
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, change_and_wake, &word));
	while (!__atomic_load_n(&word, __ATOMIC_ACQUIRE))
		ori_futex_wait(&word, 0, LONG_NS);
	CHECK(ori_now_ns() - start < LONG_NS);
	pthread_join(thread, NULL);
}
