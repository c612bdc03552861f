/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/team.c - the team of a table of --in-kernel, and the kernels that use it.
 *
 * Called by: inside.c and inside_v.c, on the rank's host thread.
 */
#include "team.h"

#include <string.h>

/* Blocks of a line up to this size go in marked cells, where there are some: the most allowed. */
#define LINE_BYTES (64u << 10)
#define LINE_BYTES_MANY (4u << 10) /* with more than 64 ranks */

int perf_team_open(struct perf_team *t, struct perf_job *job, const struct perf_op *op)
{
	struct oriel_team_options o = ORIEL_TEAM_OPTIONS_INIT;
	int err;

	t->job = job;
	t->op = op;
	o.channels = (uint32_t)job->opt->blocks;
	if (job->opt->on_line)
		o.line_bytes = job->nranks > 64 ? LINE_BYTES_MANY : LINE_BYTES;
	err = oriel_team_create(job->comm, &o, &t->team);
	if (err) {
		if (job->rank == 0)
			fprintf(stderr, "oriel-perf: cannot create the team for %s: %s\n", op->name,
				oriel_last_error());
		return err;
	}
	err = perf_results_open(job, &t->results);
	return perf_agree(job, err, "allocating memory");
}

/* On a failed comm the collective destroy is left out: the team ends with the comm. */
int perf_team_close(struct perf_team *t)
{
	perf_results_close(t->job, &t->results);
	if (!t->team || oriel_comm_status(t->job->comm))
		return 0;
	return oriel_team_destroy(t->team);
}

int perf_team_run(struct perf_team *t, const struct perf_plan *p, struct perf_coll_args *a)
{
	const struct perf_options *opt = t->job->opt;
	int err = oriel_team_device(t->team, &a->team);

	a->run.warm = p->warm;
	a->run.samples = p->samples;
	a->run.batch = p->batch;
	perf_results_set(t->job, &t->results, &a->run);
	if (!err)
		err = oriel_launch(t->job->comm, opt->on_line ? t->op->on_line : t->op->kernel,
				   opt->blocks, opt->threads, a, sizeof(*a), NULL);
	if (!err)
		err = oriel_comm_sync(t->job->comm, NULL);
	if (!err)
		err = perf_results_fetch(t->job, &t->results, &a->run);
	return err;
}
