/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/check.h - the tests of a checked window.
 *
 * A refused call logs one line from the leader and returns the same status on all threads.  Most
 * tests use only arguments and the handle, so every thread gets the same answer.  A window may be
 * destroyed while a group runs, so the leader makes that test for all threads.
 */
#ifndef ORIEL_DEVICE_CHECK_H
#define ORIEL_DEVICE_CHECK_H

#include "trace.h"

/*
 * `what` tells how `value` and `limit` are printed.  One word names things that are numbered
 * ("rank", "signal"): number `value` does not exist, there are `limit` of them.  "end of X": a
 * range that ends at byte `value`, but X has `limit` bytes.  "mixed": `value` is an op above 32
 * bits of signal id, for rank `limit`; the signal had the other op before.  Any other text:
 * `value` follows it.
 */
ORIEL_DEV_OUT int ori_refuse(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
			     int status, const char *call, const char *what, uint64_t value,
			     uint64_t limit)
{
#if !ORIEL_ON_GPU
	if (oriel_group_is_leader(g))
		oriel_cpu_report(&win->comm, call, what, value, limit);
#else
	(void)win;
	(void)g;
	(void)call;
	(void)what;
	(void)value;
	(void)limit;
#endif
	return status;
}

/*
 * Does the window still exist?  The leader tests for all: the answer may change while the group
 * runs.
 */
ORIEL_DEV int ori_check_live(const struct oriel_window_dev *win, struct oriel_group g,
			     const char *call)
{
	int err = 0;

	/* [CHECK1] acquire, system scope; partner [WIN1] in window/handle.c. */
	if (oriel_group_is_leader(g) &&
	    ori_load_acquire_sys(win->generation_word) != win->generation)
		err = ori_refuse(win, g, ORIEL_ESTALE, call, "window was destroyed; number",
				 (uint64_t)win->number, 0);
	return ori_group_agree(g, err);
}

ORIEL_DEV int ori_check_peer(const struct oriel_window_dev *win, struct oriel_group g,
			     const char *call, int peer)
{
	if (peer < 0 || peer >= win->comm.nranks)
		return ori_refuse(win, g, ORIEL_ERANGE, call, "rank", (uint64_t)(int64_t)peer,
				  (uint64_t)win->comm.nranks);
	return ori_check_live(win, g, call);
}

ORIEL_DEV int ori_check_id(const struct oriel_window_dev *win, struct oriel_group g,
			   const char *call, const char *what, int id, uint32_t ids)
{
	if (id < 0 || (uint32_t)id >= ids)
		return ori_refuse(win, g, ORIEL_ERANGE, call, what, (uint64_t)(int64_t)id, ids);
	return 0;
}

ORIEL_DEV int ori_check_signal(const struct oriel_window_dev *win, struct oriel_group g,
			       const char *call, int id, int op)
{
	if (op != ORIEL_ADD && op != ORIEL_SET)
		return ori_refuse(win, g, ORIEL_EINVAL, call,
				  "op must be ORIEL_ADD or ORIEL_SET, not", (uint64_t)(int64_t)op,
				  0);
	return ori_check_id(win, g, call, "signal", id, win->signals);
}

/*
 * A source either adds to a signal or sets it, never both.  The leader stores the first op and
 * tests for all threads.
 */
ORIEL_DEV_OUT int ori_refuse_mixed(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				   const char *call, int peer, int id, int op)
{
	return ori_refuse(win, g, ORIEL_EINVAL, call, "mixed", (uint64_t)op << 32 | (uint32_t)id,
			  (uint64_t)peer);
}

ORIEL_DEV_OUT int ori_check_mixed(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				  const char *call, int peer, int id, int op)
{
	uint64_t i = (uint64_t)(uint32_t)peer * win->signal_stride + (uint32_t)id, first;
	int err = 0;

	if (oriel_group_is_leader(g)) {
		/*
		 * acq_rel without a partner: no other data depends on the word; no weaker swap
		 * exists
		 */
		first = ori_compare_swap_acq_rel_sys(&win->signal_ops[i], 0, (uint64_t)op);
		if (first && first != (uint64_t)op)
			err = ori_refuse_mixed(win, g, call, peer, id, op);
	}
	return ori_group_agree(g, err);
}

/* The same for every peer.  One that conflicts refuses all, and then nothing is kept. */
ORIEL_DEV_OUT int ori_check_mixed_all(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				      const char *call, int id, int op)
{
	int peer, err = 0;
	uint64_t first;

	for (peer = 0; peer < win->comm.nranks && !err && oriel_group_is_leader(g); peer++) {
		first = ori_load_relaxed_sys(
			&win->signal_ops[(uint64_t)(uint32_t)peer * win->signal_stride +
					 (uint32_t)id]);
		if (peer != win->comm.rank && first && first != (uint64_t)op)
			err = ori_refuse_mixed(win, g, call, peer, id, op);
	}
	err = ori_group_agree(g, err);
	for (peer = 0; peer < win->comm.nranks && !err; peer++)
		if (peer != win->comm.rank)
			err = ori_check_mixed(win, g, call, peer, id, op);
	return err;
}

ORIEL_DEV int ori_check_compare(const struct oriel_window_dev *win, struct oriel_group g,
				const char *call, int cmp)
{
	if (cmp < ORIEL_EQ || cmp > ORIEL_LE)
		return ori_refuse(win, g, ORIEL_EINVAL, call,
				  "the comparison must be one of ORIEL_EQ to ORIEL_LE, not",
				  (uint64_t)(int64_t)cmp, 0);
	return 0;
}

/* [off, off + bytes) lies in `limit` bytes, without overflow. */
ORIEL_DEV int ori_check_range(const struct oriel_window_dev *win, struct oriel_group g,
			      const char *call, const char *what, uint64_t off, uint64_t bytes,
			      uint64_t limit)
{
	if (off > limit || bytes > limit - off)
		return ori_refuse(win, g, ORIEL_ERANGE, call, what, off + bytes, limit);
	return 0;
}

/* A copy within this rank's memory: the same place is allowed, an overlapping one is not. */
ORIEL_DEV int ori_check_overlap(const struct oriel_window_dev *win, struct oriel_group g,
				const char *call, uint64_t a, uint64_t b, uint64_t bytes)
{
	uint64_t apart = a > b ? a - b : b - a;

	if (apart != 0 && apart < bytes)
		return ori_refuse(win, g, ORIEL_EINVAL, call,
				  "source and destination overlap; distance in bytes:", apart, 0);
	return 0;
}

/* ---- all tests of one call, not inlined: unchecked windows pay nothing ----------------------- */

ORIEL_DEV_OUT int ori_check_transfer(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				     const char *call, ORI_VALUE(ori_transfer) t)
{
	int err;

	if (!t.local)
		return ori_refuse(win, g, ORIEL_EINVAL, call, "no source", 0, 0);
	err = ori_check_range(win, g, call, "end of the window", t.offset, t.bytes, win->bytes);
	if (!err)
		err = ori_check_range(win, g, call, "end of the source", t.local_off, t.bytes,
				      t.local->bytes);
	if (!err)
		err = ori_check_peer(win, g, call, t.peer);
	if (!err && t.peer == win->comm.rank && t.bytes)
		err = ori_check_overlap(win, g, call, (uintptr_t)win->buffer + t.offset,
					(uintptr_t)ori_transfer_local(t), t.bytes);
	return err;
}

/* A put, with its signal and counter if it has them.  Inlined: only ori_watch_put() calls it. */
ORIEL_DEV int ori_check_put(const struct oriel_window_dev *win, struct oriel_group g,
			    const char *call, struct ori_transfer t, int with_signal,
			    int with_counter)
{
	int err = with_signal ? ori_check_signal(win, g, call, t.signal, t.op) : 0;

	if (!err && with_counter)
		err = ori_check_id(win, g, call, "counter", t.counter, win->counters);
	if (!err)
		err = ori_check_transfer(win, g, call, t);
	if (!err && with_signal)
		err = ori_check_mixed(win, g, call, t.peer, t.signal, t.op);
	return err;
}

#define ORI_VALUE_BYTES 28u

ORIEL_DEV int ori_check_value(const struct oriel_window_dev *win, struct oriel_group g,
			      const char *call, int peer, uint64_t off, uint64_t bytes)
{
	int err;

	if (bytes < 1 || bytes > ORI_VALUE_BYTES)
		return ori_refuse(win, g, ORIEL_EINVAL, call, "a value has 1 to 28 bytes, not",
				  bytes, 0);
	err = ori_check_range(win, g, call, "end of the window", off, bytes, win->bytes);
	return err ? err : ori_check_peer(win, g, call, peer);
}

/* A call on a signal of one source. */
ORIEL_DEV_OUT int ori_check_wait(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				 const char *call, int peer, int id, int cmp)
{
	int err = ori_check_id(win, g, call, "signal", id, win->signals);

	if (!err)
		err = ori_check_compare(win, g, call, cmp);
	return err ? err : ori_check_peer(win, g, call, peer);
}

/* A call on a signal of all sources. */
ORIEL_DEV_OUT int ori_check_signals(const struct oriel_window_dev *win, ORI_VALUE(oriel_group) g,
				    const char *call, int id)
{
	int err = ori_check_id(win, g, call, "signal", id, win->signals);

	return err ? err : ori_check_live(win, g, call);
}

#endif
