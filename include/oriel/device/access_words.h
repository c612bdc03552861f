/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/access_words.h - ordered accesses to words of 1, 2, 4 and 8 bytes at system scope.
 *
 * The companion of access.h for words of a program, whose width is an argument.  On the CPU these
 * are the atomics of GCC and Clang.  A GPU loads every width, but compares and swaps only 4 and 8
 * bytes; device/atomic_typed.h builds the narrow ones from these.
 */
#ifndef ORIEL_DEVICE_ACCESS_WORDS_H
#define ORIEL_DEVICE_ACCESS_WORDS_H

#include "access.h"

/* The bits of an aligned word of `bytes` bytes: 1, 2, 4 or 8. */
ORIEL_DEV uint64_t ori_load_word_acquire_sys(const void *word, uint32_t bytes)
{
#if ORIEL_ON_GPU
	uint32_t v;

	if (bytes == 8)
		return ori_load_acquire_sys((const uint64_t *)word);
	if (bytes == 4)
		asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
			     : "=r"(v)
			     : "l"(word)
			     : "memory");
	else if (bytes == 2)
		asm volatile("ld.acquire.sys.global.u16 %0, [%1];"
			     : "=r"(v)
			     : "l"(word)
			     : "memory");
	else
		asm volatile("ld.acquire.sys.global.u8 %0, [%1];" : "=r"(v) : "l"(word) : "memory");
	return v;
#else
	switch (bytes) {
	case 1:
		return __atomic_load_n((const uint8_t *)word, __ATOMIC_ACQUIRE);
	case 2:
		return __atomic_load_n((const uint16_t *)word, __ATOMIC_ACQUIRE);
	case 4:
		return __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE);
	default:
		return __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE);
	}
#endif
}

/* Returns the old value; the swap happened if it equals `expected`. */
ORIEL_DEV uint32_t ori_compare_swap32_acq_rel_sys(uint32_t *word, uint32_t expected, uint32_t v)
{
#if ORIEL_ON_GPU
	uint32_t old;
	asm volatile("atom.acq_rel.sys.global.cas.b32 %0, [%1], %2, %3;"
		     : "=r"(old)
		     : "l"(word), "r"(expected), "r"(v)
		     : "memory");
	return old;
#else
	ORI_ATOMIC_LOOK(word);
	__atomic_compare_exchange_n(word, &expected, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return expected;
#endif
}

#if !ORIEL_ON_GPU
/*
 * CPU: one atomic on a word of that width, by the processor's own instruction.  Returns the
 * previous bits.
 */
#define ORI_WORD_ATOMIC(name, type)                                                                \
	ORIEL_DEV uint64_t name(type *word, int op, uint64_t expected, uint64_t value)             \
	{                                                                                          \
		type old = (type)expected, v = (type)value;                                        \
                                                                                                   \
		ORI_ATOMIC_LOOK(word);                                                             \
		switch (op) {                                                                      \
		case ORIEL_ATOMIC_FETCH:                                                           \
			return __atomic_load_n(word, __ATOMIC_ACQUIRE);                            \
		case ORIEL_ATOMIC_COMPARE_SWAP:                                                    \
			__atomic_compare_exchange_n(word, &old, v, 0, __ATOMIC_ACQ_REL,            \
						    __ATOMIC_ACQUIRE);                             \
			return old;                                                                \
		case ORIEL_ATOMIC_ADD:                                                             \
			return __atomic_fetch_add(word, v, __ATOMIC_ACQ_REL);                      \
		case ORIEL_ATOMIC_AND:                                                             \
			return __atomic_fetch_and(word, v, __ATOMIC_ACQ_REL);                      \
		case ORIEL_ATOMIC_OR:                                                              \
			return __atomic_fetch_or(word, v, __ATOMIC_ACQ_REL);                       \
		case ORIEL_ATOMIC_XOR:                                                             \
			return __atomic_fetch_xor(word, v, __ATOMIC_ACQ_REL);                      \
		default: /* SET and SWAP */                                                        \
			return __atomic_exchange_n(word, v, __ATOMIC_ACQ_REL);                     \
		}                                                                                  \
	}

ORI_WORD_ATOMIC(ori_atomic8_acq_rel_sys, uint8_t)
ORI_WORD_ATOMIC(ori_atomic16_acq_rel_sys, uint16_t)
ORI_WORD_ATOMIC(ori_atomic32_acq_rel_sys, uint32_t)
ORI_WORD_ATOMIC(ori_atomic64_acq_rel_sys, uint64_t)
#undef ORI_WORD_ATOMIC
#endif

#endif
