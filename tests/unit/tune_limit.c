/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/tune_limit.c - tools/tune/limit.h: where one way of a collective ends after tuning.
 * The first guess stays unless the other way is clearly faster.
 */
#include "../check.h"
#include "tools/tune/limit.h"

/* Sizes 1 KiB to 8 KiB; times of the way below the limit, each beside 10 us above it. */
static struct tool_limit make(uint64_t guess, const double below[4])
{
	struct tool_limit l = { .guess = guess, .least = 512, .n = 4 };

	for (int i = 0; i < 4; i++)
		l.step[i] = (struct tool_step){ .bytes = 1024ull << i,
						.below = { .us = below[i] },
						.above = { .us = 10 } };
	return l;
}

static uint64_t choose(uint64_t guess, double a, double b, double c, double d)
{
	const double below[] = { a, b, c, d };
	struct tool_limit l = make(guess, below);

	return tool_limit_choose(&l);
}

TEST(the_guess_stays)
{
	/* also between sizes, and if it is worse by less than 3 % */
	CHECK_EQ(choose(3000, 5, 5, 20, 20), 3000);
	CHECK_EQ(choose(3000, 10.2, 10.2, 9.8, 9.8), 3000);
	CHECK_EQ(choose(0, 9.8, 20, 20, 20), 0);
	CHECK_EQ(choose(1 << 20, 5, 5, 5, 10.2), 1 << 20);
}

TEST(a_limit_moves_to_a_size_that_was_measured)
{
	CHECK_EQ(choose(3000, 5, 5, 9.6, 20), 4096);
	CHECK_EQ(choose(3000, 5, 11, 20, 20), 1024);
	CHECK_EQ(choose(0, 5, 5, 5, 5), 8192);
	CHECK_EQ(choose(0, 9.6, 10, 10, 10), 1024);
}

/* Even the smallest size is faster the other way. */
TEST(the_least_limit)
{
	CHECK_EQ(choose(3000, 11, 11, 20, 20), 512);
}

/* A size that is slow by chance does not end the row, and does not make it longer. */
TEST(one_size_moves_little)
{
	CHECK_EQ(choose(8192, 5, 20, 5, 5), 8192);
	CHECK_EQ(choose(8192, 13, 9, 9.9, 9), 8192);
	CHECK_EQ(choose(1024, 5, 11, 5, 5), 8192);
	CHECK_EQ(choose(1024, 5, 20, 20, 5), 1024);
}

TEST(which_sizes_are_measured_again)
{
	const double below[] = { 5, 11, 10.2, 9.6 };
	struct tool_limit l = make(3000, below);

	CHECK_EQ(tool_step_is_guessed(&l, &l.step[0]), 1);
	CHECK_EQ(tool_step_is_guessed(&l, &l.step[1]), 0);
	CHECK_EQ(tool_step_is_guessed(&l, &l.step[2]), 1);
	CHECK_EQ(tool_step_is_guessed(&l, &l.step[3]), 0);
}
