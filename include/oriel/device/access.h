/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/access.h - loads, stores and adds whose names say their order and scope.
 *
 * `_sys` reaches other devices and the host, `_dev` the threads of one device.  On the CPU both
 * are the atomics of GCC and Clang: real acquire and release operations and no standalone fences,
 * so that ThreadSanitizer sees every edge.  On a GPU they are inline PTX.
 *
 * These are the primitives.  Labels stand where they are used, and docs/memory-model lists them.
 */
#ifndef ORIEL_DEVICE_ACCESS_H
#define ORIEL_DEVICE_ACCESS_H

#include "port.h"

/* ---- atomics: 64-bit words at system scope --------------------------------------------------- */

ORIEL_DEV uint64_t ori_load_acquire_sys(const uint64_t *word)
{
#if ORIEL_ON_GPU
	uint64_t v;
	asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(word) : "memory");
	return v;
#else
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

ORIEL_DEV uint64_t ori_load_relaxed_sys(const uint64_t *word)
{
#if ORIEL_ON_GPU
	uint64_t v;
	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(word) : "memory");
	return v;
#else
	return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

ORIEL_DEV void ori_store_release_sys(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
#else
	__atomic_store_n(word, v, __ATOMIC_RELEASE);
#endif
}

ORIEL_DEV void ori_store_relaxed_sys(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
#else
	__atomic_store_n(word, v, __ATOMIC_RELAXED);
#endif
}

/* ---- pairs of 64-bit words, 16-byte aligned -------------------------------------------------- */

/*
 * Two words by one instruction.  Each word is indivisible; the pair is not: PTX models a vector as
 * its elements, in any order.  On a GPU both words leave in one transaction.
 */
ORIEL_DEV void ori_store_pair_relaxed_sys(uint64_t *pair, uint64_t low, uint64_t high)
{
#if ORIEL_ON_GPU
	asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(pair), "l"(low), "l"(high)
		     : "memory");
#else
	__atomic_store_n(pair, low, __ATOMIC_RELAXED);
	__atomic_store_n(pair + 1, high, __ATOMIC_RELAXED);
#endif
}

ORIEL_DEV void ori_load_pair_relaxed_sys(const uint64_t *pair, uint64_t *low, uint64_t *high)
{
#if ORIEL_ON_GPU
	asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
		     : "=l"(*low), "=l"(*high)
		     : "l"(pair)
		     : "memory");
#else
	*low = __atomic_load_n(pair, __ATOMIC_RELAXED);
	*high = __atomic_load_n(pair + 1, __ATOMIC_RELAXED);
#endif
}

/* Plain accesses: words that only the threads of one group use, which meet between them. */
ORIEL_DEV void ori_store_pair(uint64_t *pair, uint64_t low, uint64_t high)
{
#if ORIEL_ON_GPU
	asm volatile("st.global.v2.b64 [%0], {%1, %2};" ::"l"(pair), "l"(low), "l"(high)
		     : "memory");
#else
	pair[0] = low;
	pair[1] = high;
#endif
}

ORIEL_DEV void ori_load_pair(const uint64_t *pair, uint64_t *low, uint64_t *high)
{
#if ORIEL_ON_GPU
	asm volatile("ld.global.v2.b64 {%0, %1}, [%2];"
		     : "=l"(*low), "=l"(*high)
		     : "l"(pair)
		     : "memory");
#else
	*low = pair[0];
	*high = pair[1];
#endif
}

/* ---- acquires and releases in two halves; adds ----------------------------------------------- */

/*
 * An acquire in two halves, for wait loops: polls, then ori_poll_end() once, by the same thread.
 * From sm_90 on the polls are relaxed and the end is a fence.  The L1 is then dropped once, not
 * with every poll (a barrier of two ranks takes 1.09 instead of 1.17 us).  This is the acquire
 * pattern of the PTX memory model.  Elsewhere each poll is the acquire load: older GPUs have no
 * fence that only acquires, and ThreadSanitizer sees loads.
 */
ORIEL_DEV uint64_t ori_poll_sys(const uint64_t *word)
{
	return ORI_HALF_FENCES ? ori_load_relaxed_sys(word) : ori_load_acquire_sys(word);
}

ORIEL_DEV void ori_poll_end(void)
{
#if ORI_HALF_FENCES
	asm volatile("fence.acquire.sys;" ::: "memory");
#endif
}

/* A test that runs kernels on the CPU may define this to observe each atomic before it is made. */
#ifndef ORI_ATOMIC_LOOK
#define ORI_ATOMIC_LOOK(word) ((void)0)
#endif

/* Adds without returning the old value: the cheap form of a signal. */
ORIEL_DEV void ori_add_release_sys(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
#else
	ORI_ATOMIC_LOOK(word);
	(void)__atomic_fetch_add(word, v, __ATOMIC_RELEASE);
#endif
}

/*
 * A release in two halves, for device/mapped.h.  A thread begins, may then wait for something else,
 * and then stores or adds.  On a GPU the first half is the fence.  On the CPU the first half is
 * empty and the second is the release operation, so that ThreadSanitizer sees it.
 */
ORIEL_DEV void ori_release_begin(void)
{
#if ORI_HALF_FENCES
	asm volatile("fence.release.sys;" ::: "memory");
#elif ORIEL_ON_GPU
	asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

/*
 * The same, where only some threads or some calls need it.  A compiler puts so small a branch under
 * a predicate, into the path of those that do not need it (see ori_board_state()).  So the fence is
 * a function of its own.
 */
ORIEL_DEV_OUT void ori_release_begin_called(void)
{
	ori_release_begin();
}

ORIEL_DEV void ori_release_begin_if(int needed)
{
	if (needed)
		ori_release_begin_called();
}

ORIEL_DEV void ori_release_store(uint64_t *word, uint64_t value)
{
#if ORIEL_ON_GPU
	ori_store_relaxed_sys(word, value);
#else
	ori_store_release_sys(word, value);
#endif
}

/*
 * The address of the word, as ori_release_add() expects it.  On a GPU the top bit of lanemask_lt,
 * which is always 0, is added to the address.  Otherwise ptxas assumes that lanes may share an
 * address and elects one lane to add for all: a dozen instructions between the fence and the add.
 * The address is made before the fence, because every instruction after the fence delays the add.
 */
ORIEL_DEV uint64_t *ori_release_at(uint64_t *word)
{
#if ORIEL_ON_GPU
	uint64_t at;

	asm volatile("{\n\t"
		     ".reg .u32 zero;\n\t"
		     "mov.u32 zero, %%lanemask_lt;\n\t"
		     "shr.u32 zero, zero, 31;\n\t"
		     "mad.wide.u32 %0, zero, 8, %1;\n\t"
		     "}"
		     : "=l"(at)
		     : "l"(word));
	return (uint64_t *)at;
#else
	return word;
#endif
}

ORIEL_DEV void ori_release_add(uint64_t *at, uint64_t value)
{
#if ORIEL_ON_GPU
	asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
#else
	ori_add_release_sys(at, value);
#endif
}

ORIEL_DEV uint64_t ori_fetch_add_acq_rel_sys(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	uint64_t old;
	asm volatile("atom.acq_rel.sys.global.add.u64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(word), "l"(v)
		     : "memory");
	return old;
#else
	ORI_ATOMIC_LOOK(word);
	return __atomic_fetch_add(word, v, __ATOMIC_ACQ_REL);
#endif
}

ORIEL_DEV uint64_t ori_swap_acq_rel_sys(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	uint64_t old;
	asm volatile("atom.acq_rel.sys.global.exch.b64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(word), "l"(v)
		     : "memory");
	return old;
#else
	ORI_ATOMIC_LOOK(word);
	return __atomic_exchange_n(word, v, __ATOMIC_ACQ_REL);
#endif
}

/* Returns the old value; the swap happened if it equals `expected`. */
ORIEL_DEV uint64_t ori_compare_swap_acq_rel_sys(uint64_t *word, uint64_t expected, uint64_t v)
{
#if ORIEL_ON_GPU
	uint64_t old;
	asm volatile("atom.acq_rel.sys.global.cas.b64 %0, [%1], %2, %3;"
		     : "=l"(old)
		     : "l"(word), "l"(expected), "l"(v)
		     : "memory");
	return old;
#else
	ORI_ATOMIC_LOOK(word);
	__atomic_compare_exchange_n(word, &expected, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return expected;
#endif
}

/* ---- words of one device: the indices of a queue, which no peer and no engine touches -------- */

ORIEL_DEV uint64_t ori_load_acquire_dev(const uint64_t *word)
{
#if ORIEL_ON_GPU
	uint64_t v;
	asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(word) : "memory");
	return v;
#else
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

ORIEL_DEV void ori_store_release_dev(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(v) : "memory");
#else
	__atomic_store_n(word, v, __ATOMIC_RELEASE);
#endif
}

ORIEL_DEV uint64_t ori_fetch_add_acq_rel_dev(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	uint64_t old;
	asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(word), "l"(v)
		     : "memory");
	return old;
#else
	return __atomic_fetch_add(word, v, __ATOMIC_ACQ_REL);
#endif
}

/* Only takes a number; orders nothing. */
ORIEL_DEV uint64_t ori_fetch_add_relaxed_dev(uint64_t *word, uint64_t v)
{
#if ORIEL_ON_GPU
	uint64_t old;
	asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(word), "l"(v)
		     : "memory");
	return old;
#else
	return __atomic_fetch_add(word, v, __ATOMIC_RELAXED);
#endif
}

ORIEL_DEV uint32_t ori_load_acquire32_sys(const uint32_t *word)
{
#if ORIEL_ON_GPU
	uint32_t v;
	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(word) : "memory");
	return v;
#else
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

ORIEL_DEV void ori_store_release32_sys(uint32_t *word, uint32_t v)
{
#if ORIEL_ON_GPU
	asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(v) : "memory");
#else
	__atomic_store_n(word, v, __ATOMIC_RELEASE);
#endif
}

/* Only among threads of one device. */
ORIEL_DEV uint32_t ori_fetch_add32_acq_rel(uint32_t *word, uint32_t v)
{
#if ORIEL_ON_GPU
	uint32_t old;
	asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
		     : "=r"(old)
		     : "l"(word), "r"(v)
		     : "memory");
	return old;
#else
	return __atomic_fetch_add(word, v, __ATOMIC_ACQ_REL);
#endif
}

#endif
