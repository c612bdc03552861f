/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/child.h - runs another program: child.c; for plot.c.
 */
#ifndef PERF_CHILD_H
#define PERF_CHILD_H

#include <stddef.h>

/*
 * Finds argv[0] on the PATH and runs it.  It reads `input` from its standard input, and its
 * standard output is out_fd.  Returns its exit status, 128 + n for signal n, or a negative errno:
 * -ENOENT if there is no such program, -ETIMEDOUT if it had to be killed after `seconds`.
 */
int perf_child_run(char *const argv[], const char *input, size_t bytes, int out_fd, int seconds);

#endif
