/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/connect.h - queues to the queued peers that are asked for (connect.c). */
#ifndef ORI_COMM_CONNECT_H
#define ORI_COMM_CONNECT_H

#include "comm.h"

#define ORI_CONNECT_ALL (-1)
/*
 * The body of oriel_comm_connect and the last part of comm creation.  Collective.  n ranks, or
 * ORI_CONNECT_ALL.  `status` is an error of this rank before the call; the others learn it here.
 */
int ori_connect_queues(struct oriel_comm *, int status, const int *ranks, int n);

#endif
