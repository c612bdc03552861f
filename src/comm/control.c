/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/control.c - the two halves of a rank's control memory.
 *
 * The host half is a memfd that engines and host code write.  It is pinned so that kernels can
 * access it.  The near half is device memory that kernels and mapped peers write.  An offset is
 * taken once and is valid in both halves.  On the CPU both halves are the same memory.
 *
 * Called on user threads, in calls that create or destroy objects; load and store on any thread.
 */
#include <string.h>

#include "control.h"
#include "memory.h"

/*
 * This rank maps its own slab and those of the other ranks on its host.  If addresses are limited
 * (ulimit -v), all slabs together take an eighth of them.
 */
static uint64_t slab_bytes(const struct oriel_comm *c, uint64_t wanted)
{
	return ori_device_shared_bytes(wanted, 8 * ((uint64_t)c->nranks + 1), ORI_SLAB_LEAST_BYTES);
}

int ori_control_open(struct oriel_comm *c)
{
	uint64_t wanted = c->device->separate ? ORI_SLAB_SEPARATE_BYTES : ORI_SLAB_BYTES, offset;
	int err;

	c->slab_bytes = slab_bytes(c, wanted);
	err = ori_memory_alloc(c, c->slab_bytes, &c->near_memory);
	if (err)
		return err;
	c->slab_memory = c->near_memory;
	if (c->device->separate)
		err = ori_memory_alloc_host(c, c->slab_bytes, &c->slab_memory);
	if (!err)
		err = ori_slab_init(&c->slab, c->slab_bytes);
	c->slab.limited = c->slab_bytes < wanted;
	if (!err)
		err = ori_slab_take(&c->slab, sizeof(struct ori_control), &offset);
	if (!err)
		c->control = c->slab_memory->allocation.base;
	return err;
}

void *ori_control_host(struct oriel_comm *c, uint64_t offset)
{
	return (char *)c->slab_memory->allocation.base + offset;
}

void *ori_control_near(struct oriel_comm *c, uint64_t offset)
{
	return (char *)c->near_memory->allocation.base + offset;
}

int ori_control_mirror(struct oriel_comm *c, uint64_t offset, uint64_t bytes)
{
	if (!c->device->separate)
		return 0;
	return c->device->ops->copy(c->device, ori_control_near(c, offset),
				    ori_control_host(c, offset), bytes);
}

int ori_control_publish(struct oriel_comm *c, const void *table, uint64_t bytes, const void **near)
{
	uint64_t offset;
	int err;

	*near = NULL;
	if (!c->device->separate || !bytes) {
		*near = table;
		return 0;
	}
	pthread_mutex_lock(&c->lock);
	err = ori_slab_take(&c->slab, bytes, &offset);
	pthread_mutex_unlock(&c->lock);
	if (err)
		return err;
	*near = ori_control_near(c, offset);
	return c->device->ops->copy(c->device, ori_control_near(c, offset), table, bytes);
}

void ori_control_unpublish(struct oriel_comm *c, const void *near, uint64_t bytes)
{
	if (!c->device->separate || !near || !bytes)
		return;
	pthread_mutex_lock(&c->lock);
	ori_slab_give(&c->slab, (uint64_t)((const char *)near - (char *)ori_control_near(c, 0)),
		      bytes);
	pthread_mutex_unlock(&c->lock);
}

int ori_control_load(struct oriel_comm *c, const uint64_t *near, uint64_t *value)
{
	int err;

	if (c->device->separate) {
		err = c->device->ops->copy(c->device, value, near, sizeof(*value));
		if (err)
			*value = 0;
		return err;
	}
	/*
	 * acquire, without a partner: kernels set these words (a window's failure, a refused call),
	 * and callers read nothing else because of the value.
	 */
	*value = __atomic_load_n(near, __ATOMIC_ACQUIRE);
	return 0;
}

int ori_control_store(struct oriel_comm *c, uint64_t *near, uint64_t value)
{
	if (c->device->separate)
		return c->device->ops->copy(c->device, near, &value, sizeof(value));
	/*
	 * release, without a partner: the host takes a word back (a window ends, a refused call has
	 * been told).  A reader that finds 0 reads nothing else because of it.
	 */
	__atomic_store_n(near, value, __ATOMIC_RELEASE);
	return 0;
}
