/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/team_memory.c - a team of several nodes for whose table of nodes one rank cannot
 * allocate memory.  All ranks return its status, and the next team is made.
 *
 * This program defines calloc in front of the C library's (or the sanitizer's).  It fails on the
 * thread of one rank, for as many bytes as the table has.
 */
#include <stdlib.h>

#include <oriel/coll.h>
#include <oriel/device/team.h>

#include "../ranks.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REAL_CALLOC __interceptor_calloc
#else
#define REAL_CALLOC __libc_calloc
#endif
extern void *REAL_CALLOC(size_t, size_t);

#define RANKS 5 /* no other table of a team has as many bytes */
#define TABLE (sizeof(struct ori_team_nodes) + RANKS * sizeof(struct ori_team_place))

static _Thread_local int fails, failed;

__attribute__((no_sanitize("address", "undefined", "thread"))) void *calloc(size_t n, size_t bytes)
{
	if (!fails || n * bytes != TABLE)
		return REAL_CALLOC(n, bytes);
	failed++;
	return NULL;
}

static void starved_rank(struct rank_env *env)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	struct oriel_team *team = NULL;

	fails = env->rank == 2;
	CHECK_EQ(oriel_team_create(env->comm, &o, &team), ORIEL_ENOMEM);
	CHECK(!team);
	fails = 0;
	CHECK_EQ(failed, env->rank == 2);
	REQUIRE_OK(oriel_team_create(env->comm, &o, &team));
	CHECK_EQ(oriel_team_destroy(team), 0);
}

TEST(a_rank_without_memory_for_the_nodes)
{
	struct ranks_options o = { .nranks = RANKS, .deadline_s = 150, .topology = "0,0,1,1,1" };

	ranks_run(&o, starved_rank, NULL);
}
