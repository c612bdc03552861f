/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_gather.c - the policies of the all-gather, on the fake driver: each moves the
 * right bytes, the explanation names what moves them, and the variable counts without an option.
 */
#include "../coll/allgather_bed.h"
#include "fake_cuda/fake_cuda.h"
#include "kernels/gather.h"

#define SMALL 1000u
#define LARGE ((1u << 20) + 48)

struct scene {
	int policy;
	const char *small, *large; /* parts of the explanations */
};

static void policy_rank(struct rank_env *env)
{
	struct oriel_allgather_options o = ORIEL_ALLGATHER_OPTIONS_INIT;
	struct oriel_allgather_request *req = NULL;
	const struct scene *s = env->arg;
	char text[256];
	struct bed b;

	REQUIRE_OK(bed_open(&b, env, LARGE, 1));
	o.policy = s->policy;
	o.bytes = b.room;
	REQUIRE_OK(oriel_allgather_create(env->comm, b.window, &o, &req));
	REQUIRE_OK(oriel_allgather_explain(req, SMALL, 1, text, sizeof(text)));
	CHECK_HAS(text, s->small);
	REQUIRE_OK(oriel_allgather_explain(req, LARGE, 1, text, sizeof(text)));
	CHECK_HAS(text, s->large);
	for (int turn = 0; turn < 2; turn++) {
		bed_exec(&b, req, SMALL, 1, turn, "small");
		bed_exec(&b, req, LARGE, 1, turn, "large");
	}
	CHECK_EQ(oriel_allgather_status(req), 0);
	REQUIRE_OK(oriel_allgather_destroy(req));
	REQUIRE_OK(bed_close(&b));
}

static void run_policy(const struct scene *s, const char *topology)
{
	struct ranks_options o = { .nranks = 4, .processes = 1, .topology = topology };

	setenv("ORIEL_DEVICE", "cuda", 1);
	setenv("ORIEL_TUNE_FILE", "none", 1);
	fake_cuda_knobs("threads=2");
	(void)fake_cuda_kernel(ori_gather_kernel());
	(void)fake_cuda_kernel(ori_gather_node_kernel());
	ranks_run(&o, policy_rank, (void *)(uintptr_t)s);
}

TEST(by_size)
{
	const struct scene s = { 0, "a kernel stores", "without SMs (policy by_size)" };

	run_policy(&s, NULL);
}

TEST(fastest)
{
	const struct scene s = { ORIEL_GATHER_FASTEST, "a kernel stores",
				 "a kernel stores each block to all (policy fastest)" };

	run_policy(&s, NULL);
}

TEST(no_sms)
{
	const struct scene s = { ORIEL_GATHER_NO_SMS, "without SMs (policy no_sms)",
				 "without SMs" };

	run_policy(&s, NULL);
}

TEST(no_sms_between_nodes)
{
	const struct scene s = { ORIEL_GATHER_NO_SMS, "in a node copy engines", "without SMs" };

	run_policy(&s, "2x2");
}

TEST(the_variable_counts_without_an_option)
{
	const struct scene s = { 0, "without SMs (policy no_sms)", "without SMs" };
	const struct scene option = { ORIEL_GATHER_FASTEST, "a kernel", "a kernel" };

	setenv("ORIEL_GATHER_POLICY", "no_sms", 1);
	run_policy(&s, NULL);
	run_policy(&option, NULL);
	unsetenv("ORIEL_GATHER_POLICY");
}
