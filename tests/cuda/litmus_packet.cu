/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/cuda/litmus_packet.cu - tests the words of cells of packets on a GPU, by the million.
 *
 * A writer stores pairs of 64-bit words, each with data that follows from its mark, without
 * any wait.  A reader must never see a word whose data belongs to another mark.  The PTX memory
 * model promises that.  It promises nothing about the two words of a pair, so the test only reports
 * how often they had different marks.
 * tests/coll/litmus.c sends whole packets.
 */
#include "gpu.h"

#define LANES 32
#define ROUNDS 1000000

struct words_args {
	uint64_t *cells;  /* LANES pairs, in the reader's memory */
	uint64_t *result; /* of the reader: [0] torn words, [1] pairs of two marks, [2] looks */
	int32_t writes;
	int32_t rounds;
};

/* Data that no other mark has. */
ORIEL_DEV uint64_t word_of(uint32_t mark)
{
	return (uint64_t)mark << 32 | (uint32_t)(mark * 2654435761u + 12345u);
}

ORIEL_DEV void read_words(const struct words_args *a, const uint64_t *cell)
{
	uint64_t low, high, torn = 0, apart = 0, looks = 0, idle = 0;
	uint32_t mark = 0, last = 0;

	while (mark < (uint32_t)a->rounds && idle < 400000000ull) {
		ori_load_pair_relaxed_sys(cell, &low, &high);
		mark = (uint32_t)(low >> 32);
		torn += low && low != word_of(mark);
		torn += high && high != word_of((uint32_t)(high >> 32));
		apart += low >> 32 != high >> 32;
		idle = mark == last ? idle + 1 : 0;
		last = mark;
		looks++;
	}
	torn += mark < (uint32_t)a->rounds; /* the last round never came */
	(void)ori_fetch_add_acq_rel_sys(a->result, torn);
	(void)ori_fetch_add_acq_rel_sys(a->result + 1, apart);
	(void)ori_fetch_add_acq_rel_sys(a->result + 2, looks);
}

ORIEL_KERNEL(words_kernel, struct words_args)
{
	uint64_t *cell = a->cells + 2 * (uint64_t)oriel_group_block().thread;
	uint32_t i;

	if (!a->writes)
		read_words(a, cell);
	for (i = 1; a->writes && i <= (uint32_t)a->rounds; i++)
		ori_store_pair_relaxed_sys(cell, word_of(i), word_of(i));
	return 0;
}

static void words(struct rank_env *env)
{
	struct words_args a = { NULL, NULL, env->rank == 0, ROUNDS };
	uint64_t zeros[2 * LANES + 3] = { 0 }, result[3];
	struct oriel_buffer *buffer;
	void *memory;

	REQUIRE_OK(oriel_alloc(env->comm, sizeof(zeros), &memory));
	REQUIRE_OK(oriel_copy(env->comm, memory, zeros, sizeof(zeros)));
	REQUIRE_OK(oriel_buffer_register(env->comm, memory, sizeof(zeros), &buffer));
	REQUIRE_OK(oriel_buffer_exchange(env->comm, buffer));
	a.cells = (uint64_t *)oriel_buffer_mapped(buffer, 1);
	a.result = (uint64_t *)memory + 2 * LANES;
	REQUIRE(a.cells);
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	REQUIRE_OK(oriel_launch(env->comm, &words_kernel, 1, LANES, &a, sizeof(a), NULL));
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	if (env->rank == 1) {
		REQUIRE_OK(oriel_copy(env->comm, result, a.result, sizeof(result)));
		printf("  %llu torn words, %llu pairs of two marks, %llu looks\n",
		       (unsigned long long)result[0], (unsigned long long)result[1],
		       (unsigned long long)result[2]);
		CHECK_EQ(result[0], 0);
		CHECK(result[2] > 0);
	}
	REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	REQUIRE_OK(oriel_buffer_release(buffer));
	REQUIRE_OK(oriel_free(env->comm, memory));
}

TEST(words_of_cells_between_processes)
{
	gpu_run(2, 1, NULL, words, NULL);
}

TEST(words_of_cells_between_thread_ranks)
{
	gpu_run(2, 0, NULL, words, NULL);
}
