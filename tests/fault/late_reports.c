/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/late_reports.c - the report of a late wait: which call of the user it belongs to,
 * which sources a sum still waits for, and what the late rank itself waits for.
 *
 * The last part also holds for a queued peer, whose board no other rank can read.  Ranks are
 * processes whose log is read.  A rank answers questions even while its own threads wait.
 */
#include <oriel/coll.h>
#include <oriel/oriel.h>

#include "boot_job.h"

#define RANKS 4
#define TIMEOUT_S 6.0
#define TIMEOUT_TEXT "6"

/* Set before the fork. */
static const char *topology;
static void (*play)(struct job *, int rank, struct oriel_window *);
static const char *late = "1";
static int late_to_create; /* rank 3 comes to oriel_comm_create when the others have said so */
static struct oriel_comm *comm;

static void run_rank(struct job *job, int rank)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct oriel_boot *boot;
	uint64_t start = ori_now_ns();
	int err;

	setenv("ORIEL_LATE", late, 1);
	if (topology)
		setenv("ORIEL_TOPOLOGY", topology, 1);
	err = oriel_boot_env(&boot);
	if (late_to_create && rank == 3)
		CHECK(job_await_log(job, "oriel_comm_create is late: rank 3 did not come within"));
	if (!err)
		err = oriel_comm_create(boot, NULL, &comm);
	o.bytes = 64;
	if (!err)
		err = oriel_window_create(comm, &o, &window);
	if (err) {
		job_note(job, rank, err, start);
		_exit(1);
	}
	play(job, rank, window);
	for (int r = 0; r < RANKS; r++)
		(void)job_await(&job->ranks[r].ran);
	_exit(0); /* what is left of a job whose window may have failed ends with it */
}

static void start_job(struct job *job, const char *timeout)
{
	if (job_open(job, RANKS, timeout) || job_keep_log(job))
		_exit(1);
	for (int r = 0; r < RANKS; r++)
		job_start(job, r, NULL, run_rank);
	close(job->listen_fd);
	job->listen_fd = -1;
}

static void end_job(struct job *job)
{
	for (int r = 0; r < RANKS; r++)
		job_wait(job, r);
	for (int r = 0; r < RANKS; r++)
		printf("rank %d: %.2f s: %s: %s\n", r, job->ranks[r].seconds,
		       oriel_status_name(job->ranks[r].status), job->ranks[r].error);
}

/* ---- a sum ----------------------------------------------------------------------------------- */

/*
 * Rank 2 signals no rank, rank 3 signals once, the others twice.  All except rank 2 wait for eight.
 */
static void sum_is_short(struct job *job, int rank, struct oriel_window *w)
{
	uint64_t start = ori_now_ns();
	int err = 0, times = rank == 2 ? 0 : rank == 3 ? 1 : 2;

	for (int i = 0; i < times && !err; i++)
		for (int p = 0; p < RANKS && !err; p++)
			err = oriel_window_signal(w, p, 0, ORIEL_ADD, 1, NULL);
	if (rank != 2 && !err)
		err = oriel_window_wait_signal(w, -1, 0, ORIEL_GE, 8, NULL);
	job_note(job, rank, err, start);
}

static void check_sum(const char *nodes)
{
	struct job job;

	topology = nodes;
	play = sum_is_short;
	start_job(&job, TIMEOUT_TEXT);
	end_job(&job);
	for (int r = 0; r < RANKS; r++) {
		if (r == 2)
			continue;
		CHECK_RANK(&job, r, ORIEL_ETIMEDOUT, "sum of signal 0 of window 0",
			   TIMEOUT_S + JOB_SPARE_S);
		CHECK_HAS(job.ranks[r].error, "have 5, want 8");
		/* of equal ones, the waiting rank is the last */
		CHECK_HAS(job.ranks[r].error,
			  r ? "least from rank 2: 0, rank 3: 1, rank 0: 2, rank 1: 2" :
			      "least from rank 2: 0, rank 3: 1, rank 1: 2, rank 0: 2");
		CHECK_HAS(job.ranks[r].error, "; rank 2 waits for nothing in Oriel");
	}
	CHECK(job_log_has(&job, "least from rank 2: 0"));
	job_close(&job);
}

TEST(a_sum_names_who_gave_least)
{
	check_sum(NULL);
}

TEST(a_sum_over_queued_peers_too)
{
	check_sum("4x1");
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* Rank 0 waits for 1, 1 for 2, 2 for 3; rank 3 comes when that was said. */
static void in_a_row(struct job *job, int rank, struct oriel_window *w)
{
	uint64_t start = ori_now_ns();
	int err = 0;

	if (rank == 3) {
		CHECK(job_await_log(job, "; rank 1 itself waits"));
		CHECK(job_await_log(job, "; rank 2 itself waits"));
		CHECK(job_await_log(job, "; rank 3 waits for nothing in Oriel"));
		/* rank 0 names the rank that all wait for */
		CHECK(job_await_log(job, "; the chain of waits ends at rank 3, which waits for "
					 "nothing in Oriel"));
	} else {
		err = oriel_window_wait_signal(w, rank + 1, 5, ORIEL_GE, 1, NULL);
	}
	if (rank && !err)
		err = oriel_window_signal(w, rank - 1, 5, ORIEL_ADD, 1, NULL);
	job_note(job, rank, err, start);
}

/* A play whose waits all succeed in the end. */
static void play_through(struct job *job, void (*what)(struct job *, int, struct oriel_window *),
			 const char *nodes)
{
	topology = nodes;
	play = what;
	start_job(job, JOB_NEVER);
	end_job(job);
	for (int r = 0; r < RANKS; r++)
		CHECK_RANK(job, r, 0, "", JOB_NEVER_S);
}

static void check_chain(const char *nodes)
{
	struct job job;

	play_through(&job, in_a_row, nodes);
	CHECK(job_log_has(&job, "for signal 5 of window 0 from rank 2"));
	CHECK(!job_log_has(&job, "deadlock"));
	job_close(&job);
}

TEST(a_chain_of_mapped_peers)
{
	check_chain(NULL);
}

TEST(a_chain_of_queued_peers)
{
	check_chain("4x1");
}

/* Rank 0 waits for 1, which waits for 2 in another comm; rank 2 comes when that was said. */
static void in_two_comms(struct job *job, int rank, struct oriel_window *w)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	uint64_t start = ori_now_ns();
	struct oriel_window *other;
	struct oriel_comm *all;
	int err = oriel_comm_split(comm, 0, rank, &all);

	if (!err)
		err = oriel_window_create(all, &o, &other);
	if (rank == 2) {
		CHECK(job_await_log(job, "; rank 1 itself waits in another comm"));
		err = err ? err : oriel_window_signal(other, 1, 0, ORIEL_ADD, 1, NULL);
	}
	if (rank == 1 && !err)
		err = oriel_window_wait_signal(other, 2, 0, ORIEL_GE, 1, NULL);
	if (rank == 1 && !err)
		err = oriel_window_signal(w, 0, 5, ORIEL_ADD, 1, NULL);
	if (rank == 0 && !err)
		err = oriel_window_wait_signal(w, 1, 5, ORIEL_GE, 1, NULL);
	job_note(job, rank, err, start);
}

static void check_two_comms(const char *nodes)
{
	struct job job;

	play_through(&job, in_two_comms, nodes);
	job_close(&job);
}

TEST(a_mapped_peer_that_waits_in_another_comm)
{
	check_two_comms(NULL);
}

TEST(a_queued_peer_that_waits_in_another_comm)
{
	check_two_comms("4x1");
}

/* Every rank waits for the next one, the last for the first. */
static void in_a_ring(struct job *job, int rank, struct oriel_window *w)
{
	uint64_t start = ori_now_ns();
	int err = oriel_window_wait_signal(w, (rank + 1) % RANKS, 5, ORIEL_GE, 1, NULL);

	job_note(job, rank, err, start);
}

static void check_ring(const char *nodes)
{
	char ring[128];
	int told = 0;
	struct job job;

	topology = nodes;
	play = in_a_ring;
	start_job(&job, TIMEOUT_TEXT);
	end_job(&job);
	for (int r = 0; r < RANKS; r++) {
		CHECK_RANK(&job, r, ORIEL_ETIMEDOUT, "signal 5 of window 0 from rank",
			   TIMEOUT_S + JOB_SPARE_S);
		snprintf(ring, sizeof(ring),
			 "deadlock: rank %d waits for %d waits for %d waits for %d waits for %d", r,
			 (r + 1) % RANKS, (r + 2) % RANKS, (r + 3) % RANKS, r);
		told += job_log_has(&job, ring);
	}
	CHECK(told > 0);
	job_close(&job);
}

TEST(a_ring_of_mapped_peers_is_a_deadlock)
{
	check_ring(NULL);
}

TEST(a_ring_of_queued_peers_is_a_deadlock)
{
	check_ring("4x1");
}

/*
 * Rank 1 is stopped.  A rank that waits for it says that it does not answer, and is not delayed by
 * the question.
 */
static void one_is_stopped(struct job *job, int rank, struct oriel_window *w)
{
	uint64_t start = ori_now_ns();
	int err = 0;

	if (rank == 1) {
		job_note(job, rank, 0, start);
		kill(getpid(), SIGSTOP);
	} else if (rank == 2) {
		err = oriel_window_wait_signal(w, 1, 5, ORIEL_GE, 1, NULL);
		job_note(job, rank, err, start);
	} else {
		job_note(job, rank, 0, start);
	}
}

TEST(a_stopped_rank_does_not_answer)
{
	struct job job;

	topology = "4x1";
	play = one_is_stopped;
	start_job(&job, TIMEOUT_TEXT);
	for (int r = 0; r < RANKS; r++)
		if (r != 1)
			job_wait(&job, r);
	job_kill(&job, 1);
	CHECK_RANK(&job, 2, ORIEL_ETIMEDOUT, "from rank 1: have 0, want 1; rank 1 does not answer",
		   TIMEOUT_S + JOB_SPARE_S);
	job_close(&job);
}

/*
 * Rank 0 is stopped, and with it the rendezvous through which ranks are asked.  A rank that waits
 * for another one does not say of that one that it does not answer.
 */
static void rendezvous_is_stopped(struct job *job, int rank, struct oriel_window *w)
{
	uint64_t start = ori_now_ns();
	int err = 0;

	__atomic_store_n(&job->ranks[rank].entered, 1, __ATOMIC_RELEASE);
	for (int r = 1; r < RANKS && rank == 0; r++)
		CHECK(job_await(&job->ranks[r].entered)); /* they have their window through it */
	if (rank == 0) {
		job_note(job, rank, 0, start);
		kill(getpid(), SIGSTOP);
	} else if (rank == 2) {
		err = oriel_window_wait_signal(w, 1, 5, ORIEL_GE, 1, NULL);
		job_note(job, rank, err, start);
	} else {
		job_note(job, rank, 0, start);
	}
}

TEST(a_stopped_rendezvous_is_named)
{
	struct job job;

	topology = "4x1";
	play = rendezvous_is_stopped;
	start_job(&job, TIMEOUT_TEXT);
	for (int r = 1; r < RANKS; r++)
		job_wait(&job, r);
	job_kill(&job, 0);
	CHECK_RANK(&job, 2, ORIEL_ETIMEDOUT,
		   "from rank 1: have 0, want 1; rank 1 cannot be asked: rank 0 (the rendezvous) "
		   "does not answer",
		   TIMEOUT_S + JOB_SPARE_S);
	job_close(&job);
}

/* ---- the call that is late ------------------------------------------------------------------- */

/*
 * Rank 3 joins each call after the others have reported, by the name of the call, that it is late.
 */
static void late_to(struct job *job, int rank, const char *line)
{
	if (rank == 3)
		CHECK(job_await_log(job, line));
}

static int late_to_collectives(struct job *job, int rank, struct oriel_window *w)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	struct oriel_alltoallv_request *exchange;
	struct oriel_allgather_request *gather;
	uint64_t sizes[RANKS] = { 1, 1, 1, 1 };
	int err;

	o.slot_bytes = 64;
	late_to(job, rank, "oriel_alltoallv_create is late: rank 3 did not come within");
	err = oriel_alltoallv_create(comm, &o, &exchange);
	args.send_sizes = sizes;
	late_to(job, rank, "all-to-all-v (window 1): rank 3 is late: waiting");
	if (!err)
		err = oriel_alltoallv_exec(exchange, &args, NULL);
	late_to(job, rank, "oriel_alltoallv_destroy is late: rank 3 did not come within");
	if (!err)
		err = oriel_alltoallv_destroy(exchange);
	late_to(job, rank, "oriel_allgather_create is late: rank 3 did not come within");
	if (!err)
		err = oriel_allgather_create(comm, w, NULL, &gather);
	late_to(job, rank, "all-gather (window 2): rank 3 is late: waiting");
	if (!err)
		err = oriel_allgather_exec(gather, NULL, 4, 4, NULL);
	return err ? err : oriel_allgather_destroy(gather);
}

static void late_to_every_call(struct job *job, int rank, struct oriel_window *w)
{
	uint64_t start = ori_now_ns();
	int err;

	late_to(job, rank, "oriel_comm_barrier is late: rank 3 did not come within");
	err = oriel_comm_barrier(comm, ORIEL_WORLD);
	if (!err)
		err = late_to_collectives(job, rank, w);
	late_to(job, rank, "oriel_window_destroy is late: rank 3 did not come within");
	if (!err)
		err = oriel_window_destroy(w);
	late_to(job, rank, "oriel_comm_destroy is late: rank 3 did not come within");
	if (!err)
		err = oriel_comm_destroy(comm);
	job_note(job, rank, err, start);
}

static void check_calls(const char *nodes)
{
	struct job job;

	topology = nodes;
	play = late_to_every_call;
	late_to_create = 1;
	late = "0.2"; /* there are many calls */
	start_job(&job, JOB_NEVER);
	end_job(&job);
	late_to_create = 0;
	late = "1";
	for (int r = 0; r < RANKS; r++)
		CHECK_RANK(&job, r, 0, "", JOB_NEVER_S);
	CHECK(!job_log_has(&job, "signal 0 of"));
	job_close(&job);
}

TEST(a_late_call_says_its_name)
{
	check_calls(NULL);
}

TEST(a_late_call_between_nodes_too)
{
	check_calls("2x2");
}

/* Rank 3 stays away: the others give up, and the error names the collective. */
static void one_stays_away(struct job *job, int rank, struct oriel_window *w)
{
	struct oriel_allgather_request *gather;
	uint64_t start;
	int err = oriel_allgather_create(comm, w, NULL, &gather);

	start = ori_now_ns();
	if (!err && rank != 3)
		err = oriel_allgather_exec(gather, NULL, 4, 4, NULL);
	job_note(job, rank, err, start);
}

TEST(a_collective_that_gives_up_says_its_name)
{
	struct job job;

	topology = NULL;
	play = one_stays_away;
	start_job(&job, TIMEOUT_TEXT);
	end_job(&job);
	for (int r = 0; r < 3; r++)
		CHECK_RANK(&job, r, ORIEL_ETIMEDOUT, "all-gather (window 1)",
			   TIMEOUT_S + JOB_SPARE_S);
	CHECK(job_log_has(&job, "all-gather (window 1): rank 3 did not come within"));
	job_close(&job);
}

static void one_stays_away_from_a_sum(struct job *job, int rank, struct oriel_window *w)
{
	uint64_t start = ori_now_ns(), value = 1;
	int err = 0;

	(void)w;
	for (int i = 0; i < (rank == 3 ? 1 : 2) && !err; i++)
		err = oriel_allreduce(comm, NULL, &value, 1, ORIEL_TYPE_UINT64, ORIEL_REDUCE_SUM,
				      NULL);
	job_note(job, rank, err, start);
}

/*
 * A rank whose own wait gave up has its words in the status, not only that the team has failed.
 * The failure of a faster rank may end the waits of the others.
 */
TEST(a_sum_that_gives_up_says_who_is_late)
{
	struct job job;
	int own_words = 0;

	topology = NULL;
	play = one_stays_away_from_a_sum;
	start_job(&job, TIMEOUT_TEXT);
	end_job(&job);
	for (int r = 0; r < 3; r++) {
		CHECK_RANK(&job, r, ORIEL_ETIMEDOUT, "oriel_allreduce: ", TIMEOUT_S + JOB_SPARE_S);
		CHECK_HAS(job.ranks[r].error, "rank 3");
		own_words += strstr(job.ranks[r].error, "rank 3 did not come within") != NULL;
	}
	CHECK(own_words > 0);
	job_close(&job);
}
