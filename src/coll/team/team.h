/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/team/team.h - the team, and declarations shared by the files of this folder.
 *
 * create.c creates and destroys teams, refusal.c tells why ranks refused a call, calls.c makes the
 * collectives of the host on a team that belongs to the comm.  Among mapped ranks of the CPU these
 * use cards.c and moves.c, for long calls of mapped ranks on GPUs node.c, else the device code in
 * include/oriel/device/{team,exchange,coll}.h.
 */
#ifndef ORI_COLL_TEAM_H
#define ORI_COLL_TEAM_H

#include <oriel/coll/team.h>
#include <oriel/oriel.h>

#include "../../comm/object.h"
#include "../tune/plan.h"

struct oriel_team {
	struct ori_child child; /* must be first: the comm destroys through it */
	struct oriel_comm *comm;
	struct oriel_team_options options;
	struct oriel_window *window;
	struct oriel_team_dev dev;
	struct ori_tune_ways ways;
	const void *near_handle; /* `dev` where kernels can read it; NULL: nobody has asked */
	int blocks; /* separate devices: that a call of the host may have; the same on all ranks */
	uint64_t desk_off;  /* of the desk in every rank's window (cards.h); 0: there is none */
	uint64_t stage_off; /* the same of the stage (kernels/node.h) */
	int by_nodes;       /* long calls send each byte to a node once: device/coll_nodes.h */
	int checked;        /* a rank of the comm has ORIEL_CHECKED; the same on all ranks */
};

/* create.c.  `call` is the user's call, for reports; along: the comm destroys the team. */
int ori_team_make(struct oriel_comm *, const char *call, const struct oriel_team_options *,
		  int along, struct oriel_team **);
int ori_team_check(struct oriel_team *, const char *call);
/* Pure: sizes and offsets of a team for that many ranks.  Returns the bytes of its window. */
uint64_t ori_team_layout(const struct oriel_team_options *, int nranks, int queued,
			 const struct ori_tune_ways *, struct oriel_team_dev *);

/*
 * refusal.c.  If a call was refused on the channel since the last take: its status, with rank and
 * reason as the last error.  `call` names the user's call.
 */
int ori_team_refusal_take(struct oriel_team *, uint32_t channel, const char *call);
/* The two halves of it.  Copies the state of the channel; state->refused is 0 without a refusal. */
int ori_team_refusal_read(struct oriel_team *, uint32_t channel, struct ori_channel *state);
void ori_team_refusal_text(const struct ori_channel *state, char *out, size_t bytes);
/* calls.c, for tests.  The team of the host's calls; NULL before the first. */
struct oriel_team *ori_team_of_calls(struct oriel_comm *);
/* As if the calls of all ranks, which have met, were so many.  After the first call of a comm. */
void ori_team_count_calls(struct oriel_comm *, uint64_t calls);
/*
 * calls.c, for tests: how the last long call went; 0: there was none.  On a separate device that is
 * ORI_NODE_*; on the CPU ORI_CARDS_*, of reductions: a broadcast leaves it as it was.
 */
int ori_team_last_way(struct oriel_comm *);
/*
 * calls.c, for oriel-tune and tests: calls of the host change their way at these sizes from now on,
 * all but cells.  Local: all ranks do it.  The comm has made such a call.
 */
int ori_team_ways_set(struct oriel_comm *, const struct ori_tune_ways *);
/* The name of an ORI_COLL_*. */
const char *ori_team_call_text(int kind);

#endif
