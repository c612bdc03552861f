/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels/window_run.h - the bodies of host-issued window operations, for CPU and GPU.
 *
 * An operation is complete and delivered when it ends, so puts and signals end with a flush.
 *
 * Device code.  Called by: kernels/window_ops.c.  window/ops.c and window/words.c inline the
 * operations whose latency matters.
 */
#ifndef ORI_KERNELS_WINDOW_RUN_H
#define ORI_KERNELS_WINDOW_RUN_H

#include <oriel/device.h>

#include "window_flush.h"
#include "window_ops.h"

ORIEL_DEV int ori_op_put(const struct oriel_window_dev *win, struct oriel_group g, int code,
			 const struct ori_window_op *o, const struct oriel_source *source)
{
	int err;

	if (code == ORI_WINDOW_PUT)
		err = oriel_put(win, g, o->peer, o->window_off, source, o->source_off, o->bytes);
	else
		err = oriel_put_signal(win, g, o->peer, o->window_off, source, o->source_off,
				       o->bytes, o->id, o->op, o->value);
	return err ? err : oriel_flush(win, g, o->peer);
}

/* The counter has grown when the call ends: a read that follows must find it. */
ORIEL_DEV_OUT int ori_op_put_counter(const struct oriel_window_dev *win, struct oriel_group g,
				     const struct ori_window_op *o,
				     const struct oriel_source *source)
{
	int err;

	if (o->code == ORI_WINDOW_PUT_COUNTER)
		err = oriel_put_counter(win, g, o->peer, o->window_off, source, o->source_off,
					o->bytes, o->counter);
	else
		err = oriel_put_signal_counter(win, g, o->peer, o->window_off, source,
					       o->source_off, o->bytes, o->id, o->op, o->value,
					       o->counter);
	if (!err)
		err = oriel_flush(win, g, o->peer);
	return err ? err : ori_flush_counts(win, g, o->peer);
}

/* A word of a mapped peer is delivered by its store; a queue only takes the signal. */
ORIEL_DEV int ori_op_signal(const struct oriel_window_dev *win, struct oriel_group g,
			    const struct ori_window_op *o)
{
	int err = oriel_signal(win, g, o->peer, o->id, o->op, o->value);

	return err || !ori_words_are_host(win, o->peer) ? err : oriel_flush(win, g, o->peer);
}

ORIEL_DEV int ori_op_signal_all(const struct oriel_window_dev *win, struct oriel_group g,
				const struct ori_window_op *o)
{
	int err = oriel_signal_all(win, g, o->id, o->op, o->value);

	return err || !win->queued_peers ? err : oriel_flush_all(win, g);
}

ORIEL_DEV int ori_op_reset_signals(const struct oriel_window_dev *win, struct oriel_group g)
{
	int err = 0;

	for (uint32_t id = 0; !err && id < win->signals; id++)
		err = oriel_reset_signal(win, g, (int)id);
	return err;
}

ORIEL_DEV int ori_op_reset_counter(const struct oriel_window_dev *win, struct oriel_group g,
				   const struct ori_window_op *o)
{
	int first = o->peer < 0 ? 0 : o->peer, err = 0;
	int last = o->peer < 0 ? win->comm.nranks - 1 : o->peer;

	for (; first <= last && !err; first++)
		err = oriel_reset_counter(win, g, first, o->counter);
	return err;
}

/* The other operations on signals and counters. */
ORIEL_DEV_OUT int ori_op_word(const struct oriel_window_dev *win, struct oriel_group g,
			      const struct ori_window_op *o)
{
	switch (o->code) {
	case ORI_WINDOW_SIGNAL_ALL:
		return ori_op_signal_all(win, g, o);
	case ORI_WINDOW_RESET_SIGNAL:
		return oriel_reset_signal(win, g, o->id);
	case ORI_WINDOW_RESET_SIGNALS:
		return ori_op_reset_signals(win, g);
	case ORI_WINDOW_SIGNAL_ADVANCE:
		if (o->peer < 0)
			return oriel_signal_advance(win, g, o->id, o->value);
		return oriel_signal_advance_from(win, g, o->peer, o->id, o->value);
	case ORI_WINDOW_WAIT_COUNTER:
		if (o->peer < 0)
			return oriel_wait_counter_all(win, g, o->counter, o->value);
		return oriel_wait_counter(win, g, o->peer, o->counter, o->op, o->value);
	case ORI_WINDOW_RESET_COUNTER:
		return ori_op_reset_counter(win, g, o);
	case ORI_WINDOW_WAIT_WORD:
		return oriel_wait_word(win, g, o->window_off, o->id, o->op, o->value);
	default:
		return ORIEL_EINVAL;
	}
}

/* An atomic waits for its answer, so it needs no flush. */
ORIEL_DEV_OUT int ori_op_atomic(const struct oriel_window_dev *win, struct oriel_group g,
				const struct ori_window_op *o)
{
	if (o->code == ORI_WINDOW_FETCH_ADD)
		return oriel_fetch_add(win, g, o->peer, o->window_off, o->value, o->old);
	if (o->code == ORI_WINDOW_SWAP)
		return oriel_swap(win, g, o->peer, o->window_off, o->value, o->old);
	if (o->code == ORI_WINDOW_ATOMIC)
		return oriel_atomic(win, g, o->peer, o->window_off, o->id, o->op, o->expected,
				    o->value, o->old);
	return oriel_compare_swap(win, g, o->peer, o->window_off, o->expected, o->value, o->old);
}

/*
 * `code` is o->code.  A host call that inlines this gives a constant, and the compiler then removes
 * all but one case.  `source` is of a transfer; the caller keeps it where it is.
 */
ORIEL_DEV int ori_op_run(const struct oriel_window_dev *win, struct oriel_group g, int code,
			 const struct ori_window_op *o, const struct oriel_source *source)
{
	switch (code) {
	case ORI_WINDOW_NOTHING:
		return 0;
	case ORI_WINDOW_PUT:
	case ORI_WINDOW_PUT_SIGNAL:
		return ori_op_put(win, g, code, o, source);
	case ORI_WINDOW_PUT_COUNTER:
	case ORI_WINDOW_PUT_SIGNAL_COUNTER:
		return ori_op_put_counter(win, g, o, source);
	case ORI_WINDOW_GET:
		return oriel_get(win, g, o->peer, o->window_off, source, o->source_off, o->bytes);
	case ORI_WINDOW_FETCH_ADD:
	case ORI_WINDOW_SWAP:
	case ORI_WINDOW_COMPARE_SWAP:
	case ORI_WINDOW_ATOMIC:
		return ori_op_atomic(win, g, o);
	case ORI_WINDOW_SIGNAL:
		return ori_op_signal(win, g, o);
	case ORI_WINDOW_WAIT_SIGNAL:
		if (o->peer < 0)
			return oriel_wait_signal(win, g, o->id, o->value);
		return oriel_wait_signal_from(win, g, o->peer, o->id, o->op, o->value);
	case ORI_WINDOW_BARRIER:
		return oriel_barrier(win, g, o->id);
	case ORI_WINDOW_FLUSH:
		return ori_flush_blocks(win, g, o->peer);
	default:
		return ori_op_word(win, g, o);
	}
}

#endif
