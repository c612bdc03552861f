/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/alltoallv_random.c - random splits and random plans of all-to-all-v.
 *
 * One request makes hundreds of calls without reset, on layouts of 1 to 8 ranks, over a good wire
 * and over one with faults.  There are also messages of more than 2^31 bytes.
 *
 * A2A_CALLS is the number of calls of a request (60).  A2A_LARGE=1 enables the large messages.
 * A2A_SEED is the seed; a run that fails prints it.
 */
#include "alltoallv_bed.h"

#define SLOT 9000u

struct layout {
	int nranks, processes;
	const char *topology;
};

struct run {
	struct layout layout;
	uint64_t seed;
	int calls, packed;
	const char *faults;
};

/* A third nothing, a third few bytes, a third up to a slot. */
static uint64_t sizes_mixed(uint64_t seed, uint64_t call, int from, int to)
{
	uint64_t x = bed_random(seed, call, from, to);

	return x % 3 == 0 ? 0 : x % 3 == 1 ? (x >> 8) % 70 : (x >> 8) % (SLOT + 1);
}

static struct ori_a2a_plan random_plan(uint64_t seed, uint64_t call, int rank)
{
	uint64_t x = bed_random(seed + 77, call, rank, 63);
	uint32_t small = x % 4 == 0 ? 0 : (uint32_t)(x >> 8) % 9000;
	struct ori_a2a_plan plan = bed_plan(1 + (uint32_t)(x >> 24) % 4,
					    1 + (uint32_t)(x >> 28) % 3, 16 * (1 + (x >> 32) % 200),
					    small, 1 + (uint32_t)(x >> 44) % 3);

	plan.kind[ORI_PLAN_MAPPED].warps = 1 + (uint32_t)(x >> 48) % 2;
	plan.spread = (uint32_t)(x >> 52) % 2; /* with a forced plan any number means: always */
	if ((x >> 56) % 4 == 0)
		plan.cores = 64; /* a block for each item, as on a GPU */
	return plan;
}

static void random_rank(struct rank_env *env)
{
	const struct run *run = env->arg;
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct bed b;

	if (run->packed)
		o.recv_bytes = (uint64_t)SLOT * (uint64_t)env->nranks;
	else
		o.slot_bytes = SLOT;
	o.send_bytes = (SLOT + 64) * (uint64_t)env->nranks;
	REQUIRE_OK(bed_open(&b, env, &o, sizes_mixed, run->seed));
	/* also after a wrong byte: a rank that stopped would leave the others waiting */
	for (int i = 0; i < run->calls; i++) {
		/* every eighth call by the tuner's plan, every other one by the same as before */
		if (i % 2 == 0) {
			struct ori_a2a_plan plan = random_plan(run->seed, (uint64_t)i, env->rank);

			REQUIRE_OK(ori_alltoallv_plan_set(b.request, i % 8 ? &plan : NULL));
		}
		bed_call(&b, (int)(bed_random(run->seed, (uint64_t)i, 1, 2) % BED_WAYS));
	}
	bed_close(&b);
}

static void run_layout(const struct layout *l, int calls, const char *faults)
{
	const char *text = getenv("A2A_SEED");
	struct ranks_options o = { .deadline_s = 170, .timeout_s = 120 };
	struct run run = { *l, text ? strtoull(text, NULL, 0) : 42, calls, 0, faults };

	if (!bed_runs(l->processes))
		return;
	o.nranks = l->nranks;
	o.processes = l->processes;
	o.topology = l->topology;
	if (faults)
		setenv("ORIEL_SOFT_FAULTS", faults, 1);
	for (run.packed = 0; run.packed < 2; run.packed++)
		ranks_run(&o, random_rank, &run);
	unsetenv("ORIEL_SOFT_FAULTS");
	if (check_failures)
		printf("... %d ranks, topology %s, faults %s, A2A_SEED=%" PRIu64 "\n", l->nranks,
		       l->topology ? l->topology : "none", faults ? faults : "none", run.seed);
}

static const struct layout layouts[] = {
	{ 1, 0, NULL },  { 2, 0, NULL },  { 3, 1, NULL },  { 4, 0, NULL },  { 8, 1, NULL },
	{ 8, 1, "2x4" }, { 8, 1, "4x2" }, { 8, 1, "8x1" }, { 4, 0, "2x2" }, { 3, 0, "3x1" },
};

/* ctest says how many. */
static int calls_wanted(void)
{
	const char *text = getenv("A2A_CALLS");

	return text ? atoi(text) : 60;
}

TEST(random_splits_in_all_layouts)
{
	for (size_t i = 0; i < ORI_COUNT(layouts) && !check_failures; i++)
		run_layout(&layouts[i], calls_wanted(), NULL);
}

/*
 * Faults only between processes.  The wire may hold a packet back until a comm is destroyed, and
 * write it to a ring afterwards.  Thread ranks have freed that ring by then, while a process still
 * has its own mapping of it.
 */
TEST(random_splits_over_a_faulty_wire)
{
	static const struct layout faulty[] = { { 4, 1, "2x2" }, { 3, 1, "3x1" } };
	static const char *faults[] = {
		"seed=5,drop=0.01,dup=0.01,reorder=0.05,mtu=512",
		"seed=6,ooo=1,delay=0.05,mtu=256",
		"seed=7,no_atomics=1,dbr_late=0.1,torn_cqe=0.1",
	};

	if (!bed_runs(1)) {
		check_skip(
			"ranks are processes here, and ThreadSanitizer does not see across them");
		return;
	}
	for (size_t i = 0; i < ORI_COUNT(faulty) * ORI_COUNT(faults) && !check_failures; i++)
		run_layout(&faulty[i % ORI_COUNT(faulty)], calls_wanted(),
			   faults[i / ORI_COUNT(faulty)]);
}

/* Several lanes of queues that wrap at once: blocks of a peer are on different ones. */
TEST(random_splits_over_several_lanes)
{
	const struct layout l = { 4, bed_on_cuda(), "2x2" }, apart = { 4, 1, "2x2" };

	setenv("ORIEL_LANES", "3", 1);
	setenv("ORIEL_QUEUE_DEPTH", "4", 1);
	setenv("ORIEL_QUEUE_START", "65520", 1);
	run_layout(&l, calls_wanted(), NULL);
	/* a wire that holds back single packets: a lane may be far behind the others */
	run_layout(&apart, 2 * calls_wanted(), "seed=8,drop=0.1,delay=0.2,mtu=512");
	unsetenv("ORIEL_LANES");
	unsetenv("ORIEL_QUEUE_DEPTH");
	unsetenv("ORIEL_QUEUE_START");
}

/* ---- over 2^31 bytes ------------------------------------------------------------------------- */

#define LARGE ((1ull << 31) + 4096 + 9)
#define NEEDED_KIB (8ull << 20)

/* Rank 0 sends rank 1 all of it; every byte is looked at. */
static void large_rank(struct rank_env *env)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	const struct ori_a2a_plan plan = bed_plan(3, 2, 1u << 20, 0, 1);
	uint64_t sizes[2] = { 0, env->rank == 0 ? LARGE : 0 }, got[2] = { 1, 1 };
	struct oriel_alltoallv_request *a;

	o.slot_bytes = LARGE;
	REQUIRE_OK(oriel_alltoallv_create(env->comm, &o, &a));
	REQUIRE_OK(ori_alltoallv_plan_set(a, &plan));
	if (env->rank == 0)
		bed_fill(oriel_alltoallv_send_buffer(a), LARGE, 1);
	args.send_sizes = sizes;
	args.recv_sizes = got;
	CHECK_EQ(oriel_alltoallv_exec(a, &args, NULL), 0);
	CHECK_EQ(got[0], env->rank == 1 ? LARGE : 0);
	CHECK_EQ(got[1], 0);
	if (env->rank == 1)
		CHECK_EQ(bed_wrong(oriel_alltoallv_slot(a, 0), LARGE, 1), 0);
	CHECK_EQ(oriel_alltoallv_destroy(a), 0);
}

TEST(large_messages)
{
	struct ranks_options o = { .nranks = 2, .deadline_s = 170, .timeout_s = 120 };

	if (!getenv("A2A_LARGE") || bed_on_cuda()) {
		check_skip("2 GiB a message: set A2A_LARGE=1, on the CPU");
		return;
	}
	if (check_free_kib() < NEEDED_KIB) {
		check_skip("needs 8 GiB of free memory, there are %llu KiB",
			   (unsigned long long)check_free_kib());
		return;
	}
	for (int queued = 0; queued < 2; queued++) {
		o.topology = queued ? "2x1" : NULL;
		ranks_run(&o, large_rank, NULL);
	}
}
