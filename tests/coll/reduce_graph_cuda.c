/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/reduce_graph_cuda.c - reductions on streams of CUDA ranks (the fake driver): captured
 * into a graph and replayed, and calls on two streams that share the team.
 */
#include "cuda_stream.h"
#include "reduce_bed.h"

#define COUNT 40000u /* several blocks */
#define REPLAYS 4

static void run_ranks(rank_fn *fn)
{
	struct ranks_options o = { .nranks = 3, .processes = 1, .deadline_s = 90, .timeout_s = 60 };

	ranks_run(&o, fn, NULL);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* All-reduce, then a broadcast of its first half from rank 1, in one graph. */
static void capture(struct bed *b, void *stream, void **exec)
{
	struct oriel_comm *c = b->env->comm;
	uint8_t *to = b->memory + COUNT * 4;
	void *graph = NULL;

	REQUIRE_OK(cuStreamBeginCapture_v2(stream, 1));
	REQUIRE_OK(oriel_allreduce(c, b->memory, to, COUNT, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM,
				   stream));
	REQUIRE_OK(oriel_broadcast(c, to, COUNT / 2, 4, 1, stream));
	REQUIRE_OK(cuStreamEndCapture(stream, &graph));
	REQUIRE_OK(cuGraphInstantiateWithFlags(exec, graph, 0));
	REQUIRE_OK(cuGraphDestroy(graph));
}

static void graph_rank(struct rank_env *env)
{
	void *stream, *exec = NULL;
	struct bed b;

	bed_open(&b, env, 2 * 4 * COUNT);
	REQUIRE_OK(make_stream(env, &stream));
	/* the first call creates the team, which is no work of a stream */
	bed_allreduce(&b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 10, 0, 0);
	capture(&b, stream, &exec);
	for (int i = 0; i < REPLAYS && !check_failures; i++) {
		memset(b.host, BED_POISON, b.bytes);
		bed_fill(&b, 0, ORIEL_TYPE_FLOAT, 0, COUNT);
		bed_push(&b);
		REQUIRE_OK(cuGraphLaunch(exec, stream));
		REQUIRE_OK(oriel_comm_sync(env->comm, stream));
		CHECK_EQ(oriel_copy(env->comm, b.host, b.memory, b.bytes), 0);
		bed_check(&b, COUNT * 4, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 0, COUNT);
		b.seed = model_mix(b.seed);
		/* a plain call between two replays uses the same rounds */
		bed_allreduce(&b, ORIEL_TYPE_INT32, ORIEL_REDUCE_MAX, 300, 0, 0);
	}
	CHECK_EQ(cuGraphExecDestroy(exec), 0);
	CHECK_EQ(cuStreamDestroy_v2(stream), 0);
	bed_close(&b);
}

TEST(a_captured_call_is_replayed)
{
	run_ranks(graph_rank);
}

/* ---- two streams ----------------------------------------------------------------------------- */

/* Calls alternate between two streams without a wait; the library orders them. */
static void streams_rank(struct rank_env *env)
{
	void *streams[2];
	struct bed b;

	bed_open(&b, env, 4 * 4 * COUNT);
	for (int i = 0; i < 2; i++)
		REQUIRE_OK(make_stream(env, &streams[i]));
	memset(b.host, BED_POISON, b.bytes);
	bed_fill(&b, 0, ORIEL_TYPE_FLOAT, 0, COUNT);
	bed_push(&b);
	for (int i = 0; i < 6; i++)
		REQUIRE_OK(oriel_allreduce(env->comm, b.memory,
					   b.memory + (1 + (uint64_t)(i % 2)) * COUNT * 4, COUNT,
					   ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, streams[i % 2]));
	for (int i = 0; i < 2; i++)
		REQUIRE_OK(oriel_comm_sync(env->comm, streams[i]));
	CHECK_EQ(oriel_copy(env->comm, b.host, b.memory, b.bytes), 0);
	for (uint64_t i = 2; i >= 1; i--) {
		bed_check(&b, i * COUNT * 4, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 0, COUNT);
		b.host[i * COUNT * 4] = BED_POISON; /* the first byte behind the result before */
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(cuStreamDestroy_v2(streams[i]), 0);
	bed_close(&b);
}

TEST(calls_on_two_streams_follow_each_other)
{
	run_ranks(streams_rank);
}
