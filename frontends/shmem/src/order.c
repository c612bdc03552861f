/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.c - fence, quiet, and the barriers of all PEs.
 *
 * Operations on mapped PEs are loads and stores: a fence of the processor orders them.  Operations
 * on queued PEs are on the context's lane: Oriel's fence and flush concern that lane alone.
 */
#include "agent.h"
#include "osh.h"

void osh_quiet(const char *call, const struct osh_ctx *ctx)
{
	/* No partner of ours: it orders the program's loads and stores. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!osh.nqueued)
		return;
	osh_check(call, oriel_flush_all(&osh.dev, ctx->group));
	osh_agent_drain(call);
}

void osh_fence(const char *call, const struct osh_ctx *ctx)
{
	int pe;

	/* No partner of ours, as above. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!osh.nqueued)
		return;
	/*
	 * Atomics on queued PEs are requests on the lane of the default context.  They come after
	 * its earlier puts, but puts do not come after them, and other contexts have other lanes.
	 */
	osh_agent_drain(call);
	if (ctx->group.block) {
		osh_check(call, oriel_flush_all(&osh.dev, ctx->group));
		return;
	}
	for (pe = 0; pe < (int)osh.npes; pe++)
		if (!osh.peers[pe])
			osh_check(call, oriel_fence(&osh.dev, ctx->group, pe));
}

void osh_barrier(const char *call, int id)
{
	osh_agent_drain(call);
	osh_check(call, oriel_barrier(&osh.dev, osh.context.group, id));
}

/* ---- public ---------------------------------------------------------------------------------- */

void shmem_quiet(void)
{
	osh_check_ready("shmem_quiet");
	osh_quiet("shmem_quiet", &osh.context);
}

void shmem_ctx_quiet(shmem_ctx_t ctx)
{
	osh_check_ready("shmem_ctx_quiet");
	if (ctx != SHMEM_CTX_INVALID)
		osh_quiet("shmem_ctx_quiet", osh_ctx_of("shmem_ctx_quiet", ctx));
}

void shmem_fence(void)
{
	osh_check_ready("shmem_fence");
	osh_fence("shmem_fence", &osh.context);
}

void shmem_ctx_fence(shmem_ctx_t ctx)
{
	osh_check_ready("shmem_ctx_fence");
	if (ctx != SHMEM_CTX_INVALID)
		osh_fence("shmem_ctx_fence", osh_ctx_of("shmem_ctx_fence", ctx));
}

void shmem_barrier_all(void)
{
	osh_check_ready("shmem_barrier_all");
	osh_barrier("shmem_barrier_all", OSH_BARRIER_ALL);
}

void shmem_sync_all(void)
{
	osh_check_ready("shmem_sync_all");
	osh_check("shmem_sync_all",
		  oriel_barrier_arrive_wait(&osh.dev, osh.context.group, OSH_BARRIER_SYNC));
}
