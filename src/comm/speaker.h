/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/speaker.h - for kernels of a separate device: names who is late, tells them of failures
 * (speaker.c).
 */
#ifndef ORI_COMM_SPEAKER_H
#define ORI_COMM_SPEAKER_H

#include "comm.h"

/* Does nothing on the CPU. */
int ori_speaker_start(struct oriel_comm *);
void ori_speaker_stop(struct oriel_comm *);

#endif
