/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/team.h - the device handle of a team, and the layout of its memory.
 *
 * A team is the memory in which the ranks of a comm meet for collectives inside a kernel.  The host
 * creates it (oriel/coll/team.h).  It has channels; one group of every rank uses a channel at a
 * time.  Channels are independent of each other.
 *
 * A collective is a sequence of rounds (exchange.h).  In round k of a channel a rank fills slot
 * k % 2 of its own and shows it to all ranks.  Mapped peers read it there.  For queued peers it is
 * put into the row that they have for this rank.  Rounds are counted for ever, in this memory.  So
 * a captured graph can be replayed, and nothing is ever reset.
 *
 * A channel lies in the team's window as follows; all ranks have the same layout:
 *	struct ori_channel
 *	2 slots:           struct ori_show, then slot_bytes of data
 *	nranks x 2 rows:   struct ori_show, then row_bytes of data  (if any rank has queued peers)
 *	nranks x 2 words:  the last WQE of a row that was put       (likewise)
 *	nranks x 2 places: marked cells, see team_cells.h           (if the team has cells)
 * Behind the channels there are struct ori_team_nodes and nranks struct ori_team_place, if any rank
 * has queued peers.  The host writes them once.
 */
#ifndef ORIEL_DEVICE_TEAM_H
#define ORIEL_DEVICE_TEAM_H

#include "types.h"

/* What a rank does in a round.  The first one of a call is compared between all ranks. */
#define ORI_COLL_ALLGATHER 1 /* as diag/diag.h names the use of a window */
#define ORI_COLL_ALLTOALLV 2 /* likewise */
#define ORI_COLL_BROADCAST 3
#define ORI_COLL_ALLREDUCE 4
#define ORI_COLL_REDUCESCATTER 5
#define ORI_COLL_ALLTOALL 6
#define ORI_COLL_SHIFT 28 /* where reports have it in the number of a window */

struct ori_terms {
	uint64_t size; /* elements */
	uint8_t kind;  /* ORI_COLL_* */
	uint8_t type, op;
	uint8_t refused; /* 0, or minus the status with which this rank refuses the call */
	int32_t root;
};

#define ORI_TERMS_CELLS 2u /* their cells in a place */

/*
 * Terms of a line have no root.  A number below -1 tells them from those of other calls, and the
 * ranks compare the part with it.
 */
#define ORI_LINE_ROOT(part, parts, ranks) (-1 - ((parts) + (part) * ((ranks) + 1)))
/* The same when the ranks compare the windows of oriel_coll_into(); `size` is then the offset. */
#define ORI_INTO_ROOT(number) (-(1 << 24) - (number))

/* The head of a slot or row, 64 bytes; data follows. */
struct ori_show {
	struct ori_terms call;
	uint8_t pad[48];
};

/* The state of a channel.  Only this rank uses it. */
struct ori_channel {
	/* complete; by the leader of the group that uses the channel; or with ORI_ROUNDS_FAILED */
	uint64_t rounds;
	/* 0, or a failure word: the first refused call since the host asked, and by which rank */
	uint64_t refused;
	struct ori_terms first, other; /* then: the call of rank 0, and the one that differs */
	uint64_t verdict;              /* kernels/coll.c: minus block 0's status, for all */
	uint8_t pad[ORIEL_LINE_BYTES - 56];
};

/* Set in ori_channel.rounds when a call found the team failed: the next one sends nothing. */
#define ORI_ROUNDS_FAILED (1ull << 63)

/* Ranks of the smallest and of the largest node. */
struct ori_team_nodes {
	uint32_t least, most;
};

/* Where a rank is: number of its node, its number in that node, ranks of the node. */
struct ori_team_place {
	uint32_t node;
	uint16_t index, size;
};

struct oriel_team_dev {
	struct oriel_window_dev win;
	struct oriel_source source; /* the window's own buffer */
	uint64_t channel_bytes;     /* from one channel to the next */
	uint64_t slot_bytes;        /* data of a slot, a multiple of 64 */
	uint64_t row_bytes;  /* data of a row, a multiple of 64; 0: nobody has queued peers */
	uint32_t once_bytes; /* up to here an all-reduce is one round: each rank reduces all */
	uint32_t channels;
	uint32_t cell_bytes;  /* room of a place, in cells; 0: the team has none */
	uint32_t short_bytes; /* up to here ordinary calls send blocks in cells */
	uint64_t cells_off;   /* of the places, in a channel */
	uint64_t first_round; /* where marks start: for tests of wrap-around */
};

static_assert(sizeof(struct ori_terms) == 16, "layout");
static_assert(sizeof(struct ori_show) == 64, "layout");
static_assert(sizeof(struct ori_channel) == ORIEL_LINE_BYTES, "layout");
static_assert(sizeof(struct oriel_team_dev) <= 1152, "the handle travels by value");

#endif
