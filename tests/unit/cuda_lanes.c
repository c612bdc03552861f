/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_lanes.c - queues to many peers on a GPU.  They are not taken from the control
 * slab, which is small there because all of it is pinned.  Two ranks with queues of the same size
 * play a job of 1,024 ranks.
 */
#include <stdlib.h>

#include <oriel/oriel.h>

#include "../check.h"
#include "../ranks.h"
#include "comm/links.h"
#include "fake_cuda/apart.h"
#include "fake_cuda/fake_cuda.h"

#define RANKS 1024u
#define DEPTH 128u /* the default */

static int make_comm(struct rank_env *env, struct oriel_comm **comm, const char *topology)
{
	struct oriel_comm_options o = ORIEL_COMM_OPTIONS_INIT;

	o.device = "cuda";
	o.topology = topology;
	o.timeout = 60;
	return oriel_comm_create(env->boot, &o, comm);
}

static void ring(struct rank_env *env, const char *topology, uint64_t *slab_used)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int next = (env->rank + 1) % env->nranks,
	    last = (env->rank + env->nranks - 1) % env->nranks;
	struct oriel_window *w;
	struct oriel_comm *c;
	struct oriel_source s;
	unsigned char got = 0, mine = (unsigned char)(env->rank + 1);

	o.bytes = 4096;
	REQUIRE_OK(make_comm(env, &c, topology));
	*slab_used = c->slab.used;
	REQUIRE_OK(oriel_window_create(c, &o, &w));
	REQUIRE_OK(oriel_window_source(w, (char *)oriel_window_buffer(w) + 1024, 1, &s));
	REQUIRE_OK(oriel_copy(c, (char *)oriel_window_buffer(w) + 1024, &mine, 1));
	REQUIRE_OK(oriel_window_put_signal(w, next, 0, &s, 0, 1, 0, ORIEL_ADD, 1, NULL));
	REQUIRE_OK(oriel_window_wait_signal(w, last, 0, ORIEL_GE, 1, NULL));
	REQUIRE_OK(oriel_comm_sync(c, NULL));
	REQUIRE_OK(oriel_copy(c, &got, oriel_window_buffer(w), 1));
	CHECK_EQ(got, last + 1);
	REQUIRE_OK(oriel_window_destroy(w));
	REQUIRE_OK(oriel_comm_destroy(c));
}

/* 16 lanes whose rings are together as long as those of 1,024 peers, and of 256 with four lanes. */
static void long_queues(struct rank_env *env)
{
	uint64_t used = 0;

	ring(env, "2x1", &used);
	CHECK(used && used < ORI_SLAB_SEPARATE_BYTES / 8);
}

static void run_long(void *arg)
{
	struct ranks_options o = { .nranks = 2, .no_comm = 1 };
	char depth[16];

	(void)arg;
	snprintf(depth, sizeof(depth), "%u", DEPTH * RANKS / 16);
	setenv("ORIEL_LANES", "16", 1);
	setenv("ORIEL_QUEUE_DEPTH", depth, 1);
	ranks_run(&o, long_queues, NULL);
}

TEST(queues_as_long_as_those_of_1024_ranks)
{
	struct apart a;

	apart_run(&a, run_long, NULL);
}

/* What the slab gives for queues is the same for few ranks and for many, but for small tables. */
static uint64_t slab_of[2];

static void few(struct rank_env *env)
{
	uint64_t used = 0;

	ring(env, "2x1", &used);
	if (!env->rank)
		slab_of[0] = used;
}

static void many(struct rank_env *env)
{
	uint64_t used = 0;

	ring(env, "12x1", &used);
	if (!env->rank)
		slab_of[1] = used;
}

static void run_few_and_many(void *arg)
{
	struct ranks_options o = { .nranks = 2, .no_comm = 1 };

	(void)arg;
	ranks_run(&o, few, NULL);
	o.nranks = 12;
	ranks_run(&o, many, NULL);
	CHECK(slab_of[0] && slab_of[1]);
	CHECK(slab_of[1] - slab_of[0] <= 8 * ORI_SLAB_ALIGN);
}

TEST(the_slab_does_not_grow_with_the_ranks)
{
	struct apart a;

	apart_run(&a, run_few_and_many, NULL);
}

TEST(an_engine_with_rings_of_its_own_gets_none)
{
	CHECK_EQ(ori_lane_bytes(DEPTH, 1), sizeof(struct ori_lane_memory));
	CHECK_EQ(ori_lane_bytes(DEPTH, 0), sizeof(struct ori_lane_memory) + 4 * 64 * DEPTH);
	/* beside 1,024 lanes of such an engine there is room for windows */
	CHECK(RANKS * ori_lane_bytes(DEPTH, 1) < ORI_SLAB_SEPARATE_BYTES / 16);
	CHECK_EQ(sizeof(struct ori_lane_memory) % ORIEL_LINE_BYTES, 0);
}
