/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/survivors.c - a job loses ranks at random moments, and goes on without them.
 *
 * Each rank makes rounds on its comm: a window, puts and signals around a ring, a barrier, the
 * window's end.  When a call fails, it shrinks the comm and begins again.  The test kills ranks one
 * by one meanwhile, also while the others shrink.  In the end the ranks that are left have one comm
 * of exactly these ranks, and it works.
 */
#include <oriel/oriel.h>

#include "boot_job.h"

#define RANKS 6
#define VICTIMS 3 /* never rank 0: its process has the rendezvous */
#define JOBS 12
#define ROUNDS_AT_END 3
#define DEADLINE_S "20"
#define SOON_S 18.0 /* no rank waits for DEADLINE_S; the machine may be busy */

static unsigned seed = 20261116;
static int *all_dead; /* shared: the last victim has been killed */

static unsigned draw(unsigned below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

/* ---- a rank ---------------------------------------------------------------------------------- */

static int ring(struct oriel_comm *comm, struct oriel_window *w, uint64_t round)
{
	int n = oriel_comm_size(comm), rank = oriel_comm_rank(comm), from = (rank + n - 1) % n, err;
	uint64_t value = round * 100 + (uint64_t)rank, got;

	err = oriel_window_put_bytes(w, (rank + 1) % n, 8, &value, sizeof(value), 0);
	if (!err)
		err = oriel_window_signal(w, (rank + 1) % n, 0, ORIEL_ADD, 1, NULL);
	if (!err)
		err = oriel_window_wait_signal(w, from, 0, ORIEL_GE, 1, NULL);
	if (err)
		return err;
	memcpy(&got, (char *)oriel_window_buffer(w) + 8, sizeof(got));
	return got == round * 100 + (uint64_t)from ? oriel_window_barrier(w, 0, NULL) :
						     ORIEL_EPROTO;
}

struct news {
	uint64_t round;
	uint64_t over; /* the last victim has been killed */
};

/* *over: all ranks know that no more ranks will die. */
static int one_round(struct oriel_comm *comm, uint64_t round, int *over)
{
	struct news mine = { round, (uint64_t)__atomic_load_n(all_dead, __ATOMIC_ACQUIRE) };
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL;
	struct news all[RANKS];
	int n = oriel_comm_size(comm), err;

	o.bytes = 4096;
	*over = 1;
	err = oriel_window_create(comm, &o, &w);
	if (!err)
		err = oriel_comm_allgather(comm, ORIEL_WORLD, &mine, all, sizeof(mine));
	for (int r = 0; !err && r < n; r++) {
		*over = *over && all[r].over;
		if (all[r].round > round) /* it made more rounds before the last failure */
			round = all[r].round;
	}
	if (!err)
		err = ring(comm, w, round);
	if (!err)
		err = oriel_window_destroy(w);
	return err; /* a failed comm destroys its windows itself */
}

/* Goes on until all victims are dead and the comm of the others has worked. */
static int live(struct oriel_comm **comm, int *shrinks)
{
	uint64_t end = ori_deadline_ns((uint64_t)(JOB_NEVER_S * 1e9));
	int good = 0, over = 0;

	for (uint64_t round = 1; good < ROUNDS_AT_END; round++) {
		int err = one_round(*comm, round, &over);
		struct oriel_comm *next = NULL;

		if (ori_now_ns() >= end)
			return ORIEL_ETIMEDOUT;
		if (!err) {
			good += over && oriel_comm_size(*comm) == RANKS - VICTIMS;
			continue;
		}
		if (err != ORIEL_EPEER)
			return err;
		err = oriel_comm_shrink(*comm, &next);
		if (err)
			return err;
		oriel_comm_destroy(*comm); /* reports how it failed */
		*comm = next;
		(*shrinks)++;
	}
	return 0;
}

static void survivor(struct job *job, int rank)
{
	uint64_t start = ori_now_ns();
	struct oriel_comm *comm;
	int err = oriel_init(&comm);

	__atomic_store_n(&job->ranks[rank].entered, 1, __ATOMIC_RELEASE);
	if (!err)
		err = live(&comm, &job->ranks[rank].told);
	if (!err)
		err = oriel_finalize(comm);
	job_note(job, rank, err, start);
}

/* ---- the test -------------------------------------------------------------------------------- */

static void kill_some(struct job *job, int *dead)
{
	for (int v = 0; v < VICTIMS; v++) {
		int rank;

		do
			rank = 1 + (int)draw(RANKS - 1);
		while (dead[rank]);
		/* often while the others still shrink, sometimes in the middle of their rounds */
		usleep(draw(2) ? draw(3000) : draw(150000));
		dead[rank] = 1;
		kill(job->pids[rank], SIGKILL);
	}
	__atomic_store_n(all_dead, 1, __ATOMIC_RELEASE);
}

static void one_job(void)
{
	int dead[RANKS] = { 0 };
	struct job job;

	if (job_open(&job, RANKS, DEADLINE_S) || job_keep_log(&job))
		return;
	*all_dead = 0;
	for (int r = 0; r < RANKS; r++)
		job_start(&job, r, NULL, survivor);
	for (int r = 0; r < RANKS; r++)
		CHECK(job_await(&job.ranks[r].entered));
	kill_some(&job, dead);
	for (int r = 0; r < RANKS; r++)
		job_wait(&job, r);
	for (int r = 0; r < RANKS; r++)
		if (!dead[r])
			CHECK(job.ranks[r].seconds < SOON_S);
	for (int r = 0; r < RANKS; r++) {
		if (dead[r])
			CHECK_EQ(job.codes[r], 128 + SIGKILL);
		else if (job.codes[r] || job.ranks[r].status)
			check_fail(__FILE__, __LINE__, "rank %d: exit %d, status %d: %s", r,
				   job.codes[r], job.ranks[r].status, job.ranks[r].error);
		else
			CHECK(job.ranks[r].told > 0); /* it has shrunk its comm */
	}
	job_close(&job);
}

TEST(a_job_goes_on_without_dead_ranks)
{
	all_dead = mmap(NULL, sizeof(*all_dead), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	CHECK(all_dead != MAP_FAILED);
	for (int i = 0; i < JOBS; i++)
		one_job();
}
