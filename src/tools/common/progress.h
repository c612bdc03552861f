/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/common/progress.h - one line on the terminal that says what a tool is doing.
 *
 * For oriel-perf and oriel-tune, on rank 0.  Nothing is shown if standard error is not a terminal.
 * A rank's standard error is a pipe of oriel-run; then the terminal is the one that oriel-run has.
 */
#ifndef ORI_TOOLS_PROGRESS_H
#define ORI_TOOLS_PROGRESS_H

/* Replaces the line.  The time since the first call is added to it. */
void tool_progress_show(const char *text);
/* Removes the line: call it before you print anything else. */
void tool_progress_clear(void);

#endif
