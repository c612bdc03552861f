/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/verbs_choice.c - which RDMA device, port and address the verbs engine takes:
 * ORIEL_IB_HCA, the order of GIDs, nearness.
 */
#include <oriel/oriel.h>
#include <stdio.h>
#include <string.h>

#include "../check.h"
#include "engine/verbs/choice.h"
#include "util/util.h"

static int takes(const char *text, const char *device, int port)
{
	struct verbs_hca list;

	CHECK_EQ(verbs_hca_parse(text, &list), 0);
	return verbs_hca_takes(&list, device, port);
}

TEST(no_list_takes_all)
{
	CHECK(takes("", "mlx5_0", 1));
	CHECK(takes("", "rxe0", 2));
}

TEST(beginnings_of_names)
{
	CHECK(takes("mlx5", "mlx5_0", 1));
	CHECK(takes("mlx5_1", "mlx5_1", 2));
	CHECK(takes("mlx5_1", "mlx5_10", 1));
	CHECK(!takes("mlx5_1", "mlx5_0", 1));
	CHECK(!takes("mlx5_10", "mlx5_1", 1));
	CHECK(takes("rxe,mlx5_3", "mlx5_3", 1));
	CHECK(!takes("rxe,mlx5_3", "mlx5_2", 1));
}

TEST(whole_names)
{
	CHECK(takes("=mlx5_1", "mlx5_1", 1));
	CHECK(!takes("=mlx5_1", "mlx5_10", 1));
	CHECK(!takes("=mlx5", "mlx5_1", 1));
	CHECK(takes("=mlx5_1,mlx5_4", "mlx5_4", 1));
}

TEST(ports)
{
	CHECK(takes("mlx5_1:2", "mlx5_1", 2));
	CHECK(!takes("mlx5_1:2", "mlx5_1", 1));
	CHECK(takes("=mlx5_1:1,mlx5_2:2", "mlx5_2", 2));
	CHECK(!takes("=mlx5_1:1,mlx5_2:2", "mlx5_2", 1));
	CHECK(takes("mlx5_1:255", "mlx5_1", 255));
}

TEST(excluded)
{
	CHECK(!takes("^mlx5_1", "mlx5_1", 1));
	CHECK(!takes("^mlx5_1", "mlx5_12", 1));
	CHECK(takes("^mlx5_1", "mlx5_2", 1));
	CHECK(takes("^=mlx5_1", "mlx5_12", 1));
	CHECK(!takes("^=mlx5_1,rxe0", "rxe0", 1));
	CHECK(!takes("^mlx5_1:1", "mlx5_1", 1));
	CHECK(takes("^mlx5_1:1", "mlx5_1", 2));
}

TEST(order_of_the_list)
{
	struct verbs_hca list;

	REQUIRE(!verbs_hca_parse("=mlx5_3:2,mlx5_0", &list));
	CHECK_EQ(verbs_hca_place(&list, "mlx5_3", 2), 0);
	CHECK_EQ(verbs_hca_place(&list, "mlx5_0", 1), 1);
	CHECK_EQ(verbs_hca_place(&list, "mlx5_3", 1), 2);
}

/* The variable is named, and the list is left as it was. */
static void refuse(const char *text)
{
	struct verbs_hca list;

	memset(&list, 0x5a, sizeof(list));
	CHECK_EQ(verbs_hca_parse(text, &list), ORIEL_ECONFIG);
	CHECK_HAS(ori_last_error_text(), "ORIEL_IB_HCA");
	CHECK_EQ(list.count, 0x5a5a5a5a);
}

TEST(refused)
{
	char text[400] = "";

	ori_log_level_set(ORI_LOG_ERROR);
	refuse("^");
	refuse("=");
	refuse("^=");
	refuse(",mlx5_0");
	refuse("mlx5_0,");
	refuse("mlx5_0,,mlx5_1");
	refuse(":1");
	refuse("mlx5_0:");
	refuse("mlx5_0:0");
	refuse("mlx5_0:256");
	refuse("mlx5_0:1x");
	refuse("mlx5_0:-1");
	refuse("mlx5_0:+1");
	refuse("mlx5_0:1:2");
	memset(text, 'm', 64);
	refuse(text);
	text[0] = '\0';
	for (int i = 0; i < VERBS_HCA_RULES + 1; i++)
		strcat(text, i ? ",m" : "m");
	refuse(text);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static struct verbs_gid gid(uint32_t index, uint32_t type, uint8_t first, uint8_t second)
{
	struct verbs_gid g = { .index = index, .type = type };

	g.raw[0] = first;
	g.raw[1] = second;
	g.raw[15] = 1;
	return g;
}

static struct verbs_gid ipv4(uint32_t index, uint32_t type, uint8_t a, uint8_t b)
{
	struct verbs_gid g = { .index = index, .type = type };

	g.raw[10] = g.raw[11] = 0xff;
	g.raw[12] = a;
	g.raw[13] = b;
	g.raw[15] = 1;
	return g;
}

TEST(roce_v2_and_ipv4_first)
{
	struct verbs_gid table[] = {
		gid(0, VERBS_GID_ROCE_V1, 0xfe, 0x80), gid(1, VERBS_GID_ROCE_V2, 0xfe, 0x80),
		ipv4(2, VERBS_GID_ROCE_V1, 10, 7),     ipv4(3, VERBS_GID_ROCE_V2, 10, 7),
		gid(4, VERBS_GID_ROCE_V2, 0x20, 0x01), ipv4(5, VERBS_GID_ROCE_V2, 10, 8),
		ipv4(6, VERBS_GID_ROCE_V2, 169, 254),
	};

	CHECK_EQ(verbs_gid_choose(table, 7, -1), 3);
	table[3].type = VERBS_GID_ROCE_V1;
	CHECK_EQ(verbs_gid_choose(table, 7, -1), 5);
	table[5].type = VERBS_GID_ROCE_V1;
	CHECK_EQ(verbs_gid_choose(table, 7, -1), 4); /* IPv6 that routes, before link-local IPv4 */
	CHECK_EQ(verbs_gid_choose(table, 4, -1), 1); /* v2, even link-local, before v1 */
	CHECK_EQ(verbs_gid_choose(table, 1, -1), 0);
}

TEST(index_that_was_asked_for)
{
	struct verbs_gid table[] = { ipv4(0, VERBS_GID_ROCE_V2, 10, 7),
				     gid(2, VERBS_GID_ROCE_V1, 0xfe, 0x80) };

	CHECK_EQ(verbs_gid_choose(table, 2, 2), 1);
	CHECK_EQ(verbs_gid_choose(table, 2, 1), -1);
}

TEST(infiniband_takes_its_first)
{
	struct verbs_gid table[] = { gid(0, VERBS_GID_IB, 0xfe, 0x80),
				     gid(1, VERBS_GID_IB, 0x20, 0x01) };

	CHECK_EQ(verbs_gid_choose(table, 2, -1), 0);
}

TEST(empty_entries_are_no_addresses)
{
	struct verbs_gid table[] = { { .index = 0, .type = VERBS_GID_ROCE_V2 },
				     gid(1, VERBS_GID_ROCE_V1, 0xfe, 0x80) };

	CHECK_EQ(verbs_gid_choose(table, 2, -1), 1);
	CHECK_EQ(verbs_gid_choose(table, 1, -1), -1);
	CHECK_EQ(verbs_gid_choose(table, 0, -1), -1);
}

/* ---- nearness -------------------------------------------------------------------------------- */

#define GPU "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0"

TEST(nearest_first)
{
	static const char *const nics[] = {
		/*
		 * one switch; another port of the same switch's upstream; one root complex; another
		 */
		"/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0",
		"/sys/devices/pci0000:15/0000:15:01.0/0000:1a:00.0/0000:1b:00.0/0000:1c:00.0",
		"/sys/devices/pci0000:15/0000:15:03.0/0000:20:00.0/0000:21:00.0/0000:22:00.0",
		"/sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0",
	};
	int last = -1;

	for (int i = 0; i < 4; i++) {
		int distance = verbs_distance(GPU, 0, nics[i], 0);

		CHECK(distance > last);
		last = distance;
	}
	CHECK(verbs_distance(GPU, 0, nics[3], 1) > last);
	CHECK_EQ(verbs_distance(GPU, 0, nics[0], 0), 0);
}

TEST(nothing_known)
{
	CHECK_EQ(verbs_distance("", -1, "", -1),
		 verbs_distance(GPU, 0, "/sys/devices/virtual/rxe", -1));
	CHECK(verbs_distance("", 0, GPU, 0) < verbs_distance("", 1, GPU, 0));
}
