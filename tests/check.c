/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/check.c - runner of check.h: list of tests, counting, main(). */
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

struct check_test *check_tests;
struct check_test *check_running;
int check_failures;
int check_skipped;

static struct check_test **tail = &check_tests;
static struct check_test **early = &check_tests; /* where the last of the early ones points */

void check_register(struct check_test *t)
{
	*tail = t;
	tail = &t->next;
}

void check_register_early(struct check_test *t)
{
	t->next = *early;
	*early = t;
	if (tail == early)
		tail = &t->next;
	early = &t->next;
}

void check_fail(const char *file, int line, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s:%d: check failed: %s\n", file, line, text);
	__atomic_fetch_add(&check_failures, 1, __ATOMIC_RELAXED);
}

uint64_t check_free_kib(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	unsigned long long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

void check_skip(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "skipped: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	check_skipped = 1;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Without arguments all are; else those whose names contain one of them. */
static int is_wanted(const struct check_test *t, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strstr(t->name, argv[i]))
			return 1;
	return argc < 2;
}

int main(int argc, char **argv)
{
	int ran = 0, failed = 0, skipped = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!check_tests) {
		fprintf(stderr, "skipped: no test of this program is wanted in this build\n");
		return 77;
	}
	for (struct check_test *t = check_tests; t; t = t->next) {
		double start = now();

		if (!is_wanted(t, argc, argv))
			continue;
		check_failures = 0;
		check_skipped = 0;
		check_running = t;
		t->run();
		ran++;
		failed += check_failures != 0;
		skipped += !check_failures && check_skipped;
		printf("%-6s %s (%.2f s)\n",
		       check_failures ? "FAILED" :
		       check_skipped  ? "skip" :
					"ok",
		       t->name, now() - start);
	}
	printf("%d tests, %d failed, %d skipped\n", ran, failed, skipped);
	if (!ran)
		fprintf(stderr, "no test of that name\n");
	return failed || !ran ? 1 : skipped == ran ? 77 : 0;
}
