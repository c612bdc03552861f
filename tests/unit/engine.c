/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/engine.c - which engines there are, whom they serve, and what a syndrome is called. */
#include "../../src/engine/engine.h"
#include "../../src/engine/proxied/fabric.h"
#include "../check.h"
#include <oriel/oriel.h>

TEST(every_engine_is_listed_with_what_it_would_use)
{
	static const char *const names[] = { "soft", "ofi", "verbs", "mlx5" };
	struct ori_engine_row row;

	for (int n = 0; n < 4; n++) {
		CHECK_EQ(ori_engine_row(n, &row), 1);
		CHECK(!strcmp(row.name, names[n]));
		CHECK(row.text[0] != '\0');
	}
	CHECK_EQ(ori_engine_row(4, &row), 0);
	CHECK_EQ(ori_engine_row(-1, &row), 0);
}

TEST(one_machine_is_served_by_the_software_nic)
{
	struct ori_config config;
	uint32_t mask = 0;
	char why[256];

	REQUIRE_OK(ori_config_read(&config));
	strcpy(config.engine, "auto");
	CHECK_EQ(ori_engine_offer(&config, NULL, 1, &mask, why, sizeof(why)), 0);
	CHECK_EQ(mask, ORI_ENGINE_SOFT);
	CHECK(!strcmp(ori_engine_best(mask), "soft"));
	/* the best of several, the same for every rank that has the same mask */
	CHECK(!strcmp(ori_engine_best(ORI_ENGINE_SOFT | ORI_ENGINE_OFI), "ofi"));
	CHECK(!strcmp(ori_engine_best(ORI_ENGINE_VERBS | ORI_ENGINE_OFI), "verbs"));
	CHECK(!strcmp(ori_engine_best(ORI_ENGINE_VERBS | ORI_ENGINE_MLX5), "mlx5"));
	CHECK(!ori_engine_best(0));
}

TEST(two_machines_are_not)
{
	struct ori_config config;
	uint32_t mask = 0;
	char why[256];

	REQUIRE_OK(ori_config_read(&config));
	strcpy(config.engine, "soft");
	CHECK_EQ(ori_engine_offer(&config, NULL, 0, &mask, why, sizeof(why)), ORIEL_EUNSUPPORTED);
	CHECK_HAS(oriel_last_error(), "one machine");
	strcpy(config.engine, "auto");
	CHECK_EQ(ori_engine_offer(&config, NULL, 0, &mask, why, sizeof(why)), 0);
	CHECK(!(mask & ORI_ENGINE_SOFT));
	/* what cannot be used says why */
	CHECK(mask == (ORI_ENGINE_MLX5 | ORI_ENGINE_VERBS | ORI_ENGINE_OFI) || why[0]);
}

TEST(an_unknown_engine_is_refused)
{
	struct ori_engine_world world = { 0 };
	struct ori_engine *engine = NULL;
	struct ori_config config;
	uint32_t mask = 0;
	char why[256];

	REQUIRE_OK(ori_config_read(&config));
	strcpy(config.engine, "carrier");
	CHECK_EQ(ori_engine_offer(&config, NULL, 1, &mask, why, sizeof(why)), ORIEL_ECONFIG);
	CHECK_HAS(oriel_last_error(), "ORIEL_ENGINE=carrier");
	CHECK_EQ(ori_engine_open("carrier", &config, &world, &engine), ORIEL_EINVAL);
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

/* ---- what a fabric is given ------------------------------------------------------------------ */

static int asked_fd;
static uint64_t asked_offset;

static int give_dmabuf(void *ctx, const void *base, uint64_t bytes, uint64_t *offset)
{
	*offset = bytes;
	return ctx == base ? 77 : -1;
}

static int open_and_ask(const struct ori_config *config, const struct ori_fabric_world *world,
			struct ori_fabric **fabric)
{
	(void)config;
	(void)fabric;
	asked_fd = world->dmabuf ? world->dmabuf(world->ctx, &asked_fd, 123, &asked_offset) : -2;
	return ORIEL_EUNSUPPORTED;
}

TEST(fabrics_reach_the_dmabufs_of_the_device)
{
	static const struct ori_fabric_kind kind = { "asking", open_and_ask };
	struct ori_engine_world world = { .ctx = &asked_fd, .nranks = 1, .dmabuf = give_dmabuf };
	struct ori_engine *engine = NULL;
	struct ori_config config;

	REQUIRE_OK(ori_config_read(&config));
	CHECK_EQ(ori_proxied_open(&config, &world, &kind, &engine), ORIEL_EUNSUPPORTED);
	CHECK_EQ(asked_fd, 77);
	CHECK_EQ(asked_offset, 123);
	world.dmabuf = NULL;
	CHECK_EQ(ori_proxied_open(&config, &world, &kind, &engine), ORIEL_EUNSUPPORTED);
	CHECK_EQ(asked_fd, -2);
	CHECK(!engine);
}

TEST(syndromes_have_words)
{
	CHECK_HAS(ori_syndrome_text(0x13), "remote access");
	CHECK_HAS(ori_syndrome_text(0x15), "retry");
	CHECK_HAS(ori_syndrome_text(0x7f), "unknown");
}
