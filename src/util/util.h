/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/util.h - what every module uses: errors and log, clock, random bytes, futexes, threads,
 * crowded cores, the list of live handles.
 *
 * Does not know the objects of ranks.  May be called on any thread.
 */
#ifndef ORI_UTIL_H
#define ORI_UTIL_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

#define ORI_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define ORI_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ORI_NS_PER_S 1000000000ull

/* ---- errors and log (log.c) ------------------------------------------------------------------ */

enum ori_log_level { ORI_LOG_ERROR, ORI_LOG_WARN, ORI_LOG_INFO, ORI_LOG_DEBUG };

/* One line to stderr: "oriel: rank 3: warning: ...".  One write, so lines do not mix. */
void ori_log(enum ori_log_level level, const char *fmt, ...) ORI_PRINTF(2, 3);
/* One line that the user has asked for: no level, and ORIEL_LOG does not suppress it. */
void ori_log_answer(const char *fmt, ...) ORI_PRINTF(1, 2);
void ori_log_level_set(enum ori_log_level level);
enum ori_log_level ori_log_level_get(void);
/* The rank in this thread's log lines; -1: not known.  A new thread has none. */
void ori_log_rank_set(int rank);
int ori_log_rank_get(void);

/*
 * For the function that decides an error: logs one line, keeps the text for oriel_last_error(),
 * returns status.  Callers pass the status on and log nothing.
 */
int ori_fail(int status, const char *fmt, ...) ORI_PRINTF(2, 3);
/* Keeps the text without logging.  For errors that another thread has decided and logged. */
int ori_fail_silent(int status, const char *fmt, ...) ORI_PRINTF(2, 3);
/* ori_fail(ORIEL_ESYSTEM) with ": " and the text of `error` (an errno). */
int ori_fail_errno(int error, const char *fmt, ...) ORI_PRINTF(2, 3);
/*
 * The text of an errno.  For a full descriptor table it also names the limit, and how to raise it.
 */
const char *ori_errno_text(int error, char *text, size_t bytes);
/* The text that oriel_last_error() gives, for records sent to other ranks. */
const char *ori_last_error_text(void);
void ori_last_error_clear(void);
/* How often this thread's text was set.  Shows whether a failed call has left a text. */
uint64_t ori_last_error_count(void);

/* ---- statuses (status.c) --------------------------------------------------------------------- */

/*
 * The status of a failure that another process has told: itself if it is one of status.h, else
 * `otherwise`.  A failure word has 16 bits for it, so another number could look like success.
 */
int ori_status_received(int status, int otherwise);

/* ---- clock and random (clock.c) -------------------------------------------------------------- */

uint64_t ori_now_ns(void);
void ori_sleep_ns(uint64_t ns); /* monotonic */
/* now + ns, without overflow. */
uint64_t ori_deadline_ns(uint64_t ns);
int ori_random_bytes(void *out, size_t bytes); /* 0 or ORIEL_ESYSTEM */
/* Cores this process may run on. */
int ori_core_count(void);

/* ---- futexes (futex.c) ----------------------------------------------------------------------- */

/*
 * Sleeps while the word has the expected value, at most ns.  May return without a reason.  The word
 * may be shared between processes.
 */
void ori_futex_wait(uint32_t *word, uint32_t expected, uint64_t ns);
void ori_futex_wake_all(uint32_t *word);

/* ---- threads of the library (thread.c) ------------------------------------------------------- */

/* As pthread_create().  Signals of the program are blocked in the thread. */
int ori_thread_start(pthread_t *thread, void *(*body)(void *), void *arg);

/* ---- crowded cores (crowd.c) ----------------------------------------------------------------- */

/*
 * 1 if the threads of this process and of other ranks' processes on the host outnumber the cores.
 */
int ori_crowded(void);
/*
 * Ranks of this host, and how many of them are in this process.  The largest values so far count.
 */
void ori_crowd_ranks_set(int on_host, int in_process);
/* Threads of a launch start (positive) or end (negative). */
void ori_crowd_threads_add(int threads);

/* ---- live handles (live.c) ------------------------------------------------------------------- */

/*
 * Every handle of a user is listed while it lives.  So a call with a destroyed or foreign pointer
 * returns a status and does not crash.  check never reads through the pointer.
 */
enum ori_live_kind {
	ORI_LIVE_BOOT = 1,
	ORI_LIVE_COMM,
	ORI_LIVE_BUFFER,
	ORI_LIVE_WINDOW,
	ORI_LIVE_ALLTOALLV,
	ORI_LIVE_ALLGATHER,
	ORI_LIVE_MEMORY,
	ORI_LIVE_TEAM
};

int ori_live_add(const void *handle, enum ori_live_kind kind); /* 0 or ORIEL_ENOMEM */
void ori_live_remove(const void *handle);
/*
 * Returns 0.  ORIEL_EINVAL: NULL or a handle of another kind.  ORIEL_ESTALE: the object was
 * destroyed.  ORIEL_EUNSUPPORTED: a child of fork() uses a handle of its parent.  Logs.
 */
int ori_live_check(const void *handle, enum ori_live_kind kind, const char *call);

#endif
