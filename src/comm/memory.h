/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/memory.h - memory that this rank allocates or knows, and tells its peers of (memory.c). */
#ifndef ORI_COMM_MEMORY_H
#define ORI_COMM_MEMORY_H

#include "comm.h"

struct ori_memory {
	struct ori_allocation allocation;
	size_t asked;  /* by the user, of memory that is ours: the allocation is whole pages */
	uint64_t id;   /* the name by which a peer asks for it; unique in this process */
	int users;     /* windows and buffers over it; -1: claimed */
	int owned;     /* by a window: goes with its last user */
	int described; /* the user's own: only told to peers, never freed */
	int borrowed;  /* another comm's of this process: neither told nor freed */
	int host;      /* host memory that kernels reach */
	struct ori_memory *next;
};

/* How another rank finds a range of mine; travels in collective records. */
struct ori_export {
	uint64_t id; /* 0: lives in this process only */
	uint64_t offset;
	uint64_t allocation_bytes;
	uint64_t address; /* for ranks of the same process */
	uint64_t bytes;
	uint64_t far;       /* `handle` is there: ranks of other hosts can map it */
	uint8_t handle[64]; /* of the allocation on its NVLink fabric */
};

int ori_memory_alloc(struct oriel_comm *, size_t bytes, struct ori_memory **);
/* Host memory that kernels of a separate device reach. */
int ori_memory_alloc_host(struct oriel_comm *, size_t bytes, struct ori_memory **);

/*
 * Ending memory.  The caller has settled the comm (settle.h), or nothing ever used the memory.
 * free gives all back.  abandon gives the pages back but, if ranks of this process may still store
 * there, not the addresses.  end does the one or the other, by whether the comm has failed.
 */
void ori_memory_free(struct oriel_comm *, struct ori_memory *);
void ori_memory_abandon(struct oriel_comm *, struct ori_memory *);
void ori_memory_end(struct oriel_comm *, struct ori_memory *);
/*
 * Takes the allocation of oriel_alloc at `ptr` for ending: nobody can begin to use it.  unclaim
 * gives it back.  ORIEL_EINVAL if there is none, ORIEL_EBUSY if it is in use.
 */
int ori_memory_claim(struct oriel_comm *, const char *call, const void *ptr, struct ori_memory **);
void ori_memory_unclaim(struct oriel_comm *, struct ori_memory *);

/* The allocation that holds [ptr, ptr + bytes), counted as used; NULL if it is not one of ours. */
struct ori_memory *ori_memory_use(struct oriel_comm *, const void *ptr, size_t bytes);
/*
 * The same; device memory of the user's own is described first, so that peers can map it.  *out is
 * NULL for memory that stays in this process.  ORIEL_EEXPORT with the reason.
 */
int ori_memory_adopt(struct oriel_comm *, const void *ptr, size_t bytes, struct ori_memory **out);
/* One user less.  Memory that a window owns ends with its last user. */
void ori_memory_unuse(struct oriel_comm *, struct ori_memory *);
/*
 * Is all of the range memory, and within one allocation if it is this comm's?  ORIEL_EINVAL or
 * ORIEL_ERANGE with a line that begins with the call.
 */
int ori_memory_check(struct oriel_comm *, const char *call, const void *ptr, size_t bytes);
/* Adds what ranks of other hosts need to map the allocation. */
void ori_memory_export_far(const struct ori_allocation *, struct ori_export *);
/*
 * Describes the range for peers.  ORIEL_EEXPORT, with a line naming oriel_alloc, when a mapped peer
 * lives in another process, or on another host, and cannot map the memory.
 */
int ori_memory_export(struct oriel_comm *, const void *ptr, size_t bytes, const struct ori_memory *,
		      struct ori_export *);

#endif
