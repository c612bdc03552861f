/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/allgather/move.c - moves data on the CPU: to this rank's own place and to mapped peers.
 *
 * The put to queued peers is in kernels/gather.h, since kernels post it too.  stream.c has the
 * versions of these two functions for the copy engine.  All of them know memory only through the
 * view.  Called by run.c on the caller's thread.
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
