/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/memory.h - memory of this rank that peers can map (memory.c). */
#ifndef ORI_COMM_MEMORY_H
#define ORI_COMM_MEMORY_H

#include "comm.h"

struct ori_memory {
	struct ori_allocation allocation;
	size_t asked;  /* bytes that the user asked for; the allocation is whole pages */
	uint64_t id;   /* the name by which a peer asks for it; unique in this process */
	int users;     /* windows and buffers over it; -1: claimed */
	int owned;     /* freed with its last user: no oriel_free() for it */
	int described; /* the user's own memory: only offered to peers, never freed */
	int borrowed;  /* belongs to another comm of this process: neither offered nor freed */
	int host;      /* host memory that kernels can access */
	struct oriel_memory *kept; /* its handle if it outlives the comm (kept.c), else NULL */
	struct ori_memory *next;
};

/* How another rank finds a range of this rank.  Sent in collective records. */
struct ori_export {
	uint64_t id; /* 0: only this process can use it */
	uint64_t offset;
	uint64_t allocation_bytes;
	uint64_t address; /* for ranks of the same process */
	uint64_t bytes;
	uint64_t far;       /* 1: `handle` is valid, and ranks of other hosts can map it */
	uint8_t handle[64]; /* NVLink fabric handle of the allocation */
};

int ori_memory_alloc(struct oriel_comm *, size_t bytes, struct ori_memory **);
/* Host memory that kernels of a separate device can access. */
int ori_memory_alloc_host(struct oriel_comm *, size_t bytes, struct ori_memory **);

/*
 * Ending memory.  The caller has settled the comm (settle.h), or nothing ever used the memory.
 * ori_memory_free() gives pages and addresses back.  ori_memory_abandon() is for failed comms: if
 * ranks of this process may still store there, it gives back the pages but keeps the addresses.
 * ori_memory_end() calls abandon if the comm has failed, else free.
 */
void ori_memory_free(struct oriel_comm *, struct ori_memory *);
void ori_memory_abandon(struct oriel_comm *, struct ori_memory *);
void ori_memory_end(struct oriel_comm *, struct ori_memory *);
/*
 * Claims the allocation of oriel_alloc at `ptr` in order to free it: no window or buffer can begin
 * to use it.  ori_memory_unclaim() undoes that.  ORIEL_EINVAL: there is no such allocation;
 * ORIEL_EBUSY: it is in use.
 */
int ori_memory_claim(struct oriel_comm *, const char *call, const void *ptr, struct ori_memory **);
void ori_memory_unclaim(struct oriel_comm *, struct ori_memory *);

/* Marks the allocation of oriel_alloc at `ptr` as kept.  ORIEL_EINVAL, or ORIEL_EBUSY: it is. */
int ori_memory_keep(struct oriel_comm *, const char *call, const void *ptr, struct oriel_memory *,
		    struct ori_memory **);
int ori_memory_is_kept(struct oriel_comm *, const void *ptr);
/*
 * Takes kept memory off the comm, which ends: peers no longer find it, but it is not given back.
 * Returns how it may be given back later.
 */
enum ori_detached {
	ORI_DETACHED_FREE = 1, /* nobody else uses it */
	ORI_DETACHED_SHARED,   /* ranks of this process may still store there */
	ORI_DETACHED_BUSY,     /* kernels may still run: never */
};
int ori_memory_detach(struct oriel_comm *, struct ori_memory *, int failed,
		      struct ori_allocation *out);

/* Adds a user to the allocation that contains [ptr, ptr + bytes).  NULL: this comm has none. */
struct ori_memory *ori_memory_use(struct oriel_comm *, const void *ptr, size_t bytes);
/*
 * The same, also for device memory that the user allocated: it is described so that peers can map
 * it.  *out is NULL if the memory is not offered to other processes.  ORIEL_EEXPORT: it cannot be
 * described; the message has the reason.
 */
int ori_memory_adopt(struct oriel_comm *, const void *ptr, size_t bytes, struct ori_memory **out);
/* Removes a user.  `owned` memory is freed with its last user. */
void ori_memory_unuse(struct oriel_comm *, struct ori_memory *);
/*
 * Checks that the whole range is memory of this process.  If a part is from oriel_alloc, all of it
 * must lie in that allocation.  ORIEL_EINVAL or ORIEL_ERANGE, with a message that begins with the
 * call.
 */
int ori_memory_check(struct oriel_comm *, const char *call, const void *ptr, size_t bytes);
/* Adds what ranks of other hosts need to map the allocation. */
void ori_memory_export_far(const struct ori_allocation *, struct ori_export *);
/*
 * Describes the range for peers.  ORIEL_EEXPORT: a mapped peer in another process or on another
 * host cannot map the memory; the message recommends oriel_alloc.
 */
int ori_memory_export(struct oriel_comm *, const void *ptr, size_t bytes, const struct ori_memory *,
		      struct ori_export *);

#endif
