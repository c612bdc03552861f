/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/shmem/cases.h - the cases of bench/shmem, their loop and the check of their data.
 *
 * The OpenSHMEM of this tree, another OpenSHMEM and Oriel's own calls are measured by the same loop
 * over the same amount of data.  This file uses none of these libraries.
 *
 * A rank's data are doubles: its number plus 1.  Before each call of a collective, every rank that
 * gives data adds to the first double of each cache line; that is part of the time.  Without new
 * data, readers would find the lines of the last call in their own caches.
 *
 * A timed loop ends with a meeting of all ranks, so that the slowest rank counts.  A figure is the
 * median of BENCH_BLOCKS loops.
 */
#ifndef ORI_BENCH_SHMEM_CASES_H
#define ORI_BENCH_SHMEM_CASES_H

#include <string.h>

#include "../bench.h"

#define CASES_GROUP 16 /* so many collective calls follow each other; then all ranks meet */
#define CASES_MOST (1u << 20)
#define CASES_LINE (64 / sizeof(double))

struct cases_size {
	const char *name;
	size_t bytes; /* of a transfer; of a rank's part in a collective */
	int fine;     /* measured only if a program is asked for all sizes */
};

static const struct cases_size cases_sizes[] = {
	{ "8", 8, 0 },           { "64", 64, 1 },           { "256", 256, 1 },
	{ "1k", 1u << 10, 0 },   { "4k", 4u << 10, 1 },     { "16k", 16u << 10, 1 },
	{ "64k", 64u << 10, 0 }, { "256k", 256u << 10, 1 }, { "1m", CASES_MOST, 0 },
};
#define CASES_SIZES (sizeof(cases_sizes) / sizeof(cases_sizes[0]))

enum cases_who { CASES_FIRST, CASES_PAIR, CASES_ALL }; /* the ranks that make the calls */

/* What the receive memory must hold after the loop. */
enum cases_data {
	CASES_NOTHING,
	CASES_AT_SECOND, /* rank 1: data of rank 0 */
	CASES_AT_FIRST,  /* rank 0: data of rank 1 */
	CASES_AT_BOTH,   /* each of the two: data of the other */
	CASES_FROM_ROOT, /* all except rank 0: its data */
	CASES_BLOCKS,    /* all: the block of each rank */
	CASES_EXCHANGED, /* all: a block of each rank, which sends another one to each */
	CASES_SUM,       /* all: the sum over the ranks */
};

struct cases_job {
	int rank, nranks;
	double *send, *recv; /* each has room for nranks parts of CASES_MOST bytes */
	void *context;       /* of the library that is measured */
	int calls;           /* of the collective, since its send memory was filled */
	/* returns when all ranks have called it; 0 on success */
	int (*meet)(struct cases_job *);
};

struct cases_case {
	const char *name;
	enum cases_who who;
	enum cases_data data;
	int only_small; /* 8 bytes */
	/* makes `rounds` calls; 0 on success */
	int (*loop)(struct cases_job *, size_t bytes, int rounds);
	/* calls before and after all loops of a size, on all ranks; may be NULL */
	int (*open)(struct cases_job *, size_t bytes);
	int (*close)(struct cases_job *);
};

/* Short loops: about 64 MiB, and fewer calls where 8 ranks share two cores. */
static inline int cases_rounds(const struct cases_case *c, int nranks, size_t bytes)
{
	int crowded = c->who != CASES_FIRST && nranks > BENCH_CORES;
	size_t parts = c->who == CASES_ALL ? (size_t)nranks : 1;
	size_t most = c->who == CASES_FIRST ? 20000 : crowded ? 320 : 3200;
	size_t n = (64u << 20) / (bytes * parts * parts);

	n = n > most ? most : n;
	return n < CASES_GROUP ? CASES_GROUP : (int)(n - n % CASES_GROUP);
}

/*
 * What the first double of each line has more than the others.  No two calls have the same, so the
 * check finds a call that delivered nothing.  Doubles hold these sums exactly.
 */
static inline double cases_more(const struct cases_job *j)
{
	return j->calls;
}

/* New data for a call. */
static inline void cases_renew(struct cases_job *j, enum cases_data data, size_t bytes)
{
	size_t parts = data == CASES_EXCHANGED ? (size_t)j->nranks : 1;

	j->calls++;
	if (data == CASES_FROM_ROOT && j->rank)
		return;
	for (size_t i = 0; i < parts * bytes / sizeof(double); i += CASES_LINE)
		j->send[i] = j->rank + 1 + cases_more(j);
}

/*
 * `first`: where the block begins in the memory from which it was sent, in doubles.  `more`: what
 * the first double of each line there has more than `want`.
 */
static inline int cases_block_is(const double *block, size_t bytes, size_t first, double want,
				 double more)
{
	for (size_t i = 0; i < bytes / sizeof(double); i++)
		if (block[i] != want + ((first + i) % CASES_LINE ? 0 : more))
			return 0;
	return 1;
}

/* The block that this rank has received from rank r. */
static inline int cases_came_from(const struct cases_job *j, const double *block, int exchanged,
				  size_t bytes, int r)
{
	size_t first = exchanged ? (size_t)j->rank * bytes / sizeof(double) : 0;

	return cases_block_is(block, bytes, first, r + 1, cases_more(j));
}

static inline int cases_is_right(const struct cases_job *j, enum cases_data data, size_t bytes)
{
	size_t words = bytes / sizeof(double);
	double n = j->nranks;

	switch (data) {
	case CASES_AT_SECOND:
		return j->rank != 1 || cases_block_is(j->recv, bytes, 0, 1, 0);
	case CASES_AT_FIRST:
		return j->rank != 0 || cases_block_is(j->recv, bytes, 0, 2, 0);
	case CASES_AT_BOTH:
		return j->rank > 1 || cases_block_is(j->recv, bytes, 0, j->rank ? 1 : 2, 0);
	case CASES_FROM_ROOT:
		return !j->rank || cases_came_from(j, j->recv, 0, bytes, 0);
	case CASES_BLOCKS:
	case CASES_EXCHANGED:
		for (int r = 0; r < j->nranks; r++)
			if (!cases_came_from(j, j->recv + (size_t)r * words,
					     data == CASES_EXCHANGED, bytes, r))
				return 0;
		return 1;
	case CASES_SUM:
		return cases_block_is(j->recv, bytes, 0, n * (n + 1) / 2, n * cases_more(j));
	default:
		return 1;
	}
}

static inline int cases_acts(const struct cases_job *j, enum cases_who who)
{
	return who == CASES_ALL || j->rank == 0 || (who == CASES_PAIR && j->rank == 1);
}

/* One size of one case.  Rank 0 prints "shmem_put2_64k value us". */
static inline int cases_time(struct cases_job *j, const char *prefix, const struct cases_case *c,
			     const struct cases_size *s)
{
	int rounds = cases_rounds(c, j->nranks, s->bytes), err = 0;
	double us[BENCH_BLOCKS];
	char name[64];

	memset(j->recv, 0, (size_t)j->nranks * CASES_MOST);
	for (size_t i = 0; i < (size_t)j->nranks * CASES_MOST / sizeof(double); i++)
		j->send[i] = j->rank + 1;
	j->calls = 0;
	if (c->open)
		err = c->open(j, s->bytes);
	for (int b = -1; !err && b < BENCH_BLOCKS; b++) { /* the first is the warm-up */
		double start;

		err = j->meet(j);
		start = bench_now();
		if (!err && cases_acts(j, c->who))
			err = c->loop(j, s->bytes, rounds);
		if (!err && c->who != CASES_FIRST)
			err = j->meet(j);
		if (b >= 0)
			us[b] = (bench_now() - start) * 1e6 / rounds;
	}
	if (!err)
		err = j->meet(j);
	if (!err && !cases_is_right(j, c->data, s->bytes)) {
		fprintf(stderr, "%s %s %s: wrong data on rank %d\n", prefix, c->name, s->name,
			j->rank);
		err = 1;
	}
	if (!err && c->close)
		err = c->close(j);
	if (err || j->rank)
		return err;
	snprintf(name, sizeof(name), "%s_%s%d_%s", prefix, c->name, j->nranks, s->name);
	bench_print(name, bench_median(us, BENCH_BLOCKS), "us");
	return 0;
}

/* Is `name` in the list, whose words have commas between them?  Without a list every name is. */
static inline int cases_listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *word = list; word; word = strchr(word, ','), word = word ? word + 1 : NULL)
		if (!strncmp(word, name, n) && (word[n] == ',' || !word[n]))
			return 1;
	return !list;
}

/*
 * argv: PREFIX of the printed names [CASES, with commas, or "all" [fine]].  `fine` measures all
 * sizes, otherwise a few.
 */
static inline int cases_run(struct cases_job *j, int argc, char **argv, const char *prefix,
			    const struct cases_case *cases, size_t n)
{
	const char *only = argc > 2 && strcmp(argv[2], "all") ? argv[2] : NULL;
	int fine = argc > 3 && !strcmp(argv[3], "fine"), err = 0;

	prefix = argc > 1 ? argv[1] : prefix;
	for (size_t c = 0; !err && c < n; c++) {
		size_t sizes = cases[c].only_small ? 1 : CASES_SIZES;

		if (!cases_listed(only, cases[c].name))
			continue;
		for (size_t s = 0; !err && s < sizes; s++)
			if (fine || !cases_sizes[s].fine)
				err = cases_time(j, prefix, &cases[c], &cases_sizes[s]);
	}
	return err;
}

#endif
