/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.c MISTAKE - collectives and teams with one mistake; coll.sh knows how the job must end.
 *
 * A program that is not stopped by its mistake ends with status 0.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <shmem.h>

#define LARGE 4096 /* elements that mapped PEs copy directly */

static long source[4 * LARGE], dest[4 * LARGE];
static long psync[SHMEM_REDUCE_SYNC_SIZE];
static int me;

static void bytes(void)
{
	shmem_long_fcollect(SHMEM_TEAM_WORLD, dest, source, me == 1 ? 2 : 1);
}

static void calls(void)
{
	if (me == 1)
		shmem_long_broadcast(SHMEM_TEAM_WORLD, dest, source, 1, 0);
	else
		shmem_long_fcollect(SHMEM_TEAM_WORLD, dest, source, 1);
}

/* The root does not wait for the others, and goes on. */
static void root_calls(void)
{
	if (me == 0)
		shmem_long_broadcast(SHMEM_TEAM_WORLD, dest, source, 1, 0);
	else
		shmem_long_fcollect(SHMEM_TEAM_WORLD, dest, source, 1);
}

static void short_bytes(void)
{
	shmem_long_broadcast(SHMEM_TEAM_WORLD, dest, source, me == 1 ? 2 : 1, 0);
}

static void large_bytes(void)
{
	shmem_long_fcollect(SHMEM_TEAM_WORLD, dest, source, me == 1 ? LARGE + 1 : LARGE);
}

static void large_calls(void)
{
	if (me == 1)
		shmem_long_broadcast(SHMEM_TEAM_WORLD, dest, source, LARGE, 0);
	else
		shmem_long_fcollect(SHMEM_TEAM_WORLD, dest, source, LARGE);
}

static void types(void)
{
	if (me == 1)
		shmem_double_sum_reduce(SHMEM_TEAM_WORLD, (double *)dest, (double *)source, 1);
	else
		shmem_long_sum_reduce(SHMEM_TEAM_WORLD, dest, source, 1);
}

static void roots(void)
{
	shmem_long_broadcast(SHMEM_TEAM_WORLD, dest, source, 1, me == 2);
}

static void no_root(void)
{
	shmem_long_broadcast(SHMEM_TEAM_WORLD, dest, source, 1, 9);
}

static void long_doubles(void)
{
	shmem_longdouble_sum_reduce(SHMEM_TEAM_WORLD, (long double *)dest, (long double *)source,
				    me == 1 ? 3 : 2);
}

/* More elements than one piece: the first pieces are alike. */
static void many_long_doubles(void)
{
	shmem_longdouble_sum_reduce(SHMEM_TEAM_WORLD, (long double *)dest, (long double *)source,
				    me == 1 ? 8001 : 8000);
}

static void strided(void)
{
	shmem_char_alltoalls(SHMEM_TEAM_WORLD, (char *)dest, (char *)source, 1, 2,
			     me == 1 ? 15000 : 12857);
}

/* Neither set is that of all four PEs. */
static void sets(void)
{
	if (me < 2)
		shmem_long_sum_to_all(dest, source, 1, 0, 0, me ? 2 : 3, source, psync);
}

static void outside(void)
{
	if (me == 2)
		shmem_sync(0, 0, 2, psync);
}

static void beyond(void)
{
	shmem_sync(1, 1, 2, psync);
}

static void splits(void)
{
	shmem_team_t team;

	shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, me ? 3 : 2, NULL, 0, &team);
}

static void strides(void)
{
	shmem_long_alltoalls(SHMEM_TEAM_WORLD, dest, source, 0, 1, 1);
}

static void world(void)
{
	shmem_team_destroy(SHMEM_TEAM_WORLD);
}

static void much(void)
{
	shmem_long_fcollect(SHMEM_TEAM_WORLD, dest, source, (size_t)1 << 62);
}

/* A PE of a team dies while the others wait for it. */
static void dead(void)
{
	shmem_team_t team;

	shmem_team_split_strided(SHMEM_TEAM_WORLD, 2, -1, 3, NULL, 0, &team);
	shmem_team_sync(team);
	if (me == 2)
		raise(SIGKILL);
	shmem_team_sync(team);
}

static const struct mistake {
	const char *name;
	void (*make)(void);
} mistakes[] = {
	{ "bytes", bytes },
	{ "calls", calls },
	{ "types", types },
	{ "roots", roots },
	{ "no_root", no_root },
	{ "long_doubles", long_doubles },
	{ "sets", sets },
	{ "outside", outside },
	{ "beyond", beyond },
	{ "splits", splits },
	{ "strides", strides },
	{ "world", world },
	{ "root_calls", root_calls },
	{ "short_bytes", short_bytes },
	{ "large_bytes", large_bytes },
	{ "large_calls", large_calls },
	{ "many_long_doubles", many_long_doubles },
	{ "strided", strided },
	{ "much", much },
	{ "dead", dead },
};

int main(int argc, char **argv)
{
	shmem_init();
	me = shmem_my_pe();
	for (unsigned int i = 0; i < sizeof(mistakes) / sizeof(*mistakes); i++) {
		if (argc == 2 && !strcmp(argv[1], mistakes[i].name))
			mistakes[i].make();
	}
	shmem_finalize();
	return 0;
}
