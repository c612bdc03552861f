/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/connect.h - makes queues to the peers that the user asks for (connect.c). */
#ifndef ORI_COMM_CONNECT_H
#define ORI_COMM_CONNECT_H

#include "comm.h"

#define ORI_CONNECT_ALL (-1)
/*
 * The body of oriel_comm_connect and the last part of comm creation.  Collective.  `n` is the
 * length of `ranks`, or ORI_CONNECT_ALL.  `status` is an error that this rank had before; the other
 * ranks learn it here.
 */
int ori_connect_queues(struct oriel_comm *, int status, const int *ranks, int n);

#endif
