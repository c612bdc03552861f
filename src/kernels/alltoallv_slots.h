/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/alltoallv_slots.h - an all-to-all-v of mapped peers with a slot per peer and a block per
 * item: straight steps without loops.
 *
 * Included by: alltoallv.c.  Runs on all threads of a block.
 */
#ifndef ORI_KERNELS_ALLTOALLV_SLOTS_H
#define ORI_KERNELS_ALLTOALLV_SLOTS_H

#include "alltoallv_steps.h"

#if ORIEL_ON_GPU
/* Results of the other warps for the first warp. */
struct ori_a2a_found {
	uint64_t k, count, src_off;
	struct ori_failures look;
	uint32_t refused, index, blocks;
	int32_t peer;
};

/*
 * Called by a block of several warps.  The leader's fence, which begins the release of told, runs
 * while the other warps load the sizes.  On an H200 these take 1 and 0.7 us; one thread would do
 * them one after the other.
 */
ORIEL_DEV uint64_t ori_a2a_find_beside(const struct ori_a2a_args *a, struct oriel_group g,
				       int parts, struct ori_a2a_item *it)
{
	__shared__ struct ori_a2a_found found;
	struct ori_failures none = { 0, 0 };
	uint64_t k = 0;

	/* the first half of [A2A2], see ori_a2a_tell(); only these blocks tell */
	ori_release_begin_if(g.thread == 0 && it->index == 0 && !ori_a2a_is_self(a, it));
	if (g.thread >= 32u) {
		k = ori_load_relaxed_sys(&a->state->calls);
		/* the block agrees on what any of its threads has seen */
		it->look = g.thread == 32u ? ori_failures_load(&a->comm, a->failure) : none;
		ori_a2a_sizes(a, g, parts, g.block, it);
	}
	if (g.thread == 32u) {
		found.k = k;
		found.count = it->count;
		found.src_off = it->src_off;
		found.look = it->look;
		found.refused = it->refused;
		if (parts & ORI_A2A_SHARES) {
			found.peer = it->peer;
			found.index = it->index;
			found.blocks = it->blocks;
		}
	}
	__syncthreads();
	if (g.thread < 32u) {
		k = found.k;
		it->count = found.count;
		it->bytes = found.count * a->elem_bytes;
		it->src_off = found.src_off;
		it->look = found.look;
		it->refused = found.refused;
		if (parts & ORI_A2A_SHARES)
			it->blocks = found.blocks;
		if (parts & ORI_A2A_SHARES && it->index != found.index) { /* of another peer */
			it->peer = found.peer;
			it->index = found.index;
			ori_a2a_reach(a, it);
		}
	}
	return k;
}
#endif

/* Returns the call's number.  *opened: the release of told has begun. */
ORIEL_DEV uint64_t ori_a2a_find_slot(const struct ori_a2a_args *a, struct oriel_group g, int parts,
				     struct ori_a2a_item *it, int *opened)
{
	uint64_t k;

	ori_a2a_item(a, parts, g.block, it);
	*opened = ORIEL_ON_GPU && a->early && g.size > 32u;
#if ORIEL_ON_GPU
	if (*opened)
		return ori_a2a_find_beside(a, g, parts, it);
#endif
	k = ori_load_relaxed_sys(&a->state->calls); /* beside the loads of sizes */
	it->look = ori_a2a_failures_early(a, g);
	ori_a2a_sizes(a, g, parts, g.block, it);
	return k;
}

/*
 * Called by every block of a peer, self included: sends its share of a message that is not small.
 */
ORIEL_DEV int ori_a2a_send_slot(const struct ori_a2a_args *a, struct oriel_group g,
				const struct ori_a2a_item *it, uint64_t k)
{
	uint64_t begin, bytes = ori_a2a_slice(it, &begin);
	uint64_t place = (uint64_t)(uint32_t)a->comm.rank * a->slot_stride;
	const uint8_t *from = a->send + it->src_off + begin;
	uint8_t *to = ori_a2a_recv_of(a, it) + place + begin;
	/* on its way while data is copied */
	struct ori_failures look = ori_a2a_failures_early(a, g);
	int err;

	if (!ori_copy_once(g, to, from, bytes)) {
		ori_a2a_copy(a, g, to, from, bytes);
		/* one of several chunks may have ended it early */
		look = ori_a2a_failures_early(a, g);
	}
	err = ori_group_agree_failures(g, look);
	if (err || !oriel_group_is_leader(g))
		return err;
	if (!ori_a2a_is_self(a, it)) {
		ori_a2a_deliver(a, 0, it, k);
	} else if (it->index == 0) {
		if (it->refused)
			ori_a2a_refusal(a, g, it->peer);
		ori_a2a_tell_caller(a, g, it->peer, it->count,
				    it->refused ? 0 : (uint64_t)(uint32_t)it->peer * a->slot_elems);
	}
	return 0;
}

/*
 * Called by block 0 of a peer.  Usually only the report of what came remains, which the leader does
 * alone.
 */
ORIEL_DEV int ori_a2a_receive_slot(const struct ori_a2a_args *a, struct oriel_group g,
				   const struct ori_a2a_item *it, uint64_t k)
{
	uint64_t word = 0, place = (uint64_t)(uint32_t)it->peer * a->slot_elems;
	int more = 0, err = 0;

	if (oriel_group_is_leader(g)) {
		err = ori_a2a_wait_data(a, it, k, &word);
		more = err || (word & ORI_A2A_INLINE);
		if (!more)
			ori_a2a_tell_caller(a, g, it->peer, ori_a2a_count_of(word), place);
	}
	if (!ori_group_agree(g, more))
		return 0;
	err = ori_group_agree_value(g, err, &word);
	if (!err)
		ori_a2a_take(a, g, it, k, word, place);
	return err;
}

ORIEL_DEV int ori_a2a_slots(const struct ori_a2a_args *a, struct oriel_group g, int parts)
{
	struct ori_a2a_item it;
	int opened, self, small, err = 0;
	uint64_t k;

	if (!ORIEL_ON_GPU)
		it.sums.peer = -1;
	k = ori_a2a_find_slot(a, g, parts, &it, &opened);
	if (parts & ORI_A2A_SHARES && !it.blocks) { /* nothing is left for this block */
		(void)oriel_group_sync(g);
		if (oriel_group_is_leader(g))
			ori_a2a_count(a, k);
		return 0;
	}
	self = ori_a2a_is_self(a, &it);
	small = !self && ori_a2a_is_small(a, &it);
	if (!self && it.index == 0)
		err = ori_a2a_tell(a, g, 0, opened, &it, k);
	if (!err && !self && !small && a->synchronised)
		err = ori_a2a_await(a, g, 0, it.peer, ORI_A2A_WAIT_TOLD, k, &it.told);
	if (!err && !small)
		err = ori_a2a_send_slot(a, g, &it, k);
	if (err)
		return err;
	/* who has no data of a small message to copy has not met yet */
	if (small && (it.index || !it.bytes))
		(void)oriel_group_sync(g);
	/* on a GPU the second warp counts while the first one waits */
	if (g.thread == (ORIEL_ON_GPU && g.size > 32u ? 32u : 0))
		ori_a2a_count(a, k);
	return self || it.index ? 0 : ori_a2a_receive_slot(a, g, &it, k);
}

#endif
