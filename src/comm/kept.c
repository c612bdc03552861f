/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/kept.c - memory of oriel_alloc that outlives its comm.
 *
 * In a language with garbage collection, arrays over the memory may live longer than the comm.
 * Such memory has a handle of its own.  When the comm ends, the handle takes over the allocation,
 * and holds the device until the memory is freed.
 *
 * Does not wait: the caller settles the comm first (api.c).  Called on user threads.
 */
#include <stdlib.h>
#include <unistd.h>

#include "kept.h"
#include "object.h"

int ori_kept_make(struct oriel_comm *c, const char *call, const void *ptr,
		  struct oriel_memory **out)
{
	struct oriel_memory *kept = calloc(1, sizeof(*kept));
	int err;

	if (!kept)
		return ori_fail(ORIEL_ENOMEM, "%s: no memory for a handle", call);
	err = ori_live_add(kept, ORI_LIVE_MEMORY);
	if (err)
		goto err_handle;
	err = ori_memory_keep(c, call, ptr, kept, &kept->memory);
	if (err)
		goto err_live;
	kept->comm = c;
	*out = kept;
	return 0;

err_live:
	ori_live_remove(kept);
err_handle:
	free(kept);
	return err;
}

void ori_kept_outlive(struct oriel_comm *c, int failed)
{
	struct ori_memory *m, *next;

	for (m = c->memories; m; m = next) {
		struct oriel_memory *kept = m->kept;

		next = m->next;
		if (!kept)
			continue;
		kept->fate = ori_memory_detach(c, m, failed, &kept->allocation);
		ori_device_hold(c->device);
		kept->device = c->device;
		kept->comm = NULL;
		kept->memory = NULL;
	}
}

static void give_back(struct oriel_memory *kept)
{
	struct ori_allocation *a = &kept->allocation;

	if (kept->fate == ORI_DETACHED_FREE) {
		kept->device->ops->free(kept->device, a);
		return;
	}
	/* As ori_memory_abandon(): the addresses stay. */
	if (kept->fate == ORI_DETACHED_SHARED)
		kept->device->ops->discard(kept->device, a, 0, a->bytes);
	if (a->fd >= 0)
		close(a->fd);
}

void ori_kept_free(struct oriel_memory *kept)
{
	ori_live_remove(kept);
	if (kept->device) {
		give_back(kept);
		ori_device_drop(kept->device);
	}
	free(kept);
}
