/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/boot_job.h - forks the ranks of a job that meet by TCP, each told how to fail, and
 * collects what each of them saw.  For boot_faults.c and boot_knocks.c.
 */
#ifndef ORI_TEST_BOOT_JOB_H
#define ORI_TEST_BOOT_JOB_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/boot/boot.h"
#include "../../src/util/util.h"
#include "../check.h"

#define JOB_RANKS 8

/* What a rank saw of its last call; shared between the processes. */
struct job_rank {
	int ran, status, told, told_status, told_rank;
	int entered; /* passed its first collective */
	double seconds;
	char error[400], why[400], log[2000];
};

struct job {
	int n, port, listen_fd;
	const char *timeout; /* ORIEL_TIMEOUT */
	pid_t pids[JOB_RANKS];
	int codes[JOB_RANKS]; /* exit code, 128 + n for signal n */
	struct job_rank *ranks;
};

typedef void job_fn(struct job *, int rank);

/* In a rank: remembers how its last call went. */
static inline void job_note(struct job *job, int rank, int status, uint64_t start_ns)
{
	struct job_rank *r = &job->ranks[rank];

	r->ran = 1;
	r->status = status;
	r->seconds = (double)(ori_now_ns() - start_ns) / 1e9;
	snprintf(r->error, sizeof(r->error), "%s", oriel_last_error());
}

static inline int job_open(struct job *job, int n, const char *timeout)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(at);

	memset(job, 0, sizeof(*job));
	job->n = n;
	job->timeout = timeout;
	job->ranks = mmap(NULL, JOB_RANKS * sizeof(*job->ranks), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	job->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
	if (job->ranks == MAP_FAILED || job->listen_fd < 0 ||
	    bind(job->listen_fd, (struct sockaddr *)&at, sizeof(at)) ||
	    listen(job->listen_fd, 1024) ||
	    getsockname(job->listen_fd, (struct sockaddr *)&at, &bytes)) {
		check_fail(__FILE__, __LINE__, "no socket or memory for the job: errno %d", errno);
		return -1;
	}
	job->port = ntohs(at.sin_port);
	return 0;
}

static inline void job_setenv(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

/* Forks one rank; `secret` NULL: none. */
static inline void job_start(struct job *job, int rank, const char *secret, job_fn *fn)
{
	pid_t pid = fork();

	if (pid) {
		job->pids[rank] = pid;
		return;
	}
	alarm(20); /* whatever happens, no process stays behind */
	job_setenv("RANK", rank);
	job_setenv("WORLD_SIZE", job->n);
	job_setenv("MASTER_PORT", job->port);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	setenv("ORIEL_TIMEOUT", job->timeout, 1);
	if (secret)
		setenv("ORIEL_SECRET", secret, 1);
	if (rank == 0)
		job_setenv("ORIEL_LISTEN_FD", job->listen_fd);
	else
		close(job->listen_fd);
	check_failures = 0;
	fn(job, rank);
	_exit(check_failures ? 99 : 0);
}

/* Waits for the rank at most `seconds`, then kills it: code 128 + SIGKILL. */
static inline void job_wait(struct job *job, int rank, double seconds)
{
	uint64_t until = ori_deadline_ns((uint64_t)(seconds * 1e9));
	int status;

	if (!job->pids[rank])
		return;
	while (waitpid(job->pids[rank], &status, WNOHANG) == 0) {
		if (ori_now_ns() >= until)
			kill(job->pids[rank], SIGKILL);
		usleep(2000);
	}
	job->codes[rank] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	job->pids[rank] = 0;
}

static inline void job_close(struct job *job)
{
	close(job->listen_fd);
	munmap(job->ranks, JOB_RANKS * sizeof(*job->ranks));
}

/* All ranks of the job from start to end. */
static inline void job_run(struct job *job, job_fn *fn)
{
	for (int r = 0; r < job->n; r++)
		job_start(job, r, NULL, fn);
	close(job->listen_fd);
	job->listen_fd = -1;
	for (int r = 0; r < job->n; r++)
		job_wait(job, r, 8);
}

/* The rank saw that status, with that word in the text, within the time. */
#define CHECK_RANK(job, r, want, word, most_seconds)                                               \
	do {                                                                                       \
		struct job_rank *check_r = &(job)->ranks[r];                                       \
		CHECK_EQ(check_r->ran, 1);                                                         \
		CHECK_EQ(check_r->status, want);                                                   \
		CHECK_HAS(check_r->error, word);                                                   \
		CHECK(check_r->seconds < (most_seconds));                                          \
		CHECK_EQ((job)->codes[r], 0);                                                      \
	} while (0)

#endif
