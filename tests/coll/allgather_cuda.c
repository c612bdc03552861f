/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/allgather_cuda.c - the all-gather on streams: by the copy engine and by a kernel, on
 * mapped and queued peers, captured into graphs; on the fake driver, whose device memory no host
 * code may touch.
 */
#include "allgather_bed.h"
#include "cuda_stream.h"
#include "coll/allgather/gather.h"
#include "fake_cuda/fake.h"

struct grid {
	const char *topology;
	int nranks, processes, algorithm;
	uint64_t kernel_bytes; /* blocks up to here are copied by a kernel */
};

static const uint64_t counts[] = { 0, 1, 17, 8192, 200001 };

static void grid_rank(struct rank_env *env)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	const struct grid *g = env->arg;
	struct oriel_allgather_request *req;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 200064, 1));
	o.algorithm = g->algorithm;
	o.bytes = b.room;
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, &o, &req));
	req->kernel_bytes = g->kernel_bytes;
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		for (int k = 0; k < 3; k++)
			if (bed_exec(&b, req, counts[i], 1, k % 2, "on a stream"))
				return;
	CHECK_EQ(oriel_allgather_status(req), 0);
	REQUIRE_OK(oriel_allgather_destroy(req));
	REQUIRE_OK(bed_close(&b));
}

static void run_grid(const struct grid *g)
{
	struct ranks_options o = { .nranks = g->nranks,
				   .processes = g->processes,
				   .topology = g->topology,
				   .deadline_s = 170,
				   .timeout_s = 120 };

	ranks_run(&o, grid_rank, (void *)(uintptr_t)g);
}

/* By the kernel, by the copy engine, and some blocks by each. */
static void run_layout(const char *topology, int nranks, int processes, int nodes)
{
	static const uint64_t limits[] = { UINT64_MAX, 0, 8191 };

	for (int a = nodes > 1 ? 1 : 0; a <= (nodes > 1 ? ORIEL_GATHER_DOUBLING : 0); a++)
		for (int i = 0; i < 3; i++) {
			struct grid g = { topology, nranks, processes, a, limits[i] };

			run_grid(&g);
		}
}

/* Processes first: one that has used CUDA cannot fork ranks that do. */
TEST(mapped_processes)
{
	run_layout(NULL, 3, 1, 1);
}

TEST(mixed_processes)
{
	run_layout("2x2", 4, 1, 2);
}

TEST(mapped_threads)
{
	run_layout(NULL, 4, 0, 1);
}

TEST(queued_threads)
{
	run_layout("3x1", 3, 0, 3);
}

TEST(unequal_nodes)
{
	run_layout("0,1,1", 3, 0, 2);
}

/*
 * So few SMs that every rank gets one block, or two: they take in turn what a block each would do
 * on a larger GPU.  A grid of the usual size would be refused.
 */
static void run_small_gpu(const char *knobs, const char *topology, int nranks, int algorithm)
{
	struct grid g = { topology, nranks, 0, algorithm, UINT64_MAX };

	fake_cuda_knobs(knobs);
	run_grid(&g);
	fake_cuda_knobs("");
}

TEST(a_gpu_with_room_for_one_block_of_a_rank)
{
	run_small_gpu("sms=2", NULL, 8, 0);
	run_small_gpu("sms=1", "2x2", 4, ORIEL_GATHER_RING);
}

TEST(a_gpu_with_room_for_two_blocks_of_a_rank)
{
	run_small_gpu("sms=2", NULL, 4, 0);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

struct captured {
	void *stream, *graph, *exec;
};

/* req NULL: the plain call, which makes its request while the stream is captured. */
static int capture(struct bed *b, struct oriel_allgather_request *req, uint64_t bytes,
		   struct captured *c)
{
	int err = make_stream(b->env, &c->stream);

	if (!err)
		err = cuStreamBeginCapture_v2(c->stream, 1);
	if (err)
		return err;
	if (req)
		err = oriel_allgather_exec(req, b->send, bytes, 1, c->stream);
	else
		err = oriel_allgather(b->env->comm, b->send, b->recv, bytes, 1, c->stream);
	if (cuStreamEndCapture(c->stream, &c->graph))
		return ORIEL_ESYSTEM;
	return err ? err : cuGraphInstantiateWithFlags(&c->exec, c->graph, 0);
}

static void replay(struct bed *b, const struct captured *c, uint64_t bytes, int times)
{
	const void *sendbuf;

	for (int k = 0; k < times; k++) {
		REQUIRE_OK(bed_begin(b, bytes, 0, &sendbuf));
		REQUIRE_OK(cuGraphLaunch(c->exec, c->stream));
		REQUIRE_OK(oriel_comm_sync(b->env->comm, c->stream));
		bed_check(b, bytes, "replayed");
	}
}

static void release(struct captured *c)
{
	CHECK_EQ(cuGraphExecDestroy(c->exec), 0);
	CHECK_EQ(cuGraphDestroy(c->graph), 0);
	CHECK_EQ(cuStreamDestroy_v2(c->stream), 0);
}

/*
 * The request is destroyed while the graph is there, which replays on; the window cannot go before
 * the graph.
 */
static void graph_rank(struct rank_env *env)
{
	const struct grid *g = env->arg;
	struct oriel_allgather_request *req;
	struct captured c;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 5000, 1));
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, NULL, &req));
	req->kernel_bytes = g->kernel_bytes;
	bed_exec(&b, req, 5000, 1, 0, "before the capture");
	REQUIRE_OK(capture(&b, req, 4999, &c));
	replay(&b, &c, 4999, 5);
	bed_exec(&b, req, 77, 1, 1, "between replays");
	replay(&b, &c, 4999, 2);
	REQUIRE_OK(oriel_allgather_destroy(req));
	CHECK_EQ(oriel_allgather_exec(req, b.send, 1, 1, NULL), ORIEL_ESTALE);
	replay(&b, &c, 4999, 3);
	CHECK_EQ(oriel_window_destroy(b.window), ORIEL_EBUSY);
	CHECK_HAS(oriel_last_error(), "captured graphs");
	replay(&b, &c, 4999, 2);
	release(&c);
	REQUIRE_OK(bed_close(&b));
}

/*
 * Under capture the plain call becomes persistent.  The graph holds its resources; later they are
 * freed with the window.
 */
static void plain_graph_rank(struct rank_env *env)
{
	struct captured c;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 3000, 1));
	REQUIRE_OK(capture(&b, NULL, 3000, &c));
	replay(&b, &c, 3000, 4);
	CHECK_EQ(oriel_window_destroy(b.window), ORIEL_EBUSY);
	replay(&b, &c, 3000, 1);
	release(&c);
	bed_exec(&b, NULL, 3000, 1, 0, "plain after the graph");
	REQUIRE_OK(bed_close(&b));
}

static void run_graph(const char *topology, int nranks, rank_fn *fn, uint64_t kernel_bytes)
{
	struct grid g = { .topology = topology, .kernel_bytes = kernel_bytes };
	struct ranks_options o = {
		.nranks = nranks, .topology = topology, .deadline_s = 170, .timeout_s = 120
	};

	ranks_run(&o, fn, &g);
}

TEST(graphs)
{
	run_graph(NULL, 3, graph_rank, 0);
	run_graph(NULL, 3, graph_rank, UINT64_MAX);
	run_graph("2x2", 4, graph_rank, 0);
}

TEST(graphs_of_the_plain_call)
{
	run_graph(NULL, 2, plain_graph_rank, 0);
	run_graph("2x1", 2, plain_graph_rank, 0);
}

/* ---- the plain call without a window, and a rank that fails ---------------------------------- */

static void staged_rank(struct rank_env *env)
{
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 70001, 0));
	bed_exec(&b, NULL, 100, 1, 0, "staged");
	bed_exec(&b, NULL, 70001, 1, 1, "staged");
	REQUIRE_OK(bed_close(&b));
}

TEST(plain_without_a_window)
{
	run_graph(NULL, 3, staged_rank, 0);
	run_graph("2x1", 2, staged_rank, 0);
}

static void abort_rank(struct rank_env *env)
{
	struct oriel_allgather_request *req;
	struct bed b;
	int err;

	REQUIRE_OK(bed_open(&b, env, 4096, 1));
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, NULL, &req));
	/* the kernels of the others wait for the last rank, which gives up instead */
	if (env->rank == env->nranks - 1) {
		REQUIRE_OK(oriel_comm_abort(env->comm, ORIEL_EABORTED));
	} else {
		err = oriel_allgather_exec(req, b.send, 4096, 1, NULL);
		CHECK(!err || err == ORIEL_EABORTED);
		(void)oriel_comm_sync(env->comm, NULL);
		CHECK_EQ(oriel_allgather_status(req), ORIEL_EABORTED);
	}
	CHECK_EQ(oriel_allgather_exec(req, b.send, 4096, 1, NULL), ORIEL_EABORTED);
	CHECK_EQ(oriel_allgather_destroy(req), 0);
	free(b.image);
}

TEST(a_rank_aborts)
{
	run_graph(NULL, 3, abort_rank, 0);
	run_graph("3x1", 3, abort_rank, 0);
}

/* ---- supported, or not ----------------------------------------------------------------------- */

static void supported_rank(struct rank_env *env)
{
	int *want = env->arg;

	CHECK_EQ(oriel_allgather_supported(env->comm), *want);
	if (!*want)
		CHECK_HAS(oriel_last_error(), "does not fit the GPU");
}

TEST(a_gpu_that_is_too_small_is_not_supported)
{
	struct ranks_options o = { .nranks = 4, .deadline_s = 60, .timeout_s = 30 };
	int want = 1;

	fake_cuda_knobs("sms=1");
	ranks_run(&o, supported_rank, &want);
	want = 0;
	o.nranks = 5;
	ranks_run(&o, supported_rank, &want);
	fake_cuda_knobs("");
}
