/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/late.c - the line of a wait that is late: what it waits for, from whom, how far it got, and
 * what the one it waits for is doing.
 *
 * Called by: oriel_cpu_spin_slow(), on the waiting thread.
 */
#include <stdio.h>

#include <oriel/device/spin.h>

#include "../util/util.h"
#include "diag.h"

static const char *op_text(int op)
{
	switch (op) {
	case ORIEL_OP_SIGNAL:
		return "signal";
	case ORIEL_OP_SIGNAL_SUM:
		return "sum of signal";
	case ORIEL_OP_COUNTER:
		return "counter";
	case ORIEL_OP_BARRIER:
		return "barrier";
	case ORIEL_OP_SEND:
		return "free slot of staging channel";
	case ORIEL_OP_RECV:
		return "message on staging channel";
	case ORIEL_OP_WORD:
		return "word";
	case ORIEL_OP_QUEUE:
		return "completion on lane";
	default:
		return "operation";
	}
}

void ori_diag_wait_text(const struct oriel_board_slot *slot, char *out, size_t bytes)
{
	char window[32] = "", peer[32] = "all ranks";

	if (slot->window >= 0)
		snprintf(window, sizeof(window), " of window %d", slot->window);
	if (slot->peer >= 0)
		snprintf(peer, sizeof(peer), "rank %d", slot->peer);
	snprintf(out, bytes, "%s %d%s from %s: have %llu, want %llu", op_text(slot->op), slot->id,
		 window, peer, (unsigned long long)slot->have, (unsigned long long)slot->want);
}

/* " 1.5 s", or nothing where the slot was filled by a device with a clock of its own. */
static void age_text(uint64_t since_ns, char *out, size_t bytes)
{
	uint64_t now = ori_now_ns();

	out[0] = '\0';
	if (since_ns <= now)
		snprintf(out, bytes, " %.1f s", (double)(now - since_ns) * 1e-9);
}

/* What the late rank itself waits for, from its board; "" if it waits for nothing we can see. */
static void peer_text(int peer, const struct oriel_board *board, char *out, size_t bytes)
{
	struct oriel_board_slot slot;
	char wait[160], age[32];
	int n;

	out[0] = '\0';
	if (!board)
		return;
	for (n = 0; n < ORIEL_BOARD_SLOTS; n++)
		if (ori_board_read(board, n, &slot))
			break;
	if (n == ORIEL_BOARD_SLOTS) {
		snprintf(out, bytes, "; rank %d waits for nothing in Oriel", peer);
		return;
	}
	ori_diag_wait_text(&slot, wait, sizeof(wait));
	age_text(slot.since_ns, age, sizeof(age));
	snprintf(out, bytes, "; rank %d itself waits%s for %s", peer, age, wait);
}

static void tell(const struct oriel_board_slot *slot, int rank, const struct oriel_board *board,
		 uint64_t age_ns, int given_up)
{
	char wait[160], peer[256];
	double age = (double)age_ns * 1e-9;

	ori_diag_wait_text(slot, wait, sizeof(wait));
	peer_text(slot->peer, slot->peer < 0 || slot->peer == rank ? NULL : board, peer,
		  sizeof(peer));
	if (given_up)
		(void)ori_fail(ORIEL_ETIMEDOUT, "gave up after %.1f s: %s%s", age, wait, peer);
	else
		ori_log(ORI_LOG_WARN, "waiting %.1f s for %s%s", age, wait, peer);
}

void ori_diag_late_slot(const struct oriel_board_slot *slot, int rank,
			const struct oriel_board *board, uint64_t age_ns)
{
	tell(slot, rank, board, age_ns, 0);
}

void ori_diag_late(const struct ori_spin *s, uint64_t have, uint64_t age_ns, int given_up)
{
	struct oriel_board_slot mine;

	mine.op = s->op;
	mine.peer = s->peer;
	mine.id = s->id;
	mine.window = s->window;
	mine.have = have;
	mine.want = s->want;
	tell(&mine, s->comm->rank, s->peer < 0 ? NULL : s->comm->peers[s->peer].board, age_ns,
	     given_up);
}
