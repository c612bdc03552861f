/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/cuda/team_graph.cu - a kernel that makes all collectives of a team, captured into a graph
 * and replayed, with plain launches between the replays.  The kernel checks every element.
 */
#include "gpu.h"
#include "../coll/team_mix.h"

#define REPLAYS 100

static void graph_rank(struct rank_env *env)
{
	cudaStream_t stream;
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	struct job j;

	open_job(&j, env, 10, 5000);
	GPU_OK(cudaSetDevice(0));
	GPU_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	GPU_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	REQUIRE_OK(launch(&j, 0, 2, 128, stream));
	REQUIRE_OK(launch(&j, 1, 3, 32, stream));
	GPU_OK(cudaStreamEndCapture(stream, &graph));
	GPU_OK(gpu_graph_make(graph, stream, &exec));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	for (int i = 0; i < REPLAYS && !check_failures; i++) {
		GPU_OK(cudaGraphLaunch(exec, stream));
		if (i % 10)
			continue;
		REQUIRE_OK(oriel_comm_sync(env->comm, stream));
		REQUIRE_OK(launch(&j, 1, 2, 64, NULL));
		REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	}
	REQUIRE_OK(oriel_comm_sync(env->comm, stream));
	GPU_OK(cudaGraphExecDestroy(exec));
	GPU_OK(cudaGraphDestroy(graph));
	GPU_OK(cudaStreamDestroy(stream));
	/* a launch that is captured does not run */
	count_launches(&j, 0, 2, REPLAYS - 1);
	count_launches(&j, 1, 3, REPLAYS - 1);
	close_job(&j);
}

TEST(a_captured_kernel_is_replayed)
{
	const struct bed_row rows[] = { { "three processes", 3, 1, NULL },
					{ "mixed processes", 4, 1, "2x2" } };

	if (!gpu_count()) {
		check_skip("no CUDA device here");
		return;
	}
	setenv("ORIEL_DEVICE", "cuda", 1);
	bed_both_ways(rows, ORI_COUNT(rows), graph_rank);
}
