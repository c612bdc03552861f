/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/topology_classify.c - verdicts of pairs: hosts, GPUs, fabric, overrides, mixed
 * devices.
 *
 * Overrides are applied with ori_facts_override(), as each rank does before the exchange.
 * Nodes, cliques and errors are in topology_nodes.c.
 */
#include "topology_cases.h"

/* ---- hosts and peer access ------------------------------------------------------------------- */

TEST(cpu_same_host_is_shared_memory)
{
	struct ori_facts f[2] = { cpu_rank(0), cpu_rank(0) };

	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_MAPPED, "shared memory on host0");
	CHECK_PAIR(f, 2, 1, 1, ORIEL_PEER_SELF, "itself");
}

TEST(cpu_different_hosts_are_queued)
{
	struct ori_facts f[2] = { cpu_rank(0), cpu_rank(1) };

	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_QUEUED, "different hosts host0 and host1");
	CHECK_PAIR(f, 2, 1, 0, ORIEL_PEER_QUEUED, "different hosts host0 and host1");
}

TEST(hosts_are_told_apart_by_id_and_not_by_name)
{
	struct ori_facts f[2] = { cpu_rank(0), cpu_rank(0) };

	f[1].host_id++;
	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_QUEUED);
	f[1] = cpu_rank(0);
	snprintf(f[1].host, sizeof(f[1].host), "other");
	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_MAPPED);
}

TEST(gpu_same_host_with_access)
{
	struct ori_facts f[2] = { gpu_rank(0, 0, 2), gpu_rank(0, 1, 1) };

	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_MAPPED, "peer access between GPUs of host0");
}

TEST(gpu_same_host_without_access)
{
	struct ori_facts f[2] = { gpu_rank(0, 0, 0), gpu_rank(0, 1, 0) };

	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_QUEUED, "no peer access between GPU 0 and GPU 1");
}

TEST(gpu_access_must_go_both_ways)
{
	struct ori_facts f[2] = { gpu_rank(0, 0, 2), gpu_rank(0, 1, 0) };

	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_QUEUED);
	f[0].gpu_access = 0;
	f[1].gpu_access = 1;
	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_QUEUED);
}

TEST(gpu_highest_ordinal)
{
	struct ori_facts f[2] = { gpu_rank(0, 63, 1), gpu_rank(0, 0, 1ull << 63) };

	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_MAPPED);
	f[1].gpu_access = 0;
	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_QUEUED);
}

TEST(gpu_access_on_different_hosts_means_nothing)
{
	struct ori_facts f[2] = { gpu_rank(0, 0, ~0ull), gpu_rank(1, 1, ~0ull) };

	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_QUEUED, "no fabric");
}

TEST(two_ranks_on_one_gpu_are_mapped)
{
	struct ori_facts f[2] = { gpu_rank(0, 3, 0), gpu_rank(0, 3, 0) };

	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_MAPPED, "both on GPU 3 of host0");
	f[1] = gpu_rank(1, 3, 0);
	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_QUEUED);
}

TEST(cpu_and_cuda_ranks_are_queued)
{
	struct ori_facts f[4] = { cpu_rank(0), gpu_rank(0, 0, ~0ull), gpu_rank(0, 1, ~0ull),
				  cpu_rank(0) };

	CHECK_PAIR(f, 4, 0, 1, ORIEL_PEER_QUEUED, "one is a CPU rank, the other a CUDA rank");
	CHECK_PAIR(f, 4, 2, 3, ORIEL_PEER_QUEUED, "one is a CPU rank, the other a CUDA rank");
	CHECK_EQ(kind_of(f, 4, 0, 3), ORIEL_PEER_MAPPED);
	CHECK_EQ(kind_of(f, 4, 1, 2), ORIEL_PEER_MAPPED);
	CHECK_EQ(nodes_of(f, 4), 2);
}

TEST(mapped_off_on_either_side)
{
	struct ori_facts f[3] = { cpu_rank(0), cpu_rank(0), cpu_rank(0) };

	f[1].mapped_allowed = 0;
	CHECK_PAIR(f, 3, 0, 1, ORIEL_PEER_QUEUED, "ORIEL_MAPPED=0 on rank 1");
	CHECK_PAIR(f, 3, 1, 2, ORIEL_PEER_QUEUED, "ORIEL_MAPPED=0 on rank 1");
	CHECK_EQ(kind_of(f, 3, 0, 2), ORIEL_PEER_MAPPED);
}

TEST(mapped_off_cuts_both_tiers)
{
	struct ori_facts f[4] = { fabric_rank(0, 7, 1), fabric_rank(1, 7, 1), gpu_rank(2, 0, 2),
				  gpu_rank(2, 1, 1) };

	CHECK_EQ(nodes_of(f, 4), 2);
	for (int r = 0; r < 4; r++)
		f[r].mapped_allowed = 0;
	CHECK_EQ(nodes_of(f, 4), 4);
	CHECK_PAIR(f, 4, 0, 1, ORIEL_PEER_QUEUED, "ORIEL_MAPPED=0");
	CHECK_PAIR(f, 4, 2, 3, ORIEL_PEER_QUEUED, "ORIEL_MAPPED=0");
}

TEST(long_host_names_keep_the_reason_whole)
{
	struct ori_facts f[2] = { gpu_rank(0, 0, 0), gpu_rank(1, 0, 0) };

	memset(f[0].host, 'a', sizeof(f[0].host) - 1);
	memset(f[1].host, 'b', sizeof(f[1].host) - 1);
	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_QUEUED, "b, no fabric");
	f[0].fabric_mode = f[1].fabric_mode = ORI_MODE_OFF;
	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_QUEUED, "b, ORIEL_FABRIC=off");
}

/* Per direction, and in words for the pair. */
TEST(peer_access_without_atomics)
{
	struct ori_facts f[3] = { gpu_rank(0, 0, 6), gpu_rank(0, 1, 5), gpu_rank(0, 2, 3) };
	struct ori_topology t;
	struct ori_pair pair;

	f[0].gpu_atomics = 6;
	f[1].gpu_atomics = 4;
	f[2].gpu_atomics = 3;
	CHECK_PAIR(f, 3, 0, 1, ORIEL_PEER_MAPPED, ", without atomics");
	CHECK_PAIR(f, 3, 1, 2, ORIEL_PEER_MAPPED, "peer access between GPUs of");
	REQUIRE_OK(ori_classify(f, 3, &t));
	for (int a = 0; a < 3; a++)
		for (int b = 0; b < 3; b++) {
			CHECK_EQ(ori_classify_pair(f, &t, a, b, &pair), 0);
			CHECK_EQ(pair.flags, a == 1 && b == 0 ? ORIEL_PEER_NO_ATOMICS : 0);
		}
	ori_topology_free(&t);
	CHECK_EQ(ori_facts_lack_atomics(f, 3), 1);
	f[1].gpu_atomics = 5;
	CHECK_EQ(ori_facts_lack_atomics(f, 3), 0);
}

/* ---- fabric ---------------------------------------------------------------------------------- */

TEST(fabric_same_uuid_and_clique)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 3), fabric_rank(1, 7, 3) };

	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_MAPPED, "one NVLink fabric, clique 3");
}

TEST(fabric_different_uuid)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 3), fabric_rank(1, 8, 3) };

	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_QUEUED, "two fabrics");
	/* the last byte counts as well as the first */
	f[1] = fabric_rank(1, 7, 3);
	f[1].fabric_uuid[15] = 1;
	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_QUEUED);
}

TEST(fabric_different_clique)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 3), fabric_rank(1, 7, 4) };

	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_QUEUED, "two cliques");
}

TEST(fabric_on_one_side_only)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 3), fabric_rank(1, 7, 3) };

	f[1].fabric_available = 0;
	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_QUEUED, "no fabric");
	CHECK_PAIR(f, 2, 1, 0, ORIEL_PEER_QUEUED, "no fabric");
}

/* The GPU is on it, but its process may make no memory for it. */
TEST(fabric_that_takes_no_memory)
{
	struct ori_facts f[3] = { fabric_rank(0, 7, 3), fabric_rank(1, 0, 0),
				  fabric_rank(1, 7, 3) };

	f[1].fabric_available = 0;
	f[1].fabric_refused = 1;
	f[2].gpu = 1;
	CHECK_PAIR(f, 3, 0, 1, ORIEL_PEER_QUEUED, "the fabric takes no memory of rank 1 (IMEX)");
	CHECK_PAIR(f, 3, 1, 0, ORIEL_PEER_QUEUED, "the fabric takes no memory of rank 1 (IMEX)");
	CHECK_PAIR(f, 3, 0, 2, ORIEL_PEER_MAPPED, "one NVLink fabric");
	memset(f[0].host, 'h', sizeof(f[0].host) - 1);
	memset(f[1].host, 'i', sizeof(f[1].host) - 1);
	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_QUEUED, "of rank 1 (IMEX)");
}

TEST(fabric_comes_before_peer_access)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 3), fabric_rank(0, 7, 3) };

	f[1].gpu = 1;
	f[0].gpu_access = 2;
	f[1].gpu_access = 1;
	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_MAPPED, "one NVLink fabric");
	/* and works where the access bits say no */
	f[0].gpu_access = f[1].gpu_access = 0;
	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_MAPPED);
}

TEST(fabric_two_cliques_fall_back_to_peer_access)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 3), fabric_rank(0, 7, 4) };

	f[1].gpu = 1;
	f[0].gpu_access = 2;
	f[1].gpu_access = 1;
	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_MAPPED, "peer access");
}

TEST(fabric_of_some_ranks_beside_hosts_of_others)
{
	struct ori_facts f[4] = { fabric_rank(0, 7, 1), fabric_rank(1, 7, 1), gpu_rank(2, 0, 2),
				  gpu_rank(2, 1, 1) };

	CHECK_EQ(kind_of(f, 4, 0, 1), ORIEL_PEER_MAPPED);
	CHECK_EQ(kind_of(f, 4, 2, 3), ORIEL_PEER_MAPPED);
	CHECK_EQ(kind_of(f, 4, 1, 2), ORIEL_PEER_QUEUED);
}

static void set_mode(struct ori_facts *f, int n, int mode)
{
	for (int r = 0; r < n; r++)
		f[r].fabric_mode = mode;
}

TEST(fabric_off_ignores_it)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 3), fabric_rank(1, 7, 3) };

	set_mode(f, 2, ORI_MODE_OFF);
	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_QUEUED, "ORIEL_FABRIC=off");
}

TEST(fabric_off_leaves_peer_access)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 3), fabric_rank(0, 7, 3) };

	f[1].gpu = 1;
	f[0].gpu_access = 2;
	f[1].gpu_access = 1;
	set_mode(f, 2, ORI_MODE_OFF);
	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_MAPPED, "peer access");
}

TEST(fabric_off_without_one_is_no_error)
{
	struct ori_facts f[2] = { gpu_rank(0, 0, 2), gpu_rank(0, 1, 1) };

	set_mode(f, 2, ORI_MODE_OFF);
	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_MAPPED);
}

TEST(fabric_on_uses_it)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 3), fabric_rank(1, 7, 3) };

	set_mode(f, 2, ORI_MODE_ON);
	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_MAPPED, "clique 3");
}

TEST(fabric_on_needs_it_on_every_rank)
{
	struct ori_facts f[3] = { fabric_rank(0, 7, 3), fabric_rank(1, 7, 3),
				  fabric_rank(2, 7, 3) };

	set_mode(f, 3, ORI_MODE_ON);
	f[2].fabric_available = 0;
	CHECK_EQ(kind_of(f, 3, 0, 1), ORIEL_EUNSUPPORTED);
	CHECK_HAS(oriel_last_error(), "rank 2");
	CHECK_HAS(oriel_last_error(), "ORIEL_FABRIC=on");
	CHECK_EQ(kind_of(&f[2], 1, 0, 0), ORIEL_EUNSUPPORTED);
	CHECK_HAS(oriel_last_error(), "rank 0");
}

TEST(fabric_on_does_not_join_what_differs)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 3), fabric_rank(1, 7, 4) };

	set_mode(f, 2, ORI_MODE_ON);
	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_QUEUED);
	f[1] = fabric_rank(1, 8, 3);
	set_mode(f, 2, ORI_MODE_ON);
	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_QUEUED);
}

TEST(fabric_auto_without_one_uses_peer_access)
{
	struct ori_facts f[2] = { gpu_rank(0, 0, 2), gpu_rank(0, 1, 1) };

	set_mode(f, 2, ORI_MODE_AUTO);
	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_MAPPED, "peer access");
}

TEST(fabric_modes_must_agree)
{
	struct ori_facts f[3] = { fabric_rank(0, 7, 3), fabric_rank(1, 7, 3),
				  fabric_rank(2, 7, 3) };

	f[2].fabric_mode = ORI_MODE_OFF;
	CHECK_EQ(kind_of(f, 3, 0, 1), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "ranks 0 and 2");
	CHECK_HAS(oriel_last_error(), "auto and off");
}

/* ---- overrides of the fabric ----------------------------------------------------------------- */

/* What a rank with these variables would send.  NULL: not set. */
static void override(struct ori_facts *f, int mode, const char *uuid, const char *clique)
{
	struct ori_config c = { .mapped = 1, .fabric = mode };

	snprintf(c.fabric_uuid, sizeof(c.fabric_uuid), "%s", uuid ? uuid : "");
	snprintf(c.fabric_clique, sizeof(c.fabric_clique), "%s", clique ? clique : "");
	CHECK_EQ(ori_facts_override(f, &c), 0);
}

TEST(uuid_override_unifies_two_fabrics)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 3), fabric_rank(1, 8, 3) };

	override(&f[0], ORI_MODE_AUTO, "12345", NULL);
	override(&f[1], ORI_MODE_AUTO, "12345", NULL);
	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_MAPPED);
}

TEST(uuid_override_with_the_same_value_changes_nothing)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 3), fabric_rank(1, 7, 3) };
	struct ori_facts before = f[0];

	override(&f[0], ORI_MODE_AUTO, "7", NULL); /* fabric_rank() has 7 in both halves */
	CHECK(!memcmp(&before, &f[0], sizeof(before)));
	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_MAPPED);
}

TEST(uuid_override_joins_and_leaves)
{
	struct ori_facts f[3] = { fabric_rank(0, 7, 3), fabric_rank(1, 7, 3),
				  fabric_rank(2, 9, 3) };

	override(&f[2], ORI_MODE_AUTO, "7", NULL);
	CHECK_EQ(kind_of(f, 3, 0, 2), ORIEL_PEER_MAPPED);
	override(&f[1], ORI_MODE_AUTO, "8", NULL);
	CHECK_EQ(kind_of(f, 3, 0, 1), ORIEL_PEER_QUEUED);
	CHECK_EQ(kind_of(f, 3, 1, 2), ORIEL_PEER_QUEUED);
	CHECK_EQ(nodes_of(f, 3), 2);
}

TEST(clique_override_splits_one_fabric)
{
	struct ori_facts f[4];

	for (int r = 0; r < 4; r++) {
		f[r] = fabric_rank(r, 7, 3);
		override(&f[r], ORI_MODE_AUTO, NULL, r < 2 ? "10" : "20");
	}
	CHECK_EQ(nodes_of(f, 4), 2);
	CHECK_PAIR(f, 4, 0, 1, ORIEL_PEER_MAPPED, "clique 10");
	CHECK_PAIR(f, 4, 2, 3, ORIEL_PEER_MAPPED, "clique 20");
	CHECK_PAIR(f, 4, 1, 2, ORIEL_PEER_QUEUED, "two cliques");
}

TEST(clique_override_with_the_same_value_changes_nothing)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 3), fabric_rank(1, 7, 3) };
	struct ori_facts before = f[1];

	override(&f[1], ORI_MODE_AUTO, NULL, "3");
	CHECK(!memcmp(&before, &f[1], sizeof(before)));
	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_MAPPED);
}

TEST(clique_override_joins_and_leaves)
{
	struct ori_facts f[3] = { fabric_rank(0, 7, 1), fabric_rank(1, 7, 1),
				  fabric_rank(2, 7, 2) };

	override(&f[2], ORI_MODE_AUTO, NULL, "1");
	CHECK_EQ(kind_of(f, 3, 0, 2), ORIEL_PEER_MAPPED);
	override(&f[1], ORI_MODE_AUTO, NULL, "5");
	CHECK_EQ(kind_of(f, 3, 0, 1), ORIEL_PEER_QUEUED);
}

TEST(uuid_and_clique_override_together)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 1), fabric_rank(1, 8, 2) };

	override(&f[0], ORI_MODE_ON, "99", "4");
	override(&f[1], ORI_MODE_ON, "99", NULL);
	CHECK_EQ(kind_of(f, 2, 0, 1), ORIEL_PEER_QUEUED);
	override(&f[1], ORI_MODE_ON, "99", "4");
	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_MAPPED, "clique 4");
}

TEST(fabric_off_prevents_overrides)
{
	struct ori_facts f[2] = { fabric_rank(0, 7, 1), fabric_rank(1, 8, 2) };

	override(&f[0], ORI_MODE_OFF, "99", "4");
	override(&f[1], ORI_MODE_OFF, "99", "4");
	CHECK_EQ(f[0].fabric_uuid[0], 7);
	CHECK_EQ(f[1].fabric_clique, 2);
	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_QUEUED, "ORIEL_FABRIC=off");
}

TEST(overrides_do_not_invent_a_fabric)
{
	struct ori_facts f[2] = { gpu_rank(0, 0, 0), gpu_rank(1, 0, 0) };

	override(&f[0], ORI_MODE_AUTO, "99", "4");
	override(&f[1], ORI_MODE_AUTO, "99", "4");
	CHECK_EQ(f[0].fabric_uuid[0], 0);
	CHECK_EQ(f[0].fabric_clique, 0);
	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_QUEUED, "no fabric");
}
