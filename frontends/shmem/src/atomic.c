/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.c - shmem_long_atomic_add() and its relatives, for every type and with a context; the
 * names before version 1.4.
 *
 * Each call is osh_amo() with the bits of its arguments.  The fetching forms without "nbi" and with
 * it are alike: the value has come when the call returns.
 */
#include "amo.h"

void osh_fail_alignment(const char *call, const void *address, uint64_t bytes)
{
	osh_fail(call, "%p is not aligned to its %llu bytes, so it cannot be atomic", address,
		 (unsigned long long)bytes);
}

/* A value as bits and back, for integers and floating point. */
#define BITS(TYPE, value)                                                                          \
	({                                                                                         \
		TYPE from_ = (value);                                                              \
		uint64_t bits_ = 0;                                                                \
		memcpy(&bits_, &from_, sizeof(from_));                                             \
		bits_;                                                                             \
	})
#define VALUE(TYPE, bits)                                                                          \
	({                                                                                         \
		uint64_t old_ = (bits);                                                            \
		TYPE value_;                                                                       \
		memcpy(&value_, &old_, sizeof(value_));                                            \
		value_;                                                                            \
	})

#define CALL(F) "shmem_" #F
#define DEFAULT_CTX(F) (&osh.context)
#define GIVEN_CTX(F) osh_ctx_of(F, ctx)

/* F is the call's name after "shmem_"; ARGS are its parameters. */
#define ASK(F, CTX, TYPE, OP, dest, expected, value, fetch)                                        \
	osh_amo(CALL(F), CTX(CALL(F)), dest, sizeof(TYPE), ORIEL_ATOMIC_##OP, expected, value, pe, \
		fetch)
#define DEFINE_VOID(F, CTX, TYPE, OP, VALUE_BITS, ...)                                             \
	void shmem_##F(__VA_ARGS__, int pe)                                                        \
	{                                                                                          \
		ASK(F, CTX, TYPE, OP, dest, 0, VALUE_BITS, 0);                                     \
	}
#define DEFINE_FETCH(F, CTX, TYPE, OP, EXPECTED_BITS, VALUE_BITS, ...)                             \
	TYPE shmem_##F(__VA_ARGS__, int pe)                                                        \
	{                                                                                          \
		return VALUE(TYPE, ASK(F, CTX, TYPE, OP, dest, EXPECTED_BITS, VALUE_BITS, 1));     \
	}
#define DEFINE_NBI(F, CTX, TYPE, OP, EXPECTED_BITS, VALUE_BITS, ...)                               \
	void shmem_##F(__VA_ARGS__, int pe)                                                        \
	{                                                                                          \
		*fetch = VALUE(TYPE, ASK(F, CTX, TYPE, OP, dest, EXPECTED_BITS, VALUE_BITS, 1));   \
	}

/* ---- compare_swap, add, inc ------------------------------------------------------------------ */

#define DEFINE_AMO(P, NAME, TYPE, CTX, ...)                                                        \
	DEFINE_FETCH(P##NAME##_atomic_compare_swap, CTX, TYPE, COMPARE_SWAP, BITS(TYPE, cond),     \
		     BITS(TYPE, value), __VA_ARGS__ TYPE *dest, TYPE cond, TYPE value)             \
	DEFINE_FETCH(P##NAME##_atomic_fetch_inc, CTX, TYPE, ADD, 0, 1, __VA_ARGS__ TYPE *dest)     \
	DEFINE_FETCH(P##NAME##_atomic_fetch_add, CTX, TYPE, ADD, 0, BITS(TYPE, value),             \
		     __VA_ARGS__ TYPE *dest, TYPE value)                                           \
	DEFINE_VOID(P##NAME##_atomic_inc, CTX, TYPE, ADD, 1, __VA_ARGS__ TYPE *dest)               \
	DEFINE_VOID(P##NAME##_atomic_add, CTX, TYPE, ADD, BITS(TYPE, value),                       \
		    __VA_ARGS__ TYPE *dest, TYPE value)                                            \
	DEFINE_NBI(P##NAME##_atomic_compare_swap_nbi, CTX, TYPE, COMPARE_SWAP, BITS(TYPE, cond),   \
		   BITS(TYPE, value), __VA_ARGS__ TYPE *fetch, TYPE *dest, TYPE cond, TYPE value)  \
	DEFINE_NBI(P##NAME##_atomic_fetch_inc_nbi, CTX, TYPE, ADD, 0, 1, __VA_ARGS__ TYPE *fetch,  \
		   TYPE *dest)                                                                     \
	DEFINE_NBI(P##NAME##_atomic_fetch_add_nbi, CTX, TYPE, ADD, 0, BITS(TYPE, value),           \
		   __VA_ARGS__ TYPE *fetch, TYPE *dest, TYPE value)
#define DEFINE_AMO_2(NAME, TYPE, OP)                                                               \
	DEFINE_AMO(, NAME, TYPE, DEFAULT_CTX, )                                                    \
	DEFINE_AMO(ctx_, NAME, TYPE, GIVEN_CTX, OSH_CTX_PARAMETER)

OSH_AMO_TYPES(DEFINE_AMO_2, )

/* ---- fetch, set, swap ------------------------------------------------------------------------ */

#define DEFINE_EXTENDED(P, NAME, TYPE, CTX, ...)                                                   \
	TYPE shmem_##P##NAME##_atomic_fetch(__VA_ARGS__ const TYPE *source, int pe)                \
	{                                                                                          \
		return VALUE(TYPE,                                                                 \
			     ASK(P##NAME##_atomic_fetch, CTX, TYPE, FETCH, source, 0, 0, 1));      \
	}                                                                                          \
	void shmem_##P##NAME##_atomic_fetch_nbi(__VA_ARGS__ TYPE *fetch, const TYPE *source,       \
						int pe)                                            \
	{                                                                                          \
		*fetch = VALUE(TYPE, ASK(P##NAME##_atomic_fetch_nbi, CTX, TYPE, FETCH, source, 0,  \
					 0, 1));                                                   \
	}                                                                                          \
	DEFINE_VOID(P##NAME##_atomic_set, CTX, TYPE, SET, BITS(TYPE, value),                       \
		    __VA_ARGS__ TYPE *dest, TYPE value)                                            \
	DEFINE_FETCH(P##NAME##_atomic_swap, CTX, TYPE, SWAP, 0, BITS(TYPE, value),                 \
		     __VA_ARGS__ TYPE *dest, TYPE value)                                           \
	DEFINE_NBI(P##NAME##_atomic_swap_nbi, CTX, TYPE, SWAP, 0, BITS(TYPE, value),               \
		   __VA_ARGS__ TYPE *fetch, TYPE *dest, TYPE value)
#define DEFINE_EXTENDED_2(NAME, TYPE, OP)                                                          \
	DEFINE_EXTENDED(, NAME, TYPE, DEFAULT_CTX, )                                               \
	DEFINE_EXTENDED(ctx_, NAME, TYPE, GIVEN_CTX, OSH_CTX_PARAMETER)

OSH_AMO_EXTENDED_TYPES(DEFINE_EXTENDED_2, )

/* ---- and, or, xor ---------------------------------------------------------------------------- */

#define DEFINE_BITWISE_ONE(P, NAME, TYPE, CTX, LOWER, UPPER, ...)                                  \
	DEFINE_FETCH(P##NAME##_atomic_fetch_##LOWER, CTX, TYPE, UPPER, 0, BITS(TYPE, value),       \
		     __VA_ARGS__ TYPE *dest, TYPE value)                                           \
	DEFINE_VOID(P##NAME##_atomic_##LOWER, CTX, TYPE, UPPER, BITS(TYPE, value),                 \
		    __VA_ARGS__ TYPE *dest, TYPE value)                                            \
	DEFINE_NBI(P##NAME##_atomic_fetch_##LOWER##_nbi, CTX, TYPE, UPPER, 0, BITS(TYPE, value),   \
		   __VA_ARGS__ TYPE *fetch, TYPE *dest, TYPE value)
#define DEFINE_BITWISE(P, NAME, TYPE, CTX, ...)                                                    \
	DEFINE_BITWISE_ONE(P, NAME, TYPE, CTX, and, AND, __VA_ARGS__)                              \
	DEFINE_BITWISE_ONE(P, NAME, TYPE, CTX, or, OR, __VA_ARGS__)                                \
	DEFINE_BITWISE_ONE(P, NAME, TYPE, CTX, xor, XOR, __VA_ARGS__)
#define DEFINE_BITWISE_2(NAME, TYPE, OP)                                                           \
	DEFINE_BITWISE(, NAME, TYPE, DEFAULT_CTX, )                                                \
	DEFINE_BITWISE(ctx_, NAME, TYPE, GIVEN_CTX, OSH_CTX_PARAMETER)

OSH_AMO_BITWISE_TYPES(DEFINE_BITWISE_2, )

/* ---- names before 1.4 ------------------------------------------------------------------------ */

#define DEFINE_OLD(NAME, TYPE, OP)                                                                 \
	DEFINE_FETCH(NAME##_cswap, DEFAULT_CTX, TYPE, COMPARE_SWAP, BITS(TYPE, cond),              \
		     BITS(TYPE, value), TYPE *dest, TYPE cond, TYPE value)                         \
	DEFINE_FETCH(NAME##_finc, DEFAULT_CTX, TYPE, ADD, 0, 1, TYPE *dest)                        \
	DEFINE_FETCH(NAME##_fadd, DEFAULT_CTX, TYPE, ADD, 0, BITS(TYPE, value), TYPE *dest,        \
		     TYPE value)                                                                   \
	DEFINE_VOID(NAME##_inc, DEFAULT_CTX, TYPE, ADD, 1, TYPE *dest)                             \
	DEFINE_VOID(NAME##_add, DEFAULT_CTX, TYPE, ADD, BITS(TYPE, value), TYPE *dest, TYPE value)
#define DEFINE_OLD_EXTENDED(NAME, TYPE, OP)                                                        \
	TYPE shmem_##NAME##_fetch(const TYPE *source, int pe)                                      \
	{                                                                                          \
		return VALUE(TYPE, ASK(NAME##_fetch, DEFAULT_CTX, TYPE, FETCH, source, 0, 0, 1));  \
	}                                                                                          \
	DEFINE_VOID(NAME##_set, DEFAULT_CTX, TYPE, SET, BITS(TYPE, value), TYPE *dest, TYPE value) \
	DEFINE_FETCH(NAME##_swap, DEFAULT_CTX, TYPE, SWAP, 0, BITS(TYPE, value), TYPE *dest,       \
		     TYPE value)

OSH_OLD_AMO_TYPES(DEFINE_OLD, )
OSH_OLD_AMO_EXTENDED_TYPES(DEFINE_OLD_EXTENDED, )

long shmem_swap(long *dest, long value, int pe)
{
	return shmem_long_swap(dest, value, pe);
}
