/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/tune/tool.h - what the files of oriel-tune share.
 *
 * main.c reads the command line and starts ranks, measure.c times exchanges, sweep.c looks for the
 * best setting of a kind of peer and size, whole.c compares and fits, report.c prints.  Everything
 * runs on each rank's host thread, on all ranks alike: whatever is decided follows from times that
 * all ranks have gathered.
 */
#ifndef ORI_TUNE_TOOL_H
#define ORI_TUNE_TOOL_H

#include <stdint.h>
#include <stdio.h>

#include <oriel/coll/alltoallv.h>
#include <oriel/oriel.h>

#include "coll/tune/tune.h"

#define TOOL_SIZES 8
#define TOOL_REPS_MAX 31
#define TOOL_POINTS 1024
#define TOOL_CANDIDATES 24

struct tool_options {
	int quick, explain, ranks;
	const char *topology, *output;
};

/* Of several samples of one plan. */
struct tool_time {
	double us, least, most;
};

/* What was found for one size. */
struct tool_size {
	uint64_t bytes;
	struct ori_a2a_setting first[ORI_PLAN_KINDS], best[ORI_PLAN_KINDS];
	struct tool_time
		kind[ORI_PLAN_KINDS]; /* exchanges with this kind alone, by the best setting */
	double gain[ORI_PLAN_KINDS];  /* of the best over the first guess, alone */
	uint32_t small;               /* data with its mark was faster: up to `bytes` */
	/* the whole exchange, by: */
	struct tool_time before; /* the first guess */
	struct tool_time after;  /* the table */
	struct tool_time one;    /* the better of the table's two settings for all peers */
	struct ori_a2a_setting one_setting;
	int reverted; /* the table was slower than the first guess, which it now has */
};

struct tool_job {
	const struct tool_options *opt;
	struct oriel_comm *comm;
	int rank, nranks;
	uint32_t peers[ORI_PLAN_KINDS];
	uint32_t cores;
	struct oriel_alltoallv_request *request; /* of the size at hand */
	uint64_t *sizes[ORI_PLAN_KINDS + 1]; /* [nranks] in device memory: one kind's peers, all */
	struct tool_size size[TOOL_SIZES];
	int nsizes;
	struct ori_tune_point points[ORI_PLAN_KINDS][TOOL_POINTS];
	size_t npoints[ORI_PLAN_KINDS];
	struct ori_tune_table table;
	uint64_t start_ns;
	double elapsed_s; /* rank 0's clock, told with every sample */
	int reps;
	double sample_us; /* about how long a sample takes */
	double limit_s;   /* no new search begins later than that */
};

/* All peers, for `which` below; ORI_PLAN_MAPPED and ORI_PLAN_QUEUED: those alone. */
#define TOOL_ALL ORI_PLAN_KINDS

/* measure.c: collective */
int tool_request_open(struct tool_job *, uint64_t bytes);
int tool_request_close(struct tool_job *);
/* Plans in turn, `reps` times: medians and spread. */
int tool_measure(struct tool_job *, int which, const struct ori_a2a_plan *plans, int n,
		 struct tool_time *times);
int tool_sizes_open(struct tool_job *);
void tool_sizes_close(struct tool_job *);

/* sweep.c: do the two differ in nothing that a call of that size could notice? */
int tool_alike(const struct ori_a2a_setting *, const struct ori_a2a_setting *, uint64_t bytes);
/* Collective.  Fills first, best, kind, gain and small of a size whose request is open. */
int tool_sweep(struct tool_job *, struct tool_size *);

/* whole.c: collective */
int tool_compare(struct tool_job *, struct tool_size *); /* fills the rest; its request is open */
int tool_fit(struct tool_job *);                         /* fills the table, from all sizes */

/* report.c: rank 0 */
void tool_report_head(struct tool_job *, const struct ori_tune_key *);
void tool_report_sizes(struct tool_job *);
void tool_report_explain(struct tool_job *);

#endif
