/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/grid.h - body of device.h: oriel_grid_sync, the barrier of a launch's blocks.
 *
 * There are two words per id, in this rank's device memory.  No peer and no engine touches them.  A
 * block reads the start of the round and adds itself to the arrived blocks.  The last block of the
 * round moves the start, and the others wait for that.  The counts never restart.  So the next
 * launch, with any number of blocks, needs no reset, nor does a graph that runs again.
 */
#ifndef ORIEL_DEVICE_GRID_H
#define ORIEL_DEVICE_GRID_H

#include "window.h"

/* An abandoned round leaves the two counts apart, so the window is unusable from here on. */
ORIEL_DEV_OUT int ori_grid_give_up(const struct oriel_window_dev *win, int err)
{
	/* acq_rel without a partner: waits only compare the failure word with 0 */
	if (err == ORIEL_ETIMEDOUT)
		(void)ori_compare_swap_acq_rel_sys(win->failure, 0,
						   ORIEL_FAILURE(err, win->comm.rank));
	return err;
}

ORIEL_DEV_OUT int ori_grid_wait(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				int id, uint64_t start)
{
	const struct oriel_grid *grid = &win->grids[id];
	struct ori_spin s;
	int err = 0;

	ori_spin_begin(&s, &win->comm, win->failure, ORIEL_OP_GRID, win->comm.rank, id, win->number,
		       g.nblocks);
	ori_spin_within(&s, g);
	/*
	 * [GRID3] acquire, device scope; partner [GRID2].  The value given to ori_spin() is only
	 * for the report, so its load is relaxed.
	 */
	while (!err && ori_load_acquire_dev(&grid->start) == start)
		err = ori_spin(&s, ori_load_relaxed_sys(&grid->arrived) - start);
	ori_spin_end(&s);
	return err ? ori_grid_give_up(win, err) : 0;
}

/* Called by the leader of each block. */
ORIEL_DEV_OUT int ori_grid_meet(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				int id)
{
	struct oriel_grid *grid = &win->grids[id];
	int err = ori_failed(&win->comm, win->failure);
	uint64_t start;

	if (err)
		return err;
	/*
	 * relaxed: this block has already seen the end of the last round, at [GRID3], at [GRID1] or
	 * at the start of its kernel.  The round cannot end before this block arrives, so the word
	 * does not change.
	 */
	start = ori_load_relaxed_sys(&grid->start);
	/*
	 * [GRID1] acquire and release, device scope; partner: the other blocks' [GRID1].  Passes
	 * this block's writes to the last block, which passes them to all at [GRID2].  Without it
	 * block 0 stores, all meet, and block 1 reads the old value.
	 */
	if (ori_fetch_add_acq_rel_dev(&grid->arrived, 1) + 1 != start + g.nblocks)
		return ori_grid_wait(win, g, id, start);
	/*
	 * [GRID2] release, device scope; partner [GRID3].  Publishes the writes of all blocks to
	 * all blocks.  System scope is not needed: only threads of this device read the word.
	 */
	ori_store_release_dev(&grid->start, start + g.nblocks);
	ori_wake(win->comm.waiters);
	return 0;
}

ORIEL_DEV int oriel_grid_sync(const struct oriel_window_dev *win, struct oriel_group g, int id)
{
	int err = 0;

	if (ori_window_is_checked(win)) {
		err = ori_check_id(win, g, "grid_sync", "barrier", id, win->barriers);
		if (!err && g.scope != ORIEL_GROUP_BLOCK)
			err = ori_refuse(win, g, ORIEL_EINVAL, "grid_sync",
					 "the group must be a whole block, not scope", g.scope, 0);
		if (!err)
			err = ori_check_live(win, g, "grid_sync");
	}
	if (!err)
		err = oriel_group_sync(g);
	if (err)
		return err;
	if (oriel_group_is_leader(g))
		err = ori_grid_meet(win, g, id);
	return ori_group_agree(g, err);
}

#endif
