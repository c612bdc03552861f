/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doctor/doctor.h - the parts of oriel-doctor, which shows who waits for whom in running jobs.
 *
 *   main.c      the command line
 *   find.c      the user's processes that can be asked, and the jobs they belong to
 *   collect.c   the reports of all ranks of a job
 *   text.c      a job in words
 *   json.c      a job as JSON
 *   svg.c       a job as a picture
 *   serve.c     --serve: a small HTTP server on the loopback interface
 *   page.c      its page, page.html, as bytes of the program
 *
 * One thread.  It only reads: a job runs on as if nobody had asked.
 */
#ifndef ORI_DOCTOR_H
#define ORI_DOCTOR_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "diag/graph.h"
#include "diag/record.h"

#define DOCTOR_SCHEMA 1 /* of the JSON; grows when a member changes its meaning */
#define DOCTOR_EXIT_NONE 1
#define DOCTOR_EXIT_USAGE 2
#define DOCTOR_EXIT_DEADLOCK 3
#define DOCTOR_EXIT_LATE 4

/* ---- find.c ---------------------------------------------------------------------------------- */

/* A rank in a process of this machine, as its record says. */
struct doctor_place {
	uint64_t job;
	int rank, ranks;
	pid_t pid;
};

struct doctor_places {
	struct doctor_place *place;
	int count;
};

/*
 * Reads all records of the folder and removes those of processes that have ended.  0, or -1 without
 * memory.
 */
int doctor_find(const char *folder, struct doctor_places *);
void doctor_find_free(struct doctor_places *);
/*
 * The job that `name` means: the number of a job, the process id of a rank, or that of the
 * launcher.  NULL: the only job.  Returns 0, or an exit status after it has printed one line.
 */
int doctor_choose(const struct doctor_places *, const char *name, uint64_t *job);
void doctor_list(const struct doctor_places *);
/* The state of a process as one letter of /proc: 'T' is stopped; 0: it has ended. */
int doctor_process_state(pid_t, char *command, size_t bytes);

/* ---- collect.c ------------------------------------------------------------------------------- */

struct doctor_job {
	uint64_t job;
	const char *folder;
	double at_s; /* when it was collected, in seconds since 1970 */
	double took_s;
	struct ori_graph graph;
};

/* 0, or -1 if no process of the job answers any more. */
int doctor_collect(const char *folder, uint64_t job, struct doctor_job *);
void doctor_job_free(struct doctor_job *);

/* ---- text.c, json.c, svg.c ------------------------------------------------------------------- */

void doctor_text(const struct doctor_job *, FILE *);
void doctor_json(const struct doctor_job *, FILE *);
void doctor_svg(const struct doctor_job *, FILE *);
const char *doctor_verdict(const struct doctor_job *); /* "deadlock", "late", "waits", "runs" */

/* ---- serve.c, page.c ------------------------------------------------------------------------- */

/* Serves until a signal ends the program.  Returns an exit status. */
int doctor_serve(const char *folder, uint64_t job, int port);
const char *doctor_page(size_t *bytes);

#endif
