/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/late.c - the log line of a late wait: what it waits for, from which rank, how far it got,
 * and what that rank is doing.
 *
 * Called by: oriel_cpu_spin_slow(), on the waiting thread.
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

#define SOURCES_NAMED 8 /* sources listed for a sum */

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
static int is_collective(const struct oriel_board_slot *slot)
{
	return slot->op == ORIEL_OP_SIGNAL && use_text(slot->window);
}

/* Counters and queues are about this rank's own operations; all else comes from the peer. */
static int is_own_operation(int op)
{
	return op == ORIEL_OP_COUNTER || op == ORIEL_OP_QUEUE;
}

static const char *direction_text(int op)
{
	return is_own_operation(op) ? "for operations to" : "from";
}

/* A word of the user's window: its offset is packed into `id` and `peer` (device/word.h). */
static int is_window_word(const struct oriel_board_slot *slot)
{
	return slot->op == ORIEL_OP_WORD && slot->window >= 0 && slot->peer < 0;
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
	if (is_collective(slot)) {
		snprintf(out, bytes, "%s in %s %s", peer, name[0] == 'a' ? "an" : "a", name);
		return;
	}
	if (slot->block > 0) /* most kernels have one block */
		snprintf(block, sizeof(block), " (block %d)", slot->block);
	if (is_window_word(slot))
		word_text(slot, window, block, out, bytes);
	else if (slot->op == ORIEL_OP_GRID)
		snprintf(out, bytes, "grid sync %d%s: %llu of %llu blocks of this rank have come",
			 slot->id, window, have, want);
	else
		snprintf(out, bytes, "%s %d%s %s %s: have %llu, want %llu%s", op_text(slot->op),
			 slot->id, window, direction_text(slot->op), peer, have, want, block);
}

/*
 * Writes " 1.5 s".  A GPU fills its slots by a clock that counts from 1970.  Writes nothing if the
 * slot's time fits neither clock.
 */
static void age_text(uint64_t since_ns, char *out, size_t bytes)
{
	uint64_t now = ori_now_ns();
	struct timespec t;

	if (since_ns > now && !clock_gettime(CLOCK_REALTIME, &t))
		now = (uint64_t)t.tv_sec * ORI_NS_PER_S + (uint64_t)t.tv_nsec;
	out[0] = '\0';
	if (since_ns <= now)
		snprintf(out, bytes, " %.1f s", (double)(now - since_ns) * 1e-9);
}

/* The number of other blocks on the board that wait for another rank than `slot` does. */
static int other_waits(const struct oriel_board *board, int n, const struct oriel_board_slot *slot)
{
	struct oriel_board_slot other;
	int others = 0;

	for (n++; n < ORIEL_BOARD_SLOTS; n++)
		others += ori_board_read(board, n, &other) && other.peer != slot->peer;
	return others;
}

void ori_diag_board_text(const struct oriel_board *board, char *out, size_t bytes)
{
	char wait[160], age[32], more[48] = "";
	struct oriel_board_slot slot;
	int n, others;

	for (n = 0; n < ORIEL_BOARD_SLOTS; n++)
		if (ori_board_read(board, n, &slot))
			break;
	if (n == ORIEL_BOARD_SLOTS) {
		snprintf(out, bytes, "waits for nothing in Oriel");
		return;
	}
	ori_diag_wait_text(&slot, wait, sizeof(wait));
	age_text(slot.since_ns, age, sizeof(age));
	others = other_waits(board, n, &slot);
	if (others)
		snprintf(more, sizeof(more), ORI_DIAG_OTHERS, others);
	snprintf(out, bytes, "itself waits%s for %s%s", age, wait, more);
}

/*
 * What the late rank itself waits for, from its board or by its own answer; "" if unknown.  Adds a
 * text if these waits form a cycle.
 */
static void peer_text(const struct oriel_board_slot *slot, int rank, int peer,
		      const struct oriel_board *own, const struct oriel_board *board,
		      uint64_t age_ns, char *out, size_t bytes)
{
	char does[256], cycle[160] = "";

	out[0] = '\0';
	if (board)
		ori_diag_board_text(board, does, sizeof(does));
	else if (!ori_diag_ask(own, peer, does, sizeof(does)))
		return;
	if (!is_own_operation(slot->op))
		ori_diag_cycle_text(own, rank, peer, does, age_ns, cycle, sizeof(cycle));
	snprintf(out, bytes, "; rank %d %s%s", peer, does, cycle);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The sources of a sum that have added least, lowest first. */
struct least {
	int rank[SOURCES_NAMED];
	uint64_t value[SOURCES_NAMED];
	int count, total;
};

static void least_add(struct least *l, int rank, uint64_t value)
{
	int at = l->count;

	l->total++;
	while (at > 0 && value < l->value[at - 1])
		at--;
	if (at == SOURCES_NAMED)
		return;
	if (l->count < SOURCES_NAMED)
		l->count++;
	for (int i = l->count - 1; i > at; i--) {
		l->rank[i] = l->rank[i - 1];
		l->value[i] = l->value[i - 1];
	}
	l->rank[at] = rank;
	l->value[at] = value;
}

/*
 * Writes "; least from rank 2: 0, rank 0: 1 and 5 more".  Returns the rank that added least, or -1
 * if unknown.
 */
static int sources_text(const struct oriel_board_slot *slot, const struct oriel_board *own,
			char *out, size_t bytes)
{
	struct least l = { .count = 0 };
	int nranks = ori_diag_nranks(own);
	size_t at = 0;
	uint64_t value;

	out[0] = '\0';
	for (int r = 0; r < nranks; r++)
		if (ori_diag_signal_from(own, slot->window, slot->id, r, &value))
			least_add(&l, r, value);
	for (int i = 0; i < l.count && at < bytes; i++)
		at += (size_t)snprintf(out + at, bytes - at, "%s rank %d: %llu",
				       i ? "," : "; least from", l.rank[i],
				       (unsigned long long)l.value[i]);
	if (l.total > l.count && at < bytes)
		snprintf(out + at, bytes - at, " and %d more", l.total - l.count);
	return l.count ? l.rank[0] : -1;
}

/* ---- the line -------------------------------------------------------------------------------- */

/* The user called the collective and does not know the wait inside it. */
static void tell_collective(const struct oriel_board_slot *slot, double age, int given_up,
			    const char *peer)
{
	char name[48];

	ori_diag_window_text(slot->window, name, sizeof(name));
	if (given_up)
		(void)ori_fail(ORIEL_ETIMEDOUT, "%s: rank %d did not come within %.1f s%s", name,
			       slot->peer, age, peer);
	else
		ori_log(ORI_LOG_WARN, "%s: rank %d is late: waiting %.1f s%s", name, slot->peer,
			age, peer);
}

static void tell(const struct oriel_board_slot *slot, int rank, const struct oriel_board *own,
		 const struct oriel_board *board, uint64_t age_ns, int given_up)
{
	char wait[160], sources[384] = "", peer[448] = "";
	double age = (double)age_ns * 1e-9;
	int late = slot->peer;

	ori_diag_wait_text(slot, wait, sizeof(wait));
	if (slot->op == ORIEL_OP_SIGNAL_SUM) {
		late = sources_text(slot, own, sources, sizeof(sources));
		board = NULL;
	}
	if (late >= 0 && late != rank)
		peer_text(slot, rank, late, own, board, age_ns, peer, sizeof(peer));
	if (is_collective(slot))
		tell_collective(slot, age, given_up, peer);
	else if (given_up)
		(void)ori_fail(ORIEL_ETIMEDOUT, "gave up after %.1f s: %s%s%s", age, wait, sources,
			       peer);
	else
		ori_log(ORI_LOG_WARN, "waiting %.1f s for %s%s%s", age, wait, sources, peer);
}

void ori_diag_late_slot(const struct oriel_board_slot *slot, int rank,
			const struct oriel_board *own, const struct oriel_board *board,
			uint64_t age_ns)
{
	tell(slot, rank, own, board, age_ns, 0);
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
	mine.block = (int32_t)s->block;
	/*
	 * Other ranks are asked through the boot, which may take a second.  A wait with a short
	 * deadline of its own does not ask.
	 */
	tell(&mine, s->comm->rank, s->timeout_ns < s->comm->timeout_ns ? NULL : s->comm->board,
	     s->peer < 0 ? NULL : s->comm->peers[s->peer].board, age_ns, given_up);
}
