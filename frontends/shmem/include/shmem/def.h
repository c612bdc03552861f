/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shmem/def.h - constants and handles of OpenSHMEM.
 *
 * SHMEM_DEF_H and SHMEM_FUNCTION_ATTRIBUTES are names that tools look for.
 */
#ifndef SHMEM_DEF_H
#define SHMEM_DEF_H

#include <stddef.h>
#include <stdint.h>

/* C++ programs use these types of C too: std::complex has the same layout. */
__extension__ typedef float _Complex osh_complexf;
__extension__ typedef double _Complex osh_complexd;

#define SHMEM_FUNCTION_ATTRIBUTES
#define SHMEM_ATTRIBUTE_NORETURN __attribute__((noreturn))

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 5
#define SHMEM_MAX_NAME_LEN 256
#define SHMEM_VENDOR_STRING "Oriel"

/* ---- handles --------------------------------------------------------------------------------- */

typedef struct osh_ctx *shmem_ctx_t;
typedef struct osh_team *shmem_team_t;

/* A handle that is all zeros is invalid.  The other constants are numbers, not addresses. */
#define SHMEM_CTX_INVALID ((shmem_ctx_t)0)
#define SHMEM_CTX_DEFAULT ((shmem_ctx_t)1)
#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_TEAM_WORLD ((shmem_team_t)1)
#define SHMEM_TEAM_SHARED ((shmem_team_t)2)

typedef struct {
	int num_contexts;
} shmem_team_config_t;

#define SHMEM_TEAM_NUM_CONTEXTS (1l << 0)

/* ---- options --------------------------------------------------------------------------------- */

#define SHMEM_CTX_SERIALIZED (1l << 0)
#define SHMEM_CTX_PRIVATE (1l << 1)
#define SHMEM_CTX_NOSTORE (1l << 2)

#define SHMEM_MALLOC_ATOMICS_REMOTE (1l << 0)
#define SHMEM_MALLOC_SIGNAL_REMOTE (1l << 1)

#define SHMEM_THREAD_SINGLE 0
#define SHMEM_THREAD_FUNNELED 1
#define SHMEM_THREAD_SERIALIZED 2
#define SHMEM_THREAD_MULTIPLE 3

#define SHMEM_SIGNAL_SET 0
#define SHMEM_SIGNAL_ADD 1

#define SHMEM_CMP_EQ 1
#define SHMEM_CMP_NE 2
#define SHMEM_CMP_GT 3
#define SHMEM_CMP_GE 4
#define SHMEM_CMP_LT 5
#define SHMEM_CMP_LE 6

/* ---- work arrays of the deprecated collectives ----------------------------------------------- */

/* The library needs none of these arrays.  Programs must still declare them. */
#define SHMEM_SYNC_VALUE 0l
#define SHMEM_SYNC_SIZE 1
#define SHMEM_BARRIER_SYNC_SIZE 1
#define SHMEM_BCAST_SYNC_SIZE 1
#define SHMEM_COLLECT_SYNC_SIZE 1
#define SHMEM_REDUCE_SYNC_SIZE 1
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1
#define SHMEM_ALLTOALL_SYNC_SIZE 1
#define SHMEM_ALLTOALLS_SYNC_SIZE 1

/* ---- names before 1.2 ------------------------------------------------------------------------ */

#define _SHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define _SHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
#define _SHMEM_VENDOR_STRING SHMEM_VENDOR_STRING
#define _SHMEM_CMP_EQ SHMEM_CMP_EQ
#define _SHMEM_CMP_NE SHMEM_CMP_NE
#define _SHMEM_CMP_GT SHMEM_CMP_GT
#define _SHMEM_CMP_GE SHMEM_CMP_GE
#define _SHMEM_CMP_LT SHMEM_CMP_LT
#define _SHMEM_CMP_LE SHMEM_CMP_LE
#define _SHMEM_SYNC_VALUE SHMEM_SYNC_VALUE
#define _SHMEM_SYNC_SIZE SHMEM_SYNC_SIZE
#define _SHMEM_BARRIER_SYNC_SIZE SHMEM_BARRIER_SYNC_SIZE
#define _SHMEM_BCAST_SYNC_SIZE SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE
#define _SHMEM_ALLTOALL_SYNC_SIZE SHMEM_ALLTOALL_SYNC_SIZE
#define _SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_ALLTOALLS_SYNC_SIZE

#endif
