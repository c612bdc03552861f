/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/record.h - where the processes of a user leave word that they can be asked: a private
 * directory with a socket and a record per process (record.c).
 *
 *	PID.sock	answers questions (service.c)
 *	PID.job		one line per rank of this process: "rank RANK of RANKS job JOB"
 */
#ifndef ORI_DIAG_RECORD_H
#define ORI_DIAG_RECORD_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

#define ORI_RECORD_PATH_BYTES 96 /* fits into a socket's address */

/*
 * The directory for a value of ORIEL_DOCTOR: made if `make`, and checked: it belongs to this user
 * and to nobody else.  0, or -1 with the reason in `why`.
 */
int ori_record_folder(const char *value, int make, char *folder, char *why, size_t why_bytes);
/* The path of a file of a process; `kind` is "sock" or "job". */
void ori_record_path(const char *folder, pid_t pid, const char *kind, char *path);
void ori_record_address(const char *folder, pid_t pid, struct sockaddr_un *);
/* Writes PID.job as a whole.  0 or -1 with errno. */
int ori_record_write(const char *folder, pid_t pid, const char *text);
void ori_record_remove(const char *folder, pid_t pid);
/* Calls `found` for each process that has a record, and removes records of processes that ended. */
void ori_record_each(const char *folder, void (*found)(void *ctx, pid_t pid), void *ctx);

#endif
