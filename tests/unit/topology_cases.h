/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/topology_cases.h - invented ranks and short questions for the topology tests. */
#ifndef ORI_TEST_TOPOLOGY_CASES_H
#define ORI_TEST_TOPOLOGY_CASES_H

#include "../../src/comm/topology.h"
#include "../check.h"
#include <oriel/oriel.h>

/* A CPU rank on an invented host. */
static inline struct ori_facts cpu_rank(int host)
{
	struct ori_facts f = { .host_id = 1000 + (uint64_t)host, .device = ORI_DEVICE_CPU };

	snprintf(f.host, sizeof(f.host), "host%d", host);
	f.gpu = -1;
	f.mapped_allowed = 1;
	f.forced_node = -1;
	return f;
}

/* A CUDA rank whose GPU reaches those of the mask. */
static inline struct ori_facts gpu_rank(int host, int gpu, uint64_t access)
{
	struct ori_facts f = cpu_rank(host);

	f.device = ORI_DEVICE_CUDA;
	f.gpu = gpu;
	f.gpu_access = access;
	return f;
}

/* A CUDA rank on a fabric.  It is alone on its host, so only the fabric can map it. */
static inline struct ori_facts fabric_rank(int host, uint8_t uuid, uint32_t clique)
{
	struct ori_facts f = gpu_rank(host, 0, 0);

	f.fabric_available = 1;
	f.fabric_uuid[0] = f.fabric_uuid[8] = uuid;
	f.fabric_clique = clique;
	return f;
}

/* The kind of one pair in the whole topology; a negative status if that fails. */
static inline int kind_of(const struct ori_facts *facts, int nranks, int a, int b)
{
	struct ori_topology t;
	struct ori_pair p = { .kind = -1 };
	int err = ori_classify(facts, nranks, &t);

	if (err)
		return err;
	err = ori_classify_pair(facts, &t, a, b, &p);
	ori_topology_free(&t);
	return err ? err : p.kind;
}

/* Same, and the reason contains `word`. */
#define CHECK_PAIR(facts, n, a, b, want, word)                                                     \
	do {                                                                                       \
		struct ori_topology pair_t;                                                        \
		struct ori_pair pair_p;                                                            \
		REQUIRE_OK(ori_classify(facts, n, &pair_t));                                       \
		CHECK_EQ(ori_classify_pair(facts, &pair_t, a, b, &pair_p), 0);                     \
		CHECK_EQ(pair_p.kind, want);                                                       \
		CHECK_HAS(pair_p.reason, word);                                                    \
		ori_topology_free(&pair_t);                                                        \
	} while (0)

/*
 * Counts broken rules that every topology must satisfy.  Ids are dense, in the order of the lowest
 * rank.  Ranks of a node are dense by rank.  Sizes are right.  Pairs are mapped exactly inside
 * nodes.  Both directions are alike.  Reasons are given.
 */
static inline int count_broken(const struct ori_facts *facts, const struct ori_topology *t)
{
	struct ori_pair ab, ba;
	int broken = 0, seen = 0;

	for (int a = 0; a < t->nranks; a++) {
		int before = 0, size = 0;

		for (int b = 0; b < t->nranks; b++) {
			int same = t->node[a] == t->node[b];

			size += same;
			before += same && b < a;
			if (ori_classify_pair(facts, t, a, b, &ab) ||
			    ori_classify_pair(facts, t, b, a, &ba))
				return broken + 1;
			broken += !!memcmp(&ab, &ba, sizeof(ab));
			broken += !ab.reason[0];
			broken += ab.kind != (a == b ? ORIEL_PEER_SELF :
					      same   ? ORIEL_PEER_MAPPED :
						       ORIEL_PEER_QUEUED);
		}
		broken += t->node_rank[a] != before || t->node_size[a] != size;
		broken += t->node[a] < 0 || t->node[a] > seen;
		seen += t->node[a] == seen;
	}
	return broken + (seen != t->nnodes);
}

/* Classifies, checks the rules above, and returns the number of nodes or a negative status. */
static inline int nodes_of(const struct ori_facts *facts, int nranks)
{
	struct ori_topology t;
	int err = ori_classify(facts, nranks, &t), n;

	if (err)
		return err;
	n = t.nnodes;
	CHECK_EQ(count_broken(facts, &t), 0);
	ori_topology_free(&t);
	return n;
}

#endif
