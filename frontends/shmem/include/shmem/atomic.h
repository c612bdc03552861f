/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shmem/atomic.h - atomic memory operations, for the types of OSH_AMO_..._TYPES.
 *
 * All atomics on a word are atomic among each other, whatever PE makes them and however that PE
 * reaches the word.
 */
#ifndef SHMEM_ATOMIC_H
#define SHMEM_ATOMIC_H

#include "def.h"
#include "tables.h"

#ifdef __cplusplus
extern "C" {
#endif

/* P is "" or "ctx_"; __VA_ARGS__ is nothing or the context's parameter with its comma. */

#define OSH_DECLARE_AMO(P, NAME, TYPE, ...)                                                        \
	TYPE shmem_##P##NAME##_atomic_compare_swap(__VA_ARGS__ TYPE *dest, TYPE cond, TYPE value,  \
						   int pe);                                        \
	TYPE shmem_##P##NAME##_atomic_fetch_inc(__VA_ARGS__ TYPE *dest, int pe);                   \
	TYPE shmem_##P##NAME##_atomic_fetch_add(__VA_ARGS__ TYPE *dest, TYPE value, int pe);       \
	void shmem_##P##NAME##_atomic_inc(__VA_ARGS__ TYPE *dest, int pe);                         \
	void shmem_##P##NAME##_atomic_add(__VA_ARGS__ TYPE *dest, TYPE value, int pe);             \
	void shmem_##P##NAME##_atomic_compare_swap_nbi(__VA_ARGS__ TYPE *fetch, TYPE *dest,        \
						       TYPE cond, TYPE value, int pe);             \
	void shmem_##P##NAME##_atomic_fetch_inc_nbi(__VA_ARGS__ TYPE *fetch, TYPE *dest, int pe);  \
	void shmem_##P##NAME##_atomic_fetch_add_nbi(__VA_ARGS__ TYPE *fetch, TYPE *dest,           \
						    TYPE value, int pe);
#define OSH_DECLARE_AMO_EXTENDED(P, NAME, TYPE, ...)                                               \
	TYPE shmem_##P##NAME##_atomic_fetch(__VA_ARGS__ const TYPE *source, int pe);               \
	void shmem_##P##NAME##_atomic_set(__VA_ARGS__ TYPE *dest, TYPE value, int pe);             \
	TYPE shmem_##P##NAME##_atomic_swap(__VA_ARGS__ TYPE *dest, TYPE value, int pe);            \
	void shmem_##P##NAME##_atomic_fetch_nbi(__VA_ARGS__ TYPE *fetch, const TYPE *source,       \
						int pe);                                           \
	void shmem_##P##NAME##_atomic_swap_nbi(__VA_ARGS__ TYPE *fetch, TYPE *dest, TYPE value,    \
					       int pe);
#define OSH_DECLARE_AMO_BITWISE(P, NAME, TYPE, ...)                                                \
	TYPE shmem_##P##NAME##_atomic_fetch_and(__VA_ARGS__ TYPE *dest, TYPE value, int pe);       \
	TYPE shmem_##P##NAME##_atomic_fetch_or(__VA_ARGS__ TYPE *dest, TYPE value, int pe);        \
	TYPE shmem_##P##NAME##_atomic_fetch_xor(__VA_ARGS__ TYPE *dest, TYPE value, int pe);       \
	void shmem_##P##NAME##_atomic_and(__VA_ARGS__ TYPE *dest, TYPE value, int pe);             \
	void shmem_##P##NAME##_atomic_or(__VA_ARGS__ TYPE *dest, TYPE value, int pe);              \
	void shmem_##P##NAME##_atomic_xor(__VA_ARGS__ TYPE *dest, TYPE value, int pe);             \
	void shmem_##P##NAME##_atomic_fetch_and_nbi(__VA_ARGS__ TYPE *fetch, TYPE *dest,           \
						    TYPE value, int pe);                           \
	void shmem_##P##NAME##_atomic_fetch_or_nbi(__VA_ARGS__ TYPE *fetch, TYPE *dest,            \
						   TYPE value, int pe);                            \
	void shmem_##P##NAME##_atomic_fetch_xor_nbi(__VA_ARGS__ TYPE *fetch, TYPE *dest,           \
						    TYPE value, int pe);

/* Both forms of a group, for one type. */
#define OSH_DECLARE_AMO_2(NAME, TYPE, OP)                                                          \
	OSH_DECLARE_AMO(, NAME, TYPE, )                                                            \
	OSH_DECLARE_AMO(ctx_, NAME, TYPE, OSH_CTX_PARAMETER)
#define OSH_DECLARE_AMO_EXTENDED_2(NAME, TYPE, OP)                                                 \
	OSH_DECLARE_AMO_EXTENDED(, NAME, TYPE, )                                                   \
	OSH_DECLARE_AMO_EXTENDED(ctx_, NAME, TYPE, OSH_CTX_PARAMETER)
#define OSH_DECLARE_AMO_BITWISE_2(NAME, TYPE, OP)                                                  \
	OSH_DECLARE_AMO_BITWISE(, NAME, TYPE, )                                                    \
	OSH_DECLARE_AMO_BITWISE(ctx_, NAME, TYPE, OSH_CTX_PARAMETER)

OSH_AMO_TYPES(OSH_DECLARE_AMO_2, )
OSH_AMO_EXTENDED_TYPES(OSH_DECLARE_AMO_EXTENDED_2, )
OSH_AMO_BITWISE_TYPES(OSH_DECLARE_AMO_BITWISE_2, )

#ifdef __cplusplus
}
#endif

#endif
