/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/reduce.h - element types, operators, and the reduction of several sources.
 *
 * Pure functions: they load, combine and store.  The order is fixed.  Element i of the result is
 * ((s0[i] op s1[i]) op s2[i]) ..., where source r is the data of rank r.  So equal sources give
 * equal bits, on every rank and in every run.
 *
 * Sums and products of integers wrap.  Half and bfloat16 are bit patterns in 16 bits; they are
 * combined as float and rounded once, to nearest, ties to even.  Minimum and maximum of floating
 * point are NaN if any source is.
 *
 * CPU: a thread combines tiles of ORI_TILE elements, which stay in the first cache.  The length of
 * a tile is a constant, so that compilers vectorise at -O2.  Any alignment works.  CUDA: a thread
 * combines 16 bytes at a time if all addresses are multiples of 16, else single elements.
 */
#ifndef ORIEL_DEVICE_REDUCE_H
#define ORIEL_DEVICE_REDUCE_H

#include "element.h"
#include "sources.h"

/* Operators.  AND, OR and XOR combine bits and are for integers only. */
#define ORIEL_REDUCE_SUM 1
#define ORIEL_REDUCE_PRODUCT 2
#define ORIEL_REDUCE_MIN 3
#define ORIEL_REDUCE_MAX 4
#define ORIEL_REDUCE_AND 5
#define ORIEL_REDUCE_OR 6
#define ORIEL_REDUCE_XOR 7

/* Can elements of this type be combined by this operator? */
ORIEL_DEV int oriel_reduce_is_valid(int type, int op)
{
	if (!oriel_type_bytes(type) || op < ORIEL_REDUCE_SUM || op > ORIEL_REDUCE_XOR)
		return 0;
	return op <= ORIEL_REDUCE_MAX || type <= ORIEL_TYPE_UINT64;
}

/* ---- 16-bit floating point ------------------------------------------------------------------- */

ORIEL_DEV float ori_float_of_bits(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

ORIEL_DEV uint32_t ori_bits_of_float(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

/*
 * A GPU rounds alike: to the nearest, ties to even.  Only the bits of a NaN may differ.
 *
 * The instructions with two results have them in a register of 32 bits.  ptxas 13.0 miscompiles
 * those with one: where the 16 bits are stored as two bytes, it converts the number to an integer
 * for the first byte.
 */
#if ORIEL_ON_GPU && !defined(ORIEL_BITCODE)
ORIEL_DEV float ori_float_of_half(uint16_t h)
{
	float f;

	asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
	return f;
}

ORIEL_DEV uint16_t ori_half_of_float(float f)
{
	uint32_t both;

	asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(f));
	return (uint16_t)both;
}

ORIEL_DEV uint16_t ori_bfloat16_of_float(float f)
{
	uint32_t both;

	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(f));
	return (uint16_t)both;
}
#else
/*
 * Exponent and fraction move into the places of a float.  The product corrects the bias of the
 * exponent, and is exact for subnormal numbers too.
 */
ORIEL_DEV float ori_float_of_half(uint16_t h)
{
	uint32_t rest = (uint32_t)(h & 0x7fffu) << 13, sign = (uint32_t)(h & 0x8000u) << 16;
	uint32_t bits = ori_bits_of_float(ori_float_of_bits(rest) * 0x1p112f);

	if (rest >= 0x0f800000u) /* infinity or NaN */
		bits = rest | 0x7f800000u;
	return ori_float_of_bits(bits | sign);
}

ORIEL_DEV uint16_t ori_half_of_float(float f)
{
	uint32_t bits = ori_bits_of_float(f), sign = bits >> 16 & 0x8000u,
		 rest = bits & 0x7fffffffu;
	uint32_t small, normal;

	/* the sum rounds to multiples of 2^-24, the smallest half, and leaves them in low bits */
	small = ori_bits_of_float(ori_float_of_bits(rest) + 0.5f) - 0x3f000000u;
	normal = (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
	if (rest < 0x38800000u) /* below the smallest normal half */
		normal = small;
	if (rest >= 0x47800000u)
		normal = rest > 0x7f800000u ? 0x7e00u : 0x7c00u;
	return (uint16_t)(sign | normal);
}

ORIEL_DEV uint16_t ori_bfloat16_of_float(float f)
{
	uint32_t bits = ori_bits_of_float(f), rounded = bits + 0x7fffu + (bits >> 16 & 1u);

	if ((bits & 0x7fffffffu) > 0x7f800000u)
		rounded = bits | 0x400000u; /* a NaN stays one */
	return (uint16_t)(rounded >> 16);
}
#endif

ORIEL_DEV float ori_float_of_bfloat16(uint16_t b)
{
	return ori_float_of_bits((uint32_t)b << 16);
}

/* ---- one element ----------------------------------------------------------------------------- */

#define ORI_SUM(a, b) ((a) + (b))
#define ORI_PRODUCT(a, b) ((a) * (b))
/* of unsigned integers: C would promote 16 bits to a signed int, which may overflow */
#define ORI_PRODUCT_WRAP(a, b) (1u * (a) * (b))
#define ORI_MIN(a, b) ((b) < (a) ? (b) : (a))
#define ORI_MAX(a, b) ((b) > (a) ? (b) : (a))
#define ORI_MIN_REAL(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define ORI_MAX_REAL(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define ORI_AND(a, b) ((a) & (b))
#define ORI_OR(a, b) ((a) | (b))
#define ORI_XOR(a, b) ((a) ^ (b))

#define ORI_SAME(x) (x)

/* ---- loops ----------------------------------------------------------------------------------- */

#define ORI_TILE 512u

/*
 * Defines name_word(row, n): the elements of n words of 8 bytes, combined into those of one.  Not
 * inlined: callers whose type is not a constant would contain all of them.  name_word_here() is.
 */
#define ORI_WORD_SOURCES 8
struct ori_row {
	uint64_t word[ORI_WORD_SOURCES];
};

#define ORI_REDUCE_WORD(name, type, wide, IN, OUT, OP)                                             \
	ORIEL_DEV uint64_t name##_word_here(struct ori_row row, int n)                             \
	{                                                                                          \
		union {                                                                            \
			uint64_t all;                                                              \
			type one[8u / sizeof(type)];                                               \
		} x;                                                                               \
		wide acc[8u / sizeof(type)];                                                       \
		uint32_t e;                                                                        \
		int r;                                                                             \
                                                                                                   \
		x.all = row.word[0];                                                               \
		ORI_UNROLL                                                                         \
		for (e = 0; e < 8u / sizeof(type); e++)                                            \
			acc[e] = IN(x.one[e]);                                                     \
		ORI_UNROLL                                                                         \
		for (r = 1; r < ORI_WORD_SOURCES; r++) {                                           \
			x.all = row.word[r];                                                       \
			ORI_UNROLL                                                                 \
			for (e = 0; e < 8u / sizeof(type); e++)                                    \
				if (r < n)                                                         \
					acc[e] = (wide)OP(acc[e], IN(x.one[e]));                   \
		}                                                                                  \
		ORI_UNROLL                                                                         \
		for (e = 0; e < 8u / sizeof(type); e++)                                            \
			x.one[e] = OUT(acc[e]);                                                    \
		return x.all;                                                                      \
	}                                                                                          \
	ORIEL_DEV_OUT uint64_t name##_word(ORI_VALUE(ori_row) row, int n)                          \
	{                                                                                          \
		return name##_word_here(row, n);                                                   \
	}

/*
 * Defines name(g, dst, s, count) for elements of `type` in memory, which IN turns into `wide` and
 * OUT turns back.  The threads of the group divide the tiles.  An element is stored after all its
 * sources were loaded, so dst may be one of the sources.
 */
#if ORIEL_ON_GPU
#define ORI_REDUCE_LOOP(name, type, wide, IN, OUT, OP)                                             \
	ORI_REDUCE_WORD(name, type, wide, IN, OUT, OP)                                             \
	ORIEL_DEV void name##_pack(uint8_t *dst, const struct ori_sources *s, uint64_t off)        \
	{                                                                                          \
		union {                                                                            \
			uint4 all;                                                                 \
			type one[16u / sizeof(type)];                                              \
		} x;                                                                               \
		wide acc[16u / sizeof(type)];                                                      \
		uint32_t e;                                                                        \
		int r;                                                                             \
                                                                                                   \
		x.all = *(const uint4 *)(ori_source(s, 0) + off);                                  \
		for (e = 0; e < 16u / sizeof(type); e++)                                           \
			acc[e] = IN(x.one[e]);                                                     \
		_Pragma("unroll 4") for (r = 1; r < s->n; r++)                                     \
		{                                                                                  \
			x.all = *(const uint4 *)(ori_source(s, r) + off);                          \
			for (e = 0; e < 16u / sizeof(type); e++)                                   \
				acc[e] = (wide)OP(acc[e], IN(x.one[e]));                           \
		}                                                                                  \
		for (e = 0; e < 16u / sizeof(type); e++)                                           \
			x.one[e] = OUT(acc[e]);                                                    \
		*(uint4 *)(dst + off) = x.all;                                                     \
	}                                                                                          \
	ORIEL_DEV void name##_lone(uint8_t *dst, const struct ori_sources *s, uint64_t off)        \
	{                                                                                          \
		type x;                                                                            \
		wide acc;                                                                          \
		int r;                                                                             \
                                                                                                   \
		memcpy(&x, ori_source(s, 0) + off, sizeof(x));                                     \
		acc = IN(x);                                                                       \
		_Pragma("unroll 1") for (r = 1; r < s->n; r++)                                     \
		{                                                                                  \
			memcpy(&x, ori_source(s, r) + off, sizeof(x));                             \
			acc = (wide)OP(acc, IN(x));                                                \
		}                                                                                  \
		x = OUT(acc);                                                                      \
		memcpy(dst + off, &x, sizeof(x));                                                  \
	}                                                                                          \
	ORIEL_DEV_OUT void name(ORI_VALUE(oriel_group) g, uint8_t *dst,                            \
				const struct ori_sources *s, uint64_t count)                       \
	{                                                                                          \
		uint64_t i, packs = 0;                                                             \
                                                                                                   \
		if (!(((uintptr_t)dst | (uintptr_t)s->mine) & 15u))                                \
			packs = count * sizeof(type) / 16u;                                        \
		for (i = g.thread; i < packs; i += g.size)                                         \
			name##_pack(dst, s, 16u * i);                                              \
		for (i = packs * (16u / sizeof(type)) + g.thread; i < count; i += g.size)          \
			name##_lone(dst, s, i * sizeof(type));                                     \
	}
#else
#define ORI_REDUCE_LOOP(name, type, wide, IN, OUT, OP)                                             \
	ORI_REDUCE_WORD(name, type, wide, IN, OUT, OP)                                             \
	ORIEL_DEV wide name##_at(const uint8_t *p, uint32_t i)                                     \
	{                                                                                          \
		type x;                                                                            \
                                                                                                   \
		memcpy(&x, p + i * sizeof(x), sizeof(x));                                          \
		return IN(x);                                                                      \
	}                                                                                          \
	ORIEL_DEV void name##_store(uint8_t *dst, const wide *acc, uint32_t n)                     \
	{                                                                                          \
		type x;                                                                            \
		uint32_t i;                                                                        \
                                                                                                   \
		if (sizeof(type) == sizeof(wide)) {                                                \
			memcpy(dst, acc, n * sizeof(type));                                        \
			n = 0; /* a return makes nvcc warn of the loop */                          \
		}                                                                                  \
		for (i = 0; i < n; i++) {                                                          \
			x = OUT(acc[i]);                                                           \
			memcpy(dst + i * sizeof(x), &x, sizeof(x));                                \
		}                                                                                  \
	}                                                                                          \
	ORIEL_DEV void name##_tile(uint8_t *dst, const struct ori_sources *s, uint64_t off,        \
				   uint32_t n)                                                     \
	{                                                                                          \
		const uint8_t *p = ori_source(s, 0) + off, *q;                                     \
		wide acc[ORI_TILE];                                                                \
		uint32_t i;                                                                        \
		int r;                                                                             \
                                                                                                   \
		q = s->n > 1 ? ori_source(s, 1) + off : p;                                         \
		for (i = 0; i < n && s->n == 1; i++)                                               \
			acc[i] = name##_at(p, i);                                                  \
		for (i = 0; i < n && s->n > 1; i++)                                                \
			acc[i] = (wide)OP(name##_at(p, i), name##_at(q, i));                       \
		for (r = 2; r < s->n; r++) {                                                       \
			p = ori_source(s, r) + off;                                                \
			for (i = 0; i < n; i++)                                                    \
				acc[i] = (wide)OP(acc[i], name##_at(p, i));                        \
		}                                                                                  \
		name##_store(dst + off, acc, n);                                                   \
	}                                                                                          \
	ORIEL_DEV_OUT void name(ORI_VALUE(oriel_group) g, uint8_t *dst,                            \
				const struct ori_sources *s, uint64_t count)                       \
	{                                                                                          \
		uint64_t tile, tiles = count / ORI_TILE;                                           \
                                                                                                   \
		for (tile = g.thread; tile < tiles; tile += g.size)                                \
			name##_tile(dst, s, tile *ORI_TILE * sizeof(type), ORI_TILE);              \
		if (tiles % g.size == g.thread)                                                    \
			name##_tile(dst, s, tiles *ORI_TILE * sizeof(type),                        \
				    (uint32_t)(count % ORI_TILE));                                 \
	}
#endif

/* Sums, products and bits of signed integers are those of unsigned ones. */
#define ORI_REDUCE_INTEGERS(bits)                                                                  \
	ORI_REDUCE_LOOP(ori_sum_u##bits, uint##bits##_t, uint##bits##_t, ORI_SAME, ORI_SAME,       \
			ORI_SUM)                                                                   \
	ORI_REDUCE_LOOP(ori_product_u##bits, uint##bits##_t, uint##bits##_t, ORI_SAME, ORI_SAME,   \
			ORI_PRODUCT_WRAP)                                                          \
	ORI_REDUCE_LOOP(ori_and_u##bits, uint##bits##_t, uint##bits##_t, ORI_SAME, ORI_SAME,       \
			ORI_AND)                                                                   \
	ORI_REDUCE_LOOP(ori_or_u##bits, uint##bits##_t, uint##bits##_t, ORI_SAME, ORI_SAME,        \
			ORI_OR)                                                                    \
	ORI_REDUCE_LOOP(ori_xor_u##bits, uint##bits##_t, uint##bits##_t, ORI_SAME, ORI_SAME,       \
			ORI_XOR)                                                                   \
	ORI_REDUCE_LOOP(ori_min_u##bits, uint##bits##_t, uint##bits##_t, ORI_SAME, ORI_SAME,       \
			ORI_MIN)                                                                   \
	ORI_REDUCE_LOOP(ori_max_u##bits, uint##bits##_t, uint##bits##_t, ORI_SAME, ORI_SAME,       \
			ORI_MAX)                                                                   \
	ORI_REDUCE_LOOP(ori_min_i##bits, int##bits##_t, int##bits##_t, ORI_SAME, ORI_SAME,         \
			ORI_MIN)                                                                   \
	ORI_REDUCE_LOOP(ori_max_i##bits, int##bits##_t, int##bits##_t, ORI_SAME, ORI_SAME, ORI_MAX)

#define ORI_REDUCE_REALS(name, type, wide, IN, OUT)                                                \
	ORI_REDUCE_LOOP(ori_sum_##name, type, wide, IN, OUT, ORI_SUM)                              \
	ORI_REDUCE_LOOP(ori_product_##name, type, wide, IN, OUT, ORI_PRODUCT)                      \
	ORI_REDUCE_LOOP(ori_min_##name, type, wide, IN, OUT, ORI_MIN_REAL)                         \
	ORI_REDUCE_LOOP(ori_max_##name, type, wide, IN, OUT, ORI_MAX_REAL)

ORI_REDUCE_INTEGERS(8)
ORI_REDUCE_INTEGERS(16)
ORI_REDUCE_INTEGERS(32)
ORI_REDUCE_INTEGERS(64)
ORI_REDUCE_REALS(half, uint16_t, float, ori_float_of_half, ori_half_of_float)
ORI_REDUCE_REALS(bfloat16, uint16_t, float, ori_float_of_bfloat16, ori_bfloat16_of_float)
ORI_REDUCE_REALS(float, float, float, ORI_SAME, ORI_SAME)
ORI_REDUCE_REALS(double, double, double, ORI_SAME, ORI_SAME)

/* ---- the choice ------------------------------------------------------------------------------ */

/* DO(name) is what is done with the functions of the type and operator. */
#define ORI_REDUCE_CASE(n, DO, name)                                                               \
	case n:                                                                                    \
		DO(name);                                                                          \
		break;

#define ORI_REDUCE_CHOOSE_INTEGER(DO, bits, sign)                                                  \
	switch (op) {                                                                              \
		ORI_REDUCE_CASE(ORIEL_REDUCE_SUM, DO, ori_sum_u##bits)                             \
		ORI_REDUCE_CASE(ORIEL_REDUCE_PRODUCT, DO, ori_product_u##bits)                     \
		ORI_REDUCE_CASE(ORIEL_REDUCE_MIN, DO, ori_min_##sign##bits)                        \
		ORI_REDUCE_CASE(ORIEL_REDUCE_MAX, DO, ori_max_##sign##bits)                        \
		ORI_REDUCE_CASE(ORIEL_REDUCE_AND, DO, ori_and_u##bits)                             \
		ORI_REDUCE_CASE(ORIEL_REDUCE_OR, DO, ori_or_u##bits)                               \
		ORI_REDUCE_CASE(ORIEL_REDUCE_XOR, DO, ori_xor_u##bits)                             \
	}                                                                                          \
	break

#define ORI_REDUCE_CHOOSE_REAL(DO, name)                                                           \
	switch (op) {                                                                              \
		ORI_REDUCE_CASE(ORIEL_REDUCE_SUM, DO, ori_sum_##name)                              \
		ORI_REDUCE_CASE(ORIEL_REDUCE_PRODUCT, DO, ori_product_##name)                      \
		ORI_REDUCE_CASE(ORIEL_REDUCE_MIN, DO, ori_min_##name)                              \
		ORI_REDUCE_CASE(ORIEL_REDUCE_MAX, DO, ori_max_##name)                              \
	}                                                                                          \
	break

#define ORI_REDUCE_CHOOSE(DO)                                                                      \
	switch (type) {                                                                            \
	case ORIEL_TYPE_INT8:                                                                      \
		ORI_REDUCE_CHOOSE_INTEGER(DO, 8, i);                                               \
	case ORIEL_TYPE_UINT8:                                                                     \
		ORI_REDUCE_CHOOSE_INTEGER(DO, 8, u);                                               \
	case ORIEL_TYPE_INT16:                                                                     \
		ORI_REDUCE_CHOOSE_INTEGER(DO, 16, i);                                              \
	case ORIEL_TYPE_UINT16:                                                                    \
		ORI_REDUCE_CHOOSE_INTEGER(DO, 16, u);                                              \
	case ORIEL_TYPE_INT32:                                                                     \
		ORI_REDUCE_CHOOSE_INTEGER(DO, 32, i);                                              \
	case ORIEL_TYPE_UINT32:                                                                    \
		ORI_REDUCE_CHOOSE_INTEGER(DO, 32, u);                                              \
	case ORIEL_TYPE_INT64:                                                                     \
		ORI_REDUCE_CHOOSE_INTEGER(DO, 64, i);                                              \
	case ORIEL_TYPE_UINT64:                                                                    \
		ORI_REDUCE_CHOOSE_INTEGER(DO, 64, u);                                              \
	case ORIEL_TYPE_HALF:                                                                      \
		ORI_REDUCE_CHOOSE_REAL(DO, half);                                                  \
	case ORIEL_TYPE_BFLOAT16:                                                                  \
		ORI_REDUCE_CHOOSE_REAL(DO, bfloat16);                                              \
	case ORIEL_TYPE_FLOAT:                                                                     \
		ORI_REDUCE_CHOOSE_REAL(DO, float);                                                 \
	case ORIEL_TYPE_DOUBLE:                                                                    \
		ORI_REDUCE_CHOOSE_REAL(DO, double);                                                \
	}

/*
 * Called by the whole group: combines `count` elements of all sources into dst.  The caller has
 * tested type and operator, and the group meets afterwards.
 */
ORIEL_DEV_FOLD void ori_reduce(ORI_VALUE(oriel_group) g, void *to, const struct ori_sources *s,
			       uint64_t count, int type, int op)
{
	uint8_t *dst = (uint8_t *)to;

#define ORI_REDUCE_BLOCKS(name) name(g, dst, s, count)
	ORI_REDUCE_CHOOSE(ORI_REDUCE_BLOCKS)
#undef ORI_REDUCE_BLOCKS
}

typedef void ori_reduce_loop(ORI_VALUE(oriel_group) g, uint8_t *dst, const struct ori_sources *s,
			     uint64_t count);
typedef uint64_t ori_reduce_words(ORI_VALUE(ori_row) row, int n);

/* A type and an operator, for functions that are not inlined: see port.h, ORI_NAMES_LOOPS. */
struct ori_reducer {
	int32_t type, op;      /* 0: nothing is combined */
	ori_reduce_loop *loop; /* with ORI_NAMES_LOOPS */
#if ORI_NAMES_WORDS
	ori_reduce_words *words;
#endif
};

ORIEL_DEV struct ori_reducer ori_reducer_of(int type, int op)
{
	struct ori_reducer how;

	how.type = type;
	how.op = op;
	how.loop = NULL;
#if ORI_NAMES_WORDS
	how.words = NULL;
#define ORI_REDUCE_NAME(name) how.loop = name, how.words = name##_word
#else
#define ORI_REDUCE_NAME(name) how.loop = name
#endif
#if ORI_NAMES_LOOPS
	ORI_REDUCE_CHOOSE(ORI_REDUCE_NAME)
#endif
#undef ORI_REDUCE_NAME
	return how;
}

/* As ori_reduce(). */
ORIEL_DEV void ori_reducer_run(struct ori_reducer how, struct oriel_group g, void *to,
			       const struct ori_sources *s, uint64_t count)
{
#if ORI_NAMES_LOOPS
	if (how.loop)
		how.loop(g, (uint8_t *)to, s, count);
#else
	ori_reduce(g, to, s, count, how.type, how.op);
#endif
}

/* The elements of n words, at most ORI_WORD_SOURCES, combined in their order. */
ORIEL_DEV uint64_t ori_reducer_word(struct ori_reducer how, struct ori_row row, int n)
{
#if ORI_NAMES_WORDS
	return how.words(row, n);
#else
	int type = how.type, op = how.op;
	uint64_t result = 0;

#define ORI_REDUCE_WORDS(name) result = name##_word(row, n)
	ORI_REDUCE_CHOOSE(ORI_REDUCE_WORDS)
#undef ORI_REDUCE_WORDS
	return result;
#endif
}

#endif
