/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/allgather_capture_cuda.c - the plain all-gather without a window, where ranks do not
 * come to an agreement: some capture the call and some do not, or one cannot tell, or blocks
 * differ.  Ranks compare this when they make or choose an area.  Then all ranks hear of it at once,
 * with the same status, and the next call works.
 */
#include "allgather_bed.h"
#include "cuda_stream.h"

#define BLOCK 3000u
#define AT_ONCE_NS (30 * ORI_NS_PER_S) /* not by the deadline, which is twice that */

static int odd_rank; /* the one that does not do as the others */

static void run_ranks(rank_fn *fn)
{
	struct ranks_options o = { .nranks = 2, .deadline_s = 170, .timeout_s = 60 };

	ranks_run(&o, fn, NULL);
}

/* The same status on all ranks, and soon. */
static void check_alike(struct rank_env *env, int32_t err, uint64_t start_ns)
{
	int32_t all[2] = { 0 };

	CHECK(err < 0);
	CHECK(ori_now_ns() - start_ns < AT_ONCE_NS);
	REQUIRE_OK(oriel_comm_allgather(env->comm, ORIEL_WORLD, &err, all, sizeof(err)));
	CHECK_EQ(all[0], all[1]);
}

static void check_works(struct bed *b, void *stream)
{
	const void *sendbuf;

	REQUIRE_OK(bed_begin(b, BLOCK, 0, &sendbuf));
	REQUIRE_OK(oriel_comm_barrier(b->env->comm, ORIEL_WORLD));
	REQUIRE_OK(oriel_allgather(b->env->comm, sendbuf, b->recv, BLOCK, 1, stream));
	REQUIRE_OK(oriel_comm_sync(b->env->comm, stream));
	bed_check(b, BLOCK, "after the one that failed");
}

/* ---- some capture ---------------------------------------------------------------------------- */

static void try_mixed(struct bed *b, void *stream, int captures)
{
	struct rank_env *env = b->env;
	uint64_t start = ori_now_ns();
	void *graph = NULL;
	char text[256];
	int err;

	if (env->rank == captures)
		REQUIRE_OK(cuStreamBeginCapture_v2(stream, 1));
	err = oriel_allgather(env->comm, b->send, b->recv, BLOCK, 1, stream);
	CHECK_EQ(err, ORIEL_EMISMATCH);
	snprintf(text, sizeof(text), "rank %d captures the call into a graph, rank %d does not",
		 captures, 1 - captures);
	CHECK_HAS(oriel_last_error(), text);
	if (env->rank == captures) {
		REQUIRE_OK(cuStreamEndCapture(stream, &graph));
		REQUIRE_OK(cuGraphDestroy(graph));
	}
	check_alike(env, err, start);
}

static void mixed_rank(struct rank_env *env)
{
	struct bed b;
	void *stream;

	REQUIRE_OK(bed_open(&b, env, BLOCK, 0));
	REQUIRE_OK(make_stream(env, &stream));
	try_mixed(&b, stream, odd_rank);
	check_works(&b, stream);
	REQUIRE_OK(bed_close(&b));
	CHECK_EQ(cuStreamDestroy_v2(stream), 0);
}

TEST(rank_0_alone_captures)
{
	odd_rank = 0;
	run_ranks(mixed_rank);
}

TEST(rank_1_alone_captures)
{
	odd_rank = 1;
	run_ranks(mixed_rank);
}

/* ---- one cannot tell ------------------------------------------------------------------------- */

/* The thread's next question fails. */
static _Thread_local int cannot_tell;

static ori_cu_result ask_or_fail(void *stream, int *status)
{
	int fails = cannot_tell;

	cannot_tell = 0;
	return fails ? FAKE_INVALID_VALUE : cuStreamIsCapturing(stream, status);
}

static void unknown_rank(struct rank_env *env)
{
	struct ori_cuda_device *d = (struct ori_cuda_device *)env->comm->device;
	struct ori_cuda_driver *cu = (struct ori_cuda_driver *)(uintptr_t)d->gpu->cu;
	uint64_t start;
	struct bed b;
	void *stream;
	int err;

	REQUIRE_OK(bed_open(&b, env, BLOCK, 0));
	REQUIRE_OK(make_stream(env, &stream));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	if (env->rank == 0)
		cu->streams.cuStreamIsCapturing = ask_or_fail;
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	cannot_tell = env->rank == odd_rank;
	start = ori_now_ns();
	err = oriel_allgather(env->comm, b.send, b.recv, BLOCK, 1, stream);
	CHECK_HAS(oriel_last_error(), "cuStreamIsCapturing");
	check_alike(env, err, start);
	check_works(&b, stream);
	REQUIRE_OK(bed_close(&b));
	CHECK_EQ(cuStreamDestroy_v2(stream), 0);
}

TEST(rank_0_cannot_tell_whether_it_captures)
{
	odd_rank = 0;
	run_ranks(unknown_rank);
}

TEST(rank_1_cannot_tell_whether_it_captures)
{
	odd_rank = 1;
	run_ranks(unknown_rank);
}

/* ---- blocks differ --------------------------------------------------------------------------- */

static void sizes_rank(struct rank_env *env)
{
	uint64_t start;
	struct bed b;
	void *stream;
	int err;

	REQUIRE_OK(bed_open(&b, env, BLOCK, 0));
	REQUIRE_OK(make_stream(env, &stream));
	start = ori_now_ns();
	err = oriel_allgather(env->comm, b.send, b.recv, BLOCK - (unsigned int)env->rank, 1,
			      stream);
	CHECK_EQ(err, ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "rank 1 gives blocks of 2999 bytes, rank 0 of 3000");
	check_alike(env, err, start);
	check_works(&b, stream);
	REQUIRE_OK(bed_close(&b));
	CHECK_EQ(cuStreamDestroy_v2(stream), 0);
}

TEST(blocks_of_ranks_differ)
{
	run_ranks(sizes_rank);
}
