/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce.c - reductions over teams and over active sets, for all types.
 *
 * Mapped PEs read each other's elements (direct.c).  For others Oriel reduces integers, float and
 * double.  It lacks long double and complex numbers: their elements are gathered, piece by piece,
 * and every PE combines them.  All ways combine in the order of the set, so the result has the same
 * bits on all PEs.
 */
#include <stdlib.h>

#include "set.h"

/* Elements of one PE that are gathered at a time, so that all of them stay in a cache. */
#define PIECE_BYTES (256u << 10)

/* The type of Oriel with this width; integers are all that is left beside the two. */
#define TYPE_OF(TYPE)                                                                              \
	_Generic((TYPE)0, float                                                                    \
		 : ORIEL_TYPE_FLOAT, double                                                        \
		 : ORIEL_TYPE_DOUBLE, default                                                      \
		 : integer_type(sizeof(TYPE), (TYPE)-1 < (TYPE)1))

static inline int integer_type(size_t bytes, int is_signed)
{
	int type = bytes == 1 ? ORIEL_TYPE_UINT8 :
		   bytes == 2 ? ORIEL_TYPE_UINT16 :
		   bytes == 4 ? ORIEL_TYPE_UINT32 :
				ORIEL_TYPE_UINT64;

	return is_signed ? type - 1 : type;
}

/* ---- types that Oriel lacks ------------------------------------------------------------------ */

static void reduce_gathered(const char *call, struct osh_set *s, void *dest, const void *source,
			    const struct osh_reduction *r)
{
	uint64_t piece = PIECE_BYTES / ((uint64_t)s->n * r->size), at, n;
	const uint8_t **blocks, *from = source;
	uint8_t *to = dest, *all;

	piece = piece ? piece : 1;
	if (piece < r->count)
		osh_set_compare(call, s, r->count);
	piece = piece < r->count ? piece : r->count;
	all = osh_set_scratch(call, piece * (uint64_t)s->n * r->size + 1);
	blocks = osh_set_scratch(call, (uint64_t)s->n * sizeof(*blocks));
	at = 0;
	do { /* also for 0 elements: the PEs meet */
		n = r->count - at < piece ? r->count - at : piece;
		osh_set_gather(call, s, from + at * r->size, all, n * r->size);
		for (int i = 0; i < s->n; i++)
			blocks[i] = all + (uint64_t)i * n * r->size;
		r->combine(to + at * r->size, blocks, n, s->n);
		at += n;
	} while (at < r->count);
	free(blocks);
	free(all);
}

#define COMBINE_sum(a, b) ((a) + (b))
#define COMBINE_prod(a, b) ((a) * (b))
#define COMBINE_min(a, b) ((b) < (a) ? (b) : (a))
#define COMBINE_max(a, b) ((b) > (a) ? (b) : (a))

#define DEFINE_COMBINE(NAME, TYPE, OP)                                                             \
	static void combine_##NAME##_##OP(void *dest, const uint8_t *const *from, uint64_t count,  \
					  int n)                                                   \
	{                                                                                          \
		for (uint64_t off = 0; off < count * sizeof(TYPE); off += sizeof(TYPE)) {          \
			TYPE x, y;                                                                 \
                                                                                                   \
			memcpy(&x, from[0] + off, sizeof(x));                                      \
			for (int pe = 1; pe < n; pe++) {                                           \
				memcpy(&y, from[pe] + off, sizeof(y));                             \
				x = COMBINE_##OP(x, y);                                            \
			}                                                                          \
			memcpy((uint8_t *)dest + off, &x, sizeof(x));                              \
		}                                                                                  \
	}

#define OTHER_REALS(X, OP) X(longdouble, long double, OP)

OTHER_REALS(DEFINE_COMBINE, min)
OTHER_REALS(DEFINE_COMBINE, max)
OTHER_REALS(DEFINE_COMBINE, sum)
OTHER_REALS(DEFINE_COMBINE, prod)
OSH_COMPLEX(DEFINE_COMBINE, sum)
OSH_COMPLEX(DEFINE_COMBINE, prod)

/* ---- one reduction --------------------------------------------------------------------------- */

#define OPERATOR_and ORIEL_REDUCE_AND
#define OPERATOR_or ORIEL_REDUCE_OR
#define OPERATOR_xor ORIEL_REDUCE_XOR
#define OPERATOR_min ORIEL_REDUCE_MIN
#define OPERATOR_max ORIEL_REDUCE_MAX
#define OPERATOR_sum ORIEL_REDUCE_SUM
#define OPERATOR_prod ORIEL_REDUCE_PRODUCT

/* What the types that Oriel lacks are called in a card. */
enum { OTHER_longdouble = 0x80, OTHER_complexf, OTHER_complexd };

static void reduce(const char *call, struct osh_set *s, void *dest, const void *source,
		   const struct osh_reduction *r)
{
	(void)osh_set_bytes(call, r->count, r->size);
	if (osh_direct_reduce(call, s, dest, source, r))
		return;
	if (r->combine)
		reduce_gathered(call, s, dest, source, r);
	else
		osh_set_reduce(call, s, source, dest, r);
}

#define DEFINE_BODY(NAME, TYPE, OP, ORIEL_TYPE, COMBINE)                                           \
	static void reduce_##NAME##_##OP(const char *call, struct osh_set *s, TYPE *dest,          \
					 const TYPE *source, size_t count)                         \
	{                                                                                          \
		struct osh_reduction r = { count, sizeof(TYPE), ORIEL_TYPE, OPERATOR_##OP,         \
					   COMBINE };                                              \
                                                                                                   \
		reduce(call, s, dest, source, &r);                                                 \
	}
#define DEFINE_BY_ORIEL(NAME, TYPE, OP) DEFINE_BODY(NAME, TYPE, OP, TYPE_OF(TYPE), NULL)
#define DEFINE_BY_GATHERING(NAME, TYPE, OP)                                                        \
	DEFINE_BODY(NAME, TYPE, OP, OTHER_##NAME, combine_##NAME##_##OP)

/* Types of the tables that Oriel has. */
#define OWN_REALS(X, OP) X(float, float, OP) X(double, double, OP)
#define INTEGERS(X, OP)                                                                            \
	OSH_NARROW_INTEGERS(X, OP)                                                                 \
	OSH_WIDE_INTEGERS(X, OP)                                                                   \
	OSH_FIXED_8_16(X, OP)                                                                      \
	OSH_FIXED_32_64(X, OP)                                                                     \
	OSH_SIZES(X, OP)
#define OLD_BITWISE(X, OP)                                                                         \
	X(short, short, OP)                                                                        \
	X(int, int, OP)                                                                            \
	X(long, long, OP)                                                                          \
	X(longlong, long long, OP)

OSH_REDUCE_BITWISE_TYPES(DEFINE_BY_ORIEL, and)
OSH_REDUCE_BITWISE_TYPES(DEFINE_BY_ORIEL, or)
OSH_REDUCE_BITWISE_TYPES(DEFINE_BY_ORIEL, xor)
OLD_BITWISE(DEFINE_BY_ORIEL, and)
OLD_BITWISE(DEFINE_BY_ORIEL, or)
OLD_BITWISE(DEFINE_BY_ORIEL, xor)
INTEGERS(DEFINE_BY_ORIEL, max)
INTEGERS(DEFINE_BY_ORIEL, min)
INTEGERS(DEFINE_BY_ORIEL, sum)
INTEGERS(DEFINE_BY_ORIEL, prod)
OWN_REALS(DEFINE_BY_ORIEL, max)
OWN_REALS(DEFINE_BY_ORIEL, min)
OWN_REALS(DEFINE_BY_ORIEL, sum)
OWN_REALS(DEFINE_BY_ORIEL, prod)
OTHER_REALS(DEFINE_BY_GATHERING, max)
OTHER_REALS(DEFINE_BY_GATHERING, min)
OTHER_REALS(DEFINE_BY_GATHERING, sum)
OTHER_REALS(DEFINE_BY_GATHERING, prod)
OSH_COMPLEX(DEFINE_BY_GATHERING, sum)
OSH_COMPLEX(DEFINE_BY_GATHERING, prod)

/* ---- public: teams --------------------------------------------------------------------------- */

#define DEFINE_TEAM(NAME, TYPE, OP)                                                                \
	int shmem_##NAME##_##OP##_reduce(shmem_team_t handle, TYPE *dest, const TYPE *source,      \
					 size_t nreduce)                                           \
	{                                                                                          \
		const char *call = "shmem_" #NAME "_" #OP "_reduce";                               \
		struct osh_team *team = osh_team_of(call, handle);                                 \
                                                                                                   \
		if (!team)                                                                         \
			return -1;                                                                 \
		reduce_##NAME##_##OP(call, &team->set, dest, source, nreduce);                     \
		return 0;                                                                          \
	}

OSH_REDUCE_BITWISE_TYPES(DEFINE_TEAM, and)
OSH_REDUCE_BITWISE_TYPES(DEFINE_TEAM, or)
OSH_REDUCE_BITWISE_TYPES(DEFINE_TEAM, xor)
OSH_REDUCE_ORDER_TYPES(DEFINE_TEAM, max)
OSH_REDUCE_ORDER_TYPES(DEFINE_TEAM, min)
OSH_REDUCE_ARITHMETIC_TYPES(DEFINE_TEAM, sum)
OSH_REDUCE_ARITHMETIC_TYPES(DEFINE_TEAM, prod)

/* ---- public: active sets --------------------------------------------------------------------- */

#define DEFINE_ACTIVE(NAME, TYPE, OP)                                                              \
	void shmem_##NAME##_##OP##_to_all(TYPE *dest, const TYPE *source, int nreduce,             \
					  int PE_start, int logPE_stride, int PE_size, TYPE *pWrk, \
					  long *pSync)                                             \
	{                                                                                          \
		const char *call = "shmem_" #NAME "_" #OP "_to_all";                               \
		struct osh_set *s = osh_active_set(call, PE_start, logPE_stride, PE_size, pSync);  \
                                                                                                   \
		(void)pWrk;                                                                        \
		if (nreduce < 0)                                                                   \
			osh_fail(call, "nreduce is %d", nreduce);                                  \
		if (s)                                                                             \
			reduce_##NAME##_##OP(call, s, dest, source, (size_t)nreduce);              \
	}

OSH_OLD_REDUCE_BITWISE_TYPES(DEFINE_ACTIVE, and)
OSH_OLD_REDUCE_BITWISE_TYPES(DEFINE_ACTIVE, or)
OSH_OLD_REDUCE_BITWISE_TYPES(DEFINE_ACTIVE, xor)
OSH_OLD_REDUCE_ORDER_TYPES(DEFINE_ACTIVE, max)
OSH_OLD_REDUCE_ORDER_TYPES(DEFINE_ACTIVE, min)
OSH_OLD_REDUCE_ARITHMETIC_TYPES(DEFINE_ACTIVE, sum)
OSH_OLD_REDUCE_ARITHMETIC_TYPES(DEFINE_ACTIVE, prod)
