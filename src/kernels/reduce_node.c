/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/reduce_node.c - a long all-reduce of ranks that are all mapped peers of each other.
 *
 * A rank combines its piece of the elements straight from the memory of all ranks, in their order,
 * and stores the result straight into the memory of all.  No other rank touches that piece.
 *
 * First each rank shows its call and where its buffers are (coll_desk.h).  Every block reads the
 * records of all ranks, so blocks need not meet.  If all ranks have their buffers in the same
 * windows, these are the memory, and send and receive buffers may be the same.  A meeting at the
 * end says that all pieces are there.
 *
 * If not, the memory is the stage of the team, which has two parts.  Each rank copies its elements
 * to the first part, and takes the result from the second one.  Both are used again and again for
 * calls of more elements.  A rank fills the first part after a meeting at which all have finished
 * reading it.  It comes to a meeting, after which the others fill its second part, after it has
 * taken the result.
 *
 * A meeting: each block adds 1 to its rank's MET at all ranks, and waits until all blocks of each
 * rank have done so, also of its own.  Ranks that make the same call have equally many blocks.
 *
 * Compiled twice, as gather.c is.  Launched by coll/team/calls.c.
 */
#include "coll_desk.h"

#ifdef ORIEL_KERNEL_IMAGE
#define ori_any_reducer ori_reducer_of
#else
#include "loops.h"
#endif

static_assert(ORI_COLL_STAGE_RANKS <= ORI_WORD_SOURCES, "a thread loads of all ranks at once");

/*
 * Addresses of all ranks' memory, as this rank maps it.  A block of a GPU shares them: each lane
 * finds those of one rank.  On a CPU each thread has its own.
 */
struct ori_reduce_reach {
	uint8_t *send[ORI_WORD_SOURCES], *recv[ORI_WORD_SOURCES];
};

/* The counts at the start of the call. */
struct ori_reduce_base {
	uint64_t calls, met;
};

ORIEL_DEV struct ori_coll_desk *ori_reduce_node_desk(const struct ori_reduce_node_op *a)
{
	return a->near[a->comm.rank].desk;
}

/* The lanes divide the ranks: one begins with rank `lane`.  Other threads have none. */
ORIEL_DEV int ori_reduce_node_lanes(struct oriel_group g)
{
	return (int)ori_group_lanes(g);
}

ORIEL_DEV int ori_reduce_node_lane(struct oriel_group g)
{
	return g.thread < ori_group_lanes(g) ? (int)g.thread : ORI_COLL_STAGE_RANKS;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Only a CPU wakes sleepers. */
ORIEL_DEV struct oriel_waiters *ori_reduce_node_waiters(const struct ori_reduce_node_op *a,
							int peer)
{
	return ORIEL_ON_GPU ? NULL : a->team->win.peers[peer].waiters;
}

/* Called when a wait has failed: no rank may wait for this one any longer. */
ORIEL_DEV_OUT void ori_reduce_node_give_up(const struct ori_reduce_node_op *a, int err, int late)
{
	uint64_t failure = ORIEL_FAILURE_LATE(err, late, a->comm.rank);
	int p;

	if (err != ORIEL_ETIMEDOUT)
		return; /* window or comm have failed: all ranks know */
	/* acq_rel without a partner: no other data depends on a failure word */
	(void)ori_compare_swap_acq_rel_sys(a->failure, 0, failure);
	for (p = 0; p < a->comm.nranks; p++)
		if (p != a->comm.rank)
			(void)ori_fail_window(&a->team->win, err, p);
}

/* Called by one thread: waits until `peer` has brought its word here to `want`. */
ORIEL_DEV int ori_reduce_node_await(const struct ori_reduce_node_op *a, int peer, uint32_t id,
				    uint64_t want)
{
	int err, name = (a->number & ((1 << ORI_COLL_SHIFT) - 1)) | (int)a->call.kind
									    << ORI_COLL_SHIFT;
	struct ori_spin s;

	ori_spin_begin(&s, &a->comm, a->failure, ORIEL_OP_SIGNAL, peer, (int)id, name, want);
	/* [SIG2] inside; partner [SIG1] in ori_coll_desk_put() and ori_reduce_node_arrive() */
	err = ori_word_wait(&s, &a->signal_words[(uint32_t)peer * a->signal_stride + id], 0,
			    ORIEL_GE);
	if (err)
		ori_reduce_node_give_up(a, err, peer);
	return err;
}

/* Called by all threads: this block has come to a meeting. */
ORIEL_DEV int ori_reduce_node_arrive(const struct ori_reduce_node_op *a, struct oriel_group g)
{
	int err = oriel_group_sync(g), r;

	for (r = ori_reduce_node_lane(g); r < a->comm.nranks && !err; r += ori_reduce_node_lanes(g))
		/* [SIG1] inside: all that the block has read and stored; partner [SIG2] above */
		ori_word_signal(a->near[r].signals + a->met, ORIEL_ADD, 1,
				ori_reduce_node_waiters(a, r));
	return err;
}

/* Called by all threads: waits until all blocks of all ranks have come to `n` meetings. */
ORIEL_DEV int ori_reduce_node_meet(const struct ori_reduce_node_op *a, struct oriel_group g,
				   const struct ori_reduce_base *b, uint64_t n)
{
	int err = 0, r;

	for (r = ori_reduce_node_lane(g); r < a->comm.nranks && !err; r += ori_reduce_node_lanes(g))
		err = ori_reduce_node_await(a, r, a->met, b->met + n * g.nblocks);
	return ori_group_agree_any(g, err);
}

/*
 * Called by all threads after they have read the counts and met.  The last block moves them: the
 * next call counts from the end of this one.  On a GPU the second warp does that while the first
 * one waits.
 */
ORIEL_DEV void ori_reduce_node_done(const struct ori_reduce_node_op *a, struct oriel_group g,
				    const struct ori_reduce_base *b, int way, uint64_t meetings)
{
	struct ori_coll_desk *desk = ori_reduce_node_desk(a);

	/*
	 * [RNK1] acq_rel, device scope; its own partner.  Publishes that a block has read the
	 * counts to the block that moves them.  Without it a slow block could take the counts of
	 * the next call for its own.
	 */
	if (g.thread != (ORIEL_ON_GPU && g.size > 32u ? 32u : 0u) ||
	    ori_fetch_add32_acq_rel(&desk->done, 1) + 1 != g.nblocks)
		return;
	desk->calls = b->calls + 1;
	desk->met = b->met + meetings * g.nblocks;
	desk->way = (uint32_t)way;
	desk->done = 0; /* for the next launch */
}

/* ---- the beginning --------------------------------------------------------------------------- */

/* Called by one thread of block 0 for each other rank. */
ORIEL_DEV void ori_reduce_node_show(const struct ori_reduce_node_op *a, uint64_t number, int peer)
{
	struct ori_coll_record record = { 0 };

	record.number = number;
	record.call = a->call;
	record.places = a->places;
	ori_coll_desk_put(a->near[peer].desk, a->near[peer].signals + a->ready,
			  ori_reduce_node_waiters(a, peer), a->comm.rank, &record);
}

/* Called by one thread: waits for the record of a rank.  *way: what it makes necessary. */
ORIEL_DEV int ori_reduce_node_look(const struct ori_reduce_node_op *a, uint64_t number, int peer,
				   int *way)
{
	const struct ori_coll_record *r = &ori_reduce_node_desk(a)->from[peer];
	int err = ori_reduce_node_await(a, peer, a->ready, number);

	if (err)
		return err;
	if (r->number != number || r->call.size != a->call.size || r->call.kind != a->call.kind ||
	    r->call.type != a->call.type || r->call.op != a->call.op || r->call.refused)
		*way = ORI_REDUCE_DIFFERS;
	else if (*way == ORI_REDUCE_DIRECT && (r->places.send_window != a->places.send_window ||
					       r->places.recv_window != a->places.recv_window))
		*way = ORI_REDUCE_STAGED;
	return 0;
}

/* Where the buffers of a rank are, in windows. */
ORIEL_DEV void ori_reduce_node_place(const struct ori_reduce_node_op *a, int peer,
				     struct ori_reduce_reach *reach)
{
	const struct ori_coll_places *p = &ori_reduce_node_desk(a)->from[peer].places;

	if (peer == a->comm.rank)
		p = &a->places;
	reach->send[peer] = a->near[peer].send + p->send_off;
	reach->recv[peer] = a->near[peer].recv + p->recv_off;
}

/* Called by all threads: *way is how the call goes, the same for all blocks of all ranks. */
ORIEL_DEV int ori_reduce_node_begin(const struct ori_reduce_node_op *a, struct oriel_group g,
				    const struct ori_reduce_base *b, struct ori_reduce_reach *reach,
				    int *way)
{
	int mine = a->places.send_window < 0 ? ORI_REDUCE_STAGED : ORI_REDUCE_DIRECT;
	int r, n = a->comm.nranks, err = 0;

	for (r = ori_reduce_node_lane(g); r < n && !g.block; r += ori_reduce_node_lanes(g))
		if (r != a->comm.rank)
			ori_reduce_node_show(a, b->calls + 1, r);
	for (r = ori_reduce_node_lane(g); r < n && !err; r += ori_reduce_node_lanes(g)) {
		if (r != a->comm.rank)
			err = ori_reduce_node_look(a, b->calls + 1, r, &mine);
		if (ORIEL_ON_GPU && !err && mine == ORI_REDUCE_DIRECT)
			ori_reduce_node_place(a, r, reach);
	}
	*way = ORI_REDUCE_DIRECT;
	if (ori_group_any(g, err || mine != ORI_REDUCE_DIRECT)) {
		err = ori_group_agree_any(g, err);
		*way = ori_group_any(g, mine == ORI_REDUCE_DIFFERS) ? ORI_REDUCE_DIFFERS :
								      ORI_REDUCE_STAGED;
	} else if (!ORIEL_ON_GPU) {
		for (r = 0; r < n; r++)
			ori_reduce_node_place(a, r, reach);
	}
	return err;
}

/* ---- the elements ---------------------------------------------------------------------------- */

/* The sums that most programs need; a GPU combines their elements without a call per word. */
#define ORI_REDUCE_ANY 0
#define ORI_REDUCE_SUM_FLOAT 1
#define ORI_REDUCE_SUM_HALF 2
#define ORI_REDUCE_SUM_BFLOAT16 3

ORIEL_DEV int ori_reduce_node_usual(const struct ori_terms *call)
{
	if (!ORIEL_ON_GPU || call->op != ORIEL_REDUCE_SUM)
		return ORI_REDUCE_ANY;
	return call->type == ORIEL_TYPE_FLOAT    ? ORI_REDUCE_SUM_FLOAT :
	       call->type == ORIEL_TYPE_HALF     ? ORI_REDUCE_SUM_HALF :
	       call->type == ORIEL_TYPE_BFLOAT16 ? ORI_REDUCE_SUM_BFLOAT16 :
						   ORI_REDUCE_ANY;
}

/* `usual` is a constant where this is inlined. */
ORIEL_DEV uint64_t ori_reduce_node_word(struct ori_reducer how, struct ori_row row, int n,
					int usual)
{
	if (usual == ORI_REDUCE_SUM_FLOAT)
		return ori_sum_float_word_here(row, n);
	if (usual == ORI_REDUCE_SUM_HALF)
		return ori_sum_half_word_here(row, n);
	if (usual == ORI_REDUCE_SUM_BFLOAT16)
		return ori_sum_bfloat16_word_here(row, n);
	return ori_reducer_word(how, row, n);
}

/*
 * Called by all threads: combines units of 16 bytes, this thread's share of `i` to `end`.  The
 * compiler keeps addresses in registers only if they are local variables.
 */
ORIEL_DEV void ori_reduce_node_loop(const struct ori_reduce_node_op *a, struct oriel_group g,
				    const struct ori_reduce_reach *reach, uint64_t i, uint64_t end,
				    int usual)
{
	struct ori_reducer how = ori_any_reducer(a->call.type, a->call.op);
	struct ori_row low = { { 0 } }, high = { { 0 } };
	uint64_t step = (uint64_t)g.nblocks * g.size;
	uint8_t *from[ORI_WORD_SOURCES], *to[ORI_WORD_SOURCES];
	int r, n = a->comm.nranks;

	ORI_UNROLL
	for (r = 0; r < ORI_WORD_SOURCES; r++) {
		from[r] = r < n ? reach->send[r] : NULL;
		to[r] = r < n ? reach->recv[r] : NULL;
	}
	for (i += (uint64_t)g.block * g.size + g.thread; i < end; i += step) {
		uint64_t first, second;

		ORI_UNROLL
		for (r = 0; r < ORI_WORD_SOURCES; r++)
			if (r < n)
				ori_pair_load(from[r] + 16u * i, &low.word[r], &high.word[r]);
		first = ori_reduce_node_word(how, low, n, usual);
		second = ori_reduce_node_word(how, high, n, usual);
		ORI_UNROLL
		for (r = 0; r < ORI_WORD_SOURCES; r++)
			if (r < n)
				ori_pair_store(to[r] + 16u * i, first, second);
	}
}

/* Called by all threads: combines this rank's piece of `all` units. */
ORIEL_DEV void ori_reduce_node_move(const struct ori_reduce_node_op *a, struct oriel_group g,
				    const struct ori_reduce_reach *reach, uint64_t all)
{
	uint32_t nranks = (uint32_t)a->comm.nranks;
	uint64_t share = (all + nranks - 1) / nranks, i = share * (uint32_t)a->comm.rank;
	uint64_t end = ori_coll_least(i + share, all);

	switch (ori_reduce_node_usual(&a->call)) {
	case ORI_REDUCE_SUM_FLOAT:
		ori_reduce_node_loop(a, g, reach, i, end, ORI_REDUCE_SUM_FLOAT);
		break;
	case ORI_REDUCE_SUM_HALF:
		ori_reduce_node_loop(a, g, reach, i, end, ORI_REDUCE_SUM_HALF);
		break;
	case ORI_REDUCE_SUM_BFLOAT16:
		ori_reduce_node_loop(a, g, reach, i, end, ORI_REDUCE_SUM_BFLOAT16);
		break;
	default:
		ori_reduce_node_loop(a, g, reach, i, end, ORI_REDUCE_ANY);
	}
}

/* Called by all threads: this block's share of n bytes, in whole lines of 128. */
ORIEL_DEV void ori_reduce_node_copy(struct oriel_group g, uint8_t *to, const uint8_t *from,
				    uint64_t n)
{
	uint64_t share = (n / g.nblocks + 128u) & ~(uint64_t)127, begin = share * g.block;

	if (begin < n)
		ori_group_copy(g, to + begin, from + begin, ori_coll_least(n - begin, share));
}

/* Through the stage.  *meetings: how many there were. */
ORIEL_DEV int ori_reduce_node_staged(const struct ori_reduce_node_op *a, struct oriel_group g,
				     const struct ori_reduce_base *b,
				     struct ori_reduce_reach *reach, uint64_t *meetings)
{
	uint64_t bytes = a->call.size * oriel_type_bytes(a->call.type), at, n;
	uint8_t *own = (uint8_t *)(ori_reduce_node_desk(a) + 1);
	int r, err;

	for (r = ORIEL_ON_GPU ? ori_reduce_node_lane(g) : 0; r < a->comm.nranks;
	     r += ORIEL_ON_GPU ? ori_reduce_node_lanes(g) : 1) {
		reach->send[r] = (uint8_t *)(a->near[r].desk + 1);
		reach->recv[r] = reach->send[r] + ORI_COLL_STAGE_BYTES;
	}
	err = oriel_group_sync(g);
	for (at = 0; at < bytes && !err; at += n) {
		n = ori_coll_least(bytes - at, ORI_COLL_STAGE_BYTES);
		ori_reduce_node_copy(g, own, a->send + at, n);
		err = ori_reduce_node_arrive(a, g);
		if (!err)
			err = ori_reduce_node_meet(a, g, b, ++*meetings);
		if (err)
			break;
		ori_reduce_node_move(a, g, reach, (n + 15u) / 16u);
		err = ori_reduce_node_arrive(a, g);
		if (!err)
			err = ori_reduce_node_meet(a, g, b, ++*meetings);
		if (!err)
			ori_reduce_node_copy(g, a->recv + at, own + ORI_COLL_STAGE_BYTES, n);
	}
	return err;
}

/*
 * Ranks have made different calls.  When all blocks know that, block 0 meets the other ranks where
 * their calls wait, and learns what differs.
 */
ORIEL_DEV_OUT int ori_reduce_node_differs(const struct ori_reduce_node_op *a,
					  ORI_VALUE(oriel_group) g)
{
	int err = oriel_grid_sync(&a->team->win, g, ORI_COLL_GRID);
	struct ori_exchange x;

	if (err || g.block)
		return err;
	err = ori_exchange_begin(&x, a->team, g, 0, &a->call);
	if (!err)
		err = ori_coll_compare(&x);
	return err ? err : ORIEL_EMISMATCH;
}

ORIEL_DEV int ori_reduce_node_run(const struct ori_reduce_node_op *a, struct oriel_group g,
				  struct ori_reduce_reach *reach)
{
	uint64_t units = a->call.size * oriel_type_bytes(a->call.type) / 16u, meetings = 0;
	struct ori_reduce_base b;
	int err, way;

	b.calls = ori_load_relaxed_sys(&ori_reduce_node_desk(a)->calls);
	b.met = ori_load_relaxed_sys(&ori_reduce_node_desk(a)->met);
	err = ori_reduce_node_begin(a, g, &b, reach, &way);
	if (err)
		return err;
	if (way == ORI_REDUCE_DIRECT) {
		ori_reduce_node_move(a, g, reach, units);
		err = ori_reduce_node_arrive(a, g);
		meetings = 1;
	} else if (way == ORI_REDUCE_STAGED) {
		err = ori_reduce_node_staged(a, g, &b, reach, &meetings);
	} else {
		err = ORI_RARE(ori_reduce_node_differs)(a, g);
	}
	ori_reduce_node_done(a, g, &b, way, meetings);
	/* the kernel ends after its last block, so it is enough if one waits */
	if (!err && way == ORI_REDUCE_DIRECT && !g.block)
		err = ori_reduce_node_meet(a, g, &b, 1);
	return err;
}

ORIEL_KERNEL(ori_reduce_node, struct ori_reduce_node_op)
{
	struct oriel_group g = oriel_group_block();
#if ORIEL_ON_GPU
	__shared__ struct ori_reduce_reach reach;
#else
	struct ori_reduce_reach reach;
#endif
	int err = ori_reduce_node_run(a, g, &reach);

	if (err && oriel_group_is_leader(g))
		ori_kernel_failed(a->launch, g.block, err);
	return err;
}

#ifndef ORIEL_KERNEL_IMAGE
const struct oriel_kernel *ori_reduce_node_kernel(void)
{
	return &ori_reduce_node;
}
#endif
