/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/words.c - what a wait is called: the user's call, what it waits for, its window, its age.
 *
 * Pure functions of a slot of the board.  Called by: late.c, report.c and graph.c, on any thread.
 */
#include <stdio.h>
#include <time.h>

#include <oriel/device/spin.h>
#include <oriel/device/team.h>
#include <oriel/device/word.h>

#include "../util/util.h"
#include "diag.h"

_Static_assert(ORI_COLL_SHIFT == ORI_USE_SHIFT &&
		       ORI_COLL_ALLGATHER << ORI_COLL_SHIFT == ORI_USE_ALLGATHER,
	       "waits on a team have the use of a window in the same bits");

static const char *op_text(int op)
{
	switch (ORIEL_OP_OF(op)) {
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
	case ORIEL_OP_GRID:
		return "grid sync";
	case ORIEL_OP_PACKET_SEND:
		return "room for a packet in box";
	case ORIEL_OP_PACKET_RECV:
		return "packet in box";
	default:
		return "operation";
	}
}

/* Such as "all-gather"; NULL: a window that the user created. */
static const char *use_text(int number)
{
	if (number < 0)
		return NULL;
	switch (number >> ORI_USE_SHIFT << ORI_USE_SHIFT) {
	case ORI_USE_ALLGATHER:
		return "all-gather";
	case ORI_USE_ALLTOALLV:
		return "all-to-all-v";
	case ORI_COLL_BROADCAST << ORI_USE_SHIFT:
		return "broadcast";
	case ORI_COLL_ALLREDUCE << ORI_USE_SHIFT:
		return "all-reduce";
	case ORI_COLL_REDUCESCATTER << ORI_USE_SHIFT:
		return "reduce-scatter";
	case ORI_COLL_ALLTOALL << ORI_USE_SHIFT:
		return "all-to-all";
	case ORI_USE_TEAM:
		return "team";
	default:
		return NULL;
	}
}

void ori_diag_window_text(int number, char *out, size_t bytes)
{
	const char *use = use_text(number);

	if (use)
		snprintf(out, bytes, "%s (window %d)", use, number & ((1 << ORI_USE_SHIFT) - 1));
	else
		snprintf(out, bytes, "window %d", number);
}

/* A wait inside a collective for another rank to arrive.  It waits on internal words. */
int ori_diag_is_collective(const struct oriel_board_slot *slot)
{
	return ORIEL_OP_OF(slot->op) == ORIEL_OP_SIGNAL && use_text(slot->window);
}

/* Counters and queues are about this rank's own operations; all else comes from the peer. */
int ori_diag_is_own(int op)
{
	return ORIEL_OP_OF(op) == ORIEL_OP_COUNTER || ORIEL_OP_OF(op) == ORIEL_OP_QUEUE;
}

static const char *direction_text(int op)
{
	return ori_diag_is_own(op) ? "for operations to" : "from";
}

/* A word of the user's window: its offset is packed into `id` and `peer` (device/word.h). */
int ori_diag_is_window_word(const struct oriel_board_slot *slot)
{
	return ORIEL_OP_OF(slot->op) == ORIEL_OP_WORD && slot->window >= 0 && slot->peer < 0;
}

static void word_text(const struct oriel_board_slot *slot, const char *window, const char *block,
		      char *out, size_t bytes)
{
	static const char *const compare[8] = { [ORIEL_NE] = "not ",
						[ORIEL_GT] = "more than ",
						[ORIEL_GE] = "at least ",
						[ORIEL_LT] = "less than ",
						[ORIEL_LE] = "at most " };
	unsigned long long at = ORI_WORD_OFFSET(slot->peer, slot->id);
	const char *how = compare[ORI_WORD_CMP(slot->peer)];

	if (!ORI_WORD_CMP(slot->peer))
		snprintf(out, bytes, "any of %llu words at offset %llu%s%s",
			 (unsigned long long)slot->want, at, window, block);
	else if (ORI_WORD_SIGNED(slot->peer))
		snprintf(out, bytes, "word at offset %llu%s: have %lld, want %s%lld%s", at, window,
			 (long long)slot->have, how ? how : "", (long long)slot->want, block);
	else
		snprintf(out, bytes, "word at offset %llu%s: have %llu, want %s%llu%s", at, window,
			 (unsigned long long)slot->have, how ? how : "",
			 (unsigned long long)slot->want, block);
}

void ori_diag_wait_text(const struct oriel_board_slot *slot, char *out, size_t bytes)
{
	unsigned long long have = slot->have, want = slot->want;
	char window[64] = "", peer[32] = "all ranks", block[32] = "", name[48] = "";

	if (slot->peer >= 0)
		snprintf(peer, sizeof(peer), "rank %d", slot->peer);
	if (slot->window >= 0) {
		ori_diag_window_text(slot->window, name, sizeof(name));
		snprintf(window, sizeof(window), " of %s", name);
	}
	if (ori_diag_is_collective(slot)) {
		snprintf(out, bytes, "%s in %s %s", peer, name[0] == 'a' ? "an" : "a", name);
		return;
	}
	if (slot->block > 0) /* most kernels have one block */
		snprintf(block, sizeof(block), " (block %d)", slot->block);
	if (ori_diag_is_window_word(slot))
		word_text(slot, window, block, out, bytes);
	else if (ORIEL_OP_OF(slot->op) == ORIEL_OP_GRID)
		snprintf(out, bytes, "grid sync %d%s: %llu of %llu blocks of this rank have come",
			 slot->id, window, have, want);
	else
		snprintf(out, bytes, "%s %d%s %s %s: have %llu, want %llu%s", op_text(slot->op),
			 slot->id, window, direction_text(slot->op), peer, have, want, block);
}

/* A GPU fills its slots by a clock that counts from 1970. */
uint64_t ori_diag_age_ns(uint64_t since_ns)
{
	uint64_t now = ori_now_ns();
	struct timespec t;

	if (since_ns > now && !clock_gettime(CLOCK_REALTIME, &t))
		now = (uint64_t)t.tv_sec * ORI_NS_PER_S + (uint64_t)t.tv_nsec;
	return since_ns <= now ? now - since_ns : 0;
}

/* ---- the user's call ------------------------------------------------------------------------- */

/* A call inside a kernel, and the call of host code that waits in the same way. */
struct call_name {
	const char *device, *host;
};

/* By ORIEL_CALL_*.  Host puts and signals end with a flush, so a wait there may be any of them. */
static const struct call_name by_call[] = {
	[ORIEL_CALL_PUT] = { "oriel_put", "oriel_window_put" },
	[ORIEL_CALL_GET] = { "oriel_get", "oriel_window_get" },
	[ORIEL_CALL_SIGNAL] = { "oriel_signal", "oriel_window_signal" },
	[ORIEL_CALL_ATOMIC] = { "oriel_fetch_add", "oriel_window_fetch_add" },
	[ORIEL_CALL_FENCE] = { "oriel_fence", "oriel_fence" },
	[ORIEL_CALL_FLUSH] = { "oriel_flush", "oriel_window_flush" },
	[ORIEL_CALL_WAIT_LOCAL] = { "oriel_wait_local", "oriel_wait_local" },
	[ORIEL_CALL_SEND] = { "oriel_send", "oriel_send" },
	[ORIEL_CALL_RECV] = { "oriel_recv", "oriel_recv" },
	[ORIEL_CALL_PACKET_SEND] = { "oriel_packet_send", "oriel_packet_send" },
	[ORIEL_CALL_PACKET_RECV] = { "oriel_packet_recv", "oriel_packet_recv" },
	[ORIEL_CALL_TYPED_ATOMIC] = { "oriel_atomic", "oriel_window_atomic" },
	/* the parts of a barrier: 1 arrive, 2 wait, 4 flush, 8 one peer only (barrier.h) */
	[ORIEL_CALL_BARRIERS] = { "oriel_barrier", "oriel_window_barrier" },
	[ORIEL_CALL_BARRIERS + 2] = { "oriel_barrier_wait", "oriel_barrier_wait" },
	[ORIEL_CALL_BARRIERS + 3] = { "oriel_barrier_arrive_wait", "oriel_barrier_arrive_wait" },
	[ORIEL_CALL_BARRIERS + 5] = { "oriel_barrier_arrive", "oriel_barrier_arrive" },
	[ORIEL_CALL_BARRIERS + 7] = { "oriel_barrier", "oriel_window_barrier" },
	[ORIEL_CALL_BARRIERS + 15] = { "oriel_barrier_peer", "oriel_barrier_peer" },
};

/* Operations in which one call waits, and programs of older headers, which name no call. */
static const struct call_name by_op[] = {
	[ORIEL_OP_SIGNAL] = { "oriel_wait_signal_from", "oriel_window_wait_signal" },
	[ORIEL_OP_SIGNAL_SUM] = { "oriel_wait_signal", "oriel_window_wait_signal" },
	[ORIEL_OP_COUNTER] = { "oriel_wait_counter", "oriel_window_wait_counter" },
	[ORIEL_OP_BARRIER] = { "oriel_barrier", "oriel_window_barrier" },
	[ORIEL_OP_SEND] = { "oriel_send", "oriel_send" },
	[ORIEL_OP_RECV] = { "oriel_recv", "oriel_recv" },
	[ORIEL_OP_WORD] = { "oriel_wait_word", "oriel_window_wait_word" },
	[ORIEL_OP_QUEUE] = { "an operation on a queue", "an operation on a queue" },
	[ORIEL_OP_GRID] = { "oriel_grid_sync", "oriel_grid_sync" },
	[ORIEL_OP_PACKET_SEND] = { "oriel_packet_send or oriel_line_send", "oriel_packet_send" },
	[ORIEL_OP_PACKET_RECV] = { "oriel_packet_recv or oriel_line_recv", "oriel_packet_recv" },
};

const char *ori_diag_call_text(int op, int window)
{
	size_t call = (size_t)ORIEL_CALL_OF(op), plain = (size_t)ORIEL_OP_OF(op);
	struct call_name name = { NULL, NULL };
	const char *use = use_text(window);

	if (use)
		return use;
	if (call < sizeof(by_call) / sizeof(by_call[0]))
		name = by_call[call];
	if (!name.device && plain < sizeof(by_op) / sizeof(by_op[0]))
		name = by_op[plain];
	if (plain == ORIEL_OP_WORD && window < 0)
		return "oriel_mapped_wait";
	if (!name.device)
		return "a wait";
	return op & ORIEL_CALL_BY_HOST ? name.host : name.device;
}
