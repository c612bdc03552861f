/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run/report.c - what oriel-run prints about its ranks.  Called by job.c, cause.c and ending.c.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "run.h"

#define LIST_BYTES 256
#define ENDING_BYTES 96

int run_status_failed(int status)
{
	return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

int run_status_code(int status)
{
	return WIFSIGNALED(status) ? RUN_EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

static void describe(int status, char text[ENDING_BYTES])
{
	if (WIFSIGNALED(status))
		snprintf(text, ENDING_BYTES, "was killed by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(text, ENDING_BYTES, "exited with status %d", WEXITSTATUS(status));
}

/* A list of ranks, built in rank order: 0-3,7. */
struct list {
	char text[LIST_BYTES];
	size_t used;
	int first, last; /* the run that is not in text yet; first < 0: none */
	int count;
};

static void list_begin(struct list *l)
{
	memset(l, 0, sizeof(*l));
	l->first = -1;
}

static void list_close_run(struct list *l)
{
	const char *comma = l->used ? "," : "";
	int n;

	if (l->first < 0 || l->used + 16 > LIST_BYTES)
		return;
	if (l->used + 32 > LIST_BYTES)
		n = sprintf(l->text + l->used, ",...");
	else if (l->first == l->last)
		n = sprintf(l->text + l->used, "%s%d", comma, l->first);
	else
		n = sprintf(l->text + l->used, "%s%d%c%d", comma, l->first,
			    l->last > l->first + 1 ? '-' : ',', l->last);
	l->used += (size_t)n;
	l->first = -1;
}

static void list_add(struct list *l, int rank)
{
	if (l->first >= 0 && rank != l->last + 1)
		list_close_run(l);
	if (l->first < 0)
		l->first = rank;
	l->last = rank;
	l->count++;
}

void run_report_failure(struct run_job *job, int rank)
{
	char ending[ENDING_BYTES];

	describe(job->ranks[rank].status, ending);
	run_sink_say(&job->err, "rank %d (pid %d) %s%s", rank, (int)job->ranks[rank].was_pid,
		     ending, job->live ? "; ending the job" : "");
}

/* One line for all ranks with the same status as `from`, the first of them. */
static void report_alike(struct run_job *job, int from)
{
	int status = job->ranks[from].status;
	char ending[ENDING_BYTES];
	struct list l;

	list_begin(&l);
	for (int r = from; r < job->nranks; r++) {
		if (!job->ranks[r].followed || job->ranks[r].status != status)
			continue;
		list_add(&l, r);
		job->ranks[r].followed = 0;
	}
	list_close_run(&l);
	describe(status, ending);
	run_sink_say(&job->err, "%s %s then %s", l.count > 1 ? "ranks" : "rank", l.text, ending);
}

void run_report_followers(struct run_job *job)
{
	for (int r = 0; r < job->nranks; r++)
		if (job->ranks[r].followed)
			report_alike(job, r);
}

void run_report_live(struct run_job *job, const char *before, const char *after)
{
	struct list l;

	list_begin(&l);
	for (int r = 0; r < job->nranks; r++)
		if (job->ranks[r].pid)
			list_add(&l, r);
	list_close_run(&l);
	run_sink_say(&job->err, "%s%s %s%s", before, l.count > 1 ? "ranks" : "rank", l.text, after);
}
