/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/engine.c - which engines there are, whom they serve, and what a syndrome is called. */
#include "../../src/engine/engine.h"
#include "../check.h"
#include <oriel/oriel.h>

TEST(the_software_nic_is_listed)
{
	struct ori_engine_row row;

	CHECK_EQ(ori_engine_row(0, &row), 1);
	CHECK(!strcmp(row.name, "soft"));
	CHECK(row.text[0] != '\0');
	CHECK_EQ(ori_engine_row(1, &row), 0);
}

TEST(ranks_of_two_machines_are_refused_with_their_reason)
{
	CHECK_EQ(ori_engine_require(0, 4, 1, "ORIEL_TOPOLOGY puts them on nodes 0 and 1"), 0);
	CHECK_EQ(ori_engine_require(0, 4, 0, "different hosts a and b"), ORIEL_EUNSUPPORTED);
	CHECK_HAS(oriel_last_error(),
		  "rank 0 and rank 4 are queued peers (different hosts a and b)");
	CHECK_HAS(oriel_last_error(), "one machine");
}

TEST(an_unknown_engine_is_refused)
{
	struct ori_engine_world world = { 0 };
	struct ori_engine *engine = NULL;
	struct ori_config config;

	REQUIRE_OK(ori_config_read(&config));
	strcpy(config.engine, "verbs");
	CHECK_EQ(ori_engine_open(&config, &world, &engine), ORIEL_ECONFIG);
	CHECK_HAS(oriel_last_error(), "ORIEL_ENGINE=verbs");
	CHECK(!engine);
}

TEST(bad_faults_and_manners_are_refused)
{
	struct ori_config config;

	REQUIRE_OK(ori_config_read(&config));
	CHECK_EQ(ori_soft_engine_check(&config), 0);
	strcpy(config.soft_faults, "seed=1,drop=2");
	CHECK_EQ(ori_soft_engine_check(&config), ORIEL_ECONFIG);
	CHECK_HAS(oriel_last_error(), "drop");
	strcpy(config.soft_faults, "");
	strcpy(config.soft_nic, "cx99");
	CHECK_EQ(ori_soft_engine_check(&config), ORIEL_ECONFIG);
	CHECK_HAS(oriel_last_error(), "cx99");
}

TEST(syndromes_have_words)
{
	CHECK_HAS(ori_syndrome_text(0x13), "remote access");
	CHECK_HAS(ori_syndrome_text(0x15), "retry");
	CHECK_HAS(ori_syndrome_text(0x7f), "unknown");
}
