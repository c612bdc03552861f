/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/alltoallv_items.h - items of the all-to-all-v kernel: which peer and what share of its message a block does,
 * and the words by which ranks tell each other how far they are.
 *
 * Included by: alltoallv.c.  Runs on all threads of a block, which get the same answers.
 */
#ifndef ORI_KERNELS_ALLTOALLV_ITEMS_H
#define ORI_KERNELS_ALLTOALLV_ITEMS_H

#include <oriel/device.h>

#include "../coll/tune/plan.h"
#include "alltoallv.h"

/* One item, and what its peer gets in this call; alike in all threads of the block. */
struct ori_a2a_item {
	uint8_t *window; /* mapped: the peer's */
	struct oriel_waiters *waiters;
	int32_t peer;
	uint32_t index, blocks; /* which block of the peer's */
	uint32_t queued;
	uint32_t refused;    /* this rank's sizes cannot be: nobody gets anything */
	uint64_t bytes;      /* of the whole message */
	uint64_t src_off;    /* from `send` on */
	uint64_t staged_off; /* in the send buffer, for queued peers */
	uint64_t told;       /* what the peer said it sends, where `knows` */
	uint32_t knows;
	struct ori_look look; /* the leader's, at the failure words when the item was found */
};

ORIEL_DEV int ori_a2a_is_self(const struct ori_a2a_args *a, const struct ori_a2a_item *it)
{
	return it->peer == a->win.comm.rank;
}

ORIEL_DEV int ori_a2a_is_packed(const struct ori_a2a_args *a)
{
	return a->slot_stride == 0;
}

ORIEL_DEV int ori_a2a_is_small(const struct ori_a2a_args *a, const struct ori_a2a_item *it)
{
	return it->bytes <= a->small;
}

/* This rank's row at a mapped peer, or a peer's row here. */
ORIEL_DEV struct ori_a2a_row *ori_a2a_row(const struct ori_a2a_args *a, uint8_t *window, int rank)
{
	return (struct ori_a2a_row *)(void *)(window + (uint64_t)(uint32_t)rank * a->row_stride);
}

/* Offset of this rank's row in every window. */
ORIEL_DEV uint64_t ori_a2a_row_off(const struct ori_a2a_args *a)
{
	return (uint64_t)(uint32_t)a->win.comm.rank * a->row_stride;
}

ORIEL_DEV uint64_t ori_a2a_inbox_off(const struct ori_a2a_args *a, uint64_t k)
{
	return sizeof(struct ori_a2a_row) + (k & 1u) * a->inbox_bytes;
}

ORIEL_DEV int ori_a2a_is_queued(const struct ori_a2a_args *a, int peer)
{
	return !ori_peer_is_mapped(ori_window_peer(&a->win, peer));
}

/* ---- sizes ----------------------------------------------------------------------------------------- */

/*
 * Looks through all sizes: are they possible, and what comes before this peer's?  Every warp of a block does it for
 * itself, its lanes sharing the ranks, so that no thread has to tell another.
 */
ORIEL_DEV void ori_a2a_look(const struct ori_a2a_args *a, struct oriel_group g, int mixed,
			    struct ori_a2a_item *it)
{
	uint32_t lanes = ORIEL_ON_GPU ? 32u : 1u, lane = g.thread % lanes;
	int n = a->win.comm.nranks, i, bad = 0, staged = mixed && a->copy_in, any = 0;
	uint64_t count, off, before = 0, total = 0, staged_before = 0, staged_total = 0;

	for (i = (int)lane; i < n; i += (int)lanes) {
		count = a->send_sizes[i];
		off = a->send_offsets ? a->send_offsets[i] : 0;
		bad |= count > a->most_elems || off > a->send_elems || count > a->send_elems - off;
		if (bad)
			break;
		total += count;
		before += i < it->peer ? count : 0;
		if (staged && ori_a2a_is_queued(a, i)) {
			count = (count * a->elem_bytes + 15u) & ~(uint64_t)15;
			staged_total += count;
			staged_before += i < it->peer ? count : 0;
		}
	}
	if (a->send_offsets) {
		before = a->send_offsets[it->peer];
		(void)ori_lanes_sum(lanes, 0, bad, &any);
	} else {
		before = ori_lanes_sum(lanes, before, 0, &any);
		total = ori_lanes_sum(lanes, total, bad, &any);
		any |= total > a->send_elems;
	}
	it->refused = any != 0;
	it->src_off = before * a->elem_bytes;
	it->staged_off = a->staging_off + it->src_off;
	if (staged) {
		it->staged_off = ori_lanes_sum(lanes, staged_before, 0, &any);
		staged_total = ori_lanes_sum(lanes, staged_total, 0, &any);
		it->refused |= staged_total > a->staging.bytes;
	}
	it->bytes = it->refused ? 0 : a->send_sizes[it->peer] * a->elem_bytes;
}

/* What others do not have to wait for: who agrees on it later has it without a load then. */
ORIEL_DEV struct ori_look ori_a2a_look_early(const struct ori_a2a_args *a, struct oriel_group g)
{
	struct ori_look none = { 0, 0 };

	return oriel_group_is_leader(g) ? ori_look_window(&a->win) : none;
}

/* 0: the item is none, its peer has fewer blocks. */
ORIEL_DEV int ori_a2a_find(const struct ori_a2a_args *a, struct oriel_group g, int mixed,
			   uint32_t n, struct ori_a2a_item *it)
{
	int nranks = a->win.comm.nranks;
	struct oriel_window_peer p;

	/* from this rank on, so that not all begin with the same peer */
	it->peer = a->win.comm.rank + (int)(n / a->most_blocks);
	it->peer -= it->peer < nranks ? 0 : nranks;
	it->index = n % a->most_blocks;
	p = ori_window_entry(&a->win, it->peer);
	it->window = p.buffer;
	it->waiters = p.waiters;
	it->queued = mixed && !ori_peer_is_mapped(&p);
	it->blocks = mixed ? a->blocks[it->queued ? ORI_PLAN_QUEUED : ORI_PLAN_MAPPED] :
			     a->most_blocks;
	it->knows = 0;
	if (mixed && it->index >= it->blocks)
		return 0;
	it->look = ori_a2a_look_early(a, g); /* beside the loads of sizes */
	ori_a2a_look(a, g, mixed, it);
	return 1;
}

/* This block's share: whole 16 bytes, the last block takes the rest. */
ORIEL_DEV uint64_t ori_a2a_slice(const struct ori_a2a_item *it, uint64_t *begin)
{
	uint64_t slice = it->bytes / it->blocks & ~(uint64_t)15;

	*begin = slice * it->index;
	return it->index + 1 == it->blocks ? it->bytes - *begin : slice;
}

/* ---- marks ----------------------------------------------------------------------------------------- */

/* By one thread, after its group met: a mapped peer's word becomes first + value. */
ORIEL_DEV void ori_a2a_store(const struct ori_a2a_args *a, const struct ori_a2a_item *it,
			     uint64_t *word, uint64_t value)
{
	/* [S1] release, system scope; partner [W1] in ori_a2a_await(). */
	ori_mapped_signal(word, ORIEL_SET, a->first + value, it->waiters);
}

/* The whole group; until the word of `peer` has come to `value`. */
ORIEL_DEV int ori_a2a_await(const struct ori_a2a_args *a, struct oriel_group g, int mixed, int peer,
			    int id, uint64_t value)
{
	struct ori_a2a_row *row = ori_a2a_row(a, a->win.buffer, peer);
	struct ori_spin s;
	int err = 0;

	if (mixed && ori_a2a_is_queued(a, peer)) {
		err = oriel_wait_signal_from(&a->win, g, peer, id, ORIEL_GE, value);
	} else {
		if (oriel_group_is_leader(g)) {
			ori_spin_begin(&s, &a->win.comm, a->win.failure, ORIEL_OP_SIGNAL, peer, id,
				       a->win.number, value);
			/* [W1] acquire, system scope; partner [S1] in ori_a2a_store(). */
			err = ori_mapped_wait(&s,
					      id == ORI_A2A_SIGNAL_MARK ? &row->mark :
									  &row->granted,
					      a->first, ORIEL_GE);
		}
		err = ori_group_agree(g, err);
	}
	if (err && oriel_group_is_leader(g))
		(void)ori_fail_window(&a->win, err, peer); /* names who did not come */
	return err;
}

/* Kept until the host asks. */
ORIEL_DEV void ori_a2a_refusal(const struct ori_a2a_args *a, struct oriel_group g, int rank)
{
	if (oriel_group_is_leader(g))
		(void)ori_compare_swap_acq_rel_sys(&a->state->refused, 0,
						   ORIEL_FAILURE(ORIEL_ERANGE, rank));
}

#endif
