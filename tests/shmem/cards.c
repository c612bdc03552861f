/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cards.c - collectives in a random order that is the same on all PEs: kinds, sizes around every
 * limit, roots, memory that is not symmetric on one PE, and PEs that come late.
 *
 * Roots of short broadcasts run ahead of the others, so the order of calls matters.  Every byte of
 * dest is compared.
 */
#include <stdlib.h>
#include <unistd.h>

#include "pe.h"

#define ROUNDS 400
#define FLOOD 40   /* broadcasts in a row */
#define MOST 20000 /* bytes of a block */
#define PES 8

static uint64_t state = 20261116; /* the same on all PEs */

static unsigned int draw(unsigned int n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(state >> 33) % n;
}

static const size_t sizes[] = { 0, 1, 8, 23, 24, 25, 64, 511, 512, 513, 4095, 4096, 4097, MOST };

static size_t draw_size(void)
{
	return sizes[draw(sizeof(sizes) / sizeof(*sizes))];
}

static int me, npes;
static unsigned char *heap_source, *heap_dest, *own_source, *own_dest;
static unsigned char *source, *dest; /* of this round */

static unsigned char byte_of(int round, int pe, size_t i)
{
	return (unsigned char)(round * 31 + pe * 7 + (int)(i % 251));
}

static void fill(int round, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		source[i] = byte_of(round, me, i);
	memset(dest, 0xee, (size_t)npes * MOST);
}

/* `n` bytes at `at` of dest are those of PE `pe`, from its byte `first` on. */
static void check(int round, size_t at, size_t n, int pe, size_t first)
{
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(dest[at + i], byte_of(round, pe, first + i));
}

static void check_rest(size_t at)
{
	for (; at < (size_t)npes * MOST; at++)
		CHECK_EQ(dest[at], 0xee);
}

static void broadcast(int round, shmem_team_t team, size_t bytes, int root)
{
	fill(round, bytes);
	CHECK_EQ(shmem_broadcastmem(team, dest, source, bytes, root), 0);
	check(round, 0, bytes, root, 0);
	check_rest(bytes);
}

static void fcollect(int round, shmem_team_t team, size_t bytes)
{
	fill(round, bytes);
	CHECK_EQ(shmem_fcollectmem(team, dest, source, bytes), 0);
	for (int pe = 0; pe < npes; pe++)
		check(round, (size_t)pe * bytes, bytes, pe, 0);
	check_rest((size_t)npes * bytes);
}

static void alltoall(int round, shmem_team_t team, size_t bytes)
{
	fill(round, (size_t)npes * bytes);
	CHECK_EQ(shmem_alltoallmem(team, dest, source, bytes), 0);
	for (int pe = 0; pe < npes; pe++)
		check(round, (size_t)pe * bytes, bytes, pe, (size_t)me * bytes);
	check_rest((size_t)npes * bytes);
}

/* Every PE gives another number of bytes. */
static void collect(int round, shmem_team_t team)
{
	size_t bytes[PES], at = 0;

	for (int pe = 0; pe < npes; pe++)
		bytes[pe] = draw_size();
	fill(round, bytes[me]);
	CHECK_EQ(shmem_collectmem(team, dest, source, bytes[me]), 0);
	for (int pe = 0; pe < npes; at += bytes[pe++])
		check(round, at, bytes[pe], pe, 0);
	check_rest(at);
}

static void sum(int round, shmem_team_t team, size_t bytes, int in_place)
{
	unsigned char *to = in_place ? source : dest;

	fill(round, bytes);
	CHECK_EQ(shmem_uchar_sum_reduce(team, to, source, bytes), 0);
	for (size_t i = 0; i < bytes; i++) {
		unsigned char want = 0;

		for (int pe = 0; pe < npes; pe++)
			want = (unsigned char)(want + byte_of(round, pe, i));
		CHECK_EQ(to[i], want);
	}
	check_rest(in_place ? 0 : bytes);
}

static void one_round(int round, shmem_team_t team)
{
	unsigned int kind = draw(9), odd = draw(40), late = draw(100);
	size_t bytes = draw_size();
	int root = (int)draw((unsigned int)npes), in_place = (int)draw(2);

	source = odd == (unsigned int)me ? own_source : heap_source;
	dest = odd == (unsigned int)me + 10 ? own_dest : heap_dest;
	if (late == (unsigned int)me)
		usleep(2000);
	switch (kind) {
	case 0:
		fcollect(round, team, bytes);
		break;
	case 1:
		alltoall(round, team, bytes);
		break;
	case 2:
		collect(round, team);
		break;
	case 3:
		sum(round, team, bytes, in_place);
		break;
	default: /* most of them: they run ahead */
		broadcast(round, team, bytes, root);
	}
}

/* Short broadcasts of one root, which nothing but the library keeps from running far ahead. */
static void flood(int round)
{
	int root = round % npes;

	source = heap_source;
	dest = heap_dest;
	if (me == (root + 1) % npes)
		usleep(3000);
	for (int i = 0; i < FLOOD; i++)
		broadcast(round + i, SHMEM_TEAM_WORLD, sizes[i % 12], root);
}

int main(void)
{
	shmem_team_t other;
	size_t room;

	shmem_init();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	CHECK(npes <= PES);
	room = (size_t)npes * MOST;
	heap_source = shmem_malloc(room);
	heap_dest = shmem_malloc(room);
	own_source = malloc(room);
	own_dest = malloc(room);
	CHECK(heap_source && heap_dest && own_source && own_dest);
	CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, NULL, 0, &other), 0);
	for (int round = 0; round < ROUNDS; round++)
		one_round(round, draw(4) ? SHMEM_TEAM_WORLD : other);
	for (int round = 0; round < 10; round++)
		flood(round);
	free(own_source);
	free(own_dest);
	shmem_finalize();
	return 0;
}
