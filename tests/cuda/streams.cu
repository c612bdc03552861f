/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/cuda/streams.cu - the user's streams and events: window operations and kernels on them,
 * ordered by them, and two host threads that use one window on streams of their own.
 */
#include <pthread.h>

#include "gpu.h"

#define BYTES 4096
#define ROUNDS 50

struct value_args {
	uint64_t *to;
	uint64_t value;
};

/* Slow on purpose: who does not wait for it takes the old value. */
ORIEL_KERNEL(store_kernel, struct value_args)
{
#if ORIEL_ON_GPU
	long long until = clock64() + 200000;

	while (clock64() < until)
		;
#endif
	*a->to = a->value;
	return 0;
}

struct lane {
	struct rank_env *env;
	struct oriel_window *window;
	uint64_t *memory; /* device: one word */
	uint64_t off;     /* of this lane in the window */
	int id;
	cudaStream_t write, send;
	cudaEvent_t written, sent;
};

/* The word is written on one stream and put on another, in an order that only events make. */
static void lane_round(struct lane *l, const struct oriel_source *src, uint64_t round)
{
	struct rank_env *env = l->env;
	int right = (env->rank + 1) % env->nranks,
	    left = (env->rank + env->nranks - 1) % env->nranks;
	struct value_args v = { l->memory, round * 100 + (uint64_t)env->rank };
	uint64_t got = 0;

	GPU_OK(cudaStreamWaitEvent(l->write, l->sent, 0));
	REQUIRE_OK(oriel_launch(env->comm, &store_kernel, 1, 1, &v, sizeof(v), l->write));
	GPU_OK(cudaEventRecord(l->written, l->write));
	GPU_OK(cudaStreamWaitEvent(l->send, l->written, 0));
	REQUIRE_OK(oriel_window_put_signal(l->window, right, l->off, src, 0, 8, l->id, ORIEL_ADD, 1,
					   l->send));
	GPU_OK(cudaEventRecord(l->sent, l->send));
	REQUIRE_OK(oriel_window_wait_signal(l->window, left, l->id, ORIEL_GE, round, l->send));
	REQUIRE_OK(oriel_comm_sync(env->comm, l->send));
	REQUIRE_OK(
		oriel_copy(env->comm, &got, (uint8_t *)oriel_window_buffer(l->window) + l->off, 8));
	CHECK_EQ(got, round * 100 + (uint64_t)left);
	REQUIRE_OK(oriel_window_barrier(l->window, l->id, l->send));
	REQUIRE_OK(oriel_comm_sync(env->comm, l->send));
}

static void *lane_main(void *arg)
{
	struct lane *l = (struct lane *)arg;
	struct oriel_source src;
	int failures = check_failures;

	if (cudaSetDevice(0) != cudaSuccess || oriel_window_source(l->window, l->memory, 8, &src)) {
		check_fail(__FILE__, __LINE__, "lane %d: %s", l->id, oriel_last_error());
		return NULL;
	}
	for (uint64_t round = 1; round <= ROUNDS && check_failures == failures; round++)
		lane_round(l, &src, round);
	return NULL;
}

static void open_lane(struct lane *l, struct rank_env *env, struct oriel_window *w, int id)
{
	void *memory;

	l->env = env;
	l->window = w;
	l->id = id;
	l->off = (uint64_t)id * 64;
	REQUIRE_OK(oriel_alloc(env->comm, 8, &memory));
	l->memory = (uint64_t *)memory;
	GPU_OK(cudaStreamCreateWithFlags(&l->write, cudaStreamNonBlocking));
	GPU_OK(cudaStreamCreateWithFlags(&l->send, cudaStreamNonBlocking));
	GPU_OK(cudaEventCreateWithFlags(&l->written, cudaEventDisableTiming));
	GPU_OK(cudaEventCreateWithFlags(&l->sent, cudaEventDisableTiming));
}

static void close_lane(struct lane *l)
{
	GPU_OK(cudaEventDestroy(l->written));
	GPU_OK(cudaEventDestroy(l->sent));
	GPU_OK(cudaStreamDestroy(l->write));
	GPU_OK(cudaStreamDestroy(l->send));
	REQUIRE_OK(oriel_free(l->env->comm, l->memory));
}

/* Two host threads, a lane each, one window. */
static void two_lanes(struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL;
	struct lane lanes[2];
	pthread_t second;

	memset(lanes, 0, sizeof(lanes));
	o.bytes = BYTES;
	GPU_OK(cudaSetDevice(0));
	REQUIRE_OK(oriel_window_create(env->comm, &o, &w));
	for (int i = 0; i < 2; i++)
		open_lane(&lanes[i], env, w, i);
	REQUIRE(lanes[1].sent);
	REQUIRE(!pthread_create(&second, NULL, lane_main, &lanes[1]));
	lane_main(&lanes[0]);
	pthread_join(second, NULL);
	CHECK_EQ(oriel_window_status(w), 0);
	for (int i = 0; i < 2; i++)
		close_lane(&lanes[i]);
	REQUIRE_OK(oriel_window_destroy(w));
}

TEST(streams_of_processes)
{
	gpu_run(2, 1, NULL, two_lanes, NULL);
}

TEST(streams_of_queued_processes)
{
	gpu_run(2, 1, "2x1", two_lanes, NULL);
}

TEST(streams_of_threads)
{
	gpu_run(4, 0, NULL, two_lanes, NULL);
}
