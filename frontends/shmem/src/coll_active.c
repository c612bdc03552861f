/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_active.c - the deprecated collectives that move data, over active sets.
 *
 * They differ from those of teams in one point: a broadcast leaves dest of the root alone.
 */
#include "set.h"

static void broadcast(const char *call, struct osh_set *s, void *dest, const void *source,
		      uint64_t bytes, int root)
{
	if (root < 0 || root >= s->n)
		osh_fail(call, "PE_root %d is not in the active set: its PEs are numbered 0 to %d",
			 root, s->n - 1);
	osh_set_broadcast(call, s, s->rank == root ? (void *)source : dest, bytes, root);
}

#define SET(CALL) osh_active_set(CALL, PE_start, logPE_stride, PE_size, pSync)

#define DEFINE(BITS)                                                                               \
	void shmem_broadcast##BITS(void *dest, const void *source, size_t nelems, int PE_root,     \
				   int PE_start, int logPE_stride, int PE_size, long *pSync)       \
	{                                                                                          \
		const char *call = "shmem_broadcast" #BITS;                                        \
                                                                                                   \
		broadcast(call, SET(call), dest, source, osh_set_bytes(call, nelems, BITS / 8),    \
			  PE_root);                                                                \
	}                                                                                          \
	void shmem_collect##BITS(void *dest, const void *source, size_t nelems, int PE_start,      \
				 int logPE_stride, int PE_size, long *pSync)                       \
	{                                                                                          \
		const char *call = "shmem_collect" #BITS;                                          \
                                                                                                   \
		osh_coll_collect(call, SET(call), dest, source, nelems, BITS / 8);                 \
	}                                                                                          \
	void shmem_fcollect##BITS(void *dest, const void *source, size_t nelems, int PE_start,     \
				  int logPE_stride, int PE_size, long *pSync)                      \
	{                                                                                          \
		const char *call = "shmem_fcollect" #BITS;                                         \
                                                                                                   \
		osh_set_gather(call, SET(call), source, dest,                                      \
			       osh_set_bytes(call, nelems, BITS / 8));                             \
	}                                                                                          \
	void shmem_alltoall##BITS(void *dest, const void *source, size_t nelems, int PE_start,     \
				  int logPE_stride, int PE_size, long *pSync)                      \
	{                                                                                          \
		const char *call = "shmem_alltoall" #BITS;                                         \
                                                                                                   \
		osh_set_exchange(call, SET(call), source, dest,                                    \
				 osh_set_bytes(call, nelems, BITS / 8));                           \
	}                                                                                          \
	void shmem_alltoalls##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,   \
				   size_t nelems, int PE_start, int logPE_stride, int PE_size,     \
				   long *pSync)                                                    \
	{                                                                                          \
		const char *call = "shmem_alltoalls" #BITS;                                        \
                                                                                                   \
		osh_coll_alltoalls(call, SET(call), dest, source, dst, sst, nelems, BITS / 8);     \
	}

DEFINE(32)
DEFINE(64)
