/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/alltoallv_packed.h - a packed receive buffer: where the data of each rank goes in it.
 *
 * Only the receiver knows this, after all ranks have told it their sizes.  It grants each rank its
 * place.
 *
 * Included by: alltoallv_steps.h.  Runs on all threads of a block.
 */
#ifndef ORI_KERNELS_ALLTOALLV_PACKED_H
#define ORI_KERNELS_ALLTOALLV_PACKED_H

#include "alltoallv_items.h"

/*
 * Waits until all ranks have told, and adds up their sizes.  *place is the element of this rank's
 * receive buffer where the data of `peer` begins, or ORI_A2A_REFUSED if there is not enough room.
 */
ORIEL_DEV_OUT int ori_a2a_place(const struct ori_a2a_args *a, struct oriel_group g, int parts,
				int peer, uint64_t k, uint64_t *place)
{
	uint64_t sum = 0, mine = 0, seen = 0, count, self = 0;
	struct ori_a2a_item it;
	int r, err = 0;

	it.peer = a->comm.rank;
	ori_a2a_check_sizes(a, g, parts, &it);
	self = it.count;
	for (r = 0; !err && r < a->comm.nranks; r++) {
		count = self;
		if (r != a->comm.rank) {
			err = ori_a2a_await(a, g, parts, r, ORI_A2A_WAIT_TOLD, k, &seen);
			count = ori_a2a_count_of(ori_a2a_told(a, r, k));
		}
		mine = r == peer ? sum : mine;
		if (count > a->recv_elems - sum)
			sum = mine = ORI_A2A_REFUSED;
		if (sum == ORI_A2A_REFUSED)
			break;
		sum += count;
	}
	/* no thread leaves the loop early, so all sums are over the same words */
	*place = sum == ORI_A2A_REFUSED ? ORI_A2A_REFUSED : mine;
	return err;
}

/* Called by block 0 of a peer: tells the peer where its data goes, or that there is no room. */
ORIEL_DEV_OUT int ori_a2a_grant(const struct ori_a2a_args *a, struct oriel_group g, int parts,
				const struct ori_a2a_item *it, uint64_t k)
{
	struct oriel_group one = ori_a2a_poster(it->peer, 0);
	uint64_t place = 0, off = offsetof(struct ori_a2a_row, grant) + 8u * (k & 1u);
	int err = ori_a2a_place(a, g, parts, it->peer, k, &place);
	struct ori_a2a_row *row;

	if (place != ORI_A2A_REFUSED)
		place *= a->elem_bytes;
	if (!err && oriel_group_is_leader(g)) {
		if (it->queued) {
			err = oriel_put_value(a->win, one, it->peer, ori_a2a_row_off(a) + off,
					      &place, 8);
			if (!err)
				err = oriel_signal(a->win, one, it->peer, ORI_A2A_SIGNAL_GRANTED,
						   ORIEL_ADD, 1);
		} else {
			row = ori_a2a_row(a, it->window, a->comm.rank);
			row->grant[k & 1u] = place;
			ori_a2a_store(it, &row->granted, k + 1);
		}
	}
	/*
	 * One call site for all threads: on a GPU, lanes of a warp that meet at two call sites
	 * deadlock.
	 */
	return it->queued ? ori_group_agree(g, err) : err;
}

/* Called by the whole group: what a peer has granted, or refused, to this rank. */
ORIEL_DEV int ori_a2a_granted(const struct ori_a2a_args *a, struct oriel_group g, int parts,
			      int peer, uint64_t k, uint64_t *place)
{
	uint64_t seen = 0;
	int err = ori_a2a_await(a, g, parts, peer, ORI_A2A_WAIT_GRANTED, k, &seen);

	if (err)
		return err;
	*place = ori_a2a_row(a, a->buffer, peer)->grant[k & 1u];
	if (*place == ORI_A2A_REFUSED)
		ori_a2a_refusal(a, g, peer);
	return 0;
}

#endif
