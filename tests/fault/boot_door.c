/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/boot_door.c - ranks of a TCP job that never join, or that send impossible values when
 * they join.
 *
 * The other ranks get a status and a text that names the rank, or are not disturbed at all.  The
 * tests wait for events (a connection, a line of the log), never for time to pass.
 */
#include <poll.h>

#include "boot_job.h"

/* ---- absence --------------------------------------------------------------------------------- */

static void only_join(struct job *job, int rank)
{
	uint64_t start = ori_now_ns();
	struct oriel_boot *boot = NULL;

	job_note(job, rank, oriel_boot_env(&boot), start);
	oriel_boot_destroy(boot);
}

/*
 * Rank 2 has knocked before there is a rendezvous, and would wait for long: it is rank 0 whose
 * patience ends.  Returns 0 if rank 2 stood still with its hello until then: that was another case.
 */
static int rank_1_is_missing(struct job *job)
{
	struct pollfd door;

	if (job_open(job, 3, JOB_NEVER))
		return 1;
	job_start(job, 2, NULL, only_join);
	door = (struct pollfd){ .fd = job->listen_fd, .events = POLLIN };
	while (poll(&door, 1, (int)(JOB_NEVER_S * 1e3)) < 0 && errno == EINTR)
		;
	job->timeout = "1";
	job_start(job, 0, NULL, only_join);
	job_wait(job, 0);
	if (!strstr(job->ranks[0].error, "rank 2"))
		return 1;
	job_kill(job, 2);
	job_close(job);
	return 0;
}

TEST(never_arrives)
{
	struct job job;
	int tries = 0;

	while (!rank_1_is_missing(&job) && ++tries < 10)
		;
	REQUIRE(tries < 10);
	job_wait(&job, 2);
	CHECK_RANK(&job, 0, ORIEL_ETIMEDOUT, "rank 1 never came", 1 + JOB_SPARE_S);
	CHECK_RANK(&job, 2, ORIEL_ETIMEDOUT, "rank 1 never came", JOB_SOON_S);
	job_close(&job);
}

/* The port is bound but not listening, so no other process can take it. */
TEST(rendezvous_never_arrives)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct job job;

	if (job_open(&job, 2, "1"))
		return;
	REQUIRE(fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof(at)) &&
		!getsockname(fd, (struct sockaddr *)&at, &bytes));
	job.port = ntohs(at.sin_port);
	job_start(&job, 1, NULL, only_join);
	job_wait(&job, 1);
	CHECK_RANK(&job, 1, ORIEL_ETIMEDOUT,
		   "rank 0 has not opened the rendezvous at 127.0.0.1:", 1 + JOB_SPARE_S);
	close(fd);
	job_close(&job);
}

static void join_a_rank_0_that_listens(struct job *job, int rank)
{
	setenv("ORIEL_LISTENING", "1", 1);
	only_join(job, rank);
}

/* Has the socket and dies before it takes anybody. */
static void dies_with_the_socket(struct job *job, int rank)
{
	(void)rank;
	if (job_await(&job->ranks[1].go))
		usleep(200000); /* mostly rank 1 has knocked by then; if not, it is refused */
	kill(getpid(), SIGKILL);
}

static void knock(struct job *job, int rank)
{
	__atomic_store_n(&job->ranks[rank].go, 1, __ATOMIC_RELEASE);
	join_a_rank_0_that_listens(job, rank);
}

/*
 * If the launcher gave rank 0 the socket from the start, no rank waits for a rank 0 that has ended.
 */
TEST(rank_0_dies_before_the_rendezvous)
{
	struct job job;

	if (job_open(&job, 2, JOB_NEVER))
		return;
	job_start(&job, 0, NULL, dies_with_the_socket);
	job_start(&job, 1, NULL, knock);
	close(job.listen_fd);
	job.listen_fd = -1;
	job_wait(&job, 1);
	job_wait(&job, 0);
	CHECK_RANK(&job, 1, ORIEL_EPEER, "rank 0 is gone", JOB_SOON_S);
	job_close(&job);
}

/* Another program has the port of the rendezvous, and answers in its own way. */
TEST(a_stranger_has_the_port)
{
	struct job job;
	char bytes[256];
	int fd;

	if (job_open(&job, 2, JOB_NEVER))
		return;
	job_start(&job, 1, NULL, only_join);
	fd = accept(job.listen_fd, NULL, NULL);
	CHECK(recv(fd, bytes, sizeof(bytes), 0) > 0);
	memset(bytes, 'x', sizeof(bytes));
	CHECK_EQ(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), (int)sizeof(bytes));
	job_wait(&job, 1);
	close(fd);
	CHECK_RANK(&job, 1, ORIEL_EPROTO, "answers, but not as a rendezvous", JOB_SOON_S);
	job_close(&job);
}

/* ---- refusal --------------------------------------------------------------------------------- */

/* A refused rank does not disturb the others: with the right one the job is complete. */
TEST(wrong_secret)
{
	struct job job;

	if (job_open(&job, 2, JOB_NEVER))
		return;
	job_start(&job, 0, "the right one", only_join);
	job_start(&job, 1, "the wrong one", only_join);
	job_wait(&job, 1);
	CHECK_RANK(&job, 1, ORIEL_EAUTH, "secret", JOB_SOON_S);
	job_start(&job, 1, "the right one", only_join);
	job_wait(&job, 1);
	job_wait(&job, 0);
	CHECK_RANK(&job, 0, 0, "", JOB_NEVER_S);
	CHECK_RANK(&job, 1, 0, "", JOB_SOON_S);
	job_close(&job);
}

static void join_and_say(struct job *job, int rank)
{
	setenv("ORIEL_LATE", "0.1", 1);
	only_join(job, rank);
}

static void wrong_count(struct job *job, int rank)
{
	setenv("WORLD_SIZE", "3", 1);
	only_join(job, rank);
}

/* Rank 0 has been heard when it is told who is late. */
TEST(different_rank_counts)
{
	struct job job;

	if (job_open(&job, 2, JOB_NEVER) || job_keep_log(&job))
		return;
	job_start(&job, 0, NULL, join_and_say);
	CHECK(job_await_log(&job, "still waiting to meet rank 1"));
	job_start(&job, 1, NULL, wrong_count);
	job_wait(&job, 1);
	CHECK_RANK(&job, 1, ORIEL_EMISMATCH, "rank 1 says there are 3 ranks, others say 2",
		   JOB_SOON_S);
	job_start(&job, 1, NULL, only_join);
	job_wait(&job, 1);
	job_wait(&job, 0);
	CHECK_RANK(&job, 0, 0, "", JOB_NEVER_S);
	CHECK_RANK(&job, 1, 0, "", JOB_SOON_S);
	job_close(&job);
}

static void also_rank_1(struct job *job, int rank)
{
	setenv("RANK", "1", 1);
	only_join(job, rank);
}

TEST(a_rank_twice)
{
	struct job job;

	if (job_open(&job, 3, JOB_NEVER) || job_keep_log(&job))
		return;
	job_start(&job, 0, NULL, only_join);
	job_start(&job, 1, NULL, join_and_say);
	CHECK(job_await_log(&job, "oriel: rank 1: warning: still waiting to meet"));
	job_start(&job, 2, NULL, also_rank_1);
	job_wait(&job, 2);
	CHECK_RANK(&job, 2, ORIEL_EINVAL, "rank 1 is already there", JOB_SOON_S);
	job_start(&job, 2, NULL, only_join);
	for (int r = 0; r < 3; r++)
		job_wait(&job, r);
	for (int r = 0; r < 3; r++)
		CHECK_RANK(&job, r, 0, "", JOB_NEVER_S);
	job_close(&job);
}
