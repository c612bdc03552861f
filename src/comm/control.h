/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/control.h - control memory: what lies at its start, and its two halves (control.c).
 *
 * Words that devices write lie in the device's memory.  Words that engines and the host write lie
 * in host memory that the device reaches, at the same offset.  On the CPU the two halves are one
 * memory, and mirroring and publishing cost nothing.
 */
#ifndef ORI_COMM_CONTROL_H
#define ORI_COMM_CONTROL_H

#include "comm.h"

/*
 * Names of memory that this rank told its peers of and that is gone (gone.c).  Only this rank
 * writes: a name, then the count, which runs for ever.  A reader that is behind by more names than
 * are kept knows only that it has missed some.
 */
#define ORI_GONE_KEPT 32u
struct ori_gone {
	uint64_t count;
	uint64_t id[ORI_GONE_KEPT];
};

/* At offset 0 of every rank's slab; peers map it. */
struct ori_control {
	struct oriel_waiters waiters;
	struct oriel_waiters engine_waiters; /* the thread of this rank's engine, when it sleeps */
	uint64_t failure; /* the first; set once, by this rank or by a mapped peer that aborts */
	uint8_t pad[ORIEL_LINE_BYTES - 8];
	struct oriel_board board;
	struct ori_gone gone;
	struct oriel_kernel_report report; /* what kernels of a separate device returned */
};

/*
 * Whom to wake after a store to words of a mapped peer.  Sleepers of another host are out of reach.
 * On a GPU nobody sleeps; elsewhere a timer wakes them.  This rank's own sleepers stand in for
 * them, so that no caller tests for NULL.
 */
static inline struct oriel_waiters *ori_peer_waiters(struct oriel_comm *c, int rank)
{
	struct ori_control *control = c->peers[rank].control;

	return control ? &control->waiters : &c->control->waiters;
}

int ori_control_open(struct oriel_comm *);
void *ori_control_host(struct oriel_comm *, uint64_t offset);
void *ori_control_near(struct oriel_comm *, uint64_t offset);
/* Copies the host half into the device's half. */
int ori_control_mirror(struct oriel_comm *, uint64_t offset, uint64_t bytes);
/* A table of this rank's, for kernels to read; *near is `table` itself where memory is one. */
int ori_control_publish(struct oriel_comm *, const void *table, uint64_t bytes, const void **near);
void ori_control_unpublish(struct oriel_comm *, const void *near, uint64_t bytes);
/*
 * The host reads or writes a word of the device's half.  The status is the device's, without a look
 * at the comm: the caller passes it to ori_comm_device_status().  *value is 0 after an error.
 */
int ori_control_load(struct oriel_comm *, const uint64_t *near, uint64_t *value);
int ori_control_store(struct oriel_comm *, uint64_t *near, uint64_t value);

#endif
