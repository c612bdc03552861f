/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/team/node.h - long calls of ranks on separate devices that all map each other.
 */
#ifndef ORI_COLL_TEAM_NODE_H
#define ORI_COLL_TEAM_NODE_H

#include "../../kernels/coll.h"
#include "team.h"

/* NULL: the call is none of these.  All ranks that make the same call come to the same answer. */
const struct oriel_kernel *ori_node_kernel(const struct oriel_team *, const struct ori_terms *);
int ori_node_blocks(const struct oriel_team *, const struct ori_terms *);
void ori_node_fill(const struct oriel_team *, struct ori_node_op *, const struct ori_terms *,
		   const void *send, void *recv);

#endif
