/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/coll.c - host-issued collectives of a team: see coll.h.  Compiled twice, as window_ops.c
 * is.
 */
#include <oriel/device/coll.h>

#include "coll_desk.h"

#ifdef ORIEL_KERNEL_IMAGE
#define ori_any_reducer ori_reducer_of
#else
#include "loops.h"
#endif

/* Block 0 compares the calls of all ranks; all blocks return its verdict. */
ORIEL_DEV_OUT int ori_coll_verdict(const struct ori_coll_args *a, ORI_VALUE(oriel_group) g)
{
	struct ori_channel *channel = (struct ori_channel *)(void *)a->team.win.buffer;
	struct ori_exchange x;
	uint64_t verdict = 0;
	int err, met;

	if (g.block == 0) {
		err = ori_exchange_begin(&x, &a->team, g, 0, &a->call);
		if (!err)
			err = ori_coll_compare(&x);
		/* the next call is another launch: nobody stores there before all have read it */
		if (oriel_group_is_leader(g))
			channel->verdict = (uint64_t)(uint32_t)-err;
	}
	met = oriel_grid_sync(&a->team.win, g, ORI_COLL_GRID);
	if (!met && oriel_group_is_leader(g))
		verdict = channel->verdict; /* [GRID3] has ordered it after the store */
	met = ori_group_agree_value(g, met, &verdict);
	return met ? met : -(int)(uint32_t)verdict;
}

/* One place that calls ori_coll_run(): a GPU inlines it, with all collectives of all types. */
ORIEL_DEV int ori_coll_blocks(const struct ori_coll_args *a, struct oriel_group g)
{
	uint64_t begin = 0, elem = a->call.type ? oriel_type_bytes(a->call.type) : 1;
	struct ori_reducer how = ori_any_reducer(a->call.type, a->call.op);
	struct ori_terms share = a->call;
	int err = 0;

	if (!g.block)
		ori_coll_desk_tell(a, g);
	if (g.nblocks > 1) {
		err = ORI_RARE(ori_coll_verdict)(a, g);
		share.size = ori_coll_block_share(&a->call, g, &begin);
		if (err || !share.size)
			return err;
	}
	return ori_coll_run(&a->team, g, (int)g.block, &share, how, a->send + begin * elem,
			    a->recv + begin * elem, a->call.size * elem);
}

ORIEL_KERNEL(ori_coll, struct ori_coll_args)
{
	struct ori_channel *channel = (struct ori_channel *)(void *)a->team.win.buffer;
	struct oriel_group g = oriel_group_block();
	uint64_t pending = 0;
	int err;

	if (a->call.refused && oriel_group_is_leader(g))
		pending = channel->refused;
	err = ori_coll_blocks(a, g);
	/*
	 * The host has returned the status of a call that this rank itself refuses.  Nobody takes
	 * that refusal, and it would stand before the next one.
	 */
	if (a->call.refused && oriel_group_is_leader(g))
		channel->refused = pending;
	if (err && oriel_group_is_leader(g))
		ori_kernel_failed(a->launch, g.block, err);
	return err;
}

#ifndef ORIEL_KERNEL_IMAGE
const struct oriel_kernel *ori_coll_kernel(void)
{
	return &ori_coll;
}
#endif
