/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/allgather.c - the persistent all-gather moves every byte: layouts, algorithms, counts,
 * in place and not, window, buffer and plain call; on mapped, queued and mixed peers.
 */
#include "allgather_bed.h"

struct grid {
	const char *topology; /* NULL: one node */
	int nranks, processes;
	int algorithm;
	uint32_t flags;
	uint64_t chunk;
	int large; /* with the counts over a million, so many times */
};

static const uint64_t small_counts[] = { 0, 1, 17, 8192 };
static const uint64_t large_counts[] = { 1048567, 1048576 };

static const char *const names[] = { "auto", "direct", "ring", "doubling" };

static void run_counts(struct bed *b, struct oriel_allgather_request *req, const struct grid *g)
{
	for (int in_place = 0; in_place < 2; in_place++) {
		for (size_t i = 0; i < sizeof(small_counts) / sizeof(*small_counts); i++)
			for (int k = 0; k < 10; k++)
				if (bed_exec(b, req, small_counts[i], 1 + (uint64_t)k % 2, in_place,
					     names[g->algorithm]))
					return;
		for (size_t i = 0; i < sizeof(large_counts) / sizeof(*large_counts); i++)
			for (int k = 0; k < g->large; k++)
				if (bed_exec(b, req, large_counts[i], 1, in_place,
					     names[g->algorithm]))
					return;
	}
}

static void grid_rank(struct rank_env *env)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	const struct grid *g = env->arg;
	struct oriel_allgather_request *req = NULL;
	struct bed b;
	char text[256];

	CHECK_EQ(oriel_allgather_supported(env->comm), 1);
	REQUIRE_OK(bed_open(&b, env, g->large ? 1048576 : 16384, 1));
	o.algorithm = g->algorithm;
	o.flags = g->flags;
	o.chunk_bytes = g->chunk;
	o.bytes = b.room;
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, &o, &req));
	REQUIRE_OK(oriel_allgather_explain(req, 8192, 1, text, sizeof(text)));
	if (g->algorithm)
		CHECK_HAS(text, names[g->algorithm]);
	run_counts(&b, req, g);
	CHECK_EQ(oriel_allgather_status(req), 0);
	REQUIRE_OK(oriel_allgather_destroy(req));
	REQUIRE_OK(bed_close(&b));
}

static void run_grid(const struct grid *g)
{
	struct ranks_options o = { .nranks = g->nranks,
				   .processes = g->processes,
				   .topology = g->topology,
				   .deadline_s = 170,
				   .timeout_s = 120 };

	ranks_run(&o, grid_rank, (void *)(uintptr_t)g);
}

/* Each layout with each algorithm; ranks as processes and as threads in turn. */
static void run_layout(const char *topology, int nranks, int nodes)
{
	for (int a = 0; a <= (nodes > 1 ? ORIEL_GATHER_DOUBLING : 1); a++) {
		struct grid g = { .topology = topology,
				  .nranks = nranks,
				  .processes = (a + nodes) % 2,
				  .algorithm = a,
				  .large = a != 1 };

		run_grid(&g);
	}
}

TEST(layout_1x1)
{
	run_layout(NULL, 1, 1);
}

TEST(layout_1x4)
{
	run_layout(NULL, 4, 1);
}

TEST(layout_1x8)
{
	run_layout(NULL, 8, 1);
}

TEST(layout_2x4)
{
	run_layout("2x4", 8, 2);
}

TEST(layout_4x2)
{
	run_layout("4x2", 8, 4);
}

TEST(layout_8x1)
{
	run_layout("8x1", 8, 8);
}

TEST(layout_3x2)
{
	run_layout("3x2", 6, 3);
}

TEST(layout_5x1)
{
	run_layout("5x1", 5, 5);
}

/* Nodes of one, two and three ranks, not in blocks. */
TEST(layout_of_unequal_nodes)
{
	run_layout("0,1,2,1,2,2", 6, 3);
}

/*
 * One request mixes blocks that a rank exposes and blocks that it stores to its peers, in any
 * order.  One exec must not disturb the next.  Sizes are around both limits (2 and 3 ranks have a
 * lower one).
 */
static void turns_rank(struct rank_env *env)
{
	static const uint64_t sizes[] = { 1, 4095, 4096, 4097, 32767, 32768, 32769, 65536 };
	struct oriel_allgather_request *req = NULL;
	uint64_t x = 7;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 65536, 1));
	/* the second request takes over the words of the first */
	for (int again = 0; again < 2; again++) {
		REQUIRE_OK(oriel_allgather_create(env->comm, b.window, NULL, &req));
		for (int k = 0; k < 31; k++) {
			x = x * 6364136223846793005u + 1442695040888963407u;
			if (bed_exec(&b, req, sizes[x >> 61], 1, k % 3 == 0, "in turn"))
				return;
		}
		REQUIRE_OK(oriel_allgather_destroy(req));
	}
	REQUIRE_OK(bed_close(&b));
}

TEST(sizes_in_turn)
{
	for (int n = 2; n <= 8; n += n == 4 ? 4 : 1) {
		struct ranks_options o = {
			.nranks = n, .processes = n != 4, .deadline_s = 170, .timeout_s = 120
		};

		ranks_run(&o, turns_rank, NULL);
	}
}

/* Many small pieces: forwarding while the next ones come, and lanes that take turns. */
TEST(small_chunks)
{
	for (int a = 1; a <= 3; a++) {
		struct grid g = { .topology = "3x2", .nranks = 6, .algorithm = a, .chunk = 1000 };

		run_grid(&g);
	}
}

/* Several lanes, short queues: pieces over all of them. */
TEST(lanes_and_short_queues)
{
	struct grid g = { .topology = "4x2", .nranks = 8, .processes = 1, .chunk = 1500 };

	setenv("ORIEL_LANES", "3", 1);
	setenv("ORIEL_NICS", "2", 1);
	setenv("ORIEL_QUEUE_DEPTH", "4", 1);
	for (g.algorithm = 1; g.algorithm <= 3; g.algorithm++)
		run_grid(&g);
	unsetenv("ORIEL_LANES");
	unsetenv("ORIEL_NICS");
	unsetenv("ORIEL_QUEUE_DEPTH");
}

/* A wire that loses, doubles and reorders, and NICs that cannot add or do not keep order. */
TEST(faulty_wire)
{
	static const char *const wires[][2] = {
		{ "ORIEL_SOFT_FAULTS", "seed=7,drop=0.01,dup=0.01,reorder=0.05,mtu=512" },
		{ "ORIEL_SOFT_NIC", "efa" },
		{ "ORIEL_SOFT_NIC", "thor2" },
	};
	struct grid g = { .topology = "3x2", .nranks = 6, .processes = 1, .chunk = 4096 };

	for (size_t w = 0; w < sizeof(wires) / sizeof(*wires); w++) {
		setenv(wires[w][0], wires[w][1], 1);
		for (g.algorithm = 1; g.algorithm <= 3; g.algorithm++)
			run_grid(&g);
		unsetenv(wires[w][0]);
	}
}

/* ---- the guard ------------------------------------------------------------------------------- */

/* Without it the caller keeps ranks apart: a barrier between reading a result and the next exec. */
static void unguarded_rank(struct rank_env *env)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	struct oriel_allgather_request *req;
	const void *sendbuf;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 4096, 1));
	o.flags = ORIEL_GATHER_UNGUARDED;
	o.bytes = b.room;
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, &o, &req));
	for (int k = 0; k < 20; k++) {
		REQUIRE_OK(bed_begin(&b, 4096, k % 2, &sendbuf));
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
		REQUIRE_OK(oriel_allgather_exec(req, sendbuf, 4096, 1, NULL));
		REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
		bed_check(&b, 4096, "unguarded");
		REQUIRE_OK(oriel_comm_barrier(env->comm, ORIEL_WORLD));
	}
	REQUIRE_OK(oriel_allgather_destroy(req));
	REQUIRE_OK(bed_close(&b));
}

TEST(unguarded)
{
	struct ranks_options o = { .nranks = 4, .topology = "2x2", .timeout_s = 60 };

	ranks_run(&o, unguarded_rank, NULL);
	o.topology = NULL;
	ranks_run(&o, unguarded_rank, NULL);
}

/*
 * One rank, a different one each time, calls exec long after all others.  The guard keeps their
 * blocks out of its memory until then.
 */
static void slow_rank(struct rank_env *env)
{
	struct oriel_allgather_request *req;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 8192, 1));
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, NULL, &req));
	for (int k = 0; k < 6; k++) {
		/* poisoned again and again while the others would already be writing */
		for (int i = 0; k % env->nranks == env->rank && i < 2000; i++) {
			memset(b.image, i, b.room);
			REQUIRE_OK(oriel_copy(env->comm, b.recv, b.image, 8192));
		}
		if (bed_exec(&b, req, 8192, 1, k % 2, "slow rank"))
			break;
	}
	REQUIRE_OK(oriel_allgather_destroy(req));
	REQUIRE_OK(bed_close(&b));
}

TEST(a_slow_rank)
{
	struct ranks_options o = {
		.nranks = 6,
		.topology = "3x2",
		.timeout_s = 60,
		.processes = 1,
	};

	ranks_run(&o, slow_rank, NULL);
}

/*
 * A comm that starts without queues: a request makes those it needs, and direct is not chosen by
 * itself.
 */
TEST(queues_made_by_the_request)
{
	struct grid g = { .topology = "4x2", .nranks = 8 };

	setenv("ORIEL_CONNECT", "0", 1);
	for (g.algorithm = 0; g.algorithm <= 3; g.algorithm++) {
		g.processes = g.algorithm % 2;
		run_grid(&g);
	}
	unsetenv("ORIEL_CONNECT");
}

/*
 * Requests one after the other, of which later ones need more queues than the words of earlier ones
 * have.
 */
static void growing_rank(struct rank_env *env)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	struct oriel_allgather_request *req;
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, 3000, 1));
	o.bytes = b.room;
	for (int k = 0; k < 6; k++) {
		o.algorithm = k % 2 ? ORIEL_GATHER_DIRECT : ORIEL_GATHER_RING;
		REQUIRE_OK(oriel_allgather_create(env->comm, b.window, &o, &req));
		bed_exec(&b, req, 3000, 1, k % 2, "growing");
		REQUIRE_OK(oriel_allgather_destroy(req));
	}
	REQUIRE_OK(bed_close(&b));
}

TEST(queues_made_one_after_the_other)
{
	struct ranks_options o = { .nranks = 5, .topology = "5x1", .timeout_s = 60 };

	setenv("ORIEL_CONNECT", "0", 1);
	ranks_run(&o, growing_rank, NULL);
	unsetenv("ORIEL_CONNECT");
}
