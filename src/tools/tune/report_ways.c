/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/tune/report_ways.c - what oriel-tune prints of collectives of a team, and of packets: what
 * was measured, what was chosen, or why there is nothing to choose.
 *
 * Called on rank 0 only.
 */
#include "tool.h"

static void time_text(const struct tool_time *t, char *text, size_t bytes)
{
	snprintf(text, bytes, "%.4g (%.4g..%.4g)", t->us, t->least, t->most);
}

static void report_steps(const struct tool_limit *l)
{
	char size[24], below[64], above[64];

	for (int i = 0; i < l->n; i++) {
		const struct tool_step *s = &l->step[i];

		ori_bytes_text(s->bytes, size, sizeof(size));
		time_text(&s->below, below, sizeof(below));
		time_text(&s->above, above, sizeof(above));
		printf("# %s of %s %s: %s us %s, %s us %s\n", l->call, size, l->place, below,
		       l->below, above, l->above);
	}
}

/* "up to 16K in one round, longer in pieces (the first guess)" */
static void report_limit(const char *what, const struct tool_limit *l)
{
	char size[24];

	ori_bytes_text(l->bytes, size, sizeof(size));
	if (l->late)
		printf("# %s: no time was left for longer sizes\n", what);
	if (l->none)
		printf("# %s: nothing to tune, because %s\n", what, l->none);
	else if (!l->bytes)
		printf("# %s: all %s (%s)\n", what, l->above,
		       l->guess ? "measured" : "the first guess");
	else
		printf("# %s: up to %s %s, longer %s (%s)\n", what, size, l->below, l->above,
		       l->bytes == l->guess ? "the first guess" : "measured");
}

static void report_long(const char *what, const struct tool_limit *l)
{
	char size[24];

	ori_bytes_text(l->bytes, size, sizeof(size));
	if (l->late)
		printf("# %s: no time was left for longer sizes\n", what);
	printf("# %s: shorter than %s %s, longer by a kernel of their own (%s)\n", what, size,
	       l->below, l->bytes == l->guess + 1 ? "the first guess" : "measured");
}

static void report_host(const struct tool_job *job)
{
	const struct tool_limit *from = &job->limit[TOOL_LONG];

	if (!from->none) {
		report_long("broadcast, all-reduce, reduce-scatter of the host", from);
		return;
	}
	report_limit("all-reduce of the host", &job->limit[TOOL_HOST_ONCE]);
	printf("# broadcast, reduce-scatter of the host: nothing to tune, because %s\n",
	       job->limit[TOOL_HOST_ONCE].none ?
		       job->limit[TOOL_HOST_ONCE].none :
		       "what fits into the memory of the library is fastest there");
}

void tool_report_ways(const struct tool_job *job)
{
	for (int i = 0; i < TOOL_LIMITS; i++)
		report_steps(&job->limit[i]);
	report_limit("broadcast, all-gather, all-to-all, all-to-all-v, reduce-scatter in a kernel",
		     &job->limit[TOOL_CELLS]);
	report_limit("all-reduce in a kernel", &job->limit[TOOL_ONCE]);
	report_host(job);
	printf("# all-to-all and all-to-all-v of the host: the plans above\n"
	       "# packets: nothing to tune, because the kind of peer decides how they go\n");
}
