/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/log.c - log lines, the last error, status names, clock and random bytes. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <oriel/oriel.h>

#include "../../src/util/util.h"
#include "../check.h"

static char captured[1 << 20];
static FILE *capture_file;
static int saved_stderr;

static void capture_start(void)
{
	capture_file = tmpfile();
	saved_stderr = dup(STDERR_FILENO);
	dup2(fileno(capture_file), STDERR_FILENO);
}

static const char *capture_end(void)
{
	ssize_t n = pread(fileno(capture_file), captured, sizeof(captured) - 1, 0);

	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	fclose(capture_file);
	captured[n < 0 ? 0 : n] = '\0';
	return captured;
}

#define CHECK_TEXT(have, want)                                                                     \
	do {                                                                                       \
		const char *check_have = (have);                                                   \
		if (strcmp(check_have, (want)))                                                    \
			check_fail(__FILE__, __LINE__, "\"%s\" is not \"%s\"", check_have,         \
				   (want));                                                        \
	} while (0)

TEST(lines_have_rank_and_level)
{
	capture_start();
	ori_log_rank_set(-1);
	ori_log(ORI_LOG_WARN, "a %d", 1);
	ori_log_rank_set(3);
	ori_log(ORI_LOG_ERROR, "b");
	ori_log_rank_set(-1);
	CHECK_TEXT(capture_end(), "oriel: warning: a 1\noriel: rank 3: error: b\n");
	CHECK_EQ(ori_log_rank_get(), -1);
}

TEST(level_decides)
{
	enum ori_log_level before = ori_log_level_get();

	capture_start();
	ori_log_level_set(ORI_LOG_ERROR);
	ori_log(ORI_LOG_WARN, "hidden");
	ori_log_level_set(ORI_LOG_DEBUG);
	ori_log(ORI_LOG_DEBUG, "shown");
	ori_log(ORI_LOG_INFO, "too");
	ori_log_level_set(before);
	CHECK_TEXT(capture_end(), "oriel: debug: shown\noriel: info: too\n");
}

TEST(one_line_stays_one_line)
{
	capture_start();
	ori_log(ORI_LOG_ERROR, "a\nb\033[31mc");
	CHECK_TEXT(capture_end(), "oriel: error: a b [31mc\n");
}

TEST(long_texts_are_cut)
{
	static char text[5000];
	const char *line;

	memset(text, 'x', sizeof(text) - 1);
	capture_start();
	CHECK_EQ(ori_fail(ORIEL_EINVAL, "%s", text), ORIEL_EINVAL);
	ori_log(ORI_LOG_ERROR, "%s", text);
	line = capture_end();
	CHECK(strlen(line) < 2100);
	CHECK_EQ(line[strlen(line) - 1], '\n');
	CHECK(strlen(oriel_last_error()) < 700);
}

TEST(last_error_is_kept)
{
	capture_start();
	errno = EBADF;
	CHECK_EQ(ori_fail(ORIEL_ERANGE, "rank %d", 9), ORIEL_ERANGE);
	CHECK_EQ(errno, EBADF);
	CHECK_TEXT(oriel_last_error(), "rank 9");
	CHECK_EQ(ori_fail(ORIEL_EPEER, "so: %s", oriel_last_error()), ORIEL_EPEER);
	CHECK_TEXT(oriel_last_error(), "so: rank 9");
	CHECK_EQ(ori_fail_silent(ORIEL_EPEER, "quiet"), ORIEL_EPEER);
	CHECK_TEXT(oriel_last_error(), "quiet");
	CHECK_EQ(ori_fail_errno(ENOENT, "open %s", "x"), ORIEL_ESYSTEM);
	CHECK_TEXT(oriel_last_error(), "open x: No such file or directory");
	ori_last_error_clear();
	CHECK_TEXT(oriel_last_error(), "");
	CHECK_TEXT(capture_end(), "oriel: error: rank 9\noriel: error: so: rank 9\n"
				  "oriel: error: open x: No such file or directory\n");
}

static void *log_many(void *arg)
{
	int n = *(int *)arg;

	CHECK_TEXT(oriel_last_error(), "");
	CHECK_EQ(ori_log_rank_get(), -1);
	ori_log_rank_set(n);
	for (int i = 0; i < 500; i++)
		ori_fail(ORIEL_EINVAL, "line %d of thread %d", i, n);
	CHECK_HAS(oriel_last_error(), "line 499");
	return NULL;
}

TEST(lines_of_threads_do_not_mix)
{
	pthread_t threads[4];
	int numbers[4], lines = 0;
	char *line, *rest = captured;

	ori_fail_silent(ORIEL_EINVAL, "of the main thread");
	capture_start();
	for (int i = 0; i < 4; i++) {
		numbers[i] = i;
		pthread_create(&threads[i], NULL, log_many, &numbers[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	capture_end();
	while ((line = strsep(&rest, "\n")) && *line) {
		int rank, i, thread, end = 0;

		sscanf(line, "oriel: rank %d: error: line %d of thread %d%n", &rank, &i, &thread,
		       &end);
		if (!end || line[end] || rank != thread)
			check_fail(__FILE__, __LINE__, "a mixed line: %s", line);
		lines++;
	}
	CHECK_EQ(lines, 2000);
	CHECK_TEXT(oriel_last_error(), "of the main thread");
}

TEST(status_names)
{
	CHECK_TEXT(oriel_version(), "0.1.0");
	CHECK_TEXT(oriel_status_name(0), "ORIEL_OK");
	CHECK_TEXT(oriel_status_name(ORIEL_ETIMEDOUT), "ORIEL_ETIMEDOUT");
	CHECK_TEXT(oriel_status_text(ORIEL_ETIMEDOUT), "the deadline passed");
	CHECK_TEXT(oriel_status_text(-1000), "unknown status");
	CHECK_TEXT(oriel_status_name(5), "ORIEL_E?");
}

TEST(clock_and_random)
{
	unsigned char a[64] = { 0 }, b[64] = { 0 };
	uint64_t t = ori_now_ns();

	CHECK(ori_now_ns() >= t);
	CHECK(ori_deadline_ns(5) >= t + 5);
	CHECK(ori_deadline_ns(UINT64_MAX) == UINT64_MAX);
	CHECK_EQ(ori_random_bytes(a, sizeof(a)), 0);
	CHECK_EQ(ori_random_bytes(b, sizeof(b)), 0);
	CHECK(memcmp(a, b, sizeof(a)));
	CHECK(ori_core_count() >= 1);
}
