/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fault/deaths_rank.h - one rank of a job in which one rank falls at a random moment.
 *
 * A phase is a call that all ranks make again and again until it fails.  The victim sets a timer
 * before one of these calls.  Its delay is a random part of the time that the calls before took, so
 * the signal mostly comes inside of the call.  Part of deaths.c.
 */
#ifndef ORI_TEST_DEATHS_RANK_H
#define ORI_TEST_DEATHS_RANK_H

#include <sys/resource.h>
#include <time.h>

#include <oriel/coll.h>
#include <oriel/device.h>
#include <oriel/oriel.h>

#include "boot_job.h"
#include "scenario.h"

#define DEATHS_BYTES 32768u
#define DEATHS_BOOT_NS 20000000u /* what a boot takes here, about */
#define DEATHS_ROUNDS 40         /* before the victim falls, at most */
#define DEATHS_UNHARMED_NS 300000000u
#define DEATHS_AHEAD 16 /* rounds; more than one rank can be ahead of another */

enum phase { BOOT, EXCHANGE, CREATE, PUT, WAIT, BARRIER, COLLECTIVE, DESTROY, PHASES };
enum kind { KILLED, STOPPED, STARVED, KINDS };
enum transport { MAPPED, QUEUED, MIXED, TRANSPORTS };

/* What the seed decides, and words that the ranks share. */
struct fate {
	enum phase phase;
	enum kind kind;
	enum transport transport;
	int nranks, victim, variant;
	int strike;        /* round in which the victim falls */
	unsigned permille; /* of the time that the call before took */
	uint64_t fell_ns;
	uint64_t last_round; /* 0: rounds go on until a call fails */
};

struct mortal {
	struct fate *fate;
	int rank, n;
	uint64_t call_ns; /* how long the timed call took, last time */
	uint64_t begin_ns;
	uint64_t slowest_ns; /* of the calls that destroy */
	struct oriel_boot *boot;
	struct oriel_comm *comm, *sub;
	struct oriel_window *window;
	struct oriel_buffer *buffer;
	struct oriel_allgather_request *gather;
	struct oriel_alltoallv_request *exchange;
	struct oriel_source source;
	void *memory;
};

/* ---- the fall -------------------------------------------------------------------------------- */

static struct fate *falling; /* of the victim, for its signal handler */

/*
 * From now on no mapping and no stack grows.  What the allocator holds already is still given out.
 */
static void starve(void)
{
	struct rlimit none = { 1, 1 };

	setrlimit(RLIMIT_AS, &none);
}

static void fall(int signal_number)
{
	(void)signal_number;
	__atomic_store_n(&falling->fell_ns, ori_now_ns(), __ATOMIC_RELEASE);
	if (falling->kind == STARVED)
		starve();
	else
		kill(getpid(), falling->kind == KILLED ? SIGKILL : SIGSTOP);
}

/* Touches the stack that calls need: it cannot grow later. */
static void deepen_stack(void)
{
	volatile char deep[256 * 1024];

	for (size_t i = 0; i < sizeof(deep); i += 1024)
		deep[i] = 1;
}

static void fall_after(struct fate *fate, uint64_t ns)
{
	struct sigaction action = { .sa_handler = fall, .sa_flags = SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	struct itimerspec when = { .it_value = { (time_t)(ns / 1000000000u),
						 (long)(ns % 1000000000u) + 1 } };
	timer_t timer;

	falling = fate;
	deepen_stack();
	if (sigaction(SIGRTMIN, &action, NULL) || timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &when, NULL))
		_exit(96);
}

/* Around the call that the phase is about. */
static void call_begins(struct mortal *m, uint64_t round)
{
	struct fate *f = m->fate;

	if (m->rank == f->victim && round == (uint64_t)f->strike)
		fall_after(f, m->call_ns * f->permille / 1000);
	m->begin_ns = ori_now_ns();
}

static int call_ended(struct mortal *m, int err)
{
	m->call_ns = ori_now_ns() - m->begin_ns;
	return err;
}

/* ---- phases ---------------------------------------------------------------------------------- */

static int make_window(struct mortal *m)
{
	struct oriel_window_options o = ORIEL_WINDOW_OPTIONS_INIT;

	o.bytes = DEATHS_BYTES;
	return oriel_window_create(m->comm, &o, &m->window);
}

static int drop_window(struct mortal *m)
{
	struct oriel_window *window = m->window;

	m->window = NULL; /* gone in any case */
	return oriel_window_destroy(window);
}

static int round_exchange(struct mortal *m, uint64_t round)
{
	uint64_t mine[8] = { round }, all[4 * 8];
	int err;

	call_begins(m, round);
	if (m->fate->variant)
		return call_ended(m, oriel_comm_allgather(m->comm, ORIEL_WORLD, mine, all,
							  sizeof(mine)));
	err = oriel_buffer_register(m->comm, m->memory, DEATHS_BYTES, &m->buffer);
	if (!err)
		err = oriel_buffer_exchange(m->comm, m->buffer);
	call_ended(m, err);
	if (!err) {
		err = oriel_buffer_release(m->buffer);
		m->buffer = NULL;
	}
	return err;
}

static int round_create(struct mortal *m, uint64_t round)
{
	int err;

	call_begins(m, round);
	err = call_ended(m, make_window(m));
	return err ? err : drop_window(m);
}

static int round_put(struct mortal *m, uint64_t round)
{
	int err;

	call_begins(m, round);
	err = call_ended(m, oriel_window_put_signal(m->window, (m->rank + 1) % m->n, 0, &m->source,
						    0, DEATHS_BYTES, 0, ORIEL_ADD, 1, NULL));
	if (!err)
		err = oriel_window_wait_signal(m->window, (m->rank + m->n - 1) % m->n, 0, ORIEL_GE,
					       round, NULL);
	return err;
}

static int round_wait(struct mortal *m, uint64_t round)
{
	int err = 0;

	for (int r = 0; r < m->n && !err; r++)
		err = oriel_window_signal(m->window, r, 0, ORIEL_ADD, 1, NULL);
	if (err)
		return err;
	call_begins(m, round);
	if (m->fate->variant) /* the sum over all ranks */
		return call_ended(m, oriel_window_wait_signal(m->window, -1, 0, ORIEL_GE,
							      round * (uint64_t)m->n, NULL));
	for (int r = 0; r < m->n && !err; r++)
		err = oriel_window_wait_signal(m->window, r, 0, ORIEL_GE, round, NULL);
	return call_ended(m, err);
}

static int round_barrier(struct mortal *m, uint64_t round)
{
	struct meet_args args;
	int err;

	call_begins(m, round);
	if (m->fate->variant)
		return call_ended(m, oriel_window_barrier(m->window, 0, NULL));
	err = oriel_window_device(m->window, &args.win);
	if (!err)
		err = oriel_launch(m->comm, &meet_kernel, 2, 2, &args, sizeof(args), NULL);
	return call_ended(m, err);
}

static int round_collective(struct mortal *m, uint64_t round)
{
	struct oriel_alltoallv_args args = ORIEL_ALLTOALLV_ARGS_INIT;
	uint64_t values[4] = { round }, sizes[4] = { 512, 512, 512, 512 };
	int err;

	call_begins(m, round);
	args.send_sizes = sizes;
	if (m->fate->variant == 0)
		err = oriel_allreduce(m->comm, NULL, values, 4, ORIEL_TYPE_UINT64, ORIEL_REDUCE_SUM,
				      NULL);
	else if (m->fate->variant == 1)
		err = oriel_allgather_exec(m->gather, NULL, 512, 8, NULL);
	else
		err = oriel_alltoallv_exec(m->exchange, &args, NULL);
	return call_ended(m, err);
}

static int round_destroy(struct mortal *m, uint64_t round)
{
	struct oriel_comm *sub;
	int err;

	err = m->fate->variant ? make_window(m) : oriel_comm_split(m->comm, 0, 0, &m->sub);
	if (err)
		return err;
	call_begins(m, round);
	if (m->fate->variant)
		return call_ended(m, drop_window(m));
	sub = m->sub;
	m->sub = NULL;
	return call_ended(m, oriel_comm_destroy(sub));
}

static const struct {
	const char *name;
	int variants;
	int (*round)(struct mortal *, uint64_t round);
} phases[PHASES] = {
	{ "boot", 1, NULL },
	{ "exchange", 2, round_exchange },
	{ "create", 1, round_create },
	{ "put", 1, round_put },
	{ "wait", 2, round_wait },
	{ "barrier", 2, round_barrier },
	{ "collective", 3, round_collective },
	{ "destroy", 2, round_destroy },
};

/* ---- life ------------------------------------------------------------------------------------ */

static int begin(struct mortal *m)
{
	int err;

	if (m->fate->phase == BOOT && m->rank == m->fate->victim)
		fall_after(m->fate, (uint64_t)DEATHS_BOOT_NS * m->fate->permille / 1000);
	err = oriel_boot_env(&m->boot);
	return err ? err : oriel_comm_create(m->boot, NULL, &m->comm);
}

static int prepare(struct mortal *m)
{
	struct oriel_alltoallv_options o = ORIEL_ALLTOALLV_OPTIONS_INIT;
	enum phase p = m->fate->phase;
	int err = oriel_alloc(m->comm, DEATHS_BYTES, &m->memory);

	o.slot_bytes = 4096;
	if (!err && p != CREATE && p != DESTROY)
		err = make_window(m);
	if (!err && p == PUT)
		err = oriel_window_source(m->window, m->memory, DEATHS_BYTES, &m->source);
	if (!err && p == COLLECTIVE && m->fate->variant == 1)
		err = oriel_allgather_create(m->comm, m->window, NULL, &m->gather);
	if (!err && p == COLLECTIVE && m->fate->variant == 2)
		err = oriel_alltoallv_create(m->comm, &o, &m->exchange);
	return err;
}

/* A rank that lacks memory and goes on well is no failure: then it ends the rounds for all. */
static int is_over(const struct mortal *m, uint64_t round)
{
	struct fate *f = m->fate;
	uint64_t fell = __atomic_load_n(&f->fell_ns, __ATOMIC_ACQUIRE);
	uint64_t last = __atomic_load_n(&f->last_round, __ATOMIC_ACQUIRE);

	if (m->rank == f->victim && f->kind == STARVED && fell && !last &&
	    ori_now_ns() > fell + DEATHS_UNHARMED_NS) {
		last = round + DEATHS_AHEAD;
		__atomic_store_n(&f->last_round, last, __ATOMIC_RELEASE);
	}
	return last && round > last;
}

static int live(struct mortal *m)
{
	enum phase p = m->fate->phase == BOOT ? BARRIER : m->fate->phase;
	int err = begin(m);

	if (!err)
		err = prepare(m);
	for (uint64_t round = 1; !err && !is_over(m, round); round++)
		err = phases[p].round(m, round);
	return err;
}

static void end_took(struct mortal *m, const char *call, int bad)
{
	uint64_t now = ori_now_ns();

	if (bad)
		check_fail(__FILE__, __LINE__, "%s of rank %d: %s", call, m->rank,
			   oriel_last_error());
	if (now - m->begin_ns > m->slowest_ns)
		m->slowest_ns = now - m->begin_ns;
	m->begin_ns = now;
}

/* Collective calls may report what happened, but all give back what they have. */
static void take_down(struct mortal *m)
{
	m->begin_ns = ori_now_ns();
	end_took(m, "comm_destroy (split)", oriel_comm_destroy(m->sub) > 0);
	end_took(m, "allgather_destroy", oriel_allgather_destroy(m->gather) != 0);
	end_took(m, "alltoallv_destroy", oriel_alltoallv_destroy(m->exchange) > 0);
	end_took(m, "buffer_release", oriel_buffer_release(m->buffer) > 0);
	end_took(m, "window_destroy", oriel_window_destroy(m->window) > 0);
	if (m->memory)
		end_took(m, "free", oriel_free(m->comm, m->memory) > 0);
	end_took(m, "comm_destroy", oriel_comm_destroy(m->comm) > 0);
	end_took(m, "boot_destroy", oriel_boot_destroy(m->boot) != 0);
}

#endif
