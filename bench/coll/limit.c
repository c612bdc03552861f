/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/coll/limit.c - measures the least time in which two cores can move the bytes of a
 * collective.
 *
 * Two pinned processes copy with memcpy from the send buffers of all ranks to the receive buffers
 * of all ranks.  A send buffer is private memory of the process that plays the rank; the receive
 * buffers are a memfd that all map.  This is the footprint of the collective, but no rank ever
 * waits for another.  An all-gather can also copy from the rank's own place, once its data is
 * there, as a whole or piece by piece.  The limit is the time of the best way.  The time of a way
 * is the median of several fresh memories (one for more than 1 MiB): which pages a process gets
 * can double the time of a copy.
 *
 * If there are more ranks than cores, a second limit has one process per rank for small blocks, so
 * it also switches processes.  Each copies the data of its rank, and then waits until all have.  As
 * in a collective, nobody writes to a rank that may still read the last result: a rank says when it
 * enters a call, and the others copy to it then.  A third limit leaves that out, and is less than a
 * collective.  Nothing of Oriel is used.
 * Usage: limit_coll NRANKS
 * Prints lines "limit_gather8_64k value us", with "switch_" and "unguarded_" for the others.  The
 * value is that of the slowest process.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll.h"

#define RANKS_MAX 64
#define SWITCH_BYTES (64u << 10) /* for larger blocks switches weigh little */
#define POLLS 64                 /* before a process lets another one run */
#define MEMORIES 3               /* in which a way is measured; the last is still there */
#define PIECE_BYTES (128u << 10) /* that a cache keeps until all ranks have it */

/* How the data of an all-gather goes: from the send buffer, or from the own place. */
enum way { FROM_SEND, FROM_OWN, FROM_OWN_IN_PIECES, WAYS };

/* A process's own line: calls that it has entered, and those whose data it has copied. */
struct mark {
	_Alignas(128) uint64_t entered;
	uint64_t calls;
};

/* arrived: by all, before a timed loop.  us, wrong: by process i in its own place. */
struct shared {
	struct mark mark[RANKS_MAX];
	uint64_t arrived;
	double us[RANKS_MAX][BENCH_BLOCKS];
	uint64_t wrong[RANKS_MAX];
};

struct job {
	struct shared *s;
	uint8_t *recv; /* rank r's at r * coll_recv_bytes */
	uint8_t *send[RANKS_MAX];
	int nranks;
	int processes; /* 2, or one per rank, which then wait for each other in each call */
	int guarded;   /* one per rank: copies wait for the rank that receives */
	enum way way;
};

static int switches(const struct job *job)
{
	return job->processes > BENCH_CORES;
}

/* The partner may be dead: no wait is endless. */
static void wait_for(const struct job *job, const uint64_t *word, uint64_t value)
{
	double end = 0;

	for (uint64_t polls = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) < value; polls++) {
		if (switches(job) && polls > POLLS)
			(void)sched_yield();
		if (polls % 65536)
			continue;
		if (end == 0)
			end = bench_now() + BENCH_DEADLINE_S;
		else if (bench_now() > end)
			_exit(1);
	}
}

static void meet(const struct job *job, uint64_t round)
{
	__atomic_fetch_add(&job->s->arrived, 1, __ATOMIC_ACQ_REL);
	wait_for(job, &job->s->arrived, (uint64_t)job->processes * round);
}

/* After a call: the data of all ranks has come. */
static void meet_call(const struct job *job, int me)
{
	struct mark *marks = job->s->mark;
	uint64_t calls = marks[me].calls + 1;

	__atomic_store_n(&marks[me].calls, calls, __ATOMIC_RELEASE);
	for (int i = 1; i < job->processes; i++)
		wait_for(job, &marks[(me + i) % job->processes].calls, calls);
}

/* Where rank `to` has the data of rank r. */
static uint8_t *place(const struct job *job, const struct coll_case *c, int to, int r)
{
	return job->recv + (size_t)to * coll_recv_bytes(c, job->nranks) + (size_t)r * c->bytes;
}

static void copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
	memcpy(to, from, bytes);
	__asm__ volatile("" ::"r"(to) : "memory"); /* each copy is made */
}

/* Bytes from `at` on of what rank r sends to rank `to`. */
static void copy_part(const struct job *job, const struct coll_case *c, int r, int to, size_t at,
		      size_t bytes)
{
	size_t step = c->op == COLL_GATHER ? 0 : c->bytes;
	const uint8_t *from = job->send[r] + (size_t)to * step;

	if (job->way != FROM_SEND && to != r)
		from = place(job, c, r, r);
	copy(place(job, c, to, r) + at, from + at, bytes);
}

static void copy_block(const struct job *job, const struct coll_case *c, int r, int to)
{
	copy_part(job, c, r, to, 0, c->bytes);
}

/*
 * What rank r sends.  From the send buffer it goes to the next rank first, as Oriel's ranks do; the
 * own place comes first if the others get a copy of that.
 */
static void copy_rank(const struct job *job, const struct coll_case *c, int r)
{
	size_t piece = job->way == FROM_OWN_IN_PIECES ? PIECE_BYTES : c->bytes, n;
	int first = job->way == FROM_SEND;

	for (size_t at = 0; at < c->bytes; at += n) {
		n = c->bytes - at < piece ? c->bytes - at : piece;
		for (int i = first; i < job->nranks + first; i++)
			copy_part(job, c, r, (r + i) % job->nranks, at, n);
	}
}

/* The same in whole blocks, to each rank as soon as it is in the call. */
static void copy_guarded(const struct job *job, const struct coll_case *c, int r)
{
	struct mark *marks = job->s->mark;
	uint64_t call = marks[r].entered + 1, copied = 0, all = ~0ull >> (64 - job->nranks);
	uint64_t polls = 0;
	double end = bench_now() + BENCH_DEADLINE_S;

	__atomic_store_n(&marks[r].entered, call, __ATOMIC_RELEASE);
	if (job->way != FROM_SEND) { /* nobody else reads or writes there */
		copy_block(job, c, r, r);
		copied = 1ull << r;
	}
	while (copied != all) {
		for (int i = 1; i <= job->nranks; i++) {
			int to = (r + i) % job->nranks;

			if (copied >> to & 1 ||
			    __atomic_load_n(&marks[to].entered, __ATOMIC_ACQUIRE) < call)
				continue;
			copy_block(job, c, r, to);
			copied |= 1ull << to;
		}
		if (copied == all)
			break;
		if (++polls > POLLS / 8)
			(void)sched_yield();
		if (polls % 65536 == 0 && bench_now() > end)
			_exit(1);
	}
}

static void copy_mine(const struct job *job, const struct coll_case *c, int me)
{
	if (job->guarded) {
		copy_guarded(job, c, me);
	} else {
		for (int r = me; r < job->nranks; r += job->processes)
			copy_rank(job, c, r);
	}
	if (switches(job))
		meet_call(job, me);
}

static int make_sends(struct job *job, const struct coll_case *c, int me)
{
	size_t bytes = coll_send_bytes(c, job->nranks);

	for (int r = me; r < job->nranks; r += job->processes) {
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

		meet(job, (uint64_t)(b + 2));
		start = bench_now();
		for (int i = 0; i < n; i++)
			copy_mine(job, c, me);
		if (b >= 0)
			job->s->us[me][b] = (bench_now() - start) * 1e6 / n;
	}
	meet(job, BENCH_BLOCKS + 2);
	for (int r = me; r < job->nranks; r += job->processes)
		job->s->wrong[me] +=
			coll_wrong(job->recv + (size_t)r * coll_recv_bytes(c, job->nranks), c, r,
				   job->nranks);
	for (int r = me; r < job->nranks; r += job->processes)
		munmap(job->send[r], coll_send_bytes(c, job->nranks));
	return 0;
}

/* This process is the first one; the others are its children. */
static int run_processes(struct job *job, const struct coll_case *c)
{
	int failed = 0, status, started = 1;

	for (; started < job->processes && !failed; started++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(part(job, c, started) < 0);
		failed = pid < 0;
	}
	/* without all of them, those that run give up at their deadline */
	failed |= !failed && part(job, c, 0);
	for (int i = 1; i < started; i++)
		failed |= wait(&status) > 0 && status;
	if (failed)
		fprintf(stderr, "limit_coll: a process failed\n");
	return failed ? -1 : 0;
}

/* Of a case. */
struct result {
	void *memory[MEMORIES * WAYS]; /* kept, so that no way gets the pages of another */
	int memories;
	double us[MEMORIES]; /* of one way */
	int n;
	uint64_t wrong; /* of all ways */
};

static void add_result(struct result *all, const struct job *job)
{
	const struct shared *s = job->s;
	double us[BENCH_BLOCKS] = { 0 };

	for (int p = 0; p < job->processes; p++) {
		all->wrong += s->wrong[p];
		for (int b = 0; b < BENCH_BLOCKS; b++)
			us[b] = s->us[p][b] > us[b] ? s->us[p][b] : us[b];
	}
	all->us[all->n++] = bench_median(us, BENCH_BLOCKS);
}

static size_t memory_bytes(const struct coll_case *c, int nranks)
{
	return coll_recv_bytes(c, nranks) * (size_t)nranks + sizeof(struct shared);
}

/* In fresh memory.  The caller sets all of the job but its memory. */
static int run_way(struct job job, const struct coll_case *c, struct result *all)
{
	size_t bytes = memory_bytes(c, job.nranks);
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
	all->memory[all->memories++] = base;
	job.recv = base;
	job.s = (struct shared *)(void *)(base + bytes - sizeof(struct shared));
	err = run_processes(&job, c);
	if (!err)
		add_result(all, &job);
	return err;
}

/* The best way of an all-gather; an all-to-all-v has one. */
static int run_case(const char *name, struct job job, const struct coll_case *c)
{
	int memories = c->bytes > 1u << 20 ? 1 : MEMORIES, err = 0; /* more would take long */
	int ways = c->op != COLL_GATHER ? 1 : job.guarded || c->bytes <= PIECE_BYTES ? 2 : WAYS;
	struct result all = { .memories = 0 };
	double us, best = 0;

	for (int w = 0; w < ways && !err; w++) {
		job.way = (enum way)w;
		all.n = 0;
		for (int i = 0; i < memories && !err; i++)
			err = run_way(job, c, &all);
		if (memories == 1 && all.memories) /* of up to 1 GiB: not kept */
			munmap(all.memory[--all.memories], memory_bytes(c, job.nranks));
		us = err ? 0 : bench_median(all.us, all.n);
		best = !w || us < best ? us : best;
	}
	for (int i = 0; i < all.memories; i++)
		munmap(all.memory[i], memory_bytes(c, job.nranks));
	return err ? err : coll_print(name, c, job.nranks, best, all.wrong);
}

/* The limit without waits. */
static int run_limit(int nranks, const struct coll_case *c)
{
	struct job job = { .nranks = nranks, .processes = BENCH_CORES };

	return run_case("limit", job, c);
}

/* Those with a process per rank. */
static int run_switching(int nranks, const struct coll_case *c, int guarded)
{
	struct job job = { .nranks = nranks, .processes = nranks, .guarded = guarded };

	return run_case(guarded ? "switch" : "unguarded", job, c);
}

int main(int argc, char **argv)
{
	long nranks = argc == 2 ? strtol(argv[1], NULL, 10) : 0;

	if (nranks < 1 || nranks > RANKS_MAX) {
		fprintf(stderr, "usage: limit_coll NRANKS (1 to %d)\n", RANKS_MAX);
		return 2;
	}
	for (size_t i = 0; i < COLL_CASES; i++)
		if (run_limit((int)nranks, &coll_cases[i]))
			return 1;
	for (size_t i = 0; i < 2 * COLL_CASES && nranks > BENCH_CORES; i++)
		if (coll_cases[i / 2].bytes <= SWITCH_BYTES &&
		    run_switching((int)nranks, &coll_cases[i / 2], (int)i % 2))
			return 1;
	return 0;
}
