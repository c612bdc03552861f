/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/links.h - the engine of a comm, the tables of its queues (links.c) and its queue pairs
 * (lanes.c).  connect.c fills the tables.
 */
#ifndef ORI_LINKS_H
#define ORI_LINKS_H

#include "memory.h"

/*
 * What a lane needs besides the engine's queue pairs.  It is in host memory.  On a separate device
 * the two struct oriel_queue have a copy in device memory, which kernels use.
 */
struct ori_lane_memory {
	struct oriel_queue main, companion;
	uint64_t sink;
	uint8_t pad[ORIEL_LINE_BYTES - 8];
	struct {
		uint32_t record[2];
		uint64_t doorbell;
	} main_bell, companion_bell;
	uint8_t pad2[ORIEL_LINE_BYTES - 32];
	/*
	 * Behind it, unless the engine has rings of its own: main sq, main cq, companion sq,
	 * companion cq, depth * 64 bytes each.
	 */
};

/*
 * Tables are [nranks] or [nranks * lanes].  Rows of mapped peers, and of queued peers that are not
 * connected, are zeros and have no memory.  Each call that connects allocates memory for the wires
 * and lanes of its peers.  So the slab need not grow with the number of ranks.
 *
 * A wire is memory at the receiver that carries packets of the software NIC from one rank.
 */
struct ori_links {
	uint32_t lanes, depth;
	uint64_t start;      /* index of a queue's first WQE */
	uint64_t lane_bytes; /* host memory per lane; a multiple of a cache line */
	uint64_t results;    /* offset in the slab */
	uint32_t result_key[ORIEL_NICS_MAX];
	struct ori_peer_links {
		char *wires;            /* from that rank, one per NIC; its engine writes them */
		struct ori_export told; /* how that rank finds them */
		char *lanes;            /* lane_bytes each */
		struct ori_lane_memory *near; /* mirror of the queues, one per lane; CPU: NULL */
		struct ori_import *import;    /* the wires to that rank, in its memory */
	} * peers;
	struct oriel_link *link;
	struct oriel_lane *lane;
	uint32_t *number; /* of a lane's main queue, as the peer's connect() names it */
	uint32_t (*sink_key)[ORIEL_NICS_MAX];
	uint64_t *last_signal;
	/* The copies that kernels use; on the CPU dev_link is `link` itself. */
	const struct oriel_link *dev_link;
	const void *near_lanes, *near_words;
};

/* struct oriel_comm.syndrome: the last error CQE of this rank. */
#define ORI_SYNDROME_NOTE(peer, lane, is_main, syndrome)                                           \
	((uint64_t)(uint32_t)(peer) << 32 | (uint64_t)((lane)&0xffffu) << 16 |                     \
	 (uint64_t)((is_main) != 0) << 9 | 1u << 8 | ((syndrome)&0xffu))

/* Collective: chooses the best engine that all ranks offer. */
int ori_links_choose(struct oriel_comm *);
/* Opens the chosen engine on this rank and makes the tables, without queues to any peer. */
int ori_links_open(struct oriel_comm *);
/* Closes the engine and frees the tables; the slab goes with the comm. */
void ori_links_free(struct oriel_comm *);
/* Waits until all operations that this rank has posted are complete. */
int ori_links_flush(struct oriel_comm *);
/* The link for kernels.  NULL: no queues to that rank, which is mapped or not connected. */
const struct oriel_link *ori_link_to(struct oriel_comm *, int rank);
/* Takes slab memory that stays until the comm ends.  Takes nothing for 0 bytes. */
int ori_links_take(struct oriel_comm *, uint64_t bytes, uint64_t *offset);
/* Size of all wires from one rank, in whole pages; 0 if the engine needs none. */
uint64_t ori_links_wire_bytes(const struct oriel_comm *);
/* Memory for the wires and lanes of all ranks r with fresh[r]; it stays until the comm ends. */
int ori_links_make_memory(struct oriel_comm *, const uint8_t *fresh, int count);

/* The lane's main queue; NULL until the lane is complete.  Any thread. */
struct oriel_queue *ori_lane_main(const struct oriel_lane *);
/* Host memory per lane. */
uint64_t ori_lane_bytes(uint32_t depth, int own_rings);
/* Makes the queues of lane `n` to a rank, in the memory of ori_links_make_memory(). */
int ori_lane_make(struct oriel_comm *, struct ori_links *, int rank, uint32_t n);
int ori_lane_connect(struct oriel_comm *, struct ori_links *, int rank, uint32_t n,
		     uint32_t remote_number);
/* Copies the lane's queues to device memory.  *out is the lane for kernels. */
int ori_lane_publish(struct oriel_comm *, struct ori_links *, int rank, uint32_t n,
		     struct oriel_lane *out);
/* Callbacks of the engine for a failed queue: doomed ends the waits, failed reports the cause. */
void ori_lane_doomed(void *comm, uint32_t nic, uint32_t qpn);
void ori_lane_failed(void *comm, uint32_t nic, uint32_t qpn, uint64_t wqe, uint32_t syndrome);

#endif
