/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/team.h - the team of a table of --in-kernel: see team.c.
 */
#ifndef PERF_TEAM_H
#define PERF_TEAM_H

#include <oriel/coll.h>

#include "coll.h"
#include "ops_coll.h"

struct perf_team {
	struct perf_job *job;
	const struct perf_op *op;
	struct oriel_team *team;
	struct perf_results results;
};

int perf_team_open(struct perf_team *t, struct perf_job *job, const struct perf_op *op);
int perf_team_close(struct perf_team *t);
/*
 * Runs the calls of the plan in one kernel.  The caller has set the other arguments.  Afterwards
 * `a` has the results.  Not collective: if it fails, other ranks may wait in their kernel.
 */
int perf_team_run(struct perf_team *t, const struct perf_plan *p, struct perf_coll_args *a);

#endif
