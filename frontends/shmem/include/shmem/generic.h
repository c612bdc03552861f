/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shmem/generic.h - the type-generic forms of C11.
 *
 * A macro chooses the typed call by the type of a pointer argument: the first one, or the second if
 * the first is a context or a team.  The library itself is compiled without them
 * (OSH_NO_GENERIC), because it defines functions with some of these names.
 */
#ifndef SHMEM_GENERIC_H
#define SHMEM_GENERIC_H

#include "def.h"
#include "tables.h"

#ifdef __cplusplus

/* C++ has shmem_sync() of a team beside the one of an active set. */
inline int shmem_sync(shmem_team_t team)
{
	return shmem_team_sync(team);
}

#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L && !defined(OSH_NO_GENERIC)

/* Never defined.  A compiler that names it says: there is no such call for this type. */
void osh_no_call_for_this_type(void);

#define OSH_FIRST(a, ...) a
#define OSH_SECOND(a, b, ...) b

#define OSH_CASE(NAME, TYPE, OP)                                                                   \
	TYPE * : shmem_##NAME##_##OP,                                                              \
		 const TYPE * : shmem_##NAME##_##OP,                                               \
				volatile TYPE * : shmem_##NAME##_##OP,
#define OSH_CTX_CASE(NAME, TYPE, OP)                                                               \
	TYPE * : shmem_ctx_##NAME##_##OP,                                                          \
		 const TYPE * : shmem_ctx_##NAME##_##OP,                                           \
				volatile TYPE * : shmem_ctx_##NAME##_##OP,

/* Calls with a pointer first. */
#define OSH_BY_FIRST(TABLE, OP, ...)                                                               \
	_Generic(OSH_FIRST(__VA_ARGS__, 0), TABLE(OSH_CASE, OP) default                            \
		 : osh_no_call_for_this_type)(__VA_ARGS__)
/* Calls with a team first. */
#define OSH_BY_SECOND(TABLE, OP, ...)                                                              \
	_Generic(OSH_SECOND(__VA_ARGS__, 0), TABLE(OSH_CASE, OP) default                           \
		 : osh_no_call_for_this_type)(__VA_ARGS__)
/* Calls that may have a context first. */
#define OSH_BY_TYPE(TABLE, OP, ...)                                                                \
	_Generic(OSH_FIRST(__VA_ARGS__, 0), TABLE(OSH_CASE, OP) shmem_ctx_t                        \
		 : _Generic(OSH_SECOND(__VA_ARGS__, 0), TABLE(OSH_CTX_CASE, OP) default            \
			    : osh_no_call_for_this_type),                                          \
		   default                                                                         \
		 : osh_no_call_for_this_type)(__VA_ARGS__)

/* ---- put and get ----------------------------------------------------------------------------- */

#define shmem_put(...) OSH_BY_TYPE(OSH_RMA_BASIC, put, __VA_ARGS__)
#define shmem_get(...) OSH_BY_TYPE(OSH_RMA_BASIC, get, __VA_ARGS__)
#define shmem_put_nbi(...) OSH_BY_TYPE(OSH_RMA_BASIC, put_nbi, __VA_ARGS__)
#define shmem_get_nbi(...) OSH_BY_TYPE(OSH_RMA_BASIC, get_nbi, __VA_ARGS__)
#define shmem_p(...) OSH_BY_TYPE(OSH_RMA_BASIC, p, __VA_ARGS__)
#define shmem_g(...) OSH_BY_TYPE(OSH_RMA_BASIC, g, __VA_ARGS__)
#define shmem_iput(...) OSH_BY_TYPE(OSH_RMA_BASIC, iput, __VA_ARGS__)
#define shmem_iget(...) OSH_BY_TYPE(OSH_RMA_BASIC, iget, __VA_ARGS__)
#define shmem_put_signal(...) OSH_BY_TYPE(OSH_RMA_BASIC, put_signal, __VA_ARGS__)
#define shmem_put_signal_nbi(...) OSH_BY_TYPE(OSH_RMA_BASIC, put_signal_nbi, __VA_ARGS__)

/* ---- atomics --------------------------------------------------------------------------------- */

#define OSH_AMO(OP, ...) OSH_BY_TYPE(OSH_AMO_BASIC, atomic_##OP, __VA_ARGS__)
#define OSH_AMO_EXTENDED(OP, ...) OSH_BY_TYPE(OSH_AMO_EXTENDED_BASIC, atomic_##OP, __VA_ARGS__)
#define OSH_AMO_BITWISE(OP, ...) OSH_BY_TYPE(OSH_AMO_BITWISE_BASIC, atomic_##OP, __VA_ARGS__)

#define shmem_atomic_compare_swap(...) OSH_AMO(compare_swap, __VA_ARGS__)
#define shmem_atomic_compare_swap_nbi(...) OSH_AMO(compare_swap_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...) OSH_AMO(fetch_inc, __VA_ARGS__)
#define shmem_atomic_fetch_inc_nbi(...) OSH_AMO(fetch_inc_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_add(...) OSH_AMO(fetch_add, __VA_ARGS__)
#define shmem_atomic_fetch_add_nbi(...) OSH_AMO(fetch_add_nbi, __VA_ARGS__)
#define shmem_atomic_inc(...) OSH_AMO(inc, __VA_ARGS__)
#define shmem_atomic_add(...) OSH_AMO(add, __VA_ARGS__)
#define shmem_atomic_fetch(...) OSH_AMO_EXTENDED(fetch, __VA_ARGS__)
#define shmem_atomic_fetch_nbi(...) OSH_AMO_EXTENDED(fetch_nbi, __VA_ARGS__)
#define shmem_atomic_set(...) OSH_AMO_EXTENDED(set, __VA_ARGS__)
#define shmem_atomic_swap(...) OSH_AMO_EXTENDED(swap, __VA_ARGS__)
#define shmem_atomic_swap_nbi(...) OSH_AMO_EXTENDED(swap_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_and(...) OSH_AMO_BITWISE(fetch_and, __VA_ARGS__)
#define shmem_atomic_fetch_and_nbi(...) OSH_AMO_BITWISE(fetch_and_nbi, __VA_ARGS__)
#define shmem_atomic_and(...) OSH_AMO_BITWISE(and, __VA_ARGS__)
#define shmem_atomic_fetch_or(...) OSH_AMO_BITWISE(fetch_or, __VA_ARGS__)
#define shmem_atomic_fetch_or_nbi(...) OSH_AMO_BITWISE(fetch_or_nbi, __VA_ARGS__)
#define shmem_atomic_or(...) OSH_AMO_BITWISE(or, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...) OSH_AMO_BITWISE(fetch_xor, __VA_ARGS__)
#define shmem_atomic_fetch_xor_nbi(...) OSH_AMO_BITWISE(fetch_xor_nbi, __VA_ARGS__)
#define shmem_atomic_xor(...) OSH_AMO_BITWISE(xor, __VA_ARGS__)

/* Names of 1.3.  Types that the standard gave no old name use the new call. */
#define shmem_cswap(...) OSH_AMO(compare_swap, __VA_ARGS__)
#define shmem_finc(...) OSH_AMO(fetch_inc, __VA_ARGS__)
#define shmem_fadd(...) OSH_AMO(fetch_add, __VA_ARGS__)
#define shmem_inc(...) OSH_AMO(inc, __VA_ARGS__)
#define shmem_add(...) OSH_AMO(add, __VA_ARGS__)
#define shmem_fetch(...) OSH_AMO_EXTENDED(fetch, __VA_ARGS__)
#define shmem_set(...) OSH_AMO_EXTENDED(set, __VA_ARGS__)
#define shmem_swap(...) OSH_AMO_EXTENDED(swap, __VA_ARGS__)

/* ---- waits and tests ------------------------------------------------------------------------- */

#define OSH_WAIT(OP, ...) OSH_BY_FIRST(OSH_WAIT_BASIC, OP, __VA_ARGS__)

#define shmem_wait(...) OSH_BY_FIRST(OSH_OLD_WAIT_TYPES, wait, __VA_ARGS__)
#define shmem_wait_until(...) OSH_WAIT(wait_until, __VA_ARGS__)
#define shmem_wait_until_all(...) OSH_WAIT(wait_until_all, __VA_ARGS__)
#define shmem_wait_until_any(...) OSH_WAIT(wait_until_any, __VA_ARGS__)
#define shmem_wait_until_some(...) OSH_WAIT(wait_until_some, __VA_ARGS__)
#define shmem_wait_until_all_vector(...) OSH_WAIT(wait_until_all_vector, __VA_ARGS__)
#define shmem_wait_until_any_vector(...) OSH_WAIT(wait_until_any_vector, __VA_ARGS__)
#define shmem_wait_until_some_vector(...) OSH_WAIT(wait_until_some_vector, __VA_ARGS__)
#define shmem_test(...) OSH_WAIT(test, __VA_ARGS__)
#define shmem_test_all(...) OSH_WAIT(test_all, __VA_ARGS__)
#define shmem_test_any(...) OSH_WAIT(test_any, __VA_ARGS__)
#define shmem_test_some(...) OSH_WAIT(test_some, __VA_ARGS__)
#define shmem_test_all_vector(...) OSH_WAIT(test_all_vector, __VA_ARGS__)
#define shmem_test_any_vector(...) OSH_WAIT(test_any_vector, __VA_ARGS__)
#define shmem_test_some_vector(...) OSH_WAIT(test_some_vector, __VA_ARGS__)

/* ---- collectives ----------------------------------------------------------------------------- */

#define OSH_COLL(OP, ...) OSH_BY_SECOND(OSH_RMA_BASIC, OP, __VA_ARGS__)

#define shmem_broadcast(...) OSH_COLL(broadcast, __VA_ARGS__)
#define shmem_collect(...) OSH_COLL(collect, __VA_ARGS__)
#define shmem_fcollect(...) OSH_COLL(fcollect, __VA_ARGS__)
#define shmem_alltoall(...) OSH_COLL(alltoall, __VA_ARGS__)
#define shmem_alltoalls(...) OSH_COLL(alltoalls, __VA_ARGS__)
#define shmem_and_reduce(...) OSH_BY_SECOND(OSH_REDUCE_BITWISE_BASIC, and_reduce, __VA_ARGS__)
#define shmem_or_reduce(...) OSH_BY_SECOND(OSH_REDUCE_BITWISE_BASIC, or_reduce, __VA_ARGS__)
#define shmem_xor_reduce(...) OSH_BY_SECOND(OSH_REDUCE_BITWISE_BASIC, xor_reduce, __VA_ARGS__)
#define shmem_max_reduce(...) OSH_BY_SECOND(OSH_REDUCE_ORDER_BASIC, max_reduce, __VA_ARGS__)
#define shmem_min_reduce(...) OSH_BY_SECOND(OSH_REDUCE_ORDER_BASIC, min_reduce, __VA_ARGS__)
#define shmem_sum_reduce(...) OSH_BY_SECOND(OSH_REDUCE_ARITHMETIC_BASIC, sum_reduce, __VA_ARGS__)
#define shmem_prod_reduce(...) OSH_BY_SECOND(OSH_REDUCE_ARITHMETIC_BASIC, prod_reduce, __VA_ARGS__)

/* One argument is a team, four are an active set. */
#define OSH_FIFTH(a, b, c, d, e, ...) e
#define shmem_sync(...) OSH_FIFTH(__VA_ARGS__, shmem_sync, 0, 0, shmem_team_sync, 0)(__VA_ARGS__)

#endif

#endif
