/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/element.h - the types of elements that reductions, atomics and waits on words take.
 */
#ifndef ORIEL_DEVICE_ELEMENT_H
#define ORIEL_DEVICE_ELEMENT_H

#include "port.h"

/* Types of elements. */
#define ORIEL_TYPE_INT8 1
#define ORIEL_TYPE_UINT8 2
#define ORIEL_TYPE_INT16 3
#define ORIEL_TYPE_UINT16 4
#define ORIEL_TYPE_INT32 5
#define ORIEL_TYPE_UINT32 6
#define ORIEL_TYPE_INT64 7
#define ORIEL_TYPE_UINT64 8
#define ORIEL_TYPE_HALF 9      /* IEEE binary16 */
#define ORIEL_TYPE_BFLOAT16 10 /* the upper half of a float */
#define ORIEL_TYPE_FLOAT 11
#define ORIEL_TYPE_DOUBLE 12

/* Bytes of an element; 0: no such type. */
ORIEL_DEV uint32_t oriel_type_bytes(int type)
{
	if (type < ORIEL_TYPE_INT8 || type > ORIEL_TYPE_DOUBLE)
		return 0;
	if (type <= ORIEL_TYPE_UINT64)
		return 1u << ((type - 1) / 2);
	return type <= ORIEL_TYPE_BFLOAT16 ? 2u : type == ORIEL_TYPE_FLOAT ? 4u : 8u;
}

/* Is it an integer, and which integers have a sign? */
ORIEL_DEV int ori_type_is_integer(int type)
{
	return type >= ORIEL_TYPE_INT8 && type <= ORIEL_TYPE_UINT64;
}

ORIEL_DEV int ori_type_is_signed(int type)
{
	return ori_type_is_integer(type) && (type & 1);
}

/*
 * The low bits of `bits` that an element has, as a number of 64 bits.  The sign of signed integers
 * is extended; floating point stays a pattern of bits.
 */
ORIEL_DEV uint64_t ori_type_extend(int type, uint64_t bits)
{
	uint32_t unused = 64u - 8u * oriel_type_bytes(type);

	if (ori_type_is_signed(type))
		return (uint64_t)((int64_t)(bits << unused) >> unused);
	return bits << unused >> unused;
}

#endif
