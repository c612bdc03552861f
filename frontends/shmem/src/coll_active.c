/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_active.c - the deprecated collectives that move data, over active sets.
 *
 * They differ from those of teams in one point: a broadcast leaves dest of the root alone.  PE_root
 * is a number within the set.  A PE outside of the set has no set, and its call does nothing.
 */
#include "set.h"

#define SET(CALL) osh_active_set(CALL, PE_start, logPE_stride, PE_size, pSync)

#define DEFINE(BITS)                                                                               \
	void shmem_broadcast##BITS(void *dest, const void *source, size_t nelems, int PE_root,     \
				   int PE_start, int logPE_stride, int PE_size, long *pSync)       \
	{                                                                                          \
		const char *call = "shmem_broadcast" #BITS;                                        \
		struct osh_set *s = SET(call);                                                     \
                                                                                                   \
		if (s)                                                                             \
			osh_coll_broadcast(call, s, dest, source,                                  \
					   osh_set_bytes(call, nelems, BITS / 8), PE_root);        \
	}                                                                                          \
	void shmem_collect##BITS(void *dest, const void *source, size_t nelems, int PE_start,      \
				 int logPE_stride, int PE_size, long *pSync)                       \
	{                                                                                          \
		const char *call = "shmem_collect" #BITS;                                          \
		struct osh_set *s = SET(call);                                                     \
                                                                                                   \
		if (s)                                                                             \
			osh_coll_collect(call, s, dest, source, nelems, BITS / 8);                 \
	}                                                                                          \
	void shmem_fcollect##BITS(void *dest, const void *source, size_t nelems, int PE_start,     \
				  int logPE_stride, int PE_size, long *pSync)                      \
	{                                                                                          \
		const char *call = "shmem_fcollect" #BITS;                                         \
		struct osh_set *s = SET(call);                                                     \
                                                                                                   \
		if (s)                                                                             \
			osh_coll_fcollect(call, s, dest, source,                                   \
					  osh_set_bytes(call, nelems, BITS / 8));                  \
	}                                                                                          \
	void shmem_alltoall##BITS(void *dest, const void *source, size_t nelems, int PE_start,     \
				  int logPE_stride, int PE_size, long *pSync)                      \
	{                                                                                          \
		const char *call = "shmem_alltoall" #BITS;                                         \
		struct osh_set *s = SET(call);                                                     \
                                                                                                   \
		if (s)                                                                             \
			osh_coll_alltoall(call, s, dest, source,                                   \
					  osh_set_bytes(call, nelems, BITS / 8));                  \
	}                                                                                          \
	void shmem_alltoalls##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,   \
				   size_t nelems, int PE_start, int logPE_stride, int PE_size,     \
				   long *pSync)                                                    \
	{                                                                                          \
		const char *call = "shmem_alltoalls" #BITS;                                        \
		struct osh_set *s = SET(call);                                                     \
                                                                                                   \
		if (s)                                                                             \
			osh_coll_alltoalls(call, s, dest, source, dst, sst, nelems, BITS / 8);     \
	}

DEFINE(32)
DEFINE(64)
