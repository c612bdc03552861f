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
#define ORI_A2A_NO_SHARE (~0ull)

/* The i-th peer.  A rank starts with itself, so that ranks do not all begin with the same one. */
ORIEL_DEV int32_t ori_a2a_peer(const struct ori_a2a_args *a, uint32_t i)
{
	int32_t peer = a->comm.rank + (int32_t)i;

	return peer < a->comm.nranks ? peer : peer - a->comm.nranks;
}

/*
 * Blocks for a message of `count` of `total` elements.  No share is larger than 1 / shares of all,
 * and all messages together have less than shares + nranks blocks.
 */
ORIEL_DEV uint32_t ori_a2a_blocks_for(uint32_t shares, uint64_t count, uint64_t total)
{
	float part;

	if (!total)
		return 1;
	/* a little less, so that rounding never adds a block, above all not to equal sizes */
	part = (float)count / (float)total * (1.0f - 1.0f / (1 << 18));
	return 1 + (uint32_t)(part * (float)shares);
}

ORIEL_DEV uint32_t ori_a2a_blocks_of(const struct ori_a2a_args *a, uint32_t i, uint32_t shares,
				     uint64_t total)
{
	return ori_a2a_blocks_for(shares, a->send_sizes[ori_a2a_peer(a, i)], total);
}

/*
 * The number of shares.  a->shares never needs more blocks than there are items.  Whether a larger
 * number needs more depends on the sizes: the more they differ, the fewer blocks are lost to
 * rounding.  So some are tried, and the largest that fits is taken.  If no message is an eighth
 * larger than its blocks of the plan should have, a->shares stays, and with it nearly all of the
 * plan.
 */
ORIEL_DEV uint32_t ori_a2a_divide(const struct ori_a2a_args *a, uint32_t lanes, uint32_t lane,
				  uint64_t total)
{
	uint32_t nranks = (uint32_t)a->comm.nranks, step = nranks / ORI_A2A_TRIES, i, t;
	uint32_t shares[ORI_A2A_TRIES], need[ORI_A2A_TRIES] = { 0 }, best = a->shares;
	int uneven = 0;

	step = step ? step : 1;
	for (t = 0; t < ORI_A2A_TRIES; t++)
		shares[t] = a->items > a->shares + t * step ? a->items - t * step : a->shares;
	ORI_ROLLED
	for (i = lane; i < nranks; i += lanes) {
		uint64_t count = a->send_sizes[i];

		uneven |= ori_a2a_blocks_for(a->shares, count - count / 8, total) > a->most_blocks;
		for (t = 0; t < ORI_A2A_TRIES; t++)
			need[t] += ori_a2a_blocks_for(shares[t], count, total);
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

/*
 * Item n is not needed where it was: its peer has only `blocks`.  Such items, in their order, take
 * the shares of peers that have more blocks than most_blocks.  Returns the peer, above 32 bits, and
 * which of its shares; or ORI_A2A_NO_SHARE.
 */
ORIEL_DEV_OUT uint64_t ori_a2a_move(const struct ori_a2a_args *a, uint32_t lanes, uint32_t lane,
				    uint32_t n, uint32_t blocks, uint32_t shares, uint64_t total)
{
	uint32_t nranks = (uint32_t)a->comm.nranks, most = a->most_blocks, place = 0, i, first;
	uint32_t at = n / most; /* the item's peer; further ones are free from the start */
	uint32_t more, before, all;
	int found, hit;

	ORI_ROLLED
	for (i = lane; i < nranks && i < at; i += lanes) {
		uint32_t has = ori_a2a_blocks_of(a, i, shares, total);

		place += has < most ? most - has : 0;
	}
	place = ori_lanes_sum32(lanes, place) +
		(at < nranks ? n % most - blocks : n - nranks * most);
	ORI_ROLLED
	for (first = 0; first < nranks; first += lanes) {
		i = first + lane;
		blocks = i < nranks ? ori_a2a_blocks_of(a, i, shares, total) : 0;
		more = blocks > most ? blocks - most : 0;
		before = ori_lanes_before(lanes, lane, more);
		all = ori_lanes_sum32(lanes, more);
		hit = place >= before && place - before < more;
		found = ori_lanes_status(lanes, hit ? (int)i + 1 : 0);
		if (found) {
			place = (uint32_t)ori_lanes_status(lanes,
							   hit ? (int)(place - before) + 1 : 0) -
				1;
			return (uint64_t)(uint32_t)ori_a2a_peer(a, (uint32_t)found - 1) << 32 |
			       (most + place);
		}
		place -= all;
	}
	return ORI_A2A_NO_SHARE;
}

#endif
