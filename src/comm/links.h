/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/links.h - the engine of a comm, the tables of its queues (links.c) and its queue pairs
 * (lanes.c).  connect.c fills the tables.
 */
#ifndef ORI_LINKS_H
#define ORI_LINKS_H

#include "memory.h"

/*
 * What a lane needs besides the engine's queue pairs.  It lies in the host's memory; the queues are
 * mirrored in the device's.
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
	 * then, unless the engine brings its own: main sq, main cq, companion sq, companion cq,
	 * depth * 64 bytes each
	 */
};

/*
 * Tables are [nranks] or [nranks * lanes].  Rows of mapped peers, and of queued peers that are not
 * connected, are zeros and have no memory.  Each call that connects makes memory for the wires and
 * lanes of its peers, so the slab does not grow with the ranks of a job.
 */
struct ori_links {
	uint32_t lanes, depth;
	uint64_t start;      /* index of a queue's first WQE */
	uint64_t lane_bytes; /* what a lane takes of the host's memory; a multiple of a line */
	uint64_t results;    /* offset in the slab */
	uint32_t result_key[ORIEL_NICS_MAX];
	struct ori_peer_links {
		char *wires;            /* from that rank, one per NIC; its engine writes there */
		struct ori_export told; /* where they are, as that rank is told */
		char *lanes;            /* lane_bytes each */
		struct ori_lane_memory *near; /* mirror of the queues, one per lane; CPU: NULL */
		struct ori_import *import;    /* of the wires to that rank, in its memory */
	} * peers;
	struct oriel_link *link;
	struct oriel_lane *lane;
	uint32_t *number; /* of a lane's main queue, as the peer's connect() names it */
	uint32_t (*sink_key)[ORIEL_NICS_MAX];
	uint64_t *last_signal;
	/* As kernels see them; the same tables where memory is one. */
	const struct oriel_link *dev_link;
	const void *near_lanes, *near_words;
};

/* The best engine that all ranks offer; the same on all of them.  Collective. */
int ori_links_choose(struct oriel_comm *);
/* This rank opens the chosen engine and makes its tables, without queues to anybody. */
int ori_links_open(struct oriel_comm *);
/* Stops the engine and frees what is not in the slab. */
void ori_links_free(struct oriel_comm *);
/* Waits until all that this rank has posted is complete. */
int ori_links_flush(struct oriel_comm *);
/* As kernels see it; NULL without queues to that rank: mapped, or not connected. */
const struct oriel_link *ori_link_to(struct oriel_comm *, int rank);
/* Slab memory that lives as long as the comm; nothing for 0 bytes. */
int ori_links_take(struct oriel_comm *, uint64_t bytes, uint64_t *offset);
/* All wires from one rank, in whole pages; 0 where the engine has its own. */
uint64_t ori_links_wire_bytes(const struct oriel_comm *);
/* Memory for wires and lanes of the ranks that `fresh` names; it goes with the comm. */
int ori_links_make_memory(struct oriel_comm *, const uint8_t *fresh, int count);

/* The lane's main queue, on any thread; NULL until the lane is whole. */
struct oriel_queue *ori_lane_main(const struct oriel_lane *);
/* What a lane takes of the host's memory. */
uint64_t ori_lane_bytes(uint32_t depth, int own_rings);
/* Makes the queues of lane `n` towards a rank over their memory. */
int ori_lane_make(struct oriel_comm *, struct ori_links *, int rank, uint32_t n);
int ori_lane_connect(struct oriel_comm *, struct ori_links *, int rank, uint32_t n,
		     uint32_t remote_number);
/* Mirrors the lane's queues into the device's memory; *out is the lane as kernels name it. */
int ori_lane_publish(struct oriel_comm *, struct ori_links *, int rank, uint32_t n,
		     struct oriel_lane *out);
/* The engine's reports of a failed queue: the mark that ends waits, then the cause for people. */
void ori_lane_doomed(void *comm, uint32_t nic, uint32_t qpn);
void ori_lane_failed(void *comm, uint32_t nic, uint32_t qpn, uint64_t wqe, uint32_t syndrome);

#endif
