/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/diag.h - who waits for what: the board of a rank, and the line a late wait prints.
 *
 * The board lies in control memory that mapped peers read, so a report can name what the other side
 * is waiting for itself.  Written by waiting threads only, through ori_spin.
 */
#ifndef ORI_DIAG_H
#define ORI_DIAG_H

#include <stddef.h>
#include <stdint.h>

struct ori_spin;
struct oriel_board;
struct oriel_board_slot;

/* Takes a slot at first, then keeps `have` fresh.  Does nothing when the board is full. */
void ori_board_update(struct ori_spin *, uint64_t have);
void ori_board_clear(struct ori_spin *);
/* A consistent copy of slot n; 0 if it is free or changes too fast to be read. */
int ori_board_read(const struct oriel_board *, int n, struct oriel_board_slot *out);

/* One line: a warning when a wait is late, an error when it is given up. */
void ori_diag_late(const struct ori_spin *, uint64_t have, uint64_t age_ns, int given_up);
/*
 * The same for a wait seen on this rank's board by somebody else: `rank` is this one, `board` that of the rank
 * it waits for, or NULL.
 */
void ori_diag_late_slot(const struct oriel_board_slot *, int rank, const struct oriel_board *board,
			uint64_t age_ns);
/* "barrier 2 of window 1 for rank 3: have 4, want 5" */
void ori_diag_wait_text(const struct oriel_board_slot *, char *out, size_t bytes);

#endif
