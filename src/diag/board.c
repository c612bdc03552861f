/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/board.c - the board: slots are taken, filled and read without locks.
 *
 * Fields are stored with release and loaded with acquire, so they become visible in the order of
 * the stores: `state` 1 when the slot is taken, the fields, `state` 2 [BOARD1].  A reader loads
 * `state` [BOARD2], the fields, then `state` and `since_ns` again.  It discards a slot that changed
 * meanwhile.  In an accepted slot, `peer`, `have` and `want` may come from two moments of the same
 * wait.
 */
#include <oriel/device/spin.h>

#include "../util/util.h"
#include "diag.h"

/*
 * [BOARD5] release, sys: mapped peers read the board; partner [BOARD6].  Publishes that the slot is
 * taken again (`state` 1).  Without it a reader could mix fields of two waits and still find the
 * old state.
 */
#define STORE(field, v) __atomic_store_n(&(field), (v), __ATOMIC_RELEASE)
/* [BOARD6] acquire, sys; partner [BOARD5]. */
#define LOAD(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)

static int take_slot(struct oriel_board *board)
{
	for (int n = 0; n < ORIEL_BOARD_SLOTS; n++) {
		uint32_t was = 0;

		/* [BOARD4] acquire, process; partner [BOARD3] in ori_board_clear(). */
		if (!LOAD(board->slot[n].state) &&
		    __atomic_compare_exchange_n(&board->slot[n].state, &was, 1, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return n;
	}
	return -1;
}

void ori_board_update(struct ori_spin *s, uint64_t have, uint32_t block)
{
	struct oriel_board_slot *slot;

	if (s->board_slot >= 0) {
		slot = &s->comm->board->slot[s->board_slot];
		STORE(slot->peer, s->peer);
		STORE(slot->have, have);
		STORE(slot->want, s->want);
		return;
	}
	s->board_slot = take_slot(s->comm->board);
	if (s->board_slot < 0)
		return;
	slot = &s->comm->board->slot[s->board_slot];
	STORE(slot->op, s->op);
	STORE(slot->peer, s->peer);
	STORE(slot->id, s->id);
	STORE(slot->window, s->window);
	STORE(slot->block, (int32_t)block);
	STORE(slot->have, have);
	STORE(slot->want, s->want);
	STORE(slot->since_ns, s->start_ns);
	/*
	 * [BOARD1] release, sys; partner [BOARD2] in ori_board_read().  Publishes the fields.
	 * Without it a report could name the peer of the slot's last wait.
	 */
	__atomic_store_n(&slot->state, 2, __ATOMIC_RELEASE);
}

void ori_board_clear(struct ori_spin *s)
{
	if (s->board_slot < 0)
		return;
	/*
	 * [BOARD3] release, process; partner [BOARD4] in take_slot().  Publishes that this thread
	 * has written its last field.  Without it that store could overwrite a field of the next
	 * owner.
	 */
	__atomic_store_n(&s->comm->board->slot[s->board_slot].state, 0, __ATOMIC_RELEASE);
	s->board_slot = -1;
}

int ori_board_read(const struct oriel_board *board, int n, struct oriel_board_slot *out)
{
	const struct oriel_board_slot *slot = &board->slot[n];

	/* [BOARD2] acquire, sys; partner [BOARD1], on a GPU [SPIN1]. */
	if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != 2)
		return 0;
	out->op = LOAD(slot->op);
	out->peer = LOAD(slot->peer);
	out->id = LOAD(slot->id);
	out->window = LOAD(slot->window);
	out->block = LOAD(slot->block);
	out->have = LOAD(slot->have);
	out->want = LOAD(slot->want);
	out->since_ns = LOAD(slot->since_ns);
	return LOAD(slot->state) == 2 && LOAD(slot->since_ns) == out->since_ns;
}
