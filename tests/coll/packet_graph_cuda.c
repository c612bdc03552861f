/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/packet_graph_cuda.c - kernels that send packets, captured into a graph and replayed,
 * with plain launches between the replays: CUDA ranks on the fake driver.
 * tests/cuda/packet_graph.cu does the same on a GPU.
 */
#include "cuda_stream.h"
#include "packet_graph.h"
#include "util/util.h"

#define REPLAYS 12 /* several laps of the boxes */

static void *capture(struct job *j, void *stream)
{
	void *graph = NULL, *exec = NULL;

	CHECK_EQ(cuStreamBeginCapture_v2(stream, 1), 0);
	for (int i = 0; i < KINDS; i++)
		CHECK_EQ(launch(j, i, 1 + i % 3, stream), 0);
	CHECK_EQ(cuStreamEndCapture(stream, &graph), 0);
	CHECK_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
	CHECK_EQ(cuGraphDestroy(graph), 0);
	return exec;
}

static void graph_rank(struct rank_env *env)
{
	uint64_t launches = 0;
	void *stream, *exec;
	struct job j;

	open_job(&j, env);
	REQUIRE_OK(make_stream(env, &stream));
	exec = capture(&j, stream);
	check_all(&j, 0);
	for (int i = 0; i < REPLAYS && !check_failures; i++) {
		REQUIRE_OK(cuGraphLaunch(exec, stream));
		if (i % 2) /* a second one at once */
			REQUIRE_OK(cuGraphLaunch(exec, stream));
		REQUIRE_OK(oriel_comm_sync(env->comm, stream));
		for (int k = 0; k < KINDS; k++)
			REQUIRE_OK(launch(&j, k, 1 + (i + k) % 4, NULL));
		REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
		launches += 2 + (uint64_t)i % 2;
		check_all(&j, launches);
	}
	CHECK_EQ(cuGraphExecDestroy(exec), 0);
	CHECK_EQ(cuStreamDestroy_v2(stream), 0);
	close_job(&j);
}

TEST(captured_packets_are_replayed)
{
	struct ranks_options o = { .processes = 1, .deadline_s = 90, .timeout_s = 60 };
	static const struct {
		int nranks;
		const char *topology;
	} rows[] = { { 3, NULL }, { 4, "2x2" } };

	for (size_t i = 0; i < ORI_COUNT(rows) && !check_failures; i++) {
		o.nranks = rows[i].nranks;
		o.topology = rows[i].topology;
		ranks_run(&o, graph_rank, NULL);
	}
}
