/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/failure.h - keeps the first failure of a comm and tells the other ranks (failure.c).
 *
 * ori_comm_has_failed() in object.h says whether there is one.
 */
#ifndef ORI_COMM_FAILURE_H
#define ORI_COMM_FAILURE_H

#include "comm.h"

int ori_failure_open(struct oriel_comm *);
/* Drops a failure that still waits for its cause.  Call it after the engine has been closed. */
void ori_failure_stop(struct oriel_comm *);
void ori_failure_close(struct oriel_comm *);

/* Keeps the first failure and ends this rank's waits.  Any thread. */
void ori_comm_fail(struct oriel_comm *, int status, int rank, const char *why);
/* The same, and tells all other ranks.  Does not log: the caller does. */
void ori_comm_fail_all(struct oriel_comm *, int status, const char *why);
/*
 * As ori_comm_fail_all, for a failure whose cause is probably at the other end of a queue.  That
 * end gets some time to report the cause.  `why` is logged and told only if it does not.  The
 * caller has already ended this rank's waits.
 */
void ori_comm_fail_later(struct oriel_comm *, int status, const char *why);
/* Copies a failure in the host's word to the word that kernels of a separate device test. */
void ori_comm_tell_device(struct oriel_comm *);

/* 0, or the first failure with its text as this thread's last error (not logged again). */
int ori_comm_failed(struct oriel_comm *);
/* The same, after polling the queues of NICs that do not report failures themselves. */
int ori_comm_ask(struct oriel_comm *);
/*
 * The boot's callback during the creation of a comm; and ori_comm_failed() that also returns a
 * failure of the boot during creation.
 */
void ori_comm_boot_failed(void *comm, int status, int rank, const char *why);
int ori_comm_lost(struct oriel_comm *);

/*
 * Turns the status of a device's call into the status for the user.  Under MPS a process that dies
 * destroys the contexts of the other processes on its GPU.  So after ORIEL_EDEVICE this call waits
 * some seconds for the boot to report a dead peer, and then returns the comm's failure, which names
 * that peer.  Without such a report the error is this rank's own, and it fails the comm for all.
 */
int ori_comm_device_status(struct oriel_comm *, int err);

/* The text for a failure word: "rank 1 gave up waiting for rank 0". */
void ori_failure_text(uint64_t failure, char *out, size_t bytes);

#endif
