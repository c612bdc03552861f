/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/settle.h - waits until nothing uses memory that is about to go (settle.c). */
#ifndef ORI_COMM_SETTLE_H
#define ORI_COMM_SETTLE_H

#include "comm.h"

/*
 * Before memory goes: kernels on the comm's own stream have ended, and posted operations are
 * complete.  A NIC may send an operation again and must still find its key.  On a failed comm
 * queues are not waited for.
 */
int ori_comm_settle(struct oriel_comm *);

#endif
