/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/cuda/memory.cu - the user's own memory on a GPU: cudaMalloc memory as a window and as a
 * source (processes get it by CUDA IPC), from its start and from its middle; memory that cannot be
 * a window and what is said about it.
 */
#include "gpu.h"

#define BYTES 65536
#define OFFSET 4096 /* of the window in its allocation, another on each rank */

struct fill_args {
	uint8_t *to;
	uint64_t bytes;
	int32_t rank, round;
};

ORIEL_DEV uint8_t pattern(int rank, int round, uint64_t i)
{
	return (uint8_t)(i * 7 + i / 251 + (uint64_t)rank * 31 + (uint64_t)round * 57 + 1);
}

ORIEL_KERNEL(fill_kernel, struct fill_args)
{
	struct oriel_group g = oriel_group_block();
	uint64_t i;

	for (i = g.thread; i < a->bytes; i += g.size)
		a->to[i] = pattern(a->rank, a->round, i);
	return 0;
}

/* A ring of puts from `source` into the windows; every byte is compared. */
static void ring(struct rank_env *env, struct oriel_window *w, uint8_t *source, int round)
{
	int right = (env->rank + 1) % env->nranks,
	    left = (env->rank + env->nranks - 1) % env->nranks;
	struct fill_args f = { source, BYTES, env->rank, round };
	uint8_t *got = (uint8_t *)malloc(BYTES);
	struct oriel_source src;
	int wrong = 0;

	REQUIRE(got);
	REQUIRE_OK(oriel_window_source(w, source, BYTES, &src));
	REQUIRE_OK(oriel_launch(env->comm, &fill_kernel, 1, 128, &f, sizeof(f), NULL));
	REQUIRE_OK(oriel_window_put_signal(w, right, 0, &src, 0, BYTES, 0, ORIEL_ADD, 1, NULL));
	REQUIRE_OK(oriel_window_wait_signal(w, left, 0, ORIEL_GE, (uint64_t)round, NULL));
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	REQUIRE_OK(oriel_window_status(w));
	REQUIRE_OK(oriel_copy(env->comm, got, oriel_window_buffer(w), BYTES));
	for (int i = 0; i < BYTES; i++)
		wrong += got[i] != pattern(left, round, (uint64_t)i);
	CHECK_EQ(wrong, 0);
	free(got);
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
}

static void user_memory(struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL, *second = NULL;
	uint8_t *window_memory, *source;
	void *ours;

	GPU_OK(cudaSetDevice(0));
	GPU_OK(cudaMalloc(&window_memory, 4 * BYTES));
	GPU_OK(cudaMalloc(&source, 2 * BYTES));
	REQUIRE_OK(oriel_alloc(env->comm, BYTES, &ours));
	o.bytes = BYTES;
	o.buffer = window_memory + OFFSET * (env->rank + 1);
	REQUIRE_OK(oriel_window_create(env->comm, &o, &w));
	CHECK(oriel_window_buffer(w) == o.buffer);
	ring(env, w, source, 1);
	ring(env, w, source + 192, 2);
	ring(env, w, (uint8_t *)ours, 3);
	/* a second window over the same allocation: imported once, counted */
	o.buffer = window_memory + 2 * BYTES;
	REQUIRE_OK(oriel_window_create(env->comm, &o, &second));
	ring(env, second, source, 1);
	ring(env, w, source, 4);
	REQUIRE_OK(oriel_window_destroy(w));
	ring(env, second, source, 2);
	REQUIRE_OK(oriel_window_destroy(second));
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	REQUIRE_OK(oriel_free(env->comm, ours));
	GPU_OK(cudaFree(source));
	GPU_OK(cudaFree(window_memory));
}

/* Each is refused on every rank, in words, and the comm is as good as before. */
static void refuse(struct rank_env *env, void *memory, const char *what)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL;
	int err;

	REQUIRE(memory);
	o.bytes = BYTES;
	o.buffer = memory;
	err = oriel_window_create(env->comm, &o, &w);
	if (err != ORIEL_EEXPORT)
		check_fail(__FILE__, __LINE__, "%s: status %d", what, err);
	CHECK(w == NULL);
	CHECK_HAS(oriel_last_error(), "oriel_alloc");
	if (env->rank == 0)
		printf("  %s: %s\n", what, oriel_last_error());
	CHECK_EQ(oriel_comm_status(env->comm), 0);
	if (w)
		CHECK_EQ(oriel_window_destroy(w), 0);
}

static void refusals(struct rank_env *env)
{
	void *managed = NULL, *pinned = NULL, *plain = calloc(1, BYTES);

	GPU_OK(cudaSetDevice(0));
	GPU_OK(cudaMallocManaged(&managed, BYTES, cudaMemAttachGlobal));
	GPU_OK(cudaHostAlloc(&pinned, BYTES, cudaHostAllocPortable));
	refuse(env, managed, "managed memory");
	refuse(env, pinned, "pinned host memory");
	refuse(env, plain, "host memory");
	GPU_OK(cudaFreeHost(pinned));
	GPU_OK(cudaFree(managed));
	free(plain);
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
}

TEST(user_memory_of_processes)
{
	gpu_run(2, 1, NULL, user_memory, NULL);
}

TEST(user_memory_of_3_processes)
{
	gpu_run(3, 1, NULL, user_memory, NULL);
}

TEST(user_memory_of_queued_processes)
{
	gpu_run(2, 1, "2x1", user_memory, NULL);
}

TEST(refusals_of_processes)
{
	gpu_run(2, 1, NULL, refusals, NULL);
}

TEST(user_memory_of_threads)
{
	gpu_run(3, 0, NULL, user_memory, NULL);
}
