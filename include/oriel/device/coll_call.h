/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_call.h - sizes, terms and rounds of the collectives of coll.h.
 */
#ifndef ORIEL_DEVICE_COLL_CALL_H
#define ORIEL_DEVICE_COLL_CALL_H

#include "coll_short.h"

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
	uint64_t begin = ORIEL_ON_GPU ? 0 : ori_trace_begin(&team->win.comm, g);
	struct ori_trace_note n = ori_trace_note_of(kind, begin, -1, (int)channel,
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
	struct ori_exchange copy = *x; /* see exchange.h */
	int err;

	if (x->team->cell_bytes) {
		err = ori_coll_short(&copy, ori_reducer_of(0, 0), NULL, NULL, 0, 0);
		x->round = copy.round;
		return err;
	}
	err = ori_exchange_open(x);
	return err ? err : ori_exchange_meet(x, ori_coll_parts(0, 0, 0, 0));
}

#endif
