/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/alltoallv/plan.c - tells programs the plan of an all-to-all-v, for kernels of their own.
 *
 * The tuner decides (coll/tune); this file only copies its answer into the public struct.  Any
 * thread may ask.  The agreement is a collective call on the comm's host thread.
 */
#include <string.h>

#include "../../boot/boot.h"
#include "../../comm/failure.h"
#include "../../util/options.h"
#include "alltoallv.h"

ORI_OPTIONS_NO_PADDING(struct oriel_alltoallv_plan_info, reserved);

int oriel_alltoallv_plan_agree(struct oriel_comm *c)
{
	const char *call = "oriel_alltoallv_plan_agree", *outer;
	int err = ori_comm_check(c, call);

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	outer = ori_boot_serve_begin(c->boot, call);
	err = ori_tune_agree(c);
	ori_boot_serve_end(c->boot, outer);
	return err;
}

static struct oriel_alltoallv_setting setting(const struct ori_a2a_setting *s)
{
	struct oriel_alltoallv_setting out = { s->blocks, s->warps, s->chunk };

	return out;
}

/* Only what the program's struct has: it may be older than the library. */
static void give(const struct oriel_alltoallv_plan_info *own,
		 struct oriel_alltoallv_plan_info *plan)
{
	size_t bytes = plan->size < sizeof(*own) ? plan->size : sizeof(*own);

	memcpy((char *)plan + sizeof(plan->size), (const char *)own + sizeof(own->size),
	       bytes - sizeof(plan->size));
}

int oriel_alltoallv_plan(struct oriel_comm *c, uint64_t bytes_per_peer,
			 struct oriel_alltoallv_plan_info *plan)
{
	static const char call[] = "oriel_alltoallv_plan";
	struct oriel_alltoallv_plan_info own = ORIEL_ALLTOALLV_PLAN_INIT;
	struct ori_a2a_plan found;
	int err = ori_comm_check(c, call);

	if (err)
		return err;
	if (!plan)
		return ori_fail(ORIEL_EINVAL, "%s: no place for the plan", call);
	err = ori_options_take(call, "ORIEL_ALLTOALLV_PLAN_INIT", plan, &own, sizeof(own));
	if (!err)
		err = ori_comm_failed(c);
	if (!err)
		err = ori_tune_plan(c, bytes_per_peer, &found);
	if (err)
		return err;
	own.mapped = setting(&found.kind[ORI_PLAN_MAPPED]);
	own.queued = setting(&found.kind[ORI_PLAN_QUEUED]);
	own.agreed = (uint32_t)ori_tune_is_agreed(c);
	own.reserved = 0;
	give(&own, plan);
	return 0;
}
