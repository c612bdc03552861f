/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma_types.c - put, get, p, g, iput, iget and the non-blocking forms of every type and every
 * element size, without and with a context.
 *
 * Every PE works on the next one.  A round writes a pattern of its own, so that a call that did
 * nothing is found.
 */
#include "pe.h"

#define N 37
#define DST 3
#define SST 2

static int me, npes, next, before;
static shmem_ctx_t ctx;
/* Symmetric, large enough for N elements of any type with a stride. */
static _Alignas(16) char area[N * DST * 16];
static unsigned int round_number;

/* What PE `pe` writes as element i of a round. */
static int pattern(int pe, int i)
{
	return (int)((unsigned int)(i * 7 + pe * 13) + round_number * 5) % 100;
}

/* Begins a round: nobody reads `area` any more. */
static void begin(void)
{
	shmem_barrier_all();
	memset(area, 0x55, sizeof(area));
	round_number++;
	shmem_barrier_all();
}

/* ---- typed ----------------------------------------------------------------------------------- */

#define FILL(TYPE)                                                                                 \
	TYPE *dest = (TYPE *)(void *)area, mine[N * DST], untouched;                               \
	int i;                                                                                     \
                                                                                                   \
	begin();                                                                                   \
	memset(&untouched, 0x55, sizeof(untouched));                                               \
	for (i = 0; i < N * DST; i++)                                                              \
		mine[i] = (TYPE)pattern(me, i);

/* Puts N elements by PUT, then gets them back by GET. */
#define ROUND_TRIP(NAME, FORM, TYPE, PUT, GET)                                                     \
	static void NAME##_##FORM(void)                                                            \
	{                                                                                          \
		FILL(TYPE)                                                                         \
		PUT;                                                                               \
		shmem_ctx_quiet(ctx);                                                              \
		shmem_barrier_all();                                                               \
		for (i = 0; i < N; i++)                                                            \
			CHECK(dest[i] == (TYPE)pattern(before, i));                                \
		CHECK(!memcmp(&dest[N], &untouched, 1));                                           \
		memset(mine, 0, sizeof(mine));                                                     \
		GET;                                                                               \
		shmem_ctx_quiet(ctx);                                                              \
		shmem_quiet();                                                                     \
		for (i = 0; i < N; i++)                                                            \
			CHECK(mine[i] == (TYPE)pattern(me, i));                                    \
		CHECK(mine[N] == 0);                                                               \
	}

/* Element i of the source goes to element DST / SST * i of the destination, and back. */
#define STRIDED(NAME, FORM, TYPE, PUT, GET)                                                        \
	static void NAME##_##FORM(void)                                                            \
	{                                                                                          \
		FILL(TYPE)                                                                         \
		PUT;                                                                               \
		shmem_ctx_quiet(ctx);                                                              \
		shmem_barrier_all();                                                               \
		for (i = 0; i < N; i++) {                                                          \
			CHECK(dest[DST * i] == (TYPE)pattern(before, SST * i));                    \
			CHECK(!memcmp(&dest[DST * i + 1], &untouched, 1));                         \
		}                                                                                  \
		memset(mine, 0, sizeof(mine));                                                     \
		GET;                                                                               \
		for (i = 0; i < N; i++) {                                                          \
			CHECK(mine[SST * i] == (TYPE)pattern(me, SST * i));                        \
			CHECK(mine[SST * i + 1] == 0);                                             \
		}                                                                                  \
	}

#define DEFINE_TYPE(NAME, TYPE, OP)                                                                \
	ROUND_TRIP(NAME, block, TYPE, shmem_##NAME##_put(dest, mine, N, next),                     \
		   shmem_##NAME##_get(mine, dest, N, next))                                        \
	ROUND_TRIP(NAME, ctx, TYPE, shmem_ctx_##NAME##_put(ctx, dest, mine, N, next),              \
		   shmem_ctx_##NAME##_get(ctx, mine, dest, N, next))                               \
	ROUND_TRIP(NAME, nbi, TYPE, shmem_##NAME##_put_nbi(dest, mine, N, next),                   \
		   shmem_##NAME##_get_nbi(mine, dest, N, next))                                    \
	ROUND_TRIP(NAME, ctx_nbi, TYPE, shmem_ctx_##NAME##_put_nbi(ctx, dest, mine, N, next),      \
		   shmem_ctx_##NAME##_get_nbi(ctx, mine, dest, N, next))                           \
	ROUND_TRIP(NAME, one, TYPE,                                                                \
		   for (i = 0; i < N; i++) shmem_##NAME##_p(dest + i, mine[i], next),              \
		   for (i = 0; i < N; i++) mine[i] = shmem_##NAME##_g(dest + i, next))             \
	ROUND_TRIP(NAME, ctx_one, TYPE,                                                            \
		   for (i = 0; i < N; i++) shmem_ctx_##NAME##_p(ctx, dest + i, mine[i], next),     \
		   for (i = 0; i < N; i++) mine[i] = shmem_ctx_##NAME##_g(ctx, dest + i, next))    \
	STRIDED(NAME, strided, TYPE, shmem_##NAME##_iput(dest, mine, DST, SST, N, next),           \
		shmem_##NAME##_iget(mine, dest, SST, DST, N, next))                                \
	STRIDED(NAME, ctx_strided, TYPE,                                                           \
		shmem_ctx_##NAME##_iput(ctx, dest, mine, DST, SST, N, next),                       \
		shmem_ctx_##NAME##_iget(ctx, mine, dest, SST, DST, N, next))
#define RUN_TYPE(NAME, TYPE, OP)                                                                   \
	NAME##_block();                                                                            \
	NAME##_ctx();                                                                              \
	NAME##_nbi();                                                                              \
	NAME##_ctx_nbi();                                                                          \
	NAME##_one();                                                                              \
	NAME##_ctx_one();                                                                          \
	NAME##_strided();                                                                          \
	NAME##_ctx_strided();

OSH_RMA_TYPES(DEFINE_TYPE, )

/* ---- by element size ------------------------------------------------------------------------- */

typedef uint8_t bits_8;
typedef uint16_t bits_16;
typedef uint32_t bits_32;
typedef uint64_t bits_64;
typedef unsigned __int128 bits_128;

#define DEFINE_SIZE(BITS, OP)                                                                      \
	ROUND_TRIP(size_##BITS, block, bits_##BITS, shmem_put##BITS(dest, mine, N, next),          \
		   shmem_get##BITS(mine, dest, N, next))                                           \
	ROUND_TRIP(size_##BITS, ctx, bits_##BITS, shmem_ctx_put##BITS(ctx, dest, mine, N, next),   \
		   shmem_ctx_get##BITS(ctx, mine, dest, N, next))                                  \
	ROUND_TRIP(size_##BITS, nbi, bits_##BITS, shmem_put##BITS##_nbi(dest, mine, N, next),      \
		   shmem_get##BITS##_nbi(mine, dest, N, next))                                     \
	ROUND_TRIP(size_##BITS, ctx_nbi, bits_##BITS,                                              \
		   shmem_ctx_put##BITS##_nbi(ctx, dest, mine, N, next),                            \
		   shmem_ctx_get##BITS##_nbi(ctx, mine, dest, N, next))                            \
	STRIDED(size_##BITS, strided, bits_##BITS,                                                 \
		shmem_iput##BITS(dest, mine, DST, SST, N, next),                                   \
		shmem_iget##BITS(mine, dest, SST, DST, N, next))                                   \
	STRIDED(size_##BITS, ctx_strided, bits_##BITS,                                             \
		shmem_ctx_iput##BITS(ctx, dest, mine, DST, SST, N, next),                          \
		shmem_ctx_iget##BITS(ctx, mine, dest, SST, DST, N, next))
#define RUN_SIZE(BITS, OP)                                                                         \
	size_##BITS##_block();                                                                     \
	size_##BITS##_ctx();                                                                       \
	size_##BITS##_nbi();                                                                       \
	size_##BITS##_ctx_nbi();                                                                   \
	size_##BITS##_strided();                                                                   \
	size_##BITS##_ctx_strided();

OSH_RMA_SIZES(DEFINE_SIZE, )

/* ---- type-generic ---------------------------------------------------------------------------- */

#define DEFINE_GENERIC(NAME, TYPE, OP)                                                             \
	ROUND_TRIP(generic_##NAME, block, TYPE, shmem_put(dest, mine, N, next),                    \
		   shmem_get(mine, (const TYPE *)dest, N, next))                                   \
	ROUND_TRIP(generic_##NAME, ctx, TYPE, shmem_put_nbi(ctx, dest, mine, N, next),             \
		   shmem_get_nbi(ctx, mine, dest, N, next))                                        \
	ROUND_TRIP(generic_##NAME, one, TYPE,                                                      \
		   for (i = 0; i < N; i++) shmem_p(dest + i, mine[i], next),                       \
		   for (i = 0; i < N; i++) mine[i] = shmem_g((const TYPE *)dest + i, next))        \
	STRIDED(generic_##NAME, strided, TYPE, shmem_iput(ctx, dest, mine, DST, SST, N, next),     \
		shmem_iget(mine, dest, SST, DST, N, next))
#define RUN_GENERIC(NAME, TYPE, OP)                                                                \
	generic_##NAME##_block();                                                                  \
	generic_##NAME##_ctx();                                                                    \
	generic_##NAME##_one();                                                                    \
	generic_##NAME##_strided();

/* A generic call expands the tables of shmem.h itself, so this list is its own. */
#define GENERIC_TYPES(X)                                                                           \
	X(float, float, )                                                                          \
	X(double, double, )                                                                        \
	X(longdouble, long double, )                                                               \
	X(char, char, )                                                                            \
	X(schar, signed char, )                                                                    \
	X(short, short, )                                                                          \
	X(int, int, )                                                                              \
	X(long, long, )                                                                            \
	X(longlong, long long, )                                                                   \
	X(uchar, unsigned char, )                                                                  \
	X(ushort, unsigned short, )                                                                \
	X(uint, unsigned int, )                                                                    \
	X(ulong, unsigned long, )                                                                  \
	X(ulonglong, unsigned long long, )

GENERIC_TYPES(DEFINE_GENERIC)

int main(void)
{
	shmem_init();
	me = shmem_my_pe();
	npes = shmem_n_pes();
	next = (me + 1) % npes;
	before = (me + npes - 1) % npes;
	CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
	OSH_RMA_TYPES(RUN_TYPE, )
	OSH_RMA_SIZES(RUN_SIZE, )
	GENERIC_TYPES(RUN_GENERIC)
	shmem_ctx_destroy(ctx);
	shmem_finalize();
	return 0;
}
