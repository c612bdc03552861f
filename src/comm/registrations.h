/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/registrations.h - keys of memory, and the sources that are registered (registrations.c).
 *
 * sources.c registers and releases sources; whoever ends memory, a window or the engine drops them.
 */
#ifndef ORI_REGISTRATIONS_H
#define ORI_REGISTRATIONS_H

#include "comm.h"
#include "spans.h"

/* Identities beside those that a device gives. */
#define ORI_IDENTITY_OURS (1ull << 63)  /* memory of oriel_alloc, by its id */
#define ORI_IDENTITY_LASTING UINT64_MAX /* the owner's own memory */

/* A source: one range of local memory, registered with every NIC.  All under the comm's lock. */
struct ori_registration {
	struct ori_span span; /* first; its name is key[0], which no other source has */
	struct ori_registration **owner, *next, **link; /* the owner's list */
	uint64_t identity; /* of the memory; 0: it cannot be told from what may come after it */
	int refs;
	uint32_t key[ORIEL_NICS_MAX];
};

/* Tells the engine of a queued peer's memory before queues name it; key[0] = 0: there is none. */
int ori_peer_memory(struct oriel_comm *, int rank, const uint32_t key[ORIEL_NICS_MAX],
		    const struct ori_engine_blob *told);
void ori_peer_memory_forget(struct oriel_comm *, int rank, const uint32_t key[ORIEL_NICS_MAX]);
/* Takes keys back from the engine. */
void ori_unregister(struct oriel_comm *, const uint32_t key[ORIEL_NICS_MAX]);

/* Registers the memory; the result has one reference and is in no list. */
int ori_registration_make(struct oriel_comm *, const struct ori_engine_memory *,
			  struct ori_registration **);
/*
 * Enters a new one into the tree and its owner's list.  Sources of older memory that had the
 * addresses of `now` retire.
 */
void ori_registration_list(struct oriel_comm *, struct ori_registration *,
			   const struct ori_identity *now);
/*
 * One reference more to the owner's source of that range of the same memory; key gets its keys.
 * 0: there is no such source.
 */
int ori_registration_again(struct oriel_comm *, struct ori_registration **owner, uintptr_t begin,
			   size_t bytes, uint64_t identity, uint32_t key[ORIEL_NICS_MAX]);
/*
 * One reference less.  0: the owner has no such source.  *last gets the registration with the last
 * reference, which has left the tree and the list; else NULL.
 */
int ori_registration_less(struct oriel_comm *, struct ori_registration **owner,
			  const struct oriel_source *, struct ori_registration **last);
/* One that has left the lists: unregistered now, or once nothing is under way. */
void ori_registration_drop(struct oriel_comm *, struct ori_registration *);
void ori_registration_retire(struct oriel_comm *, struct ori_registration *);
/* Drops the retired ones if the engine is idle. */
void ori_registrations_reap(struct oriel_comm *);

/* All sources of the owner; operations that name them are complete. */
void ori_sources_end(struct oriel_comm *, struct ori_registration **owner);
/* Sources that touch the range, whose memory goes. */
void ori_sources_drop(struct oriel_comm *, const void *ptr, size_t bytes);
/* All that are left, before the engine goes. */
void ori_sources_drop_all(struct oriel_comm *);

#endif
