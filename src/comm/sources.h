/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/sources.h - local memory as source of puts, and memory that peers write to (sources.c). */
#ifndef ORI_SOURCES_H
#define ORI_SOURCES_H

#include "memory.h"
#include "registrations.h"

/*
 * Local memory as source of puts and target of gets.  `owner` is the head of the list it joins;
 * `lasting`: memory that cannot go before its owner.  The same range of the same memory again
 * counts a reference.  Memory that may not be the same is registered anew.
 */
int ori_source_take(struct oriel_comm *, struct ori_registration **owner, void *ptr, size_t bytes,
		    int lasting, struct oriel_source *);
/* One reference less; the last one waits until this rank's operations are complete. */
int ori_source_give(struct oriel_comm *, struct ori_registration **owner,
		    const struct oriel_source *);

/*
 * The bits of an address that stay under a remote key, which is zero-based otherwise.  Aligned
 * words keep aligned addresses, and a kernel can register memory under another address only if both
 * agree within a page.
 */
#define ORI_IOVA_MASK 4095u
/* Registers memory that peers write to. */
int ori_register_remote(struct oriel_comm *, void *ptr, size_t bytes, const struct ori_export *,
			uint32_t key[ORIEL_NICS_MAX], struct ori_engine_blob *tell);

#endif
