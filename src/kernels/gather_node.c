/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/gather_node.c - a small all-gather among ranks that are all mapped peers of each other:
 * one kernel, without the code for queued peers.
 *
 * The work is a list of items, one per (rank, slice of the own block).  Block i % nblocks executes
 * item i.  So any number of blocks can execute any number of items, and ranks may have different
 * numbers of blocks and of slices: what the slices of a rank's block add to its word is
 * ORI_GATHER_ONE together.  A block first signals READY for all its items.  Then it stores each
 * item and signals LOCAL for it.  Then it waits for the data of other ranks.  It waits only for
 * steps that other ranks make before their own wait of that kind.  So it is enough that the blocks
 * of all grids run at the same time.
 *
 * Every exec moves the bases of all mapped peers by the same amount.  So a block first reads two
 * words that serve for all of them.  The last block that has read them moves the bases.  On a GPU
 * the second warp does that while the first one waits.
 *
 * Compiled twice, as gather.c is.  Launched by coll/allgather/stream.c.
 */
#include "gather.h"

/* The bases that serve for all items of a block. */
struct ori_gather_bases {
	uint64_t ready, local; /* values of the words at the start of this exec */
};

/*
 * The rank that gets item n.  Items start at the next rank, so that ranks do not all begin with the
 * same one.  The last is this rank.
 */
ORIEL_DEV int ori_gather_node_peer(const struct ori_gather_node_op *a, uint32_t n)
{
	uint32_t nranks = (uint32_t)a->comm.nranks;
	uint32_t peer = (uint32_t)a->comm.rank + 1 + n % nranks;

	return (int)(peer < nranks ? peer : peer - nranks);
}

/*
 * Bytes of item n's slice; 0 for a surplus item.  Slices begin at multiples of 16 bytes of the
 * block.
 */
ORIEL_DEV uint64_t ori_gather_node_slice(const struct ori_gather_node_op *a, uint32_t n,
					 uint64_t *at)
{
	/* 32 bits, because a GPU divides them much faster; blocks of one kernel are small */
	uint64_t cut = ((uint32_t)a->bytes + a->slices - 1) / a->slices;

	cut = (cut + 15) & ~(uint64_t)15;
	*at = cut * (n / (uint32_t)a->comm.nranks);
	return *at >= a->bytes ? 0 : a->bytes - *at < cut ? a->bytes - *at : cut;
}

/*
 * Long slices are dealt out in pieces of this size, in turn.  The slices of a rank then move
 * through memory side by side, which is up to a tenth faster than each in its own place.  What is
 * left after the last whole round is divided evenly, so that all slices end at the same time.
 */
#define ORI_GATHER_TURN (64u << 10)

#if ORIEL_ON_GPU
/* One piece of a turn's size, aligned to 16 bytes: all of a thread's loads, then its stores. */
ORIEL_DEV void ori_gather_node_turn(struct oriel_group g, uint8_t *to, const uint8_t *from)
{
	struct ori_chunk c[ORI_COPY_UNROLL];
	int i;

	ORI_UNROLL
	for (i = 0; i < ORI_COPY_UNROLL; i++)
		ori_chunk_load(&c[i], from + 16u * (g.thread + (uint32_t)i * g.size));
	ORI_UNROLL
	for (i = 0; i < ORI_COPY_UNROLL; i++)
		ori_chunk_store(to + 16u * (g.thread + (uint32_t)i * g.size), &c[i]);
}
#endif

/* Copies the pieces of item n. */
ORIEL_DEV_OUT void ori_gather_node_turns(const struct ori_gather_node_op *a,
					 ORI_VALUE(oriel_group) g, uint8_t *to, uint32_t n)
{
	uint32_t slice = n / (uint32_t)a->comm.nranks;
	uint64_t at = (uint64_t)ORI_GATHER_TURN * slice,
		 step = (uint64_t)ORI_GATHER_TURN * a->slices;
	uint64_t rounds = (uint32_t)a->bytes / (uint32_t)step, end = rounds * step;
	uint64_t share = ((uint32_t)(a->bytes - end) / a->slices + 16u) & ~15u;

#if ORIEL_ON_GPU
	if (!(((uintptr_t)to | (uintptr_t)a->send) & 15u) &&
	    g.size * 16u * ORI_COPY_UNROLL == ORI_GATHER_TURN)
		for (; at < end; at += step)
			ori_gather_node_turn(g, to + at, a->send + at);
#endif
	for (; at < end; at += step)
		ori_group_copy(g, to + at, a->send + at, ORI_GATHER_TURN);
	at = end + share * slice;
	if (at < a->bytes)
		ori_group_copy(g, to + at, a->send + at,
			       share < a->bytes - at ? share : a->bytes - at);
}

/* This rank's words at a peer, and a peer's words here. */
ORIEL_DEV uint64_t *ori_gather_node_there(const struct ori_gather_node_op *a, int peer, int id)
{
	return (peer < ORI_GATHER_INLINE_PEERS ? a->near[peer].signals : a->peers[peer].signals) +
	       id;
}

ORIEL_DEV uint64_t ori_gather_node_here(const struct ori_gather_node_op *a, int peer, int id)
{
	return (uint64_t)(uint32_t)peer * a->signal_stride + (uint32_t)id;
}

/* Called by the leader after its group met: adds to the word of this rank at the peer. */
ORIEL_DEV void ori_gather_node_tell(const struct ori_gather_node_op *a, int peer, int id,
				    uint64_t value)
{
	uint64_t *there = ori_gather_node_there(a, peer, id);
	struct oriel_waiters *waiters = ORIEL_ON_GPU ? NULL : a->peers[peer].waiters;

	/*
	 * [AGK3] release, system scope, in both ways of adding; partner [AGK4] in
	 * ori_gather_node_wait().  LOCAL publishes the group's slice of this rank's block.  READY
	 * publishes that this rank has read the data of the last exec.  Without it a peer could
	 * read bytes of the previous exec, or overwrite bytes that are still being read.
	 */
	if (a->signal_turns && a->peers[peer].flags & ORIEL_PEER_NO_ATOMICS)
		ori_add_in_turn(&a->comm, a->failure, a->number,
				&a->signal_turns[ori_gather_node_here(a, peer, id)], there, value,
				waiters);
	else
		ori_word_signal(there, ORIEL_ADD, value, waiters);
}

/* Called by the leader: the first items, one per rank, signal READY to that rank. */
ORIEL_DEV void ori_gather_node_ready(const struct ori_gather_node_op *a, struct oriel_group g)
{
	uint32_t n;

	for (n = g.block; n + 1 < (uint32_t)a->comm.nranks; n += g.nblocks)
		ori_gather_node_tell(a, ori_gather_node_peer(a, n), ORI_GATHER_READY, 1);
}

/* Called by the leader. */
ORIEL_DEV void ori_gather_node_bases(const struct ori_gather_node_op *a, struct ori_gather_bases *b)
{
	int peer = ori_gather_node_peer(a, 0);

	b->ready = ori_load_relaxed_sys(
		&a->signal_base[ori_gather_node_here(a, peer, ORI_GATHER_READY)]);
	b->local = ori_load_relaxed_sys(
		&a->signal_base[ori_gather_node_here(a, peer, ORI_GATHER_LOCAL)]);
}

/* Called by the leader: waits until the word of `peer` is `want` above its base. */
ORIEL_DEV int ori_gather_node_wait(const struct ori_gather_node_op *a, int peer, int id,
				   uint64_t base, uint64_t want)
{
	struct ori_spin s;

	ori_spin_begin(&s, &a->comm, a->failure, ORIEL_OP_SIGNAL, peer, id, a->number, want);
	/* [AGK4] acquire, system scope, in ori_word_wait(); partner [AGK3]. */
	return ori_word_wait(&s, &a->signal_words[ori_gather_node_here(a, peer, id)], base,
			     ORIEL_GE);
}

ORIEL_DEV int ori_gather_node_item(const struct ori_gather_node_op *a, struct oriel_group g,
				   const struct ori_gather_bases *b, uint32_t n)
{
	int peer = ori_gather_node_peer(a, n), self = peer == a->comm.rank, err = 0;
	uint64_t at, bytes = ori_gather_node_slice(a, n, &at);
	uint8_t *to = self                           ? a->buffer :
		      peer < ORI_GATHER_INLINE_PEERS ? a->near[peer].memory :
						       a->mapped[peer];

	to += (uint64_t)(uint32_t)a->comm.rank * a->bytes;
	if (a->guarded && !self && oriel_group_is_leader(g))
		err = ori_gather_node_wait(a, peer, ORI_GATHER_READY, b->ready, 1);
	err = ori_group_agree(g, err);
	if (err)
		return err;
	if (a->slices > 1 && a->bytes > (uint64_t)a->slices * ORI_GATHER_TURN) {
		if (to != a->send)
			ori_gather_node_turns(a, g, to, n);
	} else if (bytes && to != a->send && !ori_copy_once(g, to + at, a->send + at, bytes)) {
		ori_group_copy(g, to + at, a->send + at, bytes);
	}
	err = oriel_group_sync(g);
	if (!err && !self && oriel_group_is_leader(g))
		ori_gather_node_tell(a, peer, ORI_GATHER_LOCAL,
				     n < (uint32_t)a->comm.nranks ?
					     ORI_GATHER_ONE - (a->slices - 1) :
					     1);
	return err;
}

ORIEL_DEV void ori_gather_node_move(const struct ori_gather_node_op *a, int peer, int id,
				    uint64_t n)
{
	uint64_t *base = &a->signal_base[ori_gather_node_here(a, peer, id)];

	ori_store_relaxed_sys(base, ori_load_relaxed_sys(base) + n);
}

/*
 * Called after the leader has read the bases and the group has met, by `lanes` threads; `lane` is
 * one of them.  If this is the last block, it moves the bases: the next exec counts from the end of
 * this one.
 */
ORIEL_DEV void ori_gather_node_advance(const struct ori_gather_node_op *a, struct oriel_group g,
				       uint32_t lanes, uint32_t lane)
{
	int last = 0;
	uint32_t i;

	/*
	 * [AGK2] acq_rel, device scope; its own partner.  Publishes that a block has read the bases
	 * to the block that moves them.  Without it a slow block could read the bases of the next
	 * exec, and wait for signals that only the next exec brings.
	 */
	if (lane == 0)
		last = ori_fetch_add32_acq_rel(a->blocks_done, 1) + 1 == g.nblocks;
	if (!ori_lanes_any(lanes, last))
		return;
	if (lane == 0)
		*a->blocks_done = 0; /* for the next launch */
	for (i = lane; i + 1 < (uint32_t)a->comm.nranks; i += lanes) {
		int peer = ori_gather_node_peer(a, i);

		ori_gather_node_move(a, peer, ORI_GATHER_READY, a->guarded);
		ori_gather_node_move(a, peer, ORI_GATHER_LOCAL, ORI_GATHER_ONE);
	}
}

/*
 * A grid has no more blocks than items.  So each block has an item, and its threads have met when
 * that item is finished.
 */
ORIEL_DEV int ori_gather_node_run(const struct ori_gather_node_op *a, struct oriel_group g)
{
	uint32_t nranks = (uint32_t)a->comm.nranks, items = nranks * a->slices, n;
	uint32_t lanes = ori_group_lanes(g), first = g.size >= 2 * lanes ? lanes : 0;
	struct ori_gather_bases b = { 0, 0 };
	int err = 0;

	if (oriel_group_is_leader(g)) {
		/* must come first: its fence would wait for the loads of the bases */
		if (a->guarded)
			ori_gather_node_ready(a, g);
		ori_gather_node_bases(a, &b);
	}
	/* a wait for READY tests the failure words itself */
	if (!a->guarded)
		err = ori_agree_failure(&a->comm, a->failure, g);
	for (n = g.block; n < items && !err; n += g.nblocks)
		err = ori_gather_node_item(a, g, &b, n);
	if (!err && g.thread >= first && g.thread < first + lanes)
		ori_gather_node_advance(a, g, lanes, g.thread - first);
	for (n = g.block; n + 1 < nranks && !err && oriel_group_is_leader(g); n += g.nblocks)
		err = ori_gather_node_wait(a, ori_gather_node_peer(a, n), ORI_GATHER_LOCAL, b.local,
					   ORI_GATHER_ONE);
	return err;
}

/* Called by the leader; see ori_gather_give_up(). */
ORIEL_DEV_OUT void ori_gather_node_give_up(const struct ori_gather_node_op *a, int err)
{
	uint64_t failure = ORIEL_FAILURE(err, a->comm.rank);

	/* acq_rel without a partner: no other data depends on a failure word */
	(void)ori_compare_swap_acq_rel_sys(a->failure, 0, failure);
	/* if the comm has failed, all ranks know already */
	if (ori_load_relaxed_sys(a->comm.failure))
		return;
	for (int p = 0; p < a->comm.nranks; p++)
		if (p != a->comm.rank)
			ori_tell_failure(&a->peers[p], failure);
}

/* A register limit for blocks of 1024 threads lets two blocks of 512 fit on an SM. */
#undef ORIEL_KERNEL_THREADS
#define ORIEL_KERNEL_THREADS 1024
ORIEL_KERNEL(ori_gather_node, struct ori_gather_node_op)
{
	struct oriel_group g = oriel_group_block();
	int err = ori_gather_node_run(a, g);

	if (err && oriel_group_is_leader(g))
		ori_gather_node_give_up(a, err);
	return err;
}
#undef ORIEL_KERNEL_THREADS
#define ORIEL_KERNEL_THREADS 512

#ifndef ORIEL_KERNEL_IMAGE
const struct oriel_kernel *ori_gather_node_kernel(void)
{
	return &ori_gather_node;
}
#endif
