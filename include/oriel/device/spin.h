/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/spin.h - the one loop that every wait of the device API uses.
 *
 * Usage, by the leader of a group:
 *
 *	ori_spin_begin(&s, comm, window_failure, op, peer, id, window, want);
 *	while (!reached(have = ori_load_acquire_sys(word)) && !(err = ori_spin(&s, have)))
 *		;
 *	ori_spin_end(&s);
 *
 * ori_spin() is cheap for the first comm->spin_polls polls (about 4 us on an idle CPU).  Reading
 * the clock in the middle of a 0.2 us round trip would double its time.  After these polls, and
 * then every ORI_SPIN_POLLS polls, it takes the slow path.  That tests the failure words and the
 * deadline, yields or sleeps (CPU), logs which rank is late, and updates this rank's board.  It
 * returns 0, or the reason why the wait must end.
 *
 * CUDA: polls of device memory follow each other without pause.  Polls of host memory
 * (ori_spin_host) have a pause between them, because each crosses the bus.  The slow path comes
 * every 64 polls (12 of host memory), about every 20 us.  It loads the two failure words together,
 * so it costs one poll.  A kernel cannot print.  So a wait older than 1 ms is entered on the board
 * in host memory, in slot block % slots, where a host thread finds it.  The slow path is one
 * function per translation unit.  Inlined into every wait, it spread the fast paths over many lines
 * of the instruction cache.  It takes and returns plain values, so that struct ori_spin stays in
 * registers.
 */
#ifndef ORIEL_DEVICE_SPIN_H
#define ORIEL_DEVICE_SPIN_H

#include "group.h"

#define ORI_SPIN_POLLS 64u
#define ORI_SPIN_HOST_POLLS 12u      /* CUDA, host memory: one takes 1.6 us */
#define ORI_SPIN_BOARD_NS 1000000ull /* CUDA: age from which a wait is on the board */

struct ori_spin {
	const struct oriel_comm_dev *comm;
	const uint64_t *window_failure; /* NULL for waits of the transport layer */
	uint64_t want;
	uint64_t start_ns; /* 0 until the first slow poll */
	uint64_t next_late_ns;
	uint64_t timeout_ns;
	int32_t op, peer, id, window;
	uint32_t polls;     /* left before the next slow one */
	int32_t board_slot; /* -1: not on the board */
	uint32_t block;
	uint32_t rounds;    /* slow polls so far */
	uint32_t epoch;     /* CPU: value of the futex word when the waiter announced itself */
	uint64_t work;      /* CPU: the engine's work count at the last test */
	uint64_t active_ns; /* CPU: when that count last changed */
	uint32_t asleep;    /* CPU: this waiter is counted in comm->waiters->sleepers */
	uint32_t host;      /* CUDA: the word lies in host memory */
};

ORIEL_DEV void ori_spin_begin(struct ori_spin *s, const struct oriel_comm_dev *comm,
			      const uint64_t *window_failure, int op, int peer, int id, int window,
			      uint64_t want)
{
	s->comm = comm;
	s->window_failure = window_failure;
	s->want = want;
	s->start_ns = 0;
	s->next_late_ns = 0;
	s->timeout_ns = comm->timeout_ns;
	s->op = op;
	s->peer = peer;
	s->id = id;
	s->window = window;
	s->polls = ORIEL_ON_GPU ? ORI_SPIN_POLLS : comm->spin_polls;
	s->board_slot = -1;
	s->block = 0;
	s->rounds = 0;
	s->epoch = 0;
	s->asleep = 0;
	s->work = 0;
	s->active_ns = 0;
	s->host = 0;
}

/*
 * Does the word that is waited for lie in host memory?  After ori_spin_begin() or
 * ori_spin_next().
 */
ORIEL_DEV void ori_spin_host(struct ori_spin *s, int host)
{
	s->host = (uint32_t)host;
	if (ORIEL_ON_GPU && host)
		s->polls = ORI_SPIN_HOST_POLLS;
}

/* The group's own deadline, if it has one.  After ori_spin_begin(). */
ORIEL_DEV void ori_spin_within(struct ori_spin *s, struct oriel_group g)
{
	if (g.timeout_ms)
		s->timeout_ns = (uint64_t)g.timeout_ms * 1000000u;
}

/* The same wait continues for another peer: age and deadline stay. */
ORIEL_DEV void ori_spin_next(struct ori_spin *s, int peer, uint64_t want)
{
	s->peer = peer;
	s->want = want;
	s->polls = ORIEL_ON_GPU ? ORI_SPIN_POLLS : s->comm->spin_polls;
}

/*
 * The two failure words as they were loaded.  Load and test are separate, so that a GPU loads both
 * words at once, in parallel to other work.  One after the other, before a signal of 0.8 us, they
 * take half of that time.
 */
struct ori_failures {
	uint64_t window, comm;
};

ORIEL_DEV struct ori_failures ori_failures_load(const struct oriel_comm_dev *comm,
						const uint64_t *window_failure)
{
	struct ori_failures look;

	look.window = window_failure ? ori_load_relaxed_sys(window_failure) : 0;
	look.comm = ori_load_relaxed_sys(comm->failure);
	return look;
}

ORIEL_DEV int ori_failures_any(struct ori_failures look)
{
	return (look.window | look.comm) != 0;
}

ORIEL_DEV_OUT int ori_failures_decode(uint64_t window, uint64_t comm)
{
	return ORIEL_FAILURE_STATUS(window ? window : comm);
}

/* First failure that concerns a wait or an operation: the window's, else the comm's. */
ORIEL_DEV int ori_failures_status(struct ori_failures look)
{
	return ori_failures_any(look) ? ori_failures_decode(look.window, look.comm) : 0;
}

/* The group agrees on what its leader saw; the other threads pass zeros. */
ORIEL_DEV int ori_group_agree_failures(struct oriel_group g, struct ori_failures look)
{
#if ORIEL_ON_GPU
	if (g.scope == ORIEL_GROUP_BLOCK) {
		if (!__syncthreads_or(ori_failures_any(look)))
			return 0;
		return ori_block_verdict(g.thread == 0,
					 ori_failures_decode(look.window, look.comm));
	}
#endif
	return ori_group_agree(g, ori_failures_status(look));
}

ORIEL_DEV int ori_failed(const struct oriel_comm_dev *comm, const uint64_t *window_failure)
{
	return ori_failures_status(ori_failures_load(comm, window_failure));
}

/* The same word in the half of control memory that engines write. */
ORIEL_DEV void *ori_host_half(const struct oriel_comm_dev *comm, const void *near)
{
	return (uint8_t *)(uintptr_t)near + comm->host_shift;
}

/*
 * The same, for waits that test rarely.  A queued peer reports a window's failure in the host's
 * half.  The wait that finds it there copies it to the word that all calls test.  The host copies
 * the comm's failure, but this wait may keep the driver from copying.  So the wait copies that one
 * too.
 */
ORIEL_DEV_OUT int ori_failed_anywhere(const struct oriel_comm_dev *comm, uint64_t *window_failure)
{
	struct ori_failures told;

	if (!comm->host_shift)
		return ori_failed(comm, window_failure);
	told.window = 0;
	if (window_failure)
		told.window =
			ori_load_relaxed_sys((const uint64_t *)ori_host_half(comm, window_failure));
	told.comm = ori_load_relaxed_sys((const uint64_t *)ori_host_half(comm, comm->failure));
	/* No partner for either: readers load a failure word relaxed. */
	if (told.window)
		ori_compare_swap_acq_rel_sys(window_failure, 0, told.window);
	if (told.comm)
		ori_compare_swap_acq_rel_sys((uint64_t *)(uintptr_t)comm->failure, 0, told.comm);
	return ori_failed(comm, window_failure);
}

#if ORIEL_ON_GPU
/*
 * A fence on a rare path needs its own function.  Otherwise the compiler puts the small fence under
 * a predicate into the common path, where it still costs its time.
 */
ORIEL_DEV_OUT void ori_board_state(struct oriel_board_slot *slot, uint32_t state)
{
	/*
	 * [SPIN1] release, system scope; partner [BOARD2] in diag/board.c, a host thread.
	 * Publishes the other members of the slot.  Without it a report could name the peer of an
	 * earlier wait.
	 */
	ori_store_release32_sys(&slot->state, state);
}

/*
 * Returns the slot, or -1.  Of lanes that wait together, the first one still waiting writes the
 * slot.  since_ns is on the GPU's clock, so a reader counts from the time it first saw the slot.
 */
ORIEL_DEV int ori_board_write(struct ori_spin s, uint64_t have)
{
	int n = (int)(blockIdx.x % ORIEL_BOARD_SLOTS);
	struct oriel_board_slot *slot = &s.comm->board->slot[n];

	if ((threadIdx.x & 31u) != (uint32_t)__ffs((int)__activemask()) - 1u)
		return s.board_slot;
	slot->op = s.op;
	slot->peer = s.peer;
	slot->id = s.id;
	slot->window = s.window;
	slot->block = (int32_t)blockIdx.x;
	slot->have = have;
	slot->want = s.want;
	slot->since_ns = s.start_ns;
	ori_board_state(slot, 2);
	return n;
}

/* What a slow poll changes in struct ori_spin. */
struct ori_slow_poll {
	uint64_t start_ns;
	int32_t board_slot;
	int32_t err;
};

ORIEL_DEV_OUT struct ori_slow_poll ori_spin_poll(const struct oriel_comm_dev *comm,
						 const uint64_t *window_failure, uint64_t want,
						 uint64_t have, uint64_t start_ns,
						 uint64_t timeout_ns, int op, int peer, int id,
						 int window, int board_slot)
{
	struct ori_slow_poll p;
	struct ori_spin s;
	uint64_t now, age;

	p.err = ori_failed(comm, window_failure);
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	p.start_ns = start_ns ? start_ns : now;
	p.board_slot = board_slot;
	age = now - p.start_ns;
	if (p.err || age <= ORI_SPIN_BOARD_NS)
		return p;
	ori_spin_begin(&s, comm, window_failure, op, peer, id, window, want);
	s.start_ns = p.start_ns;
	s.board_slot = board_slot;
	p.board_slot = ori_board_write(s, have);
	p.err = ori_failed_anywhere(comm, (uint64_t *)(uintptr_t)window_failure);
	if (!p.err && age > timeout_ns)
		p.err = ORIEL_ETIMEDOUT;
	return p;
}

ORIEL_DEV int ori_spin_slow(struct ori_spin *s, uint64_t have)
{
	struct ori_slow_poll p = ori_spin_poll(s->comm, s->window_failure, s->want, have,
					       s->start_ns, s->timeout_ns, s->op, s->peer, s->id,
					       s->window, s->board_slot);

	s->start_ns = p.start_ns;
	s->board_slot = p.board_slot;
	return p.err;
}

/*
 * How often the caller may poll before it calls ori_spin() again.  For words of device memory: up
 * to the next slow poll, in a loop of load, comparison and count.  Anything else in that loop would
 * delay the poll that finds the word.
 */
ORIEL_DEV uint32_t ori_spin_polls(struct ori_spin *s)
{
	uint32_t polls = s->host ? 0 : s->polls;

	s->polls -= polls;
	return polls;
}

ORIEL_DEV int ori_spin(struct ori_spin *s, uint64_t have)
{
	if (s->host)
		ori_pause();
	if (s->polls > 0) {
		s->polls--;
		return 0;
	}
	s->polls = s->host ? ORI_SPIN_HOST_POLLS : ORI_SPIN_POLLS;
	return ori_spin_slow(s, have);
}

ORIEL_DEV void ori_spin_end(struct ori_spin *s)
{
	if (s->board_slot >= 0)
		ori_board_state(&s->comm->board->slot[s->board_slot], 0);
}
#else
/* CPU: every poll drives the engine; ori_spin() does that. */
ORIEL_DEV uint32_t ori_spin_polls(struct ori_spin *s)
{
	(void)s;
	return 0;
}

ORIEL_DEV int ori_spin_slow(struct ori_spin *s, uint64_t have)
{
	return oriel_cpu_spin_slow(s, have);
}

ORIEL_DEV int ori_spin(struct ori_spin *s, uint64_t have)
{
	ori_drive(s->comm->engine);
	if (s->polls > 0) {
		s->polls--;
		ori_pause();
		return 0;
	}
	s->polls = ORI_SPIN_POLLS;
	return ori_spin_slow(s, have);
}

ORIEL_DEV void ori_spin_end(struct ori_spin *s)
{
	if (s->start_ns)
		oriel_cpu_spin_end(s);
}
#endif

/*
 * Did the wait never take the slow path?  Then it has no status and no slot on the board.  CPU:
 * always 0, because a test may install its own slow path.
 */
ORIEL_DEV int ori_spin_was_short(const struct ori_spin *s)
{
	return ORIEL_ON_GPU && !s->start_ns;
}

/* Has a count that may wrap reached `want`?  The two are less than 2^63 apart. */
ORIEL_DEV int ori_reached(uint64_t have, uint64_t want)
{
	return (int64_t)(have - want) >= 0;
}

ORIEL_DEV int ori_compare(uint64_t have, int cmp, uint64_t want)
{
	switch (cmp) {
	case ORIEL_EQ:
		return have == want;
	case ORIEL_NE:
		return have != want;
	case ORIEL_GT:
		return !ori_reached(want, have);
	case ORIEL_GE:
		return ori_reached(have, want);
	case ORIEL_LT:
		return !ori_reached(have, want);
	default:
		return ori_reached(want, have);
	}
}

#endif
