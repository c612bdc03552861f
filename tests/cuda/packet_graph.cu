/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/cuda/packet_graph.cu - kernels that send packets, captured into a graph and replayed, with
 * plain launches between the replays.
 */
#include "gpu.h"
#include "../coll/packet_graph.h"

#define REPLAYS 100 /* many laps of the boxes */

static void capture(struct job *j, cudaStream_t stream, cudaGraphExec_t *exec)
{
	cudaGraph_t graph;

	GPU_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	for (int i = 0; i < KINDS; i++)
		REQUIRE_OK(launch(j, i, i % 2 ? 128 : 32, stream));
	GPU_OK(cudaStreamEndCapture(stream, &graph));
	GPU_OK(gpu_graph_make(graph, stream, exec));
	GPU_OK(cudaGraphDestroy(graph));
}

static void replay(struct job *j, cudaStream_t stream, cudaGraphExec_t exec)
{
	uint64_t launches = 0;

	for (int i = 0; i < REPLAYS && !check_failures; i++) {
		GPU_OK(cudaGraphLaunch(exec, stream));
		launches++;
		if (i % 10)
			continue;
		REQUIRE_OK(oriel_comm_sync(j->env->comm, stream));
		for (int k = 0; k < KINDS; k++)
			REQUIRE_OK(launch(j, k, k % 2 ? 1 : 512, NULL));
		REQUIRE_OK(oriel_comm_sync(j->env->comm, NULL));
		launches++;
		check_all(j, launches);
	}
	REQUIRE_OK(oriel_comm_sync(j->env->comm, stream));
	check_all(j, launches);
}

static void graph_rank(struct rank_env *env)
{
	cudaGraphExec_t exec = NULL;
	cudaStream_t stream;
	struct job j;

	open_job(&j, env);
	GPU_OK(cudaSetDevice(0));
	GPU_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	capture(&j, stream, &exec);
	if (!exec)
		return; /* the reason is told */
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	replay(&j, stream, exec);
	GPU_OK(cudaGraphExecDestroy(exec));
	GPU_OK(cudaStreamDestroy(stream));
	close_job(&j);
}

TEST(captured_packets_are_replayed)
{
	gpu_run(3, 1, NULL, graph_rank, NULL);
}

TEST(captured_packets_of_queued_ranks_are_replayed)
{
	gpu_run(4, 1, "2x2", graph_rank, NULL);
}
