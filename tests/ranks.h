/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/ranks.h - runs a function as several ranks, on threads or in forked processes.
 *
 * If RANKS_LAUNCHED is set in the environment, nothing is started.  The program is then one rank of
 * a job that a launcher started in VMs or namespaces (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
 * ORIEL_SECRET).  All ranks run the same tests in the same order.
 *
 * It never hangs.  Processes that are alive at the deadline are killed and count as failed.  With
 * threads the deadline aborts the test program, because a thread cannot be killed, and names the
 * ranks that still run.
 */
#ifndef ORI_TEST_RANKS_H
#define ORI_TEST_RANKS_H

#include <oriel/oriel.h>

#include "check.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rank_env {
	int rank, nranks;
	int processes;           /* 1: this rank is a process of its own */
	struct oriel_boot *boot; /* NULL with no_boot; fn sets NULL if it destroys it */
	struct oriel_comm *comm; /* NULL with no_comm; fn sets NULL if it destroys it */
	void *arg;               /* the caller's; shared memory is the caller's business */
	struct oriel_boot_id id; /* the id the processes joined by */
};

typedef void rank_fn(struct rank_env *);

struct ranks_options {
	int nranks;
	int processes;     /* 0: threads */
	double deadline_s; /* for all; 0: 150 */
	int no_boot;       /* fn joins by itself (env->id, or env->boot for threads stays NULL) */
	int no_comm;       /* fn gets a boot only */
	double timeout_s;  /* ORIEL_TIMEOUT of the ranks; 0: 60 */
	const char *topology;   /* comm option, NULL for none */
	uint64_t expect_killed; /* bit r: rank r is expected to end by a signal (processes) */
	/*
	 * 2 (processes): the first half of the ranks is on one host, the second on another.  A
	 * host is a network namespace, without a network.  Skipped where namespaces cannot be
	 * made.
	 */
	int hosts;
};

/* Runs fn on every rank; failures inside count as the calling test's (check_failures). */
void ranks_run(const struct ranks_options *, rank_fn *, void *arg);

/* Shared between this process and ranks forked later; zeroed; never freed. */
void *ranks_shared(size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
