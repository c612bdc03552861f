/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/memory.c - memory that this rank allocates so that peers can map it.
 *
 * Owns the list of allocations and the count of their users.  Does not wait: a caller that ends
 * memory settles the comm first (settle.c).  Called on user threads; takes the comm's lock.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gone.h"
#include "memory.h"
#include "object.h"
#include "passing.h"
#include "registrations.h"

static void enlist(struct oriel_comm *c, struct ori_memory *m)
{
	pthread_mutex_lock(&c->lock);
	m->next = c->memories;
	c->memories = m;
	pthread_mutex_unlock(&c->lock);
}

/* Did kernels that may use this comm's memory miss the deadline?  They may still run. */
static int is_overdue(const struct oriel_comm *c)
{
	return __atomic_load_n(&c->overdue, __ATOMIC_RELAXED) != 0;
}

static void give_back(const struct oriel_comm *c, struct ori_memory *m)
{
	if (m->host)
		c->device->ops->free_host(c->device, &m->allocation, c->quiet);
	else if (is_overdue(c))
		ori_log(ORI_LOG_WARN,
			"%zu bytes of device memory are never given back: kernels still run",
			m->allocation.bytes);
	else
		c->device->ops->free(c->device, &m->allocation);
}

static int make(struct oriel_comm *c, size_t bytes, int host, struct ori_memory **out)
{
	struct ori_memory *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return ori_fail(ORIEL_ENOMEM, "no memory for an allocation's record");
	m->host = host;
	m->asked = bytes;
	if (host)
		err = c->device->ops->alloc_host(c->device, bytes, &m->allocation);
	else
		err = c->device->ops->alloc(c->device, bytes, &m->allocation);
	if (err)
		goto err_record;
	err = ori_passing_offer(c->passing, &m->allocation, &m->id);
	if (err)
		goto err_allocation;
	enlist(c, m);
	*out = m;
	return 0;

err_allocation:
	give_back(c, m);
err_record:
	free(m);
	return err;
}

int ori_memory_alloc(struct oriel_comm *c, size_t bytes, struct ori_memory **out)
{
	return make(c, bytes, 0, out);
}

int ori_memory_alloc_host(struct oriel_comm *c, size_t bytes, struct ori_memory **out)
{
	return make(c, bytes, 1, out);
}

/*
 * Offers device memory that the user allocated, whole, so that peers can map it.  The record has
 * one user and is freed with it.
 */
static int describe(struct oriel_comm *c, const void *ptr, size_t bytes, struct ori_memory **out)
{
	struct ori_memory *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return ori_fail(ORIEL_ENOMEM, "no memory for an allocation's record");
	m->described = m->owned = m->users = 1;
	err = c->device->ops->describe(c->device, ptr, bytes, &m->allocation);
	if (err)
		goto err_record;
	/*
	 * Without an identity, this memory cannot be distinguished from later memory at the same
	 * address.  So each user describes it again.
	 */
	if (!m->allocation.identity)
		m->allocation.identity = ORI_IDENTITY_NEVER;
	err = ori_passing_offer(c->passing, &m->allocation, &m->id);
	if (err)
		goto err_description;
	enlist(c, m);
	*out = m;
	return 0;

err_description:
	c->device->ops->forget(c->device, &m->allocation);
err_record:
	free(m);
	return err;
}

/* Memory that another comm of this process allocated; it keeps the name that it has there. */
static int borrow(struct oriel_comm *c, const void *ptr, size_t bytes, struct ori_memory **out)
{
	struct ori_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return ori_fail(ORIEL_ENOMEM, "no memory for an allocation's record");
	if (ori_passing_find_range(c->passing, ptr, bytes, &m->id, &m->allocation)) {
		free(m);
		return 0;
	}
	m->borrowed = m->owned = m->users = 1;
	enlist(c, m);
	*out = m;
	return 0;
}

/* Does a rank in another process map memory of this rank? */
static int must_export(const struct oriel_comm *c)
{
	for (int r = 0; r < c->nranks; r++)
		if (c->peers[r].pair.kind == ORIEL_PEER_MAPPED && !c->peers[r].same_process)
			return 1;
	return 0;
}

int ori_memory_adopt(struct oriel_comm *c, const void *ptr, size_t bytes, struct ori_memory **out)
{
	int err;

	*out = ori_memory_use(c, ptr, bytes);
	/* engines of queued peers never map memory that the user allocated: sources.c */
	if (*out || !c->device->separate || !must_export(c) ||
	    !c->device->ops->holds(c->device, ptr))
		return 0;
	err = borrow(c, ptr, bytes, out);
	return err || *out ? err : describe(c, ptr, bytes, out);
}

static void unlist(struct oriel_comm *c, struct ori_memory *m)
{
	/* Before ori_gone_tell(): a peer that still gets it hears later that it is gone. */
	if (!m->borrowed)
		ori_passing_withdraw(c->passing, m->id);
	pthread_mutex_lock(&c->lock);
	/* Control memory ends with the comm, and it contains the words of ori_gone_tell(). */
	if (m != c->slab_memory && m != c->near_memory)
		ori_gone_tell(c, m->id);
	for (struct ori_memory **at = &c->memories; *at; at = &(*at)->next)
		if (*at == m) {
			*at = m->next;
			break;
		}
	pthread_mutex_unlock(&c->lock);
}

void ori_memory_free(struct oriel_comm *c, struct ori_memory *m)
{
	if (m->described || m->borrowed) {
		unlist(c, m);
		if (m->described)
			c->device->ops->forget(c->device, &m->allocation);
		free(m);
		return;
	}
	ori_sources_drop(c, m->allocation.base, m->allocation.bytes);
	unlist(c, m);
	give_back(c, m);
	free(m);
}

/* Are other ranks threads of this process?  They store to this rank's addresses themselves. */
static int is_shared(const struct oriel_comm *c)
{
	int shared = 0;

	for (int r = 0; r < c->nranks; r++)
		shared |= r != c->rank && c->peers[r].same_process;
	return shared;
}

void ori_memory_abandon(struct oriel_comm *c, struct ori_memory *m)
{
	/* free_host() itself keeps the address of host memory, because c->quiet is 0 */
	if (!is_shared(c) || m->described || m->borrowed || m->host) {
		ori_memory_free(c, m);
		return;
	}
	unlist(c, m);
	if (!is_overdue(c))
		c->device->ops->discard(c->device, &m->allocation, 0, m->allocation.bytes);
	if (m->allocation.fd >= 0)
		close(m->allocation.fd);
	free(m);
}

int ori_memory_detach(struct oriel_comm *c, struct ori_memory *m, int failed,
		      struct ori_allocation *out)
{
	unlist(c, m);
	*out = m->allocation;
	free(m);
	if (is_overdue(c))
		return ORI_DETACHED_BUSY;
	return failed && is_shared(c) ? ORI_DETACHED_SHARED : ORI_DETACHED_FREE;
}

void ori_memory_end(struct oriel_comm *c, struct ori_memory *m)
{
	if (ori_comm_has_failed(c))
		ori_memory_abandon(c, m);
	else
		ori_memory_free(c, m);
}

static int is_other(const struct ori_memory *m, const struct ori_identity *now)
{
	return m->allocation.identity && m->allocation.identity != now->number;
}

struct ori_memory *ori_memory_use(struct oriel_comm *c, const void *ptr, size_t bytes)
{
	uintptr_t begin = (uintptr_t)ptr;
	struct ori_identity now;
	struct ori_memory *m;

	c->device->ops->identify(c->device, ptr, &now);
	pthread_mutex_lock(&c->lock);
	for (m = c->memories; m; m = m->next) {
		uintptr_t base = (uintptr_t)m->allocation.base;

		/* the user may have freed described memory and allocated other memory there */
		if (is_other(m, &now))
			continue;
		if (m->users >= 0 && begin >= base && begin - base <= m->allocation.bytes &&
		    bytes <= m->allocation.bytes - (begin - base))
			break;
	}
	if (m)
		m->users++;
	pthread_mutex_unlock(&c->lock);
	return m;
}

void ori_memory_unuse(struct oriel_comm *c, struct ori_memory *m)
{
	int last;

	if (!m)
		return;
	pthread_mutex_lock(&c->lock);
	last = --m->users == 0 && m->owned;
	pthread_mutex_unlock(&c->lock);
	if (last)
		ori_memory_end(c, m);
}

/* Lock held.  The allocation of oriel_alloc at `ptr`, or NULL. */
static struct ori_memory *find_allocated(const struct oriel_comm *c, const void *ptr)
{
	struct ori_memory *m;

	for (m = c->memories; m; m = m->next)
		if (m->allocation.base == ptr && m != c->slab_memory && m != c->near_memory &&
		    !m->owned)
			break;
	return m;
}

int ori_memory_keep(struct oriel_comm *c, const char *call, const void *ptr,
		    struct oriel_memory *kept, struct ori_memory **out)
{
	struct ori_memory *m;
	int busy;

	pthread_mutex_lock(&c->lock);
	m = find_allocated(c, ptr);
	busy = m && (m->kept || m->users < 0);
	if (m && !busy)
		m->kept = kept;
	pthread_mutex_unlock(&c->lock);
	if (!m)
		return ori_fail(ORIEL_EINVAL, "%s: %p is not from oriel_alloc", call, ptr);
	if (busy)
		return ori_fail(ORIEL_EBUSY, "%s: %p is already kept or being freed", call, ptr);
	*out = m;
	return 0;
}

int ori_memory_is_kept(struct oriel_comm *c, const void *ptr)
{
	const struct ori_memory *m;
	int kept;

	pthread_mutex_lock(&c->lock);
	m = find_allocated(c, ptr);
	kept = m && m->kept;
	pthread_mutex_unlock(&c->lock);
	return kept;
}

int ori_memory_claim(struct oriel_comm *c, const char *call, const void *ptr,
		     struct ori_memory **out)
{
	struct ori_memory *m;
	int users = 0;

	pthread_mutex_lock(&c->lock);
	m = find_allocated(c, ptr);
	if (m) {
		users = m->users;
		if (!users)
			m->users = -1; /* ori_memory_use() skips it */
	}
	pthread_mutex_unlock(&c->lock);
	if (!m)
		return ori_fail(ORIEL_EINVAL, "%s: %p is not from oriel_alloc", call, ptr);
	if (users)
		return ori_fail(ORIEL_EBUSY, "%s: %p is used by %d windows or buffers", call, ptr,
				users);
	*out = m;
	return 0;
}

void ori_memory_unclaim(struct oriel_comm *c, struct ori_memory *m)
{
	pthread_mutex_lock(&c->lock);
	m->users = 0;
	pthread_mutex_unlock(&c->lock);
}

/*
 * Finds an allocation that contains a part of the range but not all of it.  An allocation of this
 * comm has the bytes that the user asked for; one of another comm has whole pages.
 */
static int find_left(struct oriel_comm *c, const void *ptr, size_t bytes, void **base, size_t *left)
{
	uintptr_t begin = (uintptr_t)ptr, end = begin + bytes;
	struct ori_allocation other;
	struct ori_memory *m;

	pthread_mutex_lock(&c->lock);
	for (m = c->memories; m; m = m->next) {
		uintptr_t at = (uintptr_t)m->allocation.base;

		if (m->asked && begin < at + m->allocation.bytes && end > at &&
		    (begin < at || end > at + m->asked))
			break;
	}
	if (m) {
		*base = m->allocation.base;
		*left = m->asked;
	}
	pthread_mutex_unlock(&c->lock);
	if (m || !ori_passing_find_left(c->passing, ptr, bytes, &other))
		return m != NULL;
	*base = other.base;
	*left = other.bytes;
	return 1;
}

int ori_memory_check(struct oriel_comm *c, const char *call, const void *ptr, size_t bytes)
{
	size_t left;
	void *base;

	if (bytes > UINTPTR_MAX - (uintptr_t)ptr)
		return ori_fail(ORIEL_ERANGE, "%s: %zu bytes at %p pass the last address", call,
				bytes, ptr);
	if (find_left(c, ptr, bytes, &base, &left))
		return ori_fail(ORIEL_ERANGE,
				"%s: %zu bytes at %p leave their memory: oriel_alloc gave %zu "
				"bytes at %p",
				call, bytes, ptr, left, base);
	if (!c->device->ops->is_memory(c->device, ptr, bytes))
		return ori_fail(ORIEL_EINVAL,
				"%s: not all of %zu bytes at %p are memory of this process", call,
				bytes, ptr);
	return 0;
}

void ori_memory_export_far(const struct ori_allocation *a, struct ori_export *out)
{
	out->far = (a->kind == ORI_EXPORT_CUDA_FD || a->kind == ORI_EXPORT_CUDA_FABRIC) && a->far;
	if (out->far)
		memcpy(out->handle, a->handle, sizeof(out->handle));
}

/* Can every mapped peer map it?  exported: other processes can.  far: other hosts can. */
static int check_reach(const struct oriel_comm *c, const void *ptr, int exported, int far)
{
	for (int r = 0; r < c->nranks; r++) {
		const struct ori_peer *p = &c->peers[r];

		if (p->pair.kind != ORIEL_PEER_MAPPED || p->same_process)
			continue;
		if (!exported)
			return ori_fail(ORIEL_EEXPORT,
					"memory at %p cannot be mapped by rank %d, which is "
					"another process: allocate it with oriel_alloc",
					ptr, r);
		if (p->far && !far)
			return ori_fail(ORIEL_EEXPORT,
					"memory at %p cannot be mapped by rank %d, which is on "
					"another host of the NVLink fabric: allocate it with "
					"oriel_alloc",
					ptr, r);
	}
	return 0;
}

int ori_memory_export(struct oriel_comm *c, const void *ptr, size_t bytes,
		      const struct ori_memory *m, struct ori_export *out)
{
	memset(out, 0, sizeof(*out));
	out->address = (uint64_t)(uintptr_t)ptr;
	out->bytes = bytes;
	if (m) {
		out->id = m->id;
		out->offset = (uint64_t)((uintptr_t)ptr - (uintptr_t)m->allocation.base);
		out->allocation_bytes = m->allocation.bytes;
		ori_memory_export_far(&m->allocation, out);
	}
	return bytes ? check_reach(c, ptr, m != NULL, out->far != 0) : 0;
}
