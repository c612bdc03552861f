/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/spans.c - comm/spans.c: against a plain list, and with many ranges in order. */
#include <stdlib.h>

#include "../check.h"
#include "comm/spans.h"

enum { SPANS = 400, ROUNDS = 4000, MANY = 300000 };

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* How many ranges overlap, in order; every one of them must say so itself. */
static int count_overlapping(struct ori_span *root, uintptr_t begin, uintptr_t end)
{
	struct ori_span *at = NULL, *before = NULL;
	int n = 0;

	while ((at = ori_span_overlapping(root, begin, end, at))) {
		CHECK(at->begin < end && at->end > begin);
		CHECK(!before || before->begin < at->begin ||
		      (before->begin == at->begin && before->name <= at->name));
		before = at;
		n++;
	}
	return n;
}

TEST(random_ranges_are_found_as_in_a_list)
{
	struct ori_span *all = calloc(SPANS, sizeof(*all)), *root = NULL;
	int in[SPANS] = { 0 };
	uint32_t random = 7;

	REQUIRE(all);
	for (int round = 0; round < ROUNDS; round++) {
		int i = (int)(next_random(&random) % SPANS), wanted = 0;
		uintptr_t begin = next_random(&random) % 1000, end;

		if (in[i]) {
			ori_span_remove(&root, &all[i]);
		} else {
			all[i].begin = begin;
			all[i].end = begin + 1 + next_random(&random) % 50;
			all[i].name = next_random(&random) % 3;
			ori_span_add(&root, &all[i]);
		}
		in[i] = !in[i];
		begin = next_random(&random) % 1000;
		end = begin + 1 + next_random(&random) % 100;
		for (int k = 0; k < SPANS; k++)
			wanted += in[k] && all[k].begin < end && all[k].end > begin;
		CHECK_EQ(count_overlapping(root, begin, end), wanted);
	}
	free(all);
}

TEST(one_is_found_by_beginning_and_name)
{
	struct ori_span a = { .begin = 10, .end = 20, .name = 5 };
	struct ori_span b = { .begin = 10, .end = 30, .name = 9 };
	struct ori_span c = { .begin = 11, .end = 12, .name = 1 };
	struct ori_span *root = NULL;

	CHECK(!ori_span_at(root, 10, 0));
	ori_span_add(&root, &b);
	ori_span_add(&root, &c);
	ori_span_add(&root, &a);
	CHECK(ori_span_at(root, 10, 0) == &a);
	CHECK(ori_span_at(root, 10, 5) == &a);
	CHECK(ori_span_at(root, 10, 6) == &b);
	CHECK(!ori_span_at(root, 10, 10));
	CHECK(!ori_span_at(root, 12, 0));
	ori_span_remove(&root, &a);
	CHECK(ori_span_at(root, 10, 0) == &b);
	ori_span_remove(&root, &b);
	ori_span_remove(&root, &c);
	CHECK(!root);
}

/* Addresses that only grow make no deep tree; a list would take minutes. */
TEST(many_in_order_are_quick)
{
	struct ori_span *all = calloc(MANY, sizeof(*all)), *root = NULL;

	REQUIRE(all);
	for (uintptr_t i = 0; i < MANY; i++) {
		all[i].begin = 4096 * i;
		all[i].end = all[i].begin + 4096;
		all[i].name = i;
		ori_span_add(&root, &all[i]);
	}
	for (uintptr_t i = 0; i < MANY; i++)
		CHECK(ori_span_overlapping(root, 4096 * i + 1, 4096 * i + 2, NULL) == &all[i]);
	for (uintptr_t i = 0; i < MANY; i++)
		ori_span_remove(&root, &all[i]);
	CHECK(!root);
	free(all);
}
