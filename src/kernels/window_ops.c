/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/window_ops.c - host-issued window operations: see window_ops.h.
 *
 * Compiled twice: as C, which gives the kernel its name and the host its own way to execute an
 * operation, and by nvcc into the library's image (image.c).
 */
#include "window_ops.h"
#include "window_run.h"

ORIEL_KERNEL(ori_window_ops, struct ori_window_op_args)
{
	struct oriel_group g = oriel_group_within(oriel_group_block(), a->op.timeout_ms);
	int err = ori_op_run(&a->win, g, a->op.code, &a->op, &a->source);

	/*
	 * Keeps the first failure of the window.  acq_rel without a partner: no other data depends
	 * on a failure word.
	 */
	if (err && oriel_group_is_leader(g))
		(void)ori_compare_swap_acq_rel_sys(a->win.failure, 0,
						   ORIEL_FAILURE(err, a->win.comm.rank));
	return err;
}

#ifndef ORIEL_KERNEL_IMAGE
const struct oriel_kernel *ori_window_op_kernel(void)
{
	return &ori_window_ops;
}

int ori_window_op_threads(int code)
{
	switch (code) {
	case ORI_WINDOW_PUT:
	case ORI_WINDOW_GET:
	case ORI_WINDOW_PUT_SIGNAL:
	case ORI_WINDOW_PUT_COUNTER:
	case ORI_WINDOW_PUT_SIGNAL_COUNTER:
		return 512;
	case ORI_WINDOW_BARRIER:
	case ORI_WINDOW_WAIT_SIGNAL:
	case ORI_WINDOW_SIGNAL_ALL:
	case ORI_WINDOW_RESET_SIGNAL:
		return 32; /* the lanes of a warp divide the sources among them */
	default:
		return 1;
	}
}

int ori_window_op_here(const struct oriel_window_dev *win, const struct ori_window_op *op,
		       const struct oriel_source *source)
{
	struct oriel_group g = oriel_group_within(oriel_group_thread(), op->timeout_ms);

	return ori_op_run(win, g, op->code, op, source);
}
#endif
