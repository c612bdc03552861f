/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/imports.h - peers' memory in this address space (imports.c). */
#ifndef ORI_COMM_IMPORTS_H
#define ORI_COMM_IMPORTS_H

#include "comm.h"

struct ori_export;

/* A peer's allocation in this address space. */
struct ori_import {
	int peer;
	uint64_t id;
	struct ori_device *device;    /* the device that mapped it */
	struct ori_allocation theirs; /* without the descriptor */
	void *base;
	int users;
	int kept; /* one of the users is the engine */
	struct ori_import *next;
};

/* Value of oriel_comm.fetching: a rank, and the call (enum ori_call) that waits for its memory. */
#define ORI_FETCHING(call, rank) ((uint32_t)(call) << 16 | ((uint32_t)(rank) + 1u))
#define ORI_FETCHING_CALL(word) ((int)((word) >> 16))
#define ORI_FETCHING_RANK(word) ((int)((word)&0xffffu) - 1)

/* Maps a range of a mapped peer.  Each success needs one ori_import_drop(). */
int ori_import_range(struct oriel_comm *, int peer, const struct ori_export *, void **ptr,
		     struct ori_import **import);
void ori_import_drop(struct oriel_comm *, struct ori_import *);
/* Unmaps all imports, when the comm ends. */
void ori_imports_drop_all(struct oriel_comm *);

/*
 * The local address of [offset, offset + bytes) of a peer's allocation, for engines whose packets
 * name memory instead of containing it.  NULL: not available.  The address is valid until the
 * thread leaves the engine.  The import stays until the peer frees the memory, the window over it
 * is destroyed, or the comm ends.
 *
 * Only the thread that drives the engine calls it, after ori_gone_check().  It waits only briefly.
 */
const void *ori_import_resolve(struct oriel_comm *, int peer, uint64_t id, uint64_t offset,
			       uint64_t bytes, int *device);
/*
 * Drops the engine's reference to that memory, or to all memory of that rank.  Imports without
 * another user move to the list *dropped, which the caller gives to ori_imports_unmap().
 */
void ori_imports_take(struct oriel_comm *, int peer, uint64_t id, struct ori_import **dropped);
void ori_imports_take_all(struct oriel_comm *, int peer, struct ori_import **dropped);
void ori_imports_unmap(struct ori_import *dropped);

#endif
