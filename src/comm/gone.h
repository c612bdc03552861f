/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/gone.h - tells peers which memory was freed, so that they unmap it (gone.c). */
#ifndef ORI_COMM_GONE_H
#define ORI_COMM_GONE_H

#include "comm.h"

/* The owner: publishes the name of memory that it is about to free.  The caller holds the lock. */
void ori_gone_tell(struct oriel_comm *, uint64_t id);
/* Unmaps memory that `rank` has freed since the last check.  For the thread in the engine. */
void ori_gone_check(struct oriel_comm *, int rank);
/*
 * For threads outside the engine that do not hold the lock: the same for all ranks; and for one
 * memory of one rank, whether it has been freed or not.
 */
void ori_gone_check_all(struct oriel_comm *);
void ori_gone_forget(struct oriel_comm *, int rank, uint64_t id);

#endif
