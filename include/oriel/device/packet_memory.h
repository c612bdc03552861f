/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/packet_memory.h - the user's end of a packet: loads from src, stores to dst.
 *
 * On a GPU the user's memory may be global, shared, or a variable of a thread.  So accesses here
 * are generic.  Boxes are always global memory.
 */
#ifndef ORIEL_DEVICE_PACKET_MEMORY_H
#define ORIEL_DEVICE_PACKET_MEMORY_H

#include "box.h"

/* ---- 8 bytes of the user's memory ------------------------------------------------------------ */

/* Fewer than 8 bytes, or bytes that are not aligned. */
ORIEL_DEV_OUT uint64_t ori_cell_load_odd(const uint8_t *from, uint32_t bytes)
{
	uint64_t word = 0;
	uint32_t i;

	for (i = 0; i < bytes; i++)
		word |= (uint64_t)from[i] << 8 * i;
	return word;
}

ORIEL_DEV_OUT void ori_cell_deliver_odd(uint8_t *to, uint64_t word, uint32_t bytes)
{
	uint32_t i;

	for (i = 0; i < bytes; i++)
		to[i] = (uint8_t)(word >> 8 * i);
}

/* Are all cells of the packet aligned words of 8 bytes?  On a CPU no access needs to know. */
ORIEL_DEV int ori_user_words_are_whole(const void *users, uint64_t bytes)
{
	return ORIEL_ON_GPU && bytes && !(((uintptr_t)users | bytes) & 7u);
}

/* An aligned word. */
ORIEL_DEV uint64_t ori_user_word(const uint8_t *from)
{
	uint64_t word;

#if ORIEL_ON_GPU
	asm volatile("ld.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
#else
	memcpy(&word, from, 8);
#endif
	return word;
}

ORIEL_DEV void ori_user_word_store(uint8_t *to, uint64_t word)
{
#if ORIEL_ON_GPU
	asm volatile("st.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
#else
	memcpy(to, &word, 8);
#endif
}

/* The bytes of cell i of a packet, as a number whose lowest byte is the first. */
ORIEL_DEV uint64_t ori_cell_load(const void *src, uint64_t i, uint64_t bytes)
{
	const uint8_t *from = (const uint8_t *)src + 8 * i;
	uint64_t left = bytes - 8 * i;

#if ORIEL_ON_GPU
	if (left >= 8 && !((uintptr_t)from & 7u))
		return ori_user_word(from);
#endif
	return ori_cell_load_odd(from, left < 8 ? (uint32_t)left : 8u);
}

ORIEL_DEV void ori_cell_deliver(void *dst, uint64_t i, uint64_t bytes, uint64_t word)
{
	uint8_t *to = (uint8_t *)dst + 8 * i;
	uint64_t left = bytes - 8 * i;

#if ORIEL_ON_GPU
	if (left >= 8 && !((uintptr_t)to & 7u)) {
		ori_user_word_store(to, word);
		return;
	}
#endif
	ori_cell_deliver_odd(to, word, left < 8 ? (uint32_t)left : 8u);
}

/* ---- copies between a slot and the user's memory --------------------------------------------- */

/* Can ori_group_copy() access it?  On a GPU it accesses only global memory. */
ORIEL_DEV int ori_is_global(const void *at)
{
#if ORIEL_ON_GPU
	uint32_t is;

	asm("{ .reg .pred p; isspacep.global p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(is) : "l"(at));
	return (int)is;
#else
	(void)at;
	return 1;
#endif
}

/* `users` is dst or src, whichever is the user's.  Shared memory is copied in words of 8 bytes. */
ORIEL_DEV void ori_slot_copy(struct oriel_group g, void *dst, const void *src, uint64_t bytes,
			     const void *users)
{
	uint64_t i;

	if (ori_is_global(users)) {
		ori_group_copy(g, dst, src, bytes);
		return;
	}
	for (i = g.thread; 8 * i < bytes; i += g.size)
		ori_cell_deliver(dst, i, bytes, ori_cell_load(src, i, bytes));
}

#endif
