/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock.c - locks: a queue of PEs, served in the order in which they came.
 *
 * The 8 bytes of a lock are two words on each PE.  `tail`, on one PE (the lock's home), is 0 or the
 * number of the last PE in the queue plus 1.  `node`, on each PE, is about that PE's own place:
 *
 *	BUSY	a thread of this PE holds the lock or waits for it; set and cleared by that thread
 *	next	the PE behind it in the queue, plus 1; added by that PE
 *	GRANT	the lock has been handed over; added by the PE before it
 *
 * A PE puts itself into `tail` by a swap and learns who is before it.  It tells that PE, and then
 * waits for its own `node`: nobody polls over the network.  A lock that nobody uses is 0
 * everywhere, as the program must initialise it.
 */
#include "amo.h"
#include "wait.h"

#define GRANT 0x80000000u /* the sign, so that a wait can ask for "less than 0" */
#define BUSY 0x40000000u
#define NEXT 0x3fffffffu

struct lock {
	const char *call;
	uint64_t node, tail; /* offsets in the window */
	int home;
};

static struct lock lock_of(const char *call, const volatile long *address)
{
	struct lock l;

	osh_check_ready(call);
	l.call = call;
	l.node = osh_offset_of(call, "lock", (const void *)(uintptr_t)address, sizeof(long));
	if (l.node % sizeof(long))
		osh_fail_alignment(call, (const void *)(uintptr_t)address, sizeof(long));
	l.tail = l.node + 4;
	/* Locks that are neighbours have different homes. */
	l.home = (int)(l.node / sizeof(long) % osh.npes);
	return l;
}

static uint32_t at_node(const struct lock *l, int pe, int op, uint32_t expected, uint32_t value)
{
	int fetch = op == ORIEL_ATOMIC_COMPARE_SWAP || op == ORIEL_ATOMIC_FETCH;

	return (uint32_t)osh_amo_at(l->call, pe, l->node, 4, op, expected, value, fetch);
}

static uint32_t at_tail(const struct lock *l, int op, uint32_t expected, uint32_t value)
{
	return (uint32_t)osh_amo_at(l->call, l->home, l->tail, 4, op, expected, value, 1);
}

static uint32_t my_node(const struct lock *l)
{
	return at_node(l, osh.pe, ORIEL_ATOMIC_FETCH, 0, 0);
}

/* Takes this PE's place; 0: another thread of this PE has it. */
static int take_place(const struct lock *l)
{
	return at_node(l, osh.pe, ORIEL_ATOMIC_COMPARE_SWAP, 0, BUSY) == 0;
}

static void leave_place(const struct lock *l)
{
	at_node(l, osh.pe, ORIEL_ATOMIC_SET, 0, 0);
}

/* A wait for `node`.  At the deadline the line names who is known to be before this PE. */
static void wait_node(const struct lock *l, int cmp, uint64_t value, int before)
{
	int err;

	osh_awaited_begin(l->node, sizeof(int32_t));
	err = oriel_wait_word(&osh.dev, osh.context.group, l->node, ORIEL_TYPE_INT32, cmp, value);
	osh_awaited_end();
	if (err == ORIEL_ETIMEDOUT)
		osh_fail(l->call,
			 "gave up waiting for the lock: PE %d is before this PE; it holds the lock "
			 "or waits for it",
			 before);
	osh_check(l->call, err);
}

static void wait_behind(const struct lock *l, int before)
{
	at_node(l, before, ORIEL_ATOMIC_OR, 0, (uint32_t)osh.pe + 1);
	wait_node(l, SHMEM_CMP_LT, 0, before);
	at_node(l, osh.pe, ORIEL_ATOMIC_AND, 0, ~GRANT);
}

/* ---- public ---------------------------------------------------------------------------------- */

void shmem_set_lock(volatile long *address)
{
	struct lock l = lock_of("shmem_set_lock", address);
	uint32_t last;

	while (!take_place(&l))
		wait_node(&l, SHMEM_CMP_EQ, 0, osh.pe);
	last = at_tail(&l, ORIEL_ATOMIC_SWAP, 0, (uint32_t)osh.pe + 1);
	if (last)
		wait_behind(&l, (int)last - 1);
}

int shmem_test_lock(volatile long *address)
{
	struct lock l = lock_of("shmem_test_lock", address);

	if (take_place(&l)) {
		if (!at_tail(&l, ORIEL_ATOMIC_COMPARE_SWAP, 0, (uint32_t)osh.pe + 1))
			return 0;
		leave_place(&l);
	}
	osh_not_yet(l.call);
	return 1;
}

/*
 * The stores of the critical region are complete before the lock is free.  A PE that has swapped
 * itself into `tail` but has not told this PE yet is waited for.
 */
void shmem_clear_lock(volatile long *address)
{
	struct lock l = lock_of("shmem_clear_lock", address);
	uint32_t me = (uint32_t)osh.pe + 1, node = my_node(&l);

	if (!(node & BUSY))
		osh_fail(l.call, "PE %d does not hold the lock", osh.pe);
	osh_quiet(l.call, &osh.context);
	if (!(node & NEXT)) {
		if (at_tail(&l, ORIEL_ATOMIC_COMPARE_SWAP, me, 0) == me) {
			leave_place(&l);
			return;
		}
		wait_node(&l, SHMEM_CMP_NE, BUSY, osh.pe);
		node = my_node(&l);
	}
	leave_place(&l);
	at_node(&l, (int)(node & NEXT) - 1, ORIEL_ATOMIC_OR, 0, GRANT);
}
