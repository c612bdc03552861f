/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/tune_small.c - tools/tune/small.h: which messages carry their own mark after tuning.
 * The first guess stays unless the other way is clearly faster, and noise must not lose it.
 */
#include "../check.h"
#include "tools/tune/small.h"

static uint32_t choose(uint64_t bytes, int first, double signal_us, double mark_us)
{
	struct tool_size s = { .bytes = bytes, .first_small = first ? (uint32_t)bytes : 0 };

	tool_small_choose(&s, signal_us, mark_us);
	return s.small;
}

TEST(first_guess_stays_unless_clearly_slower)
{
	CHECK_EQ(choose(1024, 1, 10.0, 10.0), 1024);
	CHECK_EQ(choose(1024, 1, 9.8, 10.0), 1024); /* 2 % are noise */
	CHECK_EQ(choose(1024, 1, 9.6, 10.0), 0);
	CHECK_EQ(choose(1024, 0, 10.0, 10.0), 0);
	CHECK_EQ(choose(1024, 0, 10.0, 9.8), 0);
	CHECK_EQ(choose(1024, 0, 10.0, 9.6), 1024);
}

/* Sizes 1 KiB, 4 KiB and 16 KiB; first and tuned: how many of them carry their own mark. */
static uint32_t limit(int first, int tuned, uint32_t guess)
{
	struct tool_size size[3] = { { .bytes = 1024 }, { .bytes = 4096 }, { .bytes = 16384 } };

	for (int i = 0; i < 3; i++) {
		size[i].first_small = i < first ? (uint32_t)size[i].bytes : 0;
		size[i].small = i < tuned ? (uint32_t)size[i].bytes : 0;
	}
	return tool_small_limit(size, 3, guess);
}

TEST(limit_between_sizes)
{
	CHECK_EQ(limit(2, 2, 8192),
		 8192); /* nothing was found: the guess stays, between sizes too */
	CHECK_EQ(limit(0, 0, 512), 512);
	CHECK_EQ(limit(2, 1, 8192), 1024);
	CHECK_EQ(limit(2, 0, 8192), 0);
	CHECK_EQ(limit(1, 2, 1024), 4096);
}

/* A size without its own mark ends the row: larger ones cannot have it. */
TEST(limit_ends_at_the_first_size_without)
{
	struct tool_size size[3] = { { .bytes = 1024, .first_small = 1024 },
				     { .bytes = 4096, .first_small = 4096, .small = 4096 },
				     { .bytes = 16384 } };

	CHECK_EQ(tool_small_limit(size, 3, 8192), 0);
	size[0].small = 1024;
	size[1].small = 0;
	CHECK_EQ(tool_small_limit(size, 3, 8192), 1024);
}
