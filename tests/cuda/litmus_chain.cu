/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/cuda/litmus_chain.cu - tests the memory order that window operations promise over three
 * ranks on a GPU.
 *
 * Rank A puts, and signals rank B; B signals rank C; C must see the put.  In another test two ranks
 * put, fence and get.  There are many rounds with random delays.  Every byte that is seen too early
 * is counted, and there must be none.
 */
#include "gpu.h"

#define ROUNDS 3000
#define BYTES 208 /* of data: more than a line, not a multiple of one */

/* Where the data of rank 0 go, and how rank 2 gets at them. */
enum mode { AT_THE_SECOND, AT_THE_THIRD };

struct chain_args {
	struct oriel_window_dev win;
	struct oriel_source src;
	uint8_t *local;
	uint64_t *result; /* [thread]: wrong bytes; [512 + thread]: status */
	int32_t mode, rounds;
};

ORIEL_DEV uint8_t chain_byte(int round, uint64_t i)
{
	return (uint8_t)(round * 37 + (int)i * 11 + (round >> 8));
}

ORIEL_DEV int first_rank(const struct chain_args *a, struct oriel_group g, int i)
{
	const struct oriel_window_dev *w = &a->win;
	uint64_t k;
	int err;

	for (k = g.thread; k < BYTES; k += g.size)
		a->local[k] = chain_byte(i, k);
	err = oriel_group_sync(g);
	if (!err && a->mode == AT_THE_SECOND)
		return oriel_put_signal(w, g, 1, 0, &a->src, 0, BYTES, 0, ORIEL_ADD, 1);
	if (!err)
		err = oriel_put(w, g, 2, 0, &a->src, 0, BYTES);
	if (!err) /* signals are ordered behind puts to the same peer only */
		err = oriel_flush(w, g, 2);
	return err ? err : oriel_signal(w, g, 1, 0, ORIEL_ADD, 1);
}

ORIEL_DEV int third_rank(const struct chain_args *a, struct oriel_group g, int i, uint64_t *wrong)
{
	const struct oriel_window_dev *w = &a->win;
	const uint8_t *at = w->buffer;
	uint64_t k;
	int err = oriel_wait_signal_from(w, g, 1, 0, ORIEL_GE, (uint64_t)i);

	if (!err && a->mode == AT_THE_SECOND) {
		err = oriel_get(w, g, 1, 0, &a->src, 0, BYTES);
		at = a->local;
	}
	for (k = g.thread; k < BYTES && !err; k += g.size)
		*wrong += at[k] != chain_byte(i, k);
	return err;
}

ORIEL_KERNEL(chain_kernel, struct chain_args)
{
	struct oriel_group g = oriel_group_block();
	const struct oriel_window_dev *w = &a->win;
	uint32_t seed = (uint32_t)oriel_rank(w) * 191 + 11;
	uint64_t wrong = 0;
	int err = 0, i;

	for (i = 1; i <= a->rounds && !err; i++) {
		gpu_random_delay(&seed);
		if (oriel_rank(w) == 0)
			err = first_rank(a, g, i);
		else if (oriel_rank(w) == 2)
			err = third_rank(a, g, i, &wrong);
		else
			err = oriel_wait_signal_from(w, g, 0, 0, ORIEL_GE, (uint64_t)i);
		if (!err && oriel_rank(w) == 1)
			err = oriel_signal(w, g, 2, 0, ORIEL_ADD, 1);
		/* nothing is written again before it was seen */
		if (!err && i % 2)
			err = oriel_barrier(w, g, 0);
		else if (!err)
			err = oriel_barrier_arrive_wait(w, g, 0);
	}
	a->result[g.thread] = wrong;
	a->result[512 + g.thread] = (uint64_t)(int64_t)err;
	return err;
}

static void chain_run(struct rank_env *env, struct chain_args *a, int threads)
{
	static const uint64_t zero[512] = { 0 };
	uint64_t got[1024], wrong = 0;

	REQUIRE_OK(oriel_copy(env->comm, a->result, zero, sizeof(zero)));
	REQUIRE_OK(oriel_launch(env->comm, &chain_kernel, 1, threads, a, sizeof(*a), NULL));
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	REQUIRE_OK(oriel_copy(env->comm, got, a->result, sizeof(got)));
	for (int t = 0; t < threads; t++) {
		wrong += got[t];
		CHECK_EQ((int64_t)got[512 + t], 0);
	}
	CHECK_EQ(wrong, 0);
	if (env->rank == 2)
		printf("  data at the %s, block of %d: %llu wrong bytes in %d rounds\n",
		       a->mode == AT_THE_SECOND ? "second rank" : "third rank", threads,
		       (unsigned long long)wrong, a->rounds);
}

static void chain(struct rank_env *env)
{
	const int threads[3] = { 1, 32, 512 };
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct chain_args a;
	void *local, *result;

	memset(&a, 0, sizeof(a));
	a.rounds = *(const int *)env->arg;
	o.bytes = 4096;
	REQUIRE_OK(oriel_alloc(env->comm, 4096, &local));
	REQUIRE_OK(oriel_alloc(env->comm, 1024 * 8, &result));
	a.local = (uint8_t *)local;
	a.result = (uint64_t *)result;
	for (int i = 0; i < 6; i++) {
		struct oriel_window *w = NULL;

		/* a window of its own, so that its words start at 0 */
		REQUIRE_OK(oriel_window_create(env->comm, &o, &w));
		REQUIRE_OK(oriel_window_device(w, &a.win));
		REQUIRE_OK(oriel_window_source(w, local, 4096, &a.src));
		a.mode = i % 2;
		chain_run(env, &a, threads[i / 2]);
		REQUIRE_OK(oriel_window_destroy(w));
	}
	REQUIRE_OK(oriel_free(env->comm, local));
	REQUIRE_OK(oriel_free(env->comm, result));
}

/* ---- fence: store buffering with puts and gets ----------------------------------------------- */

struct fence_args {
	struct oriel_window_dev win;
	uint64_t *seen; /* 1 + what the get saw, a word a round */
	int32_t rounds, reserved;
};

/*
 * Both ranks work at rank 1, each with its own word per round: put 1, fence, get the other's word.
 * At least one of the two must see the other's put.
 */
ORIEL_KERNEL(fence_kernel, struct fence_args)
{
	struct oriel_group g = oriel_group_thread();
	const struct oriel_window_dev *w = &a->win;
	int me = oriel_rank(w), err = 0, i;
	uint32_t seed = (uint32_t)me * 77 + 5;
	uint64_t one = 1, got;

	for (i = 0; i < a->rounds; i++) {
		uint64_t mine = (uint64_t)i * 16 + (uint64_t)me * 8;
		uint64_t theirs = (uint64_t)i * 16 + (uint64_t)(1 - me) * 8;

		if (!err)
			err = oriel_barrier_arrive_wait(w, g, 0);
		gpu_random_delay(&seed);
		if (!err)
			err = oriel_put_value(w, g, 1, mine, &one, 8);
		if (!err)
			err = oriel_fence(w, g, 1);
		got = 0;
		if (!err)
			err = oriel_get_value(w, g, 1, theirs, &got, 8);
		a->seen[i] = err ? 0 : 1 + got;
	}
	return err;
}

static void fences(struct rank_env *env)
{
	enum { ROUNDS_SB = 5000 };
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL;
	struct fence_args a;
	uint64_t *mine, *all, missed = 0;
	void *seen;

	memset(&a, 0, sizeof(a));
	mine = (uint64_t *)calloc(ROUNDS_SB, 8);
	all = (uint64_t *)calloc(ROUNDS_SB, 16);
	REQUIRE(mine && all);
	o.bytes = ROUNDS_SB * 16;
	REQUIRE_OK(oriel_window_create(env->comm, &o, &w));
	REQUIRE_OK(oriel_window_device(w, &a.win));
	REQUIRE_OK(oriel_alloc(env->comm, ROUNDS_SB * 8, &seen));
	a.seen = (uint64_t *)seen;
	a.rounds = ROUNDS_SB;
	REQUIRE_OK(oriel_launch(env->comm, &fence_kernel, 1, 1, &a, sizeof(a), NULL));
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	REQUIRE_OK(oriel_copy(env->comm, mine, seen, ROUNDS_SB * 8));
	REQUIRE_OK(oriel_comm_allgather(env->comm, ORIEL_WORLD, mine, all, ROUNDS_SB * 8));
	for (int i = 0; i < ROUNDS_SB; i++) {
		CHECK(all[i] && all[ROUNDS_SB + i]);
		missed += all[i] == 1 && all[ROUNDS_SB + i] == 1;
	}
	CHECK_EQ(missed, 0);
	if (env->rank == 0)
		printf("  put, fence, get: %llu forbidden of %d rounds\n",
		       (unsigned long long)missed, (int)ROUNDS_SB);
	free(mine);
	free(all);
	REQUIRE_OK(oriel_window_destroy(w));
	REQUIRE_OK(oriel_free(env->comm, seen));
}

static int many = ROUNDS, few = ROUNDS / 10;

TEST(chain_of_processes)
{
	gpu_run(3, 1, NULL, chain, &many);
}

TEST(chain_of_queued_processes)
{
	gpu_run(3, 1, "3x1", chain, &few);
}

TEST(fence_between_processes)
{
	gpu_run(2, 1, NULL, fences, NULL);
}

TEST(chain_of_threads)
{
	gpu_run(3, 0, NULL, chain, &many);
}

TEST(chain_of_queued_and_mapped_threads)
{
	gpu_run(3, 0, "0,0,1", chain, &few);
}

TEST(fence_between_threads)
{
	gpu_run(2, 0, NULL, fences, NULL);
}
