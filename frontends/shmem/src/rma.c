/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.c - puts and gets with queued PEs, and those with strides.
 *
 * A NIC reads and writes registered memory only.  Symmetric memory is registered, as a part of the
 * window: gets and non-blocking puts use it directly.  All other transfers go through Oriel's calls
 * for any memory, which copy.  So do blocking puts: they return after the copy, while a direct put
 * would wait until the NIC has read its source.  Measured with the software NIC and 64 KiB, while
 * other programs ran: 20 us and 146 us.
 */
#include "osh.h"

#define DIRECT_BYTES 64 /* up to here a copy costs nothing, and a few bytes travel in the queue */

void osh_put_queued(const char *call, const struct osh_ctx *ctx, int pe, uint64_t offset,
		    const void *source, uint64_t bytes, int nbi)
{
	uint64_t from = nbi && bytes > DIRECT_BYTES ? osh_offset(source, bytes) : OSH_NOWHERE;

	if (from == OSH_NOWHERE)
		osh_check(call, oriel_window_put_bytes(osh.window, pe, offset, source, bytes,
						       ctx->group.block));
	else
		osh_check(call,
			  oriel_put(&osh.dev, ctx->group, pe, offset, &osh.source, from, bytes));
}

void osh_get_queued(const char *call, const struct osh_ctx *ctx, int pe, uint64_t offset,
		    void *dest, uint64_t bytes, int nbi)
{
	uint64_t to = bytes > DIRECT_BYTES ? osh_offset(dest, bytes) : OSH_NOWHERE;

	if (to == OSH_NOWHERE)
		osh_check(call, oriel_window_get_bytes(osh.window, pe, offset, dest, bytes,
						       ctx->group.block));
	else if (nbi)
		osh_check(call,
			  oriel_get_nbi(&osh.dev, ctx->group, pe, offset, &osh.source, to, bytes));
	else
		osh_check(call,
			  oriel_get(&osh.dev, ctx->group, pe, offset, &osh.source, to, bytes));
}

/* ---- strides --------------------------------------------------------------------------------- */

/* Bytes from the first to the last element, both included.  Ends the job for bad arguments. */
static uint64_t extent(const char *call, const char *what, ptrdiff_t stride, uint64_t nelems,
		       uint64_t elem_bytes)
{
	uint64_t bytes;

	if (stride < 1)
		osh_fail(call, "the stride of %s is %td: it must be at least 1", what, stride);
	if (__builtin_mul_overflow((uint64_t)stride, nelems - 1, &bytes) ||
	    __builtin_add_overflow(bytes, 1, &bytes) ||
	    __builtin_mul_overflow(bytes, elem_bytes, &bytes))
		osh_fail(call, "%llu elements with a stride of %td do not fit the address space",
			 (unsigned long long)nelems, stride);
	return bytes;
}

void osh_iput(const char *call, const struct osh_ctx *ctx, void *dest, const void *source,
	      ptrdiff_t dst, ptrdiff_t sst, uint64_t nelems, uint64_t elem_bytes, int pe)
{
	int to = osh_ctx_pe(call, ctx, pe);
	uint64_t offset, bytes;

	if (!nelems)
		return;
	bytes = extent(call, "dest", dst, nelems, elem_bytes);
	offset = osh_offset_of(call, "dest", dest, bytes);
	(void)extent(call, "source", sst, nelems, elem_bytes);
	osh_check(call, oriel_window_put_strided(osh.window, to, offset, dst * (int64_t)elem_bytes,
						 source, sst * (int64_t)elem_bytes, elem_bytes,
						 nelems, ctx->group.block));
	if (osh.peers[to])
		osh_wake(to, offset, bytes);
}

void osh_iget(const char *call, const struct osh_ctx *ctx, void *dest, const void *source,
	      ptrdiff_t dst, ptrdiff_t sst, uint64_t nelems, uint64_t elem_bytes, int pe)
{
	int from = osh_ctx_pe(call, ctx, pe);
	uint64_t offset;

	if (!nelems)
		return;
	offset = osh_offset_of(call, "source", source,
			       extent(call, "source", sst, nelems, elem_bytes));
	(void)extent(call, "dest", dst, nelems, elem_bytes);
	osh_check(call,
		  oriel_window_get_strided(osh.window, from, offset, sst * (int64_t)elem_bytes,
					   dest, dst * (int64_t)elem_bytes, elem_bytes, nelems,
					   ctx->group.block));
}
