/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * amo.h - atomics on words of 4 and 8 bytes of symmetric memory.
 *
 * All atomics on a word are atomic among each other.  So they are all made by processors of the
 * host where the word is: by its own PE, by PEs that have mapped it, and, for PEs that reach it
 * through queues, by the agent of its PE (agent.c).  A NIC's own atomics would not be atomic with
 * those.
 */
#ifndef OSH_AMO_H
#define OSH_AMO_H

#include "agent.h"
#include "osh.h"

void osh_fail_alignment(const char *call, const void *address, uint64_t bytes)
	__attribute__((noreturn, cold));

/* On memory of this host.  Returns the previous bits; a SET returns none.  `op` is a constant. */
static inline uint64_t osh_native(void *word, uint64_t bytes, int op, uint64_t expected,
				  uint64_t value)
{
	/*
	 * [SHMEM1] release and acquire, sys: PEs are processes; partners: [SHMEM1] of other PEs on
	 * the word, and [WORD1] of waits for it.  Publishes what the PE put before, or what it
	 * asked for before.  The standard promises less, but programs build locks of atomics.
	 */
	if (op == ORIEL_ATOMIC_SET && bytes == 4)
		ori_store_release32_sys(word, (uint32_t)value);
	else if (op == ORIEL_ATOMIC_SET)
		ori_store_release_sys(word, value);
	else if (bytes == 4) /* as [SHMEM1] */
		return ori_atomic32_acq_rel_sys(word, op, expected, value);
	else
		return ori_atomic64_acq_rel_sys(word, op, expected, value);
	return 0;
}

/*
 * One atomic on a word of `pe`, a PE of the world.  Returns the previous bits.  fetch 0: nobody
 * needs them, and the atomic is complete after the next quiet.
 */
static inline uint64_t osh_amo_at(const char *call, int pe, uint64_t offset, uint64_t bytes, int op,
				  uint64_t expected, uint64_t value, int fetch)
{
	uint64_t old;

	if (OSH_UNLIKELY(!osh.peers[pe]))
		return osh_agent_ask(call, pe, offset, bytes, op, expected, value, fetch);
	old = osh_native(osh.peers[pe] + offset, bytes, op, expected, value);
	if (op != ORIEL_ATOMIC_FETCH)
		osh_wake(pe, offset, bytes);
	return old;
}

/* The same with the arguments of a call: `pe` is one of the context. */
static inline uint64_t osh_amo(const char *call, const struct osh_ctx *ctx, const void *dest,
			       uint64_t bytes, int op, uint64_t expected, uint64_t value, int pe,
			       int fetch)
{
	int at = osh_ctx_pe(call, ctx, pe);
	uint64_t offset = osh_offset_of(call, op == ORIEL_ATOMIC_FETCH ? "source" : "dest", dest,
					bytes);

	if (OSH_UNLIKELY(offset & (bytes - 1)))
		osh_fail_alignment(call, dest, bytes);
	return osh_amo_at(call, at, offset, bytes, op, expected, value, fetch);
}

#endif
