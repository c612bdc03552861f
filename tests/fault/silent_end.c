/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/silent_end.c - a rank gives up and frees its memory before a queued peer has learned
 * of it.
 *
 * The peer's put must get no answer, so that the news of the failure ends it.  An answer ("no such
 * key") would be reported as the first cause.  Here the boot uses callbacks and never delivers
 * news.  So the put ends by its retries, which are few.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/boot/boot.h"
#include "../../src/util/util.h"
#include "../ranks.h"

#define BYTES 4096

static int *gone; /* shared, 1: rank 1's memory is; 2: rank 0 has tried to write to it */

static int play_allgather(void *ctx, const void *mine, void *all, size_t bytes)
{
	struct oriel_boot *under = ctx;

	return under->ops->allgather(under, mine, all, bytes, 60 * ORI_NS_PER_S);
}

static const struct oriel_boot_ops play_ops = { sizeof(struct oriel_boot_ops), play_allgather, NULL,
						NULL };

static void give_up(struct oriel_comm *comm, struct oriel_window *window, int window_only)
{
	REQUIRE_OK(oriel_comm_abort(comm, ORIEL_EABORTED));
	if (window_only)
		REQUIRE_OK(oriel_window_destroy(window));
	else
		REQUIRE_OK(oriel_comm_destroy(comm));
	__atomic_store_n(gone, 1, __ATOMIC_SEQ_CST);
	/* with its NIC still there */
	while (window_only && __atomic_load_n(gone, __ATOMIC_SEQ_CST) == 1)
		sched_yield();
	if (window_only)
		REQUIRE_OK(oriel_comm_destroy(comm));
}

static void put_to_nobody(struct oriel_comm *comm, struct oriel_window *window)
{
	struct oriel_source source;
	uint8_t mine[BYTES] = { 1 };
	int err;

	while (!__atomic_load_n(gone, __ATOMIC_SEQ_CST))
		sched_yield();
	REQUIRE_OK(oriel_window_source(window, mine, BYTES, &source));
	err = oriel_window_put_signal(window, 1, 0, &source, 0, BYTES, 0, ORIEL_ADD, 1, NULL);
	if (!err)
		err = oriel_window_wait_signal(window, 1, 0, ORIEL_GE, 1, NULL);
	CHECK_EQ(err, ORIEL_EREMOTE);
	/* the word of a failure comes before its text */
	do {
		CHECK_EQ(oriel_comm_status(comm), ORIEL_EREMOTE);
		sched_yield();
	} while (!strstr(oriel_last_error(), "queue to rank 1") && !check_failures);
	CHECK_HAS(oriel_last_error(), "does not answer");
	__atomic_store_n(gone, 2, __ATOMIC_SEQ_CST);
	REQUIRE_OK(oriel_comm_destroy(comm));
}

static void one_rank(struct rank_env *env)
{
	struct oriel_comm_options options = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_window_options shape = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_boot *boot;
	struct oriel_comm *comm;
	struct oriel_window *window;

	options.topology = "2x1";
	shape.bytes = BYTES;
	REQUIRE_OK(oriel_boot_user(&play_ops, env->boot, env->rank, env->nranks, &boot));
	REQUIRE_OK(oriel_comm_create(boot, &options, &comm));
	REQUIRE_OK(oriel_window_create(comm, &shape, &window));
	if (env->rank)
		give_up(comm, window, *(int *)env->arg);
	else
		put_to_nobody(comm, window);
	REQUIRE_OK(oriel_boot_destroy(boot));
}

static void run(int window_only)
{
	struct ranks_options o = { .nranks = 2, .processes = 1, .no_comm = 1 };

	gone = ranks_shared(sizeof(*gone));
	REQUIRE(gone);
	setenv("ORIEL_SOFT_FAULTS", "retry=4", 1);
	ranks_run(&o, one_rank, &window_only);
	unsetenv("ORIEL_SOFT_FAULTS");
}

TEST(a_window_of_a_failed_comm_goes)
{
	run(1);
}

TEST(a_failed_comm_goes)
{
	run(0);
}
