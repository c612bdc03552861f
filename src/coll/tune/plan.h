/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/tune/plan.h - how an all-to-all-v is cut: blocks, threads and chunks for each kind of peer.
 *
 * A plan is about speed alone: ranks that run by different plans still exchange correctly, and
 * every call may have another.  coll/alltoallv asks for one when a request is made and when the
 * size of its calls changes; coll/tune answers, from what all ranks have agreed on.
 */
#ifndef ORI_COLL_TUNE_PLAN_H
#define ORI_COLL_TUNE_PLAN_H

#include <stddef.h>
#include <stdint.h>

struct oriel_comm;

/* Index of ori_a2a_plan.kind; self goes with the mapped peers. */
#define ORI_PLAN_MAPPED 0
#define ORI_PLAN_QUEUED 1
#define ORI_PLAN_KINDS 2

struct ori_a2a_setting {
	uint32_t blocks; /* for each peer of this kind, at least 1; the CPU runs them in turn */
	uint32_t warps;  /* threads of a block in 32s; CPU: threads of a block */
	uint64_t chunk;  /* bytes of one copy or one put, a multiple of 16 */
};

struct ori_a2a_plan {
	struct ori_a2a_setting kind[ORI_PLAN_KINDS];
	uint32_t small;    /* bytes per peer up to which data carries its own mark; 0: never */
	uint32_t uniform;  /* all peers are mapped: kind[ORI_PLAN_MAPPED] is all there is */
	uint32_t cores;    /* CPU: blocks of this rank that find a core each, at least 1; CUDA: 0 */
	uint32_t reserved; /* 0; plans are compared as bytes */
};

/*
 * [C] All ranks take one table: the lowest rank's whose file fits, else the first guess.  The first
 * call on a comm is one round, later ones do nothing.  Called by whatever makes a request, on all
 * ranks alike.
 */
int ori_tune_agree(struct oriel_comm *comm);

/*
 * bytes_per_peer: what a call is expected to send to the peer that gets most.  Not collective: the
 * same table and the same bytes give the same plan on all ranks.  Before ori_tune_agree() it is the
 * first guess.
 */
int ori_tune_plan(struct oriel_comm *comm, uint64_t bytes_per_peer, struct ori_a2a_plan *plan);

/* One line for people: the plan, and why it is so ("measured ...", "first guess for cuda"). */
int ori_tune_explain(struct oriel_comm *comm, uint64_t bytes_per_peer, char *text, size_t bytes);

/*
 * What was measured of the way to peers of a kind (ORI_PLAN_*): time of an empty exchange, and the
 * bytes a rank sends that way in a microsecond.  ORIEL_EUNSUPPORTED, silently, when nothing was.
 */
int ori_tune_link(struct oriel_comm *comm, int kind, uint64_t *latency_ns, uint64_t *bytes_per_us);

#endif
