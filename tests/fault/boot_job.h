/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/boot_job.h - forks the ranks of a job that meet by TCP, tells each how to fail, and
 * collects what each of them saw.  Most tests of this folder with TCP jobs use it.
 */
#ifndef ORI_TEST_BOOT_JOB_H
#define ORI_TEST_BOOT_JOB_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/boot/boot.h"
#include "../../src/util/util.h"
#include "../check.h"

#define JOB_RANKS 8
/*
 * A deadline that no case is to reach, and the time within which who need not wait for one has its
 * answer.  Between them and what is really needed lie many seconds: any process may stand still.
 */
#define JOB_NEVER "40"
#define JOB_NEVER_S 40.0
#define JOB_SOON_S 25.0
#define JOB_SPARE_S 10.0    /* beyond a deadline that is reached */
#define JOB_PATIENCE_S 90.0 /* of the test with its ranks; they end by themselves */

/* What a rank saw of its last call; shared between the processes. */
struct job_rank {
	int ran; /* written last */
	int status, told, told_status, told_rank;
	int entered; /* passed its first collective */
	int go;      /* what it waits for may happen */
	double seconds;
	uint64_t at_ns;
	char error[400], why[400];
};

struct job {
	int n, port, listen_fd;
	int log_fd;          /* > 0: where the ranks' stderr goes */
	const char *timeout; /* ORIEL_TIMEOUT */
	pid_t pids[JOB_RANKS];
	int codes[JOB_RANKS]; /* exit code, 128 + n for signal n */
	struct job_rank *ranks;
};

typedef void job_fn(struct job *, int rank);

/* Waits until another rank has set the word; 0 if it never did. */
static inline int job_await(const int *word)
{
	uint64_t until = ori_deadline_ns((uint64_t)(JOB_NEVER_S * 1e9));

	while (!__atomic_load_n(word, __ATOMIC_ACQUIRE)) {
		if (ori_now_ns() >= until)
			return 0;
		usleep(1000);
	}
	return 1;
}

/* In a rank: records the result of its last call. */
static inline void job_note(struct job *job, int rank, int status, uint64_t start_ns)
{
	struct job_rank *r = &job->ranks[rank];

	r->status = status;
	r->at_ns = ori_now_ns();
	r->seconds = (double)(r->at_ns - start_ns) / 1e9;
	snprintf(r->error, sizeof(r->error), "%s", oriel_last_error());
	__atomic_store_n(&r->ran, 1, __ATOMIC_RELEASE);
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

/*
 * The stderr of the ranks goes to memory that the test and the ranks read, so that they can wait
 * for a line.
 */
static inline int job_keep_log(struct job *job)
{
	job->log_fd = memfd_create("log", MFD_CLOEXEC);
	if (job->log_fd < 0)
		check_fail(__FILE__, __LINE__, "no memory for the log: errno %d", errno);
	return job->log_fd < 0 ? -1 : 0;
}

static inline int job_log_has(const struct job *job, const char *word)
{
	char text[8000];
	ssize_t n = pread(job->log_fd, text, sizeof(text) - 1, 0);

	text[n < 0 ? 0 : n] = '\0';
	return strstr(text, word) != NULL;
}

/* Waits until the ranks have logged the text; 0 if they never did. */
static inline int job_await_log(const struct job *job, const char *word)
{
	uint64_t until = ori_deadline_ns((uint64_t)(JOB_NEVER_S * 1e9));

	while (!job_log_has(job, word)) {
		if (ori_now_ns() >= until)
			return 0;
		usleep(1000);
	}
	return 1;
}

/* Forks one rank; `secret` NULL: none. */
static inline void job_start(struct job *job, int rank, const char *secret, job_fn *fn)
{
	pid_t parent = getpid(), pid;

	memset(&job->ranks[rank], 0, sizeof(job->ranks[rank]));
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		perror("fork"); /* and not kill(-1) later */
		_exit(1);
	}
	if (pid) {
		job->pids[rank] = pid;
		return;
	}
	/* whatever happens, no process stays behind */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	alarm(80);
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
	if (job->log_fd > 0)
		dup2(job->log_fd, STDERR_FILENO);
	check_failures = 0;
	fn(job, rank);
	_exit(check_failures ? 99 : 0);
}

/* Waits for the rank.  Kills one that does not end by itself: code 128 + SIGKILL. */
static inline void job_wait(struct job *job, int rank)
{
	uint64_t until = ori_deadline_ns((uint64_t)(JOB_PATIENCE_S * 1e9));
	int status = 0;

	if (!job->pids[rank])
		return;
	while (waitpid(job->pids[rank], &status, WNOHANG) == 0) {
		if (ori_now_ns() >= until)
			kill(job->pids[rank], SIGKILL);
		usleep(1000);
	}
	job->codes[rank] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	job->pids[rank] = 0;
}

/* Ends a rank that is stopped or no longer needed. */
static inline void job_kill(struct job *job, int rank)
{
	if (job->pids[rank])
		kill(job->pids[rank], SIGKILL);
	job_wait(job, rank);
}

static inline void job_close(struct job *job)
{
	char text[8000];
	ssize_t n = job->log_fd > 0 ? pread(job->log_fd, text, sizeof(text), 0) : 0;

	if (n > 0 && check_failures)
		fprintf(stderr, "log of the ranks:\n%.*s", (int)n, text);
	if (job->log_fd > 0)
		close(job->log_fd);
	if (job->listen_fd >= 0)
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
		job_wait(job, r);
}

/* Checks that the rank saw that status, with that word in the text, within the time. */
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
