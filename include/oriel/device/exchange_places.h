/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/exchange_places.h - a call on a team's channel, and where its rounds have data: see
 * exchange.h.
 */
#ifndef ORIEL_DEVICE_EXCHANGE_PLACES_H
#define ORIEL_DEVICE_EXCHANGE_PLACES_H

#include "../device.h"
#include "sources.h"
#include "team_cells.h"

/* One call on a channel.  Every thread of the group has its own copy, all alike. */
struct ori_exchange {
	const struct oriel_team_dev *team;
	struct oriel_group g;
	struct ori_terms call;
	uint32_t channel;
	int32_t first;  /* the next round is the first one of this call */
	uint64_t round; /* number of the next round */
	uint64_t base;  /* offset of the channel in the window */
	/* data is exchanged with the ranks r of which (rank + r) % parts is part; 0 and 1: all */
	int32_t part, parts;
};

/*
 * Ranks of a part.  Both ends of an exchange have it in the same part, whatever their ranks are.
 * The first one, and how many they are: first, first + parts and so on.
 */
ORIEL_DEV int ori_part_first(const struct ori_exchange *x)
{
	int left = x->part - x->team->win.comm.rank % x->parts;

	return left < 0 ? left + x->parts : left;
}

ORIEL_DEV uint32_t ori_part_ranks(const struct ori_exchange *x)
{
	int n = x->team->win.comm.nranks, first = ori_part_first(x);

	return (uint32_t)(x->parts == 1 ? n :
			  first < n     ? (n - first + x->parts - 1) / x->parts :
					  0);
}

ORIEL_DEV int ori_part_has(const struct ori_exchange *x, int r)
{
	return x->parts == 1 || (x->team->win.comm.rank + r) % x->parts == x->part;
}

/* The data of a round: pieces for each rank from the start of the slot on, and a part for all. */
struct ori_parts {
	uint64_t piece;      /* bytes from one rank's piece to the next; 0: no pieces */
	uint64_t pieces;     /* bytes of all pieces together: the last ones may be shorter */
	uint64_t common_off; /* in the slot */
	uint64_t common;     /* bytes */
};

ORIEL_DEV const struct ori_team_nodes *ori_team_nodes(const struct oriel_team_dev *t)
{
	return (const struct ori_team_nodes *)(const void *)(t->win.buffer +
							     t->channels * t->channel_bytes);
}

ORIEL_DEV const struct ori_team_place *ori_team_places(const struct oriel_team_dev *t)
{
	return (const struct ori_team_place *)(const void *)(ori_team_nodes(t) + 1);
}

/* What a rank takes of data that the ranks of a node divide among them. */
struct ori_share {
	uint64_t begin, bytes;
};

/* Whole lines of 64 bytes, but for the last one. */
ORIEL_DEV struct ori_share ori_nodes_share(struct ori_team_place place, uint64_t bytes)
{
	uint64_t most = ((bytes + place.size - 1) / place.size + 63) & ~(uint64_t)63;
	struct ori_share s;

	s.begin = most * place.index;
	if (s.begin > bytes)
		s.begin = bytes;
	s.bytes = bytes - s.begin < most ? bytes - s.begin : most;
	return s;
}

ORIEL_DEV struct ori_channel *ori_exchange_state(const struct ori_exchange *x)
{
	return (struct ori_channel *)(void *)(x->team->win.buffer + x->base);
}

/* Offset of the head of this round's slot in every rank's window. */
ORIEL_DEV uint64_t ori_exchange_slot_off(const struct ori_exchange *x, uint64_t round)
{
	return x->base + sizeof(struct ori_channel) +
	       (round & 1u) * (sizeof(struct ori_show) + x->team->slot_bytes);
}

/* Offset of the head of the row of rank `source`. */
ORIEL_DEV uint64_t ori_exchange_row_off(const struct ori_exchange *x, uint64_t round, int source)
{
	return x->base + sizeof(struct ori_channel) +
	       2 * (sizeof(struct ori_show) + x->team->slot_bytes) +
	       (2 * (uint64_t)(uint32_t)source + (round & 1u)) *
		       (sizeof(struct ori_show) + x->team->row_bytes);
}

/* The number of the last WQE of this round's puts to a queued peer. */
ORIEL_DEV uint64_t *ori_exchange_posted(const struct ori_exchange *x, int peer)
{
	uint64_t rows = ori_exchange_row_off(x, 0, x->team->win.comm.nranks);

	return (uint64_t *)(void *)(x->team->win.buffer + rows) +
	       (2 * (uint64_t)(uint32_t)peer + (x->round & 1u));
}

/* Where this rank's data of the next round goes. */
ORIEL_DEV uint8_t *ori_exchange_slot(const struct ori_exchange *x)
{
	return x->team->win.buffer + ori_exchange_slot_off(x, x->round) + sizeof(struct ori_show);
}

ORIEL_DEV struct ori_sources ori_exchange_sources(const struct ori_exchange *x, uint64_t round,
						  uint64_t slot_off, uint64_t row_off)
{
	struct ori_sources s;

	s.win = &x->team->win;
	s.own = x->team->win.comm.rank;
	s.n = x->team->win.comm.nranks;
	s.mapped_off = ori_exchange_slot_off(x, round) + sizeof(struct ori_show) + slot_off;
	s.mine = x->team->win.buffer + s.mapped_off;
	s.queued_off = ori_exchange_row_off(x, round, 0) + sizeof(struct ori_show) + row_off;
	s.queued_bytes = 2 * (sizeof(struct ori_show) + x->team->row_bytes);
	s.rows = NULL;
	s.row_bytes = 0;
	s.table = NULL;
	return s;
}

/* What every rank has shown for this rank in the round that was met last. */
ORIEL_DEV struct ori_sources ori_exchange_pieces(const struct ori_exchange *x,
						 struct ori_parts parts)
{
	return ori_exchange_sources(x, x->round - 1, parts.piece * (uint32_t)x->team->win.comm.rank,
				    0);
}

/* What every rank has shown for all.  A row holds it behind the piece of its rank. */
ORIEL_DEV struct ori_sources ori_exchange_commons(const struct ori_exchange *x,
						  struct ori_parts parts)
{
	return ori_exchange_sources(x, x->round - 1, parts.common_off, parts.piece);
}

#endif
