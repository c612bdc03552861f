/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/mlx5/memory.c - registered memory under the addresses that WQEs use.
 *
 * Devices write the WQEs, so a region must itself be addressed by its `iova`.  The kernel accepts
 * an iova that has the same offset in a page as the address.  For any other iova, a second key is
 * made over the region's key.  Called under the engine's lock.
 */
#include <errno.h>
#include <stdlib.h>

#include "../../util/util.h"
#include "mlx5.h"

static int add_aligned(struct mlx5_nic *n, const struct ori_engine_memory *m, struct mlx5_region *r)
{
	unsigned int access = IBV_ACCESS_LOCAL_WRITE;
	int by_dmabuf, no_dmabuf;

	if (m->remote)
		access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			  IBV_ACCESS_REMOTE_ATOMIC;
	if (m->device)
		r->mr = verbs_dmabuf_add(&n->v, m, m->iova);
	no_dmabuf = errno;
	by_dmabuf = r->mr != NULL;
	/* GPU memory: through the driver's peer memory, which looks like the host's here */
	if (!r->mr)
		r->mr = n->b->mr_add_iova(n->v.pd, m->base, m->bytes, m->iova, access);
	if (!r->mr)
		return ori_fail_errno(errno, "%s: cannot register %llu bytes%s", n->v.name,
				      (unsigned long long)m->bytes,
				      errno == ENOMEM ? ": raise ulimit -l" :
				      m->device ? ": GPU memory needs dma-buf or nvidia-peermem" :
						  "");
	if (m->device)
		verbs_tell_way(&n->v, by_dmabuf, no_dmabuf);
	r->key = r->mr->lkey;
	return 0;
}

/* Registers by the address first, also GPU memory; then under another iova. */
static int add_any(struct mlx5_nic *n, const struct ori_engine_memory *m, struct mlx5_region *r)
{
	int err = verbs_memory_add(&n->v.base, m, &r->ordinary);

	if (err)
		return err;
	r->key = r->ordinary.key;
	if (m->iova == (uint64_t)(uintptr_t)m->base)
		return 0;
	r->object = mlx5_devx_key(n, r->ordinary.key, (uint64_t)(uintptr_t)m->base, m->iova,
				  m->bytes, m->remote, &r->key);
	if (r->object)
		return 0;
	err = ori_fail_errno(errno, "%s: no key for %llu bytes that are not on a page boundary",
			     n->v.name, (unsigned long long)m->bytes);
	verbs_memory_remove(&n->v.base, &r->ordinary);
	return err;
}

/* Keys with the same index in the NIC's table differ in their low byte. */
static struct mlx5_region **list_of(struct mlx5_nic *n, uint32_t key)
{
	return &n->regions[(key >> 8 ^ key) % MLX5_REGION_LISTS];
}

int mlx5_region_add(struct mlx5_nic *n, const struct ori_engine_memory *m, uint32_t *key)
{
	struct mlx5_region *r = calloc(1, sizeof(*r)), **list;
	uint64_t address = (uint64_t)(uintptr_t)m->base;
	int err;

	if (!r)
		return ori_fail(ORIEL_ENOMEM, "no memory to register memory");
	err = m->iova != address && (m->iova ^ address) % mlx5_page_bytes() == 0 ?
		      add_aligned(n, m, r) :
		      add_any(n, m, r);
	if (err) {
		free(r);
		return err;
	}
	list = list_of(n, r->key);
	r->next = *list;
	*list = r;
	*key = r->key;
	return 0;
}

void mlx5_region_remove(struct mlx5_nic *n, uint32_t key)
{
	struct mlx5_region **at = list_of(n, key), *r;
	int err = 0;

	while (*at && (*at)->key != key)
		at = &(*at)->next;
	r = *at;
	if (!r)
		return;
	*at = r->next;
	if (r->object)
		err = n->b->object_destroy(r->object);
	if (r->mr)
		err |= n->v.lib->mr_remove(r->mr);
	else
		verbs_memory_remove(&n->v.base, &r->ordinary);
	if (err)
		ori_log(ORI_LOG_WARN, "%s: cannot deregister memory", n->v.name);
	free(r);
}
