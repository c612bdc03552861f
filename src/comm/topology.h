/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/topology.h - which peers are mapped, which are queued, and why.
 *
 * ori_classify() is a pure function of the facts of all ranks, so every rank gets the same answer.
 * The facts of a rank already contain its overrides (environment variables and options), so no rank
 * decides on something that the others have not seen.
 */
#ifndef ORI_TOPOLOGY_H
#define ORI_TOPOLOGY_H

#include <stdint.h>

#include "../device/facts.h"
#include "../util/config.h"

#define ORI_REASON_MAX 128

struct ori_pair {
	int32_t kind;   /* ORIEL_PEER_* of include/oriel/device/types.h */
	uint32_t flags; /* ORIEL_PEER_NO_ATOMICS: a has no atomics on b's memory */
	char reason[ORI_REASON_MAX];
};

struct ori_topology {
	int nranks, nnodes;
	int *node;      /* [nranks] dense ids, in the order of their lowest rank */
	int *node_rank; /* [nranks] dense, by rank */
	int *node_size; /* [nranks] size of that rank's node */
};

/*
 * Fills *out (free it with ori_topology_free), or fails with a message that names the ranks.  It
 * fails if overrides disagree, if a layout does not fit nranks, or for ORIEL_FABRIC=on without a
 * fabric.
 */
int ori_classify(const struct ori_facts *facts, int nranks, struct ori_topology *out);
/* The answer for one pair, with its reason; pure too. */
int ori_classify_pair(const struct ori_facts *facts, const struct ori_topology *topology, int a,
		      int b, struct ori_pair *pair);
void ori_topology_free(struct ori_topology *);
/* Does any GPU access another GPU's memory without atomics? */
int ori_facts_lack_atomics(const struct ori_facts *facts, int nranks);

/*
 * Reads "2x4" or "0,0,1,1" (integers from 0 on): the node id of each of nranks ranks.
 * ORIEL_ECONFIG with a message.
 */
int ori_layout_parse(const char *text, int nranks, int *node);
/* The node id of one rank, from a text that ori_layout_parse() has accepted. */
int ori_layout_node(const char *text, int rank);

/* Applies ORIEL_FABRIC* and ORIEL_MAPPED and ORIEL_TOPOLOGY of the configuration to facts. */
int ori_facts_override(struct ori_facts *, const struct ori_config *);
/*
 * The facts of this process: host, host_id, CPU device, and the overrides.  After a device has
 * added a GPU or a fabric to the facts, the caller calls ori_facts_override() again.
 */
int ori_facts_gather(struct ori_facts *, const struct ori_config *);

#endif
