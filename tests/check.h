/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/check.h - the test programs' frame: TEST() registers, CHECK() counts, main() runs all or
 * the tests whose names contain one of its arguments.
 *
 * Exit status: 0 all passed, 1 something failed, 77 everything was skipped (ctest shows it so).
 * CHECK may be used from any thread and from forked ranks (ranks.h collects those).
 */
#ifndef ORI_TEST_CHECK_H
#define ORI_TEST_CHECK_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct check_test {
	const char *name;
	void (*run)(void);
	struct check_test *next;
};

extern struct check_test *check_tests;   /* in the order of the file */
extern struct check_test *check_running; /* for a run() shared by several tests */
extern int check_failures;               /* atomic */
extern int check_skipped;

void check_register(struct check_test *);
/* Runs before all tests of check_register(): for tests that need a fresh process. */
void check_register_early(struct check_test *);
void check_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* MemAvailable of the machine, or 0. */
uint64_t check_free_kib(void);
/* Marks the running test as skipped and prints the reason. */
void check_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#define TEST(name)                                                                                 \
	static void test_##name(void);                                                             \
	static struct check_test reg_##name = { #name, test_##name, NULL };                        \
	__attribute__((constructor)) static void add_##name(void)                                  \
	{                                                                                          \
		check_register(&reg_##name);                                                       \
	}                                                                                          \
	static void test_##name(void)

/* Reports a failure and continues. */
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			check_fail(__FILE__, __LINE__, "%s", #cond);                               \
	} while (0)

/* Both values are printed. */
#define CHECK_EQ(a, b)                                                                             \
	do {                                                                                       \
		long long check_a = (long long)(a), check_b = (long long)(b);                      \
		if (check_a != check_b)                                                            \
			check_fail(__FILE__, __LINE__, "%s is %lld, %s is %lld", #a, check_a, #b,  \
				   check_b);                                                       \
	} while (0)

/* Leaves the function if it fails, because the code after it would crash. */
#define REQUIRE(cond)                                                                              \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			check_fail(__FILE__, __LINE__, "%s", #cond);                               \
			return;                                                                    \
		}                                                                                  \
	} while (0)

/* For a status that should be 0; prints the library's reason and leaves. */
#define REQUIRE_OK(call)                                                                           \
	do {                                                                                       \
		int check_status = (call);                                                         \
		if (check_status) {                                                                \
			check_fail(__FILE__, __LINE__, "%s returned %d: %s", #call, check_status,  \
				   oriel_last_error());                                            \
			return;                                                                    \
		}                                                                                  \
	} while (0)

/* A text contains a word. */
#define CHECK_HAS(text, word)                                                                      \
	do {                                                                                       \
		const char *check_t = (text);                                                      \
		if (!check_t || !strstr(check_t, (word)))                                          \
			check_fail(__FILE__, __LINE__, "\"%s\" does not contain \"%s\"",           \
				   check_t ? check_t : "(null)", (word));                          \
	} while (0)

#endif
