/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/alltoallv_shares.h - shares of an all-to-all-v that follow the sizes: how many blocks
 * each message gets, and which share an item takes whose own peer has fewer blocks.
 *
 * Every block of a rank computes this for itself, from the same sizes, and comes to the same
 * result.  The lanes of a warp share the peers; a CPU has one lane.  Other ranks need not know it:
 * the shares of a message add up at its receiver.
 *
 * Included by: alltoallv_items.h.  Runs on whole warps.
 */
#ifndef ORI_KERNELS_ALLTOALLV_SHARES_H
#define ORI_KERNELS_ALLTOALLV_SHARES_H

#include <oriel/device.h>

#include "alltoallv.h"

/* Numbers of shares that are tried. */
#define ORI_A2A_TRIES 4

/* The i-th peer.  A rank starts with itself, so that ranks do not all begin with the same one. */
ORIEL_DEV int32_t ori_a2a_peer(const struct ori_a2a_args *a, uint32_t i)
{
	int32_t peer = a->comm.rank + (int32_t)i;

	return peer < a->comm.nranks ? peer : peer - a->comm.nranks;
}

/*
 * Does a size differ from the first one by more than a sixteenth?  If none does, every message has
 * the blocks of the plan, and nothing needs to be divided: no message is more than 17 / 15 of the
 * mean.
 */
ORIEL_DEV int ori_a2a_differs(uint64_t count, uint64_t first)
{
	return count > first + first / 16 || count < first - first / 16;
}

/*
 * Blocks for a message of `count` elements.  each: shares per element, from ori_a2a_each().  No
 * share is larger than 1 / shares of all, and all messages together have less than shares + nranks
 * blocks.
 */
ORIEL_DEV uint32_t ori_a2a_blocks_for(float each, uint64_t count)
{
	return 1 + (uint32_t)((float)count * each);
}

ORIEL_DEV float ori_a2a_each(uint32_t shares, float share_of_one)
{
	return (float)shares * share_of_one;
}

/*
 * 1 / total.  A little less, so that rounding never adds a block.  Not all sizes are 0, because
 * they differ.
 */
ORIEL_DEV float ori_a2a_share_of_one(uint64_t total)
{
	return (1.0f - 1.0f / (1 << 18)) / (float)total;
}

ORIEL_DEV uint64_t ori_a2a_total(const struct ori_a2a_args *a, uint32_t lanes, uint32_t lane)
{
	uint32_t nranks = (uint32_t)a->comm.nranks, i;
	uint64_t total = 0;
	int any;

	ORI_ROLLED
	for (i = lane; i < nranks; i += lanes)
		total += a->send_sizes[i];
	return ori_lanes_sum(lanes, total, 0, &any);
}

/*
 * The number of shares.  a->shares never needs more blocks than there are items.  Whether a larger
 * number needs more depends on the sizes: the more they differ, the fewer blocks are lost to
 * rounding.  So some are tried, and the largest that fits is taken.  If no message is an eighth
 * larger than its blocks of the plan should have, a->shares stays, and with it nearly all of the
 * plan.
 */
ORIEL_DEV uint32_t ori_a2a_divide(const struct ori_a2a_args *a, uint32_t lanes, uint32_t lane,
				  float share_of_one)
{
	uint32_t nranks = (uint32_t)a->comm.nranks, step = nranks / ORI_A2A_TRIES, i, t;
	uint32_t shares[ORI_A2A_TRIES], need[ORI_A2A_TRIES] = { 0 }, best = a->shares;
	float each = ori_a2a_each(a->shares, share_of_one);
	int uneven = 0;

	step = step ? step : 1;
	for (t = 0; t < ORI_A2A_TRIES; t++)
		shares[t] = a->items > a->shares + t * step ? a->items - t * step : a->shares;
	ORI_ROLLED
	for (i = lane; i < nranks; i += lanes) {
		uint64_t count = a->send_sizes[i];

		uneven |= ori_a2a_blocks_for(each, count - count / 8) > a->most_blocks;
		for (t = 0; t < ORI_A2A_TRIES; t++)
			need[t] += ori_a2a_blocks_for(ori_a2a_each(shares[t], share_of_one), count);
	}
	for (t = 0; t < ORI_A2A_TRIES; t++)
		need[t] = ori_lanes_sum32(lanes, need[t]);
	for (t = ORI_A2A_TRIES; t-- > 0;)
		best = need[t] <= a->items ? shares[t] : best;
	return ori_lanes_any(lanes, uneven) ? best : a->shares;
}

/* Called by all 32 lanes of a warp, or by one thread: the sum of `have` of the lanes before. */
ORIEL_DEV uint32_t ori_lanes_before(uint32_t lanes, uint32_t lane, uint32_t have)
{
#if ORIEL_ON_GPU
	if (lanes > 1) {
		uint32_t sum = have, step;

		for (step = 1; step < lanes; step *= 2) {
			uint32_t lower = __shfl_up_sync(ori_warp_mask(lanes), sum, step);

			sum += lane >= step ? lower : 0;
		}
		return sum - have;
	}
#endif
	(void)lanes;
	(void)lane;
	(void)have;
	return 0;
}

/* Called as ori_lanes_before(): the word of the lane that has `found` it; 0 if none has. */
ORIEL_DEV uint64_t ori_lanes_found(uint32_t lanes, int found, uint64_t word)
{
#if ORIEL_ON_GPU
	if (lanes > 1) {
		uint32_t mask = ori_warp_mask(lanes), who = __ballot_sync(mask, found);

		return who ? __shfl_sync(mask, word, __ffs((int)who) - 1) : 0;
	}
#endif
	(void)lanes;
	return found ? word : 0;
}

/*
 * A share of a message in one word: the peer above 32 bits, which of its blocks above 16, and how
 * many blocks it has (fewer than 1 << 16, see ORI_A2A_CAME_SHIFT).  0: no share.
 */
ORIEL_DEV uint64_t ori_a2a_share_word(int32_t peer, uint32_t index, uint32_t blocks)
{
	return (uint64_t)(uint32_t)peer << 32 | index << 16 | blocks;
}

/*
 * Item n is not needed where it was: its peer has only `blocks`.  Such items, in their order, take
 * the shares of peers that have more blocks than most_blocks.
 */
ORIEL_DEV uint64_t ori_a2a_move(const struct ori_a2a_args *a, uint32_t lanes, uint32_t lane,
				uint32_t n, uint32_t blocks, float each)
{
	uint32_t nranks = (uint32_t)a->comm.nranks, most = a->most_blocks, place = 0, i, first;
	uint32_t at = n / most; /* the item's peer; further ones are free from the start */
	uint32_t more, before, all;
	uint64_t word;
	int32_t peer;

	ORI_ROLLED
	for (i = lane; i < nranks && i < at; i += lanes) {
		uint32_t has = ori_a2a_blocks_for(each, a->send_sizes[ori_a2a_peer(a, i)]);

		place += has < most ? most - has : 0;
	}
	place = ori_lanes_sum32(lanes, place) +
		(at < nranks ? n % most - blocks : n - nranks * most);
	ORI_ROLLED
	for (first = 0; first < nranks; first += lanes) {
		i = first + lane;
		peer = ori_a2a_peer(a, i < nranks ? i : 0);
		blocks = i < nranks ? ori_a2a_blocks_for(each, a->send_sizes[peer]) : 0;
		more = blocks > most ? blocks - most : 0;
		before = ori_lanes_before(lanes, lane, more);
		all = ori_lanes_sum32(lanes, more);
		word = ori_a2a_share_word(peer, most + place - before, blocks);
		word = ori_lanes_found(lanes, place >= before && place - before < more, word);
		if (word)
			return word;
		place -= all;
	}
	return 0;
}

/*
 * The share that item n takes if the blocks follow the sizes.  Called by whole warps.  Not inlined:
 * most calls need no division, and its code between their steps made them slower.
 */
ORIEL_DEV_OUT uint64_t ori_a2a_share(const struct ori_a2a_args *a, uint32_t thread, uint32_t n)
{
	uint32_t lanes = ORIEL_ON_GPU ? 32u : 1u, lane = thread % lanes, blocks = 0;
	float share_of_one = ori_a2a_share_of_one(ori_a2a_total(a, lanes, lane));
	float each = ori_a2a_each(ori_a2a_divide(a, lanes, lane, share_of_one), share_of_one);
	uint32_t at = n / a->most_blocks, index = n % a->most_blocks;
	int32_t peer;

	if (at < (uint32_t)a->comm.nranks) {
		peer = ori_a2a_peer(a, at);
		blocks = ori_a2a_blocks_for(each, a->send_sizes[peer]);
		if (index < blocks)
			return ori_a2a_share_word(peer, index, blocks);
	}
	return ori_a2a_move(a, lanes, lane, n, blocks, each);
}

/* The element of the send memory where the message for a peer begins.  As ori_a2a_share(). */
ORIEL_DEV_OUT uint64_t ori_a2a_begin_of(const struct ori_a2a_args *a, uint32_t thread, int32_t peer)
{
	uint32_t lanes = ORIEL_ON_GPU ? 32u : 1u;
	uint64_t before = 0;
	int32_t i;
	int any;

	if (a->send_offsets)
		return a->send_offsets[peer];
	ORI_ROLLED
	for (i = (int32_t)(thread % lanes); i < peer; i += (int32_t)lanes)
		before += a->send_sizes[i];
	return ori_lanes_sum(lanes, before, 0, &any);
}

#endif
