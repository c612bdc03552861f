/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/alltoallv_items.h - items of the all-to-all-v kernel: which peer and which share of its
 * message a block handles, and the words by which ranks report their progress.
 *
 * Included by: alltoallv_steps.h, alltoallv_packed.h.  Runs on all threads of a block, which get
 * the same answers.
 */
#ifndef ORI_KERNELS_ALLTOALLV_ITEMS_H
#define ORI_KERNELS_ALLTOALLV_ITEMS_H

#include <oriel/device.h>

#include "alltoallv.h"
#include "alltoallv_plan.h"
#include "alltoallv_shares.h"

/* Cases that a variant of the kernel supports; constants for the compiler. */
#define ORI_A2A_QUEUED 1
#define ORI_A2A_PACKED 2
#define ORI_A2A_SHARES 4

/*
 * On a CPU a block has many items.  For the first one it looks at the sizes of all peers; then it
 * keeps the sums of those before `peer`.  To look at all sizes for each item took a fifth of a call
 * of 8 ranks.  On a GPU nothing of this is used.
 */
struct ori_a2a_sums {
	int32_t peer;    /* -1: none yet */
	uint64_t at;     /* elements */
	uint64_t staged; /* bytes in the send buffer, for queued peers */
};

/* One item, and what its peer gets in this call.  Equal in all threads of the block. */
struct ori_a2a_item {
	uint8_t *window; /* mapped: the peer's */
	struct oriel_waiters *waiters;
	int32_t peer;
	uint32_t index, blocks; /* which block of the peer's */
	uint32_t queued;
	uint32_t refused;         /* this rank's sizes are invalid: no peer gets data */
	uint64_t count;           /* elements of the whole message */
	uint64_t bytes;           /* of them */
	uint64_t src_off;         /* from `send` on */
	uint64_t staged_off;      /* in the send buffer, for queued peers */
	uint32_t uneven;          /* sizes differ, and blocks may follow them */
	uint64_t told;            /* the leader's; the peer's told word, 0 before it is read */
	struct ori_failures look; /* the leader's: the failure words when the item was found */
	struct ori_a2a_sums sums;
};

ORIEL_DEV int ori_a2a_is_self(const struct ori_a2a_args *a, const struct ori_a2a_item *it)
{
	return it->peer == a->comm.rank;
}

ORIEL_DEV int ori_a2a_is_packed(const struct ori_a2a_args *a, int parts)
{
	return parts & ORI_A2A_PACKED && a->slot_stride == 0;
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
	return (uint64_t)(uint32_t)a->comm.rank * a->row_stride;
}

ORIEL_DEV uint64_t ori_a2a_inbox_off(const struct ori_a2a_args *a, uint64_t k)
{
	return sizeof(struct ori_a2a_row) + (k & 1u) * a->inbox_bytes;
}

ORIEL_DEV int ori_a2a_is_queued(const struct ori_a2a_args *a, int peer)
{
	return !ori_peer_is_mapped(ori_peer_entry(a->win, peer));
}

/* The receive memory of a mapped peer. */
ORIEL_DEV uint8_t *ori_a2a_recv_of(const struct ori_a2a_args *a, const struct ori_a2a_item *it)
{
	/* the usual case needs no load */
	return a->recv_win == a->win ? it->window + a->recv_off :
				       a->recv_win->peers[it->peer].buffer + a->recv_off;
}

/*
 * A group of one thread that posts to a queued peer as that peer's block `index`.  Posts that tell
 * a peer something always go as block 0.  Then one NIC executes them in the order of the calls,
 * whichever blocks post them.  On different lanes, the mark of a call could overtake the mark of
 * the previous call, whose size would be missing.
 */
ORIEL_DEV struct oriel_group ori_a2a_poster(int peer, uint32_t index)
{
	struct oriel_group one = oriel_group_thread();

	one.block = (uint32_t)peer + index; /* spreads the peers over the NICs */
	return one;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Bytes of a message in the send buffer. */
ORIEL_DEV uint64_t ori_a2a_staged_bytes(const struct ori_a2a_args *a, uint64_t count)
{
	return (count * a->elem_bytes + 15u) & ~(uint64_t)15;
}

/* The next item of a block that knows already if the sizes are valid. */
ORIEL_DEV void ori_a2a_next_sizes(const struct ori_a2a_args *a, int parts, struct ori_a2a_item *it)
{
	int staged = parts & ORI_A2A_QUEUED && a->copy_in;
	struct ori_a2a_sums *s = &it->sums;

	if (it->refused) { /* no peer gets data; the sums may be of invalid sizes */
		it->src_off = it->staged_off = it->count = it->bytes = 0;
		return;
	}
	while (s->peer != it->peer) {
		s->at += a->send_sizes[s->peer];
		if (staged && ori_a2a_is_queued(a, s->peer))
			s->staged += ori_a2a_staged_bytes(a, a->send_sizes[s->peer]);
		if (++s->peer < a->comm.nranks)
			continue;
		s->peer = 0;
		s->at = 0;
		s->staged = 0;
	}
	it->src_off = (a->send_offsets ? a->send_offsets[it->peer] : s->at) * a->elem_bytes;
	it->staged_off = staged ? s->staged : a->staging_off + it->src_off;
	it->count = a->send_sizes[it->peer];
	it->bytes = it->count * a->elem_bytes;
}

/*
 * Reads all sizes: are they valid, and what is the sum before this peer's?  Every warp of a block
 * does it for itself, and its lanes share the ranks, so that threads need not exchange results.
 * The peer's own size is loaded first: on a GPU all loads then run together.
 */
ORIEL_DEV void ori_a2a_check_sizes(const struct ori_a2a_args *a, struct oriel_group g, int parts,
				   struct ori_a2a_item *it)
{
	uint32_t lanes = ORIEL_ON_GPU ? 32u : 1u, lane = g.thread % lanes;
	uint64_t mine = a->send_sizes[it->peer], at = 0, count = 0, off = 0;
	uint64_t total = 0, staged_before = 0, staged_total = 0, before = 0, first = 0;
	int n = a->comm.nranks, i = (int)lane, bad = 0,
	    staged = parts & ORI_A2A_QUEUED && a->copy_in, any = 0, uneven = 0;

	if (parts & ORI_A2A_SHARES)
		first = a->send_sizes[0];
	if (a->send_offsets)
		at = a->send_offsets[it->peer];
	if (i < n) {
		count = a->send_sizes[i];
		off = a->send_offsets ? a->send_offsets[i] : 0;
	}
	while (i < n) {
		bad |= count > a->most_elems || off > a->send_elems || count > a->send_elems - off;
		if (bad)
			break;
		total += count;
		uneven |= ori_a2a_differs(count, first);
		before += i < it->peer ? count : 0;
		if (staged && ori_a2a_is_queued(a, i)) {
			count = ori_a2a_staged_bytes(a, count);
			staged_total += count;
			staged_before += i < it->peer ? count : 0;
		}
		i += (int)lanes;
		if (i < n) {
			count = a->send_sizes[i];
			off = a->send_offsets ? a->send_offsets[i] : 0;
		}
	}
	it->uneven = parts & ORI_A2A_SHARES ? ori_lanes_any(lanes, uneven) != 0 : 0;
	if (a->send_offsets) {
		any = ori_lanes_any(lanes, bad);
	} else {
		at = ori_lanes_sum(lanes, before, 0, &any);
		total = ori_lanes_sum(lanes, total, bad, &any);
		any |= total > a->send_elems;
	}
	it->refused = any != 0;
	it->src_off = at * a->elem_bytes;
	it->staged_off = a->staging_off + it->src_off;
	if (staged) {
		it->staged_off = ori_lanes_sum(lanes, staged_before, 0, &any);
		staged_total = ori_lanes_sum(lanes, staged_total, 0, &any);
		it->refused |= staged_total > a->staging.bytes;
	}
	it->count = it->refused ? 0 : mine;
	it->bytes = it->count * a->elem_bytes;
	if (ORIEL_ON_GPU)
		return;
	it->sums.peer = it->peer;
	it->sums.at = before;
	it->sums.staged = staged_before;
}

/* Loads the failure words early, so that a later agreement needs no load. */
ORIEL_DEV struct ori_failures ori_a2a_failures_early(const struct ori_a2a_args *a,
						     struct oriel_group g)
{
	struct ori_failures none = { 0, 0 };

	return oriel_group_is_leader(g) ? ori_failures_load(&a->comm, a->failure) : none;
}

/* After the peer is known. */
ORIEL_DEV void ori_a2a_reach(const struct ori_a2a_args *a, struct ori_a2a_item *it)
{
	it->window = it->peer < ORI_A2A_INLINE_PEERS ? a->peers[it->peer] :
						       a->win->peers[it->peer].buffer;
	it->waiters = ORIEL_ON_GPU ? NULL : a->win->peers[it->peer].waiters;
	it->told = 0;
}

/* Finds which item it is, before anything is loaded.  ori_a2a_sizes() may find another one. */
ORIEL_DEV void ori_a2a_item(const struct ori_a2a_args *a, int parts, uint32_t n,
			    struct ori_a2a_item *it)
{
	int more = parts & ORI_A2A_SHARES && n >= (uint32_t)a->comm.nranks * a->most_blocks;

	it->peer = ori_a2a_peer(a, more ? 0 : n / a->most_blocks);
	it->index = more ? ~0u : n % a->most_blocks;
	ori_a2a_reach(a, it);
	it->queued = parts & ORI_A2A_QUEUED && !it->window;
	it->blocks = parts & ORI_A2A_QUEUED ?
			     a->blocks[it->queued ? ORI_PLAN_QUEUED : ORI_PLAN_MAPPED] :
			     a->most_blocks;
}

/*
 * Blocks may follow the sizes, which are loaded: finds the share of item n.  it->blocks is 0 if
 * there is none.
 */
ORIEL_DEV void ori_a2a_take_share(const struct ori_a2a_args *a, struct oriel_group g, uint32_t n,
				  struct ori_a2a_item *it)
{
	uint64_t word;

	if (it->refused || !it->uneven) {
		it->blocks = it->index < a->most_blocks ? a->most_blocks : 0;
		return;
	}
	word = ori_a2a_share(a, g.thread, n);
	it->blocks = (uint32_t)word & 0xffffu;
	if (!it->blocks || it->index == ((uint32_t)word >> 16))
		return;
	it->peer = (int32_t)(word >> 32);
	it->index = (uint32_t)word >> 16;
	it->count = a->send_sizes[it->peer];
	it->bytes = it->count * a->elem_bytes;
	it->src_off = ori_a2a_begin_of(a, g.thread, it->peer) * a->elem_bytes;
	ori_a2a_reach(a, it);
}

/* Loads sizes and offsets. */
ORIEL_DEV void ori_a2a_sizes(const struct ori_a2a_args *a, struct oriel_group g, int parts,
			     uint32_t n, struct ori_a2a_item *it)
{
	/* The usual item is right, so its loads do not wait for those of the sizes of all peers. */
	if (!ORIEL_ON_GPU && it->sums.peer >= 0)
		ori_a2a_next_sizes(a, parts, it);
	else
		ori_a2a_check_sizes(a, g, parts, it);
	if (parts & ORI_A2A_SHARES && a->shares)
		ori_a2a_take_share(a, g, n, it);
}

/* Returns 0 if there is no such item, because its peer has fewer blocks. */
ORIEL_DEV int ori_a2a_find(const struct ori_a2a_args *a, struct oriel_group g, int parts,
			   uint32_t n, struct ori_a2a_item *it)
{
	ori_a2a_item(a, parts, n, it);
	if (parts & ORI_A2A_QUEUED && it->index >= it->blocks)
		return 0;
	it->look = ori_a2a_failures_early(a, g); /* together with the loads of sizes */
	ori_a2a_sizes(a, g, parts, n, it);
	return it->blocks != 0;
}

/* This block's share: a multiple of 16 bytes; the last block takes the rest. */
ORIEL_DEV uint64_t ori_a2a_slice(const struct ori_a2a_item *it, uint64_t *begin)
{
	/* a GPU divides 32 bits much faster than 64 */
	uint64_t slice = it->bytes >> 32 ? it->bytes / it->blocks :
					   (uint32_t)it->bytes / it->blocks;

	slice &= ~(uint64_t)15;
	*begin = slice * it->index;
	return it->index + 1 == it->blocks ? it->bytes - *begin : slice;
}

/* ---- words ---------------------------------------------------------------------------------- */

/* What is waited for: told[], came or granted of a row. */
#define ORI_A2A_WAIT_TOLD 0
#define ORI_A2A_WAIT_CAME 1
#define ORI_A2A_WAIT_GRANTED 2

/* Called by one thread after its group met: sets a word of a mapped peer to `value`. */
ORIEL_DEV void ori_a2a_store(const struct ori_a2a_item *it, uint64_t *word, uint64_t value)
{
	/*
	 * [A2A1] release, system scope; partner [A2A4] in ori_a2a_wait().  With `told` it publishes
	 * the message in the inbox, with `granted` the place in grant[].  Without it a peer could
	 * see this call's word, but copy the message, or use the place, of two calls before.
	 */
	ori_word_signal(word, ORIEL_SET, value, it->waiters);
}

/*
 * Called by one thread, as ori_word_wait(): waits until the bits of *word from `shift` on, which
 * may wrap, reach s->want.  *seen is the word then.
 */
ORIEL_DEV int ori_a2a_wait(struct ori_spin *s, const uint64_t *word, uint32_t shift, uint64_t *seen)
{
	struct ori_failures look = ori_failures_load(s->comm, s->window_failure);
	/* the polls are the first half of [A2A4]: the acquire is complete with ori_poll_end() */
	uint64_t want = s->want << shift, have = ori_poll_sys(word);
	int err = ori_failures_status(look);
	uint32_t more;

	while (!err && !ori_reached(have, want)) {
		err = ori_spin(s, have >> shift);
		have = ori_poll_sys(word);
		for (more = ori_spin_polls(s); more && !ori_reached(have, want); more--)
			have = ori_poll_sys(word); /* as [A2A4] */
	}
	/* [A2A4] acquire, system scope, with the polls; partner [A2A1], [A2A2], [A2A3]. */
	ori_poll_end();
	ori_spin_end(s);
	*seen = have;
	return err;
}

/* Called by the leader: waits until a mapped peer has told, sent or granted in call k. */
ORIEL_DEV int ori_a2a_wait_mapped(const struct ori_a2a_args *a, int peer, int what, uint64_t k,
				  uint64_t *seen)
{
	struct ori_a2a_row *row = ori_a2a_row(a, a->buffer, peer);
	uint32_t shift = what == ORI_A2A_WAIT_TOLD ? ORI_A2A_TOLD_SHIFT :
			 what == ORI_A2A_WAIT_CAME ? ORI_A2A_CAME_SHIFT :
						     0;
	const uint64_t *word = what == ORI_A2A_WAIT_TOLD ? &row->told[k & 1u] :
			       what == ORI_A2A_WAIT_CAME ? &row->came :
							   &row->granted;
	struct ori_spin s;

	ori_spin_begin(&s, &a->comm, a->failure, ORIEL_OP_SIGNAL, peer,
		       what == ORI_A2A_WAIT_GRANTED ? ORI_A2A_SIGNAL_GRANTED : ORI_A2A_SIGNAL_MARK,
		       a->number, (k + 1) << shift >> shift);
	return ori_a2a_wait(&s, word, shift, seen);
}

/* Called by the whole group.  Only the leader gets *seen, and only for mapped peers. */
ORIEL_DEV int ori_a2a_await(const struct ori_a2a_args *a, struct oriel_group g, int parts, int peer,
			    int what, uint64_t k, uint64_t *seen)
{
	uint64_t calls = k - a->first;
	int err = 0;

	if (parts & ORI_A2A_QUEUED && ori_a2a_is_queued(a, peer)) {
		err = what == ORI_A2A_WAIT_GRANTED ?
			      oriel_wait_signal_from(a->win, g, peer, ORI_A2A_SIGNAL_GRANTED,
						     ORIEL_GE, calls + 1) :
			      oriel_wait_signal_from(a->win, g, peer, ORI_A2A_SIGNAL_MARK, ORIEL_GE,
						     2 * calls + 1 + (what == ORI_A2A_WAIT_CAME));
	} else {
		if (oriel_group_is_leader(g))
			err = ori_a2a_wait_mapped(a, peer, what, k, seen);
		err = ori_group_agree(g, err);
	}
	if (err && oriel_group_is_leader(g))
		(void)ori_fail_window(a->win, err, peer); /* names the peer that is missing */
	return err;
}

/* The told word for a peer in call k. */
ORIEL_DEV uint64_t ori_a2a_word(const struct ori_a2a_item *it, int whole, uint64_t k)
{
	uint64_t word = it->refused ? ORI_A2A_NOTHING :
			whole       ? it->count | ORI_A2A_INLINE :
				      it->count;

	return word | (k + 1) << ORI_A2A_TOLD_SHIFT;
}

/* Number of elements in a told word. */
ORIEL_DEV uint64_t ori_a2a_count_of(uint64_t word)
{
	word &= ORI_A2A_TOLD_MASK;
	return word == ORI_A2A_NOTHING ? 0 : word & ~ORI_A2A_INLINE;
}

/* The told word of `source` in call k; valid after the wait for it. */
ORIEL_DEV uint64_t ori_a2a_told(const struct ori_a2a_args *a, int source, uint64_t k)
{
	return ori_load_relaxed_sys(&ori_a2a_row(a, a->buffer, source)->told[k & 1u]);
}

/* Kept until the host asks.  acq_rel without a partner: no other data depends on the word. */
ORIEL_DEV void ori_a2a_refusal(const struct ori_a2a_args *a, struct oriel_group g, int rank)
{
	if (oriel_group_is_leader(g))
		(void)ori_compare_swap_acq_rel_sys(&a->state->refused, 0,
						   ORIEL_FAILURE(ORIEL_ERANGE, rank));
}

#endif
