/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/diag.h - who waits for what: the board of a rank, and the log line of a late wait.
 *
 * The board is in control memory that mapped peers read.  So a report can say what the other rank
 * itself waits for.  Only waiting threads write it, through ori_spin.  Other facts, and the state
 * of queued peers, come from the comm that owns the board (struct ori_diag_world).
 */
#ifndef ORI_DIAG_H
#define ORI_DIAG_H

#include <stddef.h>
#include <stdint.h>

/*
 * Reports name a window by the number in its handle.  Its upper bits say which collective the
 * window serves.  The user has not created such a window and does not know it.
 */
#define ORI_USE_SHIFT 28
#define ORI_USE_ALLGATHER (1 << ORI_USE_SHIFT)
#define ORI_USE_ALLTOALLV (2 << ORI_USE_SHIFT)
/* 3 to 6: the collective that a wait on a team belongs to, ORI_COLL_* of device/team.h */
#define ORI_USE_TEAM (7 << ORI_USE_SHIFT)
/* "window 3", or "all-gather (window 3)". */
void ori_diag_window_text(int number, char *out, size_t bytes);

struct ori_spin;
struct oriel_board;
struct oriel_board_slot;

/*
 * The first call takes a slot, later calls update `have`.  `block` is the kernel block that waits.
 * Does nothing if the board is full.
 */
void ori_board_update(struct ori_spin *, uint64_t have, uint32_t block);
void ori_board_clear(struct ori_spin *);
/* A consistent copy of slot n.  Returns 0 if the slot is free or changes too fast. */
int ori_board_read(const struct oriel_board *, int n, struct oriel_board_slot *out);

/* What a report may ask a rank's comm.  Called only when a wait is late. */
struct ori_diag_world {
	void *ctx;
	int nranks;
	/*
	 * The value of signal `id` of window `window` from `rank`.  Returns 0 if it is not known.
	 */
	int (*signal_from)(void *ctx, int window, int id, int rank, uint64_t *value);
	/*
	 * What that rank says it is doing ("itself waits ...").  Returns 0 if it cannot be asked.
	 */
	int (*ask)(void *ctx, int rank, char *out, size_t bytes);
};

/* Comms are found by their boards.  unlist returns when no thread is asking the comm any more. */
int ori_diag_list(const struct oriel_board *,
		  const struct ori_diag_world *); /* 0 or ORIEL_ENOMEM */
void ori_diag_unlist(const struct oriel_board *);
int ori_diag_signal_from(const struct oriel_board *, int window, int id, int rank, uint64_t *value);
int ori_diag_ask(const struct oriel_board *, int rank, char *out, size_t bytes);
int ori_diag_nranks(const struct oriel_board *); /* 0: not listed */

/* One line: a warning when a wait is late, an error when it is given up. */
void ori_diag_late(const struct ori_spin *, uint64_t have, uint64_t age_ns, int given_up);
/*
 * The same for a wait on the board of this rank, seen by another thread.  `rank` is this rank and
 * `own` its board.  `board` belongs to the rank that it waits for, or is NULL.
 */
void ori_diag_late_slot(const struct oriel_board_slot *, int rank, const struct oriel_board *own,
			const struct oriel_board *board, uint64_t age_ns);
/* "barrier 2 of window 1 for rank 3: have 4, want 5" */
void ori_diag_wait_text(const struct oriel_board_slot *, char *out, size_t bytes);
/*
 * What a rank waits for, according to its board: "itself waits 1.5 s for ...", or "waits for
 * nothing in Oriel".
 */
void ori_diag_board_text(const struct oriel_board *, char *out, size_t bytes);
#define ORI_DIAG_OTHERS " (and %d other waits)" /* other blocks, which wait for other ranks */

/*
 * chain.c.  `rank` has waited age_ns for `peer`.  `does` is the text of ori_diag_board_text() for
 * the peer.  Writes "; deadlock: rank 0 waits for rank 1 waits for rank 0" if the chain of waits is
 * a cycle, else "".
 */
void ori_diag_cycle_text(const struct oriel_board *own, int rank, int peer, const char *does,
			 uint64_t age_ns, char *out, size_t bytes);

#endif
