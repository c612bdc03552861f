/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/soak/flat.h - does a process grow?  Samples of its memory, descriptors and mappings.
 *
 * The first samples are dropped: pools and caches of the library fill up then.  After that the
 * median of the first fifth is compared with the median of the last fifth.  A leak of every round
 * moves the median; one large allocation that is freed again does not.  Part of soak.c.
 */
#ifndef ORI_TEST_SOAK_FLAT_H
#define ORI_TEST_SOAK_FLAT_H

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLAT_SAMPLES 4096

enum flat_kind { FLAT_RSS_KIB, FLAT_HEAP_KIB, FLAT_FDS, FLAT_MAPS, FLAT_KINDS };

struct flat {
	int n, every,
		turn; /* when full, every second sample is dropped, and every second is taken */
	double at_s[FLAT_SAMPLES];
	double value[FLAT_KINDS][FLAT_SAMPLES];
};

static double flat_rss_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long pages = 0;

	if (f && fscanf(f, "%*s %ld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* What malloc has given out, without what it keeps. */
static double flat_heap_kib(void)
{
	struct mallinfo2 m = mallinfo2();

	return (double)(m.uordblks + m.hblkhd) / 1024;
}

static double flat_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

static double flat_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	int n = 0, c;

	while (f && (c = getc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

static void flat_thin(struct flat *f)
{
	for (int i = 0; i < FLAT_SAMPLES / 2; i++) {
		f->at_s[i] = f->at_s[2 * i];
		for (int k = 0; k < FLAT_KINDS; k++)
			f->value[k][i] = f->value[k][2 * i];
	}
	f->n = FLAT_SAMPLES / 2;
	f->every *= 2;
}

static void flat_sample(struct flat *f, double now_s)
{
	if (!f->every)
		f->every = 1;
	if (f->turn++ % f->every)
		return;
	if (f->n == FLAT_SAMPLES)
		flat_thin(f);
	f->at_s[f->n] = now_s;
	f->value[FLAT_RSS_KIB][f->n] = flat_rss_kib();
	f->value[FLAT_HEAP_KIB][f->n] = flat_heap_kib();
	f->value[FLAT_FDS][f->n] = flat_fds();
	f->value[FLAT_MAPS][f->n] = flat_maps();
	f->n++;
}

static int flat_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double flat_median(const double *values, int n)
{
	double sorted[FLAT_SAMPLES];

	memcpy(sorted, values, (size_t)n * sizeof(*sorted));
	qsort(sorted, (size_t)n, sizeof(*sorted), flat_compare);
	return sorted[n / 2];
}

/* Per minute, by least squares. */
static double flat_slope(const double *at_s, const double *values, int n)
{
	double t = 0, v = 0, tt = 0, tv = 0;

	for (int i = 0; i < n; i++) {
		t += at_s[i] / n;
		v += values[i] / n;
	}
	for (int i = 0; i < n; i++) {
		tt += (at_s[i] - t) * (at_s[i] - t);
		tv += (at_s[i] - t) * (values[i] - v);
	}
	return tt > 0 ? tv / tt * 60 : 0;
}

/*
 * Prints a line per kind.  Returns 1 if the process has grown by more than is allowed: that many,
 * and a quarter of the resident memory, because libfabric keeps and returns pages as it likes.
 * The heap tells more: it has no such noise.
 */
static int flat_grew(const struct flat *f, int rank, const double *allowed)
{
	static const char *const names[FLAT_KINDS] = { "KiB resident", "KiB of heap", "descriptors",
						       "mappings" };
	int skip = f->n / 5, n = f->n - skip, fifth = n / 5, grew = 0;

	if (fifth < 1) {
		printf("rank %d: too few samples to tell whether it grows: %d\n", rank, f->n);
		return 1;
	}
	for (int k = 0; k < FLAT_KINDS; k++) {
		const double *v = f->value[k] + skip;
		double first = flat_median(v, fifth), last = flat_median(v + n - fifth, fifth);
		int bad = last > first + allowed[k] + (k == FLAT_RSS_KIB ? first / 4 : 0);

		printf("rank %d: %-12s first %9.1f last %9.1f slope %+9.2f per minute%s\n", rank,
		       names[k], first, last, flat_slope(f->at_s + skip, v, n),
		       bad ? "  GROWN" : "");
		grew |= bad;
	}
	return grew;
}

#endif
