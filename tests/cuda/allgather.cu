/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/cuda/allgather.cu - the persistent all-gather on a GPU: small blocks by a kernel, large
 * ones by the copy engine, in place and not, on streams and replayed from a graph; every byte
 * checked.
 */
#include "gpu.h"

#include "../coll/allgather_bed.h"

#define MOST (4u << 20)
#define REPLAYS 100

static const uint64_t sizes[] = { 0, 1, 1024, 65536, 1u << 20, (1u << 20) + 9, MOST };

static void streams_rank(struct rank_env *env)
{
	struct oriel_allgather_request *req;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, MOST, 1));
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, NULL, &req));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (int k = 0; k < 10; k++)
			if (bed_exec(&b, req, sizes[i], 1, k % 2, "on a GPU"))
				return;
	REQUIRE_OK(oriel_allgather_destroy(req));
	REQUIRE_OK(bed_close(&b));
}

/* Captured once; the request is destroyed while the graph is there, the window cannot be. */
static void graph_of(struct bed *b, uint64_t bytes)
{
	struct oriel_allgather_request *req;
	cudaGraphExec_t exec;
	cudaStream_t stream;
	cudaGraph_t graph;
	const void *sendbuf;

	REQUIRE_OK(oriel_allgather_create(b->env->comm, b->window, NULL, &req));
	GPU_OK(cudaSetDevice(0));
	GPU_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	GPU_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	REQUIRE_OK(oriel_allgather_exec(req, b->send, bytes, 1, stream));
	GPU_OK(cudaStreamEndCapture(stream, &graph));
	GPU_OK(gpu_graph_make(graph, stream, &exec));
	REQUIRE_OK(oriel_allgather_destroy(req));
	REQUIRE_OK(oriel_comm_barrier(b->env->comm, ORIEL_WORLD));
	for (int i = 0; i < REPLAYS; i++) {
		REQUIRE_OK(bed_begin(b, bytes, 0, &sendbuf));
		GPU_OK(cudaGraphLaunch(exec, stream));
		REQUIRE_OK(oriel_comm_sync(b->env->comm, stream));
		bed_check(b, bytes, "replayed");
	}
	CHECK_EQ(oriel_window_destroy(b->window), ORIEL_EBUSY);
	GPU_OK(cudaGraphExecDestroy(exec));
	GPU_OK(cudaGraphDestroy(graph));
	GPU_OK(cudaStreamDestroy(stream));
}

static void graphs_rank(struct rank_env *env)
{
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, MOST, 1));
	graph_of(&b, 1000);
	graph_of(&b, MOST);
	/*
	 * the driver lets go of what a graph held on a thread of its own: once it has, the window
	 * goes
	 */
	while (oriel_window_destroy(b.window) == ORIEL_EBUSY)
		;
	b.window = NULL;
	b.recv = NULL;
	REQUIRE_OK(bed_close(&b));
}

TEST(streams_of_4_processes)
{
	gpu_run(4, 1, NULL, streams_rank, NULL);
}

TEST(streams_of_mixed_processes)
{
	gpu_run(4, 1, "2x2", streams_rank, NULL);
}

TEST(graphs_of_2_processes)
{
	gpu_run(2, 1, NULL, graphs_rank, NULL);
}

TEST(graphs_of_queued_processes)
{
	gpu_run(2, 1, "2x1", graphs_rank, NULL);
}

TEST(streams_of_8_threads)
{
	gpu_run(8, 0, NULL, streams_rank, NULL);
}

TEST(graphs_of_4_threads)
{
	gpu_run(4, 0, NULL, graphs_rank, NULL);
}
