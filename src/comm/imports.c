/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/imports.c - maps peers' memory into this address space, once per allocation.
 *
 * Owns the list of imports and counts their users.  What a peer says about its memory is not
 * trusted: ranges are checked against the size that it names, and the device checks that size
 * against the descriptor.  A rank on this host hands out a descriptor (passing.c).  A rank on
 * another host of the NVLink fabric has sent a fabric handle with its record.
 *
 * Called on user threads, and by the thread that drives the engine; takes the comm's lock.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agree.h"
#include "failure.h"
#include "imports.h"
#include "memory.h"
#include "passing.h"

#define PARTS_MAX 65536u
#define RESOLVE_TIMEOUT_NS 200000000ull /* for the engine */

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

/* A wait for a peer's memory.  It ends at a failure, and logs that the peer is late. */
struct import_wait {
	struct oriel_comm *comm;
	int peer;
	uint64_t start_ns, late_ns; /* late_ns: time of the next warning */
};

static int look(void *ctx)
{
	struct import_wait *w = ctx;
	uint64_t now = ori_now_ns();
	int err = ori_comm_lost(w->comm);

	if (!err && now >= w->late_ns) {
		ori_log(ORI_LOG_WARN, "%s: waiting %.1f s for memory of rank %d",
			ori_call_name(w->comm->call), (double)(now - w->start_ns) * 1e-9, w->peer);
		w->late_ns = now + (uint64_t)(w->comm->config.late * 1e9);
	}
	return err;
}

/* For collective calls: waits until the deadline of the call. */
static int fetch(struct oriel_comm *c, int peer, uint64_t id, struct ori_allocation *theirs)
{
	struct import_wait w = { c, peer, ori_now_ns(), 0 };
	const struct ori_peer *p = &c->peers[peer];
	int err;

	w.late_ns = w.start_ns + (uint64_t)(c->config.late * 1e9);
	/* relaxed: reports of other ranks read it, and it orders nothing */
	__atomic_store_n(&c->fetching, ORI_FETCHING(c->call, peer), __ATOMIC_RELAXED);
	err = ori_passing_fetch(p->socket, p->token, id, ori_comm_call_left_ns(c), look, &w,
				theirs);
	__atomic_store_n(&c->fetching, 0, __ATOMIC_RELAXED);
	if (err == ORIEL_ETIMEDOUT)
		return ori_fail(err, "%s: rank %d has not handed out its memory within %.1f s",
				ori_call_name(c->call), peer,
				(double)(ori_now_ns() - w.start_ns) * 1e-9);
	return err ? ori_fail(err, "cannot map memory of rank %d: %s", peer,
			      ori_last_error_text()) :
		     0;
}

/* For the engine, which must not wait long.  It drops the packet; the sender sends it again. */
static int fetch_soon(struct oriel_comm *c, int peer, uint64_t id, struct ori_allocation *theirs)
{
	const struct ori_peer *p = &c->peers[peer];
	int err = ori_passing_fetch(p->socket, p->token, id, RESOLVE_TIMEOUT_NS, NULL, NULL,
				    theirs);

	if (err == ORIEL_ETIMEDOUT)
		ori_log(ORI_LOG_DEBUG, "memory of rank %d is not mapped yet: %s", peer,
			ori_last_error_text());
	else if (err)
		err = ori_fail(err, "cannot map memory of rank %d: %s", peer,
			       ori_last_error_text());
	return err;
}

static int fetch_one(struct oriel_comm *c, int peer, uint64_t id, int soon,
		     struct ori_allocation *theirs)
{
	return soon ? fetch_soon(c, peer, id, theirs) : fetch(c, peer, id, theirs);
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

/* Asks for each part of memory that consists of several allocations. */
static int fetch_parts(struct oriel_comm *c, int peer, struct ori_allocation *theirs)
{
	struct ori_passing_parts parts;
	uint64_t sum = 0;
	int err = 0;

	theirs->nparts = 0;
	memcpy(&parts, theirs->handle, sizeof(parts));
	if (!parts.count || parts.count > PARTS_MAX)
		return ori_fail(ORIEL_EPROTO, "cannot map memory of rank %d: it has %llu parts",
				peer, (unsigned long long)parts.count);
	theirs->parts = calloc(parts.count, sizeof(*theirs->parts));
	if (!theirs->parts)
		return ori_fail(ORIEL_ENOMEM, "no memory for %llu parts of memory of rank %d",
				(unsigned long long)parts.count, peer);
	while (!err && theirs->nparts < parts.count) {
		struct ori_allocation *part = &theirs->parts[theirs->nparts];

		err = fetch_one(c, peer, parts.first + theirs->nparts, 0, part);
		if (err)
			break;
		sum += part->bytes;
		theirs->nparts++;
		if (part->kind != ORI_EXPORT_CUDA_FD && part->kind != ORI_EXPORT_CUDA_FABRIC)
			err = ori_fail(ORIEL_EPROTO, "memory of rank %d has a part of kind %u",
				       peer, part->kind);
	}
	if (!err && sum != theirs->bytes)
		err = ori_fail(ORIEL_EPROTO, "memory of rank %d: %llu bytes in parts, said %zu",
			       peer, (unsigned long long)sum, theirs->bytes);
	if (err)
		drop_parts(theirs);
	return err;
}

/*
 * Imports a whole allocation of a peer.  `bytes` is the size in the peer's record; 0: there is no
 * record, and the size in its process's answer is used.  `soon`: for the engine.
 */
static int make_import(struct oriel_comm *c, int peer, uint64_t id, uint64_t bytes, int soon,
		       struct ori_import **out)
{
	struct ori_import *i = calloc(1, sizeof(*i));
	int err;

	if (!i)
		return ori_fail(ORIEL_ENOMEM, "no memory for an import's record");
	i->theirs.fd = -1;
	err = fetch_one(c, peer, id, soon, &i->theirs);
	/*
	 * The engine's thread must not make thousands of requests.  A correct peer never gives its
	 * NIC a name of such memory.
	 */
	if (!err && soon && i->theirs.kind == ORI_EXPORT_CUDA_PARTS)
		err = ori_fail(ORIEL_EPROTO, "rank %d gave its NIC the name of memory in parts",
			       peer);
	else if (!err && i->theirs.kind == ORI_EXPORT_CUDA_PARTS)
		err = fetch_parts(c, peer, &i->theirs);
	if (err)
		goto err_descriptor;
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
	goto err_record;
err_descriptor:
	if (i->theirs.fd >= 0)
		close(i->theirs.fd);
err_record:
	free(i);
	return err;
}

/* The same for a rank on another host: its export contains the fabric handle. */
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
			err = make_import(c, peer, e->id, e->allocation_bytes, 0, import);
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

void ori_imports_unmap(struct ori_import *dropped)
{
	while (dropped) {
		struct ori_import *i = dropped;

		dropped = i->next;
		i->device->ops->unimport(i->device, &i->theirs, i->base);
		drop_parts(&i->theirs);
		free(i);
	}
}

/* Lock held.  Removes a user.  Without users the import moves from the list to *dropped. */
static void unuse(struct oriel_comm *c, struct ori_import *import, struct ori_import **dropped)
{
	struct ori_import **at = &c->imports;

	if (--import->users)
		return;
	while (*at != import)
		at = &(*at)->next;
	*at = import->next;
	import->next = *dropped;
	*dropped = import;
}

void ori_import_drop(struct oriel_comm *c, struct ori_import *import)
{
	struct ori_import *dropped = NULL;

	if (!import)
		return;
	pthread_mutex_lock(&c->lock);
	unuse(c, import, &dropped);
	pthread_mutex_unlock(&c->lock);
	ori_imports_unmap(dropped);
}

static void take(struct oriel_comm *c, int peer, int all, uint64_t id, struct ori_import **dropped)
{
	struct ori_import *i, *next;

	pthread_mutex_lock(&c->lock);
	for (i = c->imports; i; i = next) {
		next = i->next;
		if (i->peer != peer || !i->kept || (!all && i->id != id))
			continue;
		i->kept = 0;
		unuse(c, i, dropped);
	}
	pthread_mutex_unlock(&c->lock);
}

void ori_imports_take(struct oriel_comm *c, int peer, uint64_t id, struct ori_import **dropped)
{
	take(c, peer, 0, id, dropped);
}

void ori_imports_take_all(struct oriel_comm *c, int peer, struct ori_import **dropped)
{
	take(c, peer, 1, 0, dropped);
}

/*
 * An import made here stays until the owner frees the memory.  So later packets that name it cost
 * only a search in the list.
 */
static struct ori_import *find_or_import(struct oriel_comm *c, int peer, uint64_t id)
{
	struct ori_import *i;

	pthread_mutex_lock(&c->lock);
	for (i = c->imports; i; i = i->next)
		if (i->peer == peer && i->id == id)
			break;
	pthread_mutex_unlock(&c->lock);
	if (i)
		return i;
	if (make_import(c, peer, id, 0, 1, &i))
		return NULL;
	pthread_mutex_lock(&c->lock);
	i->kept = 1;
	pthread_mutex_unlock(&c->lock);
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
