/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/settle.h - waits until nothing uses memory that is about to be freed (settle.c). */
#ifndef ORI_COMM_SETTLE_H
#define ORI_COMM_SETTLE_H

#include "comm.h"

/*
 * Call it before memory is freed.  Waits until kernels on the comm's own stream have ended and
 * posted operations are complete: a NIC may retransmit an operation and must still find its key.
 * On a failed comm it does not wait for queues.
 */
int ori_comm_settle(struct oriel_comm *);

#endif
