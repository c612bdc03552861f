/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shmem/tables.h - the types that calls exist for, as the tables of the specification list them.
 *
 * OSH_..._TYPES(X, OP) expands X(NAME, TYPE, OP) for each type.  NAME is the part of a call's name
 * and OP is passed on.  A table _BASIC has each C type once, for _Generic: names like int32 are
 * second names of basic types there.
 */
#ifndef SHMEM_TABLES_H
#define SHMEM_TABLES_H

/* The parameter that forms with a context have more, with its comma. */
#define OSH_CTX_PARAMETER shmem_ctx_t ctx,

#define OSH_WIDE_INTEGERS(X, OP)                                                                   \
	X(int, int, OP)                                                                            \
	X(long, long, OP)                                                                          \
	X(longlong, long long, OP)                                                                 \
	X(uint, unsigned int, OP)                                                                  \
	X(ulong, unsigned long, OP)                                                                \
	X(ulonglong, unsigned long long, OP)
#define OSH_NARROW_INTEGERS(X, OP)                                                                 \
	X(char, char, OP)                                                                          \
	X(schar, signed char, OP)                                                                  \
	X(short, short, OP)                                                                        \
	X(uchar, unsigned char, OP)                                                                \
	X(ushort, unsigned short, OP)
#define OSH_FLOATING(X, OP)                                                                        \
	X(float, float, OP)                                                                        \
	X(double, double, OP)                                                                      \
	X(longdouble, long double, OP)
#define OSH_COMPLEX(X, OP)                                                                         \
	X(complexf, osh_complexf, OP)                                                              \
	X(complexd, osh_complexd, OP)
#define OSH_FIXED_32_64(X, OP)                                                                     \
	X(int32, int32_t, OP)                                                                      \
	X(int64, int64_t, OP)                                                                      \
	X(uint32, uint32_t, OP)                                                                    \
	X(uint64, uint64_t, OP)
#define OSH_FIXED_8_16(X, OP)                                                                      \
	X(int8, int8_t, OP)                                                                        \
	X(int16, int16_t, OP)                                                                      \
	X(uint8, uint8_t, OP)                                                                      \
	X(uint16, uint16_t, OP)
#define OSH_SIZES(X, OP)                                                                           \
	X(size, size_t, OP)                                                                        \
	X(ptrdiff, ptrdiff_t, OP)

/* ---- put, get, and the collectives that move data -------------------------------------------- */

#define OSH_RMA_BASIC(X, OP)                                                                       \
	OSH_FLOATING(X, OP)                                                                        \
	OSH_NARROW_INTEGERS(X, OP)                                                                 \
	OSH_WIDE_INTEGERS(X, OP)
#define OSH_RMA_TYPES(X, OP)                                                                       \
	OSH_RMA_BASIC(X, OP)                                                                       \
	OSH_FIXED_8_16(X, OP)                                                                      \
	OSH_FIXED_32_64(X, OP)                                                                     \
	OSH_SIZES(X, OP)

/* Calls named after the size of an element: X(BITS, OP). */
#define OSH_RMA_SIZES(X, OP) X(8, OP) X(16, OP) X(32, OP) X(64, OP) X(128, OP)

/* ---- atomics --------------------------------------------------------------------------------- */

/* compare_swap, inc, add and their fetching forms. */
#define OSH_AMO_BASIC(X, OP) OSH_WIDE_INTEGERS(X, OP)
#define OSH_AMO_TYPES(X, OP)                                                                       \
	OSH_WIDE_INTEGERS(X, OP)                                                                   \
	OSH_FIXED_32_64(X, OP)                                                                     \
	OSH_SIZES(X, OP)
/* fetch, set, swap. */
#define OSH_AMO_EXTENDED_BASIC(X, OP)                                                              \
	OSH_AMO_BASIC(X, OP)                                                                       \
	X(float, float, OP)                                                                        \
	X(double, double, OP)
#define OSH_AMO_EXTENDED_TYPES(X, OP)                                                              \
	OSH_AMO_TYPES(X, OP)                                                                       \
	X(float, float, OP)                                                                        \
	X(double, double, OP)
/* and, or, xor.  The basic table names int and long by their widths, which the standard has. */
#define OSH_AMO_BITWISE_BASIC(X, OP)                                                               \
	X(uint, unsigned int, OP)                                                                  \
	X(ulong, unsigned long, OP)                                                                \
	X(ulonglong, unsigned long long, OP)                                                       \
	X(int32, int32_t, OP)                                                                      \
	X(int64, int64_t, OP)
#define OSH_AMO_BITWISE_TYPES(X, OP)                                                               \
	OSH_AMO_BITWISE_BASIC(X, OP)                                                               \
	X(uint32, uint32_t, OP)                                                                    \
	X(uint64, uint64_t, OP)

/* ---- waits and tests ------------------------------------------------------------------------- */

#define OSH_WAIT_BASIC(X, OP)                                                                      \
	OSH_WIDE_INTEGERS(X, OP)                                                                   \
	X(short, short, OP)                                                                        \
	X(ushort, unsigned short, OP)
#define OSH_WAIT_TYPES(X, OP)                                                                      \
	OSH_WAIT_BASIC(X, OP)                                                                      \
	OSH_FIXED_32_64(X, OP)                                                                     \
	OSH_SIZES(X, OP)

/* ---- reductions over teams ------------------------------------------------------------------- */

/* and, or, xor */
#define OSH_REDUCE_BITWISE_BASIC(X, OP)                                                            \
	X(uchar, unsigned char, OP)                                                                \
	X(ushort, unsigned short, OP)                                                              \
	X(uint, unsigned int, OP)                                                                  \
	X(ulong, unsigned long, OP)                                                                \
	X(ulonglong, unsigned long long, OP)                                                       \
	X(int8, int8_t, OP)                                                                        \
	X(int16, int16_t, OP)                                                                      \
	X(int32, int32_t, OP)                                                                      \
	X(int64, int64_t, OP)
#define OSH_REDUCE_BITWISE_TYPES(X, OP)                                                            \
	OSH_REDUCE_BITWISE_BASIC(X, OP)                                                            \
	X(uint8, uint8_t, OP)                                                                      \
	X(uint16, uint16_t, OP)                                                                    \
	X(uint32, uint32_t, OP)                                                                    \
	X(uint64, uint64_t, OP)                                                                    \
	X(size, size_t, OP)
/* max, min */
#define OSH_REDUCE_ORDER_BASIC(X, OP) OSH_RMA_BASIC(X, OP)
#define OSH_REDUCE_ORDER_TYPES(X, OP) OSH_RMA_TYPES(X, OP)
/* sum, prod */
#define OSH_REDUCE_ARITHMETIC_BASIC(X, OP)                                                         \
	OSH_RMA_BASIC(X, OP)                                                                       \
	OSH_COMPLEX(X, OP)
#define OSH_REDUCE_ARITHMETIC_TYPES(X, OP)                                                         \
	OSH_RMA_TYPES(X, OP)                                                                       \
	OSH_COMPLEX(X, OP)

/* ---- deprecated calls ------------------------------------------------------------------------ */

#define OSH_OLD_WAIT_TYPES(X, OP)                                                                  \
	X(short, short, OP)                                                                        \
	X(int, int, OP)                                                                            \
	X(long, long, OP)                                                                          \
	X(longlong, long long, OP)
#define OSH_OLD_AMO_TYPES(X, OP)                                                                   \
	X(int, int, OP)                                                                            \
	X(long, long, OP)                                                                          \
	X(longlong, long long, OP)
#define OSH_OLD_AMO_EXTENDED_TYPES(X, OP)                                                          \
	OSH_OLD_AMO_TYPES(X, OP)                                                                   \
	X(float, float, OP)                                                                        \
	X(double, double, OP)
#define OSH_OLD_REDUCE_BITWISE_TYPES(X, OP)                                                        \
	X(short, short, OP)                                                                        \
	X(int, int, OP)                                                                            \
	X(long, long, OP)                                                                          \
	X(longlong, long long, OP)
#define OSH_OLD_REDUCE_ORDER_TYPES(X, OP)                                                          \
	OSH_OLD_REDUCE_BITWISE_TYPES(X, OP)                                                        \
	OSH_FLOATING(X, OP)
#define OSH_OLD_REDUCE_ARITHMETIC_TYPES(X, OP)                                                     \
	OSH_OLD_REDUCE_ORDER_TYPES(X, OP)                                                          \
	OSH_COMPLEX(X, OP)

#endif
