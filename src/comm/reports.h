/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/reports.h - late waits ask other ranks what they wait for (reports.c). */
#ifndef ORI_COMM_REPORTS_H
#define ORI_COMM_REPORTS_H

#include "comm.h"

/* Call it after ori_control_open(). */
int ori_reports_open(struct oriel_comm *);
void ori_reports_close(struct oriel_comm *);

#endif
