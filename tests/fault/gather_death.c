/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/gather_death.c - a rank dies while the others are in an all-gather.
 *
 * A rank that waits for a block waits for the rank that forwards it, which may be well.  All
 * survivors must name the rank that died.
 */
#include <oriel/coll.h>
#include <oriel/oriel.h>

#include "boot_job.h"

#define RANKS 4
#define COUNT 512

static int victim; /* set before the fork */

static void run_rank(struct job *job, int rank)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_allgather_request *gather;
	struct oriel_window *window;
	struct oriel_comm *comm;
	uint64_t start = ori_now_ns();
	int err;

	o.bytes = (uint64_t)RANKS * COUNT * 8;
	setenv("ORIEL_TOPOLOGY", "0,0,1,1", 1);
	err = oriel_init(&comm);
	if (!err)
		err = oriel_window_create(comm, &o, &window);
	if (!err)
		err = oriel_allgather_create(comm, window, NULL, &gather);
	for (int i = 0; i < 3 && !err; i++)
		err = oriel_allgather_exec(gather, NULL, COUNT, 8, NULL);
	__atomic_store_n(&job->ranks[rank].entered, 1, __ATOMIC_RELEASE);
	for (int r = 0; r < RANKS && rank == victim; r++)
		CHECK(job_await(&job->ranks[r].entered));
	if (rank == victim) {
		usleep(200000); /* the others wait, mostly */
		kill(getpid(), SIGKILL);
	}
	if (!err)
		err = oriel_allgather_exec(gather, NULL, COUNT, 8, NULL);
	job_note(job, rank, err, start);
	_exit(0);
}

static void check_victim(int rank, const char *word)
{
	struct job job;

	victim = rank;
	if (job_open(&job, RANKS, JOB_NEVER))
		return;
	job_run(&job, run_rank);
	for (int r = 0; r < RANKS; r++)
		if (r != victim)
			CHECK_RANK(&job, r, ORIEL_EPEER, word, JOB_SOON_S);
	job_close(&job);
}

TEST(the_rendezvous_dies)
{
	check_victim(0, "rank 0");
}

TEST(another_rank_dies)
{
	check_victim(1, "rank 1");
}
