/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/speaker.h - a thread that reports late waits of kernels on a separate device, and tells
 * these kernels of failures (speaker.c).
 */
#ifndef ORI_COMM_SPEAKER_H
#define ORI_COMM_SPEAKER_H

#include "comm.h"

/* Does nothing on the CPU. */
int ori_speaker_start(struct oriel_comm *);
void ori_speaker_stop(struct oriel_comm *);

#endif
