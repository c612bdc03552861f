/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/coll.h - host-issued collectives of a team: three kernels.
 *
 * coll/team fills a struct and launches.  In coll.c each block has a channel of the team and a
 * share of the elements.  The number of blocks follows from the size of the call, which may differ
 * between ranks by mistake.  So with several blocks, block 0 first compares the calls, and the
 * other blocks wait for its verdict: otherwise a block could wait for one that does not exist.
 *
 * reduce_node.c (all-reduce) and scatter_node.c (reduce-scatter, broadcast) are for long calls of
 * ranks that all map each other.  A team of such ranks on separate devices has a stage behind its
 * channels.  It begins with a desk, where the other ranks put a record of each call that they make
 * with any of the kernels.
 */
#ifndef ORI_KERNELS_COLL_H
#define ORI_KERNELS_COLL_H

#include <oriel/device/reduce.h>
#include <oriel/device/team.h>

#define ORI_COLL_GRID 0     /* barrier id where the blocks meet */
#define ORI_COLL_BARRIERS 1 /* of a team's window */
#define ORI_COLL_THREADS 512
/* The least that a GPU's block gets: below this more blocks only add their rounds. */
#define ORI_COLL_BLOCK_BYTES (64u << 10)

struct ori_coll_args {
	struct oriel_team_dev team;
	struct oriel_launch_dev launch; /* separate devices: where a failure is reported */
	struct ori_terms call;
	const uint8_t *send;
	uint8_t *recv;
	uint64_t stage_off; /* in the team's window; 0: the team has no stage */
};

/* Elements of a block, in whole chunks of 64 bytes; *begin: the first. */
ORIEL_DEV uint64_t ori_coll_block_share(const struct ori_terms *call, struct oriel_group g,
					uint64_t *begin)
{
	uint64_t unit = 64u / (call->type ? oriel_type_bytes(call->type) : 1);
	uint64_t share = (call->size + g.nblocks - 1) / g.nblocks;

	share = (share + unit - 1) / unit * unit;
	*begin = share * g.block;
	if (*begin >= call->size)
		return 0;
	return call->size - *begin < share ? call->size - *begin : share;
}

/* ---- the stage ------------------------------------------------------------------------------- */

/* Ranks of a team that has a stage, and the bytes of each of its two parts behind the desk. */
#define ORI_COLL_STAGE_RANKS 8
#define ORI_COLL_STAGE_BYTES (2u << 20)
/* Its signals, after those of the channels. */
#define ORI_COLL_READY(channels) (channels)
#define ORI_COLL_MET(channels) ((channels) + 1)
#define ORI_COLL_SIGNALS 2u

/* Where the buffers of a call are. */
struct ori_coll_places {
	uint64_t send_off, recv_off;      /* in those windows */
	int32_t send_window, recv_window; /* numbers; both -1: not both in windows */
};

/* What a rank puts into the desks of the others before it signals READY. */
struct ori_coll_record {
	uint64_t number; /* of the call; READY has the same */
	struct ori_terms call;
	struct ori_coll_places places;
	uint8_t pad[16];
};

struct ori_coll_desk {
	struct ori_coll_record from[ORI_COLL_STAGE_RANKS];
	/* The rest is used by this rank only. */
	uint64_t calls; /* made on this team */
	uint64_t met;   /* to what MET of all ranks has come */
	uint32_t done;  /* blocks of a grid that need these two no more; 0 between launches */
	uint32_t way;   /* ORI_NODE_* of the last long call, for tests */
	uint8_t pad[ORIEL_LINE_BYTES - 24];
};

/* How a long call goes. */
#define ORI_NODE_DIRECT 1  /* between windows */
#define ORI_NODE_STAGED 2  /* through the stage */
#define ORI_NODE_DIFFERS 3 /* ranks have made different calls */

/* As ori_gather_node_op: only what the kernel needs. */
struct ori_node_op {
	struct oriel_comm_dev comm;
	uint64_t *failure; /* of the team's window, and so are these */
	uint64_t *signal_words;
	uint32_t signal_stride;
	uint32_t ready, met;               /* ORI_COLL_READY and ORI_COLL_MET */
	const struct oriel_team_dev *team; /* in the device's memory; for what is rare */
	struct oriel_launch_dev launch;
	struct ori_terms call;
	const uint8_t *send;
	uint8_t *recv;
	struct ori_coll_places places;
	int32_t number; /* of the team's window, for reports */
	struct {
		struct ori_coll_desk *desk;
		uint64_t *signals;
		uint8_t *send, *recv; /* the windows of `places`, where this rank maps them */
	} near[ORI_COLL_STAGE_RANKS];
};

static_assert(sizeof(struct ori_coll_record) == 64, "layout");
static_assert(sizeof(struct ori_coll_desk) % ORIEL_LINE_BYTES == 0, "layout");

#ifndef ORIEL_KERNEL_IMAGE
struct oriel_kernel;
const struct oriel_kernel *ori_coll_kernel(void);
/* These take struct ori_node_op. */
const struct oriel_kernel *ori_reduce_node_kernel(void);
const struct oriel_kernel *ori_scatter_node_kernel(void);
#endif

#endif
