/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/verbs_status.c - every error of libibverbs has the syndrome that a mlx5 CQE would
 * carry.  Also the ORIEL_IB_* variables, and the messages if there is no device or no library.
 */
#include <oriel/oriel.h>

#include "../check.h"

#if __has_include(<infiniband/verbs.h>)
#include "engine/verbs/verbs.h"
#include "engine/verbs/verbs_engine.h"
#include "util/util.h"

TEST(syndromes_of_completions)
{
	static const struct {
		enum ibv_wc_status status;
		uint32_t syndrome;
	} table[] = {
		{ IBV_WC_SUCCESS, 0 },
		{ IBV_WC_LOC_LEN_ERR, 0x01 },
		{ IBV_WC_LOC_QP_OP_ERR, 0x02 },
		{ IBV_WC_LOC_PROT_ERR, 0x04 },
		{ IBV_WC_WR_FLUSH_ERR, 0x05 },
		{ IBV_WC_BAD_RESP_ERR, 0x10 },
		{ IBV_WC_LOC_ACCESS_ERR, 0x11 },
		{ IBV_WC_REM_INV_REQ_ERR, 0x12 },
		{ IBV_WC_REM_INV_RD_REQ_ERR, 0x12 },
		{ IBV_WC_REM_ACCESS_ERR, 0x13 },
		{ IBV_WC_REM_OP_ERR, 0x14 },
		{ IBV_WC_RETRY_EXC_ERR, 0x15 },
		{ IBV_WC_RESP_TIMEOUT_ERR, 0x15 },
		{ IBV_WC_RNR_RETRY_EXC_ERR, 0x16 },
		{ IBV_WC_REM_ABORT_ERR, 0x22 },
		{ IBV_WC_FATAL_ERR, 0x22 },
		{ IBV_WC_GENERAL_ERR, 0x02 },
	};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		CHECK_EQ(verbs_status_syndrome(table[i].status), table[i].syndrome);
	/* no error is taken for success, not even one that is not known here */
	for (int s = 1; s < 64; s++)
		CHECK(verbs_status_syndrome((enum ibv_wc_status)s) != 0);
}

TEST(syndromes_of_events)
{
	CHECK_EQ(verbs_event_syndrome(IBV_EVENT_QP_FATAL), 0x02);
	CHECK_EQ(verbs_event_syndrome(IBV_EVENT_QP_REQ_ERR), 0x12);
	CHECK_EQ(verbs_event_syndrome(IBV_EVENT_QP_ACCESS_ERR), 0x11);
	CHECK_EQ(verbs_event_syndrome(IBV_EVENT_CQ_ERR), 0x22);
	CHECK_EQ(verbs_event_syndrome(IBV_EVENT_DEVICE_FATAL), 0x22);
	CHECK_EQ(verbs_event_syndrome(IBV_EVENT_COMM_EST), 0);
	CHECK_EQ(verbs_event_syndrome(IBV_EVENT_PORT_ERR), 0);
}

/* ---- variables ------------------------------------------------------------------------------- */

static int settings(const char *name, const char *value, struct verbs_settings *out)
{
	struct ori_config config;
	int err;

	setenv(name, value, 1);
	err = ori_config_read(&config);
	unsetenv(name);
	CHECK_EQ(err, 0);
	return verbs_settings_read(&config, out);
}

TEST(settings_taken)
{
	struct verbs_settings s;

	REQUIRE(!settings("ORIEL_IB_GID_INDEX", "3", &s));
	CHECK_EQ(s.gid_index, 3);
	CHECK_EQ(s.mtu, 0);
	CHECK_EQ(s.retry_count, 7);
	REQUIRE(!settings("ORIEL_IB_GID_INDEX", "auto", &s));
	CHECK_EQ(s.gid_index, -1);
	REQUIRE(!settings("ORIEL_IB_MTU", "2048", &s));
	CHECK_EQ(s.mtu, IBV_MTU_2048);
	REQUIRE(!settings("ORIEL_IB_TC", "106", &s));
	CHECK_EQ(s.traffic_class, 106);
	REQUIRE(!settings("ORIEL_IB_SL", "3", &s));
	CHECK_EQ(s.service_level, 3);
	REQUIRE(!settings("ORIEL_IB_TIMEOUT", "14", &s));
	CHECK_EQ(s.timeout, 14);
	REQUIRE(!settings("ORIEL_IB_HCA", "=mlx5_1:1", &s));
	CHECK_EQ(s.hca.count, 1);
}

TEST(settings_refused)
{
	static const char *const bad[][2] = {
		{ "ORIEL_IB_GID_INDEX", "x" },   { "ORIEL_IB_GID_INDEX", "-1" },
		{ "ORIEL_IB_GID_INDEX", "" },    { "ORIEL_IB_GID_INDEX", "256" },
		{ "ORIEL_IB_MTU", "1500" },      { "ORIEL_IB_MTU", "8192" },
		{ "ORIEL_IB_TC", "256" },        { "ORIEL_IB_SL", "16" },
		{ "ORIEL_IB_HOP_LIMIT", "256" }, { "ORIEL_IB_TIMEOUT", "0" },
		{ "ORIEL_IB_TIMEOUT", "32" },    { "ORIEL_IB_RETRY_CNT", "8" },
		{ "ORIEL_IB_PKEY", "65536" },    { "ORIEL_IB_HCA", "^" },
	};
	struct verbs_settings s;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(settings(bad[i][0], bad[i][1], &s), ORIEL_ECONFIG);
		CHECK_HAS(ori_last_error_text(), bad[i][0]);
	}
}

/* ---- nothing to use -------------------------------------------------------------------------- */

TEST(library_that_is_not_there)
{
	struct ori_config config;
	char why[256] = "";

	setenv("ORIEL_IB_LIBRARY", "libibverbs-of-nobody.so", 1);
	REQUIRE(!ori_config_read(&config));
	unsetenv("ORIEL_IB_LIBRARY");
	CHECK_EQ(ori_verbs_engine_probe(&config, why, sizeof(why)), ORIEL_EUNSUPPORTED);
	CHECK_HAS(why, "libibverbs-of-nobody.so");
	/* a library that is one, but another */
	setenv("ORIEL_IB_LIBRARY", "libc.so.6", 1);
	REQUIRE(!ori_config_read(&config));
	unsetenv("ORIEL_IB_LIBRARY");
	CHECK_EQ(ori_verbs_engine_probe(&config, why, sizeof(why)), ORIEL_EUNSUPPORTED);
	CHECK_HAS(why, "ibv_get_device_list");
}

TEST(device_that_is_not_there)
{
	struct ori_config config;
	char why[256] = "";

	setenv("ORIEL_IB_HCA", "=no_such_device", 1);
	REQUIRE(!ori_config_read(&config));
	unsetenv("ORIEL_IB_HCA");
	CHECK_EQ(ori_verbs_engine_probe(&config, why, sizeof(why)), ORIEL_EUNSUPPORTED);
	CHECK(why[0] != '\0');
}
#else
TEST(no_header)
{
	check_skip("built without infiniband/verbs.h");
}
#endif
