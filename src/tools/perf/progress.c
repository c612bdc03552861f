/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/perf/progress.c - tells a user at a terminal which row is being measured.
 *
 * Called on all ranks before a row is measured; rank 0 shows it.
 */
#include "../common/progress.h"
#include "perf.h"

struct count {
	const struct perf_op *op;
	int n;
};

static int count_size(void *ctx, uint64_t bytes)
{
	struct count *c = ctx;

	if (!c->op->most_bytes || bytes <= c->op->most_bytes)
		c->n++;
	return 0;
}

/* Rows of the operation's table; 0: not known. */
static int count_rows(const struct perf_job *job, const struct perf_op *op)
{
	struct count c = { op, 0 };

	if (op->fan)
		return 0;
	if (!op->sized)
		return 1;
	(void)perf_sizes_each(job->opt, count_size, &c);
	return c.n * (op->variants[0] ? 2 : 1);
}

void perf_progress_row(struct perf_job *job, const struct perf_op *op, uint64_t bytes)
{
	char text[128];
	int rows;

	if (job->rank)
		return;
	job->rows_begun = op == job->current ? job->rows_begun + 1 : 1;
	job->current = op;
	rows = count_rows(job, op);
	snprintf(text, sizeof(text),
		 rows > 1 ? "%s of %llu bytes: row %d of %d" : "%s of %llu bytes", op->name,
		 (unsigned long long)bytes, job->rows_begun, rows);
	tool_progress_show(text);
}

void perf_progress_clear(const struct perf_job *job)
{
	if (!job->rank)
		tool_progress_clear();
}
