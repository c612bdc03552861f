/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/gather_memory.c - an all-gather for which one rank cannot allocate memory.  That rank
 * says so, and the others do not wait for it until their deadline.
 *
 * This program defines realloc in front of the C library's (or the sanitizer's).  It fails on the
 * thread of one rank.
 */
#include <stdlib.h>

#include <oriel/coll.h>

#include "../ranks.h"
#include "util/util.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REAL_REALLOC __interceptor_realloc
#else
#define REAL_REALLOC __libc_realloc
#endif
extern void *REAL_REALLOC(void *, size_t);

#define SOON_NS (30 * ORI_NS_PER_S) /* half the deadline */

static _Thread_local int fails;

__attribute__((no_sanitize("address", "undefined", "thread"))) void *realloc(void *p, size_t bytes)
{
	return fails ? NULL : REAL_REALLOC(p, bytes);
}

/* Blocks that are stored, and with few bytes that are shown. */
static void starved_rank(struct rank_env *env)
{
	uint64_t bytes = *(const uint64_t *)env->arg, start;
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_allgather_request *req;
	struct oriel_window *w;
	int err;

	o.bytes = bytes * (uint64_t)env->nranks;
	REQUIRE_OK(oriel_window_create(env->comm, &o, &w));
	REQUIRE_OK(oriel_allgather_create(env->comm, w, NULL, &req));
	start = ori_now_ns();
	fails = env->rank == 1;
	err = oriel_allgather_exec(req, NULL, bytes, 1, NULL);
	fails = 0;
	CHECK_EQ(err, ORIEL_ENOMEM);
	CHECK(ori_now_ns() - start < SOON_NS);
	CHECK_EQ(oriel_allgather_exec(req, NULL, bytes, 1, NULL), ORIEL_ENOMEM);
	REQUIRE_OK(oriel_allgather_destroy(req));
	REQUIRE_OK(oriel_window_destroy(w));
}

TEST(a_rank_without_memory_tells_the_others)
{
	static uint64_t shown = 1000, stored = 100000;
	struct ranks_options o = { .nranks = 3, .deadline_s = 150, .timeout_s = 60 };

	ranks_run(&o, starved_rank, &stored);
	ranks_run(&o, starved_rank, &shown);
	o.topology = "3x1";
	ranks_run(&o, starved_rank, &stored);
}
