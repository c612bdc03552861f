/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/failure.h - the first failure of a comm, and who is told of it (failure.c).
 *
 * Whether there is one: ori_comm_has_failed() in object.h.
 */
#ifndef ORI_COMM_FAILURE_H
#define ORI_COMM_FAILURE_H

#include "comm.h"

int ori_failure_open(struct oriel_comm *);
/* A failure that waits for its cause is no longer told.  After the engine has ended. */
void ori_failure_stop(struct oriel_comm *);
void ori_failure_close(struct oriel_comm *);

/* Keeps the first failure, ends this rank's waits.  From any thread. */
void ori_comm_fail(struct oriel_comm *, int status, int rank, const char *why);
/* Tells all other ranks, too.  Not logged here. */
void ori_comm_fail_all(struct oriel_comm *, int status, const char *why);
/*
 * As ori_comm_fail_all, for a failure whose cause is probably at the other end.  That end gets some
 * time to say why; this text is told and logged only if it does not.  Waits of this rank have been
 * ended before.
 */
void ori_comm_fail_later(struct oriel_comm *, int status, const char *why);
/* Copies a failure in the host's word to the word that kernels of a separate device test. */
void ori_comm_tell_device(struct oriel_comm *);

/* 0, or the first failure with its text as this thread's last error (not logged again). */
int ori_comm_failed(struct oriel_comm *);
/* The same after a look at queues whose NIC does not tell of failures itself. */
int ori_comm_ask(struct oriel_comm *);
/* The boot's callback while the comm is being made, and ori_comm_failed() that includes it. */
void ori_comm_boot_failed(void *comm, int status, int rank, const char *why);
int ori_comm_lost(struct oriel_comm *);

/*
 * Turns the status of a device's call into the one that the user should get.  Under MPS a process
 * that dies takes the contexts of the others on its GPU along.  So ORIEL_EDEVICE waits, for seconds
 * at most, for word of a dead peer and becomes the comm's failure, which names that peer.  Without
 * such word it is this rank's own error and fails the comm for all.
 */
int ori_comm_device_status(struct oriel_comm *, int err);

/* A failure word in words: "rank 1 gave up waiting for rank 0". */
void ori_failure_text(uint64_t failure, char *out, size_t bytes);

#endif
