/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/live.c - the list of live handles. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <oriel/oriel.h>

#include "../../src/util/util.h"
#include "../check.h"

TEST(kinds_and_ends)
{
	int a, b;

	CHECK_EQ(ori_live_check(NULL, ORI_LIVE_BOOT, "call"), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "call");
	CHECK_EQ(ori_live_check(&a, ORI_LIVE_BOOT, "call"), ORIEL_ESTALE);
	CHECK_EQ(ori_live_add(&a, ORI_LIVE_COMM), 0);
	CHECK_EQ(ori_live_add(&b, ORI_LIVE_WINDOW), 0);
	CHECK_EQ(ori_live_check(&a, ORI_LIVE_COMM, "call"), 0);
	CHECK_EQ(ori_live_check(&a, ORI_LIVE_WINDOW, "call"), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "takes a window, got a comm");
	ori_live_remove(&a);
	CHECK_EQ(ori_live_check(&a, ORI_LIVE_COMM, "oriel_x"), ORIEL_ESTALE);
	CHECK_HAS(oriel_last_error(), "oriel_x");
	CHECK_EQ(ori_live_check(&b, ORI_LIVE_WINDOW, "call"), 0);
	ori_live_remove(&b);
	ori_live_remove(&b); /* twice does no harm */
}

TEST(never_reads_through)
{
	const void *wild = (const void *)(uintptr_t)0x10;

	CHECK_EQ(ori_live_check(wild, ORI_LIVE_BOOT, "call"), ORIEL_ESTALE);
}

static void *churn(void *arg)
{
	char *handles = arg;

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 500; i++)
			CHECK_EQ(ori_live_add(&handles[i], ORI_LIVE_BUFFER), 0);
		for (int i = 0; i < 500; i++)
			CHECK_EQ(ori_live_check(&handles[i], ORI_LIVE_BUFFER, "churn"), 0);
		for (int i = 0; i < 500; i++)
			ori_live_remove(&handles[i]);
	}
	return NULL;
}

TEST(many_threads)
{
	static char handles[4][500];
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, churn, handles[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(ori_live_check(&handles[0][0], ORI_LIVE_BUFFER, "call"), ORIEL_ESTALE);
}

/* In the child of a fork. */
static int child_of(const int *inherited)
{
	int own, bad = 0;

	bad |= ori_live_check(inherited, ORI_LIVE_WINDOW, "put") != ORIEL_EUNSUPPORTED;
	bad |= !strstr(ori_last_error_text(), "put: the window was made before fork()");
	bad |= ori_live_check(inherited, ORI_LIVE_COMM, "put") != ORIEL_EUNSUPPORTED;
	bad |= ori_live_add(&own, ORI_LIVE_COMM) || ori_live_check(&own, ORI_LIVE_COMM, "put");
	ori_live_remove(&own);
	bad |= ori_live_check(&own, ORI_LIVE_COMM, "put") != ORIEL_ESTALE;
	return bad;
}

TEST(a_child_of_fork_is_refused)
{
	int handle = 0, status = -1;
	pid_t child;

	REQUIRE(!ori_live_add(&handle, ORI_LIVE_WINDOW));
	child = fork();
	if (!child)
		_exit(child_of(&handle));
	REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
	CHECK_EQ(status, 0);
	CHECK_EQ(ori_live_check(&handle, ORI_LIVE_WINDOW, "put"), 0);
	ori_live_remove(&handle);
}

static void *adds_and_removes(void *stop)
{
	int handle[64];

	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 64; i++)
			if (ori_live_add(&handle[i], ORI_LIVE_COMM))
				check_fail(__FILE__, __LINE__, "no memory");
		for (int i = 0; i < 64; i++)
			ori_live_remove(&handle[i]);
	}
	return NULL;
}

/* Whatever another thread of the parent is in, the child finds no lock taken. */
TEST(fork_beside_a_busy_thread)
{
	int stop = 0, handle = 0, status;
	pthread_t thread;

	REQUIRE(!ori_live_add(&handle, ORI_LIVE_WINDOW));
	REQUIRE(!pthread_create(&thread, NULL, adds_and_removes, &stop));
	for (int i = 0; i < 50; i++) {
		pid_t child = fork();

		if (!child) {
			alarm(60);
			_exit(ori_live_check(&handle, ORI_LIVE_WINDOW, "put") !=
			      ORIEL_EUNSUPPORTED);
		}
		REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
		CHECK_EQ(status, 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	ori_live_remove(&handle);
}
