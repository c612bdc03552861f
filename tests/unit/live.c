/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/live.c - the list of live handles. */
#include <pthread.h>

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
