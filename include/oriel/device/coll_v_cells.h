/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_v_cells.h - the short round of an all-to-all-v, in the cells of coll_cells.h.
 *
 * A rank sends to each rank its terms, the size of its message, the largest of its sizes, and the
 * message itself if it is short.  The receiver polls the cells of a size, and then knows how many
 * cells of data it waits for.  If any size of any rank is not short, all ranks learn that, and the
 * long messages follow in rounds of slots (coll_v.h).
 */
#ifndef ORIEL_DEVICE_COLL_V_CELLS_H
#define ORIEL_DEVICE_COLL_V_CELLS_H

#include "coll_move.h"

/* The arguments of a call, and how far it is. */
struct ori_coll_v {
	const uint8_t *send;
	uint8_t *recv;
	const uint64_t *send_bytes;
	uint64_t *recv_bytes;
	uint64_t slot; /* bytes from one rank's data to the next */
	uint64_t most; /* the largest size: of this rank, after the first round of all ranks */
	uint64_t came; /* messages up to this size have come in cells */
};

/* Cells for sizes, counted from the end of a place; data begins behind the terms. */
#define ORI_V_MOST 1u /* the largest size of the source */
#define ORI_V_SIZE 2u /* of the message */

/* What a thread finds beside a status and ORI_TERMS_STOP: a message of some rank is long. */
#define ORI_V_LONG 2

ORIEL_DEV uint32_t ori_v_cell(const struct oriel_team_dev *t, uint32_t from_end)
{
	return ORI_TERMS_CELLS + t->cell_bytes / 8u - from_end;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Called by all threads of the group. */
ORIEL_DEV void ori_v_send_sizes(const struct ori_exchange *x, const struct ori_coll_v *v)
{
	uint32_t i, n = 2u * (uint32_t)x->team->win.comm.nranks;

	for (i = x->g.thread; i < n; i += x->g.size) {
		int peer = ori_rank_of_step(x, i / 2u);

		ori_cell_send(x, peer, ori_v_cell(x->team, i % 2u ? ORI_V_MOST : ORI_V_SIZE),
			      i % 2u ? v->most : v->send_bytes[peer]);
	}
}

/* Called by the threads of a part: one message.  Several loads are in flight together. */
ORIEL_DEV void ori_v_send_message(const struct ori_exchange *x, struct oriel_group g, int peer,
				  const uint8_t *from, uint64_t bytes)
{
	uint32_t cells = (uint32_t)((bytes + 7u) / 8u), i, k;
	uint64_t word[ORI_CELLS_UNROLL];

	for (i = g.thread; i < cells; i += ORI_CELLS_UNROLL * g.size) {
		ORI_UNROLL
		for (k = 0; k < ORI_CELLS_UNROLL; k++)
			if (i + k * g.size < cells)
				word[k] = ori_cell_load(from, i + k * g.size, bytes);
		ORI_UNROLL
		for (k = 0; k < ORI_CELLS_UNROLL; k++)
			if (i + k * g.size < cells)
				ori_cell_send(x, peer, ORI_TERMS_CELLS + i + k * g.size, word[k]);
	}
}

/* Called by all threads of the group. */
ORIEL_DEV void ori_v_send(const struct ori_exchange *x, const struct ori_coll_v *v)
{
	struct ori_coll_part p = ori_coll_part(x->g, x->team->win.comm.nranks);
	int i, peer;

	ori_terms_send(x);
	ori_v_send_sizes(x, v);
	for (i = p.first; i < x->team->win.comm.nranks; i += p.step) {
		peer = ori_rank_of_step(x, (uint32_t)i);
		if (v->send_bytes[peer] <= v->came)
			ori_v_send_message(x, p.g, peer, v->send + (uint32_t)peer * v->slot,
					   v->send_bytes[peer]);
	}
	ori_team_wake(x->team);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Called by one thread: waits for a cell of `source`. */
ORIEL_DEV struct ori_cell_taken ori_v_wait(const struct ori_exchange *x, int source, uint32_t cell)
{
	uint32_t polls, mark = ori_round_mark(x->team, x->round);
	const uint64_t *at = ori_cell_from(x, source, cell);
	struct ori_cell_taken t = { 0, 0 };

	ORI_ROLLED
	for (polls = ORI_SPIN_POLLS; polls && ori_round_look(at, &t.word) != mark;)
		polls--;
	return polls ? t : ori_short_wait(x, source, cell);
}

/* Called by the takers: waits for the sizes of all ranks.  0, a status, a stop or ORI_V_LONG. */
ORIEL_DEV int ori_v_wait_sizes(const struct ori_exchange *x, const struct ori_coll_v *v)
{
	uint32_t i, n = 2u * (uint32_t)x->team->win.comm.nranks;
	struct ori_cell_taken t = { 0, 0 };
	int is_long = 0;

	for (i = x->g.thread; i < n && !t.err; i += ori_cells_takers(x->g)) {
		t = ori_v_wait(x, ori_rank_of_step(x, i / 2u),
			       ori_v_cell(x->team, i % 2u ? ORI_V_MOST : ORI_V_SIZE));
		is_long |= t.word > v->came;
	}
	return t.err ? t.err : is_long ? ORI_V_LONG : 0;
}

/* Called by the takers of a part: one message, which x->g divides. */
ORIEL_DEV int ori_v_take_message(const struct ori_exchange *x, int source, uint8_t *to,
				 uint64_t bytes)
{
	uint32_t takers = ori_cells_takers(x->g), i, cells;
	uint64_t word[ORI_ROUND_CELLS];
	struct ori_short s;
	int err = 0;

	s.send = NULL;
	s.recv = to;
	s.send_stride = 0;
	s.recv_stride = 0;
	s.bytes = (uint32_t)bytes;
	s.root = source;
	s.inverse = 0; /* all cells are of one step */
	cells = ori_short_cells(&s);
	for (i = x->g.thread; i < cells && !err; i += ORI_ROUND_CELLS * takers) {
		err = ori_short_take(x, &s, i, cells, word);
		if (!err)
			ori_short_deliver(x, &s, i, cells, word);
	}
	return err;
}

/* Called by all threads of the group, whose ranks make the same call: the short messages. */
ORIEL_DEV int ori_v_take(const struct ori_exchange *x, const struct ori_coll_v *v)
{
	struct ori_coll_part p = ori_coll_part(x->g, x->team->win.comm.nranks);
	struct ori_cell_taken size = { 0, 0 };
	struct ori_exchange part = *x;
	int i, source, err = 0;

	part.g = p.g;
	if (p.g.thread >= ori_cells_takers(p.g))
		return 0;
	for (i = p.first; i < x->team->win.comm.nranks && !err; i += p.step) {
		source = ori_rank_of_step(x, (uint32_t)i);
		size = ori_v_wait(x, source, ori_v_cell(x->team, ORI_V_SIZE));
		err = size.err;
		if (!err && p.g.thread == 0)
			v->recv_bytes[source] = size.word;
		if (!err && size.word <= v->came)
			err = ori_v_take_message(&part, source,
						 v->recv + (uint32_t)source * v->slot, size.word);
	}
	return err;
}

/* The largest size of all ranks.  Their cells have come. */
ORIEL_DEV uint64_t ori_v_longest(const struct ori_exchange *x)
{
	uint64_t word, most = 0;
	int r;

	for (r = 0; r < x->team->win.comm.nranks; r++) {
		(void)ori_round_look(ori_cell_from(x, r, ori_v_cell(x->team, ORI_V_MOST)), &word);
		most = word > most ? word : most;
	}
	return most;
}

/* ---- the round ------------------------------------------------------------------------------- */

/* Called by the group: 0, a status or a stop, the same on all threads.  *is_long: see above. */
ORIEL_DEV int ori_v_meet(struct ori_exchange *x, const struct ori_coll_v *v, int *is_long)
{
	int found = x->g.thread < ori_cells_takers(x->g) ? ori_terms_wait(x) : 0, err;

	if (!found && x->g.thread < ori_cells_takers(x->g))
		found = ori_v_wait_sizes(x, v);
	err = ori_group_agree_any(x->g, found);
	*is_long = err == ORI_V_LONG;
	if (*is_long) /* another thread may have found worse */
		err = ori_group_agree_any(x->g, found == ORI_V_LONG ? 0 : found);
	return err;
}

/*
 * Called by the group.  After it v->most is 0 if all messages have come, and else the largest of
 * all ranks.
 */
ORIEL_DEV int ori_v_round(struct ori_exchange *x, struct ori_coll_v *v)
{
	int err, is_long;

	v->came = x->team->short_bytes;
	ori_v_send(x, v);
	err = ori_v_meet(x, v, &is_long);
	if (err)
		return ori_terms_end(x, err);
	err = ori_v_take(x, v);
	if (err == ORI_TERMS_STOP) /* this rank has seen all terms already */
		err = ORIEL_EMISMATCH;
	v->most = is_long ? ori_v_longest(x) : 0;
	err = ori_group_agree_any(x->g, err);
	if (err)
		return err;
	ori_exchange_end(x);
	x->first = 0;
	return 0;
}

#endif
