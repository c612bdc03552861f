/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/told_last.c - a message to rank 0 may end its process, and with it the rendezvous.
 *
 * The other ranks must have the message by then, and must name the rank that it is about, not rank
 * 0.  In this test rank 0 ends as soon as its own message is sent.  An abort is a message from
 * rank 0, which ends as soon as the call returns.  The rendezvous is slow to pass it on: sockets
 * take it only at the fourth try.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/syscall.h>

#include <oriel/oriel.h>

#include "boot_job.h"
#include "boot/tcp.h"

#define RANKS 6
#define LATE 3 /* dies, or does not come */
#define TIMEOUT_TEXT "6"

static enum tcp_type deadly; /* set before the fork */
static int in_rank_0;

#define FDS 256
static int tries[FDS]; /* to send an abort there */

/* Is the other end of this connection in this process too? */
static int is_own(int fd)
{
	struct sockaddr_in theirs, mine;
	socklen_t bytes = sizeof(theirs);

	if (getpeername(fd, (struct sockaddr *)&theirs, &bytes))
		return 0;
	for (int other = 3; other < FDS; other++) {
		bytes = sizeof(mine);
		if (other != fd && !getsockname(other, (struct sockaddr *)&mine, &bytes) &&
		    mine.sin_family == AF_INET && mine.sin_port == theirs.sin_port)
			return 1;
	}
	return 0;
}

/* Does rank 0 send the message of this test? */
static int is_message(const void *data, size_t bytes)
{
	struct tcp_header h;

	if (!in_rank_0 || bytes < sizeof(h))
		return 0;
	memcpy(&h, data, sizeof(h));
	return h.magic == TCP_MAGIC && h.type == (uint32_t)deadly;
}

/* In place of libc's, for the library too. */
ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
	/* asked before: whoever is told may hang up at once */
	int message = is_message(data, bytes), own = message && is_own(fd);
	ssize_t n;

	if (message && !own && deadly == TCP_ABORT && fd < FDS && tries[fd]++ < 3) {
		usleep(10000);
		errno = EAGAIN;
		return -1;
	}
	n = syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);

	if (own && deadly != TCP_ABORT && n == (ssize_t)bytes)
		_exit(5);
	return n;
}

static int meet(struct oriel_boot *boot, uint64_t timeout_ns)
{
	char all[RANKS], mine = 0;

	return boot->ops->allgather(boot, &mine, all, 1, timeout_ns);
}

static void run_rank(struct job *job, int rank)
{
	struct oriel_boot *boot;
	uint64_t start = ori_now_ns(), soon = 6 * ORI_NS_PER_S;
	uint64_t never = (uint64_t)(JOB_NEVER_S * 1e9);
	int err;

	in_rank_0 = rank == 0;
	err = oriel_boot_env(&boot);
	if (!err)
		err = meet(boot, never);
	if (!err && rank == LATE) {
		if (deadly == TCP_DEAD)
			kill(getpid(), SIGKILL);
		sleep(60); /* killed before */
	}
	if (!err && rank == 0 && deadly == TCP_ABORT) {
		boot->ops->abort(boot, ORIEL_EABORTED, "of the test");
		_exit(5);
	}
	if (!err)
		err = meet(boot, deadly == TCP_FAIL ? soon : never);
	job_note(job, rank, err, start);
	if (rank == 0)
		sleep(60); /* its end is send()'s */
	_exit(0);
}

/*
 * All ranks but rank 0, which is gone, and the late one; a rank that ended may be named by one that
 * is slower.
 */
static void check_job(enum tcp_type type, const char *timeout, int status, const char *word)
{
	struct job job;

	deadly = type;
	if (job_open(&job, RANKS, timeout) || job_keep_log(&job))
		return;
	for (int r = 0; r < RANKS; r++)
		if (type != TCP_REFUSE || r != LATE)
			job_start(&job, r, NULL, run_rank);
	close(job.listen_fd);
	job.listen_fd = -1;
	for (int r = 0; r < RANKS; r++)
		if (r != LATE)
			job_wait(&job, r);
	job_kill(&job, LATE);
	CHECK_EQ(job.codes[0], 5);
	for (int r = 1; r < RANKS; r++)
		if (r != LATE)
			CHECK_RANK(&job, r, status, word, JOB_NEVER_S);
	job_close(&job);
}

TEST(a_death)
{
	check_job(TCP_DEAD, JOB_NEVER, ORIEL_EPEER, "rank 3 died");
}

TEST(a_collective_that_ran_out_of_time)
{
	check_job(TCP_FAIL, JOB_NEVER, ORIEL_ETIMEDOUT, "rank 3 did not come within");
}

TEST(an_abort_by_rank_0)
{
	check_job(TCP_ABORT, JOB_NEVER, ORIEL_EABORTED, "rank 0 aborted");
}

TEST(a_rank_that_never_came)
{
	check_job(TCP_REFUSE, TIMEOUT_TEXT, ORIEL_ETIMEDOUT, "rank 3 never came");
}
