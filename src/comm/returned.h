/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/returned.h - what this rank's kernels returned. */
#ifndef ORI_COMM_RETURNED_H
#define ORI_COMM_RETURNED_H

#include "comm.h"

void ori_returned_close(struct oriel_comm *);
/* Before a launch: tells the kernel's threads where to store a failure. */
void ori_returned_prepare(struct oriel_comm *, const struct oriel_kernel *, struct ori_launch *);
/* After a launch on the CPU, which is over: its status, with the text as the last error. */
int ori_returned_note(struct oriel_comm *, const struct oriel_kernel *, const struct ori_launch *);
/* Returns the first failure since the last take, with its text as the last error; clears it. */
int ori_returned_take(struct oriel_comm *);

#endif
