/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/drive.h - the thread of an engine: when it works and how it sleeps.
 *
 * If CPU threads post, every thread that posts or waits also drives the engine.  The engine's
 * thread is the backup.  It works when packets arrive while the rank computes, and when no caller
 * has driven for a moment.  If a device posts, nobody drives and nobody announces a doorbell.  The
 * thread then polls the doorbells itself: without pauses during a burst, then with naps.
 *
 * Used by soft/ and proxied/, which own the object that is stepped and its lock.
 */
#ifndef ORI_DRIVE_H
#define ORI_DRIVE_H

#include <pthread.h>
#include <stdint.h>

#define ORI_DRIVE_WATCH_NS 200000ull /* first pause between looks at callers */
#define ORI_DRIVE_BUSY_NS 50000ull   /* longest sleep while something is under way */
#define ORI_DRIVE_NAP_NS 50000ull    /* longest delay of a device's first doorbell after a pause */

struct ori_drive;

/* The driven object.  Implementations find their own struct by the address of struct ori_drive. */
struct ori_drive_ops {
	/*
	 * Returns how much was done, or -1 if another thread is stepping.  Sets *busy (may be NULL)
	 * if more work is to come.
	 */
	int (*step)(struct ori_drive *, int *busy);
	/*
	 * Sleeps at most ns, until there is something to do.  Does not sleep if there is something
	 * now.  Where a device posts, it looks once before or after the sleep, and returns how much
	 * that look has done.
	 */
	int (*sleep)(struct ori_drive *, uint64_t ns);
	/* Ends such a sleep, or the next one. */
	void (*wake)(struct ori_drive *);
	/* Pause between looks while callers keep driving; at least ORI_DRIVE_WATCH_NS. */
	uint64_t watch_ns;
	uint64_t doze_ns; /* naps after a second without work; at least ORI_DRIVE_NAP_NS */
};

struct ori_drive {
	const struct ori_drive_ops *ops;
	int rank;          /* rank in the thread's log lines */
	uint64_t drives;   /* written by callers: how often one has driven */
	uint32_t watching; /* written by the thread: it sleeps because callers drive */
	uint32_t rests;    /* futex word: a caller that stops driving while `watching` moves it */
	uint32_t stop;
	int started;
	pthread_t thread;
};

/* A caller has driven.  With device_posts: a caller is about to launch a kernel that may post. */
void ori_drive_note(struct ori_drive *);
/* A caller that drove goes to sleep, so the thread must drive the engine. */
void ori_drive_rest(struct ori_drive *);
/* 1: the thread is to end, so a sleep must not begin. */
int ori_drive_stopping(const struct ori_drive *);
/* `name` is for the log line that says that the thread could not be started. */
int ori_drive_start(struct ori_drive *, int device_posts, const char *name);
/* May be called on a drive that was never started. */
void ori_drive_stop(struct ori_drive *);

#endif
