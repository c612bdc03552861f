/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/tune/tool.h - what the files of oriel-tune share.
 *
 *   main.c     reads the command line and starts ranks
 *   measure.c  times exchanges
 *   sweep.c    searches the best setting per kind of peer and size
 *   small.h    decides which messages carry their own mark
 *   limit.h, limit.c  find where one way of a collective ends and another begins
 *   kernel.c   measures this for collectives inside a kernel
 *   host.c     measures this for collectives of the host
 *   whole.c    compares the table with the first guess, and fits the model
 *   report.c, report_ways.c  print
 *
 * Everything runs on the host thread of each rank.  All ranks decide the same, because they decide
 * only on times that all ranks have exchanged.
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
#define TOOL_STEPS 8 /* sizes at which two ways of a collective are compared */
/* What replaces the first guess must be faster: at most this part of its time. */
#define TOOL_FASTER 0.97

/* Of two ways: is this one chosen?  The first guess stays unless the other is clearly faster. */
static inline int tool_prefers(int guessed, double this_us, double other_us)
{
	return guessed ? other_us >= TOOL_FASTER * this_us : this_us < TOOL_FASTER * other_us;
}

struct tool_options {
	int quick, explain, ranks;
	const char *topology, *output;
};

/* Samples of one plan: the median, the least and the largest time. */
struct tool_time {
	double us, least, most;
};

/* Results for one size. */
struct tool_size {
	uint64_t bytes;
	struct ori_a2a_setting first[ORI_PLAN_KINDS], best[ORI_PLAN_KINDS];
	struct tool_time
		kind[ORI_PLAN_KINDS]; /* exchanges with this kind alone, with the best setting */
	double gain[ORI_PLAN_KINDS];  /* first guess / best, this kind alone */
	/* `bytes` if messages of this size carry their own mark, or 0: by the first guess, tuned */
	uint32_t first_small, small;
	/* times of exchanges with all peers: */
	struct tool_time before;            /* with the first guess */
	struct tool_time after;             /* with the table */
	struct tool_time one;               /* with one_setting for all peers */
	struct ori_a2a_setting one_setting; /* the better of the table's two settings */
	int reverted; /* the table was slower, so it has the first guess for this size */
};

/* Up to a limit a collective goes one way, and above it another way. */
struct tool_limit {
	const char *call, *place;  /* "all-gather", "in a kernel" */
	const char *below, *above; /* the two ways: "with cells", "with signals" */
	const char *none;          /* why there was no choice; else NULL */
	uint64_t guess, bytes;     /* the limit: by the first guess, and tuned */
	uint64_t least;            /* the limit if even the smallest size is above it */
	int n;                     /* sizes that were measured, ascending */
	int late;                  /* no time was left for longer ones */
	struct tool_step {
		uint64_t bytes;
		struct tool_time below, above;
	} step[TOOL_STEPS];
};

/* The limits of struct ori_tune_ways. */
enum tool_limits { TOOL_CELLS, TOOL_ONCE, TOOL_HOST_ONCE, TOOL_LONG, TOOL_LIMITS };

struct tool_job {
	const struct tool_options *opt;
	struct oriel_comm *comm;
	int rank, nranks;
	uint32_t peers[ORI_PLAN_KINDS];
	uint32_t cores;
	struct oriel_alltoallv_request *request; /* for the current size */
	uint64_t *sizes[ORI_PLAN_KINDS + 1];     /* device memory [nranks]: per kind, and for all */
	struct tool_size size[TOOL_SIZES];
	int nsizes;
	int current; /* index of the size that is measured */
	struct tool_limit limit[TOOL_LIMITS];
	struct ori_tune_point points[ORI_PLAN_KINDS][TOOL_POINTS];
	size_t npoints[ORI_PLAN_KINDS];
	struct ori_tune_table table;
	uint64_t start_ns;
	double elapsed_s; /* by rank 0's clock; exchanged with every sample */
	int reps;
	double sample_us; /* intended time of a sample */
	double limit_s;   /* after this time no new search begins */
	double ways_s;    /* after this time no more sizes of limits */
};

/* Value of `which` below for all peers.  ORI_PLAN_MAPPED, ORI_PLAN_QUEUED: only these. */
#define TOOL_ALL ORI_PLAN_KINDS

/* measure.c: collective */
int tool_request_open(struct tool_job *, uint64_t bytes);
int tool_request_close(struct tool_job *);
/* Measures the plans in turn, `reps` times: medians and spread. */
int tool_measure(struct tool_job *, int which, const struct ori_a2a_plan *plans, int n,
		 struct tool_time *times);
/* The largest time of all ranks. */
int tool_gather(struct tool_job *, double us, double *slowest);
/* How many calls that take `us` make a sample. */
int tool_calls(const struct tool_job *, double us);
/* Sorts the samples. */
struct tool_time tool_time_of(double *us, int n);
int tool_sizes_open(struct tool_job *);
void tool_sizes_close(struct tool_job *);

/* sweep.c: are calls of that size the same with both settings? */
int tool_alike(const struct ori_a2a_setting *, const struct ori_a2a_setting *, uint64_t bytes);
/* Collective.  Fills first, best, kind, gain and small of a size whose request is open. */
int tool_sweep(struct tool_job *, struct tool_size *);

/* limit.c: collective.  A way is 0, below the limit, or 1. */
typedef int tool_sample_fn(void *bed, int way, uint64_t bytes, int calls, double *us);
/* Measures both ways at sizes from `first` to `last`, each `times` the one before. */
int tool_limit_sweep(struct tool_job *, struct tool_limit *, uint64_t first, uint64_t last,
		     uint64_t times, tool_sample_fn *, void *bed);
/* kernel.c and host.c: collective.  Fill two limits each. */
int tool_kernel_sweep(struct tool_job *);
int tool_host_sweep(struct tool_job *);

/* whole.c: collective */
int tool_compare(struct tool_job *, struct tool_size *); /* fills the other fields */
int tool_fit(struct tool_job *);                         /* fills the table from all sizes */

/* report.c: rank 0 */
void tool_report_head(struct tool_job *, const struct ori_tune_key *);
void tool_report_sizes(struct tool_job *);
void tool_report_explain(struct tool_job *);

/* report_ways.c: rank 0.  Collectives of a team, and packets. */
void tool_report_ways(const struct tool_job *);

#endif
