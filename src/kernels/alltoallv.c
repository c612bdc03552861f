/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/alltoallv.c - the all-to-all-v kernel: one source for CPU blocks and CUDA.
 *
 * The work of a call is a list of items, one per (peer, block of that peer).  Block i % nblocks
 * executes item i, so any number of blocks can execute any number of items.  A block goes through
 * three phases, each over all its items: tell (words and small messages), send, receive.  It waits
 * only in the second and third, and only for an earlier phase of other ranks.  So no block needs
 * another block of its grid to run at the same time.
 *
 * alltoallv.h has the protocol, alltoallv_steps.h the steps per item.  Compiled twice, as
 * window_ops.c is.
 *
 * Called by: oriel_alltoallv_exec() through the device's launch.
 */
#include <oriel/device.h>

#include "alltoallv_slots.h"
#include "alltoallv_steps.h"

/* ---- the call ------------------------------------------------------------------------------- */

#define ORI_A2A_TELL 0
#define ORI_A2A_GRANT 1
#define ORI_A2A_SEND 2
#define ORI_A2A_RECEIVE 3

ORIEL_DEV int ori_a2a_step(const struct ori_a2a_args *a, struct oriel_group g, int parts,
			   struct ori_a2a_item *it, uint64_t k, int phase)
{
	int self = ori_a2a_is_self(a, it);

	switch (phase) {
	case ORI_A2A_TELL:
		return self || it->index ? 0 : ori_a2a_tell(a, g, parts, 0, it, k);
	case ORI_A2A_GRANT:
		return self || it->index ? 0 : ori_a2a_grant(a, g, parts, it, k);
	case ORI_A2A_SEND:
		/* with fixed slots a rank need not wait to copy to itself */
		if (self)
			return ori_a2a_is_packed(a, parts) ?
				       0 :
				       ori_a2a_receive_self(a, g, parts, it, k);
		return ori_a2a_is_small(a, it) ? 0 : ori_a2a_send(a, g, parts, it, k);
	default:
		if (self)
			return ori_a2a_is_packed(a, parts) ?
				       ori_a2a_receive_self(a, g, parts, it, k) :
				       0;
		return it->index ? 0 : ori_a2a_receive(a, g, parts, it, k);
	}
}

/*
 * A call that ended without its peers leaves ranks with different counts.  So the request becomes
 * unusable on this rank and on the others.  A failed comm reports its failure itself.
 */
ORIEL_DEV_OUT void ori_a2a_give_up(const struct ori_a2a_args *a, int err)
{
	int r;

	if (ori_load_relaxed_sys(a->comm.failure))
		return;
	for (r = 0; r < a->comm.nranks; r++)
		if (r != a->comm.rank)
			(void)ori_fail_window(a->win, err, r);
	/* acq_rel, without a partner: a failure word is the whole message */
	(void)ori_compare_swap_acq_rel_sys(a->failure, 0, ORIEL_FAILURE(err, a->comm.rank));
}

/*
 * All phases, each over all items of the block.  A single item, as on a GPU, is looked up only
 * once.  Each step is called in one place only: inlined several times, the steps need so many
 * registers that threads spill them.
 */
ORIEL_DEV int ori_a2a_phases(const struct ori_a2a_args *a, struct oriel_group g, int parts,
			     struct ori_a2a_item *it, int found, uint64_t k)
{
	uint32_t at = g.block, n;
	int phase, err = 0;

	for (phase = ORI_A2A_TELL; !err && phase <= ORI_A2A_RECEIVE; phase++) {
		if (phase == ORI_A2A_GRANT && !ori_a2a_is_packed(a, parts))
			continue;
		if (phase == ORI_A2A_RECEIVE) {
			(void)oriel_group_sync(g);
			if (oriel_group_is_leader(g))
				ori_a2a_count(a, k);
		}
		for (n = g.block; !err && n < a->items; n += g.nblocks) {
			if (n != at) {
				at = n;
				found = ori_a2a_find(a, g, parts, n, it);
			}
			if (found)
				err = ori_a2a_step(a, g, parts, it, k, phase);
		}
	}
	return err;
}

ORIEL_DEV int ori_a2a_run(const struct ori_a2a_args *a, int parts)
{
	struct oriel_group g = oriel_group_block();
	uint64_t k = ori_load_relaxed_sys(&a->state->calls); /* together with the loads of find() */
	struct ori_a2a_item it;
	int found, err;

	if (!ORIEL_ON_GPU)
		it.sums.peer = -1;
	found = ori_a2a_find(a, g, parts, g.block, &it);
	/* a surplus block, of a peer that has fewer blocks: it does not count */
	if (!found && g.nblocks == a->items && !a->shares)
		return 0;
	err = ori_a2a_phases(a, g, parts, &it, found, k);
	if (err && oriel_group_is_leader(g))
		ori_a2a_give_up(a, err);
	return err;
}

ORIEL_DEV int ori_a2a_run_slots(const struct ori_a2a_args *a, int parts)
{
	struct oriel_group g = oriel_group_block();
	int err = ori_a2a_slots(a, g, parts);

	if (err && oriel_group_is_leader(g))
		ori_a2a_give_up(a, err);
	return err;
}

ORIEL_KERNEL(ori_alltoallv_slots, struct ori_a2a_args)
{
	return ori_a2a_run_slots(a, 0);
}

ORIEL_KERNEL(ori_alltoallv_shares, struct ori_a2a_args)
{
	return ori_a2a_run_slots(a, ORI_A2A_SHARES);
}

ORIEL_KERNEL(ori_alltoallv_mapped, struct ori_a2a_args)
{
	return ori_a2a_run(a, ORI_A2A_PACKED | ORI_A2A_SHARES);
}

ORIEL_KERNEL(ori_alltoallv_mixed, struct ori_a2a_args)
{
	return ori_a2a_run(a, ORI_A2A_PACKED | ORI_A2A_QUEUED);
}

#ifndef ORIEL_KERNEL_IMAGE
const struct oriel_kernel *ori_a2a_kernel(int which)
{
	static const struct oriel_kernel *const kernels[] = {
		[ORI_A2A_KERNEL_SLOTS] = &ori_alltoallv_slots,
		[ORI_A2A_KERNEL_SHARES] = &ori_alltoallv_shares,
		[ORI_A2A_KERNEL_MAPPED] = &ori_alltoallv_mapped,
		[ORI_A2A_KERNEL_MIXED] = &ori_alltoallv_mixed,
	};

	return kernels[which];
}
#endif
