/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shmem/coll.h - collectives over teams.  They return 0, or -1 for an invalid team.
 */
#ifndef SHMEM_COLL_H
#define SHMEM_COLL_H

#include "def.h"
#include "tables.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- data, for OSH_RMA_TYPES and for bytes --------------------------------------------------- */

#define OSH_DECLARE_COLL(NAME, TYPE, OP)                                                           \
	int shmem_##NAME##_broadcast(shmem_team_t team, TYPE *dest, const TYPE *source,            \
				     size_t nelems, int PE_root);                                  \
	int shmem_##NAME##_collect(shmem_team_t team, TYPE *dest, const TYPE *source,              \
				   size_t nelems);                                                 \
	int shmem_##NAME##_fcollect(shmem_team_t team, TYPE *dest, const TYPE *source,             \
				    size_t nelems);                                                \
	int shmem_##NAME##_alltoall(shmem_team_t team, TYPE *dest, const TYPE *source,             \
				    size_t nelems);                                                \
	int shmem_##NAME##_alltoalls(shmem_team_t team, TYPE *dest, const TYPE *source,            \
				     ptrdiff_t dst, ptrdiff_t sst, size_t nelems);

OSH_RMA_TYPES(OSH_DECLARE_COLL, )

int shmem_broadcastmem(shmem_team_t team, void *dest, const void *source, size_t nelems,
		       int PE_root);
int shmem_collectmem(shmem_team_t team, void *dest, const void *source, size_t nelems);
int shmem_fcollectmem(shmem_team_t team, void *dest, const void *source, size_t nelems);
int shmem_alltoallmem(shmem_team_t team, void *dest, const void *source, size_t nelems);
int shmem_alltoallsmem(shmem_team_t team, void *dest, const void *source, ptrdiff_t dst,
		       ptrdiff_t sst, size_t nelems);

/* ---- reductions ------------------------------------------------------------------------------ */

#define OSH_DECLARE_REDUCE(NAME, TYPE, OP)                                                         \
	int shmem_##NAME##_##OP##_reduce(shmem_team_t team, TYPE *dest, const TYPE *source,        \
					 size_t nreduce);

OSH_REDUCE_BITWISE_TYPES(OSH_DECLARE_REDUCE, and)
OSH_REDUCE_BITWISE_TYPES(OSH_DECLARE_REDUCE, or)
OSH_REDUCE_BITWISE_TYPES(OSH_DECLARE_REDUCE, xor)
OSH_REDUCE_ORDER_TYPES(OSH_DECLARE_REDUCE, max)
OSH_REDUCE_ORDER_TYPES(OSH_DECLARE_REDUCE, min)
OSH_REDUCE_ARITHMETIC_TYPES(OSH_DECLARE_REDUCE, sum)
OSH_REDUCE_ARITHMETIC_TYPES(OSH_DECLARE_REDUCE, prod)

#ifdef __cplusplus
}
#endif

#endif
