/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/coll/limit.c - measures the least time in which two cores can move the bytes of a
 * collective.
 *
 * Two pinned processes copy with memcpy from the send buffers of all ranks into the receive buffers
 * of all ranks.  A send buffer is private memory of the process that plays the rank; the receive
 * buffers are a memfd that both map.  This is the footprint of the collective, but no rank ever
 * waits for another.  Nothing of Oriel is used.
 * Usage: limit_coll NRANKS
 * Prints lines "limit_gather8_64k value us"; the value is that of the slower process.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll.h"

#define RANKS_MAX 64

/* arrived: by both, before a timed loop.  us, wrong: by process i in its own place. */
struct shared {
	uint64_t arrived;
	double us[BENCH_CORES][BENCH_BLOCKS];
	uint64_t wrong[BENCH_CORES];
};

struct job {
	struct shared *s;
	uint8_t *recv; /* rank r's at r * coll_recv_bytes */
	uint8_t *send[RANKS_MAX];
	int nranks;
};

/* The partner may be dead: no wait is endless. */
static void meet(struct shared *s, uint64_t round)
{
	double end = bench_now() + BENCH_DEADLINE_S;

	__atomic_fetch_add(&s->arrived, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&s->arrived, __ATOMIC_ACQUIRE) < BENCH_CORES * round)
		if (bench_now() > end)
			_exit(1);
}

/* What rank r sends, to the next rank first, as Oriel's ranks do. */
static void copy_rank(const struct job *job, const struct coll_case *c, int r)
{
	size_t step = c->op == COLL_GATHER ? 0 : c->bytes;

	for (int i = 1; i <= job->nranks; i++) {
		size_t to = (size_t)((r + i) % job->nranks);
		uint8_t *at = job->recv + to * coll_recv_bytes(c, job->nranks) +
			      (size_t)r * c->bytes;

		memcpy(at, job->send[r] + to * step, c->bytes);
		__asm__ volatile("" ::"r"(at) : "memory"); /* each copy is made */
	}
}

static void copy_mine(const struct job *job, const struct coll_case *c, int me)
{
	for (int r = me; r < job->nranks; r += BENCH_CORES)
		copy_rank(job, c, r);
}

static int make_sends(struct job *job, const struct coll_case *c, int me)
{
	size_t bytes = coll_send_bytes(c, job->nranks);

	for (int r = me; r < job->nranks; r += BENCH_CORES) {
		job->send[r] = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (job->send[r] == MAP_FAILED)
			return -1;
		coll_fill(job->send[r], c, r, job->nranks);
	}
	return 0;
}

static int part(struct job *job, const struct coll_case *c, int me)
{
	int n = coll_loops(c, job->nranks);

	bench_pin(me);
	if (make_sends(job, c, me))
		return -1;
	for (int b = -1; b < BENCH_BLOCKS; b++) { /* the first is the warm-up */
		double start;

		meet(job->s, (uint64_t)(b + 2));
		start = bench_now();
		for (int i = 0; i < n; i++)
			copy_mine(job, c, me);
		if (b >= 0)
			job->s->us[me][b] = (bench_now() - start) * 1e6 / n;
	}
	meet(job->s, BENCH_BLOCKS + 2);
	for (int r = me; r < job->nranks; r += BENCH_CORES)
		job->s->wrong[me] +=
			coll_wrong(job->recv + (size_t)r * coll_recv_bytes(c, job->nranks), c, r,
				   job->nranks);
	for (int r = me; r < job->nranks; r += BENCH_CORES)
		munmap(job->send[r], coll_send_bytes(c, job->nranks));
	return 0;
}

static int run_both(struct job *job, const struct coll_case *c)
{
	struct shared *s = job->s;
	double us[BENCH_BLOCKS];
	int status = 1, mine;
	pid_t pid = fork();

	if (pid < 0)
		return -1;
	if (pid == 0)
		_exit(part(job, c, 1) < 0);
	mine = part(job, c, 0);
	if (waitpid(pid, &status, 0) != pid || status || mine) {
		fprintf(stderr, "limit_coll: a process failed\n");
		return -1;
	}
	for (int b = 0; b < BENCH_BLOCKS; b++)
		us[b] = s->us[0][b] > s->us[1][b] ? s->us[0][b] : s->us[1][b];
	return coll_print("limit", c, job->nranks, bench_median(us, BENCH_BLOCKS),
			  s->wrong[0] + s->wrong[1]);
}

static int run_case(int nranks, const struct coll_case *c)
{
	size_t recv = coll_recv_bytes(c, nranks) * (size_t)nranks, bytes = recv + 4096;
	struct job job = { .nranks = nranks };
	int fd = memfd_create("limit", MFD_CLOEXEC), err;
	uint8_t *base;

	if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
		fprintf(stderr, "limit_coll: memfd: %s\n", strerror(errno));
		return -1;
	}
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (base == MAP_FAILED) {
		fprintf(stderr, "limit_coll: mmap: %s\n", strerror(errno));
		return -1;
	}
	memset(base, 0, bytes);
	job.recv = base;
	job.s = (struct shared *)(void *)(base + recv);
	err = run_both(&job, c);
	munmap(base, bytes);
	return err;
}

int main(int argc, char **argv)
{
	long nranks = argc == 2 ? strtol(argv[1], NULL, 10) : 0;

	_Static_assert(sizeof(struct shared) <= 4096, "one page behind the buffers");
	if (nranks < 1 || nranks > RANKS_MAX) {
		fprintf(stderr, "usage: limit_coll NRANKS (1 to %d)\n", RANKS_MAX);
		return 2;
	}
	for (size_t i = 0; i < COLL_CASES; i++)
		if (run_case((int)nranks, &coll_cases[i]))
			return 1;
	return 0;
}
