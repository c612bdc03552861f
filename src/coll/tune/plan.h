/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/tune/plan.h - the tuner's interface for collectives: which plan a call of a size gets.
 *
 * coll/alltoallv asks for a plan when a request is created and when the size of its calls changes.
 * coll/tune answers from the table that all ranks agreed on.  kernels/alltoallv_plan.h defines a
 * plan.  coll/team asks how short collectives move their data.
 */
#ifndef ORI_COLL_TUNE_PLAN_H
#define ORI_COLL_TUNE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "../../kernels/alltoallv_plan.h"

struct oriel_comm;

/*
 * [C] All ranks use one table: that of the lowest rank whose file fits, else the first guess.  The
 * first call on a comm is one round; later calls do nothing.  Called when a request is created, on
 * all ranks, and by oriel_alltoallv_plan_agree().
 */
int ori_tune_agree(struct oriel_comm *comm);

/* Have all ranks agreed on a table or on the first guess? */
int ori_tune_is_agreed(struct oriel_comm *comm);

/*
 * bytes_per_peer: the bytes that a call is expected to send to the peer that gets most.  Not
 * collective: the same table and the same bytes give the same plan on all ranks.  Before
 * ori_tune_agree() it is the first guess.
 */
int ori_tune_plan(struct oriel_comm *comm, uint64_t bytes_per_peer, struct ori_a2a_plan *plan);

/*
 * The same with settings of a request, one per kind of peer, which come before all others.  A kind
 * with 0 blocks has none.  given may be NULL.
 */
int ori_tune_plan_with(struct oriel_comm *comm, uint64_t bytes_per_peer,
		       const struct ori_a2a_setting *given, struct ori_a2a_plan *plan);
int ori_tune_explain_with(struct oriel_comm *comm, uint64_t bytes_per_peer,
			  const struct ori_a2a_setting *given, char *text, size_t bytes);

/* Can a plan have this setting? */
int ori_tune_setting_fits(const struct ori_a2a_setting *setting);

/* One readable line: the plan, and its origin ("measured ...", "first guess for cuda"). */
int ori_tune_explain(struct oriel_comm *comm, uint64_t bytes_per_peer, char *text, size_t bytes);

/*
 * Measured figures for peers of a kind (ORI_PLAN_*): the time of an empty exchange, and the bytes
 * that a rank sends per microsecond.  Returns ORIEL_EUNSUPPORTED, without a log line, if nothing
 * was measured.
 */
int ori_tune_link(struct oriel_comm *comm, int kind, uint64_t *latency_ns, uint64_t *bytes_per_us);

/* Where collectives of a team change from one way to another, in bytes. */
struct ori_tune_ways {
	/*
	 * Ranks that all map each other: blocks up to this go in marked cells, longer ones by slot
	 * and signal.  A multiple of 8, at most ORI_TUNE_CELLS_MAX; 0: none go in cells.
	 */
	uint32_t cells;
	/*
	 * More than two ranks: an all-reduce up to this is one round, and every rank reduces all
	 * elements.  A longer one goes in pieces, with a round more.
	 */
	uint32_t once;
	/* The same for calls of the host between CPU ranks that all map each other; also two. */
	uint32_t host_once;
	/* Calls of the host between GPU ranks that all map each other: long ones begin here. */
	uint32_t long_from;
};
#define ORI_TUNE_CELLS_MAX 4096u
#define ORI_TUNE_ONCE_MAX (256u << 10)
#define ORI_TUNE_LONG_MIN (16u << 10)
#define ORI_TUNE_LONG_MAX (16u << 20)

/* The same on all ranks.  Before ori_tune_agree() it is the first guess. */
void ori_tune_ways(struct oriel_comm *comm, struct ori_tune_ways *ways);

#endif
