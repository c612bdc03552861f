/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/issue.h - how host code issues an operation on a window, for the files of this folder.
 *
 * ops.c and words.c fill a struct ori_window_op for each public call.  It is executed here, or on
 * the stream of a separate device.
 */
#ifndef ORI_WINDOW_ISSUE_H
#define ORI_WINDOW_ISSUE_H

#include "../kernels/window_run.h"
#include "../util/util.h"
#include "window.h"

/* The first failure of the window or its comm, with its text as the last error. */
int ori_window_failed(struct oriel_window *);

/*
 * `call` is the public name, `source` that of a transfer, else NULL.  Checks the window and all
 * arguments.
 */
int ori_window_issue(struct oriel_window *, const char *call, const struct ori_window_op *,
		     const struct oriel_source *source, void *stream);

/* The parts of ori_window_issue(), after the check of the window. */

/* Checks the arguments and launches the operation on the stream of a separate device. */
int ori_window_launch(struct oriel_window *, const char *call, const struct ori_window_op *,
		      const struct oriel_source *source, void *stream);
/*
 * Gives the status of an operation on the CPU a text as last error.  Another thread, which has the
 * text, may have ended the operation, or device code, which has none.  An older text of this thread
 * belongs to another call: `texts` is ori_last_error_count() before this one.  peer -1: several.
 */
int ori_window_ended(struct oriel_window *, const char *call, int peer, uint64_t texts, int err);

/*
 * ori_window_issue() for the calls whose latency matters.  The code of `op` is a constant, so the
 * caller gets the body of that operation, with the members of `op` in registers.  The copy for the
 * launch keeps it so: an `op` whose address is passed on would be in memory on both paths.
 */
static inline __attribute__((always_inline)) int ori_window_issue_fast(
	struct oriel_window *w, const char *call, struct ori_window_op op,
	const struct oriel_source *source, void *stream)
{
	int err = ori_window_check(w, call);
	struct oriel_group g;
	uint64_t texts;

	if (err)
		return err;
	if (w->comm->device->separate) {
		struct ori_window_op copy = op;

		return ori_window_launch(w, call, &copy, source, stream);
	}
	texts = ori_last_error_count();
	g = oriel_group_within(oriel_group_thread(), op.timeout_ms);
	err = ori_op_run(&w->host_dev, g, op.code, &op, source);
	return err ? ori_window_ended(w, call, op.peer, texts, err) : 0;
}

/* Checks with a message: a rank, and an id of `ids` signals, counters or barriers (`what`). */
int ori_window_check_peer(const struct oriel_window *, const char *call, int peer);
int ori_window_check_id(const char *call, const char *what, int id, uint32_t ids);
/* ori_window_issue() of a wait with its own deadline in seconds. */
int ori_window_issue_within(struct oriel_window *, const char *call, struct ori_window_op *,
			    double timeout, void *stream);
/* *ms: a deadline in whole milliseconds, at least one. */
int ori_window_take_timeout(const char *call, double seconds, uint32_t *ms);

#endif
