/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/mlx5_library.c - the mlx5 engine as the library chooses and uses it, over
 * tests/mlx5_stub: messages if something is missing, the engine that is chosen instead, and
 * operations that fail on a NIC that reports nothing.
 */
#include <stdlib.h>
#include <unistd.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#include "../check.h"
#include "../ranks.h"
#include "engine/engine.h"
#include "util/util.h"

#ifndef MLX5_STUB_LIBRARY /* the build says where it is */
#define MLX5_STUB_LIBRARY "libmlx5_stub.so"
#endif

static void use_stub(const char *engine, const char *lacking)
{
	setenv("ORIEL_IB_LIBRARY", MLX5_STUB_LIBRARY, 1);
	setenv("ORIEL_MLX5_LIBRARY", MLX5_STUB_LIBRARY, 1);
	setenv("ORIEL_ENGINE", engine, 1);
	if (lacking)
		setenv("MLX5_STUB_LACKS", lacking, 1);
	else
		unsetenv("MLX5_STUB_LACKS");
}

/* ---- choice ---------------------------------------------------------------------------------- */

static char captured[4096];

/* What ranks of two machines would use; the lines that were logged meanwhile are in `captured`. */
static int offer(const char *engine, const char *lacking, uint32_t *mask)
{
	FILE *file = tmpfile();
	int saved = dup(STDERR_FILENO), err;
	struct ori_config config;
	char why[ORI_ENGINE_REASON];
	ssize_t n;

	use_stub(engine, lacking);
	err = ori_config_read(&config);
	dup2(fileno(file), STDERR_FILENO);
	if (!err)
		err = ori_engine_offer(&config, NULL, 0, mask, why, sizeof(why));
	dup2(saved, STDERR_FILENO);
	n = pread(fileno(file), captured, sizeof(captured) - 1, 0);
	captured[n < 0 ? 0 : n] = '\0';
	close(saved);
	fclose(file);
	return err;
}

TEST(a_nic_is_used_as_it_is)
{
	uint32_t mask = 0;

	CHECK_EQ(offer("auto", NULL, &mask), 0);
	CHECK(mask & ORI_ENGINE_MLX5);
	CHECK(!strcmp(ori_engine_best(mask), "mlx5"));
	CHECK(!strstr(captured, "verbs"));
}

static const struct {
	const char *lacking, *what, *remedy;
} lacks[] = {
	{ "devx", "DevX", "UCTX_EN=1" },
	{ "capabilities", "capabilities", "UCTX_EN=1" },
	{ "core_direct", "core-direct", "firmware" },
	{ "cq", "ignores overruns", "kernel" },
	{ "qp", "queue pair", "rdma-core" },
	{ "memory", "memory", "rdma-core" },
	{ "doorbell", "doorbell", "uverbs" },
	{ "umem", "queue memory", "ulimit -l" },
	{ "uar", "doorbell page", "ORIEL_LANES" },
	{ "object", "core-direct queue pair", "firmware" },
};

TEST(verbs_takes_its_place_and_a_line_says_why)
{
	for (size_t i = 0; i < ORI_COUNT(lacks); i++) {
		uint32_t mask = 0;

		CHECK_EQ(offer("auto", lacks[i].lacking, &mask), 0);
		CHECK_EQ(mask & (ORI_ENGINE_MLX5 | ORI_ENGINE_VERBS), ORI_ENGINE_VERBS);
		CHECK_HAS(captured, "engine mlx5 falls back to verbs");
		CHECK_HAS(captured, lacks[i].what);
		CHECK_HAS(captured, lacks[i].remedy);
	}
}

/* They only make errors known sooner. */
TEST(completion_events_may_be_missing)
{
	uint32_t mask = 0;

	CHECK_EQ(offer("auto", "channel", &mask), 0);
	CHECK(mask & ORI_ENGINE_MLX5);
	CHECK(!strstr(captured, "verbs"));
}

/* Nobody asked for one. */
TEST(another_makers_nic_gets_no_line)
{
	uint32_t mask = 0;

	CHECK_EQ(offer("auto", "mlx5", &mask), 0);
	CHECK_EQ(mask & (ORI_ENGINE_MLX5 | ORI_ENGINE_VERBS), ORI_ENGINE_VERBS);
	CHECK(!strstr(captured, "mlx5 falls back"));
}

TEST(by_name_it_is_that_or_an_error)
{
	uint32_t mask = 0;

	CHECK_EQ(offer("mlx5", NULL, &mask), 0);
	CHECK_EQ(mask, ORI_ENGINE_MLX5);
	for (size_t i = 0; i < ORI_COUNT(lacks); i++) {
		CHECK_EQ(offer("mlx5", lacks[i].lacking, &mask), ORIEL_EUNSUPPORTED);
		CHECK_HAS(oriel_last_error(), "ORIEL_ENGINE=mlx5");
		CHECK_HAS(oriel_last_error(), lacks[i].what);
		CHECK_HAS(oriel_last_error(), lacks[i].remedy);
	}
}

TEST(listings_say_it)
{
	struct ori_engine_row row;

	use_stub("auto", NULL);
	CHECK_EQ(ori_engine_row(3, &row), 1);
	CHECK(!strcmp(row.name, "mlx5"));
	CHECK_HAS(row.text, "mlx5_0 port 1");
	use_stub("auto", "core_direct");
	CHECK_EQ(ori_engine_row(3, &row), 1);
	CHECK_HAS(row.text, "not usable");
	CHECK_HAS(row.text, "core-direct");
}

/* ---- a NIC that tells nobody ----------------------------------------------------------------- */

#define PUTS 20

struct count_args {
	struct oriel_window_dev win;
	struct oriel_source src;
	uint64_t *mine;         /* of src */
	const uint64_t *theirs; /* where the puts arrive */
	int32_t *wrong;         /* counted and not there */
};

ORIEL_KERNEL(count_kernel, struct count_args)
{
	struct oriel_group g = oriel_group_block();
	int err = 0;

	for (uint64_t i = 1; i <= PUTS && !err; i++) {
		*a->mine = i;
		err = oriel_put_counter(&a->win, g, 1, 0, &a->src, 0, 8, 0);
		if (!err)
			err = oriel_wait_counter(&a->win, g, 1, 0, ORIEL_GE, i);
		/* counted by the NIC after the write, so this is no race */
		if (!err)
			*a->wrong += ori_load_acquire_sys(a->theirs) != i;
	}
	return err;
}

static uint64_t *theirs; /* ranks are threads */

static void count(struct oriel_comm *comm, struct oriel_window *w)
{
	struct count_args a = { .theirs = theirs };
	int32_t wrong = 0;
	void *mine;

	REQUIRE_OK(oriel_alloc(comm, 8, &mine));
	a.mine = mine;
	a.wrong = &wrong;
	REQUIRE_OK(oriel_window_source(w, mine, 8, &a.src));
	REQUIRE_OK(oriel_window_device(w, &a.win));
	CHECK_EQ(oriel_launch(comm, &count_kernel, 1, 1, &a, sizeof(a), NULL), ORIEL_EREMOTE);
	CHECK_EQ(wrong, 0);
	CHECK_EQ(oriel_free(comm, mine), 0);
}

/* Rank 1 only waits, for a signal that never comes: the failure of rank 0's queue ends it too. */
static void fail_on(struct rank_env *env)
{
	struct oriel_comm_options co = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_window_options wo = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_comm *comm;
	struct oriel_window *w;

	co.topology = "2x1";
	co.timeout = 60;
	wo.signals = wo.counters = 1;
	wo.bytes = 64;
	REQUIRE_OK(oriel_comm_create(env->boot, &co, &comm));
	REQUIRE_OK(oriel_window_create(comm, &wo, &w));
	if (env->rank == 1)
		theirs = oriel_window_buffer(w);
	REQUIRE_OK(oriel_comm_barrier(comm, ORIEL_WORLD));
	if (env->rank == 0)
		count(comm, w);
	else
		CHECK(oriel_window_wait_signal(w, 0, 0, ORIEL_GE, 1, NULL) < 0);
	CHECK(oriel_comm_status(comm) < 0);
	CHECK_EQ(oriel_window_destroy(w), 0);
	CHECK_EQ(oriel_comm_destroy(comm), 0);
}

/*
 * WAIT is satisfied by the CQE of a failed WQE too, and the companion counts it: the count is
 * looked into.  Put, WAIT and add are hit in turn, with completion events and without.
 */
TEST(a_failed_put_is_never_counted)
{
	struct ranks_options o = { .nranks = 2, .no_comm = 1 };
	char faults[64];

	for (int at = 1; at <= 9; at++) {
		snprintf(faults, sizeof(faults), "seed=%d,qp_error_at=%d", at, at);
		setenv("ORIEL_SOFT_FAULTS", faults, 1);
		use_stub("mlx5", at % 2 ? "channel" : NULL);
		ranks_run(&o, fail_on, NULL);
	}
	unsetenv("ORIEL_SOFT_FAULTS");
}
