/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/team/refusal.c - why ranks refused a call: the text for what the device found.
 *
 * Device code keeps the first refused call of a channel, with the call of rank 0 and the one that
 * differs (ori_exchange_compare() in device/exchange.h).  Called by create.c and calls.c.
 */
#include <stdio.h>

#include "../../comm/failure.h"
#include "../../window/window.h"
#include "team.h"

const char *ori_team_call_text(int kind)
{
	switch (kind) {
	case ORI_COLL_ALLGATHER:
		return "all-gather";
	case ORI_COLL_ALLTOALLV:
		return "all-to-all-v";
	case ORI_COLL_BROADCAST:
		return "broadcast";
	case ORI_COLL_ALLREDUCE:
		return "all-reduce";
	case ORI_COLL_REDUCESCATTER:
		return "reduce-scatter";
	case ORI_COLL_ALLTOALL:
		return "all-to-all";
	default:
		return "call of an unknown kind";
	}
}

/* Writes where two calls differ: "counts: 5 and 6". */
static void difference_text(const struct ori_terms *a, const struct ori_terms *b, char *out,
			    size_t bytes)
{
	if (a->kind != b->kind)
		snprintf(out, bytes, "calls: %s and %s", ori_team_call_text(a->kind),
			 ori_team_call_text(b->kind));
	else if (a->type != b->type)
		snprintf(out, bytes, "types: %u and %u", a->type, b->type);
	else if (a->op != b->op)
		snprintf(out, bytes, "operators: %u and %u", a->op, b->op);
	else if (a->root <= ORI_INTO_ROOT(0) && b->root <= ORI_INTO_ROOT(0))
		snprintf(out, bytes, "places: all receive in the same window, at the same offset");
	else if (a->root != b->root && (a->root < -1 || b->root < -1)) /* ORI_LINE_ROOT() */
		snprintf(out, bytes, "lines: all open one, with the same part and parts");
	else if (a->root != b->root)
		snprintf(out, bytes, "roots: %d and %d", a->root, b->root);
	else
		snprintf(out, bytes, "%s: %llu and %llu", a->type ? "counts" : "bytes",
			 (unsigned long long)a->size, (unsigned long long)b->size);
}

int ori_team_refusal_read(struct oriel_team *t, uint32_t channel, struct ori_channel *state)
{
	struct ori_channel *there;
	const uint64_t zero = 0;
	int err;

	there = (struct ori_channel *)(void *)(t->dev.win.buffer + channel * t->dev.channel_bytes);
	err = oriel_copy(t->comm, state, there, sizeof(*state));
	if (err || !state->refused)
		return err;
	return oriel_copy(t->comm, &there->refused, &zero, sizeof(zero));
}

void ori_team_refusal_text(const struct ori_channel *state, char *out, size_t bytes)
{
	int rank = ORIEL_FAILURE_RANK(state->refused);
	char text[128];

	if (state->other.refused) {
		snprintf(out, bytes, "rank %d refused the call: %s", rank,
			 oriel_status_text(ORIEL_FAILURE_STATUS(state->refused)));
		return;
	}
	difference_text(&state->first, &state->other, text, sizeof(text));
	snprintf(out, bytes, "rank 0 and rank %d differ in their %s", rank, text);
}

int ori_team_refusal_take(struct oriel_team *t, uint32_t channel, const char *call)
{
	struct ori_channel state;
	char text[192];
	int err = ori_team_refusal_read(t, channel, &state);

	if (err || !state.refused)
		return err;
	ori_team_refusal_text(&state, text, sizeof(text));
	return ori_fail(ORIEL_FAILURE_STATUS(state.refused), "%s: %s", call, text);
}
