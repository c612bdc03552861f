/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/info.h - struct info: all that oriel-info gathers and prints.
 *
 * One thread.  collect.c and job.c fill it.  text.c and json.c only read it, so both formats show
 * the same.
 */
#ifndef ORI_INFO_H
#define ORI_INFO_H

#include <stdint.h>

#include "../../comm/topology.h"
#include "../../util/config.h"

#define INFO_TEXT_MAX 256
#define INFO_PROBLEMS_MAX 32

struct info_build {
	char compiler[INFO_TEXT_MAX];
	const char *arch, *sanitizer;
	int cuda;
};

struct info_machine {
	char host[64];
	char cpu[INFO_TEXT_MAX];
	char kernel[INFO_TEXT_MAX];
	int cores_usable, cores; /* for this process; in the machine */
	uint64_t memory_bytes;
};

/* The job that this process is a rank of. */
struct info_job {
	int present; /* there is a launcher, or the user asked for one */
	int rank, nranks;
	int met; /* the ranks have exchanged their facts, so rank 0 can print them */
	struct ori_facts *facts; /* NULL: `error` says why */
	struct ori_topology topology;
	char error[INFO_TEXT_MAX];
};

struct info {
	struct info_build build;
	struct info_machine machine;
	struct info_job job;
	/* Bad or unknown variables, on this or another rank.  With any the exit status is 1. */
	int problems; /* may be more than INFO_PROBLEMS_MAX */
	char problem[INFO_PROBLEMS_MAX][INFO_TEXT_MAX];
};

/* collect.c */
void info_problem_add(struct info *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void info_gather_here(struct info *);
/* Read the configuration; then the facts, with the device.  Each error becomes a problem. */
int info_gather_config(struct info *, struct ori_config *);
int info_gather_facts(struct info *, const struct ori_config *, struct ori_facts *);

/* job.c: with facts_err this rank has no facts, and tells the other ranks so */
void info_job_gather(struct info *, const struct ori_config *, const struct ori_facts *,
		     int facts_err);
void info_job_free(struct info_job *);

/* main.c: did a launcher start this process?  And the rank in its variables; 0: none */
int info_has_launcher(void);
int info_rank_by_name(void);

/* text.c, json.c: print to stdout; main() checks whether all was written.  all: every variable */
void info_print_text(const struct info *, int all);
void info_print_json(const struct info *);
/* Prints `before`, then "name": "text"; null for a NULL text. */
void info_json_member(const char *before, const char *name, const char *text);

/* variables.c: those that are set, or all of them by group */
void info_print_variables(int all);

/* wrap.c: a text and a newline; begins at `column`, and continues at `indent` on further lines */
#define INFO_COLUMNS 100
void info_wrap(const char *text, int column, int indent);
/* A value, padded to the width.  Both replace characters that control the terminal. */
void info_put(const char *value, int width);

#endif
