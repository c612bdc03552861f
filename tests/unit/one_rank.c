/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/one_rank.c - a comm of one rank: calls that form new comms, and the text of a plan.
 *
 * A program that was written for many ranks also starts with one, without a launcher.
 */
#include <oriel/coll.h>
#include <oriel/oriel.h>

#include "../check.h"

static struct oriel_comm *alone(void)
{
	struct oriel_comm *comm = NULL;

	setenv("ORIEL_LAUNCHER", "none", 1);
	if (oriel_init(&comm))
		check_fail(__FILE__, __LINE__, "oriel_init: %s", oriel_last_error());
	return comm;
}

static void check_comm(struct oriel_comm *comm)
{
	CHECK_EQ(oriel_comm_size(comm), 1);
	CHECK_EQ(oriel_comm_rank(comm), 0);
	CHECK_EQ(oriel_comm_barrier(comm, ORIEL_WORLD), 0);
	CHECK_EQ(oriel_comm_destroy(comm), 0);
}

TEST(a_subset)
{
	struct oriel_comm *comm = alone(), *sub = NULL;
	int self = 0, other = 1;

	REQUIRE(comm);
	REQUIRE_OK(oriel_comm_subset(comm, &self, 1, 0, &sub));
	check_comm(sub);
	CHECK(oriel_comm_subset(comm, &other, 1, 0, &sub) < 0);
	CHECK_HAS(oriel_last_error(), "rank 1");
	CHECK_EQ(oriel_finalize(comm), 0);
}

TEST(nobody_has_died)
{
	struct oriel_comm *comm = alone(), *sub = NULL;

	REQUIRE(comm);
	REQUIRE_OK(oriel_comm_shrink(comm, &sub));
	check_comm(sub);
	CHECK_EQ(oriel_finalize(comm), 0);
}

TEST(the_plan_of_an_exchange)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_alltoallv_request *request;
	struct oriel_comm *comm = alone();
	char text[256] = "", cut[8] = "";

	REQUIRE(comm);
	o.slot_bytes = 4096;
	REQUIRE_OK(oriel_alltoallv_create(comm, &o, &request));
	CHECK_EQ(oriel_alltoallv_explain(request, 4096, text, sizeof(text)), 0);
	CHECK_HAS(text, "4K per peer");
	CHECK_HAS(text, "; runs 1 block of 1 thread: ori_alltoallv_");
	CHECK_EQ(oriel_alltoallv_explain(request, 4096, cut, sizeof(cut)), 0);
	CHECK_EQ(strncmp(text, cut, sizeof(cut) - 1), 0);
	CHECK_EQ(strlen(cut), sizeof(cut) - 1);
	CHECK(oriel_alltoallv_explain(request, 4096, NULL, 0) < 0);
	CHECK_EQ(oriel_alltoallv_destroy(request), 0);
	CHECK_EQ(oriel_finalize(comm), 0);
}
