/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * awaited.c - which words of a PE its sleeping waits look at.
 *
 * A PE that sleeps in a wait must be woken by the store that it waits for.  A wake is a system call
 * of half a microsecond, so other stores must not make one: a PE that sleeps in a barrier would
 * slow down all puts to it.  Each PE shows one range of offsets.  With several waiting threads it
 * is the whole window.
 *
 * All of this is a hint.  A waiter that misses its wake looks again after at most 1 ms.
 */
#include "osh.h"

static unsigned int waiting; /* threads of this PE */

static void show(uint64_t low, uint64_t high)
{
	__atomic_store_n(&osh.control->awaited_low, low, __ATOMIC_RELAXED);
	__atomic_store_n(&osh.control->awaited_high, high, __ATOMIC_RELAXED);
}

/* Threads that begin and end at the same time leave a range that is too large, never too small. */
static void show_all_unless(unsigned int expected)
{
	if (OSH_UNLIKELY(__atomic_load_n(&waiting, __ATOMIC_RELAXED) != expected))
		show(0, UINT64_MAX);
}

void osh_awaited_begin(uint64_t offset, uint64_t bytes)
{
	if (OSH_LIKELY(__atomic_add_fetch(&waiting, 1, __ATOMIC_RELAXED) == 1))
		show(offset, offset + bytes);
	show_all_unless(1);
}

void osh_awaited_end(void)
{
	if (OSH_LIKELY(__atomic_sub_fetch(&waiting, 1, __ATOMIC_RELAXED) == 0)) {
		show(0, 0);
		show_all_unless(0);
	}
}

void osh_wake_awaited(int pe, uint64_t offset, uint64_t bytes)
{
	const struct osh_control *c = (const struct osh_control *)osh.peers[pe];

	if (offset < __atomic_load_n(&c->awaited_high, __ATOMIC_RELAXED) &&
	    offset + bytes > __atomic_load_n(&c->awaited_low, __ATOMIC_RELAXED))
		oriel_wake(&osh.dev, pe);
}
