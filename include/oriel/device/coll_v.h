/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_v.h - the body of oriel_coll_alltoallv(); coll.h declares it and includes this.
 *
 * The first round shows the sizes, the largest of them, and the first piece of each message.  All
 * ranks then know how many rounds the longest message of any pair takes.  So a call is one round
 * if its longest message is at most (slot - sizes) / ranks.
 *
 * A team with cells begins with the short round of coll_v_cells.h, which moves the short messages
 * too.  If some are long, rounds of slots move those, from their start.
 */
#ifndef ORIEL_DEVICE_COLL_V_H
#define ORIEL_DEVICE_COLL_V_H

#include "coll.h"
#include "coll_v_cells.h"

/* What of a message lies in the piece at `at`.  Nothing if it has come in cells. */
ORIEL_DEV uint64_t ori_coll_v_part(const struct ori_coll_v *v, uint64_t bytes, uint64_t at,
				   uint64_t piece)
{
	return at < bytes && bytes > v->came ? ori_coll_least(bytes - at, piece) : 0;
}

/* Room for the sizes of a rank and their largest, in the first round. */
ORIEL_DEV uint64_t ori_coll_v_table(int nranks)
{
	return ((uint64_t)((uint32_t)nranks + 1) * sizeof(uint64_t) + 63) & ~(uint64_t)63;
}

/* Bytes of a piece of the first round; 0: the sizes leave no room. */
ORIEL_DEV uint64_t ori_coll_v_first(const struct oriel_team_dev *t, uint64_t slot)
{
	uint64_t table = ori_coll_v_table(t->win.comm.nranks);
	uint64_t piece = (t->slot_bytes - table) / (uint32_t)t->win.comm.nranks;

	if (t->row_bytes)
		piece = ori_coll_least(piece, t->row_bytes - table);
	return ori_coll_least(piece, slot + 63) & ~(uint64_t)63;
}

ORIEL_DEV struct ori_parts ori_coll_v_parts(const struct ori_exchange *x, uint64_t piece)
{
	uint64_t all = (uint32_t)x->team->win.comm.nranks * piece;

	return ori_coll_parts(piece, all, all, 0);
}

/* One round, with pieces that end with their messages; as ori_coll_meet(). */
ORIEL_DEV int ori_coll_v_meet(struct ori_exchange *x, const struct ori_coll_v *v,
			      struct ori_parts parts, uint64_t at)
{
	struct ori_trace_note n = ori_coll_note(x->team, x->g, x->channel, &x->call,
						ORIEL_TRACE_ROUND);
	int err = ori_exchange_meet_sized(x, parts, v->send_bytes, at);

	ori_trace_end(&x->team->win.comm, x->g, n, err);
	return err;
}

ORIEL_DEV void ori_coll_v_stage(const struct ori_exchange *x, const struct ori_coll_v *v,
				uint64_t at, uint64_t piece)
{
	struct ori_coll_part p = ori_coll_part(x->g, x->team->win.comm.nranks);
	int r;

	for (r = p.first; r < x->team->win.comm.nranks; r += p.step)
		if (r != x->team->win.comm.rank)
			ori_coll_copy(p.g, ori_exchange_slot(x) + (uint32_t)r * piece,
				      v->send + (uint64_t)(uint32_t)r * v->slot + at,
				      ori_coll_v_part(v, v->send_bytes[r], at, piece));
}

ORIEL_DEV void ori_coll_v_take(const struct ori_exchange *x, const struct ori_coll_v *v,
			       struct ori_parts parts, uint64_t at)
{
	struct ori_sources from = ori_exchange_pieces(x, parts);
	struct ori_coll_part p = ori_coll_part(x->g, from.n);
	int r;

	from.mine = v->send + (uint64_t)(uint32_t)from.own * v->slot + at;
	for (r = p.first; r < from.n; r += p.step)
		ori_coll_copy(p.g, v->recv + (uint64_t)(uint32_t)r * v->slot + at,
			      ori_source(&from, r),
			      ori_coll_v_part(v, v->recv_bytes[r], at, parts.piece));
}

/* Called by the group: its sizes, and the largest of them, for all ranks. */
ORIEL_DEV void ori_coll_v_show(const struct ori_exchange *x, const struct ori_coll_v *v,
			       uint64_t off)
{
	uint64_t *table = (uint64_t *)(void *)(ori_exchange_slot(x) + off);
	uint32_t i, n = (uint32_t)x->team->win.comm.nranks;

	for (i = x->g.thread; i <= n; i += x->g.size)
		table[i] = i < n ? v->send_bytes[i] : v->most;
}

/* Called by the group: what each rank sends here, and the largest size of all ranks. */
ORIEL_DEV int ori_coll_v_learn(const struct ori_exchange *x, struct ori_coll_v *v,
			       struct ori_parts parts)
{
	struct ori_sources from = ori_exchange_commons(x, parts);
	uint64_t bytes, most;
	const uint8_t *table;
	int r;

	for (r = 0; r < from.n; r++) {
		table = ori_source(&from, r);
		memcpy(&most, table + (uint32_t)from.n * sizeof(most), sizeof(most));
		v->most = most > v->most ? most : v->most;
		if ((uint32_t)r % x->g.size != x->g.thread)
			continue;
		memcpy(&bytes, table + (uint32_t)from.own * sizeof(bytes), sizeof(bytes));
		v->recv_bytes[r] = bytes;
	}
	return oriel_group_sync(x->g); /* all threads read recv_bytes now */
}

ORIEL_DEV int ori_coll_v_begin(struct ori_exchange *x, struct ori_coll_v *v, uint64_t piece)
{
	struct ori_parts parts = ori_coll_v_parts(x, piece);
	int err = ori_exchange_open(x);

	if (err)
		return err;
	parts.common = ((uint64_t)(uint32_t)x->team->win.comm.nranks + 1) * sizeof(uint64_t);
	ori_coll_v_stage(x, v, 0, piece);
	ori_coll_v_show(x, v, parts.common_off);
	err = ori_coll_v_meet(x, v, parts, 0);
	if (!err)
		err = ori_coll_v_learn(x, v, parts);
	if (!err)
		ori_coll_v_take(x, v, parts, 0);
	return err;
}

/* In a team with cells only what has not come in them. */
ORIEL_DEV_LONG int ori_coll_v_run(struct ori_exchange *x, struct ori_coll_v *v)
{
	uint64_t first = x->first ? ori_coll_v_first(x->team, v->slot) : 0, at, piece;
	int err = x->first ? ori_coll_v_begin(x, v, first) : 0;
	struct ori_parts parts;

	if (err)
		return err;
	piece = v->most > first ?
			ori_coll_piece(v->most - first, 1, ori_coll_piece_max(x->team, 0)) :
			64;
	for (at = first; at < v->most && !err; at += piece) {
		err = ori_exchange_open(x);
		if (err)
			return err;
		parts = ori_coll_v_parts(x, piece);
		ori_coll_v_stage(x, v, at, piece);
		err = ori_coll_v_meet(x, v, parts, at);
		if (!err)
			ori_coll_v_take(x, v, parts, at);
	}
	return err ? err : oriel_group_sync(x->g);
}

ORIEL_DEV int ori_coll_v_call(const struct oriel_team_dev *team, struct oriel_group g, int channel,
			      struct ori_terms *call, struct ori_coll_v *v)
{
	struct ori_exchange x, copy;
	struct ori_coll_v rest;
	int r, err;

	/* any thread of the group may have written the sizes */
	err = oriel_group_sync(g);
	if (err)
		return err;
	for (r = 0; r < team->win.comm.nranks; r++)
		v->most = v->send_bytes[r] > v->most ? v->send_bytes[r] : v->most;
	if (v->most > v->slot)
		call->refused = (uint8_t)-ORIEL_ERANGE;
	err = ori_exchange_begin(&x, team, g, (uint32_t)channel, call);
	if (err)
		return err;
	if (call->refused)
		return ori_coll_compare(&x);
	if (team->cell_bytes) {
		err = ori_v_round(&x, v);
		if (err || !v->most)
			return err;
	}
	copy = x; /* see exchange.h */
	rest = *v;
	return ori_coll_v_run(&copy, &rest);
}

ORIEL_DEV int oriel_coll_alltoallv(const struct oriel_team_dev *team, struct oriel_group g,
				   int channel, const void *send, const uint64_t *send_bytes,
				   void *recv, uint64_t *recv_bytes, uint64_t slot_bytes)
{
	struct ori_terms call = ori_terms_of(ORI_COLL_ALLTOALLV, slot_bytes);
	struct ori_trace_note n = ori_coll_note(team, g, (uint32_t)channel, &call,
						ORIEL_TRACE_COLL);
	struct ori_coll_v v;
	int err;

	v.send = (const uint8_t *)send;
	v.recv = (uint8_t *)recv;
	v.send_bytes = send_bytes;
	v.recv_bytes = recv_bytes;
	v.slot = slot_bytes;
	v.most = 0;
	v.came = 0;
	err = ori_coll_v_call(team, g, channel, &call, &v);
	ori_trace_end(&team->win.comm, g, n, err);
	return err;
}

#endif
