/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/gather_choose.c - which algorithm an all-gather takes: the rows of docs/allgather.md,
 * and what is the same on every machine.
 */
#include "../check.h"
#include "coll/allgather/gather.h"

static const struct ori_gather_speed speed = { 5000, 1.0 / 40, 1.0 / 300 };

static void choose(int nodes, uint64_t bytes, int direct, struct ori_gather_choice *c)
{
	struct ori_gather_map m = { .nranks = nodes * 8, .nnodes = nodes, .rails = 8 };

	ori_gather_choose(&m, &speed, bytes, 0, 0, direct, c);
}

TEST(the_rows_of_the_table)
{
	static const struct {
		int nodes;
		uint64_t bytes;
		int algorithm;
		double us;
	} rows[] = {
		{ 2, 1u << 10, ORIEL_GATHER_RING, 5.1 },
		{ 2, 1u << 20, ORIEL_GATHER_RING, 58.7 },
		{ 8, 1u << 10, ORIEL_GATHER_DIRECT, 6.5 },
		{ 8, 1u << 20, ORIEL_GATHER_DOUBLING, 260 },
		{ 8, 16u << 20, ORIEL_GATHER_RING, 3544 },
		{ 1024, 1u << 10, ORIEL_GATHER_DOUBLING, 80.4 },
		{ 1024, 16u << 20, ORIEL_GATHER_RING, 461399 },
	};
	struct ori_gather_choice c;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		double us;

		choose(rows[i].nodes, rows[i].bytes, 1, &c);
		CHECK_EQ(c.algorithm, rows[i].algorithm);
		us = c.cost_ns[c.algorithm] / 1e3;
		CHECK(us > 0.98 * rows[i].us && us < 1.02 * rows[i].us);
	}
	choose(8, 1u << 10, 0, &c);
	CHECK_EQ(c.algorithm, ORIEL_GATHER_DOUBLING);
}

/* Costs that are equal: the first counts, whatever a compiler makes of sums and products. */
TEST(what_a_kernel_moves)
{
	struct ori_gather_map one = { .nranks = 8, .nnodes = 1, .rails = 8 };
	struct ori_gather_map two = { .nranks = 16, .nnodes = 2, .rails = 8 };

	CHECK_EQ(ori_gather_kernel_bytes(&one, ORIEL_GATHER_BY_SIZE), 1u << 20);
	CHECK_EQ(ori_gather_kernel_bytes(&one, ORIEL_GATHER_FASTEST), 1ull << 31);
	CHECK_EQ(ori_gather_kernel_bytes(&two, ORIEL_GATHER_FASTEST), 1u << 20);
	CHECK_EQ(ori_gather_kernel_bytes(&one, ORIEL_GATHER_NO_SMS), 0);
	CHECK_EQ(ori_gather_kernel_bytes(&two, ORIEL_GATHER_NO_SMS), 0);
	for (int p = ORIEL_GATHER_BY_SIZE; p <= ORIEL_GATHER_NO_SMS; p++)
		CHECK_EQ(ori_gather_policy_of("a call", ori_gather_policy_name(p)), p);
	CHECK_EQ(ori_gather_policy_of("a call", "default"), ORIEL_ECONFIG);
	CHECK_EQ(ori_gather_policy_of("a call", ""), ORIEL_ECONFIG);
}

TEST(equal_costs)
{
	static const struct ori_gather_speed none = { 0, 0, 0.1 }, huge = { 1e300, 1e300, 1e300 };
	struct ori_gather_map m = { .nranks = 8, .nnodes = 8, .rails = 1 };
	struct ori_gather_choice c;

	ori_gather_choose(&m, &none, 12345, 0, 0, 1, &c);
	CHECK_EQ(c.algorithm, ORIEL_GATHER_DIRECT);
	ori_gather_choose(&m, &none, 12345, 0, 0, 0, &c);
	CHECK_EQ(c.algorithm, ORIEL_GATHER_RING);
	/* nothing overflows */
	m.nnodes = 8192;
	ori_gather_choose(&m, &huge, (uint64_t)1 << 44, 0, 0, 1, &c);
	CHECK(c.cost_ns[ORIEL_GATHER_DOUBLING] > c.cost_ns[ORIEL_GATHER_RING] * 1.1);
}
