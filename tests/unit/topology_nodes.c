/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/topology_nodes.c - nodes made of pairs: cliques, sizes, emulated layouts, values on
 * which ranks must agree, facts that a broken peer could send, and random facts with a fixed seed.
 */
#include <time.h>

#include "topology_cases.h"

static void check_nodes(const struct ori_facts *f, int n, const int *want)
{
	struct ori_topology t;

	REQUIRE_OK(ori_classify(f, n, &t));
	for (int r = 0; r < n; r++)
		CHECK_EQ(t.node[r], want[r]);
	CHECK_EQ(count_broken(f, &t), 0);
	ori_topology_free(&t);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

TEST(one_rank)
{
	struct ori_facts f[2] = { cpu_rank(0), gpu_rank(0, 0, 0) };

	CHECK_EQ(nodes_of(&f[0], 1), 1);
	CHECK_EQ(nodes_of(&f[1], 1), 1);
	f[0].mapped_allowed = 0;
	CHECK_EQ(kind_of(f, 1, 0, 0), ORIEL_PEER_SELF);
}

TEST(two_hosts_of_four_gpus)
{
	static const int want[8] = { 0, 0, 0, 0, 1, 1, 1, 1 };
	struct ori_facts f[8];

	for (int r = 0; r < 8; r++)
		f[r] = gpu_rank(r / 4, r % 4, 0xf & ~(1u << r % 4));
	check_nodes(f, 8, want);
}

TEST(ranks_of_a_host_need_not_be_neighbours)
{
	static const int want[6] = { 0, 1, 0, 2, 1, 0 };
	struct ori_facts f[6] = { cpu_rank(5), cpu_rank(3), cpu_rank(5),
				  cpu_rank(9), cpu_rank(3), cpu_rank(5) };
	struct ori_topology t;

	check_nodes(f, 6, want);
	REQUIRE_OK(ori_classify(f, 6, &t));
	CHECK_EQ(t.node_rank[5], 2);
	CHECK_EQ(t.node_size[5], 3);
	CHECK_EQ(t.node_rank[4], 1);
	CHECK_EQ(t.node_size[3], 1);
	ori_topology_free(&t);
}

TEST(four_hosts_two_cliques)
{
	static const int want[8] = { 0, 0, 0, 0, 1, 1, 1, 1 };
	struct ori_facts f[8];

	for (int r = 0; r < 8; r++) {
		f[r] = fabric_rank(r / 2, 7, (uint32_t)(r / 4));
		f[r].gpu = r % 2;
	}
	check_nodes(f, 8, want);
}

TEST(sixty_four_ranks)
{
	struct ori_facts f[64];

	for (int r = 0; r < 64; r++)
		f[r] = gpu_rank(r / 8, r % 8, 0xff);
	CHECK_EQ(nodes_of(f, 64), 8);
	for (int r = 0; r < 64; r++) {
		f[r] = fabric_rank(r / 8, 7, 1);
		f[r].gpu = r % 8;
	}
	CHECK_EQ(nodes_of(f, 64), 1);
}

/* Both ends of the cost: one big node, and as many nodes as ranks. */
TEST(a_thousand_ranks_in_bounded_time)
{
	enum { N = 1024 };
	struct ori_facts *f = calloc(N, sizeof(*f));
	struct ori_topology t;
	clock_t start = clock();

	REQUIRE(f);
	for (int hosts = 1; hosts <= N; hosts *= 32) {
		for (int r = 0; r < N; r++)
			f[r] = cpu_rank(r % hosts);
		CHECK_EQ(ori_classify(f, N, &t), 0);
		CHECK_EQ(t.nnodes, hosts);
		CHECK_EQ(t.node_size[N - 1], N / hosts);
		ori_topology_free(&t);
	}
	/* 1.6 million verdicts: milliseconds of CPU time; minutes for something cubic */
	CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 20.0);
	free(f);
}

TEST(every_pair_of_a_thousand_ranks_with_a_layout)
{
	enum { N = 1024 };
	struct ori_facts *f = calloc(N, sizeof(*f));
	struct ori_topology t;
	struct ori_pair p;
	int queued = 0;

	REQUIRE(f);
	for (int r = 0; r < N; r++) {
		f[r] = cpu_rank(0);
		snprintf(f[r].layout, sizeof(f[r].layout), "4x256");
	}
	CHECK_EQ(ori_classify(f, N, &t), 0);
	for (int b = 0; b < N; b++) {
		CHECK_EQ(ori_classify_pair(f, &t, 300, b, &p), 0);
		queued += p.kind == ORIEL_PEER_QUEUED;
	}
	CHECK_EQ(queued, 768);
	ori_topology_free(&t);
	free(f);
}

/* ---- cliques --------------------------------------------------------------------------------- */

TEST(mapped_is_not_transitive)
{
	static const int want[3] = { 0, 0, 1 };
	/* 0 - 1 and 1 - 2 have access, 0 - 2 has not */
	struct ori_facts f[3] = { gpu_rank(0, 0, 2), gpu_rank(0, 1, 5), gpu_rank(0, 2, 2) };

	check_nodes(f, 3, want);
	CHECK_EQ(kind_of(f, 3, 0, 1), ORIEL_PEER_MAPPED);
	CHECK_PAIR(f, 3, 0, 2, ORIEL_PEER_QUEUED, "no peer access between GPU 0 and GPU 2");
	CHECK_PAIR(f, 3, 1, 2, ORIEL_PEER_QUEUED,
		   "mapped alone, but rank 0 of its node cannot reach rank 2");
	CHECK_PAIR(f, 3, 2, 1, ORIEL_PEER_QUEUED,
		   "mapped alone, but rank 0 of its node cannot reach rank 2");
}

TEST(a_split_pair_whose_later_node_came_first)
{
	static const int want[3] = { 0, 1, 0 };
	/* 0 - 2 and 1 - 2 have access, 0 - 1 has not: rank 2 goes to rank 0, away from rank 1 */
	struct ori_facts f[3] = { gpu_rank(0, 0, 4), gpu_rank(0, 1, 4), gpu_rank(0, 2, 3) };

	check_nodes(f, 3, want);
	CHECK_PAIR(f, 3, 1, 2, ORIEL_PEER_QUEUED,
		   "mapped alone, but rank 0 of its node cannot reach rank 1");
}

TEST(a_ring_of_gpus_becomes_pairs)
{
	static const int want[6] = { 0, 0, 1, 1, 2, 2 };
	struct ori_facts f[6];

	for (int r = 0; r < 6; r++)
		f[r] = gpu_rank(0, r, 1ull << (r + 1) % 6 | 1ull << (r + 5) % 6);
	check_nodes(f, 6, want);
}

TEST(a_fabric_that_crosses_hosts_of_peer_access)
{
	static const int want[3] = { 0, 0, 1 };
	struct ori_facts f[3] = { fabric_rank(0, 7, 1), fabric_rank(1, 7, 1), gpu_rank(1, 1, 1) };

	f[1].gpu_access = 2; /* 0 - 1 by fabric, 1 - 2 by access, nothing between 0 and 2 */
	check_nodes(f, 3, want);
	CHECK_PAIR(f, 3, 1, 2, ORIEL_PEER_QUEUED, "mapped alone");
}

/* ---- layouts and parents --------------------------------------------------------------------- */

static void lay_out(struct ori_facts *f, int n, const char *text)
{
	for (int r = 0; r < n; r++) {
		f[r] = cpu_rank(0);
		snprintf(f[r].layout, sizeof(f[r].layout), "%s", text);
	}
}

TEST(layout_cuts_one_machine)
{
	static const int grid[6] = { 0, 0, 0, 1, 1, 1 }, list[6] = { 0, 1, 0, 2, 1, 0 };
	struct ori_facts f[6];

	lay_out(f, 6, "2x3");
	check_nodes(f, 6, grid);
	CHECK_PAIR(f, 6, 0, 5, ORIEL_PEER_QUEUED, "ORIEL_TOPOLOGY puts them on nodes 0 and 1");
	CHECK_PAIR(f, 6, 5, 0, ORIEL_PEER_QUEUED, "ORIEL_TOPOLOGY puts them on nodes 0 and 1");
	CHECK_PAIR(f, 6, 3, 5, ORIEL_PEER_MAPPED, "shared memory");
	lay_out(f, 6, "7,3,7,100,3,7");
	check_nodes(f, 6, list);
	CHECK_PAIR(f, 6, 0, 1, ORIEL_PEER_QUEUED, "nodes 3 and 7");
}

TEST(layout_restricts_a_node_to_some_ranks)
{
	static const int want[4] = { 0, 1, 0, 2 };
	struct ori_facts f[4];

	lay_out(f, 4, "0,1,0,2"); /* ranks 0 and 2 alone stay together */
	check_nodes(f, 4, want);
}

TEST(layout_of_one_node_changes_nothing)
{
	static const int want[4] = { 0, 0, 1, 1 };
	struct ori_facts f[4];

	lay_out(f, 4, "1x4");
	f[2].host_id = f[3].host_id = 77;
	check_nodes(f, 4, want); /* an emulated layout never makes a pair mapped */
	CHECK_PAIR(f, 4, 1, 2, ORIEL_PEER_QUEUED, "different hosts");
	lay_out(f, 4, "1x4");
	f[1].mapped_allowed = 0;
	CHECK_EQ(kind_of(f, 4, 0, 1), ORIEL_PEER_QUEUED);
}

TEST(layout_beats_the_other_reasons)
{
	struct ori_facts f[2];

	lay_out(f, 2, "2x1");
	f[1].mapped_allowed = 0;
	f[1].host_id = 77;
	CHECK_PAIR(f, 2, 0, 1, ORIEL_PEER_QUEUED, "ORIEL_TOPOLOGY");
}

TEST(layouts_must_agree)
{
	struct ori_facts f[4];

	lay_out(f, 4, "2x2");
	snprintf(f[3].layout, sizeof(f[3].layout), "1x4");
	CHECK_EQ(nodes_of(f, 4), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "ranks 0 and 3");
	CHECK_HAS(oriel_last_error(), "\"2x2\" and \"1x4\"");
	snprintf(f[3].layout, sizeof(f[3].layout), "2x2");
	f[1].layout[0] = 0;
	CHECK_EQ(nodes_of(f, 4), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "\"2x2\" and \"\"");
	/* the same nodes in other words are another text: refused, and the line shows both */
	snprintf(f[1].layout, sizeof(f[1].layout), "0,0,1,1");
	CHECK_EQ(nodes_of(f, 4), ORIEL_EMISMATCH);
}

TEST(layout_that_does_not_fit)
{
	struct ori_facts f[4];

	lay_out(f, 4, "2x3");
	CHECK_EQ(nodes_of(f, 4), ORIEL_ECONFIG);
	CHECK_HAS(oriel_last_error(), "\"2x3\"");
	lay_out(f, 4, "nonsense");
	CHECK_EQ(nodes_of(f, 4), ORIEL_ECONFIG);
}

TEST(forced_nodes_replace_the_layout)
{
	static const int want[4] = { 0, 1, 0, 1 };
	struct ori_facts f[4];

	lay_out(f, 4, "2x8"); /* the parent's text, which fits the parent only */
	for (int r = 0; r < 4; r++)
		f[r].forced_node = r % 2 ? 0 : 5;
	snprintf(f[3].layout, sizeof(f[3].layout), "1x9"); /* not even compared */
	check_nodes(f, 4, want);
	CHECK_PAIR(f, 4, 0, 1, ORIEL_PEER_QUEUED, "the parent comm has them on nodes 0 and 5");
	CHECK_PAIR(f, 4, 0, 2, ORIEL_PEER_MAPPED, "shared memory");
	f[2].host_id = 77;
	CHECK_EQ(kind_of(f, 4, 0, 2), ORIEL_PEER_QUEUED);
}

TEST(forced_nodes_all_or_none)
{
	struct ori_facts f[3];

	lay_out(f, 3, "");
	f[2].forced_node = 0;
	CHECK_EQ(nodes_of(f, 3), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "ranks 0 and 2");
}

/* ---- bad input ------------------------------------------------------------------------------- */

TEST(arguments_are_checked)
{
	struct ori_facts f[2] = { cpu_rank(0), cpu_rank(0) };
	struct ori_topology t = { .nranks = 42 };
	struct ori_pair p;

	CHECK_EQ(ori_classify(f, 0, &t), ORIEL_EINVAL);
	CHECK_EQ(ori_classify(f, -3, &t), ORIEL_EINVAL);
	CHECK_EQ(ori_classify(NULL, 2, &t), ORIEL_EINVAL);
	CHECK_EQ(ori_classify(f, 2, NULL), ORIEL_EINVAL);
	CHECK_EQ(t.nranks, 42); /* written only on success */
	REQUIRE_OK(ori_classify(f, 2, &t));
	CHECK_EQ(ori_classify_pair(f, &t, 0, 2, &p), ORIEL_ERANGE);
	CHECK_EQ(ori_classify_pair(f, &t, -1, 0, &p), ORIEL_ERANGE);
	CHECK_EQ(ori_classify_pair(f, &t, 0, 1, NULL), ORIEL_EINVAL);
	ori_topology_free(&t);
	ori_topology_free(&t);
	ori_topology_free(NULL);
}

TEST(facts_of_a_broken_peer_are_refused)
{
	struct ori_facts good[2] = { gpu_rank(0, 0, 2), gpu_rank(0, 1, 1) }, f[2];

	memcpy(f, good, sizeof(f));
	memset(f[1].host, 'x', sizeof(f[1].host));
	CHECK_EQ(nodes_of(f, 2), ORIEL_EPROTO);
	CHECK_HAS(oriel_last_error(), "rank 1");
	memcpy(f, good, sizeof(f));
	memset(f[1].layout, '1', sizeof(f[1].layout));
	CHECK_EQ(nodes_of(f, 2), ORIEL_EPROTO);
	memcpy(f, good, sizeof(f));
	f[1].gpu = 64;
	CHECK_EQ(nodes_of(f, 2), ORIEL_EPROTO);
	f[1].gpu = -1;
	CHECK_EQ(nodes_of(f, 2), ORIEL_EPROTO);
	memcpy(f, good, sizeof(f));
	f[1].device = 9;
	CHECK_EQ(nodes_of(f, 2), ORIEL_EPROTO);
	memcpy(f, good, sizeof(f));
	f[0].fabric_mode = 3;
	CHECK_EQ(nodes_of(f, 2), ORIEL_EPROTO);
	CHECK_HAS(oriel_last_error(), "rank 0");
}

/* ---- random facts ---------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static struct ori_facts random_rank(uint64_t *state)
{
	uint64_t r = next_random(state);
	struct ori_facts f = gpu_rank((int)(r % 3), (int)(r >> 8) & 7, next_random(state));

	if (r >> 16 & 1)
		f = fabric_rank((int)(r % 3), (uint8_t)(r >> 20 & 1), r >> 24 & 1);
	if ((r >> 32 & 7) == 0)
		f = cpu_rank((int)(r % 3));
	f.mapped_allowed = (r >> 40 & 15) != 0;
	return f;
}

/* All that count_broken() knows, and the same answer for the same facts, on many small jobs. */
TEST(random_facts_keep_the_rules)
{
	uint64_t state = 0x9e3779b97f4a7c15ull;
	struct ori_topology t, again;
	struct ori_facts f[24], copy[24];
	int multi = 0;

	for (int round = 0; round < 300; round++) {
		int n = 1 + (int)(next_random(&state) % 24), forced = round % 3 == 0;

		for (int r = 0; r < n; r++) {
			f[r] = random_rank(&state);
			f[r].forced_node = forced ? (int)(next_random(&state) % 2) : -1;
		}
		memcpy(copy, f, sizeof(f));
		REQUIRE_OK(ori_classify(f, n, &t));
		REQUIRE_OK(ori_classify(copy, n, &again));
		CHECK_EQ(count_broken(f, &t), 0);
		CHECK(!memcmp(t.node, again.node, (size_t)n * sizeof(int)));
		CHECK(!memcmp(f, copy, (size_t)n * sizeof(f[0])));
		multi += t.nnodes > 1 && t.nnodes < n;
		ori_topology_free(&t);
		ori_topology_free(&again);
	}
	CHECK(multi > 100); /* the generator makes nodes of several ranks, not only trivial jobs */
}
