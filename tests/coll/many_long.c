/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/many_long.c - collectives of many ranks that do not map each other: of the host, and
 * inside a kernel.  A rank has a queue to each of the others, and a round writes to all of them.
 *
 * Up to 64 mapped ranks: team_mix.c.
 */
#include "team_mix.h"

static const struct bed_row many[] = { { "32 queued", 32, 0, "32x1" },
				       { "32 mixed", 32, 0, "4x8" },
				       { "64 mixed", 64, 0, "8x8" },
				       { "64 queued", 64, 0, "64x1" },
				       { "24 processes", 24, 1, "8x3" } };

/* Less than a block of each rank, and several rounds. */
static void host_rank(struct rank_env *env)
{
	static const uint64_t counts[] = { 1, 100, 5000 };
	uint64_t n = (uint64_t)env->nranks;
	struct bed b;

	bed_open(&b, env, 2 * 4 * 5000 + 64 * n);
	for (size_t i = 0; i < ORI_COUNT(counts) && !check_failures; i++) {
		bed_allreduce(&b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, counts[i], i, i % 2);
		bed_reducescatter(&b, ORIEL_TYPE_INT16, ORIEL_REDUCE_MIN, counts[i] / n + 1, 0, 0);
		bed_broadcast(&b, counts[i] * 4, 0, env->nranks - 1);
	}
	bed_close(&b);
}

TEST(calls_of_the_host)
{
	bed_rows(many, ORI_COUNT(many), host_rank, NULL);
}

static void mix_rank(struct rank_env *env)
{
	struct job j;

	open_job(&j, env, 10, 300);
	for (int i = 0; i < 2 && !check_failures; i++) {
		CHECK_EQ(launch(&j, i, 2, 1 + i, NULL), 0);
		CHECK_EQ(oriel_comm_sync(env->comm, NULL), 0);
	}
	close_job(&j);
}

TEST(calls_of_kernels)
{
	bed_cells = ORIEL_CELLS_NEVER; /* these ranks would have none */
	bed_rows(many, ORI_COUNT(many), mix_rank, NULL);
}
