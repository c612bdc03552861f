/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shmem/deprecated.h - names of OpenSHMEM 1.0 to 1.4 that programs still use.
 *
 * Active sets: PE_start, PE_start + 2^logPE_stride, ... (PE_size of them).  The library uses
 * neither pSync nor pWrk.
 */
#ifndef SHMEM_DEPRECATED_H
#define SHMEM_DEPRECATED_H

#include "def.h"
#include "tables.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- setup and memory ------------------------------------------------------------------------ */

void start_pes(int npes); /* npes is ignored */
int _my_pe(void);
int _num_pes(void);
void *shmalloc(size_t size);
void *shmemalign(size_t alignment, size_t size);
void *shrealloc(void *ptr, size_t size);
void shfree(void *ptr);

/* Caches are coherent: these calls do nothing. */
void shmem_clear_cache_inv(void);
void shmem_set_cache_inv(void);
void shmem_clear_cache_line_inv(void *dest);
void shmem_set_cache_line_inv(void *dest);
void shmem_udcflush(void);
void shmem_udcflush_line(void *dest);

/* ---- waits ----------------------------------------------------------------------------------- */

#define OSH_DECLARE_OLD_WAIT(NAME, TYPE, OP)                                                       \
	void shmem_##NAME##_wait(volatile TYPE *ivar, TYPE cmp_value);

OSH_OLD_WAIT_TYPES(OSH_DECLARE_OLD_WAIT, )
void shmem_wait(volatile long *ivar, long cmp_value);
void shmem_wait_until(volatile long *ivar, int cmp, long cmp_value);

/* ---- atomics --------------------------------------------------------------------------------- */

#define OSH_DECLARE_OLD_AMO(NAME, TYPE, OP)                                                        \
	TYPE shmem_##NAME##_cswap(TYPE *dest, TYPE cond, TYPE value, int pe);                      \
	TYPE shmem_##NAME##_finc(TYPE *dest, int pe);                                              \
	TYPE shmem_##NAME##_fadd(TYPE *dest, TYPE value, int pe);                                  \
	void shmem_##NAME##_inc(TYPE *dest, int pe);                                               \
	void shmem_##NAME##_add(TYPE *dest, TYPE value, int pe);
#define OSH_DECLARE_OLD_AMO_EXTENDED(NAME, TYPE, OP)                                               \
	TYPE shmem_##NAME##_fetch(const TYPE *source, int pe);                                     \
	void shmem_##NAME##_set(TYPE *dest, TYPE value, int pe);                                   \
	TYPE shmem_##NAME##_swap(TYPE *dest, TYPE value, int pe);

OSH_OLD_AMO_TYPES(OSH_DECLARE_OLD_AMO, )
OSH_OLD_AMO_EXTENDED_TYPES(OSH_DECLARE_OLD_AMO_EXTENDED, )
long shmem_swap(long *dest, long value, int pe);

/* ---- collectives over active sets ------------------------------------------------------------ */

void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync);
void shmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync);

#define OSH_DECLARE_OLD_COLL(BITS)                                                                 \
	void shmem_broadcast##BITS(void *dest, const void *source, size_t nelems, int PE_root,     \
				   int PE_start, int logPE_stride, int PE_size, long *pSync);      \
	void shmem_collect##BITS(void *dest, const void *source, size_t nelems, int PE_start,      \
				 int logPE_stride, int PE_size, long *pSync);                      \
	void shmem_fcollect##BITS(void *dest, const void *source, size_t nelems, int PE_start,     \
				  int logPE_stride, int PE_size, long *pSync);                     \
	void shmem_alltoall##BITS(void *dest, const void *source, size_t nelems, int PE_start,     \
				  int logPE_stride, int PE_size, long *pSync);                     \
	void shmem_alltoalls##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,   \
				   size_t nelems, int PE_start, int logPE_stride, int PE_size,     \
				   long *pSync);

OSH_DECLARE_OLD_COLL(32)
OSH_DECLARE_OLD_COLL(64)

#define OSH_DECLARE_TO_ALL(NAME, TYPE, OP)                                                         \
	void shmem_##NAME##_##OP##_to_all(TYPE *dest, const TYPE *source, int nreduce,             \
					  int PE_start, int logPE_stride, int PE_size, TYPE *pWrk, \
					  long *pSync);

OSH_OLD_REDUCE_BITWISE_TYPES(OSH_DECLARE_TO_ALL, and)
OSH_OLD_REDUCE_BITWISE_TYPES(OSH_DECLARE_TO_ALL, or)
OSH_OLD_REDUCE_BITWISE_TYPES(OSH_DECLARE_TO_ALL, xor)
OSH_OLD_REDUCE_ORDER_TYPES(OSH_DECLARE_TO_ALL, max)
OSH_OLD_REDUCE_ORDER_TYPES(OSH_DECLARE_TO_ALL, min)
OSH_OLD_REDUCE_ARITHMETIC_TYPES(OSH_DECLARE_TO_ALL, sum)
OSH_OLD_REDUCE_ARITHMETIC_TYPES(OSH_DECLARE_TO_ALL, prod)

#ifdef __cplusplus
}
#endif

#endif
