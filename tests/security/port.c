/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/security/port.c - strangers at the port of a rendezvous that has a secret: without it, with
 * impossible numbers, in large numbers, and slow.
 *
 * The job of the test meets and works all the while.  fault/boot_knocks.c has garbage, and ranks
 * that send nonsense after a right hello.
 */
#include "../../src/boot/tcp.h"
#include "../../src/boot/tcp_hub.h"
#include "../fault/boot_job.h"

#define SECRET "only we know this"
#define NEVER_NS ((uint64_t)JOB_NEVER_S * ORI_NS_PER_S)
#define SLOW 16                          /* connections that send a byte now and then */
#define CROWD (HUB_STRANGERS_MAX + SLOW) /* more than the rendezvous listens to at a time */

static int knock(const struct job *job)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval limit = { .tv_sec = (time_t)JOB_NEVER_S };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	at.sin_port = htons((uint16_t)job->port);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)))
		check_fail(__FILE__, __LINE__, "connect: errno %d", errno);
	return fd;
}

/* Meets, and makes one collective. */
static void works(struct job *job, int rank)
{
	uint64_t start = ori_now_ns(), mine = 7 + (uint64_t)rank, all[JOB_RANKS] = { 0 };
	struct oriel_boot *boot;
	int err = oriel_boot_env(&boot);

	if (!err)
		err = boot->ops->allgather(boot, &mine, all, sizeof(mine), NEVER_NS);
	for (int r = 0; r < job->n && !err; r++)
		CHECK_EQ(all[r], 7 + (uint64_t)r);
	job_note(job, rank, err, start);
	if (!err)
		CHECK_EQ(oriel_boot_destroy(boot), 0);
}

static struct tcp_hello right_hello(void)
{
	struct tcp_hello hello;

	memset(&hello, 0, sizeof(hello));
	hello.magic = TCP_MAGIC;
	hello.version = TCP_VERSION;
	memcpy(hello.secret, SECRET, strlen(SECRET));
	hello.rank = 1;
	hello.nranks = 2;
	hello.timeout_ns = hello.late_ns = NEVER_NS;
	return hello;
}

/* Says hello; the answer must be a refusal with that status, and then the end. */
static void expect_refusal(const struct job *job, const struct tcp_hello *hello, int status)
{
	unsigned char answer[1024];
	struct tcp_header h;
	size_t got = 0;
	ssize_t n;
	int32_t code;
	int fd = knock(job);

	CHECK_EQ(send(fd, hello, sizeof(*hello), MSG_NOSIGNAL), (int)sizeof(*hello));
	do {
		n = recv(fd, answer + got, sizeof(answer) - got, 0);
		got += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
	close(fd);
	REQUIRE(got >= sizeof(h) + sizeof(code));
	memcpy(&h, answer, sizeof(h));
	memcpy(&code, answer + sizeof(h), sizeof(code));
	CHECK_EQ(h.type, TCP_REFUSE);
	CHECK_EQ(code, status);
	/* what it says does not contain the secret */
	CHECK(!memmem(answer, got, SECRET, strlen(SECRET)));
}

static void finish(struct job *job)
{
	job_start(job, 1, SECRET, works);
	for (int r = 0; r < 2; r++) {
		job_wait(job, r);
		CHECK_RANK(job, r, 0, "", JOB_SOON_S);
	}
	job_close(job);
}

TEST(no_secret_or_a_part_of_it)
{
	struct tcp_hello hello = right_hello();
	struct job job;

	if (job_open(&job, 2, JOB_NEVER))
		return;
	job_start(&job, 0, SECRET, works);
	memset(hello.secret, 0, sizeof(hello.secret));
	expect_refusal(&job, &hello, ORIEL_EAUTH);
	memcpy(hello.secret, SECRET, 4);
	expect_refusal(&job, &hello, ORIEL_EAUTH);
	/* right, but longer */
	memcpy(hello.secret, SECRET "!", strlen(SECRET) + 1);
	expect_refusal(&job, &hello, ORIEL_EAUTH);
	/* the secret is looked at before the version and all numbers */
	hello.version = 99;
	hello.nranks = UINT32_MAX;
	expect_refusal(&job, &hello, ORIEL_EAUTH);
	finish(&job);
}

TEST(numbers_that_would_need_all_memory)
{
	struct tcp_hello hello = right_hello();
	struct job job;

	if (job_open(&job, 2, JOB_NEVER))
		return;
	job_start(&job, 0, SECRET, works);
	hello.nranks = UINT32_MAX;
	expect_refusal(&job, &hello, ORIEL_ERANGE);
	hello.nranks = 0;
	expect_refusal(&job, &hello, ORIEL_ERANGE);
	finish(&job);
}

/*
 * More connections than the rendezvous listens to at a time, all there before any rank.  Most say
 * nothing; some send a byte of a right hello now and then.  Each has three seconds in all.
 */
TEST(a_crowd_of_slow_strangers)
{
	struct tcp_hello hello = right_hello();
	static int fds[CROWD];
	struct job job;
	int meeting = 1;

	if (job_open(&job, 2, JOB_NEVER))
		return;
	for (int i = 0; i < CROWD; i++)
		fds[i] = knock(&job);
	job_start(&job, 0, SECRET, works);
	job_start(&job, 1, SECRET, works);
	for (size_t sent = 0; sent < sizeof(hello) - 1 && meeting; sent++) {
		for (int i = 0; i < SLOW; i++)
			(void)send(fds[i], (char *)&hello + sent, 1, MSG_NOSIGNAL);
		usleep(100000);
		meeting = !__atomic_load_n(&job.ranks[0].ran, __ATOMIC_ACQUIRE) ||
			  !__atomic_load_n(&job.ranks[1].ran, __ATOMIC_ACQUIRE);
	}
	for (int r = 0; r < 2; r++) {
		job_wait(&job, r);
		CHECK_RANK(&job, r, 0, "", 3 + JOB_SPARE_S);
	}
	for (int i = 0; i < CROWD; i++)
		close(fds[i]);
	job_close(&job);
}
