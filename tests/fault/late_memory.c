/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/late_memory.c - a rank stops between the rounds of oriel_window_create or
 * oriel_comm_create, when others are about to map its memory.
 *
 * The others return by the deadline of the call and name only that rank.  If the rank dies, they
 * learn it at once.
 *
 * The test holds ranks back through the function table of their boot, which shows between which
 * rounds each rank is.
 */
#include <oriel/oriel.h>

#include "boot_job.h"
#include "comm/comm.h"

#define RANKS 4
#define VICTIM 2 /* stands still */
#define STUCK 0  /* waits for its memory, and holds the rendezvous */
#define DONE 1   /* has its memory, and waits for STUCK and VICTIM in the second round */
#define LAST 3   /* waits for its memory too, or dies meanwhile */
#define TIMEOUT_S 12.0
#define TIMEOUT_TEXT "12"

enum call { WINDOW_CREATE, COMM_CREATE };

/* Set before the fork; `where` is shared. */
static enum call call;
static int with_death, stuck_comes_late;
static struct where {
	int victim_pid; /* has stopped, or is about to */
	int rounds[RANKS];
} * where;

static struct ori_boot_backend held_ops;
static const struct ori_boot_backend *real_ops;
static int me, armed;

static void await(const int *word, int value)
{
	uint64_t until = ori_deadline_ns((uint64_t)(JOB_NEVER_S * 1e9));

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value && ori_now_ns() < until)
		usleep(1000);
}

/* Until the victim's process stands still as a whole. */
static void await_stopped(void)
{
	char path[64], line[512] = "";
	uint64_t until = ori_deadline_ns((uint64_t)(JOB_NEVER_S * 1e9));

	await(&where->victim_pid, 1);
	snprintf(path, sizeof(path), "/proc/%d/stat", where->victim_pid);
	while (ori_now_ns() < until) {
		FILE *f = fopen(path, "r");

		if (!f || !fgets(line, sizeof(line), f))
			line[0] = '\0';
		if (f)
			fclose(f);
		if (strstr(line, ") T "))
			return;
		usleep(1000);
	}
}

/* After the first round.  DONE continues; the victim fails once DONE has what it needs from it. */
static void between_rounds(void)
{
	if (me == VICTIM) {
		await(&where->rounds[DONE], 2);
		__atomic_store_n(&where->victim_pid, getpid(), __ATOMIC_RELEASE);
		kill(getpid(), SIGSTOP);
	}
	if (me == STUCK || me == LAST)
		await_stopped();
	if (me == LAST && with_death) {
		sleep(1);
		kill(getpid(), SIGKILL);
	}
}

static int held_allgather(struct oriel_boot *boot, const void *mine, void *all, size_t bytes,
			  uint64_t timeout_ns)
{
	int round = armed ? __atomic_add_fetch(&where->rounds[me], 1, __ATOMIC_ACQ_REL) : 0;
	int err = real_ops->allgather(boot, mine, all, bytes, timeout_ns);

	if (!err && round == 1)
		between_rounds();
	return err;
}

static void hold(struct oriel_boot *boot)
{
	real_ops = boot->ops;
	held_ops = *boot->ops;
	held_ops.allgather = held_allgather;
	boot->ops = &held_ops;
}

/* oriel_comm_create makes its own group first: that one is held. */
static const struct ori_boot_backend *outer_ops;

static int held_subgroup(struct oriel_boot *boot, const int *members, int n, uint32_t tag,
			 uint64_t timeout_ns, struct oriel_boot **sub)
{
	int err = outer_ops->subgroup(boot, members, n, tag, timeout_ns, sub);

	if (!err)
		hold(*sub);
	return err;
}

static int create_window(struct oriel_boot *boot, uint64_t *start)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	struct oriel_window *window;
	struct oriel_comm *comm;
	int err = oriel_comm_create(boot, NULL, &comm);

	if (err)
		return err;
	hold(comm->boot);
	armed = 1;
	o.bytes = 1 << 16;
	if (me == STUCK && stuck_comes_late)
		sleep((unsigned)(TIMEOUT_S * 0.6));
	*start = ori_now_ns();
	err = oriel_window_create(comm, &o, &window);
	return err;
}

static int create_comm(struct oriel_boot *boot, uint64_t *start)
{
	static struct ori_boot_backend ops;
	struct oriel_comm *comm;

	outer_ops = boot->ops;
	ops = *boot->ops;
	ops.subgroup = held_subgroup;
	boot->ops = &ops;
	armed = 1;
	*start = ori_now_ns();
	return oriel_comm_create(boot, NULL, &comm);
}

static void run_rank(struct job *job, int rank)
{
	struct oriel_boot *boot;
	uint64_t start = ori_now_ns();
	int err;

	me = rank;
	setenv("ORIEL_LATE", "1", 1);
	err = oriel_boot_env(&boot);
	if (!err)
		err = call == WINDOW_CREATE ? create_window(boot, &start) :
					      create_comm(boot, &start);
	job_note(job, rank, err, start);
	/* who is gone first may be taken for a cause */
	for (int r = 0; r < RANKS; r++)
		if (r != VICTIM && !(r == LAST && with_death))
			(void)job_await(&job->ranks[r].ran);
	_exit(0);
}

/* ---- the jobs -------------------------------------------------------------------------------- */

struct trial {
	struct job job;
	const char *name;
};

static void trial_start(struct trial *t, const char *name, const char *timeout)
{
	t->name = name;
	if (job_open(&t->job, RANKS, timeout) || job_keep_log(&t->job))
		_exit(1);
	where = mmap(NULL, sizeof(*where), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	REQUIRE(where != MAP_FAILED);
	for (int r = 0; r < RANKS; r++)
		job_start(&t->job, r, NULL, run_rank);
	close(t->job.listen_fd);
	t->job.listen_fd = -1;
}

/* The rank got a status in time; its text names `named` and no other rank but itself. */
static void judge(const struct trial *t, int r, int named, double most)
{
	const struct job_rank *one = &t->job.ranks[r];
	char word[16];

	printf("%s, rank %d: %.2f s: %s: %s\n", t->name, r, one->seconds,
	       oriel_status_name(one->status), one->error);
	CHECK_EQ(one->ran, 1);
	CHECK(one->status < 0);
	if (one->seconds > most)
		check_fail(__FILE__, __LINE__, "%s: rank %d took %.1f s", t->name, r, one->seconds);
	for (int other = 0; other < RANKS; other++) {
		snprintf(word, sizeof(word), "rank %d", other);
		if (other == named)
			CHECK_HAS(one->error, word);
		else if (other != r && strstr(one->error, word))
			check_fail(__FILE__, __LINE__, "%s: rank %d blames rank %d: %s", t->name, r,
				   other, one->error);
	}
}

static void trial_end(struct trial *t, int named, double most)
{
	for (int r = 0; r < RANKS; r++)
		if (r != VICTIM)
			job_wait(&t->job, r);
	job_kill(&t->job, VICTIM);
	for (int r = 0; r < RANKS; r++)
		if (r != VICTIM && r != named)
			judge(t, r, named, most);
	if (named == VICTIM) /* who waits for memory says so long before its deadline */
		CHECK(job_log_has(&t->job, "for memory of rank 2"));
	job_close(&t->job);
}

TEST(the_one_who_stands_still_is_named_by_the_deadline)
{
	static struct trial window, comm, late;

	call = WINDOW_CREATE;
	trial_start(&window, "window_create", TIMEOUT_TEXT);
	stuck_comes_late = 1;
	trial_start(&late, "window_create, one rank comes late", TIMEOUT_TEXT);
	stuck_comes_late = 0;
	call = COMM_CREATE;
	trial_start(&comm, "comm_create", TIMEOUT_TEXT);
	trial_end(&window, VICTIM, TIMEOUT_S + JOB_SPARE_S);
	trial_end(&late, VICTIM, TIMEOUT_S + JOB_SPARE_S);
	trial_end(&comm, VICTIM, TIMEOUT_S + JOB_SPARE_S);
}

TEST(a_death_meanwhile_is_noticed_at_once)
{
	static struct trial window, comm;

	with_death = 1;
	call = WINDOW_CREATE;
	trial_start(&window, "window_create and a death", JOB_NEVER);
	call = COMM_CREATE;
	trial_start(&comm, "comm_create and a death", JOB_NEVER);
	trial_end(&window, LAST, JOB_SOON_S);
	trial_end(&comm, LAST, JOB_SOON_S);
	with_death = 0;
}
