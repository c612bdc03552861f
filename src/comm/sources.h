/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/sources.h - registers local memory for puts and gets, and memory for peers (sources.c). */
#ifndef ORI_SOURCES_H
#define ORI_SOURCES_H

#include "memory.h"
#include "registrations.h"

/*
 * Registers local memory as source of puts and target of gets.  `owner` is the head of the list
 * that it joins.  `lasting`: the memory cannot be freed before its owner ends.  If the same range
 * of the same memory is registered, it only gets one more reference.  If the memory may be another
 * one at the same address, it is registered again.
 */
int ori_source_take(struct oriel_comm *, struct ori_registration **owner, void *ptr, size_t bytes,
		    int lasting, struct oriel_source *);
/* Removes a reference.  The last one waits until this rank's operations are complete. */
int ori_source_give(struct oriel_comm *, struct ori_registration **owner,
		    const struct oriel_source *);

/*
 * Peers address the memory of a remote key from 0, plus these low bits of its real address.  So
 * aligned words have aligned addresses.  It is also a condition of the operating system: it
 * registers memory under another address only if the offsets within a page are equal.
 */
#define ORI_IOVA_MASK 4095u
/* Registers memory that peers write to. */
int ori_register_remote(struct oriel_comm *, void *ptr, size_t bytes, const struct ori_export *,
			uint32_t key[ORIEL_NICS_MAX], struct ori_engine_blob *tell);

#endif
