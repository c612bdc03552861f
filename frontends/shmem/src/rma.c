/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.c - puts and gets with queued PEs.
 *
 * A NIC reads and writes registered memory only.  Symmetric memory is registered, as a part of the
 * window.  All other local memory goes through a buffer of this file, piece by piece.
 */
#include <pthread.h>

#include "osh.h"

/* Waits until the block's operations to the PE are complete at this end. */
static void complete(const char *call, const struct osh_ctx *ctx, int pe)
{
	struct oriel_ticket ticket;

	osh_check(call, oriel_take_ticket(&osh.dev, ctx->group, pe, &ticket));
	osh_check(call, oriel_wait_local(&osh.dev, ctx->group, &ticket, 0));
}

/* ---- local memory that is not symmetric ------------------------------------------------------ */

static pthread_mutex_t bounce_lock = PTHREAD_MUTEX_INITIALIZER;

static void put_bounced(const char *call, const struct osh_ctx *ctx, int pe, uint64_t offset,
			const uint8_t *source, uint64_t bytes)
{
	uint64_t piece;

	pthread_mutex_lock(&bounce_lock);
	for (; bytes; bytes -= piece, source += piece, offset += piece) {
		piece = bytes < OSH_BOUNCE_BYTES ? bytes : OSH_BOUNCE_BYTES;
		memcpy((uint8_t *)osh.memory + osh.bounce, source, piece);
		osh_check(call, oriel_put(&osh.dev, ctx->group, pe, offset, &osh.source, osh.bounce,
					  piece));
		complete(call, ctx, pe);
	}
	pthread_mutex_unlock(&bounce_lock);
}

static void get_bounced(const char *call, const struct osh_ctx *ctx, int pe, uint64_t offset,
			uint8_t *dest, uint64_t bytes)
{
	uint64_t piece;

	pthread_mutex_lock(&bounce_lock);
	for (; bytes; bytes -= piece, dest += piece, offset += piece) {
		piece = bytes < OSH_BOUNCE_BYTES ? bytes : OSH_BOUNCE_BYTES;
		osh_check(call, oriel_get(&osh.dev, ctx->group, pe, offset, &osh.source, osh.bounce,
					  piece));
		memcpy(dest, (uint8_t *)osh.memory + osh.bounce, piece);
	}
	pthread_mutex_unlock(&bounce_lock);
}

/* ---- any local memory ------------------------------------------------------------------------ */

void osh_put_queued(const char *call, const struct osh_ctx *ctx, int pe, uint64_t offset,
		    const void *source, uint64_t bytes, int nbi)
{
	uint64_t from;

	if (bytes <= 28) {
		osh_check(call, oriel_put_value(&osh.dev, ctx->group, pe, offset, source, bytes));
		return;
	}
	from = osh_offset(source, bytes);
	if (from == OSH_NOWHERE) {
		put_bounced(call, ctx, pe, offset, source, bytes);
		return;
	}
	osh_check(call, oriel_put(&osh.dev, ctx->group, pe, offset, &osh.source, from, bytes));
	if (!nbi)
		complete(call, ctx, pe);
}

void osh_get_queued(const char *call, const struct osh_ctx *ctx, int pe, uint64_t offset,
		    void *dest, uint64_t bytes, int nbi)
{
	uint64_t to;

	if (bytes <= 28) {
		osh_check(call, oriel_get_value(&osh.dev, ctx->group, pe, offset, dest, bytes));
		return;
	}
	to = osh_offset(dest, bytes);
	if (to == OSH_NOWHERE)
		get_bounced(call, ctx, pe, offset, dest, bytes);
	else if (nbi)
		osh_check(call,
			  oriel_get_nbi(&osh.dev, ctx->group, pe, offset, &osh.source, to, bytes));
	else
		osh_check(call,
			  oriel_get(&osh.dev, ctx->group, pe, offset, &osh.source, to, bytes));
}
