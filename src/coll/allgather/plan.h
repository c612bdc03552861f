/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/plan.h - the route of each block of an all-gather.  Pure functions of the topology
 * and of speeds that all ranks agreed on, so the answers of all ranks fit together.
 *
 *	plan.c    which block comes from which rank, and to which ranks it is forwarded
 *	choose.c  which algorithm, which chunk, and the expected cost
 */
#ifndef ORI_GATHER_PLAN_H
#define ORI_GATHER_PLAN_H

#include <stdint.h>

struct ori_topology;

/* ---- plan.c ---------------------------------------------------------------------------------- */

/* Which ranks are on which node, in rank order. */
struct ori_gather_map {
	int nranks, nnodes, rank;
	int rails;         /* ranks of the largest node */
	const int *node;   /* [nranks] */
	const int *rail;   /* [nranks] place in its node */
	int *first, *size; /* [nnodes] a node's first index in members, and its size */
	int *members;      /* [nranks] */
};

/*
 * One stream of blocks between two ranks: the items that an in-flow brings or an out-flow takes, in
 * order.
 */
struct ori_gather_flow {
	int peer;
	int nitems;
	int *items; /* [nitems] indices of plan items */
};

/*
 * What reaches this rank from other nodes, and what it forwards.  items[0] is the own block.  The
 * others follow in the order of their distance in nodes.  Sends of an item to different flows may
 * go in any order.  Items of one flow go in the order of the flow.
 */
struct ori_gather_plan {
	int algorithm;
	int relay; /* blocks that come from other nodes are broadcast in this one */
	int nitems;
	int *block; /* [nitems] rank that owns it */
	int *from;  /* [nitems] in-flow that brings it; -1: own */
	int *place; /* [nitems] its index there */
	int nin, nout;
	struct ori_gather_flow *in, *out;
};

int ori_gather_map_make(const struct ori_topology *, int rank, struct ori_gather_map *);
void ori_gather_map_free(struct ori_gather_map *);
int ori_gather_plan_make(const struct ori_gather_map *, int algorithm, struct ori_gather_plan **);
void ori_gather_plan_free(struct ori_gather_plan *);

/* ---- choose.c -------------------------------------------------------------------------------- */

/*
 * Measured when the first request of a comm is created.  The median over ranks; the same on all
 * ranks.
 */
struct ori_gather_speed {
	double latency_ns;  /* a small put with its signal, between nodes */
	double net_ns_byte; /* of a large one */
	double copy_ns_byte;
};

struct ori_gather_choice {
	int algorithm;
	uint64_t chunk;
	double cost_ns[4]; /* by algorithm; 0 for AUTO */
};

/*
 * bytes: of one rank's block.  wanted, chunk: the options, 0 to choose.  direct: DIRECT may be
 * chosen.
 */
void ori_gather_choose(const struct ori_gather_map *, const struct ori_gather_speed *,
		       uint64_t bytes, int wanted, uint64_t chunk, int direct,
		       struct ori_gather_choice *);
const char *ori_gather_name(int algorithm);
/* "fastest" and so on.  The other way round: the policy; ORIEL_ECONFIG, logged, if it is none. */
const char *ori_gather_policy_name(int policy);
int ori_gather_policy_of(const char *call, const char *text);
/* Separate devices: blocks up to this many bytes are moved by a kernel, larger ones are copied. */
uint64_t ori_gather_kernel_bytes(const struct ori_gather_map *, int policy);

#endif
