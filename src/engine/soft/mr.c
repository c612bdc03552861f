/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/mr.c - memory regions and their keys.
 *
 * A key is (slot << 8 | tag).  A freed slot goes to the end of the free list and its tag moves on.
 * So a revoked key refers to no other region until its slot has been used 256 times more.
 *
 * Called by the engine (create, destroy) and within soft_nic_step() (find); the caller serialises.
 */
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "state.h"

#define MR_FIRST_ROOM 16u
#define MR_MAX (1u << 24)

static int grow(struct soft_nic *nic)
{
	uint32_t old = nic->mr_room, room = old ? old * 2 : MR_FIRST_ROOM;
	struct soft_mr *table;

	if (room > MR_MAX)
		return ori_fail(ORIEL_ENOMEM,
				"software NIC: all of its %u memory regions are in use", MR_MAX);
	table = realloc(nic->mrs, room * sizeof(*table));
	if (!table)
		return ori_fail(ORIEL_ENOMEM, "software NIC: no memory for %u memory regions",
				room);
	nic->mrs = table;
	memset(table + old, 0, (room - old) * sizeof(*table));
	for (uint32_t i = old ? old : 1; i < room; i++) {
		int err = ori_random_bytes(&table[i].tag,
					   1); /* not from the seed: keys must not be guessable */

		if (err)
			return err;
		table[i].next_free = i + 1 < room ? i + 1 : 0;
	}
	nic->mr_room = room;
	nic->mr_free = old ? old : 1;
	nic->mr_free_last = room - 1;
	return 0;
}

int soft_mr_setup(struct soft_nic *nic)
{
	return grow(nic);
}

static int bad_attr(const struct soft_mr_attr *a)
{
	uint64_t base = (uint64_t)(uintptr_t)a->base;

	return !a->base || !a->bytes || a->iova > UINT64_MAX - a->bytes ||
	       base > UINT64_MAX - a->bytes || a->export_offset > UINT64_MAX - a->bytes;
}

int soft_mr_create(struct soft_nic *nic, const struct soft_mr_attr *attr, uint32_t *key)
{
	struct soft_mr *mr;
	uint32_t slot;
	int err;

	if (bad_attr(attr))
		return ori_fail(ORIEL_EINVAL,
				"software NIC: a memory region needs a base and 1 byte at least");
	if (attr->device && !nic->world.copy)
		return ori_fail(ORIEL_EINVAL,
				"software NIC: cannot copy the device memory of a region");
	if (!nic->mr_free) {
		err = grow(nic);
		if (err)
			return err;
	}
	slot = nic->mr_free;
	mr = &nic->mrs[slot];
	nic->mr_free = mr->next_free;
	if (!nic->mr_free)
		nic->mr_free_last = 0;
	mr->attr = *attr;
	mr->live = 1;
	*key = slot << 8 | mr->tag;
	return 0;
}

static struct soft_mr *find(const struct soft_nic *nic, uint32_t key)
{
	uint32_t slot = key >> 8;
	struct soft_mr *mr;

	if (slot >= nic->mr_room)
		return NULL;
	mr = &nic->mrs[slot];
	return mr->live && mr->tag == (key & 0xff) ? mr : NULL;
}

void soft_mr_destroy(struct soft_nic *nic, uint32_t key)
{
	struct soft_mr *mr = find(nic, key);
	uint32_t slot = key >> 8;

	if (!mr)
		return; /* already revoked, by a fault */
	/* nothing may be written there afterwards */
	soft_atomic_end(nic);
	soft_late_release(nic, 1);
	mr->live = 0;
	mr->tag++;
	mr->next_free = 0;
	if (nic->mr_free_last)
		nic->mrs[nic->mr_free_last].next_free = slot;
	else
		nic->mr_free = slot;
	nic->mr_free_last = slot;
}

void *soft_mr_find(const struct soft_nic *nic, uint32_t key, uint32_t pd, uint32_t access,
		   uint64_t address, uint64_t bytes, const struct soft_mr **out)
{
	const struct soft_mr *mr = find(nic, key);
	uint64_t offset;

	if (!mr || mr->attr.pd != pd || (mr->attr.access & access) != access)
		return NULL;
	if (address < mr->attr.iova)
		return NULL;
	offset = address - mr->attr.iova;
	/* in this order nothing overflows, whatever the peer sent */
	if (offset > mr->attr.bytes || bytes > mr->attr.bytes - offset)
		return NULL;
	if (out)
		*out = mr;
	return (uint8_t *)mr->attr.base + offset;
}
