/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/team_graph_cuda.c - a kernel that makes all collectives of a team, captured into a
 * graph and replayed, with plain launches between the replays: CUDA ranks on the fake driver.
 */
#include "cuda_stream.h"
#include "team_mix.h"

#define REPLAYS 4

static void graph_rank(struct rank_env *env)
{
	void *stream, *graph = NULL, *exec = NULL;
	struct job j;

	open_job(&j, env, 10, 5000);
	REQUIRE_OK(make_stream(env, &stream));
	REQUIRE_OK(cuStreamBeginCapture_v2(stream, 1));
	REQUIRE_OK(launch(&j, 0, 2, 2, stream));
	REQUIRE_OK(launch(&j, 1, 3, 1, stream));
	REQUIRE_OK(cuStreamEndCapture(stream, &graph));
	REQUIRE_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	REQUIRE_OK(cuGraphDestroy(graph));
	for (int i = 0; i < REPLAYS && !check_failures; i++) {
		REQUIRE_OK(cuGraphLaunch(exec, stream));
		REQUIRE_OK(oriel_comm_sync(env->comm, stream));
		REQUIRE_OK(launch(&j, 1, 2, 2, NULL));
		REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	}
	CHECK_EQ(cuGraphExecDestroy(exec), 0);
	CHECK_EQ(cuStreamDestroy_v2(stream), 0);
	/* a launch that is captured does not run */
	count_launches(&j, 0, 2, REPLAYS - 1);
	count_launches(&j, 1, 3, REPLAYS - 1);
	close_job(&j);
}

TEST(a_captured_kernel_is_replayed)
{
	const struct bed_row rows[] = { { "three processes", 3, 1, NULL },
					{ "mixed processes", 4, 1, "2x2" } };

	bed_both_ways(rows, ORI_COUNT(rows), graph_rank);
}
