/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/boot_knocks.c - strangers at the rendezvous: garbage, half a hello, silence, and a
 * rank that sends nonsense after a good hello.  The job goes on, or names the rank.
 */
#include "../../src/boot/tcp.h"
#include "boot_job.h"

#define NEVER_NS ((uint64_t)JOB_NEVER_S * ORI_NS_PER_S)

static int knock(const struct job *job)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct timeval limit = { .tv_sec = (time_t)JOB_NEVER_S };

	at.sin_port = htons((uint16_t)job->port);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)))
		check_fail(__FILE__, __LINE__, "connect: errno %d", errno);
	return fd;
}

/* 1 when the other side hung up, whatever it said before, within the socket's limit. */
static int hung_up(int fd)
{
	char bytes[256];
	ssize_t n;

	do
		n = recv(fd, bytes, sizeof(bytes), 0);
	while (n > 0 || (n < 0 && errno == EINTR));
	return n == 0 || errno == ECONNRESET;
}

/* All of it: with a limit on the socket a signal may end a recv() early. */
static void hear(int fd, void *data, size_t bytes)
{
	size_t got = 0;
	ssize_t n = 0;

	while (got < bytes) {
		n = recv(fd, (char *)data + got, bytes - got, 0);
		if (n > 0)
			got += (size_t)n;
		else if (n == 0 || errno != EINTR)
			break;
	}
	CHECK_EQ(got, bytes);
}

/* A job that works until a word in shared memory ends it. */
static void works_on(struct job *job, int rank)
{
	uint64_t start = ori_now_ns(), mine, all[JOB_RANKS];
	struct oriel_boot *boot;
	int err = oriel_boot_env(&boot);

	for (uint64_t i = 0; !err; i++) {
		/* rank 0 tells all in the same round that it is time to end */
		mine = rank == 0 && __atomic_load_n(&job->ranks[0].told, __ATOMIC_ACQUIRE) ?
			       UINT64_MAX :
			       i * 10 + (uint64_t)rank;
		err = boot->ops->allgather(boot, &mine, all, sizeof(mine), NEVER_NS);
		for (int r = 1; r < job->n && !err; r++)
			CHECK_EQ(all[r], i * 10 + (uint64_t)r);
		if (!err && all[0] == UINT64_MAX)
			break;
		usleep(500);
	}
	job_note(job, rank, err, start);
	if (!err)
		CHECK_EQ(oriel_boot_destroy(boot), 0);
}

static void throw_garbage(const struct job *job, unsigned *seed)
{
	unsigned char bytes[400];
	size_t n = (size_t)rand_r(seed) % sizeof(bytes);
	int fd = knock(job);

	for (size_t i = 0; i < n; i++)
		bytes[i] = (unsigned char)rand_r(seed);
	/* now and then the beginning is right */
	if (n >= 8 && rand_r(seed) % 3 == 0) {
		uint32_t right[2] = { TCP_MAGIC, TCP_VERSION };

		memcpy(bytes, right, sizeof(right));
	}
	if (send(fd, bytes, n, MSG_NOSIGNAL) < 0)
		CHECK(errno == EPIPE || errno == ECONNRESET);
	close(fd);
}

TEST(garbage_and_silence_while_a_job_runs)
{
	struct job job;
	struct tcp_hello half;
	unsigned seed = 42;
	int silent, stuck;

	if (job_open(&job, 3, JOB_NEVER))
		return;
	/* some before rank 0 is even there */
	silent = knock(&job);
	stuck = knock(&job);
	memset(&half, 0, sizeof(half));
	half.magic = TCP_MAGIC;
	CHECK_EQ(send(stuck, &half, sizeof(half) / 2, MSG_NOSIGNAL), (int)sizeof(half) / 2);
	for (int r = 0; r < 3; r++)
		job_start(&job, r, NULL, works_on);
	for (int i = 0; i < 300; i++)
		throw_garbage(&job, &seed);
	CHECK(hung_up(silent));
	CHECK(hung_up(stuck));
	close(silent);
	close(stuck);
	__atomic_store_n(&job.ranks[0].told, 1, __ATOMIC_RELEASE);
	for (int r = 0; r < 3; r++) {
		job_wait(&job, r);
		CHECK_EQ(job.ranks[r].ran, 1);
		CHECK_EQ(job.ranks[r].status, 0);
		CHECK_EQ(job.codes[r], 0);
	}
	job_close(&job);
}

/* The test itself is rank 1: says a right hello and hears the welcome. */
static int pose_as_rank_1(const struct job *job)
{
	struct tcp_hello hello;
	struct tcp_header h = { 0 };
	struct tcp_welcome welcome = { 0 };
	int fd = knock(job);

	memset(&hello, 0, sizeof(hello));
	hello.magic = TCP_MAGIC;
	hello.version = TCP_VERSION;
	hello.rank = 1;
	hello.nranks = 2;
	hello.timeout_ns = hello.late_ns = NEVER_NS;
	CHECK_EQ(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), (int)sizeof(hello));
	do { /* it is heard, and when rank 0 is there too, welcome */
		hear(fd, &h, sizeof(h));
	} while (h.type == TCP_HEARD);
	CHECK_EQ(h.type, TCP_WELCOME);
	hear(fd, &welcome, sizeof(welcome));
	CHECK_EQ(welcome.hub_rank, 0);
	CHECK_EQ(welcome.parent, -1); /* two ranks make no tree */
	return fd;
}

static void nonsense_after_hello(const void *bytes, size_t n)
{
	struct job job;
	int fd;

	if (job_open(&job, 2, JOB_NEVER))
		return;
	job_start(&job, 0, NULL, works_on);
	fd = pose_as_rank_1(&job);
	CHECK_EQ(send(fd, bytes, n, MSG_NOSIGNAL), (int)n);
	CHECK(hung_up(fd));
	close(fd);
	job_wait(&job, 0);
	CHECK_RANK(&job, 0, ORIEL_EPEER, "rank 1 died", JOB_SOON_S);
	job_close(&job);
}

TEST(a_rank_sends_no_header)
{
	unsigned char bytes[sizeof(struct tcp_header)];

	memset(bytes, 0xa5, sizeof(bytes));
	nonsense_after_hello(bytes, sizeof(bytes));
}

TEST(a_rank_announces_too_much)
{
	struct tcp_header h;

	ori_tcp_header_fill(&h, TCP_CONTRIB, 0, 0, 1, TCP_CONTRIB_MAX + 1000u);
	nonsense_after_hello(&h, sizeof(h));
}

TEST(a_rank_speaks_for_another)
{
	struct {
		struct tcp_header h;
		struct tcp_contrib part;
	} message;

	memset(&message, 0, sizeof(message));
	ori_tcp_header_fill(&message.h, TCP_CONTRIB, 0, 0, 0, sizeof(message.part));
	message.part.n = 2;
	nonsense_after_hello(&message, sizeof(message));
}

TEST(a_contribution_beyond_its_group)
{
	struct {
		struct tcp_header h;
		struct tcp_contrib part;
	} message;

	memset(&message, 0, sizeof(message));
	ori_tcp_header_fill(&message.h, TCP_CONTRIB, 0, 0, 1, sizeof(message.part));
	message.part.n = 2;
	message.part.index = 2;
	nonsense_after_hello(&message, sizeof(message));
}

/* A rank comes to meetings that cannot be: each field is wrong once. */
TEST(a_meeting_that_cannot_be)
{
	struct {
		struct tcp_header h;
		struct tcp_contrib part;
		struct tcp_meet meet;
		uint32_t members[2];
	} good, message;
	size_t bytes = sizeof(good) - sizeof(good.h);

	memset(&good, 0, sizeof(good));
	ori_tcp_header_fill(&good.h, TCP_MEET, 7, 0, 1, bytes);
	good.part = (struct tcp_contrib){ 1, 2, NEVER_NS, NEVER_NS };
	good.members[1] = 1;
	message = good;
	message.h.rank = 0; /* it speaks for another */
	nonsense_after_hello(&message, sizeof(message));
	message = good;
	message.members[1] = 0; /* it is not at its place in the list */
	nonsense_after_hello(&message, sizeof(message));
	message = good;
	message.members[0] = 2; /* a rank that does not exist */
	nonsense_after_hello(&message, sizeof(message));
	message = good;
	message.part.n = 1; /* a longer list than it says */
	message.part.index = 0;
	nonsense_after_hello(&message, sizeof(message));
	message = good;
	message.part.index = 2;
	nonsense_after_hello(&message, sizeof(message));
	message = good;
	message.h.bytes = sizeof(message.part); /* no list at all */
	nonsense_after_hello(&message, sizeof(message.h) + sizeof(message.part));
}

/* A failure word has 16 bits for a status, and in these the first one would be 0: success. */
TEST(an_abort_with_a_status_that_does_not_exist)
{
	static const int32_t statuses[] = { -65536, INT32_MIN, -1000 };

	for (size_t i = 0; i < ORI_COUNT(statuses); i++) {
		struct {
			struct tcp_header h;
			int32_t status;
			char text[4];
		} message;
		struct job job;
		int fd;

		if (job_open(&job, 2, JOB_NEVER))
			return;
		job_start(&job, 0, NULL, works_on);
		fd = pose_as_rank_1(&job);
		memset(&message, 0, sizeof(message));
		ori_tcp_header_fill(&message.h, TCP_ABORT, 0, 0, 1, 8);
		message.status = statuses[i];
		memcpy(message.text, "fire", 4);
		CHECK_EQ(send(fd, &message, sizeof(message), MSG_NOSIGNAL), (int)sizeof(message));
		job_wait(&job, 0);
		CHECK_RANK(&job, 0, ORIEL_EABORTED, "rank 1 aborted: fire", JOB_SOON_S);
		close(fd);
		job_close(&job);
	}
}
