/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/drive.h - the thread of an engine: when it works and how it sleeps.
 *
 * Where CPU threads post, whoever posts or waits drives the engine; the thread backs them up: it
 * works when something arrives while the rank computes, and when nobody has driven for a moment.
 * Where a device posts nobody drives and nobody tells that it has rung: the thread looks at the
 * doorbells itself, awake through a burst, then in naps.
 *
 * Used by soft/ and proxied/, which own what is stepped and the lock around it.
 */
#ifndef ORI_DRIVE_H
#define ORI_DRIVE_H

#include <pthread.h>
#include <stdint.h>

#define ORI_DRIVE_WATCH_NS 200000ull /* a look at what the callers do, at first */
#define ORI_DRIVE_BUSY_NS 50000ull   /* longest sleep while something is under way */
#define ORI_DRIVE_NAP_NS 50000ull    /* what a device's first doorbell after a pause may wait */

struct ori_drive;

/* What is driven; the implementations find themselves by the address of their struct ori_drive. */
struct ori_drive_ops {
	/*
	 * How much was done; -1 if somebody else is at it.  *busy, if asked for: more is to come.
	 */
	int (*step)(struct ori_drive *, int *busy);
	/*
	 * Sleeps until there is something to do, at most ns; not at all if there is something now.
	 * Returns what a look that it took has done: where a device posts it takes one, before or
	 * after.
	 */
	int (*sleep)(struct ori_drive *, uint64_t ns);
	/* Ends such a sleep, or the next one. */
	void (*wake)(struct ori_drive *);
	/* between looks while callers go on driving, ORI_DRIVE_WATCH_NS or more */
	uint64_t watch_ns;
	uint64_t doze_ns; /* naps after a second without work, ORI_DRIVE_NAP_NS or more */
};

struct ori_drive {
	const struct ori_drive_ops *ops;
	int rank;          /* whom the thread speaks for */
	uint64_t drives;   /* by callers: how often one has driven */
	uint32_t watching; /* by the thread: it sleeps because callers drive */
	uint32_t rests;    /* futex word: moved by a caller that stops driving while it does */
	uint32_t stop;
	int started;
	pthread_t thread;
};

/* A caller has driven, or (device_posts) is about to let the device post. */
void ori_drive_note(struct ori_drive *);
/* A caller that drove goes to sleep: the thread must look after the engine. */
void ori_drive_rest(struct ori_drive *);
/* 1: the thread is to end, so a sleep must not begin. */
int ori_drive_stopping(const struct ori_drive *);
/* `name` for the line that says that there is no thread. */
int ori_drive_start(struct ori_drive *, int device_posts, const char *name);
/* Takes one that was never started. */
void ori_drive_stop(struct ori_drive *);

#endif
