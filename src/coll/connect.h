/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/connect.h - queues to all peers, for collectives in which all ranks send to all others. */
#ifndef ORI_COLL_CONNECT_H
#define ORI_COLL_CONNECT_H

#include "../comm/agree.h"

/* Does this rank have queues to all its queued peers? */
int ori_coll_is_connected(struct oriel_comm *);
/*
 * Creates the missing queues of a comm that was created without them (ORIEL_CONNECT_NONE).  All
 * ranks call it if one of them lacks some.  `call` is the collective call that they are in.
 */
int ori_coll_connect(struct oriel_comm *, enum ori_call call);

#endif
