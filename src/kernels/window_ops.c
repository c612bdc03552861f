/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/window_ops.c - host-issued window operations as one kernel: see window_ops.h.
 *
 * Compiled twice: as C, which gives the kernel its name (and a body for the CPU), and by nvcc into
 * the library's image (image.c).  Puts are complete when the kernel ends, as host-issued puts on
 * the CPU are on return.
 */
#include <oriel/device.h>

#include "window_ops.h"

ORIEL_DEV int ori_op_put(const struct ori_window_op *a, struct oriel_group g)
{
	int err;

	if (a->code == ORI_WINDOW_PUT)
		err = oriel_put(&a->win, g, a->peer, a->window_off, &a->source, a->source_off,
				a->bytes);
	else
		err = oriel_put_signal(&a->win, g, a->peer, a->window_off, &a->source,
				       a->source_off, a->bytes, a->id, a->op, a->value);
	return err ? err : oriel_flush(&a->win, g, a->peer);
}

ORIEL_DEV int ori_op_reset(const struct ori_window_op *a, struct oriel_group g)
{
	int err = 0;

	for (uint32_t id = 0; !err && id < a->win.signals; id++)
		err = oriel_reset_signal(&a->win, g, (int)id);
	return err;
}

ORIEL_DEV int ori_op_run(const struct ori_window_op *a, struct oriel_group g)
{
	switch (a->code) {
	case ORI_WINDOW_NOTHING:
		return 0;
	case ORI_WINDOW_PUT:
	case ORI_WINDOW_PUT_SIGNAL:
		return ori_op_put(a, g);
	case ORI_WINDOW_GET:
		return oriel_get(&a->win, g, a->peer, a->window_off, &a->source, a->source_off,
				 a->bytes);
	case ORI_WINDOW_SIGNAL:
		return oriel_signal(&a->win, g, a->peer, a->id, a->op, a->value);
	case ORI_WINDOW_WAIT_SIGNAL:
		if (a->peer < 0)
			return oriel_wait_signal(&a->win, g, a->id, a->value);
		return oriel_wait_signal_from(&a->win, g, a->peer, a->id, a->op, a->value);
	case ORI_WINDOW_BARRIER:
		return oriel_barrier(&a->win, g, a->id);
	case ORI_WINDOW_RESET_SIGNALS:
		return ori_op_reset(a, g);
	default:
		return ORIEL_EINVAL;
	}
}

ORIEL_KERNEL(ori_window_ops, struct ori_window_op)
{
	struct oriel_group g = oriel_group_within(oriel_group_block(), a->timeout_ms);
	int err = ori_op_run(a, g);

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
		return 512;
	case ORI_WINDOW_BARRIER:
	case ORI_WINDOW_WAIT_SIGNAL:
		return 32; /* the lanes of a warp divide the sources among them */
	default:
		return 1;
	}
}
#endif
