/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/doctor.c - collects the reports of all ranks of a job and prints who waits for whom.
 *
 * Called at a deadline, on the thread that waits, or on the thread that watches a GPU's waits; and
 * after SIGUSR1, on the thread of service.c.  Nothing here runs before that.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../util/util.h"
#include "diag.h"
#include "graph.h"

/* A running rank answers in milliseconds. */
#define ASK_NS (ORI_NS_PER_S / 2)
/* After this time, the board of a rank is read where it is mapped, and nobody is waited for. */
#define COLLECT_NS (2 * ORI_NS_PER_S)
/* A rank of another host that printed the graph less than this ago has printed this one. */
#define TOLD_US 3000000u

static void collect(struct ori_graph *g, uint64_t job, const int *stop)
{
	uint64_t start = ori_now_ns();
	char *text = malloc(ORI_REPORT_BYTES);

	for (int r = 0; text && r < g->nranks; r++) {
		uint64_t passed = ori_now_ns() - start, left = 0;

		if (stop && __atomic_load_n(stop, __ATOMIC_RELAXED))
			break;
		if (passed < COLLECT_NS)
			left = COLLECT_NS - passed;
		ori_diag_ask_report(job, r, text, ORI_REPORT_BYTES, left < ASK_NS ? left : ASK_NS);
		ori_report_parse(&g->reports[r], text);
		g->reports[r].sampled_us = (ori_now_ns() - start) / 1000;
	}
	free(text);
}

/*
 * In a deadlock all ranks reach the deadline, and one graph is enough.  Ranks of one host agree by
 * a word in memory (claim).  A rank of another host that began earlier prints it for all.
 */
static int is_told_elsewhere(const struct ori_graph *g, int rank)
{
	for (int r = 0; r < g->nranks; r++) {
		const struct ori_report *other = &g->reports[r];

		if (r != rank && other->told_us < TOLD_US && other->told_us > other->sampled_us)
			return 1;
	}
	return 0;
}

static void say_line(void *ctx, const char *line)
{
	(void)ctx;
	ori_log_answer("doctor: %s", line);
}

static void print(struct ori_graph *g, uint64_t job, const char *why)
{
	ori_graph_judge(g);
	ori_log_answer("doctor: who waits for whom, %s, job %u of %d ranks:", why,
		       (unsigned)(uint32_t)job, g->nranks);
	ori_graph_print(g, 0, say_line, NULL);
}

void ori_doctor_deadline(const struct oriel_board *own)
{
	struct ori_diag_world w;
	struct ori_diag_held *held = ori_diag_hold(own, &w);
	struct ori_graph g;

	if (!held)
		return;
	if (w.claim(w.ctx)) {
		ori_diag_told(w.job, w.job_rank);
		/* without memory: the line of the wait itself has been logged */
		if (!ori_graph_open(&g, w.job_ranks)) {
			collect(&g, w.job, NULL);
			if (!is_told_elsewhere(&g, w.job_rank))
				print(&g, w.job, "at a deadline");
			ori_graph_close(&g);
		}
		w.claimed(w.ctx);
	}
	ori_diag_drop(held);
}

/* Each rank that gets the signal prints the graph. */
void ori_doctor_signal(const int *stop)
{
	int rank, nranks, speaker = ori_log_rank_get();
	uint64_t job, last = 0;
	struct ori_graph g;

	for (int n = 0; ori_diag_member(n, &job, &rank, &nranks); n++) {
		/* another rank of this process has told it; or no memory */
		if (job == last || ori_graph_open(&g, nranks))
			continue;
		last = job;
		ori_log_rank_set(rank);
		collect(&g, job, stop);
		/* relaxed: see service.c */
		if (!__atomic_load_n(stop, __ATOMIC_RELAXED))
			print(&g, job, "after SIGUSR1");
		ori_graph_close(&g);
	}
	ori_log_rank_set(speaker);
}
