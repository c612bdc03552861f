/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * util/util.h - what every module of the library uses: errors and log, clock, random bytes,
 * futexes, crowded cores, the table of live handles.  Knows nothing of ranks' objects.  Callable
 * from any thread.
 */
#ifndef ORI_UTIL_H
#define ORI_UTIL_H

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
void ori_log_level_set(enum ori_log_level level);
enum ori_log_level ori_log_level_get(void);
/* Rank this thread speaks for; -1: none known.  New threads have none. */
void ori_log_rank_set(int rank);
int ori_log_rank_get(void);

/*
 * For the function that decides an error: logs it as one line, keeps the text for
 * oriel_last_error(), returns status.  Callers above pass the status on in silence.
 */
int ori_fail(int status, const char *fmt, ...) ORI_PRINTF(2, 3);
/* Keeps the text without logging: the line was logged where it was decided, on another thread. */
int ori_fail_silent(int status, const char *fmt, ...) ORI_PRINTF(2, 3);
/* ori_fail(ORIEL_ESYSTEM) with ": " and the text of `error` (an errno). */
int ori_fail_errno(int error, const char *fmt, ...) ORI_PRINTF(2, 3);
/* What an errno means; of a full table of descriptors also the limit, and what raises it. */
const char *ori_errno_text(int error, char *text, size_t bytes);
/* The text that oriel_last_error() gives, for records sent to other ranks. */
const char *ori_last_error_text(void);
void ori_last_error_clear(void);
/* How often this thread's text was set: has a call that failed left one of its own? */
uint64_t ori_last_error_count(void);

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
 * Sleeps while the word has the expected value, at most ns; may return for no reason.  The word may
 * be shared between processes.
 */
void ori_futex_wait(uint32_t *word, uint32_t expected, uint64_t ns);
void ori_futex_wake_all(uint32_t *word);

/* ---- crowded cores (crowd.c) ----------------------------------------------------------------- */

/* 1 when the threads of this process and of its neighbours outnumber the cores. */
int ori_crowded(void);
/* Ranks of this host, and those of them in this process.  The largest values told so far count. */
void ori_crowd_ranks_set(int on_host, int in_process);
/* Threads of a launch begin (positive) or end (negative). */
void ori_crowd_threads_add(int threads);

/* ---- live handles (live.c) ------------------------------------------------------------------- */

/*
 * Every handle given to a user is listed while it lives, so that a call with a destroyed or foreign
 * pointer gets a status and not a crash.  check never reads through the pointer.
 */
enum ori_live_kind {
	ORI_LIVE_BOOT = 1,
	ORI_LIVE_COMM,
	ORI_LIVE_BUFFER,
	ORI_LIVE_WINDOW,
	ORI_LIVE_ALLTOALLV,
	ORI_LIVE_ALLGATHER
};

int ori_live_add(const void *handle, enum ori_live_kind kind); /* 0 or ORIEL_ENOMEM */
void ori_live_remove(const void *handle);
/*
 * 0; ORIEL_EINVAL for NULL or a handle of another kind; ORIEL_ESTALE for one that is gone;
 * ORIEL_EUNSUPPORTED in a child of fork() for one of its parent's.  Logs.
 */
int ori_live_check(const void *handle, enum ori_live_kind kind, const char *call);

#endif
