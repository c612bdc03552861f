/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/tune/plan.h - the tuner as coll/alltoallv asks it: which plan a call of a size gets.
 *
 * coll/alltoallv asks for a plan when a request is made and when the size of its calls changes;
 * coll/tune answers from what all ranks have agreed on.  kernels/alltoallv_plan.h says what a plan
 * is.
 */
#ifndef ORI_COLL_TUNE_PLAN_H
#define ORI_COLL_TUNE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "../../kernels/alltoallv_plan.h"

struct oriel_comm;

/*
 * [C] All ranks take one table: the lowest rank's whose file fits, else the first guess.  The first
 * call on a comm is one round, later ones do nothing.  Called by whatever makes a request, on all
 * ranks alike.
 */
int ori_tune_agree(struct oriel_comm *comm);

/*
 * bytes_per_peer: what a call is expected to send to the peer that gets most.  Not collective: the
 * same table and the same bytes give the same plan on all ranks.  Before ori_tune_agree() it is the
 * first guess.
 */
int ori_tune_plan(struct oriel_comm *comm, uint64_t bytes_per_peer, struct ori_a2a_plan *plan);

/* One line for people: the plan, and why it is so ("measured ...", "first guess for cuda"). */
int ori_tune_explain(struct oriel_comm *comm, uint64_t bytes_per_peer, char *text, size_t bytes);

/*
 * What was measured of the way to peers of a kind (ORI_PLAN_*): time of an empty exchange, and the
 * bytes a rank sends that way in a microsecond.  ORIEL_EUNSUPPORTED, silently, when nothing was.
 */
int ori_tune_link(struct oriel_comm *comm, int kind, uint64_t *latency_ns, uint64_t *bytes_per_us);

#endif
