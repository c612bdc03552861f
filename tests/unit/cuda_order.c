/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/cuda_order.c - a signal in host memory may be seen before the payload in GPU memory.
 *
 * An engine whose NIC writes into GPU memory asks the GPU whether it keeps this order, and refuses
 * a GPU that does not.  The software NIC plays such a NIC with late_device=1.
 */
#include <stdlib.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#include "../check.h"
#include "../ranks.h"
#include "engine/engine.h"
#include "fake_cuda/apart.h"
#include "fake_cuda/fake_cuda.h"

#define BYTES 4096u
#define ROUNDS 8

static int make_comm(struct rank_env *env, struct oriel_comm **comm)
{
	struct oriel_comm_options o = ORIEL_COMM_OPTIONS_INIT;

	o.device = "cuda";
	o.topology = "2x1";
	o.timeout = 60;
	return oriel_comm_create(env->boot, &o, comm);
}

struct order_args {
	struct oriel_window_dev win;
	uint64_t round;
	uint64_t *wrong; /* device memory */
};

/* Waits for the signal and looks at the payload at once. */
ORIEL_KERNEL(order_kernel, struct order_args)
{
	struct oriel_group g = oriel_group_block();
	const uint8_t *bytes = (const uint8_t *)oriel_mapped_address(&a->win, oriel_rank(&a->win),
								     0);
	int err = oriel_wait_signal_from(&a->win, g, 0, 0, ORIEL_GE, a->round);

	if (oriel_group_is_leader(g))
		for (uint32_t i = 0; i < BYTES; i++)
			*a->wrong += err || bytes[i] != (uint8_t)a->round;
	return err;
}

static void send(struct oriel_comm *c, struct oriel_window *w, uint64_t round)
{
	uint8_t *mine = (uint8_t *)oriel_window_buffer(w) + BYTES, host[BYTES];
	struct oriel_source s;

	memset(host, (int)round, BYTES);
	REQUIRE_OK(oriel_copy(c, mine, host, BYTES));
	REQUIRE_OK(oriel_window_source(w, mine, BYTES, &s));
	REQUIRE_OK(oriel_window_put_signal(w, 1, 0, &s, 0, BYTES, 0, ORIEL_ADD, 1, NULL));
	REQUIRE_OK(oriel_comm_sync(c, NULL));
}

static void receive(struct oriel_comm *c, struct order_args *a, uint64_t round)
{
	a->round = round;
	REQUIRE_OK(oriel_launch(c, fake_cuda_kernel(&order_kernel), 1, 1, a, sizeof(*a), NULL));
	REQUIRE_OK(oriel_comm_sync(c, NULL));
}

static uint64_t wrong_bytes; /* ranks are threads */

static void exchange(struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct order_args a = { .round = 0 };
	struct oriel_window *w;
	struct oriel_comm *c;

	o.bytes = 2 * BYTES;
	REQUIRE_OK(make_comm(env, &c));
	REQUIRE_OK(oriel_window_create(c, &o, &w));
	REQUIRE_OK(oriel_window_device(w, &a.win));
	REQUIRE_OK(oriel_alloc(c, sizeof(*a.wrong), (void **)&a.wrong));
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		if (env->rank)
			receive(c, &a, round);
		else
			send(c, w, round);
		REQUIRE_OK(oriel_window_barrier(w, 0, NULL));
		REQUIRE_OK(oriel_comm_sync(c, NULL));
	}
	if (env->rank)
		REQUIRE_OK(oriel_copy(c, &wrong_bytes, a.wrong, sizeof(wrong_bytes)));
	REQUIRE_OK(oriel_window_destroy(w));
	REQUIRE_OK(oriel_free(c, a.wrong));
	REQUIRE_OK(oriel_comm_destroy(c));
}

struct row {
	const char *gpu;
	const char *order; /* ORIEL_NIC_ORDER */
	int wrong;         /* may bytes be? */
};

static void run_row(void *arg)
{
	struct ranks_options o = { .nranks = 2, .no_comm = 1 };
	const struct row *row = arg;

	setenv("ORIEL_SOFT_FAULTS", "late_device=1", 1);
	setenv("ORIEL_NIC_ORDER", row->order, 1);
	fake_cuda_knobs(row->gpu);
	ranks_run(&o, exchange, NULL);
	if (row->wrong)
		CHECK(wrong_bytes > 0);
	else
		CHECK_EQ(wrong_bytes, 0);
}

/* With the check taken out payload is stale: so it is needed. */
TEST(without_the_check_payload_is_stale)
{
	struct row row = { "order=0", "0", 1 };
	struct apart a;

	apart_run(&a, run_row, &row);
}

TEST(a_gpu_that_orders_sees_the_payload)
{
	struct row row = { "order=1", "1", 0 };
	struct apart a;

	apart_run(&a, run_row, &row);
}

static void be_refused(struct rank_env *env)
{
	struct oriel_comm *c = NULL;

	CHECK_EQ(make_comm(env, &c), ORIEL_EUNSUPPORTED);
	CHECK_HAS(oriel_last_error(), "ORIEL_NIC_ORDER=0");
	CHECK(!c);
}

static void run_refused(void *arg)
{
	struct ranks_options o = { .nranks = 2, .no_comm = 1 };

	setenv("ORIEL_SOFT_FAULTS", "late_device=1", 1);
	fake_cuda_knobs(arg);
	ranks_run(&o, be_refused, NULL);
}

TEST(a_gpu_that_does_not_order_is_refused)
{
	struct apart a;

	apart_run(&a, run_refused, "order=0");
	apart_run(&a, run_refused, "c2c=1");
}

/* ---- one question for all engines ------------------------------------------------------------ */

static int not_ordered(void *ctx, char *why, size_t bytes)
{
	++*(int *)ctx;
	snprintf(why, bytes, "this GPU orders nothing");
	return ORIEL_ESYSTEM;
}

TEST(every_engine_with_a_nic_asks)
{
	static const char *const names[] = { "mlx5", "verbs", "ofi" };
	char why[256];
	int asked = 0;
	struct ori_engine_world world = { .ctx = &asked, .nranks = 1, .ordered = not_ordered };
	struct ori_config config;
	uint32_t mask;

	REQUIRE_OK(ori_config_read(&config));
	CHECK_EQ(ori_engine_ordered(&config, &world, why, sizeof(why)), ORIEL_ESYSTEM);
	CHECK_EQ(ori_engine_ordered(&config, NULL, why, sizeof(why)), 0);
	for (size_t i = 0; i < ORI_COUNT(names); i++) {
		snprintf(config.engine, sizeof(config.engine), "%s", names[i]);
		/* without such a device it is refused before, by its name */
		CHECK_EQ(ori_engine_offer(&config, &world, 0, &mask, why, sizeof(why)),
			 ORIEL_EUNSUPPORTED);
		CHECK_EQ(mask, 0);
	}
	config.nic_order = 0;
	asked = 0;
	CHECK_EQ(ori_engine_ordered(&config, &world, why, sizeof(why)), 0);
	CHECK_EQ(asked, 0);
}
