/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/move.c - how data moves on the CPU: to this rank's own place and to mapped peers.
 *
 * The put to queued peers is kernels/gather.h, since kernels post it too; the copy-engine's
 * versions of these two are in stream.c.  All take the view and nothing else of where memory is.
 * Called by run.c on the caller's thread.
 */
#include <string.h>

#include "gather.h"

void ori_gather_to_self(const struct oriel_gather_view *view, const struct ori_gather_piece *p)
{
	uint8_t *to = view->buffer + p->block_off + p->at;

	if (p->bytes && to != p->from + p->at)
		memcpy(to, p->from + p->at, p->bytes);
}

void ori_gather_to_mapped(const struct oriel_gather_view *view, int rank,
			  const struct ori_gather_piece *p)
{
	if (p->bytes)
		memcpy(view->mapped[rank] + p->block_off + p->at, p->from + p->at, p->bytes);
}
