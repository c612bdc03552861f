/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/imports.c - peers' memory in this address space: mapped once an allocation, counted.
 *
 * What a peer says about its memory is untrusted: ranges are tested against the size it names and the
 * device tests that against the descriptor.  A rank of this host is asked for its descriptor
 * (passing.c); a rank of another host of the NVLink fabric has sent a fabric handle along.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm.h"
#include "passing.h"

#define PARTS_MAX 65536u
#define RESOLVE_TIMEOUT_NS 200000000ull /* where the engine asks */

static struct ori_import *find_import(struct oriel_comm *c, int peer, uint64_t id)
{
	struct ori_import *i;

	pthread_mutex_lock(&c->lock);
	for (i = c->imports; i; i = i->next)
		if (i->peer == peer && i->id == id) {
			i->users++;
			break;
		}
	pthread_mutex_unlock(&c->lock);
	return i;
}

static void drop_parts(struct ori_allocation *theirs)
{
	for (uint32_t i = 0; i < theirs->nparts; i++)
		if (theirs->parts[i].fd >= 0)
			close(theirs->parts[i].fd);
	free(theirs->parts);
	theirs->parts = NULL;
	theirs->nparts = 0;
}

/* What lies behind memory of several parts: each is asked for. */
static int fetch_parts(struct oriel_comm *c, int peer, uint64_t timeout_ns,
		       struct ori_allocation *theirs)
{
	const struct ori_peer *p = &c->peers[peer];
	uint64_t deadline = ori_deadline_ns(timeout_ns), now, sum = 0;
	struct ori_passing_parts parts;
	int err = 0;

	theirs->nparts = 0;
	memcpy(&parts, theirs->handle, sizeof(parts));
	if (!parts.count || parts.count > PARTS_MAX)
		return ori_fail_silent(ORIEL_EPROTO, "memory of %llu parts",
				       (unsigned long long)parts.count);
	theirs->parts = calloc(parts.count, sizeof(*theirs->parts));
	if (!theirs->parts)
		return ori_fail_silent(ORIEL_ENOMEM, "no memory for %llu parts",
				       (unsigned long long)parts.count);
	while (!err && theirs->nparts < parts.count) {
		struct ori_allocation *part = &theirs->parts[theirs->nparts];

		now = ori_now_ns();
		err = ori_passing_fetch(p->socket, p->token, parts.first + theirs->nparts,
					deadline > now ? deadline - now : 1, part);
		if (err)
			break;
		sum += part->bytes;
		theirs->nparts++;
		if (part->kind != ORI_EXPORT_CUDA_FD && part->kind != ORI_EXPORT_CUDA_FABRIC)
			err = ori_fail_silent(ORIEL_EPROTO, "a part of unknown kind %u",
					      part->kind);
	}
	if (!err && sum != theirs->bytes)
		err = ori_fail_silent(ORIEL_EPROTO, "%llu bytes in parts, said %zu",
				      (unsigned long long)sum, theirs->bytes);
	if (err)
		drop_parts(theirs);
	return err;
}

/* The whole of a peer's allocation; bytes: what the peer said of it, 0: what its process says. */
static int make_import(struct oriel_comm *c, int peer, uint64_t id, uint64_t bytes,
		       uint64_t timeout_ns, struct ori_import **out)
{
	const struct ori_peer *p = &c->peers[peer];
	struct ori_import *i = calloc(1, sizeof(*i));
	int err;

	if (!i)
		return ori_fail(ORIEL_ENOMEM, "no memory for an import's record");
	err = ori_passing_fetch(p->socket, p->token, id, timeout_ns, &i->theirs);
	if (!err && i->theirs.kind == ORI_EXPORT_CUDA_PARTS)
		err = fetch_parts(c, peer, timeout_ns, &i->theirs);
	/* the engine cannot wait: it drops the packet that asks, and that comes again */
	if (err == ORIEL_ETIMEDOUT && timeout_ns == RESOLVE_TIMEOUT_NS) {
		ori_log(ORI_LOG_DEBUG, "memory of rank %d is not mapped yet: %s", peer,
			ori_last_error_text());
		goto err_record;
	}
	if (err) {
		err = ori_fail(err, "cannot map memory of rank %d: %s", peer,
			       ori_last_error_text());
		goto err_record;
	}
	i->peer = peer;
	i->id = id;
	i->users = 1;
	i->device = i->theirs.kind == ORI_EXPORT_HOST_FD ? c->host_device : c->device;
	if (bytes && i->theirs.bytes != bytes)
		err = ori_fail(ORIEL_EPROTO, "rank %d names two sizes for one memory", peer);
	else
		err = i->device->ops->import(i->device, &i->theirs, &i->base);
	if (i->theirs.fd >= 0)
		close(i->theirs.fd);
	i->theirs.fd = -1;
	for (uint32_t n = 0; n < i->theirs.nparts; n++) {
		if (i->theirs.parts[n].fd >= 0)
			close(i->theirs.parts[n].fd);
		i->theirs.parts[n].fd = -1;
	}
	if (err)
		goto err_parts;
	pthread_mutex_lock(&c->lock);
	i->next = c->imports;
	c->imports = i;
	pthread_mutex_unlock(&c->lock);
	*out = i;
	return 0;

err_parts:
	drop_parts(&i->theirs);
err_record:
	free(i);
	return err;
}

/* The same of a rank on another host, whose export has all that is needed. */
static int make_far_import(struct oriel_comm *c, int peer, const struct ori_export *e,
			   struct ori_import **out)
{
	struct ori_import *i;
	int err;

	if (!e->far)
		return ori_fail(ORIEL_EPROTO,
				"rank %d is on another host and sent no fabric handle", peer);
	i = calloc(1, sizeof(*i));
	if (!i)
		return ori_fail(ORIEL_ENOMEM, "no memory for an import's record");
	i->peer = peer;
	i->id = e->id;
	i->users = 1;
	i->device = c->device;
	i->theirs.kind = ORI_EXPORT_CUDA_FABRIC;
	i->theirs.bytes = e->allocation_bytes;
	i->theirs.fd = -1;
	memcpy(i->theirs.handle, e->handle, sizeof(i->theirs.handle));
	err = i->device->ops->import(i->device, &i->theirs, &i->base);
	if (err) {
		free(i);
		return ori_fail(err,
				"cannot map memory of rank %d on %s over the NVLink fabric: %s",
				peer, c->facts[peer].host, ori_last_error_text());
	}
	pthread_mutex_lock(&c->lock);
	i->next = c->imports;
	c->imports = i;
	pthread_mutex_unlock(&c->lock);
	*out = i;
	return 0;
}

int ori_import_range(struct oriel_comm *c, int peer, const struct ori_export *e, void **ptr,
		     struct ori_import **import)
{
	int err;

	*import = NULL;
	if (c->peers[peer].same_process) {
		*ptr = (void *)(uintptr_t)e->address;
		return 0;
	}
	if (e->offset > e->allocation_bytes || e->bytes > e->allocation_bytes - e->offset)
		return ori_fail(ORIEL_EPROTO, "rank %d names a range outside its memory", peer);
	*import = find_import(c, peer, e->id);
	if (!*import) {
		if (c->peers[peer].far)
			err = make_far_import(c, peer, e, import);
		else
			err = make_import(c, peer, e->id, e->allocation_bytes, c->timeout_ns,
					  import);
		if (err)
			return err;
	}
	if ((*import)->theirs.bytes != e->allocation_bytes) {
		ori_import_drop(c, *import);
		*import = NULL;
		return ori_fail(ORIEL_EPROTO, "rank %d names two sizes for one memory", peer);
	}
	*ptr = (char *)(*import)->base + e->offset;
	return 0;
}

void ori_import_drop(struct oriel_comm *c, struct ori_import *import)
{
	int last = 0;

	if (!import)
		return;
	pthread_mutex_lock(&c->lock);
	last = --import->users == 0;
	for (struct ori_import **at = &c->imports; last && *at; at = &(*at)->next)
		if (*at == import) {
			*at = import->next;
			break;
		}
	pthread_mutex_unlock(&c->lock);
	if (!last)
		return;
	import->device->ops->unimport(import->device, &import->theirs, import->base);
	drop_parts(&import->theirs);
	free(import);
}

/*
 * Called by the engine, on whichever thread drives it: short waits only.  An import made here stays until
 * the comm ends, so that later payload of the same memory costs a look into the list.
 */
static struct ori_import *find_or_import(struct oriel_comm *c, int peer, uint64_t id)
{
	struct ori_import *i;

	pthread_mutex_lock(&c->lock);
	for (i = c->imports; i; i = i->next)
		if (i->peer == peer && i->id == id)
			break;
	pthread_mutex_unlock(&c->lock);
	if (!i && make_import(c, peer, id, 0, RESOLVE_TIMEOUT_NS, &i))
		return NULL;
	return i;
}

const void *ori_import_resolve(struct oriel_comm *c, int peer, uint64_t id, uint64_t offset,
			       uint64_t bytes, int *device)
{
	struct ori_allocation a = { 0 };
	struct ori_import *i;

	if (c->peers[peer].same_process) {
		if (ori_passing_find(c->passing, id, &a))
			return NULL;
	} else {
		i = find_or_import(c, peer, id);
		if (!i)
			return NULL;
		a = i->theirs;
		a.base = i->base;
	}
	if (offset > a.bytes || bytes > a.bytes - offset)
		return NULL;
	*device = a.kind != ORI_EXPORT_HOST_FD;
	return (const char *)a.base + offset;
}

void ori_imports_drop_all(struct oriel_comm *c)
{
	while (c->imports) {
		c->imports->users = 1;
		ori_import_drop(c, c->imports);
	}
}
