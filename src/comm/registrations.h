/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/registrations.h - keys of memory, and the sources that are registered (registrations.c).
 *
 * sources.c registers and releases sources.  The code that ends memory, a window or the engine
 * drops the sources in it.
 */
#ifndef ORI_REGISTRATIONS_H
#define ORI_REGISTRATIONS_H

#include "comm.h"
#include "spans.h"

/* Identities besides those that a device gives. */
#define ORI_IDENTITY_OURS (1ull << 63)  /* memory of oriel_alloc; its id is added */
#define ORI_IDENTITY_LASTING UINT64_MAX /* memory that is never freed before its owner ends */

/* A source: one range of local memory, registered with every NIC.  All under the comm's lock. */
struct ori_registration {
	struct ori_span span; /* first; its name is key[0], which no other source has */
	struct ori_registration **owner, *next, **link; /* the owner's list */
	/* of the memory; 0: later memory at the same address cannot be distinguished from it */
	uint64_t identity;
	int refs;
	uint32_t key[ORIEL_NICS_MAX];
};

/* Announces a queued peer's memory to the engine, before WQEs name it.  key[0] = 0: no memory. */
int ori_peer_memory(struct oriel_comm *, int rank, const uint32_t key[ORIEL_NICS_MAX],
		    const struct ori_engine_blob *told);
void ori_peer_memory_forget(struct oriel_comm *, int rank, const uint32_t key[ORIEL_NICS_MAX]);
/* Removes the keys from the engine. */
void ori_unregister(struct oriel_comm *, const uint32_t key[ORIEL_NICS_MAX]);

/* Registers the memory; the result has one reference and is in no list. */
int ori_registration_make(struct oriel_comm *, const struct ori_engine_memory *,
			  struct ori_registration **);
/*
 * Enters a new registration into the tree and its owner's list.  `now` is its memory.  Sources of
 * older, freed memory at the same addresses retire.
 */
void ori_registration_list(struct oriel_comm *, struct ori_registration *,
			   const struct ori_identity *now);
/*
 * Adds a reference to the owner's source with that range and identity, and copies its keys.
 * Returns 0 if there is no such source.
 */
int ori_registration_again(struct oriel_comm *, struct ori_registration **owner, uintptr_t begin,
			   size_t bytes, uint64_t identity, uint32_t key[ORIEL_NICS_MAX]);
/*
 * Removes a reference.  Returns 0 if the owner has no such source.  After the last reference, *last
 * is the registration, which has left the tree and the list; otherwise NULL.
 */
int ori_registration_less(struct oriel_comm *, struct ori_registration **owner,
			  const struct oriel_source *, struct ori_registration **last);
/* For registrations that have left the lists.  drop unregisters now, retire when it is safe. */
void ori_registration_drop(struct oriel_comm *, struct ori_registration *);
void ori_registration_retire(struct oriel_comm *, struct ori_registration *);
/* Drops the retired registrations if the engine is idle. */
void ori_registrations_reap(struct oriel_comm *);

/* Drops all sources of the owner.  Operations that use them must be complete. */
void ori_sources_end(struct oriel_comm *, struct ori_registration **owner);
/* Drops all sources that overlap the range, before its memory is freed. */
void ori_sources_drop(struct oriel_comm *, const void *ptr, size_t bytes);
/* Drops all sources, before the engine is closed. */
void ori_sources_drop_all(struct oriel_comm *);

#endif
