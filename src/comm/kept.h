/* SPDX-License-Identifier: BSD-3-Clause */
/* comm/kept.h - memory that outlives its comm (kept.c). */
#ifndef ORI_COMM_KEPT_H
#define ORI_COMM_KEPT_H

#include "memory.h"

/*
 * The user's handle to kept memory.  While the comm lives, `memory` is its record there.  After
 * that, the handle owns the allocation and holds the device.
 */
struct oriel_memory {
	struct oriel_comm *comm; /* NULL: the comm has ended */
	struct ori_memory *memory;
	struct ori_device *device;
	struct ori_allocation allocation;
	int fate; /* after the comm: what ori_memory_detach() says */
};

/* Keeps the allocation of oriel_alloc at `ptr`. */
int ori_kept_make(struct oriel_comm *, const char *call, const void *ptr, struct oriel_memory **);
/* The comm ends: its kept memory passes to the handles. */
void ori_kept_outlive(struct oriel_comm *, int failed);
/* Frees the handle, and the allocation if the comm has ended. */
void ori_kept_free(struct oriel_memory *);

#endif
