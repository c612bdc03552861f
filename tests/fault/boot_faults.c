/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/boot_faults.c - ranks of a TCP job that die, stop, come late, give up or disagree.
 *
 * The other ranks get a status and a text that names the rank, in time.  Ranks that never come, or
 * must not join, are in boot_door.c.
 *
 * Ranks wait for each other's words in shared memory, for lines of the log or for a state in /proc,
 * never for time to pass.  So a rank may be delayed for seconds without effect on the result.
 */
#include <dirent.h>

#include "boot_job.h"

#define NEVER_NS ((uint64_t)JOB_NEVER_S * ORI_NS_PER_S) /* of collectives that do not wait for it */
/* Of those that do: for a rank that stands still, and for the rendezvous, which gets 2 s on top. */
#define RANK_S 3.0
#define RANK_NS (3 * ORI_NS_PER_S)
#define HUB_S 2.0
#define HUB_NS (2 * ORI_NS_PER_S)

static void watcher(void *ctx, int status, int rank, const char *why)
{
	struct job_rank *r = ctx;

	r->told_status = status;
	r->told_rank = rank;
	snprintf(r->why, sizeof(r->why), "%s", why);
	__atomic_fetch_add(&r->told, 1, __ATOMIC_RELEASE);
}

static int gather_within(struct oriel_boot *boot, size_t bytes, uint64_t ns)
{
	static unsigned char mine[64], all[64 * JOB_RANKS];

	return boot->ops->allgather(boot, mine, all, bytes, ns);
}

static int gather(struct oriel_boot *boot, size_t bytes)
{
	return gather_within(boot, bytes, NEVER_NS);
}

/* Joins, passes one good collective, and watches. */
static struct oriel_boot *enter(struct job *job, int rank)
{
	struct oriel_boot *boot;
	int err = oriel_boot_env(&boot);

	if (err || gather(boot, 8)) {
		check_fail(__FILE__, __LINE__, "rank %d: %s", rank, oriel_last_error());
		_exit(98);
	}
	boot->ops->watch(boot, watcher, &job->ranks[rank]);
	return boot;
}

/*
 * Tells the others that this rank has reached this point.  The rank that will fail waits for all.
 */
static void entered(struct job *job, int rank, int falls)
{
	__atomic_store_n(&job->ranks[rank].entered, 1, __ATOMIC_RELEASE);
	for (int r = 0; r < job->n && rank == falls; r++)
		if (!job_await(&job->ranks[r].entered))
			_exit(96);
}

static void gather_and_note(struct job *job, int rank, struct oriel_boot *boot, size_t bytes)
{
	uint64_t start = ori_now_ns();

	job_note(job, rank, gather(boot, bytes), start);
}

/* ---- death ----------------------------------------------------------------------------------- */

static void rank_2_dies(struct job *job, int rank)
{
	struct oriel_boot *boot = enter(job, rank);

	entered(job, rank, 2);
	if (rank == 2) {
		usleep(20000); /* mostly the others wait by now; it is all the same if not */
		raise(SIGKILL);
	}
	gather_and_note(job, rank, boot, 8);
	/* and every later one at once */
	CHECK_EQ(gather(boot, 8), ORIEL_EPEER);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

TEST(killed_in_allgather)
{
	struct job job;

	if (job_open(&job, 4, JOB_NEVER))
		return;
	job_run(&job, rank_2_dies);
	for (int r = 0; r < 4; r++) {
		if (r == 2)
			continue;
		CHECK_RANK(&job, r, ORIEL_EPEER, "rank 2 died", JOB_SOON_S);
		CHECK_EQ(job.ranks[r].told, 1);
		CHECK_EQ(job.ranks[r].told_status, ORIEL_EPEER);
		CHECK_EQ(job.ranks[r].told_rank, 2);
		CHECK_HAS(job.ranks[r].why, "rank 2 died");
	}
	CHECK_EQ(job.codes[2], 128 + SIGKILL);
	job_close(&job);
}

static void subgroup_member_dies(struct job *job, int rank)
{
	struct oriel_boot *boot = enter(job, rank), *sub;
	int evens[] = { 0, 2 }, odds[] = { 1, 3 };

	boot->ops->watch(boot, NULL, NULL);
	if (boot->ops->subgroup(boot, rank % 2 ? odds : evens, 2, (uint32_t)rank % 2, NEVER_NS,
				&sub))
		_exit(97);
	sub->ops->watch(sub, watcher, &job->ranks[rank]);
	entered(job, rank, 3);
	if (rank == 3)
		raise(SIGKILL);
	/* the death of a stranger does not touch the even group, not even when it is known */
	if (rank % 2 == 0)
		CHECK(job_await(&job->ranks[1].ran));
	gather_and_note(job, rank, sub, 8);
	ori_boot_drop(sub);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

TEST(killed_in_a_subgroup)
{
	struct job job;

	if (job_open(&job, 4, JOB_NEVER))
		return;
	job_run(&job, subgroup_member_dies);
	CHECK_RANK(&job, 1, ORIEL_EPEER, "rank 1 (world rank 3) died", JOB_SOON_S);
	CHECK_EQ(job.ranks[1].told_rank, 1);
	CHECK_RANK(&job, 0, 0, "", JOB_SOON_S);
	CHECK_RANK(&job, 2, 0, "", JOB_SOON_S);
	CHECK_EQ(job.ranks[0].told + job.ranks[2].told, 0);
	job_close(&job);
}

static void hub_dies(struct job *job, int rank)
{
	struct oriel_boot *boot = enter(job, rank);

	entered(job, rank, 0); /* the rendezvous has answered all */
	if (rank == 0) {
		usleep(20000);
		raise(SIGKILL);
	}
	gather_and_note(job, rank, boot, 8);
	CHECK_EQ(gather(boot, 8), ORIEL_EPEER);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

TEST(process_of_the_rendezvous_killed)
{
	struct job job;

	if (job_open(&job, 3, JOB_NEVER))
		return;
	job_run(&job, hub_dies);
	for (int r = 1; r < 3; r++) {
		CHECK_RANK(&job, r, ORIEL_EPEER, "rank 0 (the rendezvous) is gone", JOB_SOON_S);
		CHECK_EQ(job.ranks[r].told, 1);
		CHECK_EQ(job.ranks[r].told_rank, 0);
	}
	job_close(&job);
}

/*
 * Ranks join by id.  The process that made the id is not a rank, and is killed.  At that time rank
 * 0 waits for rank 1 in a collective; rank 1 calls it when that process has ended.
 */
static void join_and_wait(struct job *job, const struct oriel_boot_id *id, int rank)
{
	struct oriel_boot *boot;
	pid_t maker = getpid(), pid = fork();

	if (pid)
		return;
	alarm(80);
	if (oriel_boot_join(id, rank, 2, &boot) || gather(boot, 8))
		_exit(97);
	__atomic_store_n(&job->ranks[rank].entered, 1, __ATOMIC_RELEASE);
	while (rank == 1 && getppid() == maker)
		usleep(1000);
	gather_and_note(job, rank, boot, 8);
	oriel_boot_destroy(boot);
	_exit(0);
}

static int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

static void makes_an_id(struct job *job, int rank)
{
	struct oriel_boot_id id;
	int before;

	(void)rank;
	if (oriel_boot_make_id(&id))
		_exit(97);
	before = open_descriptors();
	join_and_wait(job, &id, 0);
	/* forked while the first is connected: must not keep a copy of that connection open */
	while (open_descriptors() == before)
		usleep(1000);
	join_and_wait(job, &id, 1);
	if (job_await(&job->ranks[0].entered) && job_await(&job->ranks[1].entered))
		raise(SIGKILL);
}

TEST(process_of_an_id_killed)
{
	struct job job;

#ifdef __SANITIZE_THREAD__
	check_skip("ThreadSanitizer does not follow threads of a child of a process with threads");
	return;
#endif
	if (job_open(&job, 2, JOB_NEVER))
		return;
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* the ranks become children of the test */
	job_start(&job, 0, NULL, makes_an_id);
	job_wait(&job, 0);
	CHECK_EQ(job.codes[0], 128 + SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	for (int r = 0; r < 2; r++) {
		CHECK_EQ(job.ranks[r].ran, 1);
		CHECK_EQ(job.ranks[r].status, ORIEL_EPEER);
		CHECK_HAS(job.ranks[r].error, "the rendezvous at 127.0.0.1:");
		CHECK(job.ranks[r].seconds < JOB_SOON_S);
	}
	job_close(&job);
}

/* ---- standstill ------------------------------------------------------------------------------ */

/* All threads of the process: one that still runs may be the rendezvous. */
static int is_stopped(pid_t pid)
{
	char path[64], text[256];
	const struct dirent *e;
	int stopped = 0, running = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		FILE *f;
		size_t n;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.12s/stat", (int)pid, e->d_name);
		f = fopen(path, "re");
		n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
		if (f)
			fclose(f);
		text[n] = '\0';
		if (strstr(text, ") T "))
			stopped++;
		else
			running++;
	}
	if (dir)
		closedir(dir);
	return stopped && !running;
}

static void rank_1_stops(struct job *job, int rank)
{
	struct oriel_boot *boot = enter(job, rank);
	uint64_t start;

	entered(job, rank, rank);
	if (rank == 1)
		raise(SIGSTOP);
	start = ori_now_ns();
	job_note(job, rank, gather_within(boot, 8, RANK_NS), start);
	/* the rendezvous is here: it goes when the other has its answer too */
	CHECK(rank != 0 || job_await(&job->ranks[2].ran));
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

static void hub_stops(struct job *job, int rank)
{
	struct oriel_boot *boot = enter(job, rank);
	uint64_t start;

	entered(job, rank, 0); /* the rendezvous has answered all */
	if (rank == 0)
		raise(SIGSTOP);
	while (!is_stopped(job->pids[0]))
		usleep(1000); /* ended by alarm() */
	start = ori_now_ns();
	job_note(job, rank, gather_within(boot, 8, HUB_NS), start);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

/* Holds the thread that takes messages. */
static void hold_reader(void *ctx, int status, int rank, const char *why)
{
	struct job_rank *r = ctx;

	(void)status;
	(void)rank;
	(void)why;
	__atomic_store_n(&r->told, 1, __ATOMIC_RELEASE);
	job_await(&r->go);
	usleep(200000); /* mostly the rank has tried to send by then; it is all the same if not */
}

/*
 * Rank 1's reader is stopped while rank 2 dies and the rendezvous ends with all others.  When rank
 * 1 cannot send any more, it still learns of rank 2, which is the cause.
 */
static void reader_is_held(struct job *job, int rank)
{
	struct oriel_boot *boot = enter(job, rank), *sub = NULL;
	int odds[] = { 1, 3 }, err;

	boot->ops->watch(boot, NULL, NULL);
	if (rank % 2 && boot->ops->subgroup(boot, odds, 2, 0, NEVER_NS, &sub))
		_exit(97);
	if (rank == 1)
		sub->ops->watch(sub, hold_reader, &job->ranks[1]);
	entered(job, rank, 3);
	if (rank == 3)
		sub->ops->abort(sub, ORIEL_ENOMEM, "enough");
	if (rank == 2 && job_await(&job->ranks[1].told))
		raise(SIGKILL);
	if (rank == 1) {
		CHECK(job_await(&job->ranks[0].ran));
		/* to a connection that is closed, so that the next message fails at once */
		sub->ops->abort(sub, ORIEL_ENOMEM, "enough");
		__atomic_store_n(&job->ranks[1].go, 1, __ATOMIC_RELEASE);
	}
	err = gather(boot, 8);
	if (sub)
		ori_boot_drop(sub);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
	job_note(job, rank, err, ori_now_ns());
}

/* All jobs at once: they only wait. */
TEST(something_stands_still)
{
	struct job rank, hub, reader;

	if (job_open(&rank, 3, JOB_NEVER) || job_open(&hub, 3, JOB_NEVER) ||
	    job_open(&reader, 4, JOB_NEVER))
		return;
	for (int r = 0; r < 4; r++)
		job_start(&reader, r, NULL, reader_is_held);
	close(reader.listen_fd);
	reader.listen_fd = -1;
	for (int r = 0; r < 3; r++) {
		job_start(&rank, r, NULL, rank_1_stops);
		job_start(&hub, r, NULL, hub_stops);
	}
	for (int r = 0; r < 4; r++)
		job_wait(&reader, r);
	CHECK_RANK(&reader, 0, ORIEL_EPEER, "rank 2 died", JOB_SOON_S);
	CHECK_RANK(&reader, 1, ORIEL_EPEER, "rank 2 died", JOB_SOON_S);
	CHECK_RANK(&reader, 3, ORIEL_EPEER, "rank 2 died", JOB_SOON_S);
	job_close(&reader);

	job_wait(&rank, 0);
	job_wait(&rank, 2);
	job_kill(&rank, 1);
	CHECK_RANK(&rank, 0, ORIEL_ETIMEDOUT, "rank 1", RANK_S + JOB_SPARE_S);
	CHECK_RANK(&rank, 2, ORIEL_ETIMEDOUT, "rank 1", RANK_S + JOB_SPARE_S);
	/* the time counts from the first who waits */
	CHECK(rank.ranks[0].seconds > RANK_S - 0.1 || rank.ranks[2].seconds > RANK_S - 0.1);
	job_close(&rank);

	job_wait(&hub, 1);
	job_wait(&hub, 2);
	job_kill(&hub, 0);
	for (int r = 1; r < 3; r++)
		CHECK_RANK(&hub, r, ORIEL_ETIMEDOUT, "rank 0 (the rendezvous)",
			   HUB_S + 2 + JOB_SPARE_S);
	job_close(&hub);
}

/* ---- lateness -------------------------------------------------------------------------------- */

/* Rank 1 is late twice, each time until rank 0 has said so; it has itself no such haste. */
static void late_then_fine(struct job *job, int rank)
{
	struct oriel_boot *boot;

	setenv("ORIEL_LATE", rank == 0 ? "0.1" : JOB_NEVER, 1);
	if (rank == 1)
		job_await_log(job, "rank 0: warning: still waiting to meet rank 1");
	boot = enter(job, rank);
	if (rank == 1)
		job_await_log(job,
			      "rank 0: warning: boot exchange is late: rank 1 did not come within");
	gather_and_note(job, rank, boot, 8);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

TEST(late_ranks_are_named)
{
	struct job job;

	if (job_open(&job, 2, JOB_NEVER) || job_keep_log(&job))
		return;
	job_run(&job, late_then_fine);
	CHECK_RANK(&job, 0, 0, "", JOB_SOON_S);
	CHECK_RANK(&job, 1, 0, "", JOB_SOON_S);
	CHECK(job_log_has(&job, "oriel: rank 0: warning: still waiting to meet rank 1"));
	CHECK(job_log_has(
		&job, "oriel: rank 0: warning: boot exchange is late: rank 1 did not come within"));
	CHECK(!job_log_has(&job, "oriel: rank 1:"));
	job_close(&job);
}

/* ---- disagreement ---------------------------------------------------------------------------- */

static void rank_1_gives_up(struct job *job, int rank)
{
	struct oriel_boot *boot = enter(job, rank);

	entered(job, rank, 1);
	if (rank == 1) {
		usleep(20000);
		boot->ops->abort(boot, ORIEL_ENOMEM, "no memory for the slab");
	}
	gather_and_note(job, rank, boot, 8);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

TEST(returns_an_error)
{
	struct job job;

	if (job_open(&job, 3, JOB_NEVER))
		return;
	job_run(&job, rank_1_gives_up);
	CHECK_RANK(&job, 0, ORIEL_ENOMEM, "rank 1 aborted: no memory for the slab", JOB_SOON_S);
	CHECK_RANK(&job, 2, ORIEL_ENOMEM, "rank 1 aborted: no memory for the slab", JOB_SOON_S);
	CHECK_EQ(job.ranks[0].told, 1);
	CHECK_EQ(job.ranks[1].told, 0);
	CHECK_EQ(job.ranks[2].told_status, ORIEL_ENOMEM);
	job_close(&job);
}

static void different_bytes(struct job *job, int rank)
{
	struct oriel_boot *boot = enter(job, rank);

	gather_and_note(job, rank, boot, rank == 2 ? 24 : 16);
	/* all failed the same call, so the next is in step */
	CHECK_EQ(gather(boot, 8), 0);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

/* The first to come and the first that differs are named, whichever comes first. */
TEST(different_byte_counts)
{
	struct job job;

	if (job_open(&job, 3, JOB_NEVER))
		return;
	job_run(&job, different_bytes);
	for (int r = 0; r < 3; r++) {
		CHECK_RANK(&job, r, ORIEL_EMISMATCH, "gives 16", JOB_SOON_S);
		CHECK_HAS(job.ranks[r].error, "rank 2 gives 24");
	}
	job_close(&job);
}
