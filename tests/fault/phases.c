/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/phases.c - of three processes, rank 1 dies or stops, in each phase of a job's life.
 *
 * The others get a status in time, with a text that names rank 1, and can destroy everything.
 *
 * Rank 0 holds the rendezvous.  All jobs of a test run at once, because they mostly wait.
 */
#include <pthread.h>

#include <oriel/device.h>
#include <oriel/oriel.h>

#include "boot_job.h"

/*
 * The deadline of jobs whose ranks wait for it.  Ranks other than the victim may be delayed for
 * less, and are not taken for it.  Ranks that learn of a death do not wait, so their deadline never
 * passes.
 */
#define TIMEOUT_S 8.0
#define TIMEOUT_TEXT "8"
#define VICTIM 1

enum phase {
	BEFORE_BOOT,
	IN_BOOT,
	COMM_CREATE,
	WINDOW_CREATE,
	BARRIER,
	WAIT_SIGNAL,
	SEND,
	RECV,
	BUFFER_EXCHANGE,
	SPLIT,
	WINDOW_DESTROY,
	COMM_DESTROY,
	PHASES
};

static const char *const phase_names[] = {
	"before the boot",       "in the boot", "comm_create",    "window_create",
	"a barrier in a kernel", "wait_signal", "send",           "recv",
	"buffer_exchange",       "comm_split",  "window_destroy", "comm_destroy",
};

/* One rank of one job. */
struct way {
	int rank;
	struct oriel_boot *boot;
	struct oriel_comm *comm, *sub;
	struct oriel_window *window;
	struct oriel_buffer *buffer;
	void *memory;
};

/* Set before the fork. */
static enum phase phase;
static int how;           /* SIGKILL or SIGSTOP */
static uint64_t *fell_ns; /* shared: when the victim fell */

static void fall(void)
{
	__atomic_store_n(fell_ns, ori_now_ns(), __ATOMIC_RELEASE);
	kill(getpid(), how);
}

static void fall_in(const struct way *w, enum phase where)
{
	if (w->rank == VICTIM && phase == where)
		fall();
}

/* ---- the steps ------------------------------------------------------------------------------- */

static void *fall_soon(void *arg)
{
	usleep(100000); /* mostly it has been heard by then; if not, it is the case before */
	fall();
	return arg;
}

static int step_boot(struct way *w)
{
	pthread_t thread;

	fall_in(w, BEFORE_BOOT);
	/* the victim has said hello and waits for rank 2 when it falls */
	if (phase == IN_BOOT && w->rank == VICTIM && pthread_create(&thread, NULL, fall_soon, NULL))
		_exit(96);
	while (phase == IN_BOOT && w->rank == 2 && !__atomic_load_n(fell_ns, __ATOMIC_ACQUIRE))
		usleep(1000); /* ended by alarm() */
	return oriel_boot_env(&w->boot);
}

static int step_comm(struct way *w)
{
	fall_in(w, COMM_CREATE);
	return oriel_comm_create(w->boot, NULL, &w->comm);
}

static int step_window(struct way *w)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	fall_in(w, WINDOW_CREATE);
	o.bytes = 4096;
	o.staging_slot_bytes = 256;
	return oriel_window_create(w->comm, &o, &w->window);
}

struct kernel_args {
	struct oriel_window_dev win;
	const struct way *way;
	enum phase phase;
};

ORIEL_KERNEL(talk_kernel, struct kernel_args)
{
	struct oriel_group g = oriel_group_block();
	char message[256] = { 0 };
	int err = 0;

	for (int round = 0; round < 20 && !err; round++) {
		if (a->phase == BARRIER) {
			err = oriel_barrier_arrive(&a->win, g, 0);
			if (round == 5 && !err)
				fall_in(a->way, BARRIER);
			if (!err)
				err = oriel_barrier_wait(&a->win, g, 0);
			continue;
		}
		if (a->way->rank == VICTIM)
			fall_in(a->way, a->phase);
		else if (a->phase == SEND)
			err = oriel_send(&a->win, g, VICTIM, 0, message, sizeof(message));
		else
			err = oriel_recv(&a->win, g, VICTIM, 0, message, sizeof(message));
	}
	return err;
}

/* What the kernel returned is the launch's status, and the window knows of it, too. */
static int run_kernel(struct way *w, enum phase which)
{
	struct kernel_args args = { .way = w, .phase = which };
	int err;

	if (which != BARRIER && phase != which)
		return 0;
	err = oriel_window_device(w->window, &args.win);
	if (!err)
		err = oriel_launch(w->comm, &talk_kernel, 1, 1, &args, sizeof(args), NULL);
	if (err && oriel_window_status(w->window) != err)
		return 1;
	return err;
}

static int step_barrier(struct way *w)
{
	return run_kernel(w, BARRIER);
}

static int step_signal(struct way *w)
{
	int err = 0;

	fall_in(w, WAIT_SIGNAL);
	for (int r = 0; r < 3 && !err; r++)
		err = oriel_window_signal(w->window, r, 0, ORIEL_ADD, 1, NULL);
	for (int r = 0; r < 3 && !err; r++)
		err = oriel_window_wait_signal(w->window, r, 0, ORIEL_GE, 1, NULL);
	return err;
}

static int step_send(struct way *w)
{
	return run_kernel(w, SEND);
}

static int step_recv(struct way *w)
{
	return run_kernel(w, RECV);
}

static int step_buffer(struct way *w)
{
	int err = oriel_alloc(w->comm, 4096, &w->memory);

	if (!err)
		err = oriel_buffer_register(w->comm, w->memory, 4096, &w->buffer);
	fall_in(w, BUFFER_EXCHANGE);
	return err ? err : oriel_buffer_exchange(w->comm, w->buffer);
}

static int step_split(struct way *w)
{
	fall_in(w, SPLIT);
	return oriel_comm_split(w->comm, 0, 0, &w->sub);
}

static int step_window_destroy(struct way *w)
{
	struct oriel_window *window = w->window;

	fall_in(w, WINDOW_DESTROY);
	w->window = NULL; /* gone in any case */
	return oriel_window_destroy(window);
}

static int step_buffer_release(struct way *w)
{
	struct oriel_buffer *buffer = w->buffer;
	int err;

	w->buffer = NULL;
	err = oriel_buffer_release(buffer);
	if (!err)
		err = oriel_free(w->comm, w->memory);
	w->memory = NULL;
	return err;
}

static int step_comm_destroy(struct way *w)
{
	struct oriel_comm *comm = w->comm;

	fall_in(w, COMM_DESTROY);
	w->comm = NULL;
	return oriel_comm_destroy(comm);
}

static int (*const steps[])(struct way *) = {
	step_boot,   step_comm,           step_window,         step_barrier,
	step_signal, step_send,           step_recv,           step_buffer,
	step_split,  step_window_destroy, step_buffer_release, step_comm_destroy,
};

static void take_down(struct way *w)
{
	CHECK(oriel_comm_destroy(w->sub) <= 0);
	CHECK_EQ(oriel_buffer_release(w->buffer), 0);
	CHECK(oriel_window_destroy(w->window) <= 0); /* tells of the others; it goes in any case */
	if (w->memory)
		CHECK_EQ(oriel_free(w->comm, w->memory), 0);
	CHECK(oriel_comm_destroy(w->comm) <= 0);
	CHECK(!w->comm || oriel_comm_status(w->comm) == ORIEL_ESTALE);
	CHECK_EQ(oriel_boot_destroy(w->boot), 0);
}

/* Writes what it saw to its struct job_rank; told_status: milliseconds of the taking down. */
static void walk(struct job *job, int rank)
{
	struct job_rank *r = &job->ranks[rank];
	struct way w = { .rank = rank };
	int err = 0;
	uint64_t start;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !err; i++)
		err = steps[i](&w);
	start = ori_now_ns();
	job_note(job, rank, err, start);
	take_down(&w);
	r->told_status = (int)((ori_now_ns() - start) / 1000000);
}

/* ---- the jobs -------------------------------------------------------------------------------- */

struct trial {
	struct job job;
	int how;
	uint64_t *fell_ns;
};

/*
 * A death is reported at once.  But a rank that has not joined yet is unknown; then, as for a rank
 * that is stopped, the deadline counts.
 */
static int waits_for_deadline(const struct trial *t, enum phase p)
{
	return t->how == SIGSTOP || p == BEFORE_BOOT || p == IN_BOOT;
}

static void trial_start(struct trial *t, enum phase p, int signal_number)
{
	phase = p;
	how = t->how = signal_number;
	if (job_open(&t->job, 3, waits_for_deadline(t, p) ? TIMEOUT_TEXT : JOB_NEVER))
		_exit(1);
	t->fell_ns = mmap(NULL, sizeof(*t->fell_ns), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(t->fell_ns != MAP_FAILED);
	fell_ns = t->fell_ns;
	for (int r = 0; r < 3; r++)
		job_start(&t->job, r, NULL, walk);
	/* a copy of it in the ranks of later jobs would hide the end of this one's rendezvous */
	close(t->job.listen_fd);
	t->job.listen_fd = -1;
}

static void trial_judge(struct trial *t, enum phase p, int r)
{
	struct job_rank *one = &t->job.ranks[r];
	double most = waits_for_deadline(t, p) ? TIMEOUT_S + JOB_SPARE_S : JOB_SOON_S;
	/* since the fall; who gave up before it had waited for it all the same */
	double seconds = one->at_ns > *t->fell_ns ? (double)(one->at_ns - *t->fell_ns) / 1e9 : 0;
	double down = one->told_status / 1e3;

	printf("%s, rank %d: %.2f s, down in %.2f s: %s: %s\n", phase_names[p], r, seconds, down,
	       oriel_status_name(one->status), one->error);
	if (!one->ran || t->job.codes[r])
		check_fail(__FILE__, __LINE__, "%s: rank %d ended with %d", phase_names[p], r,
			   t->job.codes[r]);
	/* destroy calls on what is known to have failed do not wait and do not fail */
	if (p >= WINDOW_DESTROY ? one->status > 0 : one->status >= 0)
		check_fail(__FILE__, __LINE__, "%s: rank %d got %d", phase_names[p], r,
			   one->status);
	if (!strstr(one->error, "rank 1"))
		check_fail(__FILE__, __LINE__, "%s: rank %d: \"%s\" does not name rank 1",
			   phase_names[p], r, one->error);
	if (seconds > most || down > most)
		check_fail(__FILE__, __LINE__, "%s: rank %d: %.1f s to a status, %.1f s to the end",
			   phase_names[p], r, seconds, down);
}

static void trial_end(struct trial *t, enum phase p)
{
	for (int r = 0; r < 3; r++)
		if (r != VICTIM)
			job_wait(&t->job, r);
	job_kill(&t->job, VICTIM);
	CHECK_EQ(t->job.codes[VICTIM], 128 + SIGKILL);
	CHECK(*t->fell_ns != 0);
	for (int r = 0; r < 3; r++)
		if (r != VICTIM)
			trial_judge(t, p, r);
	munmap(t->fell_ns, sizeof(*t->fell_ns));
	job_close(&t->job);
}

/* Both ways to fall at once: most of the time of it is waiting. */
TEST(rank_1_is_killed_or_stands_still)
{
	static struct trial killed[PHASES], stopped[PHASES];

	for (int p = 0; p < PHASES; p++) {
		trial_start(&stopped[p], (enum phase)p, SIGSTOP);
		trial_start(&killed[p], (enum phase)p, SIGKILL);
	}
	for (int p = 0; p < PHASES; p++)
		trial_end(&killed[p], (enum phase)p);
	for (int p = 0; p < PHASES; p++)
		trial_end(&stopped[p], (enum phase)p);
}
