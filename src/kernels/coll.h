/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/coll.h - host-issued collectives of a team as one kernel.
 *
 * coll/team fills the struct and launches.  Each block has a channel of the team and a share of the
 * elements.  The number of blocks follows from the size of the call, which may differ between ranks
 * by mistake.  So with several blocks, block 0 first compares the calls, and the other blocks wait
 * for its verdict: otherwise a block could wait for one that does not exist.
 */
#ifndef ORI_KERNELS_COLL_H
#define ORI_KERNELS_COLL_H

#include <oriel/device/team.h>

#define ORI_COLL_GRID 0     /* barrier id where the blocks meet */
#define ORI_COLL_BARRIERS 1 /* of a team's window */
#define ORI_COLL_THREADS 512
/* The least that a GPU's block gets: below this more blocks only add their rounds. */
#define ORI_COLL_BLOCK_BYTES (64u << 10)

/* In ori_channel.verdict, above the status: the way of a long all-reduce (coll_direct.h). */
#define ORI_COLL_IS_DIRECT (1ull << 32)
#define ORI_COLL_IS_FILLED (2ull << 32)
/* Ranks of a team that has a stage, and the bytes of each of its two parts. */
#define ORI_COLL_STAGE_RANKS 8
#define ORI_COLL_STAGE_BYTES (8u << 20)

/* Where the buffers of a rank are: see coll_direct.h.  Shown to the other ranks. */
struct ori_coll_places {
	uint64_t send_off, recv_off;      /* in those windows */
	int32_t send_window, recv_window; /* numbers; both -1: not both in windows */
};

struct ori_coll_args {
	struct oriel_team_dev team;
	struct oriel_launch_dev launch; /* separate devices: where a failure is reported */
	struct ori_terms call;
	const uint8_t *send;
	uint8_t *recv;
	struct ori_coll_places places;
	const struct oriel_window_peer *send_peers, *recv_peers; /* of those windows */
	uint64_t stage_off, stage_bytes; /* in the team's window; 0 bytes: the team has no stage */
};

#ifndef ORIEL_KERNEL_IMAGE
struct oriel_kernel;
const struct oriel_kernel *ori_coll_kernel(void);
#endif

#endif
