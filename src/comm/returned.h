/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/returned.h - what this rank's kernels returned. */
#ifndef ORI_COMM_RETURNED_H
#define ORI_COMM_RETURNED_H

#include "comm.h"

void ori_returned_close(struct oriel_comm *);
/* Before a launch: where that kernel's threads leave what they return. */
void ori_returned_prepare(struct oriel_comm *, const struct oriel_kernel *, struct ori_launch *);
/* After a launch that is over on return: what it returned, with its text as the last error. */
int ori_returned_note(struct oriel_comm *, const struct oriel_kernel *, const struct ori_launch *);
/* The first failure since the last take, and its text; after that it is forgotten. */
int ori_returned_take(struct oriel_comm *);

#endif
