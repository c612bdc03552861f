/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/boot_faults.c - ranks of a TCP job that die, stop, never come, give up or disagree:
 * the others get a status, a text that names the rank, and get it in time.
 */
#include "boot_job.h"

#define NS (1 * ORI_NS_PER_S) /* of each collective */

static void watcher(void *ctx, int status, int rank, const char *why)
{
	struct job_rank *r = ctx;

	r->told_status = status;
	r->told_rank = rank;
	snprintf(r->why, sizeof(r->why), "%s", why);
	__atomic_fetch_add(&r->told, 1, __ATOMIC_RELEASE);
}

static int gather(struct oriel_boot *boot, size_t bytes)
{
	static unsigned char mine[64], all[64 * JOB_RANKS];

	return boot->ops->allgather(boot, mine, all, bytes, NS);
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

static void gather_and_note(struct job *job, int rank, struct oriel_boot *boot, size_t bytes)
{
	uint64_t start = ori_now_ns();

	job_note(job, rank, gather(boot, bytes), start);
}

/* ---- death ------------------------------------------------------------------------------------- */

static void rank_2_dies(struct job *job, int rank)
{
	struct oriel_boot *boot = enter(job, rank);

	if (rank == 2) {
		usleep(100000); /* the others wait by now */
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

	if (job_open(&job, 4, "2"))
		return;
	job_run(&job, rank_2_dies);
	for (int r = 0; r < 4; r++) {
		if (r == 2)
			continue;
		CHECK_RANK(&job, r, ORIEL_EPEER, "rank 2 died", 1.0);
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
	if (boot->ops->subgroup(boot, rank % 2 ? odds : evens, 2, (uint32_t)rank % 2, NS, &sub))
		_exit(97);
	sub->ops->watch(sub, watcher, &job->ranks[rank]);
	if (rank == 3) {
		usleep(100000);
		raise(SIGKILL);
	}
	if (rank % 2 == 0)
		usleep(300000); /* the death of a stranger does not touch the even group */
	gather_and_note(job, rank, sub, 8);
	ori_boot_drop(sub);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

TEST(killed_in_a_subgroup)
{
	struct job job;

	if (job_open(&job, 4, "2"))
		return;
	job_run(&job, subgroup_member_dies);
	CHECK_RANK(&job, 1, ORIEL_EPEER, "rank 1 (world rank 3) died", 1.0);
	CHECK_EQ(job.ranks[1].told_rank, 1);
	CHECK_EQ(job.ranks[0].status, 0);
	CHECK_EQ(job.ranks[2].status, 0);
	CHECK_EQ(job.ranks[0].told + job.ranks[2].told, 0);
	job_close(&job);
}

static void hub_dies(struct job *job, int rank)
{
	struct oriel_boot *boot = enter(job, rank);

	if (rank == 0) {
		usleep(100000);
		raise(SIGKILL);
	}
	gather_and_note(job, rank, boot, 8);
	CHECK_EQ(gather(boot, 8), ORIEL_EPEER);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

TEST(process_of_the_rendezvous_killed)
{
	struct job job;

	if (job_open(&job, 3, "2"))
		return;
	job_run(&job, hub_dies);
	for (int r = 1; r < 3; r++) {
		CHECK_RANK(&job, r, ORIEL_EPEER, "rank 0 (the rendezvous) is gone", 1.0);
		CHECK_EQ(job.ranks[r].told, 1);
		CHECK_EQ(job.ranks[r].told_rank, 0);
	}
	job_close(&job);
}

/* Joins by id; the maker of the id is no rank, and is killed. */
static void join_and_wait(struct job *job, const struct oriel_boot_id *id, int rank)
{
	struct oriel_boot *boot;
	pid_t pid = fork();

	if (pid)
		return;
	alarm(20);
	if (oriel_boot_join(id, rank, 2, &boot) || gather(boot, 8))
		_exit(97);
	__atomic_store_n(&job->ranks[rank].told, 1, __ATOMIC_RELEASE);
	usleep(300000);
	gather_and_note(job, rank, boot, 8);
	oriel_boot_destroy(boot);
	_exit(0);
}

static void makes_an_id(struct job *job, int rank)
{
	struct oriel_boot_id id;

	(void)rank;
	if (oriel_boot_id(&id))
		_exit(97);
	join_and_wait(job, &id, 0);
	/* forked while the first is connected: must not keep a copy of that connection open */
	usleep(100000);
	join_and_wait(job, &id, 1);
	while (!__atomic_load_n(&job->ranks[0].told, __ATOMIC_ACQUIRE) ||
	       !__atomic_load_n(&job->ranks[1].told, __ATOMIC_ACQUIRE))
		usleep(1000);
	raise(SIGKILL);
}

TEST(process_of_an_id_killed)
{
	struct job job;

#ifdef __SANITIZE_THREAD__
	check_skip("ThreadSanitizer does not follow threads of a child of a process with threads");
	return;
#endif
	if (job_open(&job, 2, "2"))
		return;
	job_start(&job, 0, NULL, makes_an_id);
	job_wait(&job, 0, 5);
	CHECK_EQ(job.codes[0], 128 + SIGKILL);
	for (int i = 0; i < 200 && !(job.ranks[0].ran && job.ranks[1].ran); i++)
		usleep(10000);
	for (int r = 0; r < 2; r++) {
		CHECK_EQ(job.ranks[r].status, ORIEL_EPEER);
		CHECK_HAS(job.ranks[r].error, "the rendezvous at 127.0.0.1:");
		CHECK(job.ranks[r].seconds < 0.5);
	}
	job_close(&job);
}

/* ---- standstill -------------------------------------------------------------------------------- */

static void rank_1_stops(struct job *job, int rank)
{
	struct oriel_boot *boot = enter(job, rank);

	if (rank == 1)
		raise(SIGSTOP);
	gather_and_note(job, rank, boot, 8);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

TEST(stopped_in_allgather)
{
	struct job job;

	if (job_open(&job, 3, "1"))
		return;
	for (int r = 0; r < 3; r++)
		job_start(&job, r, NULL, rank_1_stops);
	job_wait(&job, 0, 6);
	job_wait(&job, 2, 6);
	kill(job.pids[1], SIGKILL);
	job_wait(&job, 1, 1);
	CHECK_RANK(&job, 0, ORIEL_ETIMEDOUT, "rank 1", 1.7);
	CHECK_RANK(&job, 2, ORIEL_ETIMEDOUT, "rank 1", 1.7);
	CHECK(job.ranks[0].seconds > 0.9);
	job_close(&job);
}

static void hub_stops(struct job *job, int rank)
{
	struct oriel_boot *boot = enter(job, rank);

	/* The rendezvous lives in rank 0: it must have answered all before it stops. */
	__atomic_store_n(&job->ranks[rank].entered, 1, __ATOMIC_RELEASE);
	for (int r = 0; rank == 0 && r < job->n; r++)
		for (int i = 0;
		     i < 5000 && !__atomic_load_n(&job->ranks[r].entered, __ATOMIC_ACQUIRE); i++)
			usleep(1000);
	if (rank == 0)
		raise(SIGSTOP);
	usleep(50000);
	gather_and_note(job, rank, boot, 8);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

TEST(process_of_the_rendezvous_stopped)
{
	struct job job;

	if (job_open(&job, 3, "1"))
		return;
	for (int r = 0; r < 3; r++)
		job_start(&job, r, NULL, hub_stops);
	job_wait(&job, 1, 8);
	job_wait(&job, 2, 8);
	kill(job.pids[0], SIGKILL);
	job_wait(&job, 0, 1);
	CHECK_RANK(&job, 1, ORIEL_ETIMEDOUT, "rank 0 (the rendezvous)", 3.7);
	CHECK_RANK(&job, 2, ORIEL_ETIMEDOUT, "rank 0 (the rendezvous)", 3.7);
	job_close(&job);
}

static void only_join(struct job *job, int rank)
{
	uint64_t start = ori_now_ns();
	struct oriel_boot *boot = NULL;

	job_note(job, rank, oriel_boot_env(&boot), start);
	oriel_boot_destroy(boot);
}

TEST(never_arrives)
{
	struct job job;

	if (job_open(&job, 3, "1"))
		return;
	job_start(&job, 0, NULL, only_join);
	job_start(&job, 2, NULL, only_join);
	job_wait(&job, 0, 6);
	job_wait(&job, 2, 6);
	CHECK_RANK(&job, 0, ORIEL_ETIMEDOUT, "rank 1 never came", 1.7);
	CHECK_RANK(&job, 2, ORIEL_ETIMEDOUT, "rank 1 never came", 1.7);
	job_close(&job);
}

TEST(rendezvous_never_arrives)
{
	struct job job;

	if (job_open(&job, 2, "1"))
		return;
	close(job.listen_fd);
	job_start(&job, 1, NULL, only_join);
	job_wait(&job, 1, 6);
	CHECK_RANK(&job, 1, ORIEL_ETIMEDOUT, "no answer from 127.0.0.1:", 1.7);
	job_close(&job);
}

/* Its stderr goes to a file that the test reads. */
static void late_then_fine(struct job *job, int rank)
{
	struct oriel_boot *boot;
	FILE *log = tmpfile();
	ssize_t n;

	setenv("ORIEL_LATE", "0.2", 1);
	dup2(fileno(log), STDERR_FILENO);
	if (rank == 1)
		usleep(500000);
	boot = enter(job, rank);
	if (rank == 1)
		usleep(500000);
	gather_and_note(job, rank, boot, 8);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
	n = pread(fileno(log), job->ranks[rank].log, sizeof(job->ranks[rank].log) - 1, 0);
	job->ranks[rank].log[n < 0 ? 0 : n] = '\0';
}

TEST(late_ranks_are_named)
{
	struct job job;

	if (job_open(&job, 2, "3"))
		return;
	job_run(&job, late_then_fine);
	CHECK_RANK(&job, 0, 0, "", 1.0);
	CHECK_HAS(job.ranks[0].log, "oriel: rank 0: warning: still waiting to meet rank 1");
	CHECK_HAS(job.ranks[0].log, "oriel: rank 0: warning: allgather is late: no contribution");
	CHECK_EQ(job.ranks[1].status, 0);
	CHECK_EQ(strlen(job.ranks[1].log), 0);
	job_close(&job);
}

/* ---- disagreement ------------------------------------------------------------------------------ */

static void rank_1_gives_up(struct job *job, int rank)
{
	struct oriel_boot *boot = enter(job, rank);

	if (rank == 1) {
		usleep(100000);
		boot->ops->abort(boot, ORIEL_ENOMEM, "no memory for the slab");
	}
	gather_and_note(job, rank, boot, 8);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

TEST(returns_an_error)
{
	struct job job;

	if (job_open(&job, 3, "2"))
		return;
	job_run(&job, rank_1_gives_up);
	CHECK_RANK(&job, 0, ORIEL_ENOMEM, "rank 1 aborted: no memory for the slab", 1.0);
	CHECK_RANK(&job, 2, ORIEL_ENOMEM, "rank 1 aborted: no memory for the slab", 1.0);
	CHECK_EQ(job.ranks[0].told, 1);
	CHECK_EQ(job.ranks[1].told, 0);
	CHECK_EQ(job.ranks[2].told_status, ORIEL_ENOMEM);
	job_close(&job);
}

static void different_bytes(struct job *job, int rank)
{
	struct oriel_boot *boot = enter(job, rank);

	usleep(rank == 2 ? 100000 : 0);
	gather_and_note(job, rank, boot, rank == 2 ? 24 : 16);
	/* all failed the same call, so the next is in step */
	CHECK_EQ(gather(boot, 8), 0);
	CHECK_EQ(oriel_boot_destroy(boot), 0);
}

TEST(different_byte_counts)
{
	struct job job;

	if (job_open(&job, 3, "2"))
		return;
	job_run(&job, different_bytes);
	for (int r = 0; r < 3; r++) {
		CHECK_RANK(&job, r, ORIEL_EMISMATCH, "gives 16 bytes", 1.0);
		CHECK_HAS(job.ranks[r].error, "rank 2 gives 24");
	}
	job_close(&job);
}

TEST(wrong_secret)
{
	struct job job;

	if (job_open(&job, 2, "1"))
		return;
	job_start(&job, 0, "the right one", only_join);
	job_start(&job, 1, "the wrong one", only_join);
	job_wait(&job, 0, 6);
	job_wait(&job, 1, 6);
	CHECK_RANK(&job, 1, ORIEL_EAUTH, "secret", 1.0);
	CHECK_RANK(&job, 0, ORIEL_ETIMEDOUT, "rank 1 never came", 1.7);
	job_close(&job);
}

static void wrong_count(struct job *job, int rank)
{
	if (rank == 1)
		setenv("WORLD_SIZE", "3", 1);
	usleep(rank * 200000);
	only_join(job, rank);
}

TEST(different_rank_counts)
{
	struct job job;

	if (job_open(&job, 2, "1"))
		return;
	job_run(&job, wrong_count);
	CHECK_RANK(&job, 1, ORIEL_EMISMATCH, "rank 1 says there are 3 ranks, others say 2", 1.0);
	CHECK_RANK(&job, 0, ORIEL_ETIMEDOUT, "rank 1 never came", 1.7);
	job_close(&job);
}

static void both_are_1(struct job *job, int rank)
{
	if (rank == 2)
		setenv("RANK", "1", 1);
	usleep(rank * 150000);
	only_join(job, rank);
}

TEST(a_rank_twice)
{
	struct job job;

	if (job_open(&job, 3, "1"))
		return;
	job_run(&job, both_are_1);
	CHECK_RANK(&job, 2, ORIEL_EINVAL, "rank 1 is already there", 1.0);
	CHECK_RANK(&job, 0, ORIEL_ETIMEDOUT, "rank 2 never came", 1.7);
	CHECK_RANK(&job, 1, ORIEL_ETIMEDOUT, "rank 2 never came", 1.7);
	job_close(&job);
}
