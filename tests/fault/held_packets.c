/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/held_packets.c - comms of thread ranks that end while their NICs still hold packets
 * back.
 *
 * A duplicate that the faulty wire delays lives longer than its message, and longer than the flush
 * before a comm is destroyed.  The NIC must not put it into the ring of a rank that has freed the
 * ring.
 */
#include <stdlib.h>
#include <string.h>

#include "../ranks.h"

#define ROUNDS 500
#define BYTES 4096

static void ring_and_go(struct rank_env *env)
{
	struct oriel_comm_options options = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_window_options shape = ORIEL_WINDOW_OPTIONS_INIT;
	uint8_t mine[BYTES];
	int next = (env->rank + 1) % env->nranks,
	    last = (env->rank + env->nranks - 1) % env->nranks;

	options.topology = "4x1";
	shape.bytes = BYTES;
	for (int i = 0; i < ROUNDS && !check_failures; i++) {
		struct oriel_comm *comm;
		struct oriel_window *window;
		struct oriel_source source;
		uint8_t *here;

		REQUIRE_OK(oriel_comm_create(env->boot, &options, &comm));
		REQUIRE_OK(oriel_window_create(comm, &shape, &window));
		here = oriel_window_buffer(window);
		memset(mine, env->rank + i, BYTES);
		REQUIRE_OK(oriel_window_source(window, mine, BYTES, &source));
		REQUIRE_OK(oriel_window_put_signal(window, next, 0, &source, 0, BYTES, 0, ORIEL_ADD,
						   1, NULL));
		REQUIRE_OK(oriel_window_wait_signal(window, last, 0, ORIEL_GE, 1, NULL));
		CHECK_EQ(here[0], (uint8_t)(last + i));
		CHECK_EQ(here[BYTES - 1], (uint8_t)(last + i));
		REQUIRE_OK(oriel_window_destroy(window));
		REQUIRE_OK(oriel_comm_destroy(comm));
	}
}

TEST(a_comm_ends_before_its_packets)
{
	struct ranks_options o = { .nranks = 4, .no_comm = 1 };

	setenv("ORIEL_SOFT_FAULTS", "seed=5,dup=0.5,delay=0.5,reorder=0.3", 1);
	ranks_run(&o, ring_and_go, NULL);
	unsetenv("ORIEL_SOFT_FAULTS");
}
