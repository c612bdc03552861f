/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/reports.h - what late waits of this rank ask, and what it answers to others (reports.c). */
#ifndef ORI_COMM_REPORTS_H
#define ORI_COMM_REPORTS_H

#include "comm.h"

/* Once the control memory of this rank is there. */
int ori_reports_open(struct oriel_comm *);
void ori_reports_close(struct oriel_comm *);

#endif
