/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/cuda/failure.cu - failures while kernels wait on a GPU: a rank that dies, one that aborts,
 * deadlines in kernels and in host-issued operations, and launches that could not run.
 *
 * A rank killed under MPS may take the daemon's other clients along: run the test "killed" apart
 * from anything else (tools/test-gpu.sh gives it a daemon of its own).
 */
#include <signal.h>
#include <time.h>

#include "gpu.h"

#define SHORT_S 1.0 /* also of oriel_comm_create, which once took more than 0.3 s on an H200 */

struct wait_args {
	struct oriel_window_dev win;
	int32_t *status; /* [block * 512 + thread] */
	int32_t peer, barrier;
};

ORIEL_KERNEL(wait_kernel, struct wait_args)
{
	struct oriel_group g = oriel_group_block();
	int err = a->barrier ? oriel_barrier(&a->win, g, 0) :
			       oriel_wait_signal_from(&a->win, g, a->peer, 0, ORIEL_GE, 1);

	a->status[g.block * 512 + g.thread] = err;
	return err;
}

struct setup {
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct wait_args a;
	int32_t *status; /* the host's copy */
};

#define STATUS_BYTES (4 * 512 * sizeof(int32_t))

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A comm with a deadline of its own, beside the frame's.  0 or -1. */
static int set_up(struct rank_env *env, double timeout_s, struct setup *s)
{
	struct oriel_comm_options c = ORIEL_COMM_OPTIONS_INIT;
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	void *status = NULL;
	int err;

	memset(s, 0, sizeof(*s));
	c.timeout = timeout_s;
	o.bytes = 4096;
	s->status = (int32_t *)malloc(STATUS_BYTES);
	err = !s->status || oriel_comm_create(env->boot, &c, &s->comm) ||
	      oriel_window_create(s->comm, &o, &s->window) ||
	      oriel_window_device(s->window, &s->a.win) ||
	      oriel_alloc(env->comm, STATUS_BYTES, &status);
	s->a.status = (int32_t *)status;
	if (err)
		check_fail(__FILE__, __LINE__, "set up: %s", oriel_last_error());
	return err ? -1 : 0;
}

static void tear_down(struct rank_env *env, struct setup *s)
{
	if (s->window)
		CHECK_EQ(oriel_window_destroy(s->window), 0);
	if (s->comm)
		CHECK_EQ(oriel_comm_destroy(s->comm), 0);
	if (s->a.status)
		CHECK_EQ(oriel_free(env->comm, s->a.status), 0);
	free(s->status);
}

/* Every thread of 4 blocks of 512 ends with `expect`; returns how long it took. */
static double wait_in_kernel(struct rank_env *env, struct setup *s, int expect)
{
	int nblocks = s->a.barrier ? 1 : 4, wrong = 0;
	double start = now(), took;

	memset(s->status, 0x55, STATUS_BYTES);
	CHECK_EQ(oriel_copy(env->comm, s->a.status, s->status, STATUS_BYTES), 0);
	CHECK_EQ(oriel_launch(env->comm, &wait_kernel, nblocks, 512, &s->a, sizeof(s->a), NULL), 0);
	CHECK_EQ(oriel_comm_sync(env->comm, NULL), expect);
	if (expect)
		CHECK_HAS(oriel_last_error(), "kernel \"wait_kernel\", block ");
	took = now() - start;
	CHECK_EQ(oriel_copy(env->comm, s->status, s->a.status, STATUS_BYTES), 0);
	for (int i = 0; i < nblocks * 512; i++)
		wrong += s->status[i] != expect;
	if (wrong)
		check_fail(__FILE__, __LINE__, "rank %d: %d threads not %d; the first has %d",
			   env->rank, wrong, expect, s->status[0]);
	return took;
}

/* A sync has the comm's deadline too, and may pass it a moment before the kernel does. */
static int sync_late(struct oriel_comm *comm)
{
	int err = ORIEL_ETIMEDOUT;

	for (int i = 0; i < 5 && err == ORIEL_ETIMEDOUT; i++)
		err = oriel_comm_sync(comm, NULL);
	return err;
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static void deadlines(struct rank_env *env)
{
	struct setup s;
	double took;

	if (set_up(env, SHORT_S, &s))
		return;
	s.a.peer = 1 - env->rank;
	took = wait_in_kernel(env, &s, ORIEL_ETIMEDOUT);
	CHECK(took > 0.9 * SHORT_S && took < SHORT_S + 2);
	CHECK_EQ(oriel_window_status(s.window), 0); /* a wait's deadline is its own */
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	/* of a host-issued wait it is the window's: nobody else could be told */
	CHECK_EQ(oriel_window_wait_signal(s.window, s.a.peer, 0, ORIEL_GE, 1, NULL), 0);
	CHECK_EQ(sync_late(s.comm), 0);
	CHECK_EQ(oriel_window_status(s.window), ORIEL_ETIMEDOUT);
	took = wait_in_kernel(env, &s, ORIEL_ETIMEDOUT);
	CHECK(took < SHORT_S); /* at once: the window has failed */
	CHECK_EQ(oriel_comm_status(s.comm), 0);
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	tear_down(env, &s);
}

/* ---- abort ----------------------------------------------------------------------------------- */

static void aborted(struct rank_env *env)
{
	struct setup s;

	if (set_up(env, 30, &s))
		return;
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	if (env->rank == 0) {
		usleep(100000);
		CHECK_EQ(oriel_comm_abort(s.comm, ORIEL_EABORTED), 0);
	} else {
		CHECK(wait_in_kernel(env, &s, ORIEL_EABORTED) < 2);
	}
	CHECK_EQ(oriel_comm_status(s.comm), ORIEL_EABORTED);
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	tear_down(env, &s);
}

/* ---- a killed rank --------------------------------------------------------------------------- */

/* The last rank has no work on the GPU when it dies; the others wait in kernels. */
static void killed(struct rank_env *env)
{
	struct setup s;
	char name[24];
	double took;

	if (set_up(env, 30, &s))
		return;
	s.a.peer = env->nranks - 1;
	s.a.barrier = *(const int *)env->arg;
	CHECK_EQ(oriel_comm_barrier(env->comm, ORIEL_WORLD), 0);
	if (env->rank == env->nranks - 1) {
		usleep(100000);
		raise(SIGKILL);
	}
	took = wait_in_kernel(env, &s, ORIEL_EPEER);
	CHECK(took < 4);
	CHECK_EQ(oriel_comm_status(s.comm), ORIEL_EPEER);
	CHECK(oriel_comm_barrier(s.comm, ORIEL_WORLD) < 0);
	snprintf(name, sizeof(name), "rank %d", env->nranks - 1);
	CHECK_HAS(oriel_last_error(), name);
	printf("  rank %d: %.3f s until its kernel ended: %s\n", env->rank, took,
	       oriel_last_error());
	tear_down(env, &s);
}

/* ---- launches -------------------------------------------------------------------------------- */

static void refused(struct rank_env *env)
{
	struct setup s;

	if (set_up(env, 30, &s))
		return;
	CHECK_EQ(oriel_launch(env->comm, &wait_kernel, 1 << 20, 512, &s.a, sizeof(s.a), NULL),
		 ORIEL_ERANGE);
	CHECK_HAS(oriel_last_error(), "wait_kernel");
	CHECK(oriel_launch(env->comm, &wait_kernel, 1, 1025, &s.a, sizeof(s.a), NULL) < 0);
	CHECK(oriel_launch(env->comm, &wait_kernel, 0, 32, &s.a, sizeof(s.a), NULL) < 0);
	CHECK_EQ(oriel_comm_status(env->comm), 0);
	/* and a launch that fits still works: its waits find the signal there */
	s.a.peer = env->rank;
	CHECK_EQ(oriel_window_signal(s.window, env->rank, 0, ORIEL_ADD, 1, NULL), 0);
	CHECK_EQ(oriel_comm_sync(s.comm, NULL), 0);
	(void)wait_in_kernel(env, &s, 0);
	tear_down(env, &s);
}

static void run_killed(int nranks, int barrier)
{
	static int arg;
	struct ranks_options o;

	arg = barrier;
	memset(&o, 0, sizeof(o));
	o.nranks = nranks;
	o.processes = 1;
	o.expect_killed = 1ull << (nranks - 1);
	gpu_run_options(&o, killed, &arg);
}

TEST(deadlines_of_processes)
{
	gpu_run(2, 1, NULL, deadlines, NULL);
}

TEST(abort_ends_kernels_of_processes)
{
	gpu_run(3, 1, NULL, aborted, NULL);
}

TEST(killed_while_2_wait)
{
	run_killed(2, 0);
}

TEST(killed_while_4_are_in_a_barrier)
{
	run_killed(4, 1);
}

TEST(deadlines_of_threads)
{
	gpu_run(2, 0, NULL, deadlines, NULL);
}

TEST(abort_ends_kernels_of_threads)
{
	gpu_run(3, 0, NULL, aborted, NULL);
}

TEST(launches_that_cannot_run)
{
	gpu_run(2, 0, NULL, refused, NULL);
}
