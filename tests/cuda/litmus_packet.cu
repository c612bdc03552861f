/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/cuda/litmus_packet.cu - tests the cells of packets on a GPU, by the million.
 *
 * Words: a writer stores pairs of 64-bit words, each with data that follows from its mark, without
 * any wait.  A reader must never see a word whose data belongs to another mark.  The PTX memory
 * model promises that.  It promises nothing about the two words of a pair, so the test only reports
 * how often they had different marks.
 * Packets: a stream of packets through oriel_packet_send and _recv, every byte checked.  A torn
 * cell, a cell taken early, or a credit given early shows as a wrong byte.
 */
#include "gpu.h"

#define LANES 32
#define ROUNDS 1000000
#define BOX_BYTES 1024

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

/* ---- packets --------------------------------------------------------------------------------- */

struct packets_args {
	struct oriel_window_dev win;
	uint64_t *local;
	uint64_t *wrong;
	uint64_t bytes;
	int32_t rounds;
	int32_t reserved;
};

/* Rank 0 sends, rank 1 receives; neither waits for anything else. */
ORIEL_KERNEL(packets_kernel, struct packets_args)
{
	struct oriel_group g = oriel_group_block();
	uint64_t i, k, words = a->bytes / 8, wrong = 0;
	int err = 0;

	for (i = 0; i < (uint64_t)a->rounds && !err; i++) {
		if (oriel_rank(&a->win) == 0) {
			for (k = g.thread; k < words; k += g.size)
				a->local[k] = i * 0x9e3779b97f4a7c15ull + k;
			err = oriel_group_sync(g);
			if (!err)
				err = oriel_packet_send(&a->win, g, 1, 0, a->local, a->bytes);
		} else {
			err = oriel_packet_recv(&a->win, g, 0, 0, a->local, a->bytes);
			for (k = g.thread; k < words && !err; k += g.size)
				wrong += a->local[k] != i * 0x9e3779b97f4a7c15ull + k;
			if (!err)
				err = oriel_group_sync(g);
		}
	}
	if (wrong)
		(void)ori_fetch_add_acq_rel_sys(a->wrong, wrong);
	return err;
}

static void packets(struct rank_env *env)
{
	static const struct {
		uint64_t bytes;
		int threads, rounds;
	} rows[] = { { 8, 1, ROUNDS },
		     { 8, 32, ROUNDS },
		     { 256, 32, ROUNDS },
		     { 1024, 128, ROUNDS / 2 },
		     { 1024, 32, ROUNDS / 2 } };
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct packets_args a;
	uint64_t wrong = 0;
	void *local;

	memset(&a, 0, sizeof(a));
	o.boxes = 1;
	o.box_bytes = BOX_BYTES;
	REQUIRE_OK(oriel_window_create(env->comm, &o, &window));
	REQUIRE_OK(oriel_window_device(window, &a.win));
	REQUIRE_OK(oriel_alloc(env->comm, BOX_BYTES + 8, &local));
	a.local = (uint64_t *)local;
	a.wrong = a.local + BOX_BYTES / 8;
	REQUIRE_OK(oriel_copy(env->comm, a.wrong, &wrong, sizeof(wrong)));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		a.bytes = rows[i].bytes;
		a.rounds = rows[i].rounds;
		REQUIRE_OK(oriel_launch(env->comm, &packets_kernel, 1, rows[i].threads, &a,
					sizeof(a), NULL));
		REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
		REQUIRE_OK(oriel_copy(env->comm, &wrong, a.wrong, sizeof(wrong)));
		CHECK_EQ(wrong, 0);
		if (env->rank == 1)
			printf("  %d packets of %llu bytes, %d threads: %llu wrong words\n",
			       a.rounds, (unsigned long long)a.bytes, rows[i].threads,
			       (unsigned long long)wrong);
	}
	REQUIRE_OK(oriel_window_destroy(window));
	REQUIRE_OK(oriel_free(env->comm, local));
}

TEST(words_of_cells_between_processes)
{
	gpu_run(2, 1, NULL, words, NULL);
}

TEST(packets_between_processes)
{
	gpu_run(2, 1, NULL, packets, NULL);
}

TEST(words_of_cells_between_thread_ranks)
{
	gpu_run(2, 0, NULL, words, NULL);
}

TEST(packets_between_thread_ranks)
{
	gpu_run(2, 0, NULL, packets, NULL);
}
