/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/topology.h - who is mapped, who is queued, and why.
 *
 * classify() is a pure function of what every rank gathered: the same input gives the same answer
 * on every rank, and nothing but the input matters.  Facts already contain each rank's overrides,
 * so no rank decides on something the others have not seen.
 */
#ifndef ORI_TOPOLOGY_H
#define ORI_TOPOLOGY_H

#include <stdint.h>

#include "../device/facts.h"
#include "../util/config.h"

#define ORI_REASON_MAX 128

struct ori_pair {
	int32_t kind;   /* ORIEL_PEER_* of include/oriel/device/types.h */
	uint32_t flags; /* ORIEL_PEER_NO_ATOMICS: of a for b's memory */
	char reason[ORI_REASON_MAX];
};

struct ori_topology {
	int nranks, nnodes;
	int *node;      /* [nranks] dense ids, in the order of their lowest rank */
	int *node_rank; /* [nranks] dense, by rank */
	int *node_size; /* [nranks] size of that rank's node */
};

/*
 * Fills *out (free with ori_topology_free) or fails with a line that names ranks: overrides that
 * disagree, a layout that does not fit nranks, ORIEL_FABRIC=on without a fabric.
 */
int ori_classify(const struct ori_facts *facts, int nranks, struct ori_topology *out);
/* The answer for one pair, with its reason; pure too. */
int ori_classify_pair(const struct ori_facts *facts, const struct ori_topology *topology, int a,
		      int b, struct ori_pair *pair);
void ori_topology_free(struct ori_topology *);
/* Is there a GPU that reaches another one and has no atomics there? */
int ori_facts_lack_atomics(const struct ori_facts *facts, int nranks);

/* "2x4" or "0,0,1,1" (any integers) for nranks: node id of each rank. ORIEL_ECONFIG with a line. */
int ori_layout_parse(const char *text, int nranks, int *node);
/* The node of one rank in a text that ori_layout_parse() has accepted; a bounded scan. */
int ori_layout_node(const char *text, int rank);

/* Applies ORIEL_FABRIC* and ORIEL_MAPPED and ORIEL_TOPOLOGY of the configuration to facts. */
int ori_facts_override(struct ori_facts *, const struct ori_config *);
/*
 * This machine, this process: host, host_id, cpu device, and the overrides.  A device that adds a
 * GPU or a fabric to the facts calls ori_facts_override() again afterwards; twice does no harm.
 */
int ori_facts_gather(struct ori_facts *, const struct ori_config *);

#endif
