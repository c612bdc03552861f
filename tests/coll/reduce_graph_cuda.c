/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/reduce_graph_cuda.c - reductions on streams of CUDA ranks, mostly on the fake driver:
 * captured into a graph and replayed, and calls on two streams that share the team.
 */
#include "cuda_stream.h"
#include "reduce_bed.h"

#define COUNT 120000u /* several blocks; all calls of the graph but one are long */
#define REPLAYS 4

static void run_ranks(rank_fn *fn)
{
	struct ranks_options o = { .nranks = 3, .processes = 1, .deadline_s = 90, .timeout_s = 60 };

	ranks_run(&o, fn, NULL);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

#define BLOCK (COUNT / 8) /* elements of a rank in the reduce-scatter */

#define CAST (COUNT * 2) /* bytes that rank 1 broadcasts */
#define SHORT 10u        /* elements of a call that has another kernel */
/* After the elements: results of the all-reduce, the reduce-scatter, the short call; then data. */
#define SUM_OFF (COUNT * 4u)
#define BLOCK_OFF (SUM_OFF + COUNT * 4u + 16u)
#define SHORT_OFF (BLOCK_OFF + BLOCK * 4u + 16u)
#define CAST_OFF (SHORT_OFF + SHORT * 4u + 16u)

static void capture(struct bed *b, void *stream, void **exec)
{
	struct oriel_comm *c = b->env->comm;
	uint8_t *m = b->memory;
	void *graph = NULL;

	REQUIRE_OK(cuStreamBeginCapture_v2(stream, 1));
	REQUIRE_OK(oriel_allreduce(c, m, m + SUM_OFF, COUNT, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM,
				   stream));
	REQUIRE_OK(oriel_broadcast(c, m + CAST_OFF, CAST, 1, 1, stream));
	REQUIRE_OK(oriel_allreduce(c, m, m + SHORT_OFF, SHORT, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_MAX,
				   stream));
	REQUIRE_OK(oriel_reducescatter(c, m, m + BLOCK_OFF, BLOCK, ORIEL_TYPE_FLOAT,
				       ORIEL_REDUCE_SUM, stream));
	REQUIRE_OK(cuStreamEndCapture(stream, &graph));
	REQUIRE_OK(cuGraphInstantiateWithFlags(exec, graph, 0));
	REQUIRE_OK(cuGraphDestroy(graph));
}

static uint8_t cast_byte(const struct bed *b, int rank, uint64_t i)
{
	return (uint8_t)model_mix(b->seed + i + ((uint64_t)rank << 40));
}

static void check_replay(struct bed *b)
{
	uint64_t wrong = 0;

	bed_check(b, SUM_OFF, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 0, COUNT);
	bed_check(b, BLOCK_OFF, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, (uint64_t)b->env->rank * BLOCK,
		  BLOCK);
	bed_check(b, SHORT_OFF, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_MAX, 0, SHORT);
	for (uint64_t i = 0; i < CAST; i++)
		wrong += b->host[CAST_OFF + i] != cast_byte(b, 1, i);
	CHECK_EQ(wrong, 0);
}

static void graph_rank(struct rank_env *env)
{
	void *stream, *exec = NULL;
	struct bed b;

	bed_open(&b, env, CAST_OFF + CAST);
	REQUIRE_OK(use_context(env));
	REQUIRE_OK(make_stream(env, &stream));
	/* the first call creates the team, which is no work of a stream */
	bed_allreduce(&b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 10, 0, 0);
	capture(&b, stream, &exec);
	for (int i = 0; i < REPLAYS && !check_failures; i++) {
		memset(b.host, BED_POISON, b.bytes);
		bed_fill(&b, 0, ORIEL_TYPE_FLOAT, 0, COUNT);
		for (uint64_t k = 0; k < CAST; k++)
			b.host[CAST_OFF + k] = cast_byte(&b, env->rank, k);
		bed_push(&b);
		REQUIRE_OK(cuGraphLaunch(exec, stream));
		REQUIRE_OK(oriel_comm_sync(env->comm, stream));
		CHECK_EQ(oriel_copy(env->comm, b.host, b.memory, b.bytes), 0);
		check_replay(&b);
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
	REQUIRE_OK(use_context(env));
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
