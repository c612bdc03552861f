/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shmem.h - OpenSHMEM 1.5 on Oriel, for C and C++.
 *
 * Programs include this file alone.  The parts are in shmem/: constants and handles (def.h), types
 * that calls exist for (tables.h), and one file per group of calls.  The specification describes
 * each call; comments here only say what it leaves open.
 *
 * C11 programs also get the type-generic forms: shmem_put(), shmem_atomic_add() and so on.
 *
 * A call with a bad argument prints one line and ends the job: see docs/shmem.md.
 */
#ifndef SHMEM_H
#define SHMEM_H

#include "shmem/def.h"
#include "shmem/tables.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- setup and exit -------------------------------------------------------------------------- */

void shmem_init(void);
/* Any level is provided as SHMEM_THREAD_MULTIPLE. */
int shmem_init_thread(int requested, int *provided);
void shmem_query_thread(int *provided);
/* A program that returns from main() without this call is finalized by its exit. */
void shmem_finalize(void);
void shmem_global_exit(int status) SHMEM_ATTRIBUTE_NORETURN;
int shmem_my_pe(void);
int shmem_n_pes(void);
int shmem_pe_accessible(int pe);
int shmem_addr_accessible(const void *addr, int pe);
/* NULL if loads and stores cannot reach the PE. */
void *shmem_ptr(const void *dest, int pe);
void shmem_info_get_version(int *major, int *minor);
void shmem_info_get_name(char *name); /* SHMEM_MAX_NAME_LEN bytes */
void shmem_pcontrol(int level, ...);

/* ---- symmetric memory ------------------------------------------------------------------------ */

/* NULL on all PEs if the heap is too small.  The line on standard error says how to enlarge it. */
void *shmem_malloc(size_t size);
void *shmem_calloc(size_t count, size_t size);
void *shmem_align(size_t alignment, size_t size);
void *shmem_realloc(void *ptr, size_t size);
void *shmem_malloc_with_hints(size_t size, long hints);
void shmem_free(void *ptr);

/* ---- order, barriers, locks ------------------------------------------------------------------ */

void shmem_fence(void);
void shmem_quiet(void);
void shmem_ctx_fence(shmem_ctx_t ctx);
void shmem_ctx_quiet(shmem_ctx_t ctx);
void shmem_barrier_all(void);
void shmem_sync_all(void);
void shmem_set_lock(volatile long *lock);
void shmem_clear_lock(volatile long *lock);
int shmem_test_lock(volatile long *lock); /* 0: the lock was free and is now held */

#ifdef __cplusplus
}
#endif

#include "shmem/team.h"
#include "shmem/rma.h"
#include "shmem/atomic.h"
#include "shmem/wait.h"
#include "shmem/coll.h"
#include "shmem/deprecated.h"
#include "shmem/generic.h"

#endif
