/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/slab.c - comm/slab.c: pieces never overlap, everything given back is whole again. */
#include "../check.h"
#include "comm/comm.h"

#define PAGE ORI_SLAB_ALIGN

TEST(takes_whole_pages_in_order)
{
	struct ori_slab slab;
	uint64_t a, b;

	REQUIRE_OK(ori_slab_init(&slab, 16 * PAGE));
	REQUIRE_OK(ori_slab_take(&slab, 1, &a));
	REQUIRE_OK(ori_slab_take(&slab, PAGE + 1, &b));
	CHECK_EQ(a, 0);
	CHECK_EQ(b, PAGE);
	CHECK_EQ(slab.used, 3 * PAGE);
	ori_slab_destroy(&slab);
}

TEST(merges_what_is_given_back)
{
	/* every order of giving back three neighbours must leave one range */
	static const int orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
					  { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

	for (int k = 0; k < 6; k++) {
		struct ori_slab slab;
		uint64_t at[3], whole;

		REQUIRE_OK(ori_slab_init(&slab, 3 * PAGE));
		for (int i = 0; i < 3; i++)
			REQUIRE_OK(ori_slab_take(&slab, PAGE, &at[i]));
		for (int i = 0; i < 3; i++)
			ori_slab_give(&slab, at[orders[k][i]], PAGE);
		CHECK(slab.free_ranges && !slab.free_ranges->next);
		CHECK_EQ(ori_slab_take(&slab, 3 * PAGE, &whole), 0);
		CHECK_EQ(whole, 0);
		ori_slab_destroy(&slab);
	}
}

TEST(full_and_impossible_sizes_are_refused)
{
	struct ori_slab slab;
	uint64_t at = 77;

	REQUIRE_OK(ori_slab_init(&slab, 2 * PAGE));
	CHECK_EQ(ori_slab_take(&slab, 3 * PAGE, &at), ORIEL_ENOMEM);
	CHECK_HAS(oriel_last_error(), "12288 bytes wanted, 0 of 8192 in use; it has words");
	CHECK_EQ(ori_slab_take(&slab, 0, &at), ORIEL_EINVAL);
	CHECK_EQ(ori_slab_take(&slab, UINT64_MAX, &at), ORIEL_EINVAL);
	CHECK_EQ(at, 77);
	ori_slab_destroy(&slab);
}

/* Random takes and gives, with a map of pages beside it. */
TEST(random_use_never_overlaps)
{
	enum { PAGES = 256, LIVE = 40 };
	uint64_t at[LIVE] = { 0 }, size[LIVE] = { 0 };
	unsigned char owner[PAGES] = { 0 };
	struct ori_slab slab;
	uint32_t seed = 12345;

	REQUIRE_OK(ori_slab_init(&slab, (uint64_t)PAGES * PAGE));
	for (int step = 0; step < 20000; step++) {
		int n;

		seed = seed * 1664525u + 1013904223u;
		n = (int)(seed >> 16) % LIVE;
		if (size[n]) {
			for (uint64_t p = 0; p < size[n]; p++)
				owner[at[n] / PAGE + p] = 0;
			ori_slab_give(&slab, at[n], size[n] * PAGE);
			size[n] = 0;
			continue;
		}
		size[n] = 1 + (seed >> 8) % 9;
		if (ori_slab_take(&slab, size[n] * PAGE, &at[n])) {
			size[n] = 0;
			continue;
		}
		for (uint64_t p = 0; p < size[n]; p++) {
			REQUIRE(at[n] / PAGE + p < PAGES);
			CHECK_EQ(owner[at[n] / PAGE + p], 0);
			owner[at[n] / PAGE + p] = 1;
		}
	}
	for (int n = 0; n < LIVE; n++)
		if (size[n])
			ori_slab_give(&slab, at[n], size[n] * PAGE);
	CHECK_EQ(slab.used, 0);
	CHECK(slab.free_ranges && slab.free_ranges->bytes == (uint64_t)PAGES * PAGE);
	ori_slab_destroy(&slab);
}
