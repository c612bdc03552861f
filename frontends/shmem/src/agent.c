/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent.c - the agent of a PE: a thread that makes atomics on the PE's memory for queued PEs.
 *
 * The agents have a window of their own.  Each PE has there, per asking PE, a ring of requests and
 * a ring of answers.  A request is a put of 24 bytes and then a signal, ASKED.  The agent executes
 * the requests of a PE in order.  Its answer is the previous value, if the PE wants it, and then a
 * signal, ANSWERED.  Both signals only count.  A PE has at most RING requests under way to another,
 * so no slot is written before its last use is over.
 *
 * Between requests the agent rests in three ways.  Right after one it yields.  Then it sleeps as a
 * wait of Oriel does, and the engine wakes it.  But while this PE has a sleeper, each barrier
 * arrival and each signal of a mapped PE makes a system call.  So after a while without requests
 * the agent only naps: then the first request waits for up to 1 ms.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "amo.h"

#define RING 16
/* Ids of signals. */
#define ASKED 0
#define ANSWERED 1
/* Answers leave by a lane that no context of the program is likely to have. */
#define AGENT_BLOCK 0x7fffffffu
/* How long after the last request the agent yields, and how long it sleeps to be woken. */
#define YIELD_NS 300000ull
#define SLEEPER_NS 50000000ull
#define SLEEP_NS 100000 /* a NIC wakes nobody */
#define NAP_NS 1000000

/* What a PE asks for; it travels by value, in one WQE. */
struct request {
	uint64_t what; /* offset, from bit 48 on the bytes, from bit 56 on the operation */
	uint64_t expected;
	uint64_t value;
};

#define FETCH_BIT 0x80u /* of the operation: the previous value is wanted */

/* The memory of one PE in the window: what another PE asks of it, and answers to it. */
struct line {
	struct request requests[RING]; /* by that PE */
	uint64_t answers[RING];        /* by that PE's agent */
};

/* This PE's requests to another one. */
struct out {
	pthread_mutex_t lock; /* held while a request is posted, and until its answer is read */
	uint64_t posted;      /* written under the lock */
};

static struct {
	struct oriel_window *window;
	struct oriel_window_dev dev;
	struct out *out; /* [npes] */
	struct line *lines;
	uint64_t *served; /* [npes]: requests executed; by the agent */
	pthread_t thread;
	int running;
	int stop; /* atomic */
} agent;

/* ---- asking ---------------------------------------------------------------------------------- */

static uint64_t line_offset(uint64_t slot, int answers)
{
	/* A PE's line at another one has its own number there. */
	uint64_t in_line = answers ? offsetof(struct line, answers) + slot * sizeof(uint64_t) :
				     slot * sizeof(struct request);

	return (uint64_t)(unsigned int)osh.pe * sizeof(struct line) + in_line;
}

/* Waits until the PE has answered the first `count` requests. */
static void wait_answers(const char *call, int pe, uint64_t count)
{
	osh_check(call, oriel_wait_signal_from(&agent.dev, osh.context.group, pe, ANSWERED,
					       ORIEL_GE, count));
}

static void post(const char *call, int pe, uint64_t slot, const struct request *request)
{
	osh_check(call, oriel_put_value(&agent.dev, osh.context.group, pe, line_offset(slot, 0),
					request, sizeof(*request)));
	osh_check(call, oriel_signal(&agent.dev, osh.context.group, pe, ASKED, ORIEL_ADD, 1));
}

uint64_t osh_agent_ask(const char *call, int pe, uint64_t offset, uint64_t bytes, int op,
		       uint64_t expected, uint64_t value, int fetch)
{
	struct request request = {
		offset | bytes << 48 | (uint64_t)((unsigned int)op | (fetch ? FETCH_BIT : 0)) << 56,
		expected, value
	};
	struct out *out = &agent.out[pe];
	uint64_t number, old = 0;

	pthread_mutex_lock(&out->lock);
	number = out->posted;
	if (number >= RING)
		wait_answers(call, pe, number + 1 - RING);
	post(call, pe, number % RING, &request);
	/* Relaxed: osh_agent_drain() counts what this thread, or one it has met, has posted. */
	__atomic_store_n(&out->posted, number + 1, __ATOMIC_RELAXED);
	if (fetch) {
		wait_answers(call, pe, number + 1);
		old = agent.lines[pe].answers[number % RING];
	}
	pthread_mutex_unlock(&out->lock);
	return old;
}

void osh_agent_drain(const char *call)
{
	uint64_t posted;
	int pe;

	for (pe = 0; agent.out && pe < (int)osh.npes; pe++) {
		posted = __atomic_load_n(&agent.out[pe].posted, __ATOMIC_RELAXED); /* as above */
		if (posted)
			wait_answers(call, pe, posted);
	}
}

/* ---- serving --------------------------------------------------------------------------------- */

static struct oriel_group agent_group(void)
{
	struct oriel_group g = oriel_group_thread();

	g.block = AGENT_BLOCK;
	return g;
}

static int answer(int pe, uint64_t slot, int fetch, uint64_t old)
{
	struct oriel_group g = agent_group();
	int err = 0;

	if (fetch)
		err = oriel_put_value(&agent.dev, g, pe, line_offset(slot, 1), &old, sizeof(old));
	return err ? err : oriel_signal(&agent.dev, g, pe, ANSWERED, ORIEL_ADD, 1);
}

/* Executes the next request of a PE. */
static int serve_one(int pe)
{
	uint64_t slot = agent.served[pe] % RING;
	const struct request *r = &agent.lines[pe].requests[slot];
	uint64_t offset = r->what & 0xffffffffffffull, bytes = r->what >> 48 & 0xff;
	unsigned int op = (unsigned int)(r->what >> 56);
	uint64_t old = osh_native((uint8_t *)osh.memory + offset, bytes, (int)(op & ~FETCH_BIT),
				  r->expected, r->value);

	if ((op & ~FETCH_BIT) != ORIEL_ATOMIC_FETCH)
		osh_wake(osh.pe, offset, bytes);
	agent.served[pe]++;
	return answer(pe, slot, (op & FETCH_BIT) != 0, old);
}

/* Executes all requests that have come. */
static int serve(uint64_t *total)
{
	int pe, err = 0;

	for (pe = 0; pe < (int)osh.npes && !err; pe++) {
		while (!err && oriel_read_signal_from(&agent.dev, pe, ASKED) != agent.served[pe]) {
			err = serve_one(pe);
			++*total;
		}
	}
	return err;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Sleeps as struct oriel_waiters describes: announce, look once more, sleep on the epoch. */
static void sleep_until_woken(uint64_t total)
{
	struct oriel_waiters *w = agent.dev.comm.waiters;
	const struct timespec longest = { 0, SLEEP_NS };
	uint32_t epoch;

	/* seq_cst without a partner: a waker that misses the announcement costs one SLEEP_NS */
	__atomic_fetch_add(&w->sleepers, 1, __ATOMIC_SEQ_CST);
	/* acquire without a partner of ours: the word that is read next is no older */
	epoch = __atomic_load_n(&w->epoch, __ATOMIC_ACQUIRE);
	if (oriel_read_signal(&agent.dev, ASKED) == total)
		syscall(SYS_futex, &w->epoch, FUTEX_WAIT, epoch, &longest, NULL, 0);
	/* seq_cst without a partner, as above */
	__atomic_fetch_sub(&w->sleepers, 1, __ATOMIC_SEQ_CST);
}

static void rest(uint64_t total, uint64_t idle_ns)
{
	const struct timespec nap = { 0, NAP_NS };

	if (idle_ns < YIELD_NS)
		sched_yield();
	else if (idle_ns < SLEEPER_NS)
		sleep_until_woken(total);
	else
		nanosleep(&nap, NULL);
}

/* A failed comm ends the thread.  The program's own calls report the failure. */
static void *run(void *unused)
{
	uint64_t total = 0, last = 0;
	int err = 0;

	(void)unused;
	/* [SHMEM3] acquire, process; partner [SHMEM2] in osh_agent_close(). */
	while (!err && !__atomic_load_n(&agent.stop, __ATOMIC_ACQUIRE)) {
		oriel_cpu_drive(agent.dev.comm.engine);
		if (oriel_read_signal(&agent.dev, ASKED) != total) {
			err = serve(&total);
			last = now_ns();
			continue;
		}
		rest(total, now_ns() - last);
		err = ori_failed(&agent.dev.comm, agent.dev.failure);
	}
	return NULL;
}

/* ---- its life -------------------------------------------------------------------------------- */

static void start(void)
{
	sigset_t all, before;
	int err;

	/* Signals of the program are for its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&agent.thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		osh_fail("shmem_init", "cannot start a thread: %s", strerror(err));
	agent.running = 1;
}

void osh_agent_open(void)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;
	unsigned int pe;

	if (!osh.any_queued)
		return;
	o.signals = 2;
	o.counters = 0;
	o.barriers = 0;
	o.bytes = osh.npes * sizeof(struct line);
	osh_check("shmem_init", oriel_window_create(osh.comm, &o, &agent.window));
	osh_check("shmem_init", oriel_window_device(agent.window, &agent.dev));
	agent.lines = oriel_window_buffer(agent.window);
	agent.out = calloc(osh.npes, sizeof(*agent.out));
	agent.served = calloc(osh.npes, sizeof(*agent.served));
	if (!agent.out || !agent.served)
		osh_fail("shmem_init", "no memory for %u PEs", osh.npes);
	for (pe = 0; pe < osh.npes; pe++)
		pthread_mutex_init(&agent.out[pe].lock, NULL);
	agent.stop = 0;
	if (osh.nqueued)
		start();
}

/* All PEs have met after their last requests. */
void osh_agent_close(void)
{
	if (!agent.window)
		return;
	if (agent.running) {
		/*
		 * [SHMEM2] release, process; partner [SHMEM3] in run().  Publishes nothing but the
		 * end itself.
		 */
		__atomic_store_n(&agent.stop, 1, __ATOMIC_RELEASE);
		pthread_join(agent.thread, NULL);
		agent.running = 0;
	}
	osh_check("shmem_finalize", oriel_window_destroy(agent.window));
	free(agent.out);
	free(agent.served);
	agent.out = NULL;
	agent.window = NULL;
}
