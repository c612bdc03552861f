/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/failure.c - contract of failure: deadlines, abort, a killed rank.  Every wait ends
 * in time with the right status on every thread, the first cause is kept, and all can be destroyed.
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "contract.h"

/* Deadline of comms whose waits shall fail; a CUDA comm takes longer to make, and that counts too. */
#define SHORT_S (contract_on_cuda() ? 0.5 : 0.1)

enum { WAIT_FROM, WAIT_SUM, WAIT_COUNTER, WAIT_COUNTERS, SYNC, BARRIER, PEER, RECV, PUT, SIGNAL };

/* One call that nobody answers, or one that should work. */
CONTRACT_KERNEL(call_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int err;

	switch (a->mode) {
	case WAIT_FROM:
		err = oriel_wait_signal_from(w, g, a->peer, a->id, ORIEL_GE, a->value);
		break;
	case WAIT_SUM:
		err = oriel_wait_signal(w, g, a->id, a->value);
		break;
	case WAIT_COUNTER:
		err = oriel_wait_counter(w, g, a->peer, a->id, ORIEL_GE, a->value);
		break;
	case WAIT_COUNTERS:
		err = oriel_wait_counter_all(w, g, a->id, a->value);
		break;
	case SYNC:
		err = oriel_sync(w, g, a->id);
		break;
	case BARRIER:
		err = oriel_barrier(w, g, a->id);
		break;
	case PEER:
		err = oriel_barrier_peer(w, g, a->peer, a->id);
		break;
	case RECV:
		err = oriel_recv(w, g, a->peer, 0, a->local, 8);
		break;
	case PUT:
		err = oriel_put(w, g, a->peer, (uint64_t)oriel_rank(w) * 64, &a->src, 0, 8);
		break;
	default:
		err = oriel_signal(w, g, a->peer, a->id, ORIEL_ADD, 1);
	}
	contract_report(a, g, err, 0);
}

struct setup {
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct contract_args a;
	void *local;
};

/* A comm of its own with a window, so that the frame's stay whole.  0 or -1. */
static int set_up(struct contract_env *e, double timeout_s, struct setup *s)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int err;

	memset(s, 0, sizeof(*s));
	o.bytes = 4096;
	o.staging_slot_bytes = 64;
	s->a = contract_args(e);
	s->local = contract_alloc(e, 4096);
	err = !s->local || contract_comm(e, timeout_s, &s->comm) ||
	      oriel_window_create(s->comm, &o, &s->window) ||
	      oriel_window_device(s->window, &s->a.win) ||
	      oriel_window_source(s->window, s->local, 4096, &s->a.src);
	s->a.local = (uint8_t *)s->local;
	if (err)
		check_fail(__FILE__, __LINE__, "rank %d: set up: %s", e->rank, oriel_last_error());
	return err ? -1 : 0;
}

static void tear_down(struct setup *s)
{
	if (s->window)
		CHECK_EQ(oriel_window_destroy(s->window), 0);
	if (s->comm)
		CHECK_EQ(oriel_comm_destroy(s->comm), 0);
}

/* Launches the call, and takes its time. */
static double timed(struct contract_env *e, struct setup *s, int mode, int expect)
{
	double start = contract_now();

	s->a.mode = mode;
	contract_launch_expect(e, &call_kernel, 1, &s->a, expect);
	return contract_now() - start;
}

/* ---- deadlines ----------------------------------------------------------------------------- */

/* A wait that ends by its deadline takes nothing with it: the next one works. */
CASE(failure_wait_deadline, c.no_window = 1)
{
	struct setup s;

	if (!set_up(e, SHORT_S, &s)) {
		s.a.peer = (e->rank + 1) % e->nranks;
		s.a.value = 1;
		for (int mode = WAIT_FROM; mode <= WAIT_COUNTERS; mode++) {
			double took = timed(e, &s, mode, ORIEL_ETIMEDOUT);

			CHECK(took > SHORT_S * 0.9 && took < SHORT_S + 2);
		}
		/* on CUDA it would be the window's failure: tests/cuda/failure.cu */
		if (!e->cuda)
			CHECK_EQ(oriel_window_wait_signal(s.window, s.a.peer, 0, ORIEL_GE, 1, NULL),
				 ORIEL_ETIMEDOUT);
		CHECK_EQ(oriel_window_status(s.window), 0);
		CHECK_EQ(oriel_comm_status(s.comm), 0);
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		timed(e, &s, SIGNAL, 0);
		s.a.peer = (e->rank + e->nranks - 1) % e->nranks;
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		timed(e, &s, WAIT_FROM, 0);
		timed(e, &s, WAIT_SUM, 0);
		REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD));
		timed(e, &s, SYNC, 0);
	}
	tear_down(&s);
}

/* A barrier the last rank never comes to: the window is lost on those who came, and only that. */
static void barrier_deadline(struct contract_env *e, int mode)
{
	struct setup s;

	if (!set_up(e, SHORT_S, &s) && e->rank != e->nranks - 1) {
		double took;

		s.a.peer = e->nranks - 1;
		took = timed(e, &s, mode, ORIEL_ETIMEDOUT);
		CHECK(took > SHORT_S * 0.9 && took < SHORT_S + 2);
		CHECK_EQ(oriel_window_status(s.window), ORIEL_ETIMEDOUT);
		s.a.id = 1; /* another id, another call: the same first cause, at once */
		CHECK(timed(e, &s, SYNC, ORIEL_ETIMEDOUT) < SHORT_S);
		timed(e, &s, PUT, ORIEL_ETIMEDOUT);
		timed(e, &s, SIGNAL, ORIEL_ETIMEDOUT);
		timed(e, &s, WAIT_FROM, ORIEL_ETIMEDOUT);
		timed(e, &s, WAIT_COUNTER, ORIEL_ETIMEDOUT);
		CHECK_EQ(contract_issued(e, s.comm, s.window,
					 oriel_window_signal(s.window, 0, 0, ORIEL_ADD, 1, NULL)),
			 ORIEL_ETIMEDOUT);
		CHECK_EQ(contract_issued(e, s.comm, s.window,
					 oriel_window_barrier(s.window, 2, NULL)),
			 ORIEL_ETIMEDOUT);
	}
	CHECK_EQ(oriel_comm_status(s.comm), 0);
	REQUIRE_OK(oriel_comm_barrier(e->comm, ORIEL_WORLD)); /* the late one is here */
	tear_down(&s);
}

CASE(failure_sync_deadline, c.no_window = 1, c.min_ranks = 2)
{
	barrier_deadline(e, SYNC);
}

CASE(failure_barrier_deadline, c.no_window = 1, c.min_ranks = 2)
{
	barrier_deadline(e, BARRIER);
}

CASE(failure_barrier_peer_deadline, c.no_window = 1, c.min_ranks = 2)
{
	barrier_deadline(e, PEER);
}

CASE(failure_recv_deadline, c.no_window = 1, c.min_ranks = 2)
{
	barrier_deadline(e, RECV);
}

/* ---- abort --------------------------------------------------------------------------------- */

/* All but rank 0 wait for what never comes; rank 0 gives up. */
static void aborted(struct contract_env *e, int mode)
{
	struct setup s;
	double took;

	if (set_up(e, 30, &s))
		goto err_set_up;
	s.a.value = 1;
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
	if (e->rank == 0) {
		usleep(100000);
		CHECK_EQ(oriel_comm_abort(s.comm, ORIEL_EABORTED), 0);
	} else {
		took = timed(e, &s, mode, ORIEL_EABORTED);
		CHECK(took < 1.1);
	}
	CHECK_EQ(oriel_comm_status(s.comm), ORIEL_EABORTED);
	/* nothing works any more, and nothing waits */
	took = timed(e, &s, PUT, ORIEL_EABORTED);
	took += timed(e, &s, SYNC, ORIEL_EABORTED);
	CHECK(took < 1);
	CHECK_EQ(oriel_comm_barrier(s.comm, ORIEL_WORLD), ORIEL_EABORTED);
	CHECK_EQ(oriel_comm_status(e->comm), 0); /* other comms of the ranks live on */
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
err_set_up:
	tear_down(&s);
}

CASE(failure_abort_ends_waits, c.no_window = 1)
{
	aborted(e, WAIT_FROM);
}

CASE(failure_abort_ends_sums, c.no_window = 1)
{
	aborted(e, WAIT_SUM);
}

CASE(failure_abort_ends_barriers, c.no_window = 1)
{
	aborted(e, SYNC);
}

CASE(failure_abort_ends_recv, c.no_window = 1)
{
	aborted(e, RECV);
}

/* Aborted without cleaning up: windows and buffers go with the comm. */
CASE(failure_abort_then_destroy_comm, c.no_window = 1, c.shape = CONTRACT_HOST)
{
	struct setup s;

	if (!set_up(e, 30, &s)) {
		CHECK_EQ(oriel_comm_destroy(s.comm), ORIEL_EBUSY);
		CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
		if (e->rank == e->nranks - 1)
			CHECK_EQ(oriel_comm_abort(s.comm, ORIEL_EBOOT), 0);
		/* a host wait ends as well */
		CHECK(oriel_comm_barrier(s.comm, ORIEL_WORLD) < 0);
		CHECK_EQ(oriel_comm_status(s.comm) < 0, 1);
		s.window = NULL; /* not destroyed by us */
	}
	tear_down(&s);
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
}

/* ---- a killed rank ------------------------------------------------------------------------- */

/* Every comm with the dead rank learns of it, also one that nobody was using. */
static void check_others_learn(struct contract_env *e)
{
	double start = contract_now();

	while (!oriel_comm_status(e->comm) && contract_now() - start < 2)
		usleep(1000);
	CHECK_EQ(oriel_comm_status(e->comm), ORIEL_EPEER);
}

/* The last rank is killed while the others wait for it. */
static void killed(struct contract_env *e, int mode)
{
	struct setup s;
	double took;
	char name[24];

	if (set_up(e, 30, &s))
		goto err_set_up;
	s.a.peer = e->nranks - 1;
	s.a.value = 1;
	if (oriel_comm_barrier(e->comm, ORIEL_WORLD))
		goto err_set_up;
	if (e->rank == e->nranks - 1) {
		usleep(100000);
		raise(SIGKILL);
	}
	took = timed(e, &s, mode, ORIEL_EPEER);
	CHECK(took < 2.1);
	CHECK_EQ(oriel_comm_status(s.comm), ORIEL_EPEER);
	snprintf(name, sizeof(name), "rank %d", e->nranks - 1);
	CHECK_HAS(oriel_last_error(), name);
	CHECK(timed(e, &s, PUT, ORIEL_EPEER) < 1);
	took = contract_now();
	CHECK(oriel_comm_barrier(s.comm, ORIEL_WORLD) < 0);
	CHECK_HAS(oriel_last_error(), name);
	CHECK(contract_now() - took < 2);
	check_others_learn(e);
err_set_up:
	tear_down(&s);
}

CASE(failure_killed_in_wait, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	killed(e, WAIT_FROM);
}

CASE(failure_killed_in_barrier, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	killed(e, BARRIER);
}

/* Everyone is in the middle of the window's work when it happens. */
CONTRACT_KERNEL(busy_kernel)
{
	const struct oriel_window_dev *w = &a->win;
	int err = 0, i, k;

	for (i = 0; i < a->rounds && !err; i++) {
		for (k = 0; k < oriel_nranks(w) && !err; k++)
			err = oriel_put(w, g, k, (uint64_t)oriel_rank(w) * 64, &a->src, 0, 64);
		if (!err)
			err = oriel_barrier(w, g, 0);
	}
	contract_report(a, g, err, 0);
}

static void *kill_soon(void *arg)
{
	(void)arg;
	usleep(100000);
	kill(getpid(), SIGKILL);
	return NULL;
}

CASE(failure_killed_at_work, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	struct setup s;
	pthread_t killer;
	double start = contract_now();

	if (!set_up(e, 30, &s)) {
		if (e->rank == e->nranks - 1)
			REQUIRE(!pthread_create(&killer, NULL, kill_soon, NULL));
		s.a.rounds = 1 << 30;
		contract_launch_expect(e, &busy_kernel, 1, &s.a, ORIEL_EPEER);
		CHECK(contract_now() - start < 4);
		CHECK_EQ(oriel_comm_status(s.comm), ORIEL_EPEER);
		check_others_learn(e);
	}
	tear_down(&s);
}
