/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/reduce.c - broadcast, all-reduce and reduce-scatter of the host against the model:
 * sizes, types, operators, places, ranks of all kinds.
 *
 * Rows: ranks as threads and as processes, all mapped, all queued and mixed; on CUDA (the fake
 * driver) as processes.
 */
#include "reduce_bed.h"

static const struct bed_row rows[] = {
	{ "alone", 1, 0, NULL },
	{ "two threads", 2, 0, NULL },
	{ "three processes", 3, 1, NULL },
	{ "five threads", 5, 0, NULL },
	{ "eight processes", 8, 1, NULL },
	{ "mixed threads", 4, 0, "2x2" },
	{ "mixed processes", 4, 1, "2x2" },
	{ "uneven nodes", 3, 0, "0,0,1" },
	{ "queued", 3, 0, "3x1" },
};

/* Around a round of the host's team: a piece is cut where slots end. */
static const uint64_t sizes[] = { 0, 1, 3, 17, 64, 1000, 8191, 16384, 65536, 280001 };

/* A driver that runs kernels as threads is slow. */
static size_t sizes_used(void)
{
	return ORI_COUNT(sizes) - (bed_on_cuda() ? 1 : 0);
}

static void sizes_rank(struct rank_env *env)
{
	struct bed b;

	bed_open(&b, env, 2 * sizes[sizes_used() - 1] * 4 + 64);
	for (size_t i = 0; i < sizes_used() && !check_failures; i++) {
		bed_allreduce(&b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, sizes[i], 0, 0);
		bed_allreduce(&b, ORIEL_TYPE_INT32, ORIEL_REDUCE_XOR, sizes[i], 0, 1);
	}
	bed_close(&b);
}

TEST(all_reduce_of_every_size)
{
	bed_rows(rows, ORI_COUNT(rows), sizes_rank, NULL);
}

static void scatter_rank(struct rank_env *env)
{
	uint64_t n = (uint64_t)env->nranks;
	struct bed b;

	bed_open(&b, env, (n + 1) * (sizes[sizes_used() - 1] / n + 1) * 4 + 64);
	for (size_t i = 0; i < sizes_used() && !check_failures; i++)
		for (int place = 0; place < 3; place++)
			bed_reducescatter(&b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, sizes[i] / n, 0,
					  place);
	bed_close(&b);
}

TEST(reduce_scatter_of_every_size)
{
	bed_rows(rows, ORI_COUNT(rows), scatter_rank, NULL);
}

static void broadcast_rank(struct rank_env *env)
{
	struct bed b;

	bed_open(&b, env, 4 * sizes[sizes_used() - 1] + 64);
	for (size_t i = 0; i < sizes_used() && !check_failures; i++)
		for (int root = 0; root<env->nranks; root += env->nranks> 4 ? 3 : 1)
			bed_broadcast(&b, sizes[i] * (i % 2 ? 4 : 1), i % 4, root);
	bed_close(&b);
}

TEST(broadcast_of_every_size_and_root)
{
	bed_rows(rows, ORI_COUNT(rows), broadcast_rank, NULL);
}

/* ---- types and operators --------------------------------------------------------------------- */

static void types_rank(struct rank_env *env)
{
	struct bed b;

	bed_open(&b, env, 40000);
	for (int type = 1; type <= MODEL_TYPES && !check_failures; type++)
		for (int op = 1; op <= MODEL_OPS && !check_failures; op++) {
			if (!model_is_valid(type, op))
				continue;
			bed_allreduce(&b, type, op, 999, 0, 0);
			bed_reducescatter(&b, type, op, 301, 0, 0);
		}
	bed_close(&b);
}

TEST(every_type_and_operator)
{
	const struct bed_row few[] = { { "three threads", 3, 0, NULL },
				       { "mixed processes", 4, 1, "2x2" } };

	bed_rows(few, ORI_COUNT(few), types_rank, NULL);
}

static void unaligned_rank(struct rank_env *env)
{
	struct bed b;

	bed_open(&b, env, 2 * 8 * 60000);
	for (uint64_t skew = 1; skew < 16 && !check_failures; skew += 5) {
		bed_allreduce(&b, ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_SUM, 333, skew, 0);
		bed_allreduce(&b, ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_SUM, 30011, skew, 1);
		bed_reducescatter(&b, ORIEL_TYPE_HALF, ORIEL_REDUCE_SUM, 501, skew, 0);
		bed_broadcast(&b, 70001, skew, 0);
	}
	bed_close(&b);
}

TEST(unaligned_buffers)
{
	const struct bed_row few[] = { { "three threads", 3, 0, NULL },
				       { "mixed processes", 4, 1, "2x2" } };

	bed_rows(few, ORI_COUNT(few), unaligned_rank, NULL);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* The same elements in calls of different sizes take different ways, and get the same bits. */
static void bits_rank(struct rank_env *env)
{
	uint64_t first, count = 60000;
	struct bed b;

	bed_open(&b, env, 2 * 4 * count);
	for (int i = 0; i < 3; i++) {
		first = b.seed;
		bed_allreduce(&b, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, i == 1 ? 700 : count, 0, 0);
		b.seed = first; /* the model is of the same elements each time */
	}
	bed_close(&b);
}

TEST(the_bits_do_not_depend_on_the_size)
{
	const struct bed_row few[] = { { "five threads", 5, 0, NULL },
				       { "five processes", 5, 1, NULL } };

	bed_rows(few, ORI_COUNT(few), bits_rank, NULL);
}

/* ---- two comms ------------------------------------------------------------------------------- */

static void comms_rank(struct rank_env *env)
{
	struct oriel_comm *whole = env->comm, *half = NULL;
	int rank = env->rank, nranks = env->nranks;
	struct bed b;

	REQUIRE_OK(oriel_comm_split(whole, rank % 2, 0, &half));
	bed_open(&b, env, 80000);
	for (int i = 0; i < 6 && !check_failures; i++) {
		bed_allreduce(&b, ORIEL_TYPE_INT64, ORIEL_REDUCE_SUM, 1000, 0, 0);
		env->comm = half;
		env->rank = rank / 2;
		env->nranks = (nranks + 1 - rank % 2) / 2;
		bed_allreduce(&b, ORIEL_TYPE_INT64, ORIEL_REDUCE_MAX, 900, 0, 1);
		env->comm = whole;
		env->rank = rank;
		env->nranks = nranks;
	}
	bed_close(&b);
	CHECK_EQ(oriel_comm_destroy(half), 0);
}

TEST(two_comms_in_turn)
{
	const struct bed_row few[] = { { "threads", 5, 0, NULL }, { "processes", 4, 1, NULL } };

	bed_rows(few, ORI_COUNT(few), comms_rank, NULL);
}
