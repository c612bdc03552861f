/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diag/late.c - the log line of a late wait: what it waits for, from which rank, how far it got,
 * and what that rank is doing.
 *
 * Called by: oriel_cpu_spin_slow(), on the waiting thread.
 */
#include <stdio.h>

#include <oriel/device/spin.h>

#include "../util/util.h"
#include "diag.h"

#define SOURCES_NAMED 8 /* sources listed for a sum */

/* Writes " 1.5 s", or nothing if the time is not known. */
static void age_text(uint64_t since_ns, char *out, size_t bytes)
{
	uint64_t age = ori_diag_age_ns(since_ns);

	out[0] = '\0';
	if (age)
		snprintf(out, bytes, " %.1f s", (double)age * 1e-9);
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

int ori_diag_board_text(const struct oriel_board *board, char *out, size_t bytes)
{
	char wait[160], age[32], more[48] = "";
	struct oriel_board_slot slot;
	int n, others;

	for (n = 0; n < ORIEL_BOARD_SLOTS; n++)
		if (ori_board_read(board, n, &slot))
			break;
	if (n == ORIEL_BOARD_SLOTS) {
		snprintf(out, bytes, ORI_DIAG_NO_WAIT);
		return 0;
	}
	ori_diag_wait_text(&slot, wait, sizeof(wait));
	age_text(slot.since_ns, age, sizeof(age));
	others = other_waits(board, n, &slot);
	if (others)
		snprintf(more, sizeof(more), ORI_DIAG_OTHERS, others);
	snprintf(out, bytes, "itself waits%s for %s%s", age, wait, more);
	return 1;
}

/*
 * What the late rank itself waits for, from its board or by its own answer; "" if unknown.  Its
 * board has no calls that meet through the boot, so a rank without a wait there is asked too.  Adds
 * where a longer chain of waits ends, because that rank is the one to look at.
 */
static void peer_text(const struct oriel_board_slot *slot, int rank, int peer,
		      const struct oriel_board *own, const struct oriel_board *board,
		      uint64_t age_ns, int brief, char *out, size_t bytes)
{
	char does[256], chain[200] = "";

	out[0] = '\0';
	if (!(board && ori_diag_board_text(board, does, sizeof(does))) &&
	    !ori_diag_ask(own, peer, brief, does, sizeof(does))) {
		if (!board || !own)
			return;
		snprintf(does, sizeof(does), ORI_DIAG_NO_WAIT_HERE);
	}
	if (!ori_diag_is_own(slot->op))
		ori_diag_chain_text(own, rank, peer, does, age_ns, chain, sizeof(chain));
	snprintf(out, bytes, "; rank %d %s%s", peer, does, chain);
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
 * if unknown.  Of ranks that added the same, the waiting one is the last: few signal themselves.
 */
static int sources_text(const struct oriel_board_slot *slot, int rank,
			const struct oriel_board *own, char *out, size_t bytes)
{
	struct ori_diag_world w;
	struct ori_diag_held *held = ori_diag_hold(own, &w);
	struct least l = { .count = 0 };
	size_t at = 0;
	uint64_t value;

	out[0] = '\0';
	if (!held)
		return -1;
	for (int i = 1; i <= w.nranks; i++) {
		int r = (rank + i) % w.nranks;

		if (w.signal_from(w.ctx, slot->window, slot->id, r, &value))
			least_add(&l, r, value);
	}
	ori_diag_drop(held);
	for (int i = 0; i < l.count && at < bytes; i++)
		at += (size_t)snprintf(out + at, bytes - at, "%s rank %d: %llu",
				       i ? "," : "; least from", l.rank[i],
				       (unsigned long long)l.value[i]);
	if (l.total > l.count && at < bytes)
		snprintf(out + at, bytes - at, " and %d more", l.total - l.count);
	return l.count ? l.rank[0] : -1;
}

/* ---- the line -------------------------------------------------------------------------------- */

/*
 * What the report says of a wait.  A warning while it waits.  When it is given up: an error, or no
 * more than the text of oriel_last_error() if the caller has chosen a short deadline, which may
 * pass in every round of a loop.
 */
enum tone { TONE_WAITS, TONE_CHOSEN, TONE_GAVE_UP };

static void speak(enum tone tone, const char *text)
{
	if (tone == TONE_GAVE_UP)
		(void)ori_fail(ORIEL_ETIMEDOUT, "%s", text);
	else if (tone == TONE_CHOSEN)
		(void)ori_fail_silent(ORIEL_ETIMEDOUT, "%s", text);
	if (tone != TONE_GAVE_UP)
		ori_log(tone == TONE_WAITS ? ORI_LOG_WARN : ORI_LOG_INFO, "%s", text);
}

/* The user called the collective and does not know the wait inside it. */
static void collective_text(const struct oriel_board_slot *slot, double age, int waits,
			    const char *peer, char *out, size_t bytes)
{
	char name[48];

	ori_diag_window_text(slot->window, name, sizeof(name));
	if (waits)
		snprintf(out, bytes, "%s: rank %d is late: waiting %.1f s%s", name, slot->peer, age,
			 peer);
	else
		snprintf(out, bytes, "%s: rank %d did not come within %.1f s%s", name, slot->peer,
			 age, peer);
}

static void tell(const struct oriel_board_slot *slot, int rank, const struct oriel_board *own,
		 const struct oriel_board *board, uint64_t age_ns, enum tone tone)
{
	char wait[160], sources[384] = "", peer[448] = "", text[1100];
	double age = (double)age_ns * 1e-9;
	int late = slot->peer;

	ori_diag_wait_text(slot, wait, sizeof(wait));
	if (ORIEL_OP_OF(slot->op) == ORIEL_OP_SIGNAL_SUM) {
		late = sources_text(slot, rank, own, sources, sizeof(sources));
		board = NULL;
	}
	/* Asking through the boot may take a second: not with a short deadline. */
	if (late >= 0 && late != rank)
		peer_text(slot, rank, late, tone == TONE_CHOSEN ? NULL : own, board, age_ns,
			  tone == TONE_WAITS, peer, sizeof(peer));
	if (ori_diag_is_collective(slot))
		collective_text(slot, age, tone == TONE_WAITS, peer, text, sizeof(text));
	else
		snprintf(text, sizeof(text), "%s %.1f s%s %s%s%s",
			 tone == TONE_WAITS ? "waiting" : "gave up after", age,
			 tone == TONE_WAITS ? " for" : ":", wait, sources, peer);
	speak(tone, text);
}

void ori_diag_late_slot(const struct oriel_board_slot *slot, int rank,
			const struct oriel_board *own, const struct oriel_board *board,
			uint64_t age_ns)
{
	tell(slot, rank, own, board, age_ns, TONE_WAITS);
}

void ori_diag_late(const struct ori_spin *s, uint64_t have, uint64_t age_ns, int given_up)
{
	struct oriel_board_slot mine;
	int chosen = s->timeout_ns < s->comm->timeout_ns;

	mine.op = s->op;
	mine.peer = s->peer;
	mine.id = s->id;
	mine.window = s->window;
	mine.have = have;
	mine.want = s->want;
	mine.block = (int32_t)s->block;
	tell(&mine, s->comm->rank, s->comm->board,
	     s->peer < 0 ? NULL : s->comm->peers[s->peer].board, age_ns,
	     !given_up ? TONE_WAITS :
	     chosen    ? TONE_CHOSEN :
			 TONE_GAVE_UP);
	if (given_up && !chosen)
		ori_doctor_deadline(s->comm->board);
}
