/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/gone.h - how peers hear of memory that is gone (gone.c). */
#ifndef ORI_COMM_GONE_H
#define ORI_COMM_GONE_H

#include "comm.h"

/* Tells ranks that may map it the name of memory that goes.  Lock held. */
void ori_gone_tell(struct oriel_comm *, uint64_t id);
/* Unmaps what that rank has told since the last look.  Within the engine. */
void ori_gone_check(struct oriel_comm *, int rank);
/* The same for all ranks, and for one memory.  From outside the engine, without the lock. */
void ori_gone_check_all(struct oriel_comm *);
void ori_gone_forget(struct oriel_comm *, int rank, uint64_t id);

#endif
