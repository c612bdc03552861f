/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/spin.h - the one loop every wait of the device API goes through.
 *
 * Usage, by the leader of a group:
 *
 *	ori_spin_begin(&s, comm, window_failure, op, peer, id, window, want);
 *	while (!reached(have = ori_load_acquire_sys(word)) && !(err = ori_spin(&s, have)))
 *		;
 *	ori_spin_end(&s);
 *
 * ori_spin() is cheap for the first comm->spin_polls polls (about 4 us on an idle CPU: a look at the
 * clock in the middle of a 0.2 us round trip would double it).  Then, and every ORI_SPIN_POLLS polls
 * after that, it goes the slow way, which tests the failure words and the deadline, yields or sleeps
 * (CPU), names who is late, and keeps this rank's board up to date.  It returns 0 or why the wait
 * must end.
 */
#ifndef ORIEL_DEVICE_SPIN_H
#define ORIEL_DEVICE_SPIN_H

#include "group.h"

#define ORI_SPIN_POLLS 64u

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
	uint64_t work;      /* CPU: the engine's, when last looked at */
	uint64_t active_ns; /* CPU: when it last moved */
	uint32_t asleep;    /* CPU: this waiter is counted in comm->waiters->sleepers */
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
	s->polls = comm->spin_polls;
	s->board_slot = -1;
	s->block = 0;
	s->rounds = 0;
	s->epoch = 0;
	s->asleep = 0;
	s->work = 0;
	s->active_ns = 0;
}

/* The same wait goes on for another peer: age and deadline stay. */
ORIEL_DEV void ori_spin_next(struct ori_spin *s, int peer, uint64_t want)
{
	s->peer = peer;
	s->want = want;
	s->polls = s->comm->spin_polls;
}

/* First failure that concerns a wait or an operation: the window's, else the comm's. */
ORIEL_DEV int ori_failed(const struct oriel_comm_dev *comm, const uint64_t *window_failure)
{
	uint64_t f = window_failure ? ori_load_relaxed_sys(window_failure) : 0;

	if (!f)
		f = ori_load_relaxed_sys(comm->failure);
	return f ? ORIEL_FAILURE_STATUS(f) : 0;
}

#if ORIEL_ON_GPU
ORIEL_DEV int ori_spin_slow(struct ori_spin *s, uint64_t have)
{
	uint64_t now;
	int err = ori_failed(s->comm, s->window_failure);

	(void)have;
	if (err)
		return err;
	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
	if (!s->start_ns)
		s->start_ns = now;
	return now - s->start_ns > s->timeout_ns ? ORIEL_ETIMEDOUT : 0;
}
#else
ORIEL_DEV int ori_spin_slow(struct ori_spin *s, uint64_t have)
{
	return oriel_cpu_spin_slow(s, have);
}
#endif

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
#if !ORIEL_ON_GPU
	if (s->start_ns)
		oriel_cpu_spin_end(s);
#else
	(void)s;
#endif
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
