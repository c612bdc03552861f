/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/clock.c - time, random bytes and the number of cores, as the system gives them.
 *
 * Owns no state.  Called by: everybody, from any thread.
 */
#include <errno.h>
#include <sched.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "util.h"

uint64_t ori_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * ORI_NS_PER_S + (uint64_t)t.tv_nsec;
}

void ori_sleep_ns(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / ORI_NS_PER_S), (long)(ns % ORI_NS_PER_S) };

	nanosleep(&t, NULL); /* an early return by a signal is harmless */
}

uint64_t ori_deadline_ns(uint64_t ns)
{
	uint64_t now = ori_now_ns();

	return ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
}

int ori_random_bytes(void *out, size_t bytes)
{
	unsigned char *at = out;

	while (bytes) {
		ssize_t n = getrandom(at, bytes, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return ori_fail_errno(n < 0 ? errno : EIO,
					      "no random bytes from the system");
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* The kernel refuses a set smaller than its own, so the set grows until the call succeeds. */
int ori_core_count(void)
{
	long online;

	for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
		size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
		cpu_set_t *set = CPU_ALLOC((size_t)cpus);
		int count = 0;

		if (!set)
			break;
		if (!sched_getaffinity(0, bytes, set))
			count = CPU_COUNT_S(bytes, set);
		CPU_FREE(set);
		if (count > 0)
			return count;
		if (errno != EINVAL)
			break;
	}
	online = sysconf(_SC_NPROCESSORS_ONLN);
	return online > 0 ? (int)online : 1;
}
