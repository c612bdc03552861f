/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/reduce.c - reductions of device/reduce.h against the model: all types, operators,
 * lengths around a tile, any alignment, in place, groups of several threads.
 */
#include <stdlib.h>

#include "check.h"
#include "reduce_model.h"

#define MOST 1300u /* elements: two tiles and a rest */
#define RANKS 5

/* A handle whose peers are all mapped, with the data of rank r at peers[r].buffer. */
struct bed {
	struct oriel_window_dev win;
	uint8_t *data[RANKS];
	struct ori_sources s;
};

static void open_bed(struct bed *b, int type, int nranks, uint64_t seed, uint32_t skew)
{
	memset(b, 0, sizeof(*b));
	for (int r = 0; r < nranks; r++) {
		b->data[r] = malloc(MOST * 8 + 16);
		for (uint32_t i = 0; i < MOST; i++)
			model_element(type, seed, r, i, b->data[r] + skew + i * model_bytes(type));
		b->win.inline_peers[r].kind = ORIEL_PEER_MAPPED;
		b->win.inline_peers[r].buffer = b->data[r];
	}
	b->win.comm.nranks = nranks;
	b->s.win = &b->win;
	b->s.mapped_off = skew;
	b->s.own = nranks / 2;
	b->s.mine = b->data[b->s.own] + skew;
	b->s.n = nranks;
}

static void close_bed(struct bed *b)
{
	for (int r = 0; r < RANKS; r++)
		free(b->data[r]);
}

/* All threads of a group, one after the other: a reduction contains no meeting. */
static void reduce(struct bed *b, uint8_t *to, uint32_t count, int type, int op, uint32_t threads)
{
	struct oriel_group g = oriel_group_thread();

	g.size = threads;
	for (g.thread = 0; g.thread < threads; g.thread++)
		ori_reduce(g, to, &b->s, count, type, op);
}

static void check(int type, int op, int nranks, uint64_t seed, const uint8_t *got, uint32_t count)
{
	uint32_t bytes = model_bytes(type);
	uint8_t want[8];

	for (uint32_t i = 0; i < count; i++) {
		model_result(type, op, seed, nranks, i, want);
		if (memcmp(want, got + i * bytes, bytes)) {
			check_fail(__FILE__, __LINE__,
				   "type %d op %d ranks %d: element %u of %u is wrong", type, op,
				   nranks, i, count);
			return;
		}
	}
}

static void check_all(int nranks, uint32_t count, uint32_t skew, uint32_t threads, int in_place)
{
	for (int type = 1; type <= MODEL_TYPES; type++)
		for (int op = 1; op <= MODEL_OPS; op++) {
			uint64_t seed = model_mix((uint64_t)(type * 100 + op));
			uint8_t out[MOST * 8 + 16], *to;
			struct bed b;

			if (!model_is_valid(type, op))
				continue;
			open_bed(&b, type, nranks, seed, skew);
			memset(out, 0xa5, sizeof(out));
			to = in_place ? b.data[b.s.own] + skew : out + skew;
			reduce(&b, to, count, type, op, threads);
			check(type, op, nranks, seed, to, count);
			if (!in_place)
				CHECK_EQ(out[skew + count * model_bytes(type)], 0xa5);
			close_bed(&b);
		}
}

TEST(every_type_and_operator)
{
	for (int nranks = 1; nranks <= RANKS; nranks++)
		check_all(nranks, MOST, 0, 1, 0);
}

TEST(lengths_around_a_tile)
{
	static const uint32_t lengths[] = { 0, 1, 7, ORI_TILE - 1, ORI_TILE, ORI_TILE + 1 };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		check_all(3, lengths[i], 0, 1, 0);
}

TEST(any_alignment)
{
	check_all(3, MOST, 1, 1, 0);
	check_all(2, MOST, 3, 1, 1);
}

TEST(in_place)
{
	check_all(2, MOST, 0, 1, 1);
	check_all(5, MOST, 0, 1, 1);
}

TEST(threads_divide_the_tiles)
{
	check_all(3, MOST, 0, 2, 0);
	check_all(3, MOST, 0, 7, 1);
}

/* The addresses are the caller's: nothing else of the sources is used. */
TEST(a_table_of_addresses)
{
	uint64_t seed = model_mix(7);
	const uint8_t *table[RANKS];
	uint8_t out[MOST * 8];
	struct bed b;

	open_bed(&b, ORIEL_TYPE_DOUBLE, RANKS, seed, 8);
	for (int r = 0; r < RANKS; r++)
		table[r] = b.data[r] + 8;
	memset(&b.s, 0, sizeof(b.s));
	b.s.table = table;
	b.s.n = RANKS;
	reduce(&b, out, MOST, ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_SUM, 1);
	check(ORIEL_TYPE_DOUBLE, ORIEL_REDUCE_SUM, RANKS, seed, out, MOST);
	close_bed(&b);
}

/* ---- 16-bit floating point ------------------------------------------------------------------- */

TEST(every_half_converts_as_the_compiler_does)
{
	for (uint32_t h = 0; h < 65536; h++) {
		float want = model_of_half((uint16_t)h), got = ori_float_of_half((uint16_t)h);

		if (isnan(want)) {
			CHECK(isnan(got));
			continue;
		}
		CHECK_EQ(ori_bits_of_float(got), ori_bits_of_float(want));
		CHECK_EQ(ori_half_of_float(got), h);
	}
}

/* Floats of all sizes, and the exact middles between two halves. */
TEST(floats_round_to_half_as_the_compiler_does)
{
	for (uint32_t i = 0; i < 400000; i++) {
		uint32_t bits = (uint32_t)model_mix(i);
		float f = ori_float_of_bits(i % 2 ? bits : 0x38000000u - 0x800000u * (i % 16) + i);

		if (!isnan(f))
			CHECK_EQ(ori_half_of_float(f), model_half(f));
	}
	for (uint32_t h = 0; h < 0x7bff; h++) {
		float middle =
			(ori_float_of_half((uint16_t)h) + ori_float_of_half((uint16_t)(h + 1))) / 2;

		CHECK_EQ(ori_half_of_float(middle), h + (h & 1));
		CHECK_EQ(ori_half_of_float(-middle), 0x8000u + h + (h & 1));
	}
	CHECK_EQ(ori_half_of_float(65519.0f), 0x7bff);
	CHECK_EQ(ori_half_of_float(65520.0f), 0x7c00);
	CHECK_EQ(ori_half_of_float(INFINITY), 0x7c00);
	CHECK_EQ(ori_half_of_float(NAN) & 0x7e00, 0x7e00);
}

TEST(floats_round_to_bfloat16)
{
	for (uint32_t i = 0; i < 200000; i++) {
		float f = ori_float_of_bits((uint32_t)model_mix(i) & 0x7effffffu);

		CHECK_EQ(ori_bfloat16_of_float(f), model_bfloat16(f));
	}
	CHECK_EQ(ori_bfloat16_of_float(INFINITY), 0x7f80);
	CHECK_EQ(ori_bfloat16_of_float(-INFINITY), 0xff80);
	/* without its own case this NaN would round to infinity */
	CHECK_EQ(ori_bfloat16_of_float(ori_float_of_bits(0x7f800001u)) & 0x7fc0, 0x7fc0);
}

/* ---- order and special values ---------------------------------------------------------------- */

static void fill(struct bed *b, int nranks, const float *values)
{
	open_bed(b, ORIEL_TYPE_FLOAT, nranks, 1, 0);
	for (int r = 0; r < nranks; r++)
		memcpy(b->data[r], &values[r], 4);
}

TEST(a_sum_goes_by_rank)
{
	const float values[] = { 1e8f, 1.0f, -1e8f, 1.0f };
	struct bed b;
	float got;

	fill(&b, 4, values);
	reduce(&b, (uint8_t *)&got, 1, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM, 1);
	CHECK(got == ((values[0] + values[1]) + values[2]) + values[3]);
	CHECK(got == 1.0f); /* other orders give 2 or 0 */
	close_bed(&b);
}

TEST(a_nan_of_any_rank_is_the_minimum_and_maximum)
{
	for (int bad = 0; bad < 3; bad++)
		for (int op = ORIEL_REDUCE_MIN; op <= ORIEL_REDUCE_MAX; op++) {
			float values[] = { 3.0f, 1.0f, 2.0f }, got;
			struct bed b;

			values[bad] = NAN;
			fill(&b, 3, values);
			reduce(&b, (uint8_t *)&got, 1, ORIEL_TYPE_FLOAT, op, 1);
			CHECK(isnan(got));
			close_bed(&b);
		}
}

TEST(sizes_and_what_is_allowed)
{
	for (int type = -1; type <= MODEL_TYPES + 1; type++) {
		int exists = type >= 1 && type <= MODEL_TYPES;

		CHECK_EQ(oriel_type_bytes(type), exists ? model_bytes(type) : 0);
		for (int op = -1; op <= MODEL_OPS + 1; op++)
			CHECK_EQ(oriel_reduce_is_valid(type, op),
				 exists && op >= 1 && op <= MODEL_OPS && model_is_valid(type, op));
	}
}
