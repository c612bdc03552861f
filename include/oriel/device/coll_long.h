/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_long.h - the bodies of coll.h: rounds of a team's slots for long data, and the
 * choice between them and the cells of coll_words.h and coll_short.h.
 */
#ifndef ORIEL_DEVICE_COLL_LONG_H
#define ORIEL_DEVICE_COLL_LONG_H

#include "coll_nodes.h"

/*
 * Type and operator come from the caller's `how`, and not from x->call.  Functions that are not
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

/*
 * Every rank shows all its bytes, and every rank takes all of them: it gathers them, `stride` from
 * one rank's block in recv to the next, or it reduces them.
 */
ORIEL_DEV int ori_coll_common_run(struct ori_exchange *x, struct ori_reducer how,
				  const uint8_t *send, uint8_t *recv, uint64_t stride,
				  uint64_t bytes)
{
	uint64_t most = ori_coll_common_max(x->team), at, n;
	struct ori_parts parts;
	struct ori_sources from;
	int err;

	for (at = 0; at < bytes; at += n) {
		n = ori_coll_least(bytes - at, most);
		err = ori_exchange_open(x);
		if (err)
			return err;
		parts = ori_coll_parts(0, 0, 0, n);
		ori_coll_copy(x->g, ori_exchange_slot(x), send + at, n);
		err = ori_coll_meet(x, parts);
		if (err)
			return err;
		from = ori_exchange_commons(x, parts);
		from.mine = send + at;
		if (how.type)
			ori_reducer_run(how, x->g, recv + at, &from, ori_coll_elements(how, n));
		else
			ori_coll_collect(x, &from, recv + at, stride, n);
	}
	return oriel_group_sync(x->g);
}

/*
 * All-to-all and reduce-scatter: rounds of pieces of every rank's block.  `stride` is from one
 * block to the next, `block` the bytes of it that are moved.
 */
ORIEL_DEV int ori_coll_pieces_run(struct ori_exchange *x, struct ori_reducer how,
				  const uint8_t *send, uint8_t *recv, uint64_t stride,
				  uint64_t block)
{
	uint64_t ranks = (uint32_t)x->team->win.comm.nranks, at, n;
	uint64_t piece = ori_coll_piece(block, 1, ori_coll_piece_max(x->team, 0));
	uint64_t own = (uint64_t)(uint32_t)x->team->win.comm.rank * stride;
	int err = 0;
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
		if (how.type)
			ori_reducer_run(how, x->g, recv + at, &from, ori_coll_elements(how, n));
		else
			ori_coll_collect(x, &from, recv + at, stride, n);
	}
	return err ? err : oriel_group_sync(x->g);
}

/*
 * Every rank reduces its piece of a chunk, and shows the result in the next round, together with
 * its elements of the next chunk.  So there is one round per chunk, and one more.
 */
ORIEL_DEV int ori_coll_allreduce_shared(struct ori_exchange *x, struct ori_reducer how,
					const uint8_t *send, uint8_t *recv, uint64_t bytes)
{
	int r, err = 0, rank = x->team->win.comm.rank;
	uint64_t ranks = (uint32_t)x->team->win.comm.nranks, chunk, at, n, last = 0, before = 0;
	uint64_t piece = ori_coll_piece(bytes, ranks, ori_coll_piece_max(x->team, 1)), share;
	struct ori_parts parts = ori_coll_parts(piece, 0, ranks * piece, 0);
	struct ori_coll_part p = ori_coll_part(x->g, (int)ranks);
	struct ori_sources from;

	chunk = ranks * piece;
	/* round `at / chunk`: n bytes are shown, `last` are reduced, `before` are copied out */
	for (at = 0; at < bytes + 2 * chunk && !err; at += chunk, before = last, last = n) {
		n = at < bytes ? ori_coll_least(bytes - at, chunk) : 0;
		if (before) {
			from = ori_exchange_commons(x, parts);
			for (r = p.first; r < from.n; r += p.step)
				ori_coll_copy(p.g, recv + at - 2 * chunk + (uint32_t)r * piece,
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
			ori_reducer_run(how, x->g, ori_exchange_slot(x) + parts.common_off, &from,
					ori_coll_elements(how, share));
		}
		for (r = p.first; r < (int)ranks; r += p.step)
			if (r != rank)
				ori_coll_copy(p.g, ori_exchange_slot(x) + (uint32_t)r * piece,
					      send + at + (uint32_t)r * piece,
					      ori_coll_share(n, piece, r));
		parts.pieces = n;
		err = ori_coll_meet(x, parts);
	}
	return err ? err : oriel_group_sync(x->g);
}

/* Called by the group after it met.  `bytes`: of a block; `short_most`: see coll_short.h. */
ORIEL_DEV int ori_coll_rounds(struct ori_exchange *x, struct ori_reducer how, const uint8_t *send,
			      uint8_t *recv, uint64_t stride, uint64_t bytes, uint32_t short_most)
{
	const struct oriel_team_dev *team = x->team;
	struct ori_exchange copy;
	int err;

	if (ori_coll_is_short(team, &x->call, bytes, short_most)) {
		copy = *x;
		err = ori_coll_short(&copy, how, send, recv, stride, bytes);
		x->round = copy.round;
		return err;
	}
	if (team->cell_bytes && x->first) {
		ori_terms_send(x);
		ori_team_wake(team);
	}
	if (ori_nodes_help(team, &x->call, bytes)) {
		copy = *x;
		err = x->call.kind == ORI_COLL_BROADCAST ?
			      ori_coll_nodes_broadcast(&copy, recv) :
			      ori_coll_nodes_allreduce(&copy, how, send, recv, bytes);
		x->round = copy.round;
		return err;
	}
	if (x->call.kind == ORI_COLL_BROADCAST)
		return ori_coll_broadcast_run(x, recv);
	/* between two ranks this way moves no less than the other one, and has a round more */
	if (x->call.kind == ORI_COLL_ALLREDUCE && bytes > team->once_bytes &&
	    team->win.comm.nranks > 2)
		return ori_coll_allreduce_shared(x, how, send, recv, bytes);
	if (x->call.kind == ORI_COLL_ALLREDUCE || x->call.kind == ORI_COLL_ALLGATHER)
		return ori_coll_common_run(x, how, send, recv, stride, bytes);
	return ori_coll_pieces_run(x, how, send, recv, stride, bytes);
}

/*
 * Every call that coll_words.h does not make.  `stride`: from one rank's block to the next, where
 * buffers have several.
 */
ORIEL_DEV_LONG int ori_coll_long(const struct oriel_team_dev *team, ORI_VALUE(oriel_group) g,
				 int channel, uint64_t terms0, uint64_t terms1,
				 ORI_VALUE(ori_reducer) how, const uint8_t *send, uint8_t *recv,
				 uint64_t stride)
{
	struct ori_terms call = ori_terms_join(terms0, terms1);
	uint64_t bytes = call.size * (how.type ? oriel_type_bytes(how.type) : 1);
	struct ori_exchange x;
	int err = ori_exchange_begin(&x, team, g, (uint32_t)channel, &call);

	if (err)
		return err;
	if (call.refused || !call.size)
		return ori_coll_compare(&x);
	return ori_coll_rounds(&x, how, send, recv, stride, bytes, team->short_bytes);
}

ORIEL_DEV int ori_coll_steps(const struct oriel_team_dev *team, struct oriel_group g, int channel,
			     const struct ori_terms *call, struct ori_reducer how,
			     const uint8_t *send, uint8_t *recv, uint64_t stride)
{
	uint64_t bytes = call->size * (call->type ? oriel_type_bytes(call->type) : 1), terms[2];
	int err = ORI_WORDS_AGAIN;

	if ((uint32_t)channel < team->channels &&
	    ori_coll_is_short(team, call, bytes, team->short_bytes) &&
	    ori_coll_is_words(team, g, call, send, recv, stride, bytes))
		err = ori_coll_words(team, g, channel, call, how, send, recv, stride, bytes);
	if (err != ORI_WORDS_AGAIN)
		return err;
	memcpy(terms, call, sizeof(terms));
	return ORI_RARE(ori_coll_long)(team, g, channel, terms[0], terms[1], how, send, recv,
				       stride);
}

/* One call on a channel.  `how` is ori_reducer_of() type and operator; nobody uses bad ones. */
ORIEL_DEV_FOLD int ori_coll_run(const struct oriel_team_dev *team, ORI_VALUE(oriel_group) g,
				int channel, const struct ori_terms *call,
				ORI_VALUE(ori_reducer) how, const void *send, void *recv,
				uint64_t stride)
{
	struct ori_trace_note n = ori_coll_note(team, g, (uint32_t)channel, call, ORIEL_TRACE_COLL);
	int err = ori_coll_steps(team, g, channel, call, how, (const uint8_t *)send,
				 (uint8_t *)recv, stride);

	ori_trace_end(&team->win.comm, g, n, err);
	return err;
}

#endif
