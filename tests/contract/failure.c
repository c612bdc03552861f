/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/failure.c - contract of failure: deadlines, abort, a killed rank.
 *
 * Every wait ends in time with the right status on every thread, the first cause is kept, and
 * everything can be destroyed.
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "contract.h"

/*
 * A rank may be delayed for seconds at any point, so every comm has a long deadline.  Waits that
 * must end by a deadline use their own handle with a short one.  So calls that should succeed
 * cannot reach it.
 */
#define LONG_S 60.0
#define SHORT_S 0.02
#define WHOLE_S                                                                                    \
	3.0 /* where a comm has it, and all of its calls must end in time on a crowded machine */
#define SOON_US 10000
#define AT_ONCE_S (LONG_S / 2) /* ended by the failure, not by the deadline */

enum {
	WAIT_FROM,
	WAIT_SUM,
	WAIT_COUNTER,
	WAIT_COUNTERS,
	SYNC,
	BARRIER,
	PEER,
	RECV,
	PACKET,      /* waits for a packet */
	PACKET_ROOM, /* fills a box, then waits for room */
	PUT,
	SIGNAL
};

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
		err = oriel_barrier_arrive_wait(w, g, a->id);
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
	case PACKET:
		err = oriel_packet_recv(w, g, a->peer, 0, a->local, 64);
		break;
	case PACKET_ROOM:
		do
			err = oriel_packet_send(w, g, a->peer, 0, a->local, 64);
		while (!err);
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

static void set_deadline(struct setup *s, double seconds)
{
	s->a.win.comm.timeout_ns = (uint64_t)(seconds * 1e9);
}

/* A separate comm with a window, so that those of the frame stay usable.  0 or -1. */
static int set_up(struct contract_env *e, double timeout_s, struct setup *s)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int err;

	memset(s, 0, sizeof(*s));
	o.bytes = 4096;
	o.staging_slot_bytes = 64;
	o.boxes = 1;
	o.box_bytes = 64;
	s->a = contract_args(e);
	s->local = contract_alloc(e, 4096);
	err = !s->local || contract_comm(e, timeout_s, &s->comm) ||
	      oriel_window_create(s->comm, &o, &s->window) ||
	      oriel_window_device(s->window, &s->a.win) ||
	      oriel_window_source(s->window, s->local, 4096, &s->a.src);
	s->a.local = (uint8_t *)s->local;
	if (err)
		check_fail(__FILE__, __LINE__, "rank %d: set up: %s", e->rank, oriel_last_error());
	else
		CHECK_EQ(s->a.win.comm.timeout_ns, (uint64_t)(timeout_s * 1e9));
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

	if (!set_up(e, LONG_S, &s)) {
		s.a.peer = (e->rank + 1) % e->nranks;
		s.a.value = 1;
		set_deadline(&s, SHORT_S);
		for (int mode = WAIT_FROM; mode <= WAIT_COUNTERS; mode++) {
			double took = timed(e, &s, mode, ORIEL_ETIMEDOUT);

			CHECK(took > SHORT_S * 0.9 && took < AT_ONCE_S);
		}
		set_deadline(&s, LONG_S);
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

/*
 * The host's wait has the comm's deadline.  One rank alone has nobody to wait for when it is made.
 */
CASE(failure_host_wait_deadline, c.no_window = 1, c.max_ranks = 1, c.shape = CONTRACT_HOST)
{
	struct setup s;
	double start, took;

	if (e->cuda) {
		check_skip("on CUDA it is the window's failure: tests/cuda/failure.cu");
	} else if (!set_up(e, WHOLE_S, &s)) {
		start = contract_now();
		CHECK_EQ(oriel_window_wait_signal(s.window, 0, 0, ORIEL_GE, 1, NULL),
			 ORIEL_ETIMEDOUT);
		took = contract_now() - start;
		CHECK(took > WHOLE_S * 0.9 && took < AT_ONCE_S);
		CHECK_EQ(oriel_window_status(s.window), 0);
		CHECK_EQ(oriel_comm_status(s.comm), 0);
		REQUIRE_OK(oriel_window_signal(s.window, 0, 0, ORIEL_ADD, 1, NULL));
		CHECK_EQ(oriel_window_wait_signal(s.window, 0, 0, ORIEL_GE, 1, NULL), 0);
		tear_down(&s);
	}
}

/* A barrier that the last rank never enters: only the window is lost, on the ranks that entered. */
static void barrier_deadline(struct contract_env *e, int mode)
{
	struct setup s;

	if (!set_up(e, LONG_S, &s) && e->rank != e->nranks - 1) {
		double took;

		s.a.peer = e->nranks - 1;
		set_deadline(&s, SHORT_S);
		took = timed(e, &s, mode, ORIEL_ETIMEDOUT);
		CHECK(took > SHORT_S * 0.9 && took < AT_ONCE_S);
		CHECK_EQ(oriel_window_status(s.window), ORIEL_ETIMEDOUT);
		set_deadline(&s, LONG_S);
		s.a.id = 1; /* another id, another call: the same first cause, at once */
		CHECK(timed(e, &s, SYNC, ORIEL_ETIMEDOUT) < AT_ONCE_S);
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

	if (set_up(e, LONG_S, &s))
		goto err_set_up;
	s.a.value = 1;
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
	if (e->rank == 0) {
		/* most often the others wait by then; they may as well come later */
		usleep(SOON_US);
		CHECK_EQ(oriel_comm_abort(s.comm, ORIEL_EABORTED), 0);
	} else {
		took = timed(e, &s, mode, ORIEL_EABORTED);
		CHECK(took < AT_ONCE_S);
	}
	CHECK_EQ(oriel_comm_status(s.comm), ORIEL_EABORTED);
	/* nothing works any more, and nothing waits */
	took = timed(e, &s, PUT, ORIEL_EABORTED);
	took += timed(e, &s, SYNC, ORIEL_EABORTED);
	CHECK(took < AT_ONCE_S);
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

CASE(failure_abort_ends_packets, c.no_window = 1)
{
	aborted(e, PACKET);
}

CASE(failure_abort_ends_full_boxes, c.no_window = 1)
{
	aborted(e, PACKET_ROOM);
}

/* Aborted without cleaning up: windows and buffers go with the comm. */
CASE(failure_abort_then_destroy_comm, c.no_window = 1, c.shape = CONTRACT_HOST)
{
	struct setup s;

	if (!set_up(e, LONG_S, &s)) {
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

/* Signals itself and waits for that, in a comm of its own. */
static void check_works(struct contract_env *e)
{
	struct setup s;

	if (!set_up(e, LONG_S, &s)) {
		CHECK_EQ(oriel_window_signal(s.window, e->rank, 1, ORIEL_ADD, 3, NULL), 0);
		CHECK_EQ(oriel_window_wait_signal(s.window, e->rank, 1, ORIEL_EQ, 3, NULL), 0);
		CHECK_EQ(oriel_comm_sync(s.comm, NULL), 0);
	}
	tear_down(&s);
}

/*
 * A failed comm is destroyed while a kernel waits in it, with its window or after it.  The kernel
 * ends, and the other objects of the rank still work.
 */
CASE(failure_destroyed_under_a_wait, c.no_window = 1, c.min_ranks = 2, c.shape = CONTRACT_HOST)
{
	struct setup s;
	double start;
	int err;

	if (set_up(e, LONG_S, &s))
		goto err_set_up;
	start = contract_now();
	if (e->rank == 0) {
		usleep(SOON_US);
		CHECK_EQ(oriel_comm_abort(s.comm, ORIEL_EABORTED), 0);
	} else {
		err = oriel_window_wait_signal(s.window, 0, 1, ORIEL_EQ, 1, NULL);
		CHECK(err == ORIEL_EABORTED || (!err && e->cuda));
		while (!oriel_comm_status(s.comm) && contract_now() - start < AT_ONCE_S)
			usleep(100);
	}
	CHECK_EQ(oriel_comm_status(s.comm), ORIEL_EABORTED);
	if (e->rank % 2)
		s.window = NULL; /* goes with the comm */
	tear_down(&s);
	CHECK(contract_now() - start < AT_ONCE_S);
	check_works(e);
	return;
err_set_up:
	tear_down(&s);
}

/* ---- a killed rank ------------------------------------------------------------------------- */

/*
 * How many ranks of all rows have gone into the wait that the last one's death ends; shared by all
 * processes.  The last rank dies only then: before it, the others' set-up would fail instead.
 */
static uint32_t *waiting;

__attribute__((constructor)) static void make_waiting(void)
{
	waiting = (uint32_t *)ranks_shared(sizeof(*waiting));
}

static uint32_t count_waiting(void)
{
	return __atomic_load_n(waiting, __ATOMIC_ACQUIRE);
}

static void go_waiting(void)
{
	__atomic_fetch_add(waiting, 1, __ATOMIC_RELEASE);
}

/* before: count_waiting() when none of this row had gone. */
static void die_when_all_wait(uint32_t before, int others)
{
	double start = contract_now();

	while (count_waiting() != before + (uint32_t)others && contract_now() - start < LONG_S)
		usleep(1000);
	usleep(SOON_US);
	kill(getpid(), SIGKILL);
}

/* Every comm with the dead rank learns of it, also a comm that was not in use. */
static void check_learns(struct oriel_comm *comm)
{
	double start = contract_now();

	while (!oriel_comm_status(comm) && contract_now() - start < LONG_S)
		usleep(1000);
	CHECK_EQ(oriel_comm_status(comm), ORIEL_EPEER);
}

/* The last rank is killed while the others wait for it. */
static void killed(struct contract_env *e, int mode)
{
	uint32_t before = count_waiting();
	struct setup s;
	double took;
	char name[24];

	if (set_up(e, LONG_S, &s))
		goto err_set_up;
	s.a.peer = e->nranks - 1;
	s.a.value = 1;
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
	if (e->rank == e->nranks - 1)
		die_when_all_wait(before, e->nranks - 1);
	go_waiting();
	took = timed(e, &s, mode, ORIEL_EPEER);
	CHECK(took < AT_ONCE_S);
	check_learns(s.comm);
	snprintf(name, sizeof(name), "rank %d", e->nranks - 1);
	CHECK_HAS(oriel_last_error(), name);
	CHECK(timed(e, &s, PUT, ORIEL_EPEER) < AT_ONCE_S);
	took = contract_now();
	CHECK(oriel_comm_barrier(s.comm, ORIEL_WORLD) < 0);
	CHECK_HAS(oriel_last_error(), name);
	CHECK(contract_now() - took < AT_ONCE_S);
	check_learns(e->comm);
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

CASE(failure_killed_in_packet, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	killed(e, PACKET);
}

CASE(failure_killed_before_a_full_box, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	killed(e, PACKET_ROOM);
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

struct killer {
	pthread_t thread;
	uint32_t before;
	int others;
};

static void *kill_soon(void *arg)
{
	const struct killer *k = (const struct killer *)arg;

	die_when_all_wait(k->before, k->others);
	return NULL;
}

CASE(failure_killed_at_work, c.no_window = 1, c.min_ranks = 2, c.only_processes = 1,
     c.last_dies = 1)
{
	struct killer k;
	struct setup s;
	double start;

	k.before = count_waiting();
	k.others = e->nranks - 1;
	if (!set_up(e, LONG_S, &s)) {
		CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
		if (e->rank == e->nranks - 1)
			REQUIRE(!pthread_create(&k.thread, NULL, kill_soon, &k));
		else
			go_waiting();
		start = contract_now();
		s.a.rounds = 1 << 30;
		contract_launch_expect(e, &busy_kernel, 1, &s.a, ORIEL_EPEER);
		CHECK(contract_now() - start < AT_ONCE_S);
		check_learns(s.comm);
		check_learns(e->comm);
	}
	tear_down(&s);
}
