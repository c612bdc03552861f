/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/allgather_streams_cuda.c - the plain all-gather while work is pending on streams.
 *
 * The fake driver holds all kernels back while calls are made.  So every request, table and staging
 * area of a call is still in use when the next call comes.  None of them may be freed, or used by
 * another stream, before its work is done.  A captured call keeps them as long as its graph lives.
 */
#include <pthread.h>
#include <stdlib.h>

#include "allgather_bed.h"
#include "cuda_stream.h"
#include "coll/allgather/gather.h"
#include "fake_cuda/fake.h"

#define KEPT 64 /* requests that the plain call keeps */
#define CALLS 90
#define BLOCK 512u

/* Kernels that no stream has begun stay so, of all ranks: between two barriers. */
static void hold_kernels(struct rank_env *env, int hold)
{
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	if (env->rank == 0)
		fake_cuda_hold("cuLaunchKernel", hold);
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
}

static void run_ranks(const char *topology, int nranks, rank_fn *fn, void *arg)
{
	struct ranks_options o = {
		.nranks = nranks, .topology = topology, .deadline_s = 170, .timeout_s = 60
	};

	ranks_run(&o, fn, arg);
}

/* ---- kept requests --------------------------------------------------------------------------- */

/* So many calls of the same block, each to a place of its own. */
static int gather_to_places(struct bed *b, const void *sendbuf, int calls, void *stream)
{
	uint64_t room = BLOCK * (uint64_t)b->env->nranks;
	int err = 0;

	for (int k = 0; k < calls && !err; k++)
		err = oriel_allgather(b->env->comm, sendbuf, b->recv + room * (uint64_t)k, BLOCK, 1,
				      stream);
	return err;
}

static int wrong_places(struct bed *b, int calls)
{
	uint64_t room = BLOCK * (uint64_t)b->env->nranks;
	int wrong = 0;

	if (oriel_copy(b->env->comm, b->image, b->recv, room * (uint64_t)calls))
		return -1;
	for (int k = 0; k < calls; k++)
		for (int r = 0; r < b->env->nranks; r++)
			wrong += bed_wrong(b->image + room * (uint64_t)k + BLOCK * (uint64_t)r,
					   BLOCK, b->round, r) != 0;
	return wrong;
}

static void evict_rank(struct rank_env *env)
{
	const void *sendbuf;
	void *stream;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, (uint64_t)BLOCK * CALLS, 1));
	REQUIRE_OK(make_stream(env, &stream));
	REQUIRE_OK(bed_begin(&b, BLOCK, 0, &sendbuf));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	REQUIRE_OK(gather_to_places(&b, sendbuf, KEPT, stream));
	REQUIRE_OK(oriel_comm_sync(env->comm, stream));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	memset(b.image, BED_POISON, b.room);
	REQUIRE_OK(oriel_copy(env->comm, b.recv, b.image, b.room));
	hold_kernels(env, 1);
	REQUIRE_OK(gather_to_places(&b, sendbuf, CALLS, stream));
	hold_kernels(env, 0);
	REQUIRE_OK(oriel_comm_sync(env->comm, stream));
	CHECK_EQ(oriel_comm_status(env->comm), 0);
	CHECK_EQ(wrong_places(&b, CALLS), 0);
	REQUIRE_OK(bed_close(&b));
	CHECK_EQ(cuStreamDestroy_v2(stream), 0);
}

TEST(kept_requests_give_way_under_pending_work)
{
	run_ranks(NULL, 2, evict_rank, NULL);
	run_ranks("2x1", 2, evict_rank, NULL);
}

/*
 * The library keeps a limited number of resources.  A call beyond that is refused on all ranks,
 * until the work on the stream is done.
 */
static void bounded_rank(struct rank_env *env)
{
	struct ori_gather_state *state;
	const void *sendbuf;
	void *stream;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, (uint64_t)BLOCK * CALLS, 1));
	REQUIRE_OK(make_stream(env, &stream));
	REQUIRE_OK(bed_begin(&b, BLOCK, 0, &sendbuf));
	REQUIRE_OK(gather_to_places(&b, sendbuf, 1, stream));
	REQUIRE_OK(ori_gather_state_get(env->comm, &state));
	state->pending_max = 8;
	hold_kernels(env, 1);
	REQUIRE_OK(gather_to_places(&b, sendbuf, KEPT + 7, stream));
	CHECK_EQ(gather_to_places(&b, sendbuf, CALLS, stream), ORIEL_EBUSY);
	CHECK_HAS(oriel_last_error(), "wait for the stream first");
	hold_kernels(env, 0);
	REQUIRE_OK(oriel_comm_sync(env->comm, stream));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	for (int k = 0; k < CALLS; k += 5) {
		struct bed at = b;

		at.recv += (uint64_t)BLOCK * (uint64_t)env->nranks * (uint64_t)k;
		REQUIRE_OK(gather_to_places(&at, sendbuf, 5, stream));
		REQUIRE_OK(oriel_comm_sync(env->comm, stream));
	}
	CHECK_EQ(wrong_places(&b, CALLS), 0);
	REQUIRE_OK(bed_close(&b));
}

TEST(what_is_kept_for_pending_work_is_bounded)
{
	run_ranks(NULL, 2, bounded_rank, NULL);
}

/*
 * A rank's streams have other handles than its peer's, and handles of streams that are gone come
 * again.
 */
static void handles_rank(struct rank_env *env)
{
	const void *sendbuf;
	void *stream = NULL;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 3000, 1));
	for (int k = 0; k < 8; k++) {
		if (!stream || env->rank)
			REQUIRE_OK(make_stream(env, &stream));
		REQUIRE_OK(bed_begin(&b, 3000, 0, &sendbuf));
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
		REQUIRE_OK(oriel_allgather(env->comm, sendbuf, b.recv, 3000, 1, stream));
		REQUIRE_OK(oriel_comm_sync(env->comm, stream));
		bed_check(&b, 3000, "another stream");
		if (env->rank)
			CHECK_EQ(cuStreamDestroy_v2(stream), 0);
	}
	REQUIRE_OK(bed_close(&b));
}

TEST(ranks_need_not_use_streams_alike)
{
	run_ranks(NULL, 2, handles_rank, NULL);
}

/*
 * A request is destroyed while its exec is pending.  The resources of the exec stay, and so does
 * the window.
 */
static void destroy_rank(struct rank_env *env)
{
	struct oriel_allgather_request *req;
	const void *sendbuf;
	void *stream;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 3000, 1));
	REQUIRE_OK(make_stream(env, &stream));
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, NULL, &req));
	REQUIRE_OK(bed_begin(&b, 3000, 0, &sendbuf));
	hold_kernels(env, 1);
	REQUIRE_OK(oriel_allgather_exec(req, sendbuf, 3000, 1, stream));
	REQUIRE_OK(oriel_allgather_destroy(req));
	CHECK_EQ(oriel_window_destroy(b.window), ORIEL_EBUSY);
	/* takes words of its own: those of the first are in use */
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, NULL, &req));
	REQUIRE_OK(oriel_allgather_destroy(req));
	hold_kernels(env, 0);
	REQUIRE_OK(oriel_comm_sync(env->comm, stream));
	bed_check(&b, 3000, "destroyed under way");
	REQUIRE_OK(bed_close(&b));
}

TEST(a_request_is_destroyed_under_pending_work)
{
	run_ranks(NULL, 2, destroy_rank, NULL);
}

/* There is no request any more, but the window stays until the work on the stream is done. */
static void window_rank(struct rank_env *env)
{
	const void *sendbuf;
	void *stream;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 3000, 1));
	REQUIRE_OK(make_stream(env, &stream));
	for (int k = 0; k < 2; k++) {
		REQUIRE_OK(bed_begin(&b, 3000, 0, &sendbuf));
		if (k)
			hold_kernels(env, 1);
		REQUIRE_OK(oriel_allgather(env->comm, sendbuf, b.recv, 3000, 1, stream));
		if (k) {
			CHECK_EQ(oriel_window_destroy(b.window), ORIEL_EBUSY);
			CHECK_HAS(oriel_last_error(), "pending on a stream");
			hold_kernels(env, 0);
		}
		REQUIRE_OK(oriel_comm_sync(env->comm, stream));
		bed_check(&b, 3000, "refused");
	}
	REQUIRE_OK(bed_close(&b));
}

TEST(a_window_stays_under_pending_work)
{
	run_ranks(NULL, 2, window_rank, NULL);
}

/* ---- a second thread ------------------------------------------------------------------------- */

#define RELEASES 5000

struct releaser {
	struct oriel_comm *comm;
	void *memory;
	int err;
	int over; /* atomic */
};

/* Each release looks for requests that nobody needs any more. */
static void *release_often(void *arg)
{
	struct releaser *r = arg;
	struct oriel_buffer *buffer;

	for (int k = 0; k < RELEASES && !r->err; k++) {
		r->err = oriel_buffer_register(r->comm, r->memory, BLOCK, &buffer);
		if (!r->err)
			r->err = oriel_buffer_release(buffer);
	}
	__atomic_store_n(&r->over, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* The same on all ranks: they stop at the same call. */
static int is_over(struct rank_env *env, struct releaser *r)
{
	int mine = __atomic_load_n(&r->over, __ATOMIC_ACQUIRE), all[2] = { 0 };

	CHECK_EQ(oriel_comm_allgather(env->comm, ORIEL_WORLD, &mine, all, sizeof(mine)), 0);
	return all[0] && all[1];
}

static void two_threads_rank(struct rank_env *env)
{
	struct releaser r = { .comm = env->comm };
	const void *sendbuf;
	pthread_t thread;
	void *stream;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 3000, 1));
	REQUIRE_OK(make_stream(env, &stream));
	REQUIRE_OK(oriel_alloc(env->comm, BLOCK, &r.memory));
	REQUIRE_OK(pthread_create(&thread, NULL, release_often, &r));
	do {
		REQUIRE_OK(bed_begin(&b, 3000, 0, &sendbuf));
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
		for (int k = 0; k < 5; k++)
			REQUIRE_OK(oriel_allgather(env->comm, sendbuf, b.recv, 3000, 1, stream));
		REQUIRE_OK(oriel_comm_sync(env->comm, stream));
		bed_check(&b, 3000, "beside releases");
	} while (!is_over(env, &r) && !oriel_comm_status(env->comm));
	pthread_join(thread, NULL);
	CHECK_EQ(r.err, 0);
	REQUIRE_OK(oriel_free(env->comm, r.memory));
	REQUIRE_OK(bed_close(&b));
	CHECK_EQ(cuStreamDestroy_v2(stream), 0);
}

/* For ThreadSanitizer: the mark of a request is read by one thread while another sets it. */
TEST(another_thread_releases_buffers_meanwhile)
{
	run_ranks(NULL, 2, two_threads_rank, NULL);
}

/* ---- staging --------------------------------------------------------------------------------- */

static void grow_rank(struct rank_env *env)
{
	struct bed a, b;
	const void *fa, *fb;
	void *stream;

	REQUIRE_OK(bed_open(&a, env, 4000, 0));
	REQUIRE_OK(bed_open(&b, env, 70001, 0));
	REQUIRE_OK(make_stream(env, &stream));
	/* what is made at the first call is made in peace */
	REQUIRE_OK(bed_begin(&a, 100, 0, &fa));
	REQUIRE_OK(oriel_allgather(env->comm, fa, a.recv, 100, 1, stream));
	REQUIRE_OK(oriel_comm_sync(env->comm, stream));
	REQUIRE_OK(bed_begin(&a, 4000, 0, &fa));
	REQUIRE_OK(bed_begin(&b, 70001, 0, &fb));
	hold_kernels(env, 1);
	REQUIRE_OK(oriel_allgather(env->comm, fa, a.recv, 4000, 1, stream));
	REQUIRE_OK(oriel_allgather(env->comm, fb, b.recv, 70001, 1, stream));
	hold_kernels(env, 0);
	REQUIRE_OK(oriel_comm_sync(env->comm, stream));
	bed_check(&a, 4000, "before it grew");
	bed_check(&b, 70001, "after it grew");
	REQUIRE_OK(bed_close(&a));
	REQUIRE_OK(bed_close(&b));
}

TEST(staging_grows_under_pending_work)
{
	run_ranks(NULL, 2, grow_rank, NULL);
	run_ranks("2x1", 2, grow_rank, NULL);
}

/*
 * Two streams at once, 20 rounds of both, blocks that need several slices of the staging among
 * them.
 */
static void two_streams_rank(struct rank_env *env)
{
	const uint64_t *bytes = env->arg;
	const void *fa, *fb;
	struct bed a, b;
	void *sa, *sb;

	REQUIRE_OK(bed_open(&a, env, *bytes, 0));
	REQUIRE_OK(bed_open(&b, env, *bytes, 0));
	REQUIRE_OK(make_stream(env, &sa));
	REQUIRE_OK(make_stream(env, &sb));
	b.round = 1000;
	for (int k = 0; k < 20; k++) {
		REQUIRE_OK(bed_begin(&a, *bytes, 0, &fa));
		REQUIRE_OK(bed_begin(&b, *bytes, 0, &fb));
		if (k)
			hold_kernels(env, 1);
		REQUIRE_OK(oriel_allgather(env->comm, fa, a.recv, *bytes, 1, sa));
		REQUIRE_OK(oriel_allgather(env->comm, fb, b.recv, *bytes, 1, sb));
		if (k)
			hold_kernels(env, 0);
		REQUIRE_OK(oriel_comm_sync(env->comm, sb));
		REQUIRE_OK(oriel_comm_sync(env->comm, sa));
		bed_check(&a, *bytes, "the first stream");
		bed_check(&b, *bytes, "the second stream");
	}
	REQUIRE_OK(bed_close(&a));
	REQUIRE_OK(bed_close(&b));
}

TEST(staging_on_two_streams)
{
	uint64_t small = 3000, large = (4u << 20) + 77;

	run_ranks(NULL, 2, two_streams_rank, &small);
	run_ranks("2x1", 2, two_streams_rank, &small);
	run_ranks(NULL, 2, two_streams_rank, &large);
}

/* ---- one kernel for long blocks -------------------------------------------------------------- */

/* Whole rounds of slices, and what is left after the last one: nothing, a byte, nearly a round. */
static void long_rank(struct rank_env *env)
{
	static const uint64_t sizes[] = { 262144 + 1,     300000,         3u << 18,
					  (1u << 20) + 1, (5u << 18) - 1, (4u << 20) + 77 };
	const void *sendbuf;
	struct bed b;

	snprintf(env->comm->config.gather_policy, sizeof(env->comm->config.gather_policy),
		 "fastest");
	REQUIRE_OK(bed_open(&b, env, sizes[5], 1));
	for (int i = 0; i < 6; i++)
		for (int k = 0; k < 2; k++) {
			REQUIRE_OK(bed_begin(&b, sizes[i], 0, &sendbuf));
			REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
			REQUIRE_OK(oriel_allgather(env->comm, sendbuf, b.recv, sizes[i], 1, NULL));
			REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
			bed_check(&b, sizes[i], "a long block");
		}
	REQUIRE_OK(bed_close(&b));
}

TEST(long_blocks_are_cut_into_turns)
{
	run_ranks(NULL, 2, long_rank, NULL);
	/* so that 3 ranks have 5 slices, and 3 from 4 MiB on */
	fake_cuda_knobs("sms=23");
	run_ranks(NULL, 3, long_rank, NULL);
	fake_cuda_knobs("");
}

/* ---- staging in graphs ----------------------------------------------------------------------- */

struct captured {
	void *stream, *graph, *exec;
};

static int capture(struct bed *b, uint64_t bytes, struct captured *c)
{
	int err = make_stream(b->env, &c->stream);

	if (!err)
		err = cuStreamBeginCapture_v2(c->stream, 1);
	if (err)
		return err;
	err = oriel_allgather(b->env->comm, b->send, b->recv, bytes, 1, c->stream);
	if (cuStreamEndCapture(c->stream, &c->graph))
		return ORIEL_ESYSTEM;
	return err ? err : cuGraphInstantiateWithFlags(&c->exec, c->graph, 0);
}

static void release(struct captured *c)
{
	CHECK_EQ(cuGraphExecDestroy(c->exec), 0);
	CHECK_EQ(cuGraphDestroy(c->graph), 0);
	CHECK_EQ(cuStreamDestroy_v2(c->stream), 0);
}

/* Two graphs and a plain call, on three streams at once: each has its own staging area. */
static void replay_all(struct bed *beds, struct captured *graphs, void *stream, uint64_t bytes)
{
	struct rank_env *env = beds[0].env;
	const void *from[3];

	for (int i = 0; i < 3; i++)
		REQUIRE_OK(bed_begin(&beds[i], bytes, 0, &from[i]));
	hold_kernels(env, 1);
	REQUIRE_OK(cuGraphLaunch(graphs[0].exec, graphs[0].stream));
	REQUIRE_OK(oriel_allgather(env->comm, from[2], beds[2].recv, bytes, 1, stream));
	REQUIRE_OK(cuGraphLaunch(graphs[1].exec, graphs[1].stream));
	hold_kernels(env, 0);
	REQUIRE_OK(oriel_comm_sync(env->comm, stream));
	REQUIRE_OK(oriel_comm_sync(env->comm, graphs[1].stream));
	REQUIRE_OK(oriel_comm_sync(env->comm, graphs[0].stream));
	for (int i = 0; i < 3; i++)
		bed_check(&beds[i], bytes, i < 2 ? "a graph" : "beside graphs");
}

static int count_areas(struct rank_env *env)
{
	struct ori_gather_state *s;
	int n = 0;

	if (ori_gather_state_get(env->comm, &s))
		return -1;
	for (struct ori_gather_area *a = s->areas; a; a = a->next)
		n++;
	return n;
}

static void graphs_rank(struct rank_env *env)
{
	struct captured graphs[2];
	struct bed beds[3];
	const void *from;
	void *stream;
	int areas;

	for (int i = 0; i < 3; i++) {
		REQUIRE_OK(bed_open(&beds[i], env, 5000, 0));
		beds[i].round = 1000u * (uint64_t)i;
	}
	REQUIRE_OK(make_stream(env, &stream));
	REQUIRE_OK(bed_begin(&beds[2], 5000, 0, &from));
	REQUIRE_OK(oriel_allgather(env->comm, from, beds[2].recv, 5000, 1, stream));
	REQUIRE_OK(capture(&beds[0], 5000, &graphs[0]));
	REQUIRE_OK(capture(&beds[1], 5000, &graphs[1]));
	REQUIRE_OK(oriel_comm_sync(env->comm, stream));
	for (int k = 0; k < 10; k++)
		replay_all(beds, graphs, stream, 5000);
	areas = count_areas(env);
	/* a graph that goes gives its area back, to all ranks, for the next one */
	for (int k = 0; k < 5; k++) {
		release(&graphs[0]);
		REQUIRE_OK(capture(&beds[0], 4000, &graphs[0]));
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	}
	CHECK_EQ(count_areas(env), areas);
	release(&graphs[0]);
	release(&graphs[1]);
	for (int i = 0; i < 3; i++)
		REQUIRE_OK(bed_close(&beds[i]));
}

TEST(staging_in_graphs)
{
	run_ranks(NULL, 2, graphs_rank, NULL);
	run_ranks("2x1", 2, graphs_rank, NULL);
}
