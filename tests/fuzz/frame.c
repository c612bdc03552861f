/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/fuzz/frame.c - CHECK() of a fuzz program: a property that does not hold ends it. */
#include <stdarg.h>

#include "../check.h"

int check_failures;

void check_fail(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: check failed: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	abort();
}
