/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/topology_layout.c - texts of emulated topologies: which are accepted, which are
 * refused, and with which message.
 */
#include "topology_cases.h"

static void check_layout(const char *text, int n, const int *want)
{
	int node[8] = { -9, -9, -9, -9, -9, -9, -9, -9 };

	REQUIRE(n <= 8);
	REQUIRE_OK(ori_layout_parse(text, n, node));
	for (int r = 0; r < n; r++) {
		CHECK_EQ(node[r], want[r]);
		CHECK_EQ(ori_layout_node(text, r), want[r]);
	}
	if (n < 8)
		CHECK_EQ(node[n], -9); /* nothing behind the last rank is touched */
}

static void check_refused(const char *text, int n, const char *why)
{
	int node[9];

	REQUIRE(n <= 8);
	node[n] = -9;
	CHECK_EQ(ori_layout_parse(text, n, node), ORIEL_ECONFIG);
	CHECK_EQ(node[n], -9); /* a list that is too long does not run over the end */
	CHECK_HAS(oriel_last_error(), "ORIEL_TOPOLOGY");
	CHECK_HAS(oriel_last_error(), text);
	CHECK_HAS(oriel_last_error(), why);
}

TEST(grids)
{
	check_layout("2x4", 8, (const int[]){ 0, 0, 0, 0, 1, 1, 1, 1 });
	check_layout("4x2", 8, (const int[]){ 0, 0, 1, 1, 2, 2, 3, 3 });
	check_layout("1x3", 3, (const int[]){ 0, 0, 0 });
	check_layout("3x1", 3, (const int[]){ 0, 1, 2 });
	check_layout("1x1", 1, (const int[]){ 0 });
	check_layout("02x01", 2, (const int[]){ 0, 1 });
}

TEST(lists)
{
	check_layout("0,0,1,1", 4, (const int[]){ 0, 0, 1, 1 });
	check_layout("0", 1, (const int[]){ 0 });
	check_layout("2147483647,0", 2, (const int[]){ INT32_MAX, 0 });
	check_layout("010,10", 2, (const int[]){ 10, 10 }); /* decimal, never octal */
}

TEST(grids_that_do_not_fit)
{
	check_refused("2x4", 7, "2 nodes of 4 ranks are 8 ranks, but there are 7");
	check_refused("3x3", 8, "9 ranks");
	/* in 32 bits the first product would be 8 */
	check_refused("8x536870913", 8, "4294967304 ranks");
	check_refused("2147483647x2", 8, "4294967294 ranks");
}

TEST(grids_that_are_none)
{
	check_refused("0x4", 4, "at least 1");
	check_refused("4x0", 4, "at least 1");
	check_refused("x4", 4, "not a number");
	check_refused("4x", 4, "empty");
	check_refused("x", 4, "not a number");
	check_refused("-2x-2", 4, "negative");
	check_refused("-1", 1, "negative");
	check_refused("5,-1,5", 3, "negative");
	check_refused("0,-", 2, "not a number");
	check_refused("2x-2", 4, "negative");
	check_refused("2x2x1", 4, "after RxC");
	check_refused("2x2 ", 4, "after RxC");
	check_refused(" 2x2", 4, "not a number");
	check_refused("+2x2", 4, "not a number");
	check_refused("2 x2", 4, "before the x");
	check_refused("2,x2", 4, "before the x");
	check_refused("2x2,0", 4, "after RxC");
	check_refused("99999999999x1", 4, "too large");
	check_refused("1x99999999999999999999999", 4, "too large");
	check_refused("0x10", 4, "at least 1"); /* a grid of no nodes, not a hexadecimal 16 */
}

TEST(lists_that_are_none)
{
	check_refused("", 4, "empty");
	check_refused("0,0,1", 4, "3 node ids, but there are 4 ranks");
	check_refused("0,0,1,1,1", 4, "5 node ids, but there are 4 ranks");
	check_refused("0,0,,1", 4, "an element is empty");
	check_refused("0,0,1,", 4, "an element is empty");
	check_refused(",0,0,1", 4, "an element is empty");
	check_refused(",", 4, "an element is empty");
	check_refused("a,b,c,d", 4, "not a number");
	check_refused("0,0,1,-", 4, "not a number");
	check_refused("0,0,1,1.5", 4, "comma");
	check_refused("0, 0,1,1", 4, "not a number");
	check_refused("0;0;1;1", 4, "comma");
	check_refused("0,0,1,2147483648", 4, "too large");
	check_refused("0,0,1,-2147483649", 4, "negative");
	check_refused("99999999999999999999", 1, "too large");
	check_refused("flat", 4, "want RxC");
}

TEST(arguments)
{
	int node[1];

	CHECK_EQ(ori_layout_parse(NULL, 1, node), ORIEL_EINVAL);
	CHECK_EQ(ori_layout_parse("1x1", 0, node), ORIEL_EINVAL);
	CHECK_EQ(ori_layout_parse("1x1", 1, NULL), ORIEL_EINVAL);
}
