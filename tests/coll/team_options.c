/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/coll/team_options.c - options of a team that one rank or all ranks have wrong, handles, and
 * the place where kernels read a handle.
 */
#include "reduce_bed.h"

/* The handle where kernels can read it: one place per team, with the bytes of the handle. */
static void check_address(struct rank_env *env, struct oriel_team *team, struct oriel_team *other)
{
	const struct oriel_team_dev *there, *again, *elsewhere;
	struct oriel_team_dev dev, copy;

	CHECK_EQ(oriel_team_device_address(team, NULL), ORIEL_EINVAL);
	CHECK_EQ(oriel_team_device_address(NULL, &there), ORIEL_EINVAL);
	REQUIRE_OK(oriel_team_device_address(team, &there));
	REQUIRE_OK(oriel_team_device_address(team, &again));
	REQUIRE_OK(oriel_team_device_address(other, &elsewhere));
	CHECK(there == again && there != elsewhere);
	REQUIRE_OK(oriel_team_device(team, &dev));
	REQUIRE_OK(oriel_copy(env->comm, &copy, there, sizeof(copy)));
	CHECK(!memcmp(&copy, &dev, sizeof(dev)));
}

static void options_rank(struct rank_env *env)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT, good = ORIEL_TEAM_OPTIONS_INIT;
	struct oriel_team *team = NULL, *other = NULL;

	o.channels = env->rank ? 1 : 0;
	CHECK_EQ(oriel_team_create(env->comm, &o, &team), ORIEL_ERANGE);
	o = good;
	o.slot_bytes = 10;
	CHECK_EQ(oriel_team_create(env->comm, &o, &team), ORIEL_ERANGE);
	o = good;
	o.cells = env->rank == 1 ? 3 : 0;
	CHECK_EQ(oriel_team_create(env->comm, &o, &team), ORIEL_EINVAL);
	o.cells = env->rank == 1 ? ORIEL_CELLS_NEVER : ORIEL_CELLS_IF_POSSIBLE;
	CHECK_EQ(oriel_team_create(env->comm, &o, &team), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "cells");
	o = good;
	o.slot_bytes = env->rank ? 8192 : 4096;
	CHECK_EQ(oriel_team_create(env->comm, &o, &team), ORIEL_EMISMATCH);
	CHECK_HAS(oriel_last_error(), "slot_bytes");
	CHECK_EQ(oriel_team_create(env->comm, NULL, env->rank ? &team : NULL), ORIEL_EINVAL);
	CHECK(!team);
	REQUIRE_OK(oriel_team_create(env->comm, NULL, &team));
	REQUIRE_OK(oriel_team_create(env->comm, NULL, &other));
	CHECK_EQ(oriel_team_device(team, NULL), ORIEL_EINVAL);
	check_address(env, team, other);
	CHECK_EQ(oriel_comm_destroy(env->comm), ORIEL_EBUSY);
	/* ranks pass different teams: nothing is destroyed */
	CHECK_EQ(oriel_team_destroy(env->rank ? team : other), ORIEL_EMISMATCH);
	CHECK_EQ(oriel_team_destroy(team), 0);
	CHECK_EQ(oriel_team_destroy(other), 0);
	CHECK_EQ(oriel_team_destroy(NULL), 0);
	CHECK_EQ(oriel_team_status(team), ORIEL_ESTALE);
}

TEST(options_and_handles)
{
	const struct bed_row few[] = { { "threads", 2, 0, NULL }, { "processes", 2, 1, NULL } };

	bed_rows(few, ORI_COUNT(few), options_rank, NULL);
}
