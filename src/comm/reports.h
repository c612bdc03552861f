/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/reports.h - what a rank tells of itself, and what late waits ask other ranks (reports.c). */
#ifndef ORI_COMM_REPORTS_H
#define ORI_COMM_REPORTS_H

#include "comm.h"

/* Call it after ori_control_open(). */
int ori_reports_open(struct oriel_comm *);
/* The comm is complete: reports show all of it, and oriel-doctor finds this process. */
void ori_reports_ready(struct oriel_comm *);
void ori_reports_close(struct oriel_comm *);

#endif
