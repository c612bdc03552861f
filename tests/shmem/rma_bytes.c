/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma_bytes.c - puts and gets of many lengths, between all kinds of memory, at odd addresses.
 *
 * Remote memory is the heap or a global.  Local memory is the heap, a global, malloc memory, or
 * constant.  Bytes beside the destination stay as they were.
 */
#include <sched.h>

#include "pe.h"

#define MOST (1 << 20)
#define EDGE 64 /* bytes on both sides that must not change */

static const size_t lengths[] = { 0,  1,  2,    15,   16,   17,    28,    29,    63,
				  64, 65, 4095, 4096, 4097, 32767, 32768, 65537, MOST };

static unsigned char global_area[MOST + 2 * EDGE], global_local[MOST];
static const unsigned char constant[] = "never written, and not in symmetric memory at all";
static int me, npes, next, before;

static unsigned char byte_of(int pe, size_t i, int salt)
{
	return (unsigned char)(i * 31 + i / 251 + (size_t)(pe * 7 + salt));
}

static void fill(unsigned char *p, size_t n, int pe, int salt)
{
	for (size_t i = 0; i < n; i++)
		p[i] = byte_of(pe, i, salt);
}

static void check_bytes(const unsigned char *p, size_t n, int pe, int salt)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != byte_of(pe, i, salt))
			pe_failed(__FILE__, __LINE__, "byte", p[i], byte_of(pe, i, salt));
}

static void check_edges(const unsigned char *at, size_t n)
{
	for (size_t i = 1; i <= 16; i++)
		CHECK(at[-(ptrdiff_t)i] == 0xee && at[n + i - 1] == 0xee);
}

/* One put and one get of n bytes. */
static void round_trip(unsigned char *area, unsigned char *local, size_t n, int odd, int nbi,
		       int salt)
{
	unsigned char *dest = area + EDGE + odd;

	memset(area, 0xee, (size_t)EDGE + 16 + n + EDGE);
	fill(local, n, me, salt);
	shmem_barrier_all();
	if (nbi)
		shmem_putmem_nbi(dest, local, n, next);
	else
		shmem_putmem(dest, local, n, next);
	if (!nbi)
		memset(local, 0, n); /* the put has returned */
	shmem_barrier_all();
	check_bytes(dest, n, before, salt);
	check_edges(dest, n);
	memset(local, 0, n);
	if (nbi)
		shmem_getmem_nbi(local, dest, n, next);
	else
		shmem_getmem(local, dest, n, next);
	if (nbi)
		shmem_quiet();
	check_bytes(local, n, me, salt);
	shmem_barrier_all();
}

static void lengths_and_memory(void)
{
	unsigned char *heap_area = shmem_malloc(MOST + 2 * EDGE + 16);
	unsigned char *heap_local = shmem_malloc(MOST), *private = malloc(MOST);
	unsigned char *locals[] = { heap_local, global_local, private };
	size_t i, l;
	int salt = 0;

	CHECK(heap_area && heap_local && private);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (l = 0; l < 3; l++, salt++)
			round_trip(salt % 2 && lengths[i] < MOST / 2 ? global_area : heap_area,
				   locals[l], lengths[i], salt % 5, salt / 3 % 2, salt);
	free(private);
	shmem_free(heap_local);
	shmem_free(heap_area);
}

/* Many non-blocking puts in flight, then one quiet. */
static void many_at_once(void)
{
	int *slots = shmem_calloc(4096, sizeof(int)), *mine = shmem_calloc(4096, sizeof(int)), i;

	CHECK(slots && mine);
	for (i = 0; i < 4096; i++)
		mine[i] = me * 4096 + i;
	for (i = 0; i < 4096; i += 32)
		shmem_int_put_nbi(slots + i, mine + i, 32, next);
	shmem_quiet();
	shmem_sync_all();
	for (i = 0; i < 4096; i++)
		CHECK_EQ(slots[i], before * 4096 + i);
	shmem_free(mine);
	shmem_free(slots);
}

/* fence: the flag never overtakes the data. */
static void data_before_flag(void)
{
	static long data[8];
	static volatile long flag;
	long round, mine[8];
	int i;

	shmem_barrier_all();
	for (round = 1; round <= 200; round++) {
		for (i = 0; i < 8; i++)
			mine[i] = round * 10 + i;
		shmem_long_put(data, mine, 8, next);
		shmem_fence();
		shmem_long_p((long *)&flag, round, next);
		while (__atomic_load_n(&flag, __ATOMIC_ACQUIRE) < round)
			sched_yield();
		for (i = 0; i < 8; i++)
			CHECK_EQ(data[i], round * 10 + i);
		shmem_barrier_all();
	}
}

/* Moves n bytes of the own PE by `by`, forwards and back. */
static void overlap_in(unsigned char *area, size_t n, size_t by, int salt)
{
	fill(area, n, me, salt);
	shmem_putmem(area + by, area, n, me);
	check_bytes(area + by, n, me, salt);
	shmem_putmem(area, area + by, n, me);
	check_bytes(area, n, me, salt);
	shmem_getmem(area + by, area, n, me);
	check_bytes(area + by, n, me, salt);
	shmem_getmem(area, area + by, n, me);
	check_bytes(area, n, me, salt);
}

/* A put or get of a PE to itself may overlap, in the heap and in globals. */
static void overlapping(void)
{
	unsigned char *heap_area = shmem_malloc(MOST);
	size_t by;

	for (by = 1; by < 50000; by = by * 3 + 1) {
		overlap_in(heap_area, 50000, by, (int)by);
		overlap_in(global_area, 50000, by, (int)by + 1);
	}
	shmem_free(heap_area);
}

static void constant_source(void)
{
	unsigned char *dest = shmem_malloc(sizeof(constant));

	shmem_putmem(dest, constant, sizeof(constant), next);
	shmem_barrier_all();
	CHECK(!memcmp(dest, constant, sizeof(constant)));
	shmem_free(dest);
}

int main(void)
{
	shmem_init();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	next = (me + 1) % npes;
	before = (me + npes - 1) % npes;
	lengths_and_memory();
	many_at_once();
	data_before_flag();
	constant_source();
	overlapping();
	shmem_finalize();
	return 0;
}
