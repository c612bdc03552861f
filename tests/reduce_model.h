/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/reduce_model.h - what a reduction must give, computed one element at a time, without the
 * code of the library.
 *
 * Integers are combined in 64 bits and cut.  16-bit floating point is converted by arithmetic in
 * double (half), or by a comparison of distances (bfloat16).
 */
#ifndef ORI_TEST_REDUCE_MODEL_H
#define ORI_TEST_REDUCE_MODEL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <oriel/device/reduce.h>

#define MODEL_TYPES 12
#define MODEL_OPS 7

static inline uint32_t model_bytes(int type)
{
	static const uint32_t bytes[] = { 0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8 };

	return bytes[type];
}

static inline int model_is_real(int type)
{
	return type >= ORIEL_TYPE_HALF;
}

static inline int model_is_valid(int type, int op)
{
	return !model_is_real(type) || op <= ORIEL_REDUCE_MAX;
}

static inline uint64_t model_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* ---- 16-bit floating point ------------------------------------------------------------------- */

static inline float model_of_half(uint16_t h)
{
	int sign = h >> 15 ? -1 : 1, exponent = h >> 10 & 31, fraction = h & 1023;

	if (exponent == 31)
		return fraction ? NAN : (float)sign * INFINITY;
	if (!exponent)
		return (float)ldexp((double)sign * fraction, -24);
	return (float)ldexp(sign * (1024 + fraction), exponent - 25);
}

/* The nearest multiple of the step at f's exponent; nearbyint() rounds ties to even. */
static inline uint16_t model_half(float f)
{
	uint16_t sign = signbit(f) ? 0x8000u : 0;
	double size = fabs((double)f), steps;
	int exponent;

	if (isnan(f))
		return (uint16_t)(sign | 0x7e00u);
	if (size >= 65520)
		return (uint16_t)(sign | 0x7c00u);
	exponent = size < ldexp(1, -14) ? -14 : ilogb(size);
	steps = nearbyint(ldexp(size, 10 - exponent));
	/* 1024 steps carry into the exponent by themselves; below them lie the subnormals. */
	return (uint16_t)(sign | (uint16_t)((exponent + 14) * 1024 + (int)steps));
}

static inline float model_of_bfloat16(uint16_t b)
{
	uint32_t bits = (uint32_t)b << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* The nearer of the two neighbours, for values well within the range. */
static inline uint16_t model_bfloat16(float f)
{
	uint32_t bits;
	uint16_t low, high;
	double below, above;

	memcpy(&bits, &f, sizeof(bits));
	low = (uint16_t)(bits >> 16);
	high = (uint16_t)(low + 1);
	below = fabs((double)f - (double)model_of_bfloat16(low));
	above = fabs((double)model_of_bfloat16(high) - (double)f);
	if (below == above)
		return low & 1 ? high : low;
	return below < above ? low : high;
}

/* ---- one element ----------------------------------------------------------------------------- */

static inline double model_read_real(int type, const uint8_t *at)
{
	uint16_t bits;
	float f;
	double d;

	if (type == ORIEL_TYPE_DOUBLE) {
		memcpy(&d, at, 8);
		return d;
	}
	if (type == ORIEL_TYPE_FLOAT) {
		memcpy(&f, at, 4);
		return (double)f;
	}
	memcpy(&bits, at, 2);
	return (double)(type == ORIEL_TYPE_HALF ? model_of_half(bits) : model_of_bfloat16(bits));
}

static inline void model_write_real(int type, double x, uint8_t *out)
{
	uint16_t bits;
	float f = (float)x;

	if (type == ORIEL_TYPE_DOUBLE) {
		memcpy(out, &x, 8);
	} else if (type == ORIEL_TYPE_FLOAT) {
		memcpy(out, &f, 4);
	} else {
		bits = type == ORIEL_TYPE_HALF ? model_half(f) : model_bfloat16(f);
		memcpy(out, &bits, 2);
	}
}

static inline double model_real(int type, int op, double a, double b)
{
	double x = op == ORIEL_REDUCE_SUM     ? a + b :
		   op == ORIEL_REDUCE_PRODUCT ? a * b :
		   op == ORIEL_REDUCE_MIN     ? (a <= b ? a : b) :
						(a >= b ? a : b);

	/* a sum or product of two floats, rounded to double and then to float, is that of floats */
	return type == ORIEL_TYPE_DOUBLE ? x : (double)(float)x;
}

static inline uint64_t model_read_integer(int type, const uint8_t *at)
{
	uint64_t x = 0;
	uint32_t bits = 8 * model_bytes(type);

	memcpy(&x, at, model_bytes(type)); /* tests run on little-endian machines */
	if (type % 2 == 1 && bits < 64 && x >> (bits - 1))
		x |= ~0ull << bits;
	return x;
}

static inline uint64_t model_integer(int type, int op, uint64_t a, uint64_t b)
{
	int less = type % 2 == 1 ? (int64_t)a < (int64_t)b : a < b;

	switch (op) {
	case ORIEL_REDUCE_SUM:
		return a + b;
	case ORIEL_REDUCE_PRODUCT:
		return a * b;
	case ORIEL_REDUCE_MIN:
		return less ? a : b;
	case ORIEL_REDUCE_MAX:
		return less ? b : a;
	case ORIEL_REDUCE_AND:
		return a & b;
	case ORIEL_REDUCE_OR:
		return a | b;
	default:
		return a ^ b;
	}
}

/* ---- data ------------------------------------------------------------------------------------ */

/*
 * Element i of a rank.  Real numbers lie between 1/2 and 2 with either sign, so that products of a
 * few ranks stay in range, and sums depend on their order.
 */
static inline void model_element(int type, uint64_t seed, int rank, uint64_t i, uint8_t *out)
{
	uint64_t x = model_mix(seed + 0x9e3779b97f4a7c15u * (i + 1) + ((uint64_t)rank << 56));
	double real = 0.5 + (double)(x >> 12) / (double)(1ull << 52) * 1.5;

	if (model_is_real(type))
		model_write_real(type, x & 1 ? real : -real, out);
	else
		memcpy(out, &x, model_bytes(type));
}

/* Element i of the result over n ranks, combined in rank order. */
static inline void model_result(int type, int op, uint64_t seed, int n, uint64_t i, uint8_t *out)
{
	uint8_t at[8];
	uint64_t whole = 0;
	double real = 0;

	for (int r = 0; r < n; r++) {
		model_element(type, seed, r, i, at);
		if (model_is_real(type))
			real = r ? model_real(type, op, real, model_read_real(type, at)) :
				   model_read_real(type, at);
		else
			whole = r ? model_integer(type, op, whole, model_read_integer(type, at)) :
				    model_read_integer(type, at);
	}
	if (model_is_real(type))
		model_write_real(type, real, out);
	else
		memcpy(out, &whole, model_bytes(type));
}

#endif
