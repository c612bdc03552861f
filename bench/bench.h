/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/bench.h - what the benchmark programs share: clock, pinning, median, one output format.
 *
 * Each program prints lines "name value unit"; bench/run.sh reads them.  Nothing of Oriel is used
 * here: bench/limit must not depend on it.
 */
#ifndef ORI_BENCH_H
#define ORI_BENCH_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BENCH_CORES 2  /* ranks share this many */
#define BENCH_BLOCKS 5 /* a figure is the median of this many timed loops */
#define BENCH_DEADLINE_S 30.0

static inline double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Pins the caller to the (rank % 2)-th core that it may use.  All compared programs do the same. */
static inline int bench_pin(int rank)
{
	static cpu_set_t may; /* the mask before the first pinning; forked children inherit it */
	static int known;
	int want = rank % BENCH_CORES, seen = 0;
	cpu_set_t one;

	if (!known && sched_getaffinity(0, sizeof(may), &may))
		return -1;
	known = 1;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &may) || seen++ != want)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		return sched_setaffinity(0, sizeof(one), &one);
	}
	return -1; /* fewer cores than that: the caller is not pinned */
}

static inline int bench_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline double bench_median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), bench_by_value);
	return v[n / 2];
}

static inline void bench_print(const char *name, double value, const char *unit)
{
	printf("%s %.6g %s\n", name, value, unit);
	fflush(stdout);
}

/* Number of loops: large sizes move about 1 GiB, and all sizes stay short. */
static inline int bench_copies(size_t bytes)
{
	return bytes >= (32u << 20) ? 4 : 128;
}

#endif
