/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/topology_facts.c - what a rank gathers about itself, and its overrides. */
#include <errno.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "topology_cases.h"

static struct ori_config plain_config(void)
{
	return (struct ori_config){ .mapped = 1, .fabric = ORI_MODE_AUTO };
}

TEST(gather_tells_of_this_process)
{
	struct ori_config c = plain_config();
	struct ori_facts f, again;
	char name[256] = "";

	snprintf(c.topology, sizeof(c.topology), "2x4");
	REQUIRE_OK(ori_facts_gather(&f, &c));
	REQUIRE_OK(ori_facts_gather(&again, &c));
	CHECK(!memcmp(&f, &again, sizeof(f))); /* no byte of it is accidental: it is sent */
	CHECK_EQ(gethostname(name, sizeof(name) - 1), 0);
	CHECK(!strncmp(f.host, name, sizeof(f.host) - 1));
	CHECK(f.host_id != 0);
	CHECK_EQ(f.device, ORI_DEVICE_CPU);
	CHECK_EQ(f.gpu, -1);
	CHECK_EQ(f.fabric_available, 0);
	CHECK_EQ(f.mapped_allowed, 1);
	CHECK_EQ(f.forced_node, -1);
	CHECK(!strcmp(f.layout, "2x4"));
}

/* Runs in a child: its host id, as seen from another process and perhaps another namespace. */
static int child_host_id(int unshare_flags, uint64_t *id)
{
	struct ori_config c = plain_config();
	struct ori_facts f;
	int ends[2], status = -1;
	pid_t pid;

	if (pipe(ends))
		return -1;
	pid = fork();
	if (pid == 0) {
		int code = 2;

		if (unshare_flags && unshare(unshare_flags))
			_exit(77);
		if (!ori_facts_gather(&f, &c) && write(ends[1], &f.host_id, 8) == 8)
			code = 0;
		_exit(code);
	}
	close(ends[1]);
	if (read(ends[0], id, 8) != 8)
		*id = 0;
	close(ends[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

TEST(host_id_is_the_machines_and_the_namespaces)
{
	struct ori_config c = plain_config();
	struct ori_facts f;
	uint64_t other = 0;
	int code;

	REQUIRE_OK(ori_facts_gather(&f, &c));
	CHECK_EQ(child_host_id(0, &other), 0);
	CHECK(other == f.host_id);
	code = child_host_id(CLONE_NEWNET, &other);
	if (code == 77) {
		check_skip("a new network namespace is not permitted here");
		return;
	}
	CHECK_EQ(code, 0);
	CHECK(other != 0 && other != f.host_id);
}

TEST(gather_and_override_check_arguments)
{
	struct ori_config c = plain_config();
	struct ori_facts f = cpu_rank(0);

	CHECK_EQ(ori_facts_gather(NULL, &c), ORIEL_EINVAL);
	CHECK_EQ(ori_facts_gather(&f, NULL), ORIEL_EINVAL);
	CHECK_EQ(ori_facts_override(NULL, &c), ORIEL_EINVAL);
	CHECK_EQ(ori_facts_override(&f, NULL), ORIEL_EINVAL);
}

TEST(override_carries_mode_mapped_and_layout)
{
	struct ori_config c = plain_config();
	struct ori_facts f = cpu_rank(0);

	c.mapped = 0;
	c.fabric = ORI_MODE_OFF;
	snprintf(c.topology, sizeof(c.topology), "0,0,1");
	REQUIRE_OK(ori_facts_override(&f, &c));
	CHECK_EQ(f.mapped_allowed, 0);
	CHECK_EQ(f.fabric_mode, ORI_MODE_OFF);
	CHECK(!strcmp(f.layout, "0,0,1"));
	/* a shorter text leaves nothing of the longer one: facts are compared and sent as bytes */
	snprintf(c.topology, sizeof(c.topology), "1");
	REQUIRE_OK(ori_facts_override(&f, &c));
	for (size_t i = 1; i < sizeof(f.layout); i++)
		CHECK_EQ(f.layout[i], 0);
}

TEST(override_uuid_fills_both_halves)
{
	struct ori_config c = plain_config();
	struct ori_facts f = fabric_rank(0, 7, 3);
	uint64_t half[2];

	snprintf(c.fabric_uuid, sizeof(c.fabric_uuid), "18446744073709551615");
	REQUIRE_OK(ori_facts_override(&f, &c));
	memcpy(half, f.fabric_uuid, sizeof(half));
	CHECK(half[0] == UINT64_MAX && half[1] == UINT64_MAX);
	snprintf(c.fabric_uuid, sizeof(c.fabric_uuid), "0xBeef");
	snprintf(c.fabric_clique, sizeof(c.fabric_clique), "4294967295");
	REQUIRE_OK(ori_facts_override(&f, &c));
	memcpy(half, f.fabric_uuid, sizeof(half));
	CHECK(half[0] == 0xbeef && half[1] == 0xbeef);
	CHECK(f.fabric_clique == UINT32_MAX);
	REQUIRE_OK(ori_facts_override(&f, &c)); /* twice does no harm */
	CHECK(f.fabric_clique == UINT32_MAX);
}

TEST(override_zero_is_a_value)
{
	struct ori_config c = plain_config();
	struct ori_facts f = fabric_rank(0, 7, 3);

	snprintf(c.fabric_uuid, sizeof(c.fabric_uuid), "0");
	snprintf(c.fabric_clique, sizeof(c.fabric_clique), "0");
	REQUIRE_OK(ori_facts_override(&f, &c));
	CHECK_EQ(f.fabric_uuid[0], 0);
	CHECK_EQ(f.fabric_uuid[8], 0);
	CHECK_EQ(f.fabric_clique, 0);
}

static void check_bad(const char *uuid, const char *clique, const char *word)
{
	struct ori_config c = plain_config();
	struct ori_facts f = cpu_rank(0), before = f;

	snprintf(c.fabric_uuid, sizeof(c.fabric_uuid), "%s", uuid);
	snprintf(c.fabric_clique, sizeof(c.fabric_clique), "%s", clique);
	CHECK_EQ(ori_facts_override(&f, &c), ORIEL_ECONFIG);
	CHECK_HAS(oriel_last_error(), word);
	CHECK(!memcmp(&f, &before, sizeof(f)));
}

TEST(override_bad_integers)
{
	static const char *const bad[] = {
		"x", "-1", "+1", " 1", "1 ", "0x", "0x0x1", "1.0", "12a"
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		check_bad(bad[i], "", "ORIEL_FABRIC_UUID");
		check_bad("", bad[i], "ORIEL_FABRIC_CLIQUE");
		check_bad("", bad[i], bad[i]);
	}
	check_bad("18446744073709551616", "", "ORIEL_FABRIC_UUID");
	check_bad("", "4294967296", "4294967295");
}

TEST(override_layout_too_long)
{
	struct ori_config c = plain_config();
	struct ori_facts f = cpu_rank(0);

	memset(c.topology, '1', ORI_TOPOLOGY_TEXT_MAX);
	CHECK_EQ(ori_facts_override(&f, &c), ORIEL_ECONFIG);
	CHECK_HAS(oriel_last_error(), "128 characters");
	c.topology[ORI_TOPOLOGY_TEXT_MAX - 1] = 0;
	CHECK_EQ(ori_facts_override(&f, &c), 0);
}
