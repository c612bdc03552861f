/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/config.c - the ORIEL_* variables: values, bad values, misspelt names. */
#include <sys/wait.h>
#include <unistd.h>

#include <oriel/oriel.h>

#include "../../src/util/config.h"
#include "../../src/util/util.h"
#include "../check.h"

/* Every test starts from an environment without our variables. */
static void clear(void)
{
	struct ori_config_row row;

	for (int i = 0; ori_config_row(i, &row); i++)
		unsetenv(row.name);
	unsetenv("ORIEL_TIMEOTU");
	unsetenv("ORIEL_NONSENSE_OF_ANOTHER_KIND");
	ori_last_error_clear();
}

TEST(defaults)
{
	struct ori_config c;

	clear();
	REQUIRE_OK(ori_config_read(&c));
	CHECK(c.timeout == 600.0);
	CHECK(c.late == 10.0);
	CHECK_EQ(c.log, ORI_LOG_WARN);
	CHECK_EQ(c.fabric, ORI_MODE_AUTO);
	CHECK_EQ(c.mapped, 1);
	CHECK_EQ(c.port, 0);
	CHECK(!strcmp(c.device, "cpu"));
	CHECK(!strcmp(c.boot_addr, "127.0.0.1"));
	CHECK(!strcmp(c.topology, ""));
	CHECK_EQ(ori_log_level_get(), ORI_LOG_WARN);
}

TEST(good_values)
{
	struct ori_config c;

	clear();
	setenv("ORIEL_TIMEOUT", "2.5", 1);
	setenv("ORIEL_LATE", ".25", 1);
	setenv("ORIEL_LOG", "debug", 1);
	setenv("ORIEL_FABRIC", "off", 1);
	setenv("ORIEL_MAPPED", "0", 1);
	setenv("ORIEL_PORT", "65535", 1);
	setenv("ORIEL_TOPOLOGY", "2x4", 1);
	setenv("ORIEL_LISTEN_FD", "2147483647", 1);
	REQUIRE_OK(ori_config_read(&c));
	CHECK(c.timeout == 2.5);
	CHECK(c.late == 0.25);
	CHECK_EQ(c.log, ORI_LOG_DEBUG);
	CHECK_EQ(ori_log_level_get(), ORI_LOG_DEBUG);
	CHECK_EQ(c.fabric, ORI_MODE_OFF);
	CHECK_EQ(c.mapped, 0);
	CHECK_EQ(c.port, 65535);
	CHECK(!strcmp(c.topology, "2x4"));
	CHECK_EQ(c.listen_fd, 2147483647);
	ori_log_level_set(ORI_LOG_WARN);
	clear();
}

TEST(bad_values)
{
	static const char *const bad[][2] = {
		{ "ORIEL_TIMEOUT", "" },
		{ "ORIEL_TIMEOUT", "0" },
		{ "ORIEL_TIMEOUT", "-1" },
		{ "ORIEL_TIMEOUT", "1s" },
		{ "ORIEL_TIMEOUT", " 1" },
		{ "ORIEL_TIMEOUT", "1 " },
		{ "ORIEL_TIMEOUT", "nan" },
		{ "ORIEL_TIMEOUT", "inf" },
		{ "ORIEL_TIMEOUT", "0x10" },
		{ "ORIEL_TIMEOUT", "1e3" },
		{ "ORIEL_TIMEOUT", "1.2.3" },
		{ "ORIEL_TIMEOUT", "." },
		{ "ORIEL_TIMEOUT", "1e400" },
		{ "ORIEL_TIMEOUT", "10000000000" },
		{ "ORIEL_LATE", "1,5" },
		{ "ORIEL_LOG", "loud" },
		{ "ORIEL_LOG", "WARN" },
		{ "ORIEL_STRICT", "2" },
		{ "ORIEL_STRICT", "yes" },
		{ "ORIEL_FABRIC", "maybe" },
		{ "ORIEL_PORT", "65536" },
		{ "ORIEL_PORT", "-1" },
		{ "ORIEL_PORT", "1x" },
		{ "ORIEL_PORT", "" },
		{ "ORIEL_LISTEN_FD", "2147483648" },
		{ "ORIEL_LISTEN_FD", "99999999999999999999" },
	};

	for (size_t i = 0; i < ORI_COUNT(bad); i++) {
		struct ori_config c;

		clear();
		setenv(bad[i][0], bad[i][1], 1);
		memset(&c, 0x5a, sizeof(c));
		if (ori_config_read(&c) != ORIEL_ECONFIG)
			check_fail(__FILE__, __LINE__, "%s=%s was taken", bad[i][0], bad[i][1]);
		CHECK_HAS(oriel_last_error(), bad[i][0]);
		CHECK_HAS(oriel_last_error(), bad[i][1]);
		CHECK_HAS(oriel_last_error(), "must be");
		CHECK_EQ(c.port, 0x5a5a5a5a); /* outputs only on success */
	}
	clear();
}

TEST(too_long_a_text)
{
	struct ori_config c;
	char text[300];

	clear();
	memset(text, 's', sizeof(text) - 1);
	text[255] = '\0';
	setenv("ORIEL_SECRET", text, 1);
	REQUIRE_OK(ori_config_read(&c));
	CHECK_EQ(strlen(c.secret), 255);
	text[255] = 's';
	text[256] = '\0';
	setenv("ORIEL_SECRET", text, 1);
	CHECK_EQ(ori_config_read(&c), ORIEL_ECONFIG);
	CHECK(!strstr(oriel_last_error(), "ssss")); /* the secret stays one */
	CHECK_HAS(oriel_last_error(), "ORIEL_SECRET");
	clear();
}

TEST(strict_refuses_unknown_names)
{
	struct ori_config c;

	clear();
	setenv("ORIEL_STRICT", "1", 1);
	REQUIRE_OK(ori_config_read(&c));
	setenv("ORIEL_TIMEOTU", "5", 1);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ori_config_read(&c), ORIEL_ECONFIG);
		CHECK_HAS(oriel_last_error(), "ORIEL_TIMEOTU");
		CHECK_HAS(oriel_last_error(), "did you mean ORIEL_TIMEOUT?");
	}
	clear();
}

/*
 * In a separate process, because the warning is printed once per process.  It uses exec, because a
 * forked child inherits the state.
 */
TEST(unknown_name_warns_once)
{
	char log[4000], self[300];
	int ends[2], count = 0;
	ssize_t n, got = 0;
	pid_t pid;

	clear();
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	REQUIRE(n > 0 && !pipe(ends));
	self[n] = '\0';
	pid = fork();
	if (!pid) {
		dup2(ends[1], STDERR_FILENO);
		setenv("ORIEL_TIMEOTU", "5", 1);
		setenv("ORIEL_NONSENSE_OF_ANOTHER_KIND", "5", 1);
		execl(self, self, "reads_twice", (char *)NULL);
		_exit(1);
	}
	close(ends[1]);
	while ((n = read(ends[0], log + got, sizeof(log) - 1 - (size_t)got)) > 0)
		got += n;
	close(ends[0]);
	log[got] = '\0';
	waitpid(pid, NULL, 0);
	CHECK_HAS(log,
		  "warning: ORIEL_TIMEOTU is not a variable of Oriel; did you mean ORIEL_TIMEOUT?");
	for (const char *at = log; (at = strstr(at, "ORIEL_TIMEOTU")); at++)
		count++;
	CHECK_EQ(count, 1);
	CHECK_HAS(log, "ORIEL_NONSENSE_OF_ANOTHER_KIND");
}

TEST(reads_twice)
{
	struct ori_config c;

	CHECK_EQ(ori_config_read(&c), 0);
	CHECK_EQ(ori_config_read(&c), 0);
}

TEST(rows)
{
	struct ori_config_row row;
	int n = 0, seen = 0;

	clear();
	setenv("ORIEL_PORT", "77", 1);
	setenv("ORIEL_SECRET", "pssst", 1);
	for (; ori_config_row(n, &row); n++) {
		CHECK(row.name && row.type && row.def && row.help);
		if (!strcmp(row.name, "ORIEL_PORT")) {
			seen++;
			CHECK_HAS(row.value, "77");
			CHECK_HAS(row.type, "port");
		} else if (!strcmp(row.name, "ORIEL_SECRET")) {
			seen++;
			CHECK(row.value && !strstr(row.value, "pssst"));
		} else {
			CHECK(!row.value);
		}
	}
	CHECK_EQ(seen, 2);
	CHECK(n >= 14);
	CHECK_EQ(ori_config_row(-1, &row), 0);
	clear();
}
