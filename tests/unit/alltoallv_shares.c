/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/alltoallv_shares.c - kernels/alltoallv_shares.h: shares of blocks that follow
 * the sizes.  The items of a launch are exactly the shares of all messages, and no share is too
 * large.
 */
#include <string.h>

#include "../check.h"
#include "kernels/alltoallv_items.h"

enum { RANKS = 16, BLOCKS = 64, ROUNDS = 3000 };

struct bed {
	struct oriel_window_peer peers[RANKS];
	struct oriel_window_dev win;
	uint64_t sizes[RANKS], offsets[RANKS], words[2];
	struct ori_a2a_args args;
};

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 20;
}

/* Where the windows of the peers are; nobody looks in there. */
static uint8_t memory[RANKS];

/* As coll/alltoallv/exec.c sets the grid, with room for `more` items beyond one per block. */
static void open_bed(struct bed *b, int nranks, int rank, uint32_t blocks, uint32_t more)
{
	struct ori_a2a_args *a = &b->args;
	uint32_t n = (uint32_t)nranks, most;

	memset(b, 0, sizeof(*b));
	b->win.peers = b->peers;
	a->win = &b->win;
	a->comm.rank = rank;
	a->comm.nranks = nranks;
	a->comm.failure = &b->words[0];
	a->failure = &b->words[1];
	a->send_sizes = b->sizes;
	a->elem_bytes = 4;
	a->most_elems = a->send_elems = 1ull << 40;
	a->most_blocks = a->blocks[0] = a->blocks[1] = blocks;
	a->items = n * blocks + more;
	most = a->items - n + 1;
	a->shares = n * blocks < most ? n * blocks : most;
	for (int r = 0; r < nranks; r++) {
		b->peers[r].buffer = memory + r;
		if (r < ORI_A2A_INLINE_PEERS)
			a->peers[r] = b->peers[r].buffer;
	}
}

/* Sizes of many kinds: even, one large, empty ones, all of 1, beyond what a float holds exactly. */
static void fill_sizes(struct bed *b, uint64_t *random)
{
	uint64_t kind = next_random(random) % 6, one = next_random(random) % (1u << 20);

	for (int r = 0; r < b->args.comm.nranks; r++) {
		uint64_t x = next_random(random);

		b->sizes[r] = kind == 0 ? one :
			      kind == 1 ? x % (1u << 20) :
			      kind == 2 ? (x % 3 ? 0 : x % (1u << 24)) :
			      kind == 3 ? x % 2 :
			      kind == 4 ? (r == 0 ? 1ull << 35 : x % 100) :
					  (1ull << 33) + 1 + x % 2 + ((x >> 8) % 8 << 31);
	}
}

static int any_differs(const struct bed *b)
{
	int differs = 0;

	for (int r = 0; r < b->args.comm.nranks; r++)
		differs |= ori_a2a_differs(b->sizes[r], b->sizes[0]);
	return differs;
}

/* What shares.h says of a message that is one of several. */
static uint32_t expected_blocks(const struct bed *b, float each, int peer)
{
	return any_differs(b) ? ori_a2a_blocks_for(each, b->sizes[peer]) : b->args.most_blocks;
}

static uint32_t expected_shares(const struct bed *b, uint64_t total, float *each)
{
	float one = total ? ori_a2a_share_of_one(total) : 0;
	uint32_t shares = ori_a2a_divide(&b->args, 1, 0, one);

	*each = ori_a2a_each(shares, one);
	return shares;
}

static void check_item(const struct bed *b, const struct ori_a2a_item *it, float each)
{
	uint64_t before = 0;

	for (int r = 0; r < it->peer; r++)
		before += b->sizes[r];
	if (b->args.send_offsets)
		before = b->offsets[it->peer];
	CHECK_EQ(it->blocks, expected_blocks(b, each, it->peer));
	CHECK_EQ(it->count, b->sizes[it->peer]);
	CHECK_EQ(it->bytes, 4 * it->count);
	CHECK_EQ(it->src_off, 4 * before);
	CHECK(it->window == b->peers[it->peer].buffer);
	REQUIRE(it->index < it->blocks && it->blocks <= b->args.items);
}

/* A block finds its items three times, as a call does: those after the first one by their sums. */
static void check_items(struct bed *b, uint32_t nblocks)
{
	static uint32_t seen[RANKS][RANKS * BLOCKS + RANKS];
	struct oriel_group g = oriel_group_thread();
	const struct ori_a2a_args *a = &b->args;
	uint64_t total = ori_a2a_total(a, 1, 0), largest = 0;
	struct ori_a2a_item it, fresh;
	uint32_t shares;
	float each;

	memset(seen, 0, sizeof(seen));
	shares = expected_shares(b, total, &each);
	REQUIRE(shares >= a->shares && shares <= a->items);
	for (uint32_t block = 0; block < nblocks; block++) {
		it.sums.peer = -1;
		for (int phase = 0; phase < 3; phase++)
			for (uint32_t n = block; n < a->items; n += nblocks) {
				if (!ori_a2a_find(a, g, ORI_A2A_SHARES, n, &it))
					continue;
				check_item(b, &it, each);
				fresh.sums.peer = -1; /* as a GPU finds it */
				REQUIRE(ori_a2a_find(a, g, ORI_A2A_SHARES, n, &fresh));
				check_item(b, &fresh, each);
				CHECK_EQ(it.staged_off, fresh.staged_off);
				seen[it.peer][it.index] += phase == 0;
			}
	}
	for (int r = 0; r < a->comm.nranks; r++) {
		uint32_t blocks = expected_blocks(b, each, r);
		uint64_t share = (b->sizes[r] + blocks - 1) / blocks;

		for (uint32_t i = 0; i < blocks; i++)
			CHECK_EQ(seen[r][i], 1);
		largest = share > largest ? share : largest;
	}
	/* a little more than 1 / shares: blocks_for() rounds down */
	if (any_differs(b))
		CHECK(largest <= total / shares + total / shares / 1000 + 1);
}

TEST(every_share_has_one_item)
{
	uint64_t random = 5;
	int divided = 0;
	struct bed b;

	for (int i = 0; i < ROUNDS && !check_failures; i++) {
		int nranks = 1 + (int)(next_random(&random) % RANKS);
		uint32_t blocks = 1 + (uint32_t)(next_random(&random) % (i % 2 ? BLOCKS : 4));

		open_bed(&b, nranks, (int)(next_random(&random) % (uint64_t)nranks), blocks,
			 (uint32_t)(next_random(&random) % ((uint64_t)nranks + 1)));
		fill_sizes(&b, &random);
		for (int r = 0; r < nranks; r++)
			b.offsets[r] = 1 + next_random(&random) % (1u << 20);
		b.args.send_offsets = i % 3 ? NULL : b.offsets;
		check_items(&b, 1 + (uint32_t)(next_random(&random) % b.args.items));
		divided += any_differs(&b);
	}
	CHECK(divided > ROUNDS / 2);
}

/* Sizes that are all the same move nothing: each peer keeps its own blocks. */
TEST(even_sizes_stay_where_they_are)
{
	struct ori_a2a_item it;
	struct bed b;

	for (int nranks = 1; nranks <= RANKS; nranks++) {
		open_bed(&b, nranks, nranks / 2, 4, (uint32_t)nranks);
		for (int r = 0; r < nranks; r++)
			b.sizes[r] = 1000003;
		for (uint32_t n = 0; n < 4 * (uint32_t)nranks; n++) {
			it.sums.peer = -1;
			REQUIRE(ori_a2a_find(&b.args, oriel_group_thread(), ORI_A2A_SHARES, n,
					     &it));
			CHECK_EQ(it.peer, (nranks / 2 + (int)n / 4) % nranks);
			CHECK_EQ(it.index, n % 4);
			CHECK_EQ(it.blocks, 4);
		}
	}
}

/* The largest share of rank 3 of 8, which has 14 blocks. */
static uint64_t largest_share(const uint64_t sizes[8])
{
	uint64_t largest = 0, slice, begin;
	struct ori_a2a_item it;
	struct bed b;

	it.sums.peer = -1;
	open_bed(&b, 8, 3, 1, 6);
	b.args.elem_bytes = 16;
	memcpy(b.sizes, sizes, 8 * sizeof(sizes[0]));
	for (uint32_t n = 0; n < b.args.items; n++)
		if (ori_a2a_find(&b.args, oriel_group_thread(), ORI_A2A_SHARES, n, &it)) {
			slice = ori_a2a_slice(&it, &begin) / 16;
			largest = slice > largest ? slice : largest;
		}
	return largest;
}

/* Blocks that the plan has beside one for each peer help the messages that are large. */
TEST(large_messages_get_all_blocks_that_are_left)
{
	uint64_t half[8] = { 7000, 1000, 1000, 1000, 1000, 1000, 1000, 1000 };
	uint64_t two[8] = { 4000, 4000, 10, 10, 10, 10, 10, 10 };
	uint64_t steps[8] = { 100, 200, 300, 400, 500, 600, 700, 800 };

	CHECK_EQ(largest_share(half), 1000);
	CHECK(largest_share(two) <= 1000);
	CHECK(largest_share(steps) <= 360); /* 1 / 10 of all */
}

/* Sizes that are refused: every message keeps its blocks, without data, and no item is moved. */
TEST(refused_sizes_keep_the_plan)
{
	struct ori_a2a_item it;
	struct bed b;

	it.sums.peer = -1;
	open_bed(&b, 8, 3, 2, 5);
	for (int r = 0; r < 8; r++)
		b.sizes[r] = 1000 * (uint64_t)r;
	b.sizes[6] = b.args.most_elems + 1;
	for (uint32_t n = 0; n < b.args.items; n++) {
		int found = ori_a2a_find(&b.args, oriel_group_thread(), ORI_A2A_SHARES, n, &it);

		CHECK_EQ(found, n < 16);
		CHECK(it.refused);
		CHECK_EQ(it.count, 0);
		if (found)
			CHECK(it.peer == (3 + (int)n / 2) % 8 && it.index == n % 2 &&
			      it.blocks == 2);
	}
}

/* Items of rank 3 of 8, whose peer 5 gets `size` and the others 1000, and the blocks of peer 5. */
static int count_items(uint64_t size, uint32_t *blocks)
{
	struct ori_a2a_item it;
	int found = 0;
	struct bed b;

	it.sums.peer = -1;
	open_bed(&b, 8, 3, 1, 8);
	for (int r = 0; r < 8; r++)
		b.sizes[r] = r == 5 ? size : 1000;
	for (uint32_t n = 0; n < b.args.items; n++)
		if (ori_a2a_find(&b.args, oriel_group_thread(), ORI_A2A_SHARES, n, &it)) {
			*blocks = it.peer == 5 ? it.blocks : *blocks;
			found++;
		}
	return found;
}

/*
 * Up to a sixteenth away from the first size nothing is divided.  Up to an eighth, a message gets
 * at most one block more than the plan has for it.
 */
TEST(sizes_that_differ_a_little_keep_the_plan)
{
	uint32_t blocks = 0;

	CHECK_EQ(count_items(1062, &blocks), 8);
	CHECK_EQ(blocks, 1);
	CHECK_EQ(count_items(938, &blocks), 8);
	CHECK_EQ(blocks, 1);
	CHECK_EQ(count_items(1063, &blocks), 9);
	CHECK_EQ(blocks, 2);
	CHECK_EQ(count_items(1125, &blocks), 9);
	CHECK_EQ(blocks, 2);
	CHECK_EQ(count_items(937, &blocks), 15); /* all others are above the mean */
	CHECK_EQ(blocks, 1);
	(void)count_items(3000, &blocks);
	CHECK(blocks > 2);
}
