/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/graph.h - who waits for whom, over all ranks of a job: which ranks can never go on, and
 * which rank the others wait for.
 *
 * A graph is made from reports (report.h).  The library prints it at a deadline and on SIGUSR1;
 * oriel-doctor prints it, writes it as JSON and draws it.
 */
#ifndef ORI_DIAG_GRAPH_H
#define ORI_DIAG_GRAPH_H

#include "report.h"

/* How a rank is marked. */
enum ori_rank_mark {
	ORI_MARK_NONE,
	ORI_MARK_WAITS,    /* it waits, and may go on */
	ORI_MARK_LATE,     /* others wait for it, and it waits for no rank */
	ORI_MARK_STUCK,    /* it waits for a deadlock */
	ORI_MARK_DEADLOCK, /* it is part of a cycle of waits */
};

struct ori_graph {
	int nranks;
	struct ori_report *reports; /* [nranks] */
	unsigned char *marks;       /* [nranks] enum ori_rank_mark */
	int *next;     /* [nranks] in a deadlock: the rank that it waits for; else -1 */
	int deadlocks; /* number of cycles */
};

int ori_graph_open(struct ori_graph *, int nranks); /* 0 or ORIEL_ENOMEM, not logged */
void ori_graph_close(struct ori_graph *);
/* Call it when all reports are there. */
void ori_graph_judge(struct ori_graph *);

/* Does this wait need rank `peer` to act? */
int ori_graph_needs(const struct ori_graph *, const struct ori_report_wait *, int rank, int peer);
/* Has a rank a wait that began before the collection? */
int ori_graph_has_old_wait(const struct ori_graph *);
/* The ranks that wait for `rank`, as "0-2,5"; returns how many. */
int ori_graph_waiters(const struct ori_graph *, int rank, char *out, size_t bytes);
/* Starts at `rank`: "rank 0 waits for 1 waits for 0".  It is the lowest rank of its cycle. */
void ori_graph_cycle_text(const struct ori_graph *, int rank, char *out, size_t bytes);
/* Is `rank` the lowest rank of a cycle? */
int ori_graph_begins_cycle(const struct ori_graph *, int rank);
/* The word for a mark in JSON: "deadlock". */
const char *ori_mark_text(int mark);
/* Calls `say` for each line; `detail` adds queues, failures, and ranks from 64 on. */
void ori_graph_print(const struct ori_graph *, int detail, void (*say)(void *ctx, const char *line),
		     void *ctx);

#endif
