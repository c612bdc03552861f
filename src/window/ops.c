/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/ops.c - operations of host code on the memory of a peer: puts, gets, atomics, flush.
 *
 * Each call fills a struct ori_window_op; issue.c checks and executes it.  Signals, counters and
 * barriers are in words.c.
 */
#include "issue.h"

/* The source may be wrong only after the window was found right. */
static int no_source(struct oriel_window *w, const char *call)
{
	int err = ori_window_check(w, call);

	return err ? err : ori_fail(ORIEL_EINVAL, "%s: no source", call);
}

int oriel_window_put(struct oriel_window *w, int peer, uint64_t dst_off,
		     const struct oriel_source *src, uint64_t src_off, uint64_t bytes, void *stream)
{
	struct ori_window_op op = { .code = ORI_WINDOW_PUT,
				    .peer = peer,
				    .window_off = dst_off,
				    .source_off = src_off,
				    .bytes = bytes };

	if (!src)
		return no_source(w, "oriel_window_put");
	return ori_window_issue_fast(w, "oriel_window_put", op, src, stream);
}

int oriel_window_get(struct oriel_window *w, int peer, uint64_t src_off,
		     const struct oriel_source *dst, uint64_t dst_off, uint64_t bytes, void *stream)
{
	struct ori_window_op op = { .code = ORI_WINDOW_GET,
				    .peer = peer,
				    .window_off = src_off,
				    .source_off = dst_off,
				    .bytes = bytes };

	if (!dst)
		return no_source(w, "oriel_window_get");
	return ori_window_issue(w, "oriel_window_get", &op, dst, stream);
}

int oriel_window_put_signal(struct oriel_window *w, int peer, uint64_t dst_off,
			    const struct oriel_source *src, uint64_t src_off, uint64_t bytes,
			    int signal, int op, uint64_t value, void *stream)
{
	struct ori_window_op o = { .code = ORI_WINDOW_PUT_SIGNAL,
				   .peer = peer,
				   .window_off = dst_off,
				   .source_off = src_off,
				   .bytes = bytes,
				   .id = signal,
				   .op = op,
				   .value = value };

	if (!src)
		return no_source(w, "oriel_window_put_signal");
	return ori_window_issue_fast(w, "oriel_window_put_signal", o, src, stream);
}

int oriel_window_put_counter(struct oriel_window *w, int peer, uint64_t dst_off,
			     const struct oriel_source *src, uint64_t src_off, uint64_t bytes,
			     int counter, void *stream)
{
	struct ori_window_op op = { .code = ORI_WINDOW_PUT_COUNTER,
				    .peer = peer,
				    .window_off = dst_off,
				    .source_off = src_off,
				    .bytes = bytes,
				    .counter = counter };

	if (!src)
		return no_source(w, "oriel_window_put_counter");
	return ori_window_issue(w, "oriel_window_put_counter", &op, src, stream);
}

int oriel_window_put_signal_counter(struct oriel_window *w, int peer, uint64_t dst_off,
				    const struct oriel_source *src, uint64_t src_off,
				    uint64_t bytes, int signal, int op, uint64_t value, int counter,
				    void *stream)
{
	struct ori_window_op o = { .code = ORI_WINDOW_PUT_SIGNAL_COUNTER,
				   .peer = peer,
				   .window_off = dst_off,
				   .source_off = src_off,
				   .bytes = bytes,
				   .id = signal,
				   .op = op,
				   .value = value,
				   .counter = counter };

	if (!src)
		return no_source(w, "oriel_window_put_signal_counter");
	return ori_window_issue(w, "oriel_window_put_signal_counter", &o, src, stream);
}

/* ---- atomics --------------------------------------------------------------------------------- */

static int atomic(struct oriel_window *w, const char *call, const struct ori_window_op *op,
		  void *stream)
{
	int err = (uintptr_t)op->old % 8 ? ori_window_check(w, call) : 0;

	if (!err && (uintptr_t)op->old % 8)
		err = ori_fail(ORIEL_EINVAL,
			       "%s: the old value needs an address that is 8-byte aligned, not %p",
			       call, (void *)op->old);
	return err ? err : ori_window_issue(w, call, op, NULL, stream);
}

int oriel_window_fetch_add(struct oriel_window *w, int peer, uint64_t offset, uint64_t value,
			   uint64_t *old, void *stream)
{
	struct ori_window_op op = { .code = ORI_WINDOW_FETCH_ADD,
				    .peer = peer,
				    .window_off = offset,
				    .value = value,
				    .old = old };

	return atomic(w, "oriel_window_fetch_add", &op, stream);
}

int oriel_window_swap(struct oriel_window *w, int peer, uint64_t offset, uint64_t value,
		      uint64_t *old, void *stream)
{
	struct ori_window_op op = { .code = ORI_WINDOW_SWAP,
				    .peer = peer,
				    .window_off = offset,
				    .value = value,
				    .old = old };

	return atomic(w, "oriel_window_swap", &op, stream);
}

int oriel_window_compare_swap(struct oriel_window *w, int peer, uint64_t offset, uint64_t expected,
			      uint64_t value, uint64_t *old, void *stream)
{
	struct ori_window_op op = { .code = ORI_WINDOW_COMPARE_SWAP,
				    .peer = peer,
				    .window_off = offset,
				    .expected = expected,
				    .value = value,
				    .old = old };

	return atomic(w, "oriel_window_compare_swap", &op, stream);
}

/* ---- completion ------------------------------------------------------------------------------ */

int oriel_window_flush(struct oriel_window *w, int peer, void *stream)
{
	struct ori_window_op op = { .code = ORI_WINDOW_FLUSH, .peer = peer };

	return ori_window_issue(w, "oriel_window_flush", &op, NULL, stream);
}
