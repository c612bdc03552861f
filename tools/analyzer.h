/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/analyzer.h - put before every file that clang-tidy reads, by tools/check.sh, but for the
 * files that define the functions wrapped here; never compiled.
 *
 * The analyzer sees one file at a time.  It cannot know that these functions hand back a failure
 * they were given, and would follow paths on which a failed call returned 0.
 */
#include "../src/comm/agree.h"
#include "../src/tools/perf/perf.h"
#include "../src/util/util.h"

#define ori_fail(status, ...) (ori_fail(status, __VA_ARGS__), (status))
#define ori_fail_silent(status, ...) (ori_fail_silent(status, __VA_ARGS__), (status))
#define ori_fail_errno(...) (ori_fail_errno(__VA_ARGS__), ORIEL_ESYSTEM)
#define ori_agree(boot, timeout, call, status, ...)                                                \
	((status) ? (status) : ori_agree(boot, timeout, call, status, __VA_ARGS__))
#define ori_comm_agree(comm, status, ...)                                                          \
	((status) ? (status) : ori_comm_agree(comm, status, __VA_ARGS__))
#define perf_agree(job, status, what) ((status) ? (status) : perf_agree(job, status, what))
