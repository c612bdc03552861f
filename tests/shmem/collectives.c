/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collectives.c - broadcast, collect, fcollect, alltoall and alltoalls, over teams and active sets.
 *
 * Every element has a value that tells its source, its place and the call.  All of dest is
 * compared, also the elements that a call must not write.
 */
#include "pe.h"

#define MOST 70000 /* elements in the largest call: more than a slot of Oriel with 8 PEs */
#define GUARD 64   /* elements before and behind */

static int me, npes;
static long *source, *dest;
static long psync[SHMEM_BCAST_SYNC_SIZE + SHMEM_COLLECT_SYNC_SIZE];
static long stamp; /* of the call; the same on all PEs that make it */

/* Who takes part: a team, or an active set. */
struct who {
	shmem_team_t team;
	int start, log_stride;
	int n, rank; /* PEs; this PE's number */
};

static long value(int pe, long i)
{
	return stamp * 1000003 + pe * 7919 + i;
}

static void fill(int rank, long n)
{
	long i;

	stamp++;
	for (i = 0; i < n; i++)
		source[i] = value(rank, i);
	for (i = 0; i < (long)MOST + 2 * GUARD; i++)
		dest[i - GUARD] = -1;
}

static void check_rest(long first, long last)
{
	long i;

	for (i = -GUARD; i < first; i++)
		CHECK_EQ(dest[i], -1);
	for (i = last; i < MOST + GUARD; i++)
		CHECK_EQ(dest[i], -1);
}

static void check_broadcast(const struct who *w, long n, int root)
{
	long i, from = 0;

	fill(w->rank, n);
	if (w->team == SHMEM_TEAM_INVALID)
		shmem_broadcast64(dest, source, (size_t)n, root, w->start, w->log_stride, w->n,
				  psync);
	else
		CHECK_EQ(shmem_long_broadcast(w->team, dest, source, (size_t)n, root), 0);
	/* the old call leaves dest of the root alone, the new one writes it */
	if (w->team == SHMEM_TEAM_INVALID && w->rank == root)
		n = 0;
	for (i = from; i < n; i++)
		CHECK_EQ(dest[i], value(root, i));
	check_rest(0, n);
}

/* skew 0: all give n elements.  Else PE r gives n + r * skew, and every third PE none. */
static long share(long n, int rank, int skew)
{
	return !skew ? n : rank % 3 == 2 ? 0 : n + rank * skew;
}

static void check_collect(const struct who *w, long n, int skew)
{
	long mine = share(n, w->rank, skew), i, at = 0;
	int pe;

	fill(w->rank, mine);
	if (w->team == SHMEM_TEAM_INVALID)
		shmem_collect64(dest, source, (size_t)mine, w->start, w->log_stride, w->n, psync);
	else
		CHECK_EQ(shmem_long_collect(w->team, dest, source, (size_t)mine), 0);
	for (pe = 0; pe < w->n; pe++)
		for (i = 0; i < share(n, pe, skew); i++)
			CHECK_EQ(dest[at++], value(pe, i));
	check_rest(0, at);
}

static void check_fcollect(const struct who *w, long n)
{
	long i;
	int pe;

	fill(w->rank, n);
	if (w->team == SHMEM_TEAM_INVALID)
		shmem_fcollect64(dest, source, (size_t)n, w->start, w->log_stride, w->n, psync);
	else
		CHECK_EQ(shmem_long_fcollect(w->team, dest, source, (size_t)n), 0);
	for (pe = 0; pe < w->n; pe++)
		for (i = 0; i < n; i++)
			CHECK_EQ(dest[pe * n + i], value(pe, i));
	check_rest(0, w->n * n);
}

static void check_alltoall(const struct who *w, long n)
{
	long i;
	int pe;

	fill(w->rank, w->n * n);
	if (w->team == SHMEM_TEAM_INVALID)
		shmem_alltoall64(dest, source, (size_t)n, w->start, w->log_stride, w->n, psync);
	else
		CHECK_EQ(shmem_long_alltoall(w->team, dest, source, (size_t)n), 0);
	for (pe = 0; pe < w->n; pe++)
		for (i = 0; i < n; i++)
			CHECK_EQ(dest[pe * n + i], value(pe, w->rank * n + i));
	check_rest(0, w->n * n);
}

/* Element k of a block has the place k * stride in it; the places between are not written. */
static void check_alltoalls(const struct who *w, long n, int dst, int sst)
{
	long i, last = n ? (w->n * n - 1) * dst + 1 : 0;

	fill(w->rank, w->n * n * sst);
	if (w->team == SHMEM_TEAM_INVALID)
		shmem_alltoalls64(dest, source, dst, sst, (size_t)n, w->start, w->log_stride, w->n,
				  psync);
	else
		CHECK_EQ(shmem_long_alltoalls(w->team, dest, source, dst, sst, (size_t)n), 0);
	for (i = 0; i < last; i++)
		CHECK_EQ(dest[i],
			 i % dst ? -1 :
				   value((int)(i / dst / n), (w->rank * n + i / dst % n) * sst));
	check_rest(0, last);
}

static void check_all(const struct who *w)
{
	long large = MOST / w->n, n;
	long sizes[] = { 0, 1, 2, 3, 17, 1000, large };
	unsigned int i;

	stamp = w->start * 1000 + w->log_stride * 100;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		n = sizes[i];
		check_broadcast(w, n, (int)i % w->n);
		check_broadcast(w, n, w->n - 1);
		check_collect(w, n, 0);
		if (n < large)
			check_collect(w, n, 5);
		check_fcollect(w, n);
		check_alltoall(w, n);
		check_alltoalls(w, n / 3, 3, 2);
		check_alltoalls(w, n / 3, 1, 3);
		check_alltoalls(w, n / 3, 1, 1);
	}
	check_broadcast(w, MOST, 0);
}

/* ---- types ----------------------------------------------------------------------------------- */

#define CHECK_TYPE(NAME, TYPE, OP)                                                                 \
	do {                                                                                       \
		static TYPE from[64], to[64];                                                      \
		int i_;                                                                            \
                                                                                                   \
		for (i_ = 0; i_ < npes; i_++) {                                                    \
			from[i_] = (TYPE)(10 * me + i_);                                           \
			to[i_] = (TYPE)99;                                                         \
		}                                                                                  \
		CHECK_EQ(shmem_##NAME##_alltoall(SHMEM_TEAM_WORLD, to, from, 1), 0);               \
		for (i_ = 0; i_ < npes; i_++)                                                      \
			CHECK(to[i_] == (TYPE)(10 * i_ + me));                                     \
		CHECK_EQ(shmem_##NAME##_fcollect(SHMEM_TEAM_WORLD, to, from, 1), 0);               \
		for (i_ = 0; i_ < npes; i_++)                                                      \
			CHECK(to[i_] == (TYPE)(10 * i_));                                          \
		CHECK_EQ(shmem_##NAME##_collect(SHMEM_TEAM_WORLD, to, from + 1, me == 0), 0);      \
		CHECK(to[0] == from[1] || me);                                                     \
		CHECK_EQ(shmem_##NAME##_alltoalls(SHMEM_TEAM_WORLD, to, from, 1, 1, 1), 0);        \
		CHECK(to[0] == (TYPE)me);                                                          \
		CHECK_EQ(shmem_##NAME##_broadcast(SHMEM_TEAM_WORLD, to, from, 1, npes - 1), 0);    \
		CHECK(to[0] == (TYPE)(10 * (npes - 1)));                                           \
		CHECK(shmem_##NAME##_broadcast(SHMEM_TEAM_INVALID, to, from, 1, 0) != 0);          \
		CHECK(shmem_##NAME##_collect(SHMEM_TEAM_INVALID, to, from, 1) != 0);               \
		CHECK(shmem_##NAME##_fcollect(SHMEM_TEAM_INVALID, to, from, 1) != 0);              \
		CHECK(shmem_##NAME##_alltoall(SHMEM_TEAM_INVALID, to, from, 1) != 0);              \
		CHECK(shmem_##NAME##_alltoalls(SHMEM_TEAM_INVALID, to, from, 1, 1, 1) != 0);       \
	} while (0);

static void check_bytes(void)
{
	static char from[5 * 64], to[5 * 64];
	int i;

	for (i = 0; i < 5 * npes; i++)
		from[i] = (char)(me * 5 + i);
	CHECK_EQ(shmem_alltoallmem(SHMEM_TEAM_WORLD, to, from, 5), 0);
	for (i = 0; i < 5 * npes; i++)
		CHECK_EQ(to[i], (char)(i / 5 * 5 + me * 5 + i % 5));
	CHECK_EQ(shmem_alltoallsmem(SHMEM_TEAM_WORLD, to, from, 1, 5, 1), 0);
	for (i = 0; i < npes; i++)
		CHECK_EQ(to[i], (char)(i * 5 + me * 5));
	CHECK_EQ(shmem_fcollectmem(SHMEM_TEAM_WORLD, to, from, 3), 0);
	CHECK_EQ(to[3 * npes - 1], (char)((npes - 1) * 5 + 2));
	CHECK_EQ(shmem_collectmem(SHMEM_TEAM_WORLD, to, from, me ? 1 : 3), 0);
	CHECK_EQ(to[npes + 1], (char)((npes - 1) * 5 + (npes == 1 ? 2 : 0)));
	CHECK_EQ(shmem_broadcastmem(SHMEM_TEAM_WORLD, to, from, 2, 0), 0);
	CHECK_EQ(to[1], 1);
	CHECK(shmem_broadcastmem(SHMEM_TEAM_INVALID, to, from, 2, 0) != 0);
	/* 32 bits, on the set of all PEs */
	shmem_broadcast32(to, from, 1, npes - 1, 0, 0, npes, psync);
	if (me < npes - 1)
		CHECK_EQ(to[3], (char)((npes - 1) * 5 + 3));
	shmem_fcollect32(to, from, 1, 0, 0, npes, psync);
	CHECK_EQ(to[4 * npes - 1], (char)((npes - 1) * 5 + 3));
	shmem_collect32(to, from, 1, 0, 0, npes, psync);
	CHECK_EQ(to[4 * npes - 1], (char)((npes - 1) * 5 + 3));
	shmem_alltoall32(to, from, 1, 0, 0, npes, psync);
	CHECK_EQ(to[4 * npes - 1], (char)((npes - 1) * 5 + me * 4 + 3));
	shmem_alltoalls32(to, from, 1, 1, 1, 0, 0, npes, psync);
	CHECK_EQ(to[4 * npes - 1], (char)((npes - 1) * 5 + me * 4 + 3));
}

/* ---- active sets ----------------------------------------------------------------------------- */

static void check_active(int start, int log_stride, int n)
{
	struct who w = { SHMEM_TEAM_INVALID, start, log_stride, n, (me - start) >> log_stride };
	int i;

	if (me < start || (me - start) % (1 << log_stride) || w.rank >= n)
		return; /* the PEs outside do nothing, and nobody waits for them */
	check_all(&w);
	for (i = 0; i < 50; i++) {
		shmem_sync(start, log_stride, n, psync);
		shmem_barrier(start, log_stride, n, psync);
	}
}

int main(void)
{
	struct who w = { SHMEM_TEAM_WORLD, 0, 0, 0, 0 };
	shmem_team_t odd, even;

	shmem_init();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	source = shmem_malloc((3 * MOST + 8) * sizeof(*source));
	dest = (long *)shmem_malloc((MOST + 2 * GUARD) * sizeof(*dest)) + GUARD;
	CHECK(source);
	w.n = npes;
	w.rank = me;
	check_all(&w);
	OSH_RMA_TYPES(CHECK_TYPE, )
	check_bytes();
	check_active(0, 0, npes);
	check_active(npes / 2, 0, npes - npes / 2);
	check_active(0, 1, (npes + 1) / 2);
	check_active(npes - 1, 3, 1);
	/* sets that overlap */
	if (npes > 2) {
		check_active(1, 0, npes - 1);
		check_active(0, 0, npes - 1);
	}
	CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (npes + 1) / 2, NULL, 0, &even),
		 0);
	if (npes > 1)
		CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, npes / 2, NULL, 0, &odd),
			 0);
	w.team = me % 2 ? odd : even;
	w.n = shmem_team_n_pes(w.team);
	w.rank = shmem_team_my_pe(w.team);
	check_all(&w);
	shmem_finalize();
	return 0;
}
