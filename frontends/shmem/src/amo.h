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

/*
 * Release and acquire; partners are the same accesses by other PEs, and their waits.  The standard
 * asks for less, but programs build locks of these.  `op` is a constant wherever this is inlined.
 */
#define OSH_NATIVE(NAME, TYPE)                                                                     \
	static inline uint64_t NAME(TYPE *word, int op, uint64_t expected, uint64_t value)         \
	{                                                                                          \
		TYPE old = (TYPE)expected, v = (TYPE)value;                                        \
                                                                                                   \
		switch (op) {                                                                      \
		case ORIEL_ATOMIC_FETCH:                                                           \
			return __atomic_load_n(word, __ATOMIC_ACQUIRE);                            \
		case ORIEL_ATOMIC_SET:                                                             \
			__atomic_store_n(word, v, __ATOMIC_RELEASE);                               \
			return 0;                                                                  \
		case ORIEL_ATOMIC_SWAP:                                                            \
			return __atomic_exchange_n(word, v, __ATOMIC_ACQ_REL);                     \
		case ORIEL_ATOMIC_COMPARE_SWAP:                                                    \
			__atomic_compare_exchange_n(word, &old, v, 0, __ATOMIC_ACQ_REL,            \
						    __ATOMIC_ACQUIRE);                             \
			return old;                                                                \
		case ORIEL_ATOMIC_AND:                                                             \
			return __atomic_fetch_and(word, v, __ATOMIC_ACQ_REL);                      \
		case ORIEL_ATOMIC_OR:                                                              \
			return __atomic_fetch_or(word, v, __ATOMIC_ACQ_REL);                       \
		case ORIEL_ATOMIC_XOR:                                                             \
			return __atomic_fetch_xor(word, v, __ATOMIC_ACQ_REL);                      \
		default:                                                                           \
			return __atomic_fetch_add(word, v, __ATOMIC_ACQ_REL);                      \
		}                                                                                  \
	}

OSH_NATIVE(osh_native32, uint32_t)
OSH_NATIVE(osh_native64, uint64_t)
#undef OSH_NATIVE

static inline uint64_t osh_native(void *word, uint64_t bytes, int op, uint64_t expected,
				  uint64_t value)
{
	return bytes == 4 ? osh_native32(word, op, expected, value) :
			    osh_native64(word, op, expected, value);
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
		osh_wake(pe);
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
