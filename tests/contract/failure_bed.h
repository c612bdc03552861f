/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/contract/failure_bed.h - what the tests of failure share: comms that may fail, a kernel of
 * single calls that nobody answers, ranks that abort or are killed while the others wait.
 *
 * Included by failure.c (calls) and failure_lines.c (lines and paths).
 */
#ifndef ORI_TEST_CONTRACT_FAILURE_BED_H
#define ORI_TEST_CONTRACT_FAILURE_BED_H

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
#define CELLS_BOX 1 /* of lines, in marked cells; memory of one form means nothing to the other */
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
	LINE,        /* as PACKET, in a line */
	LINE_ROOM,   /* as PACKET_ROOM */
	LINE_ONE,    /* a packet for which there is room; its line tells of a failure at its end */
	PATH,        /* waits on a path */
	PATH_PUT,
	PUT,
	SIGNAL
};

/* Closes the line in any case, as users do. */
ORIEL_DEV int use_line(const struct contract_args *a, struct oriel_group g)
{
	struct oriel_line line;
	int err = oriel_line_open(&line, &a->win, g, a->peer, CELLS_BOX), last;

	if (!err && a->mode == LINE)
		err = oriel_line_recv(&line, g, a->local, 64);
	else if (!err)
		err = oriel_line_send(&line, g, a->local, 64);
	while (!err && a->mode == LINE_ROOM)
		err = oriel_line_send(&line, g, a->local, 64);
	last = oriel_line_close(&line, g);
	return err ? err : last;
}

ORIEL_DEV int use_path(const struct contract_args *a, struct oriel_group g)
{
	struct oriel_path path;
	int err = oriel_path_open(&path, &a->win, g, a->peer, &a->src, a->id);

	if (err)
		return err;
	if (a->mode == PATH)
		return oriel_path_wait(&path, g, a->value);
	return oriel_path_put_signal(&path, g, (uint64_t)oriel_rank(&a->win) * 64, 0, 8, ORIEL_ADD,
				     1);
}

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
	case LINE:
	case LINE_ROOM:
	case LINE_ONE:
		err = use_line(a, g);
		break;
	case PATH:
	case PATH_PUT:
		err = use_path(a, g);
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

static inline void set_deadline(struct setup *s, double seconds)
{
	s->a.win.comm.timeout_ns = (uint64_t)(seconds * 1e9);
}

/* A separate comm with a window, so that those of the frame stay usable.  0 or -1. */
static inline int set_up(struct contract_env *e, double timeout_s, struct setup *s)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	int err;

	memset(s, 0, sizeof(*s));
	o.bytes = 4096;
	o.staging_slot_bytes = 64;
	o.boxes = CELLS_BOX + 1;
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

static inline void tear_down(struct setup *s)
{
	if (s->window)
		CHECK_EQ(oriel_window_destroy(s->window), 0);
	if (s->comm)
		CHECK_EQ(oriel_comm_destroy(s->comm), 0);
}

/* Launches the call, and takes its time. */
static inline double timed(struct contract_env *e, struct setup *s, int mode, int expect)
{
	double start = contract_now();

	s->a.mode = mode;
	if (mode >= LINE && mode <= LINE_ONE)
		s->a.win.box_marked = 1;
	contract_launch_expect(e, &call_kernel, 1, &s->a, expect);
	return contract_now() - start;
}

/* ---- abort --------------------------------------------------------------------------------- */

/* All but rank 0 wait for what never comes; rank 0 gives up. */
static inline void aborted(struct contract_env *e, int mode)
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

static inline uint32_t count_waiting(void)
{
	return __atomic_load_n(waiting, __ATOMIC_ACQUIRE);
}

static inline void go_waiting(void)
{
	__atomic_fetch_add(waiting, 1, __ATOMIC_RELEASE);
}

/* before: count_waiting() when none of this row had gone. */
static inline void until_all_wait(uint32_t before, int others)
{
	double start = contract_now();

	while (count_waiting() != before + (uint32_t)others && contract_now() - start < LONG_S)
		usleep(1000);
	usleep(SOON_US);
}

static inline void die_when_all_wait(uint32_t before, int others)
{
	until_all_wait(before, others);
	kill(getpid(), SIGKILL);
}

/* Every comm with a dead rank learns of it, also a comm that was not in use. */
static inline void check_learns(struct oriel_comm *comm, int status)
{
	double start = contract_now();

	while (!oriel_comm_status(comm) && contract_now() - start < LONG_S)
		usleep(1000);
	CHECK_EQ(oriel_comm_status(comm), status);
}

/* The last rank is killed while the others wait for it. */
static inline void killed(struct contract_env *e, int mode)
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
	check_learns(s.comm, ORIEL_EPEER);
	snprintf(name, sizeof(name), "rank %d", e->nranks - 1);
	CHECK_HAS(oriel_last_error(), name);
	CHECK(timed(e, &s, PUT, ORIEL_EPEER) < AT_ONCE_S);
	took = contract_now();
	CHECK(oriel_comm_barrier(s.comm, ORIEL_WORLD) < 0);
	CHECK_HAS(oriel_last_error(), name);
	CHECK(contract_now() - took < AT_ONCE_S);
	check_learns(e->comm, ORIEL_EPEER);
err_set_up:
	tear_down(&s);
}

/* ---- in the middle of a kernel's work -------------------------------------------------------- */

/* A second thread of the rank that ends the job while its kernel runs too. */
struct ender {
	pthread_t thread;
	struct oriel_comm *comm; /* to abort; NULL: the process is killed */
	uint32_t before;
	int others;
};

static inline void *end_soon(void *arg)
{
	const struct ender *x = (const struct ender *)arg;

	if (!x->comm)
		die_when_all_wait(x->before, x->others);
	until_all_wait(x->before, x->others);
	CHECK_EQ(oriel_comm_abort(x->comm, ORIEL_EABORTED), 0);
	return NULL;
}

/* The kernel would run for ever.  The last rank is killed, or rank 0 aborts. */
static inline void ended_at_work(struct contract_env *e, const struct oriel_kernel *kernel,
				 int status)
{
	int ender = status == ORIEL_EPEER ? e->nranks - 1 : 0;
	struct ender x;
	struct setup s;
	double start;

	x.before = count_waiting();
	x.others = e->nranks - 1;
	if (set_up(e, LONG_S, &s))
		goto err_set_up;
	x.comm = status == ORIEL_EPEER ? NULL : s.comm;
	CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
	if (e->rank == ender)
		REQUIRE(!pthread_create(&x.thread, NULL, end_soon, &x));
	else
		go_waiting();
	start = contract_now();
	s.a.rounds = 1 << 30;
	s.a.win.box_marked = 1; /* lines have cells */
	contract_launch_expect(e, kernel, 1, &s.a, status);
	CHECK(contract_now() - start < AT_ONCE_S);
	if (e->rank == ender)
		pthread_join(x.thread, NULL);
	check_learns(s.comm, status);
	if (status == ORIEL_EPEER)
		check_learns(e->comm, ORIEL_EPEER);
	else /* memory that is freed now would refuse what a NIC still sends */
		CHECK_EQ(oriel_comm_barrier(e->comm, ORIEL_WORLD), 0);
err_set_up:
	tear_down(&s);
}

#endif
