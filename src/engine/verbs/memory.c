/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/memory.c - registered memory: of the host, and of a GPU by dma-buf or by the
 * driver's peer memory.
 *
 * Owns the list of regions.  Called under the engine's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../util/util.h"
#include "verbs.h"

static int access_of(const struct verbs_fabric *f, const struct ori_engine_memory *m)
{
	int access = IBV_ACCESS_LOCAL_WRITE;

	if (!m->remote)
		return access;
	access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	if (f->base.link_flags & ORIEL_LINK_ATOMICS)
		access |= IBV_ACCESS_REMOTE_ATOMIC;
	return access;
}

static struct ibv_mr *add_host(struct verbs_fabric *f, const struct ori_engine_memory *m)
{
	struct ibv_mr *mr = f->lib->mr_add(f->pd, m->base, m->bytes, access_of(f, m));

	/* A source may be read-only memory, such as a program's constants. */
	if (!mr && !m->remote && (errno == EFAULT || errno == EACCES || errno == EPERM))
		mr = f->lib->mr_add(f->pd, m->base, m->bytes, 0);
	return mr;
}

/* ---- GPU memory ------------------------------------------------------------------------------ */

struct ibv_mr *verbs_dmabuf_add(struct verbs_fabric *f, const struct ori_engine_memory *m,
				uint64_t iova)
{
	struct ibv_mr *mr;
	uint64_t offset = 0;
	int fd, error;

	errno = EOPNOTSUPP;
	if (!f->world.dmabuf || !f->lib->mr_add_dmabuf)
		return NULL;
	fd = f->world.dmabuf(f->world.ctx, m->base, m->bytes, &offset);
	if (fd < 0) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	mr = f->lib->mr_add_dmabuf(f->pd, offset, m->bytes, iova, fd, access_of(f, m));
	error = errno;
	close(fd); /* the registration keeps its own reference */
	errno = error;
	return mr;
}

/* Logged once, because it decides which drivers a cluster needs. */
void verbs_tell_way(struct verbs_fabric *f, int by_dmabuf, int error)
{
	if (f->told_way)
		return;
	f->told_way = 1;
	if (by_dmabuf)
		ori_log(ORI_LOG_INFO, "%s: GPU memory is registered by dma-buf", f->name);
	else
		ori_log(ORI_LOG_INFO,
			"%s: GPU memory is registered through the driver's peer memory; dma-buf: %s",
			f->name, strerror(error));
}

static struct ibv_mr *add_device(struct verbs_fabric *f, const struct ori_engine_memory *m)
{
	struct ibv_mr *mr = verbs_dmabuf_add(f, m, (uint64_t)(uintptr_t)m->base);
	int error = errno, by_dmabuf = mr != NULL;

	if (!mr)
		mr = f->lib->mr_add(f->pd, m->base, m->bytes, access_of(f, m));
	if (mr)
		verbs_tell_way(f, by_dmabuf, error);
	return mr;
}

/* ---- the table's ----------------------------------------------------------------------------- */

static int explain(const struct verbs_fabric *f, const struct ori_engine_memory *m, int error)
{
	const char *remedy = error == ENOMEM ? ": raise the limit of locked memory (ulimit -l)" :
			     m->device       ? ": GPU memory needs dma-buf or nvidia-peermem" :
					       "";

	return ori_fail_errno(error, "%s: cannot register %llu bytes%s", f->name,
			      (unsigned long long)m->bytes, remedy);
}

int verbs_memory_add(struct ori_fabric *fabric, const struct ori_engine_memory *m,
		     struct ori_fabric_region *out)
{
	struct verbs_fabric *f = (struct verbs_fabric *)fabric;
	struct verbs_region *r = calloc(1, sizeof(*r));

	if (!r)
		return ori_fail(ORIEL_ENOMEM, "no memory to register memory");
	r->mr = m->device ? add_device(f, m) : add_host(f, m);
	if (!r->mr) {
		int error = errno;

		free(r);
		return explain(f, m, error);
	}
	r->next = f->regions;
	r->link = &f->regions;
	if (r->next)
		r->next->link = &r->next;
	f->regions = r;
	out->handle = r;
	out->cookie = r->mr->lkey;
	out->address = (uint64_t)(uintptr_t)m->base;
	out->key = r->mr->rkey;
	return 0;
}

void verbs_memory_remove(struct ori_fabric *fabric, const struct ori_fabric_region *region)
{
	struct verbs_fabric *f = (struct verbs_fabric *)fabric;
	struct verbs_region *r = region->handle;

	if (!r)
		return;
	*r->link = r->next;
	if (r->next)
		r->next->link = r->link;
	if (f->lib->mr_remove(r->mr))
		ori_log(ORI_LOG_WARN, "%s: cannot deregister memory", f->name);
	free(r);
}
