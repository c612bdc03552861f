/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window/access.c - what a program gets from a window: its status, buffer and handles, and sources
 * for its transfers.
 *
 * Any thread may call.  Nothing here involves another rank.
 */
#include <string.h>

#include "../comm/control.h"
#include "../comm/failure.h"
#include "../comm/memory.h"
#include "../comm/sources.h"
#include "issue.h"

int oriel_window_status(struct oriel_window *w)
{
	int err = ori_window_check(w, "oriel_window_status");

	if (!err)
		(void)ori_comm_ask(w->comm);
	return err ? err : ori_window_failed(w);
}

void *oriel_window_buffer(struct oriel_window *w)
{
	return ori_window_check(w, "oriel_window_buffer") ? NULL : w->buffer;
}

void *oriel_window_mapped(struct oriel_window *w, int rank)
{
	if (ori_window_check(w, "oriel_window_mapped") ||
	    ori_comm_check_rank(w->comm, rank, "oriel_window_mapped"))
		return NULL;
	return w->peers[rank].buffer;
}

int oriel_window_device(struct oriel_window *w, struct oriel_window_dev *dev)
{
	int err = ori_window_check(w, "oriel_window_device");

	if (err)
		return err;
	if (!dev)
		return ori_fail(ORIEL_EINVAL, "oriel_window_device: no place for the handle");
	*dev = w->dev;
	return 0;
}

int oriel_window_device_address(struct oriel_window *w, const struct oriel_window_dev **dev)
{
	int err = ori_window_check(w, "oriel_window_device_address");

	if (err)
		return err;
	if (!dev)
		return ori_fail(ORIEL_EINVAL,
				"oriel_window_device_address: no place for the address");
	return ori_window_handle_publish(w, dev);
}

/* Is this part of the window's own buffer, which exists as long as the window? */
static int is_own(const struct oriel_window *w, const void *ptr, size_t bytes)
{
	uintptr_t begin = (uintptr_t)ptr, base = (uintptr_t)w->buffer;

	return base && begin >= base && begin - base <= w->options.bytes &&
	       bytes <= w->options.bytes - (begin - base);
}

int oriel_window_source(struct oriel_window *w, void *ptr, size_t bytes,
			struct oriel_source *source)
{
	struct oriel_source made;
	int err = ori_window_check(w, "oriel_window_source");

	if (err)
		return err;
	if (!source || (!ptr && bytes))
		return ori_fail(ORIEL_EINVAL, "oriel_window_source: %s",
				source ? "null pointer" : "no place for the source");
	err = bytes ? ori_memory_check(w->comm, "oriel_window_source", ptr, bytes) : 0;
	if (err)
		return err;
	err = ori_source_take(w->comm, &w->sources, ptr, bytes, is_own(w, ptr, bytes), &made);
	if (!err)
		*source = made;
	return err;
}

int oriel_window_source_release(struct oriel_window *w, struct oriel_source *source)
{
	int err = ori_window_check(w, "oriel_window_source_release");

	if (err || !source)
		return err;
	err = ori_source_give(w->comm, &w->sources, source);
	if (!err)
		memset(source, 0, sizeof(*source));
	return err;
}
