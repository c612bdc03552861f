/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/info/info.h - what oriel-info knows, between those who gather it and those who print it.
 *
 * One thread.  collect.c and job.c fill struct info; text.c and json.c only read it, so both
 * formats tell the same.
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
	int cores_usable, cores; /* of this process; of the machine */
	uint64_t memory_bytes;
};

/* The ranks of the job that this process is one of. */
struct info_job {
	int present; /* there is a launcher, or one was asked for */
	int rank, nranks;
	int met; /* the ranks have exchanged what they know, so rank 0 can tell it */
	struct ori_facts *facts; /* NULL when `error` says why */
	struct ori_topology topology;
	char error[INFO_TEXT_MAX];
};

struct info {
	struct info_build build;
	struct info_machine machine;
	struct info_job job;
	/* bad or unknown variables, here or on another rank; any of them is exit status 1 */
	int problems; /* may count more than are kept */
	char problem[INFO_PROBLEMS_MAX][INFO_TEXT_MAX];
};

/* collect.c */
void info_problem_add(struct info *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void info_gather_here(struct info *);
/* Read the configuration, and then the facts and the device; what is wrong becomes a problem. */
int info_gather_config(struct info *, struct ori_config *);
int info_gather_facts(struct info *, const struct ori_config *, struct ori_facts *);

/* job.c: facts_err says that this rank has no facts, which it then tells the others */
void info_job_gather(struct info *, const struct ori_config *, const struct ori_facts *,
		     int facts_err);
void info_job_free(struct info_job *);

/* main.c: a launcher started this process; and the rank it says, 0 if none */
int info_has_launcher(void);
int info_rank_by_name(void);

/* text.c, json.c: print to stdout; main() checks whether that worked */
void info_print_text(const struct info *);
void info_print_json(const struct info *);
/* ["name": "text"] with what stands before it; text NULL is null. */
void info_json_member(const char *before, const char *name, const char *text);

#endif
