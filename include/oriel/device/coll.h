/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll.h - collectives inside a running kernel.
 *
 * One group of every rank makes the call, with the same arguments except the addresses.  `channel`
 * is one of the team's channels (oriel/coll/team.h).  One group per rank uses a channel at a time,
 * and all ranks make the same calls on it in the same order.  Several blocks share a collective by
 * a channel for each block and a part of the data for each channel.
 *
 * Buffers are any memory of the device that this rank can load and store, with any alignment;
 * multiples of 16 bytes are fastest.  Peers never touch it: data goes through the team's memory.
 * A call begins and ends with a meeting of the group.  So any thread of the group may have written
 * the source before, and all may read the result and write the buffers afterwards.
 *
 * All threads of all ranks get the same status if arguments are bad: the status of the rank whose
 * arguments are bad, or ORIEL_EMISMATCH if ranks make different calls.  Then no buffer is written,
 * and the team stays usable.  A passed deadline fails the team on all ranks.
 */
#ifndef ORIEL_DEVICE_COLL_H
#define ORIEL_DEVICE_COLL_H

#include "coll_short.h"

/* `bytes` of `data` on rank `root` replace those on all other ranks. */
ORIEL_DEV int oriel_coll_broadcast(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, void *data, uint64_t bytes, int root);
/*
 * Every rank's block of `bytes` goes to every rank.  recv holds the blocks in rank order.  send may
 * be the place of the own block in recv.
 */
ORIEL_DEV int oriel_coll_allgather(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, const void *send, void *recv, uint64_t bytes);
/*
 * Block r of `bytes` of send goes to rank r.  recv holds the blocks of all ranks in rank order.
 * The two must not overlap.
 */
ORIEL_DEV int oriel_coll_alltoall(const struct oriel_team_dev *team, struct oriel_group g,
				  int channel, const void *send, void *recv, uint64_t bytes);
/*
 * Rank r gets send_bytes[r] bytes, which begin at r * slot_bytes of send.  The data of rank r
 * arrives at r * slot_bytes of recv, and recv_bytes[r] becomes its size.  Other bytes of recv do
 * not change.  Both arrays have an entry per rank.  send and recv must not overlap, nor the
 * two arrays.
 *
 * slot_bytes is the same on all ranks.  A rank with a larger size refuses the call: ORIEL_ERANGE on
 * all ranks.
 */
ORIEL_DEV int oriel_coll_alltoallv(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, const void *send, const uint64_t *send_bytes,
				   void *recv, uint64_t *recv_bytes, uint64_t slot_bytes);
/*
 * recv[i] becomes send[i] of all ranks, combined in rank order (reduce.h).  send may be recv.  The
 * result has the same bits on all ranks.
 */
ORIEL_DEV int oriel_coll_allreduce(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, const void *send, void *recv, uint64_t count,
				   int type, int op);
/*
 * send has nranks blocks of `count` elements.  recv becomes block `rank` of all ranks, combined in
 * rank order.  recv may be the start of send, or the own block in it.
 */
ORIEL_DEV int oriel_coll_reducescatter(const struct oriel_team_dev *team, struct oriel_group g,
				       int channel, const void *send, void *recv, uint64_t count,
				       int type, int op);

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Elements of one rank.  No product with ranks and bytes of an element overflows. */
#define ORI_COLL_COUNT_MAX (1ull << 44)

ORIEL_DEV uint64_t ori_coll_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The most bytes that a round shows to all ranks. */
ORIEL_DEV uint64_t ori_coll_common_max(const struct oriel_team_dev *t)
{
	return t->row_bytes ? ori_coll_least(t->slot_bytes, t->row_bytes) : t->slot_bytes;
}

/* The most bytes of a piece for each rank, if a part for all of the same size may follow. */
ORIEL_DEV uint64_t ori_coll_piece_max(const struct oriel_team_dev *t, uint32_t extra)
{
	uint64_t piece = t->slot_bytes / ((uint32_t)t->win.comm.nranks + extra);

	if (t->row_bytes)
		piece = ori_coll_least(piece, t->row_bytes / (1 + extra));
	return piece & ~(uint64_t)63;
}

/* Divides n pieces of `bytes` in all into rounds of equal length; returns bytes of a piece. */
ORIEL_DEV uint64_t ori_coll_piece(uint64_t bytes, uint64_t n, uint64_t most)
{
	uint64_t rounds = (bytes + n * most - 1) / (n * most), piece;

	if (!rounds)
		return 64;
	piece = (bytes + rounds * n - 1) / (rounds * n);
	return (piece + 63) & ~(uint64_t)63;
}

ORIEL_DEV struct ori_parts ori_coll_parts(uint64_t piece, uint64_t pieces, uint64_t common_off,
					  uint64_t common)
{
	struct ori_parts parts;

	parts.piece = piece;
	parts.pieces = pieces;
	parts.common_off = common_off;
	parts.common = common;
	return parts;
}

/* ---- the call -------------------------------------------------------------------------------- */

ORIEL_DEV struct ori_terms ori_terms_of(int kind, uint64_t size)
{
	struct ori_terms call;

	call.size = size;
	call.kind = (uint8_t)kind;
	call.type = 0;
	call.op = 0;
	call.refused = size > ORI_COLL_COUNT_MAX ? (uint8_t)-ORIEL_ERANGE : 0;
	call.root = -1;
	return call;
}

ORIEL_DEV struct ori_terms ori_terms_broadcast(int nranks, uint64_t bytes, int root)
{
	struct ori_terms call = ori_terms_of(ORI_COLL_BROADCAST, bytes);

	call.root = root;
	if (root < 0 || root >= nranks)
		call.refused = (uint8_t)-ORIEL_ERANGE;
	return call;
}

ORIEL_DEV struct ori_terms ori_terms_reduce(int kind, uint64_t count, int type, int op)
{
	struct ori_terms call = ori_terms_of(kind, count);

	call.type = (uint8_t)type;
	call.op = (uint8_t)op;
	if (!oriel_reduce_is_valid(type, op))
		call.refused = (uint8_t)-ORIEL_EINVAL;
	return call;
}

/*
 * The note of a collective or of a round.  Only on the CPU: on a GPU the time of the beginning
 * would take a register of every collective, also where nothing is traced.
 */
ORIEL_DEV struct ori_trace_note ori_coll_note(const struct oriel_team_dev *team,
					      struct oriel_group g, uint32_t channel,
					      const struct ori_terms *call, int kind)
{
	uint64_t begin_ns = ORIEL_ON_GPU ? 0 : ori_trace_begin(&team->win.comm, g);
	struct ori_trace_note n = ori_trace_note_of(kind, begin_ns, -1, (int)channel,
						    team->win.number);

	n.op = call->kind;
	n.bytes = call->size * (call->type ? oriel_type_bytes(call->type) : 1);
	return n;
}

/* One round; in the first one of a call the ranks also compare their terms. */
ORIEL_DEV int ori_coll_meet(struct ori_exchange *x, struct ori_parts parts)
{
	struct ori_trace_note n = ori_coll_note(x->team, x->g, x->channel, &x->call,
						ORIEL_TRACE_ROUND);
	int err = x->first && x->team->cell_bytes ? ori_terms_meet(x) : 0;

	if (!err)
		err = ori_exchange_meet(x, parts);
	ori_trace_end(&x->team->win.comm, x->g, n, err);
	return err;
}

/* A call that moves nothing, or that this rank refuses: the ranks only compare their calls. */
ORIEL_DEV int ori_coll_compare(struct ori_exchange *x)
{
	int err = x->team->cell_bytes ? ori_coll_short(x, &x->call, NULL, NULL, 0, 0) :
					ori_exchange_open(x);

	return err || x->team->cell_bytes ? err : ori_exchange_meet(x, ori_coll_parts(0, 0, 0, 0));
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/*
 * Type and operator come from the caller's `call`, and not from x->call.  Functions that are not
 * inlined get the address of x, so a compiler does not know what is in x after them.
 */

ORIEL_DEV int ori_coll_broadcast_run(struct ori_exchange *x, uint8_t *data)
{
	uint64_t most = ori_coll_common_max(x->team), bytes = x->call.size, at, n;
	int root = x->call.root, own = x->team->win.comm.rank == root, err = 0;
	struct ori_parts parts;
	struct ori_sources from;

	for (at = 0; at < bytes && !err; at += n) {
		n = ori_coll_least(bytes - at, most);
		err = ori_exchange_open(x);
		if (err)
			return err;
		parts = ori_coll_parts(0, 0, 0, own ? n : 0);
		if (own)
			ori_group_copy(x->g, ori_exchange_slot(x), data + at, n);
		err = ori_coll_meet(x, parts);
		from = ori_exchange_commons(x, parts);
		if (!err && !own)
			ori_group_copy(x->g, data + at, ori_source(&from, root), n);
	}
	return err ? err : oriel_group_sync(x->g);
}

/* `stride`: from one rank's block in recv to the next. */
ORIEL_DEV int ori_coll_allgather_run(struct ori_exchange *x, const uint8_t *send, uint8_t *recv,
				     uint64_t stride)
{
	uint64_t most = ori_coll_common_max(x->team), bytes = x->call.size, at, n;
	int r, err = 0;
	struct ori_parts parts;
	struct ori_sources from;

	for (at = 0; at < bytes && !err; at += n) {
		n = ori_coll_least(bytes - at, most);
		err = ori_exchange_open(x);
		if (err)
			return err;
		parts = ori_coll_parts(0, 0, 0, n);
		ori_group_copy(x->g, ori_exchange_slot(x), send + at, n);
		err = ori_coll_meet(x, parts);
		from = ori_exchange_commons(x, parts);
		from.mine = send + at;
		for (r = 0; r < from.n && !err; r++)
			ori_group_copy(x->g, recv + (uint64_t)(uint32_t)r * stride + at,
				       ori_source(&from, r), n);
	}
	return err ? err : oriel_group_sync(x->g);
}

/* Copies n bytes of each rank's block to that rank's piece.  The own one is not staged. */
ORIEL_DEV void ori_coll_stage(const struct ori_exchange *x, const uint8_t *send, uint64_t stride,
			      uint64_t n, uint64_t piece)
{
	int r;

	for (r = 0; r < x->team->win.comm.nranks; r++)
		if (r != x->team->win.comm.rank)
			ori_group_copy(x->g, ori_exchange_slot(x) + (uint32_t)r * piece,
				       send + (uint64_t)(uint32_t)r * stride, n);
}

/*
 * All-to-all and reduce-scatter: rounds of pieces of every rank's block.  `stride` is from one
 * block to the next, `block` the bytes of it that are moved.
 */
ORIEL_DEV int ori_coll_pieces_run(struct ori_exchange *x, const struct ori_terms *call,
				  const uint8_t *send, uint8_t *recv, uint64_t stride,
				  uint64_t block)
{
	uint64_t ranks = (uint32_t)x->team->win.comm.nranks, at, n;
	uint64_t piece = ori_coll_piece(block, 1, ori_coll_piece_max(x->team, 0));
	uint64_t own = (uint64_t)(uint32_t)x->team->win.comm.rank * stride;
	int r, err = 0, type = call->type;
	struct ori_parts parts = ori_coll_parts(piece, ranks * piece, 0, 0);
	struct ori_sources from;

	for (at = 0; at < block && !err; at += n) {
		n = ori_coll_least(block - at, piece);
		err = ori_exchange_open(x);
		if (err)
			return err;
		ori_coll_stage(x, send + at, stride, n, piece);
		err = ori_coll_meet(x, parts);
		if (err)
			return err;
		from = ori_exchange_pieces(x, parts);
		from.mine = send + own + at;
		if (type)
			ori_reduce(x->g, recv + at, &from, n / oriel_type_bytes(type), type,
				   call->op);
		for (r = 0; r < from.n && !type; r++)
			ori_group_copy(x->g, recv + (uint64_t)(uint32_t)r * stride + at,
				       ori_source(&from, r), n);
	}
	return err ? err : oriel_group_sync(x->g);
}

/* How many elements these bytes are.  The type was checked before the first round. */
ORIEL_DEV uint64_t ori_coll_elements(const struct ori_terms *call, uint64_t bytes)
{
	uint32_t elem = oriel_type_bytes(call->type);

	return elem ? bytes / elem : 0;
}

/* Every rank shows all its elements, and every rank reduces all of them. */
ORIEL_DEV int ori_coll_allreduce_once(struct ori_exchange *x, const struct ori_terms *call,
				      const uint8_t *send, uint8_t *recv, uint64_t bytes)
{
	uint64_t most = ori_coll_common_max(x->team), at, n;
	struct ori_parts parts;
	struct ori_sources from;
	int err = 0;

	for (at = 0; at < bytes && !err; at += n) {
		n = ori_coll_least(bytes - at, most);
		err = ori_exchange_open(x);
		if (err)
			return err;
		parts = ori_coll_parts(0, 0, 0, n);
		ori_group_copy(x->g, ori_exchange_slot(x), send + at, n);
		err = ori_coll_meet(x, parts);
		from = ori_exchange_commons(x, parts);
		from.mine = send + at;
		if (!err)
			ori_reduce(x->g, recv + at, &from, ori_coll_elements(call, n), call->type,
				   call->op);
	}
	return err ? err : oriel_group_sync(x->g);
}

/* The bytes of rank r's piece in a chunk of n bytes. */
ORIEL_DEV uint64_t ori_coll_share(uint64_t n, uint64_t piece, int r)
{
	uint64_t at = (uint64_t)(uint32_t)r * piece;

	return at < n ? ori_coll_least(n - at, piece) : 0;
}

/*
 * Every rank reduces its piece of a chunk, and shows the result in the next round, together with
 * its elements of the next chunk.  So there is one round per chunk, and one more.
 */
ORIEL_DEV int ori_coll_allreduce_shared(struct ori_exchange *x, const struct ori_terms *call,
					const uint8_t *send, uint8_t *recv, uint64_t bytes)
{
	int r, err = 0, rank = x->team->win.comm.rank;
	uint64_t ranks = (uint32_t)x->team->win.comm.nranks, chunk, at, n, last = 0, before = 0;
	uint64_t piece = ori_coll_piece(bytes, ranks, ori_coll_piece_max(x->team, 1)), share;
	struct ori_parts parts = ori_coll_parts(piece, 0, ranks * piece, 0);
	struct ori_sources from;

	chunk = ranks * piece;
	/* round `at / chunk`: n bytes are shown, `last` are reduced, `before` are copied out */
	for (at = 0; at < bytes + 2 * chunk && !err; at += chunk, before = last, last = n) {
		n = at < bytes ? ori_coll_least(bytes - at, chunk) : 0;
		if (before) {
			from = ori_exchange_commons(x, parts);
			for (r = 0; r < from.n; r++)
				ori_group_copy(x->g, recv + at - 2 * chunk + (uint32_t)r * piece,
					       ori_source(&from, r),
					       ori_coll_share(before, piece, r));
		}
		if (!n && !last)
			continue;
		err = ori_exchange_open(x);
		if (err)
			return err;
		parts.common = share = ori_coll_share(last, piece, rank);
		if (share) {
			from = ori_exchange_pieces(x, parts);
			from.mine = send + at - chunk + (uint32_t)rank * piece;
			ori_reduce(x->g, ori_exchange_slot(x) + parts.common_off, &from,
				   ori_coll_elements(call, share), call->type, call->op);
		}
		for (r = 0; r < (int)ranks; r++)
			if (r != rank)
				ori_group_copy(x->g, ori_exchange_slot(x) + (uint32_t)r * piece,
					       send + at + (uint32_t)r * piece,
					       ori_coll_share(n, piece, r));
		parts.pieces = n;
		err = ori_coll_meet(x, parts);
	}
	return err ? err : oriel_group_sync(x->g);
}

/* `stride`: from one rank's block to the next, where buffers have several. */
ORIEL_DEV int ori_coll_steps(const struct oriel_team_dev *team, struct oriel_group g, int channel,
			     const struct ori_terms *call, const void *send, void *recv,
			     uint64_t stride)
{
	const uint8_t *from = (const uint8_t *)send;
	uint64_t bytes = call->size * (call->type ? oriel_type_bytes(call->type) : 1);
	struct ori_exchange x;
	int err = ori_exchange_begin(&x, team, g, (uint32_t)channel, call);

	if (err)
		return err;
	if (call->refused || !call->size)
		return ori_coll_compare(&x);
	if (ori_coll_is_short(team, call, bytes))
		return ori_coll_short(&x, call, from, (uint8_t *)recv, stride, bytes);
	if (team->cell_bytes) {
		ori_terms_send(&x);
		ori_cells_wake(&x);
	}
	switch (call->kind) {
	case ORI_COLL_BROADCAST:
		return ori_coll_broadcast_run(&x, (uint8_t *)recv);
	case ORI_COLL_ALLGATHER:
		return ori_coll_allgather_run(&x, from, (uint8_t *)recv, stride);
	case ORI_COLL_ALLREDUCE:
		/* with two ranks both ways move as much, and the first has one round less */
		if (bytes <= team->once_bytes || team->win.comm.nranks <= 2)
			return ori_coll_allreduce_once(&x, call, from, (uint8_t *)recv, bytes);
		return ori_coll_allreduce_shared(&x, call, from, (uint8_t *)recv, bytes);
	default:
		return ori_coll_pieces_run(&x, call, from, (uint8_t *)recv, stride, bytes);
	}
}

/*
 * One call on a channel.  One function per translation unit, because every collective uses the same
 * few loops.
 */
ORIEL_DEV_FOLD int ori_coll_run(const struct oriel_team_dev *team, ORI_VALUE(oriel_group) g,
				int channel, const struct ori_terms *call, const void *send,
				void *recv, uint64_t stride)
{
	struct ori_trace_note n = ori_coll_note(team, g, (uint32_t)channel, call, ORIEL_TRACE_COLL);
	int err = ori_coll_steps(team, g, channel, call, send, recv, stride);

	ori_trace_end(&team->win.comm, g, n, err);
	return err;
}

/* ---- public ---------------------------------------------------------------------------------- */

ORIEL_DEV int oriel_coll_broadcast(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, void *data, uint64_t bytes, int root)
{
	struct ori_terms call = ori_terms_broadcast(team->win.comm.nranks, bytes, root);

	return ori_coll_run(team, g, channel, &call, data, data, 0);
}

ORIEL_DEV int oriel_coll_allgather(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, const void *send, void *recv, uint64_t bytes)
{
	struct ori_terms call = ori_terms_of(ORI_COLL_ALLGATHER, bytes);

	return ori_coll_run(team, g, channel, &call, send, recv, bytes);
}

ORIEL_DEV int oriel_coll_alltoall(const struct oriel_team_dev *team, struct oriel_group g,
				  int channel, const void *send, void *recv, uint64_t bytes)
{
	struct ori_terms call = ori_terms_of(ORI_COLL_ALLTOALL, bytes);

	return ori_coll_run(team, g, channel, &call, send, recv, bytes);
}

ORIEL_DEV int oriel_coll_allreduce(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, const void *send, void *recv, uint64_t count,
				   int type, int op)
{
	struct ori_terms call = ori_terms_reduce(ORI_COLL_ALLREDUCE, count, type, op);

	return ori_coll_run(team, g, channel, &call, send, recv, 0);
}

ORIEL_DEV int oriel_coll_reducescatter(const struct oriel_team_dev *team, struct oriel_group g,
				       int channel, const void *send, void *recv, uint64_t count,
				       int type, int op)
{
	struct ori_terms call = ori_terms_reduce(ORI_COLL_REDUCESCATTER, count, type, op);

	return ori_coll_run(team, g, channel, &call, send, recv, count * oriel_type_bytes(type));
}

#include "coll_v.h"

#endif
