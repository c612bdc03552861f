/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/marks_cuda.c - an event that cannot be recorded after the kernel of a collective.
 *
 * The kernel is launched, but no event marks its end.  The library waits for the kernel.  If this
 * takes too long, the kernel counts as pending from then on.
 */
#include <pthread.h>
#include <sched.h>

#include "allgather_bed.h"
#include "cuda_stream.h"
#include "kernels/window_ops.h"

#define SHORT_NS (ORI_NS_PER_S / 5)
#define LONG_NS (60 * ORI_NS_PER_S)
#define ANY_CODE 999 /* unknown error */

struct bench {
	struct ori_cuda_device *d;
	const struct ori_stream_ops *streams;
	void *stream[2];
};

static int bench_open(struct bench *b, struct rank_env *env)
{
	b->d = (struct ori_cuda_device *)env->comm->device;
	b->streams = b->d->base.streams;
	return make_stream(env, &b->stream[0]) || make_stream(env, &b->stream[1]);
}

static void bench_close(struct bench *b)
{
	for (int i = 0; i < 2; i++)
		CHECK_EQ(cuStreamDestroy_v2(b->stream[i]), 0);
}

/* A kernel that does nothing. */
static int launch(struct bench *b, int stream, struct ori_mark **mark)
{
	struct ori_window_op_args nothing = { .op = { .code = ORI_WINDOW_NOTHING } };

	return b->streams->launch(&b->d->base, ori_window_op_kernel(), 1, 1, &nothing,
				  sizeof(nothing), b->stream[stream], mark);
}

static void run_one(rank_fn *fn, void *arg)
{
	struct ranks_options o = { .nranks = 1, .deadline_s = 170, .timeout_s = 60 };

	ranks_run(&o, fn, arg);
}

/* ---- longer than the deadline ---------------------------------------------------------------- */

static void lost_rank(struct rank_env *env)
{
	struct ori_mark *mark = NULL;
	struct bench b;

	REQUIRE_OK(bench_open(&b, env));
	b.d->timeout_ns = SHORT_NS;
	fake_cuda_hold("cuLaunchKernel", 1);
	fake_cuda_fail(env->arg, 1, ANY_CODE);
	CHECK_EQ(launch(&b, 0, &mark), ORIEL_ETIMEDOUT);
	CHECK_HAS(oriel_last_error(), "no event could be recorded");
	CHECK(mark != NULL);
	CHECK_EQ(b.streams->passed(&b.d->base, mark), 0);
	CHECK_EQ(b.streams->follow(&b.d->base, b.stream[1], mark), ORIEL_ETIMEDOUT);
	fake_cuda_hold("cuLaunchKernel", 0);
	b.d->timeout_ns = LONG_NS;
	/* the next one on that stream stands for both */
	CHECK_EQ(launch(&b, 0, &mark), 0);
	CHECK_EQ(b.streams->follow(&b.d->base, b.stream[1], mark), 0);
	REQUIRE_OK(oriel_comm_sync(env->comm, b.stream[0]));
	CHECK_EQ(b.streams->passed(&b.d->base, mark), 1);
	b.streams->unmark(&b.d->base, mark);
	REQUIRE_OK(oriel_comm_sync(env->comm, b.stream[1]));
	bench_close(&b);
}

TEST(work_without_an_event_is_not_forgotten)
{
	run_one(lost_rank, "cuEventCreate");
	run_one(lost_rank, "cuEventRecord");
}

/* A request and its window stay under such work, as under any that is pending. */
static void window_rank(struct rank_env *env)
{
	const void *sendbuf;
	struct bench b;
	struct bed bed;

	REQUIRE_OK(bench_open(&b, env));
	REQUIRE_OK(bed_open(&bed, env, 3000, 1));
	REQUIRE_OK(bed_exec(&bed, NULL, 3000, 1, 0, "in peace"));
	REQUIRE_OK(bed_begin(&bed, 3000, 0, &sendbuf));
	b.d->timeout_ns = SHORT_NS;
	fake_cuda_hold("cuLaunchKernel", 1);
	fake_cuda_fail("cuEventRecord", 1, ANY_CODE);
	CHECK_EQ(oriel_allgather(env->comm, sendbuf, bed.recv, 3000, 1, b.stream[0]),
		 ORIEL_ETIMEDOUT);
	CHECK_EQ(oriel_window_destroy(bed.window), ORIEL_EBUSY);
	fake_cuda_hold("cuLaunchKernel", 0);
	b.d->timeout_ns = LONG_NS;
	REQUIRE_OK(oriel_comm_sync(env->comm, b.stream[0]));
	bed_check(&bed, 3000, "without an event");
	REQUIRE_OK(bed_close(&bed));
	bench_close(&b);
}

TEST(a_window_stays_under_work_without_an_event)
{
	run_one(window_rank, NULL);
}

/* ---- in time --------------------------------------------------------------------------------- */

/* Lets kernels go once the launch is seen to wait for its stream. */
static void *let_go(void *arg)
{
	int asked = *(int *)arg;
	uint64_t end = ori_now_ns() + LONG_NS;

	while (fake_cuda_count("cuStreamQuery") < asked + 3 && ori_now_ns() < end)
		sched_yield();
	fake_cuda_hold("cuLaunchKernel", 0);
	return NULL;
}

static void waited_rank(struct rank_env *env)
{
	struct ori_mark *mark = NULL;
	pthread_t thread;
	struct bench b;
	int asked;

	REQUIRE_OK(bench_open(&b, env));
	fake_cuda_hold("cuLaunchKernel", 1);
	fake_cuda_fail("cuEventRecord", 1, ANY_CODE);
	asked = fake_cuda_count("cuStreamQuery");
	REQUIRE_OK(pthread_create(&thread, NULL, let_go, &asked));
	CHECK_EQ(launch(&b, 0, &mark), 0);
	CHECK_EQ(cuStreamQuery(b.stream[0]), 0);
	CHECK_EQ(b.streams->passed(&b.d->base, mark), 1);
	pthread_join(thread, NULL);
	b.streams->unmark(&b.d->base, mark);
	bench_close(&b);
}

TEST(a_stream_without_an_event_is_waited_for)
{
	run_one(waited_rank, NULL);
}
