/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/limits.c - ranks whose process has low limits: file size, address space, descriptors.
 *
 * A rank works within the limit, or every rank gets a status and a text that names the limit.  No
 * signal may end a rank.  Ranks are processes, because a limit applies to a process.
 */
#include <sys/resource.h>

#include "../ranks.h"
#include "boot_job.h"

#define MIB (1ull << 20)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static int limit(int resource, uint64_t most)
{
	struct rlimit l;

	if (getrlimit(resource, &l))
		return -1;
	l.rlim_cur = most;
	return setrlimit(resource, &l);
}

/* A window that works: each rank's word arrives at the next one. */
static void use_a_window(struct rank_env *env, struct oriel_comm *comm)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int next = (env->rank + 1) % env->nranks;
	int before = (env->rank + env->nranks - 1) % env->nranks;
	struct oriel_source src;
	struct oriel_window *w;
	uint64_t *words;

	o.bytes = 4096;
	REQUIRE_OK(oriel_window_create(comm, &o, &w));
	words = oriel_window_buffer(w);
	words[8] = 100 + (uint64_t)env->rank;
	REQUIRE_OK(oriel_window_source(w, words, 4096, &src));
	REQUIRE_OK(oriel_window_put_signal(w, next, 0, &src, 64, 8, 0, ORIEL_ADD, 1, NULL));
	REQUIRE_OK(oriel_window_wait_signal(w, before, 0, ORIEL_GE, 1, NULL));
	CHECK_EQ(words[0], 100 + before);
	REQUIRE_OK(oriel_window_barrier(w, 0, NULL));
	REQUIRE_OK(oriel_window_destroy(w));
}

/* ---- file sizes: memory for peers is a file -------------------------------------------------- */

static void small_files(struct rank_env *env)
{
	struct oriel_comm_options o = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_comm *comm;
	void *memory = NULL;

	REQUIRE(!limit(RLIMIT_FSIZE, 64 * MIB));
	o.topology = env->arg;
	REQUIRE_OK(oriel_comm_create(env->boot, &o, &comm));
	use_a_window(env, comm);
	CHECK_EQ(oriel_alloc(comm, 128 * MIB, &memory), ORIEL_ENOMEM);
	CHECK_HAS(oriel_last_error(), "ulimit -f");
	REQUIRE_OK(oriel_alloc(comm, 32 * MIB, &memory));
	REQUIRE_OK(oriel_free(comm, memory));
	REQUIRE_OK(oriel_comm_destroy(comm));
}

TEST(small_files_are_used)
{
	struct ranks_options o = { .nranks = 3, .processes = 1, .no_comm = 1 };

	ranks_run(&o, small_files, NULL);
	ranks_run(&o, small_files, "3x1");
}

/* Staging slots need more control memory than a small file has. */
static void full_small_file(struct rank_env *env)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *w = NULL;
	struct oriel_comm *comm;

	REQUIRE(!limit(RLIMIT_FSIZE, 2 * MIB));
	REQUIRE_OK(oriel_comm_create(env->boot, NULL, &comm));
	o.bytes = 64;
	o.staging_slot_bytes = MIB;
	CHECK_EQ(oriel_window_create(comm, &o, &w), ORIEL_ENOMEM);
	CHECK_HAS(oriel_last_error(), "ulimit -f");
	use_a_window(env, comm);
	REQUIRE_OK(oriel_comm_destroy(comm));
}

TEST(a_full_slab_names_the_limit)
{
	struct ranks_options o = { .nranks = 2, .processes = 1, .no_comm = 1 };

	ranks_run(&o, full_small_file, NULL);
}

static void no_files(struct rank_env *env)
{
	struct oriel_comm *comm = NULL;
	struct rlimit before;

	REQUIRE(!getrlimit(RLIMIT_FSIZE, &before));
	if (env->rank == 1)
		REQUIRE(!limit(RLIMIT_FSIZE, 4096));
	CHECK_EQ(oriel_comm_create(env->boot, NULL, &comm), ORIEL_ENOMEM);
	CHECK_HAS(oriel_last_error(), "ulimit -f");
	if (env->rank != 1)
		CHECK_HAS(oriel_last_error(), "rank 1");
	/* a process may write files at its end, such as counts of executed lines */
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST(files_too_small_are_refused_by_all)
{
	struct ranks_options o = { .nranks = 3, .processes = 1, .no_comm = 1 };

	ranks_run(&o, no_files, NULL);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static uint64_t mapped_bytes(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%lu", &pages) != 1)
		check_fail(__FILE__, __LINE__, "no /proc/self/statm");
	if (f)
		fclose(f);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void few_addresses(struct rank_env *env)
{
	struct oriel_comm *comm;
	void *memory = NULL;

	REQUIRE(!limit(RLIMIT_AS, mapped_bytes() + 768 * MIB));
	REQUIRE_OK(oriel_comm_create(env->boot, NULL, &comm));
	use_a_window(env, comm);
	CHECK_EQ(oriel_alloc(comm, 2048 * MIB, &memory), ORIEL_ENOMEM);
	CHECK_HAS(oriel_last_error(), "ulimit -v");
	REQUIRE_OK(oriel_comm_destroy(comm));
}

TEST(few_addresses_are_used)
{
	struct ranks_options o = { .nranks = 3, .processes = 1, .no_comm = 1 };

	if (SANITIZED) {
		check_skip("a sanitizer maps terabytes");
		return;
	}
	ranks_run(&o, few_addresses, NULL);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

#define SPARE_MOST 24
#define ENOUGH 20 /* of two ranks: what they open at one time, and a few */

static int spare; /* set before the fork: descriptors that a rank may open */

static void few_descriptors(struct job *job, int rank)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	uint64_t start = ori_now_ns();
	struct oriel_window *window;
	struct oriel_boot *boot;
	struct oriel_comm *comm;
	int lowest = STDERR_FILENO + 1, err;

	/* What the test has open does not count. */
	if (rank == 0) {
		REQUIRE(dup2(job->listen_fd, lowest) == lowest);
		job_setenv("ORIEL_LISTEN_FD", lowest++);
	}
	closefrom(lowest);
	REQUIRE(!limit(RLIMIT_NOFILE, (uint64_t)lowest + (uint64_t)spare));
	err = oriel_boot_env(&boot);
	if (!err) {
		job->ranks[rank].entered = 1;
		err = oriel_comm_create(boot, NULL, &comm);
	}
	o.bytes = 4096;
	if (!err)
		err = oriel_window_create(comm, &o, &window);
	job_note(job, rank, err, start);
	if (err)
		return;
	CHECK_EQ(oriel_window_barrier(window, 0, NULL), 0);
	CHECK_EQ(oriel_window_destroy(window), 0);
	CHECK_EQ(oriel_comm_destroy(comm), 0);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

/*
 * Ranks that met tell all others.  A rank that could not meet, or waits for memory that is not
 * shared, finds the reason in the log of the rank that has no descriptors left.
 */
static void check_descriptors(struct job *job)
{
	for (int r = 0; r < job->n; r++) {
		CHECK_EQ(job->ranks[r].ran, 1);
		CHECK_EQ(!job->ranks[r].status, !job->ranks[0].status);
		if (job->ranks[r].status == ORIEL_ESYSTEM && job->ranks[r].entered)
			CHECK_HAS(job->ranks[r].error, "ulimit -n");
		if (job->ranks[r].status)
			CHECK(job_log_has(job, "ulimit -n"));
		else
			CHECK_EQ(job->codes[r], 0);
	}
}

TEST(few_descriptors_are_named)
{
	static struct job jobs[SPARE_MOST + 1];

	for (spare = 0; spare <= SPARE_MOST; spare++) {
		struct job *job = &jobs[spare];

		REQUIRE(!job_open(job, 2, "4") && !job_keep_log(job));
		for (int r = 0; r < job->n; r++)
			job_start(job, r, NULL, few_descriptors);
		close(job->listen_fd);
		job->listen_fd = -1;
	}
	for (int i = 0; i <= SPARE_MOST; i++) {
		int before = check_failures;

		for (int r = 0; r < jobs[i].n; r++)
			job_wait(&jobs[i], r);
		check_descriptors(&jobs[i]);
		if (i >= ENOUGH)
			CHECK_EQ(jobs[i].ranks[0].status, 0);
		if (check_failures != before)
			fprintf(stderr, "with %d descriptors\n", i);
		job_close(&jobs[i]);
	}
}
