/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/control.h - control memory: what lies at its start, and its two halves (control.c).
 *
 * The near half holds words that devices write; it is in the device's memory.  The host half holds
 * words that engines and the host write; it is in host memory that the device can access.  A word
 * has the same offset in both.  On the CPU both halves are the same memory, and mirroring and
 * publishing cost nothing.
 */
#ifndef ORI_COMM_CONTROL_H
#define ORI_COMM_CONTROL_H

#include "comm.h"

/*
 * Names of memory that this rank has freed, for peers that may have mapped it (gone.c).  Only this
 * rank writes: first a name, then the count.  The count only grows; name n is in
 * id[n % ORI_GONE_KEPT].  A reader that is further behind knows only that it has missed names.
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
	uint64_t failure; /* the first failure; set once, by this rank or a mapped peer */
	uint8_t pad[ORIEL_LINE_BYTES - 8];
	struct oriel_board board;
	struct ori_gone gone;
	struct oriel_kernel_report report; /* what kernels of a separate device returned */
	/*
	 * Of the lowest rank of a host: when a rank of this host last printed who waits for whom,
	 * with the lowest bit set while it collects.  By any rank of the host, with CAS
	 * (reports.c).
	 */
	uint64_t graph_ns;
	uint8_t pad2[ORIEL_LINE_BYTES - 8];
};

/*
 * Which waiters to wake after a store to words of a mapped peer.  Waiters on another host cannot be
 * woken from here.  That is no loss: GPU waits never sleep, and CPU waits sleep for a limited time.
 * For such a peer the result is this rank's own waiters, so that no caller tests for NULL.
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
/* Copies a table to where kernels can read it.  On the CPU *near is `table` itself. */
int ori_control_publish(struct oriel_comm *, const void *table, uint64_t bytes, const void **near);
void ori_control_unpublish(struct oriel_comm *, const void *near, uint64_t bytes);
/*
 * The host reads or writes a word of the device's half.  Both return the status of the device's
 * copy; the caller passes it to ori_comm_device_status().  *value is 0 after an error.
 */
int ori_control_load(struct oriel_comm *, const uint64_t *near, uint64_t *value);
int ori_control_store(struct oriel_comm *, uint64_t *near, uint64_t value);

#endif
