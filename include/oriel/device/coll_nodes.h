/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_nodes.h - long collectives of a team with several nodes: what is broadcast, and
 * the results of an all-reduce, go to each node once.
 *
 * The ranks of a node divide among them what comes from a rank of another node: each gets its share
 * by a put.  In the next round it shows that share to its node, whose ranks read it there.  A round
 * does both, for two successive chunks, so that puts and reads run at the same time.
 *
 * The rounds are those of exchange.h: nothing else orders anything.
 */
#ifndef ORIEL_DEVICE_COLL_NODES_H
#define ORIEL_DEVICE_COLL_NODES_H

#include "coll_move.h"

/*
 * From here on, shares of nodes are worth the round that they cost: with 2 x 4 ranks and the
 * software NIC, 512 KiB took 0.95 of the time in a broadcast, 0.92 in an all-reduce.
 */
#define ORI_NODES_BYTES (512u << 10)

/*
 * A slot holds a piece for each rank, the result of this rank's piece, and its shares of the
 * results of all ranks; this is the most bytes of a piece.  0: slots are too small.  least: ranks
 * of the smallest node.
 */
ORIEL_DEV uint64_t ori_nodes_piece_max(const struct oriel_team_dev *t, uint32_t least)
{
	uint64_t n = (uint32_t)t->win.comm.nranks, piece;

	if (t->slot_bytes < 64 * n)
		return 0;
	piece = (t->slot_bytes - 64 * n) / (n + 1 + (n + least - 1) / least);
	return ori_coll_least(piece, t->row_bytes / 2) & ~(uint64_t)63;
}

/* Does a call go this way?  The same on all ranks. */
ORIEL_DEV int ori_nodes_help(const struct oriel_team_dev *t, const struct ori_terms *call,
			     uint64_t bytes)
{
	if (!t->row_bytes || bytes < ORI_NODES_BYTES || ori_team_nodes(t)->most < 2)
		return 0;
	return call->kind == ORI_COLL_BROADCAST ||
	       (call->kind == ORI_COLL_ALLREDUCE &&
		ori_nodes_piece_max(t, ori_team_nodes(t)->least));
}

/* The most bytes that ranks of every node can divide in a round. */
ORIEL_DEV uint64_t ori_nodes_most(const struct oriel_team_dev *t)
{
	return ori_coll_least(t->slot_bytes, ori_team_nodes(t)->least * t->row_bytes);
}

/* One round, as ori_coll_meet(); queued peers get their shares of the common part. */
ORIEL_DEV int ori_nodes_meet(struct ori_exchange *x, struct ori_parts parts)
{
	struct ori_trace_note n = ori_coll_note(x->team, x->g, x->channel, &x->call,
						ORIEL_TRACE_ROUND);
	int err = ori_exchange_meet_sized(x, parts, NULL, ORI_IN_SHARES);

	ori_trace_end(&x->team->win.comm, x->g, n, err);
	return err;
}

/*
 * Round i shows chunk i to the ranks of the root's node, and gives each other rank its share.  In
 * round i + 1 the others show their shares.
 */
ORIEL_DEV_LONG int ori_coll_nodes_broadcast(struct ori_exchange *x, uint8_t *data)
{
	const struct ori_team_place *places = ori_team_places(x->team);
	int root = x->call.root, rank = x->team->win.comm.rank, r, err;
	int near = places[rank].node == places[root].node;
	uint64_t most = ori_nodes_most(x->team), bytes = x->call.size, at, n, last = 0;
	struct ori_parts parts = ori_coll_parts(0, 0, 0, 0);
	struct ori_sources from;
	struct ori_share share;

	for (at = 0; at < bytes + most; at += most, last = n) {
		n = at < bytes ? ori_coll_least(bytes - at, most) : 0;
		err = ori_exchange_open(x);
		if (err)
			return err;
		parts.common = rank == root ? n : 0;
		from = ori_exchange_commons(x, parts);
		share = ori_nodes_share(places[rank], last);
		if (rank == root)
			ori_group_copy(x->g, ori_exchange_slot(x), data + at, n);
		else if (!near && share.bytes)
			ori_group_copy(x->g, ori_exchange_slot(x), ori_source(&from, root),
				       share.bytes);
		err = ori_nodes_meet(x, parts);
		if (err)
			return err;
		from = ori_exchange_commons(x, parts);
		if (near && rank != root)
			ori_group_copy(x->g, data + at, ori_source(&from, root), n);
		for (r = 0; r < from.n && !near && last; r++) {
			if (places[r].node != places[rank].node)
				continue;
			share = ori_nodes_share(places[r], last);
			ori_group_copy(x->g, data + at - most + share.begin, ori_source(&from, r),
				       share.bytes);
		}
	}
	return oriel_group_sync(x->g);
}

/* ---- all-reduce ------------------------------------------------------------------------------ */

/* One all-reduce.  A chunk is a piece for each rank. */
struct ori_nodes_sum {
	const struct ori_team_place *places;
	const uint8_t *send;
	uint64_t piece, chunk;
	struct ori_parts parts;
};

/* Bytes from one rank's share to the next, in a slot. */
ORIEL_DEV uint64_t ori_nodes_pitch(const struct ori_nodes_sum *s, int rank)
{
	uint64_t size = s->places[rank].size;

	return ((s->piece + size - 1) / size + 63) & ~(uint64_t)63;
}

/* Copies to the slot this rank's shares of the results that other nodes have just sent. */
ORIEL_DEV void ori_nodes_pass(struct ori_exchange *x, const struct ori_nodes_sum *s, uint64_t n)
{
	int r, rank = x->team->win.comm.rank, ranks = x->team->win.comm.nranks;
	uint64_t pitch = ori_nodes_pitch(s, rank);
	uint8_t *to = ori_exchange_slot(x) + s->parts.common_off + s->piece;
	struct ori_sources from = ori_exchange_commons(x, s->parts);
	struct ori_coll_part p = ori_coll_part(x->g, ranks);
	struct ori_share share;

	for (r = p.first; r < ranks; r += p.step) {
		if (s->places[r].node == s->places[rank].node)
			continue;
		share = ori_nodes_share(s->places[rank], ori_coll_share(n, s->piece, r));
		ori_group_copy(p.g, to + (uint32_t)r * pitch, ori_source(&from, r), share.bytes);
	}
}

/* Takes the results of the own node from where they were reduced; `out`: of the chunk. */
ORIEL_DEV void ori_nodes_take(struct ori_exchange *x, const struct ori_nodes_sum *s, uint64_t n,
			      uint8_t *out)
{
	int r, rank = x->team->win.comm.rank, ranks = x->team->win.comm.nranks;
	struct ori_sources from = ori_exchange_commons(x, s->parts);
	struct ori_coll_part p = ori_coll_part(x->g, ranks);

	for (r = p.first; r < ranks; r += p.step)
		if (s->places[r].node == s->places[rank].node)
			ori_group_copy(p.g, out + (uint32_t)r * s->piece, ori_source(&from, r),
				       ori_coll_share(n, s->piece, r));
}

/* Takes the results of other nodes, each in the shares that the ranks of this node show. */
ORIEL_DEV void ori_nodes_collect(struct ori_exchange *x, const struct ori_nodes_sum *s, uint64_t n,
				 uint8_t *out)
{
	int r, near, rank = x->team->win.comm.rank, ranks = x->team->win.comm.nranks;
	uint64_t pitch = ori_nodes_pitch(s, rank);
	struct ori_parts parts = s->parts;
	struct ori_sources from;
	struct ori_coll_part p = ori_coll_part(x->g, ranks);
	struct ori_share share;

	parts.common_off += s->piece;
	from = ori_exchange_commons(x, parts);
	for (near = 0; near < ranks; near++) {
		if (s->places[near].node != s->places[rank].node)
			continue;
		for (r = p.first; r < ranks; r += p.step) {
			if (s->places[r].node == s->places[rank].node)
				continue;
			share = ori_nodes_share(s->places[near], ori_coll_share(n, s->piece, r));
			ori_group_copy(p.g, out + (uint32_t)r * s->piece + share.begin,
				       ori_source(&from, near) + (uint32_t)r * pitch, share.bytes);
		}
	}
}

/* Fills the slot: this rank's result of the chunk before, and n bytes of the chunk at `at`. */
ORIEL_DEV void ori_nodes_fill(struct ori_exchange *x, struct ori_reducer how,
			      struct ori_nodes_sum *s, uint64_t at, uint64_t n, uint64_t last)
{
	int r, rank = x->team->win.comm.rank, ranks = x->team->win.comm.nranks;
	struct ori_coll_part p = ori_coll_part(x->g, ranks);
	struct ori_sources from;

	s->parts.common = ori_coll_share(last, s->piece, rank);
	s->parts.pieces = n;
	if (s->parts.common) {
		from = ori_exchange_pieces(x, s->parts);
		from.mine = s->send + at - s->chunk + (uint32_t)rank * s->piece;
		ori_reducer_run(how, x->g, ori_exchange_slot(x) + s->parts.common_off, &from,
				ori_coll_elements(how, s->parts.common));
	}
	for (r = p.first; r < ranks; r += p.step)
		if (r != rank)
			ori_group_copy(p.g, ori_exchange_slot(x) + (uint32_t)r * s->piece,
				       s->send + at + (uint32_t)r * s->piece,
				       ori_coll_share(n, s->piece, r));
}

/*
 * As ori_coll_allreduce_shared(), with a round more: chunk i is shown in round i, its results in
 * round i + 1, and what came of them from other nodes in round i + 2.
 */
ORIEL_DEV_LONG int ori_coll_nodes_allreduce(struct ori_exchange *x, ORI_VALUE(ori_reducer) how,
					    const uint8_t *send, uint8_t *recv, uint64_t bytes)
{
	uint64_t ranks = (uint32_t)x->team->win.comm.nranks, at, n, last = 0, before = 0, old = 0;
	struct ori_nodes_sum s;
	int err;

	s.places = ori_team_places(x->team);
	s.send = send;
	s.piece = ori_coll_piece(bytes, ranks,
				 ori_nodes_piece_max(x->team, ori_team_nodes(x->team)->least));
	s.chunk = ranks * s.piece;
	s.parts = ori_coll_parts(s.piece, 0, s.chunk, 0);
	for (at = 0; at < bytes + 3 * s.chunk;
	     at += s.chunk, old = before, before = last, last = n) {
		n = at < bytes ? ori_coll_least(bytes - at, s.chunk) : 0;
		if (old)
			ori_nodes_collect(x, &s, old, recv + at - 3 * s.chunk);
		if (before)
			ori_nodes_take(x, &s, before, recv + at - 2 * s.chunk);
		if (!n && !last && !before)
			continue;
		err = ori_exchange_open(x);
		if (err)
			return err;
		if (before)
			ori_nodes_pass(x, &s, before);
		ori_nodes_fill(x, how, &s, at, n, last);
		err = ori_nodes_meet(x, s.parts);
		if (err)
			return err;
	}
	return oriel_group_sync(x->g);
}

#endif
