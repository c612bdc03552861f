/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_move.h - how the group of a collective copies the data of several ranks.
 */
#ifndef ORIEL_DEVICE_COLL_MOVE_H
#define ORIEL_DEVICE_COLL_MOVE_H

#include "coll_call.h"

/* How many elements these bytes are.  The type was checked before the first round. */
ORIEL_DEV uint64_t ori_coll_elements(struct ori_reducer how, uint64_t bytes)
{
	uint32_t elem = oriel_type_bytes(how.type);

	return elem ? bytes / elem : 0;
}

/*
 * The threads that copy the data of one rank.  On a GPU a copy takes as long as a load, and loads
 * of different ranks do not depend on each other.  So the warps of a block divide the ranks:
 * `first`, first + step and so on are those of this thread's part.
 */
struct ori_coll_part {
	struct oriel_group g;
	int32_t first, step;
};

ORIEL_DEV struct ori_coll_part ori_coll_part(struct oriel_group g, int nranks)
{
	uint32_t n = (uint32_t)nranks, warps, parts, warp;
	struct ori_coll_part p;

	p.g = g;
	p.first = 0;
	p.step = 1;
	if (!ORIEL_ON_GPU || g.size < 64u || g.size % 32u)
		return p;
	warps = g.size / 32u;
	parts = warps < n ? warps : n;
	warps /= parts; /* of a part; a remainder has no work */
	warp = g.thread / 32u;
	p.first = (int32_t)(warp / warps);
	p.step = (int32_t)parts;
	p.g.thread = g.thread - (uint32_t)p.first * warps * 32u;
	p.g.size = warps * 32u;
	if (p.first >= p.step)
		p.first = nranks;
	return p;
}

/*
 * Copies of whole chunks of 16 bytes, the usual ones, are inlined: a call would store and load the
 * registers of all threads.
 */
ORIEL_DEV void ori_coll_copy(struct oriel_group g, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
#if ORIEL_ON_GPU
	if (!(((uintptr_t)to | (uintptr_t)from | bytes) & 15u)) {
		ori_copy_chunks(g, to, from, bytes / 16u);
		return;
	}
#endif
	ori_group_copy(g, to, from, bytes);
}

/* Rank i of a part: all ranks in order, if there is one part. */
ORIEL_DEV int ori_coll_rank(const struct ori_exchange *x, int i)
{
	return x->parts == 1 ? i : ori_part_first(x) + i * x->parts;
}

/* n bytes of every rank to its place in recv; `stride`: from one place to the next. */
ORIEL_DEV void ori_coll_collect(const struct ori_exchange *x, const struct ori_sources *from,
				uint8_t *recv, uint64_t stride, uint64_t n)
{
	int ranks = (int)ori_part_ranks(x), i, r;
	struct ori_coll_part p = ori_coll_part(x->g, ranks);

	for (i = p.first; i < ranks; i += p.step) {
		r = ori_coll_rank(x, i);
		ori_coll_copy(p.g, recv + (uint64_t)(uint32_t)r * stride, ori_source(from, r), n);
	}
}

/* Copies n bytes of each rank's block to that rank's piece.  The own one is not staged. */
ORIEL_DEV void ori_coll_stage(const struct ori_exchange *x, const uint8_t *send, uint64_t stride,
			      uint64_t n, uint64_t piece)
{
	int ranks = (int)ori_part_ranks(x), i, r;
	struct ori_coll_part p = ori_coll_part(x->g, ranks);

	for (i = p.first; i < ranks; i += p.step) {
		r = ori_coll_rank(x, i);
		if (r != x->team->win.comm.rank)
			ori_coll_copy(p.g, ori_exchange_slot(x) + (uint32_t)r * piece,
				      send + (uint64_t)(uint32_t)r * stride, n);
	}
}

/* The bytes of rank r's piece in a chunk of n bytes. */
ORIEL_DEV uint64_t ori_coll_share(uint64_t n, uint64_t piece, int r)
{
	uint64_t at = (uint64_t)(uint32_t)r * piece;

	return at < n ? ori_coll_least(n - at, piece) : 0;
}

#endif
