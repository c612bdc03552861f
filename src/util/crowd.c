/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/crowd.c - do the threads that want to run outnumber the cores?
 *
 * Owns three counts of this process.  All accesses are relaxed, because the answer is a hint: it
 * decides how long a wait polls before it yields its core.
 */
#include "util.h"

static int ranks_on_host = 1;
static int ranks_here = 1;  /* how many of them are in this process */
static int running_threads; /* threads of running launches in this process */

static void raise_to(int *word, int value)
{
	if (value > __atomic_load_n(word, __ATOMIC_RELAXED))
		__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

void ori_crowd_ranks_set(int on_host, int in_process)
{
	raise_to(&ranks_on_host, on_host);
	raise_to(&ranks_here, in_process);
}

void ori_crowd_threads_add(int threads)
{
	__atomic_fetch_add(&running_threads, threads, __ATOMIC_RELAXED);
}

int ori_crowded(void)
{
	static int cores;
	int n = __atomic_load_n(&cores, __ATOMIC_RELAXED);
	int here = __atomic_load_n(&ranks_here, __ATOMIC_RELAXED);
	int threads = __atomic_load_n(&running_threads, __ATOMIC_RELAXED);
	int others = __atomic_load_n(&ranks_on_host, __ATOMIC_RELAXED) - here;

	if (!n) {
		n = ori_core_count();
		__atomic_store_n(&cores, n, __ATOMIC_RELAXED);
	}
	/* Other processes are assumed to run as many threads per rank as this one. */
	if (threads < here)
		threads = here;
	return threads + others * (threads / here) > n;
}
