/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/coll_short.h - collectives of one short round (coll_cells.h).
 *
 * Whether a call is short follows from its terms and the team alone.  Ranks with other terms may
 * take the other way; all of them send their terms first, and so learn of it.
 */
#ifndef ORIEL_DEVICE_COLL_SHORT_H
#define ORIEL_DEVICE_COLL_SHORT_H

#include "coll_words.h"

/* A block in the rows of a reduction: so that its elements are aligned. */
ORIEL_DEV uint64_t ori_short_row(uint64_t bytes)
{
	return (bytes + 15) & ~(uint64_t)15;
}

/*
 * `bytes` of a block; 0 is short too: a call that moves nothing, or that this rank refuses.  `most`
 * is short_bytes of the team, or ori_line_cells() of a line (coll_line.h).
 */
ORIEL_DEV int ori_coll_is_short(const struct oriel_team_dev *team, const struct ori_terms *call,
				uint64_t bytes, uint32_t most)
{
	uint64_t n = (uint32_t)team->win.comm.nranks;

	if (!team->cell_bytes || bytes > most)
		return 0;
	return !call->type || n * ori_short_row(bytes) <= team->slot_bytes;
}

/* Called by the group: combines the rows that a short round has filled. */
ORIEL_DEV int ori_short_reduce(struct ori_exchange *x, struct ori_reducer how, const uint8_t *rows,
			       uint64_t row, uint8_t *recv)
{
	struct ori_sources from = ori_exchange_sources(x, x->round, 0, 0);

	from.rows = rows;
	from.row_bytes = row;
	ori_reducer_run(how, x->g, recv, &from, x->call.size);
	return oriel_group_sync(x->g);
}

/* `stride`: from one rank's block in send or recv to the next.  `how`: see coll_long.h. */
ORIEL_DEV_LONG int ori_coll_short(struct ori_exchange *x, ORI_VALUE(ori_reducer) how,
				  const uint8_t *send, uint8_t *recv, uint64_t stride,
				  uint64_t bytes)
{
	const struct ori_terms *call = &x->call;
	int personal = call->kind == ORI_COLL_ALLTOALL || call->kind == ORI_COLL_REDUCESCATTER;
	uint8_t *rows = ori_exchange_slot(x);
	struct ori_short s;
	int err;

	s.send = send;
	s.recv = recv;
	s.send_stride = personal ? stride : 0;
	s.recv_stride = stride;
	s.bytes = call->refused ? 0 : (uint32_t)bytes;
	s.root = call->kind == ORI_COLL_BROADCAST ? call->root : -1;
	s.inverse = s.bytes ? (1ull << 32) / ori_short_cells(&s) + 1 : 0;
	if (how.type) {
		s.recv = rows;
		s.recv_stride = ori_short_row(bytes);
	}
	err = ori_short_round(x, &s);
	if (err || !s.bytes || !how.type)
		return err;
	return ori_short_reduce(x, how, rows, s.recv_stride, recv);
}

#endif
