/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor/text.c - a job in words, for a terminal: one line per wait, then the verdict. */
#include "doctor.h"

static void print_line(void *ctx, const char *line)
{
	fprintf(ctx, "%s\n", line);
}

const char *doctor_verdict(const struct doctor_job *job)
{
	const char *verdict = "runs";

	if (job->graph.deadlocks)
		return "deadlock";
	for (int r = 0; r < job->graph.nranks; r++) {
		if (job->graph.marks[r] == ORI_MARK_LATE)
			return "late";
		if (job->graph.marks[r] == ORI_MARK_WAITS)
			verdict = "waits";
	}
	return verdict;
}

void doctor_text(const struct doctor_job *job, FILE *out)
{
	fprintf(out, "job %u of %d ranks\n", (unsigned)(uint32_t)job->job, job->graph.nranks);
	ori_graph_print(&job->graph, 1, print_line, out);
}
