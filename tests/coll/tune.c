/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/tune.c - the tuner's pure functions: tables, cap, fit and prediction, plans as text.
 *
 * Nothing is measured here: the fit gets times that a known machine would have taken.
 */
#include <oriel/oriel.h>

#include "../check.h"
#include "coll/tune/tune.h"

#define K 1024ull
#define M (1024ull * 1024)

/* ---- tables ---------------------------------------------------------------------------------- */

struct expected {
	uint64_t bytes; /* last size of the row */
	uint32_t blocks, warps;
	uint64_t chunk;
};

static void check_setting(const struct ori_a2a_setting *s, const struct expected *e, uint64_t bytes)
{
	if (s->blocks != e->blocks || s->warps != e->warps || s->chunk != e->chunk)
		check_fail(__FILE__, __LINE__, "%llu bytes: %u/%u/%llu, expected %u/%u/%llu",
			   (unsigned long long)bytes, s->blocks, s->warps,
			   (unsigned long long)s->chunk, e->blocks, e->warps,
			   (unsigned long long)e->chunk);
}

/* The last size of each row and the first after it; the last row has no end. */
static void check_table(enum ori_tune_preset preset, int kind, const struct expected *e, int n)
{
	struct ori_a2a_plan plan;

	for (int i = 0; i < n; i++) {
		uint64_t first = i ? e[i - 1].bytes + 1 : 0;

		ori_tune_first(preset, first, &plan);
		check_setting(&plan.kind[kind], &e[i], first);
		ori_tune_first(preset, e[i].bytes, &plan);
		check_setting(&plan.kind[kind], &e[i], e[i].bytes);
		CHECK_EQ(plan.small, 0);
	}
}

TEST(mapped_table_is_exact)
{
	static const struct expected e[] = {
		{ 1 * K, 1, 4, 64 * K },    { 4 * K, 1, 8, 64 * K },
		{ 16 * K, 1, 16, 64 * K },  { 128 * K, 4, 16, 64 * K },
		{ 256 * K, 8, 16, 64 * K }, { UINT64_MAX, 16, 16, 64 * K },
	};

	check_table(ORI_PRESET_TABLES, ORI_PLAN_MAPPED, e, 6);
}

TEST(queued_table_is_exact)
{
	static const struct expected e[] = {
		{ 1 * K, 1, 4, 256 * K },       { 4 * K, 1, 16, 128 * K },
		{ 16 * K, 1, 8, 256 * K },      { 64 * K, 1, 4, 64 * K },
		{ 256 * K, 1, 8, 512 * K },     { 512 * K, 1, 4, 512 * K },
		{ 1 * M, 1, 16, 256 * K },      { 4 * M, 4, 16, 512 * K },
		{ UINT64_MAX, 8, 16, 512 * K },
	};

	check_table(ORI_PRESET_TABLES, ORI_PLAN_QUEUED, e, 9);
}

/* Ranges and chunks of the proposal, and never less for more bytes. */
TEST(proposal_keeps_to_its_ranges)
{
	struct ori_a2a_plan plan, last;

	ori_tune_first(ORI_PRESET_PROPOSAL, 0, &last);
	CHECK_EQ(last.kind[ORI_PLAN_MAPPED].blocks, 8);
	CHECK_EQ(last.kind[ORI_PLAN_QUEUED].blocks, 1);
	CHECK_EQ(last.kind[ORI_PLAN_QUEUED].warps, 4);
	for (uint64_t bytes = 1; bytes <= 64 * M; bytes *= 2) {
		const struct ori_a2a_setting *m = &plan.kind[ORI_PLAN_MAPPED];
		const struct ori_a2a_setting *q = &plan.kind[ORI_PLAN_QUEUED];

		ori_tune_first(ORI_PRESET_PROPOSAL, bytes, &plan);
		CHECK(m->blocks >= 8 && m->blocks <= 16 && m->warps >= 16 && m->warps <= 32);
		CHECK(q->blocks >= 1 && q->blocks <= 4 && q->warps >= 4 && q->warps <= 8);
		CHECK_EQ(m->chunk, 64 * K);
		CHECK_EQ(q->chunk, 256 * K);
		for (int k = 0; k < ORI_PLAN_KINDS; k++)
			CHECK(plan.kind[k].blocks >= last.kind[k].blocks &&
			      plan.kind[k].warps >= last.kind[k].warps);
		last = plan;
	}
	CHECK_EQ(last.kind[ORI_PLAN_MAPPED].blocks, 16);
	CHECK_EQ(last.kind[ORI_PLAN_MAPPED].warps, 32);
	CHECK_EQ(last.kind[ORI_PLAN_QUEUED].blocks, 4);
	CHECK_EQ(last.kind[ORI_PLAN_QUEUED].warps, 8);
}

TEST(cpu_has_one_block_a_peer)
{
	struct ori_a2a_plan plan;

	for (uint64_t bytes = 1; bytes <= 64 * M; bytes *= 4) {
		ori_tune_first(ORI_PRESET_CPU, bytes, &plan);
		for (int k = 0; k < ORI_PLAN_KINDS; k++) {
			CHECK_EQ(plan.kind[k].blocks, 1);
			CHECK_EQ(plan.kind[k].warps, 1);
			CHECK_EQ(plan.kind[k].chunk % 16, 0);
		}
	}
}

TEST(cap_leaves_all_grids_resident)
{
	struct ori_a2a_plan plan;

	for (uint64_t resident = 0; resident <= 256; resident++) {
		ori_tune_first(ORI_PRESET_TABLES, 16 * M, &plan);
		CHECK_EQ(ori_tune_cap(&plan, 8, resident), resident < 16 * 8);
		for (int k = 0; k < ORI_PLAN_KINDS; k++) {
			CHECK(plan.kind[k].blocks >= 1);
			CHECK(plan.kind[k].blocks * 8 <= resident || plan.kind[k].blocks == 1);
		}
	}
	CHECK_EQ(plan.kind[ORI_PLAN_MAPPED].blocks, 16);
	CHECK_EQ(plan.kind[ORI_PLAN_QUEUED].blocks, 8);
	(void)ori_tune_cap(&plan, 8, 100);
	CHECK_EQ(plan.kind[ORI_PLAN_MAPPED].blocks, 12);
	CHECK_EQ(plan.kind[ORI_PLAN_QUEUED].blocks, 8);
}

/* The limits that collectives of a team had before they were in the table. */
TEST(first_limits_of_a_team)
{
	struct ori_tune_ways w;

	for (int n = 1; n <= 256; n++) {
		ori_tune_first_ways(n % 2, n, &w);
		CHECK_EQ(w.cells, n % 2 ? ORI_TUNE_CELLS_MAX : 0);
		CHECK_EQ(w.once, n > 2 ? 65536 / (n - 1) : 65536);
		CHECK_EQ(w.host_once, n > 2 ? 65536 / (n - 1) : 16384);
		CHECK_EQ(w.long_from, 131072);
	}
}

/* ---- model ----------------------------------------------------------------------------------- */

static const struct ori_tune_model machine = { 5, 2000, 300, 0 };

/* What the machine would take, times 1 +- noise in a fixed pattern. */
static size_t make_points(struct ori_tune_point *p, double noise)
{
	static const double blocks[] = { 1, 2, 4, 8, 16 };
	size_t n = 0;

	for (double bytes = 1024; bytes <= 16e6; bytes *= 4)
		for (int b = 0; b < 5; b++, n++) {
			p[n].bytes = bytes;
			p[n].blocks = blocks[b];
			p[n].us = ori_tune_predict(&machine, bytes, blocks[b]) *
				  (1 + noise * (n % 2 ? 1 : -1));
		}
	return n;
}

static int near(double have, double want, double share)
{
	return have >= want * (1 - share) && have <= want * (1 + share);
}

TEST(fit_finds_the_machine)
{
	struct ori_tune_point p[64];
	struct ori_tune_model m;

	REQUIRE_OK(ori_tune_fit(p, make_points(p, 0), &m));
	CHECK(near(m.latency_us, 5, 0.001));
	CHECK(near(m.rate, 2000, 0.001));
	CHECK(near(m.block_rate, 300, 0.001));
	CHECK(m.error < 0.001);
}

TEST(fit_reports_its_error)
{
	struct ori_tune_point p[64];
	struct ori_tune_model m;

	REQUIRE_OK(ori_tune_fit(p, make_points(p, 0.1), &m));
	CHECK(m.error > 0.05 && m.error < 0.2);
	CHECK(near(m.latency_us, 5, 0.3));
	CHECK(near(m.rate, 2000, 0.3));
	CHECK(near(m.block_rate, 300, 0.3));
}

/*
 * Times that do not grow with the bytes: no latency can explain them, and nothing is divided by 0.
 */
TEST(fit_of_noise_alone)
{
	struct ori_tune_point p[] = { { 1000, 1, 50 }, { 1e6, 1, 10 }, { 2e6, 1, 9 } };
	struct ori_tune_model m;

	REQUIRE_OK(ori_tune_fit(p, 3, &m));
	CHECK(m.latency_us >= 0 && m.rate > 0 && m.block_rate > 0);
	CHECK(ori_tune_predict(&m, 1e6, 1) > 0);
}

TEST(fit_refuses_what_says_nothing)
{
	struct ori_tune_point one[] = { { 1000, 1, 5 }, { 1000, 2, 4 } };
	struct ori_tune_point zero[] = { { 1000, 1, 0 }, { 2000, 1, 4 } };
	struct ori_tune_model m = { 1, 2, 3, 4 };

	CHECK_EQ(ori_tune_fit(one, 2, &m), ORIEL_EINVAL);
	CHECK_HAS(oriel_last_error(), "one size");
	CHECK_EQ(ori_tune_fit(zero, 2, &m), ORIEL_EINVAL);
	CHECK_EQ(ori_tune_fit(one, 0, &m), ORIEL_EINVAL);
	CHECK(m.latency_us == 1 && m.error == 4);
}

TEST(kinds_together)
{
	CHECK(ori_tune_predict_both(10, 4, 1) == 10);
	CHECK(ori_tune_predict_both(10, 4, 0) == 14);
	CHECK(ori_tune_predict_both(4, 10, 0.5) == 12);
	CHECK(ori_tune_overlap(10, 4, 12) == 0.5);
	CHECK(ori_tune_overlap(4, 10, 12) == 0.5);
	CHECK(ori_tune_overlap(10, 4, 5) == 1);  /* faster than one alone: noise */
	CHECK(ori_tune_overlap(10, 4, 99) == 0); /* slower than one after the other */
	CHECK(ori_tune_overlap(10, 0, 10) == 0);
}

/* ---- text ------------------------------------------------------------------------------------ */

TEST(plan_texts)
{
	struct ori_a2a_plan plan = { .small = 7 }, back;
	uint32_t named = 0;
	char text[160];

	REQUIRE_OK(ori_plan_parse("queued=2/4/256K", &plan, &named));
	CHECK_EQ(named, 1u << ORI_PLAN_QUEUED);
	CHECK_EQ(plan.small, 7);
	CHECK_EQ(plan.kind[ORI_PLAN_QUEUED].blocks, 2);
	CHECK_EQ(plan.kind[ORI_PLAN_QUEUED].warps, 4);
	CHECK_EQ(plan.kind[ORI_PLAN_QUEUED].chunk, 256 * K);
	REQUIRE_OK(ori_plan_parse("small=1K,mapped=64/32/1G,queued=1/1/16", &plan, &named));
	CHECK_EQ(named, 7);
	CHECK_EQ(plan.small, 1024);
	ori_plan_text(&plan, text, sizeof(text));
	CHECK(!strcmp(text, "mapped=64/32/1G,queued=1/1/16,small=1K"));
	memset(&back, 0, sizeof(back));
	REQUIRE_OK(ori_plan_parse(text, &back, &named));
	CHECK(!memcmp(&back, &plan, sizeof(plan)));
	plan.uniform = 1;
	ori_plan_text(&plan, text, sizeof(text));
	CHECK(!strcmp(text, "mapped=64/32/1G,small=1K"));
	REQUIRE_OK(ori_plan_parse("spread=128K", &plan, &named));
	CHECK_EQ(named, ORI_PLAN_HAS_SPREAD);
	CHECK_EQ(plan.spread, 128 * K);
	ori_plan_text(&plan, text, sizeof(text));
	CHECK(!strcmp(text, "mapped=64/32/1G,small=1K,spread=128K"));
}

TEST(bad_plan_texts)
{
	static const char *const bad[] = {
		"mapped",
		"mapped=",
		"mapped=1/1",
		"mapped=1/1/",
		"mapped=0/1/64K",
		"mapped=65/1/64K",
		"mapped=1/33/64K",
		"mapped=1/0/64K",
		"mapped=1/1/8",
		"mapped=1/1/17",
		"mapped=1/1/2G",
		"mapped=1/1/64KK",
		"mapped=1/1/64k",
		"mapped=1/1/64K,",
		",mapped=1/1/64K",
		"mapped=-1/1/64K",
		"small=",
		"small=2M",
		"spread=",
		"spread=-1",
		"spread=64k",
		"spread=128K/2",
		"table",
		"mapped=1/1/64K queued=1/1/64K",
		"mapped=1/1/99999999999999999999999K",
		"queued=1//64K",
		"Mapped=1/1/64K",
	};
	struct ori_a2a_plan plan = { .small = 9 };
	uint32_t named = 5;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int err = ori_plan_parse(bad[i], &plan, &named);

		if (err != ORIEL_ECONFIG)
			check_fail(__FILE__, __LINE__, "\"%s\" gave %d", bad[i], err);
	}
	CHECK_HAS(oriel_last_error(), "ORIEL_A2A_PLAN");
	CHECK_EQ(plan.small, 9);
	CHECK_EQ(named, 5);
}
