/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/links.h - the queues of a comm, shared by links.c (memory and meeting) and lanes.c (queue pairs). */
#ifndef ORI_LINKS_H
#define ORI_LINKS_H

#include "comm.h"

/* What lies beside each lane in the slab. */
struct ori_lane_memory {
	struct oriel_queue main, companion;
	uint64_t sink;
	uint8_t pad[ORIEL_LINE_BYTES - 8];
	struct {
		uint32_t record[2];
		uint64_t doorbell;
	} main_bell, companion_bell;
	uint8_t pad2[ORIEL_LINE_BYTES - 32];
	/* then: main sq, main cq, companion sq, companion cq, depth * 64 bytes each */
};

struct ori_links {
	uint32_t lanes, depth;
	uint64_t start;
	uint64_t offset, bytes;                           /* in the slab */
	uint64_t wires, results, lane_memory, lane_bytes; /* offsets in the slab */
	struct oriel_link *link;                          /* [nranks] */
	struct oriel_lane *lane;              /* [nranks * lanes], those of mapped peers unused */
	uint32_t (*sink_key)[ORIEL_NICS_MAX]; /* [nranks * lanes] */
	uint32_t result_key[ORIEL_NICS_MAX];
	uint64_t *last_signal; /* [nranks] */
	const struct oriel_link
		*dev_link; /* [nranks] as kernels see them; link itself where memory is one */
};

/* lanes.c: makes the queues of lane `n` towards a rank over their memory. */
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
