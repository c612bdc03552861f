/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_tune.c - plans of CUDA ranks, on the fake driver: they start from the tables, and
 * the blocks of all ranks that share the GPU fit on it together.
 */
#include "../ranks.h"
#include "coll/alltoallv/alltoallv.h"
#include "coll/tune/tune.h"
#include "fake_cuda/fake_cuda.h"

#define BYTES (64u << 10)

/* Blocks of this rank's launch, and how many there may be. */
static void check_resident(struct oriel_comm *c, const struct ori_a2a_plan *plan, int *resident)
{
	uint32_t warps = plan->kind[ORI_PLAN_MAPPED].warps,
		 most = plan->kind[ORI_PLAN_MAPPED].blocks;

	if (!plan->uniform && plan->kind[ORI_PLAN_QUEUED].warps > warps)
		warps = plan->kind[ORI_PLAN_QUEUED].warps;
	if (!plan->uniform && plan->kind[ORI_PLAN_QUEUED].blocks > most)
		most = plan->kind[ORI_PLAN_QUEUED].blocks;
	REQUIRE_OK(c->device->ops->resident(c->device,
					    ori_a2a_kernel(plan->uniform ? ORI_A2A_KERNEL_MAPPED :
									   ORI_A2A_KERNEL_MIXED),
					    (int)warps * 32, resident));
	CHECK(*resident > 0);
	CHECK(most * (uint32_t)c->nranks <= (uint32_t)*resident || most == 1);
}

static void exchange(struct rank_env *env)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	struct oriel_alltoallv_request *a = NULL;
	uint64_t host[8] = { 0 };
	void *sizes = NULL;

	for (int r = 0; r < env->nranks; r++)
		host[r] = BYTES;
	o.slot_bytes = BYTES;
	o.expect_bytes = 16u << 20; /* the row with most blocks, over little data */
	REQUIRE_OK(oriel_alloc(env->comm, sizeof(host), &sizes));
	REQUIRE_OK(oriel_copy(env->comm, sizes, host, sizeof(host)));
	REQUIRE_OK(oriel_alltoallv_create(env->comm, &o, &a));
	args.send_sizes = sizes;
	/* not refused by the launch: the plan was cut to what fits */
	REQUIRE_OK(oriel_alltoallv_exec(a, &args, NULL));
	REQUIRE_OK(oriel_comm_sync(env->comm, NULL));
	CHECK_EQ(oriel_alltoallv_status(a), 0);
	REQUIRE_OK(oriel_alltoallv_destroy(a));
	REQUIRE_OK(oriel_free(env->comm, sizes));
}

static void plans_rank(struct rank_env *env)
{
	struct ori_a2a_plan plan, table;
	int resident = 0;
	char text[256];

	REQUIRE_OK(ori_tune_plan(env->comm, 1024, &plan));
	ori_tune_first(ORI_PRESET_TABLES, 1024, &table);
	table.kind[ORI_PLAN_MAPPED].chunk = ORI_A2A_GPU_CHUNK;
	CHECK(!memcmp(plan.kind, table.kind, sizeof(plan.kind)));
	CHECK_EQ(plan.cores, 0);
	REQUIRE_OK(ori_tune_explain(env->comm, 1024, text, sizeof(text)));
	CHECK_HAS(text, "first guess for cuda");
	/* the table has chunks of 64 KiB here, which the kernel raises */
	REQUIRE_OK(ori_tune_explain(env->comm, 16u << 10, text, sizeof(text)));
	CHECK_HAS(text, "mapped=1/16/1M");
	CHECK(!strstr(text, "spread"));
	REQUIRE_OK(ori_tune_explain(env->comm, 64u << 20, text, sizeof(text)));
	CHECK_EQ(strstr(text, "spread=128K") != NULL, plan.uniform);
	REQUIRE_OK(ori_tune_plan(env->comm, 16u << 20, &plan));
	check_resident(env->comm, &plan, &resident);
	/* not a block fewer than must be: as the table says, or as many as fit */
	ori_tune_first(ORI_PRESET_TABLES, 16u << 20, &table);
	for (int k = 0; k < ORI_PLAN_KINDS; k++) {
		uint32_t want = table.kind[k].blocks, fit = (uint32_t)(resident / env->nranks);

		CHECK_EQ(plan.kind[k].blocks, want < fit ? want : fit ? fit : 1);
	}
	/* a short call leaves room */
	REQUIRE_OK(ori_tune_plan(env->comm, 512u << 10, &plan));
	CHECK(plan.kind[ORI_PLAN_MAPPED].blocks * (uint32_t)env->nranks * 5 <=
		      (uint32_t)resident * 4 ||
	      plan.kind[ORI_PLAN_MAPPED].blocks <= 2);
	exchange(env);
}

static void run_plans(int nranks, const char *topology)
{
	struct ranks_options o = { .nranks = nranks, .processes = 1, .topology = topology };

	setenv("ORIEL_DEVICE", "cuda", 1);
	setenv("ORIEL_TUNE_FILE", "none", 1);
	fake_cuda_knobs("threads=2"); /* hundreds of blocks are enough for two cores */
	for (int i = 0; i < ORI_A2A_KERNELS; i++)
		(void)fake_cuda_kernel(ori_a2a_kernel(i));
	ranks_run(&o, plans_rank, NULL);
}

TEST(two_mapped)
{
	run_plans(2, NULL);
}

TEST(four_mapped)
{
	run_plans(4, NULL);
}

TEST(two_nodes)
{
	run_plans(4, "2x2");
}
