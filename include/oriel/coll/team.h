/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/coll/team.h - the memory for collectives inside a kernel.
 *
 * The calls themselves are in oriel/device/coll.h.  A kernel gets the handle by value, as it gets
 * the handle of a window:
 *
 *	struct args { struct oriel_team_dev team; float *data; };
 *
 *	ORIEL_KERNEL(add_up, struct args)
 *	{
 *		return oriel_coll_allreduce(&a->team, oriel_group_block(), 0, a->data, a->data,
 *					    1024, ORIEL_TYPE_FLOAT, ORIEL_REDUCE_SUM);
 *	}
 *
 * [C] marks a collective call, as in oriel/oriel.h.
 */
#ifndef ORIEL_COLL_TEAM_H
#define ORIEL_COLL_TEAM_H

#include <stddef.h>
#include <stdint.h>

#include "../device/team.h"

#ifdef __cplusplus
extern "C" {
#endif

struct oriel_comm;
struct oriel_team;

/*
 * Short calls can move their data in marked cells, as packets do: one step instead of four.  That
 * needs ranks that all map each other.  The table of oriel-tune says up to which size it is faster.
 * Without a table GPUs choose it up to 4 KiB, and CPUs do not: for them a mark in every word was
 * slower (docs/decisions/0019).
 */
enum oriel_cells { ORIEL_CELLS_CHOSEN = 0, ORIEL_CELLS_NEVER = 1, ORIEL_CELLS_IF_POSSIBLE = 2 };

/* The same on all ranks. */
struct oriel_team_options {
	size_t size;
	uint32_t channels; /* calls that may run at the same time, at least 1 */
	uint32_t cells;    /* ORIEL_CELLS_*: how short calls move their data */
	/*
	 * Data that a rank shows in one round of a channel; 0: chosen.  Longer calls have several
	 * rounds.  A channel takes twice this much memory, and about six times if any rank has
	 * queued peers.  Cells take another 16 KiB per rank.
	 */
	uint64_t slot_bytes;
	uint64_t first_count; /* where words start: for tests of wrap-around */
	/*
	 * In a team with cells, lines (oriel/device/coll_line.h) use them for blocks of this many
	 * bytes too, if other calls do not anyway; 0: as other calls.  A multiple of 8, at most
	 * 64 KiB, and 4 KiB with more than 64 ranks.  Cells then take four times this much memory
	 * per rank and channel.
	 */
	uint64_t line_bytes;
};
#define ORIEL_TEAM_OPTIONS_INIT                                                                    \
	{                                                                                          \
		sizeof(struct oriel_team_options), 1, 0, 0, 0, 0                                   \
	}

/*
 * Creates a team, the memory for collectives inside a kernel.  options may be NULL.  Creates
 * missing queues to peers (a comm made with ORIEL_CONNECT_NONE has none). [C]
 */
int oriel_team_create(struct oriel_comm *comm, const struct oriel_team_options *options,
		      struct oriel_team **team);
/*
 * Gives the team's handle for kernels; valid until the team is destroyed.  Graphs may contain it.
 */
int oriel_team_device(struct oriel_team *team, struct oriel_team_dev *dev);
/*
 * Gives the address of the team's handle for kernels.  It is in memory that kernels can read, as
 * oriel_window_device_address() gives it for a window.  It is for languages whose kernels take
 * pointers.  The handle never changes, and the address is valid until the team is destroyed.
 */
int oriel_team_device_address(struct oriel_team *team, const struct oriel_team_dev **dev);
/*
 * The first failure of the team.  Without one: the first call on any channel that was refused since
 * the last oriel_team_status(), with the rank and the reason; or 0.
 */
int oriel_team_status(struct oriel_team *team);
/* Destroys the team and frees its memory. [C] */
int oriel_team_destroy(struct oriel_team *team);

#ifdef __cplusplus
}
#endif

#endif
