/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/progress.h - what a waiting CPU thread asks the engine that it drives.
 *
 * A wait on the CPU drives the engine of its rank (oriel_cpu_drive() of device/port.h).  These
 * calls tell the wait whether driving finds work, and how long the wait may sleep.
 *
 * Called by: device/cpu/wait.c, on any thread that waits.
 */
#ifndef ORI_PROGRESS_H
#define ORI_PROGRESS_H

#include <stdint.h>

struct ori_engine;

/* Changes whenever someone who drives the engine finds work. */
uint64_t ori_progress_work(const struct ori_engine *);
/* The longest sleep of a wait; 0: any, because the engine wakes waiters. */
uint64_t ori_progress_sleep_ns(const struct ori_engine *);
/* A thread that drove the engine goes to sleep. */
void ori_progress_rest(struct ori_engine *);

#endif
