/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/buffers.c - registered buffers: local memory that ranks may exchange.
 *
 * A range that is registered again is the same buffer with one more reference.  The last release
 * ends the buffer.  After the exchange each rank has the buffers of mapped peers in its address
 * space, and the keys of the buffers of queued peers.
 *
 * Called on user threads; takes the comm's lock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "buffers.h"
#include "failure.h"
#include "imports.h"
#include "memory.h"
#include "object.h"
#include "settle.h"
#include "sources.h"

struct oriel_buffer {
	struct ori_child child; /* first: destroy.c destroys through it */
	struct oriel_comm *comm;
	void *ptr;
	size_t bytes;
	uint64_t identity;            /* of its memory; 0: the device knows none */
	int refs;                     /* registrations by the user, under the comm's lock */
	int users;                    /* requests of layers above, under the comm's lock */
	struct ori_memory *memory;    /* NULL: not from oriel_alloc */
	void **mapped;                /* [nranks] after exchange */
	struct ori_import **imports;  /* [nranks] after exchange */
	struct oriel_remote *remotes; /* [nranks] after exchange */
	int has_remote_key, has_local_key;
	uint32_t remote_key[ORIEL_NICS_MAX]; /* for peers; made by the first exchange */
	struct ori_engine_blob tell;         /* what peers must know besides the keys */
	uint32_t local_key[ORIEL_NICS_MAX];  /* this rank's own keys; under the comm's lock */
};

/* What a rank sends in an exchange. */
struct exchange_record {
	struct ori_export export;
	uint32_t key[ORIEL_NICS_MAX];
	struct ori_engine_blob tell;
};

static int is_queued(const struct oriel_buffer *b, int rank)
{
	return b->comm->peers[rank].pair.kind == ORIEL_PEER_QUEUED;
}

static void forget_peers(struct oriel_buffer *b)
{
	struct oriel_remote *remotes;

	pthread_mutex_lock(&b->comm->lock); /* name_buffer() reads b->remotes */
	remotes = b->remotes;
	b->remotes = NULL;
	pthread_mutex_unlock(&b->comm->lock);
	for (int r = 0; b->imports && r < b->comm->nranks; r++) {
		ori_import_drop(b->comm, b->imports[r]);
		if (remotes && is_queued(b, r))
			ori_peer_memory_forget(b->comm, r, remotes[r].key);
	}
	free(b->imports);
	free(b->mapped);
	free(remotes);
	b->imports = NULL;
	b->mapped = NULL;
}

static int name_buffer(const struct ori_child *child, int rank, uint32_t nic, uint32_t key,
		       uint64_t address, char *out, size_t bytes)
{
	const struct oriel_buffer *b = (const struct oriel_buffer *)child;
	const struct oriel_remote *theirs = b->remotes ? &b->remotes[rank] : NULL;

	if (!theirs || !is_queued(b, rank) || !key || theirs->key[nic] != key)
		return 0;
	snprintf(out, bytes, "offset %llu of an exchanged buffer, which has %llu bytes",
		 (unsigned long long)(address - theirs->address),
		 (unsigned long long)theirs->bytes);
	return 1;
}

static void destroy_buffer(struct ori_child *child)
{
	struct oriel_buffer *b = (struct oriel_buffer *)child;

	ori_live_remove(b);
	forget_peers(b);
	if (b->has_remote_key)
		ori_unregister(b->comm, b->remote_key);
	if (b->has_local_key)
		ori_unregister(b->comm, b->local_key);
	ori_memory_unuse(b->comm, b->memory);
	free(b);
}

/* Lock held.  A buffer with the same range and, as far as the device knows, the same memory. */
static struct oriel_buffer *find_buffer(struct oriel_comm *c, const struct oriel_buffer *like)
{
	for (struct ori_child *child = c->children; child; child = child->next) {
		struct oriel_buffer *b = (struct oriel_buffer *)child;

		if (child->destroy == destroy_buffer && b->refs && b->ptr == like->ptr &&
		    b->bytes == like->bytes && b->identity == like->identity)
			return b;
	}
	return NULL;
}

static int new_buffer(struct oriel_comm *c, void *ptr, size_t bytes, struct oriel_buffer **out)
{
	struct oriel_buffer *b = calloc(1, sizeof(*b));
	struct ori_identity now;
	int err;

	if (!b)
		return ori_fail(ORIEL_ENOMEM, "oriel_buffer_register: no memory");
	c->device->ops->identify(c->device, ptr, &now);
	b->identity = now.number;
	b->child.destroy = destroy_buffer;
	b->child.name = name_buffer;
	b->comm = c;
	b->ptr = ptr;
	b->bytes = bytes;
	b->refs = 1;
	err = ori_live_add(b, ORI_LIVE_BUFFER);
	if (err) {
		free(b);
		return err;
	}
	b->memory = ori_memory_use(c, ptr, bytes);
	*out = b;
	return 0;
}

int oriel_buffer_register(struct oriel_comm *c, void *ptr, size_t bytes, struct oriel_buffer **out)
{
	struct oriel_buffer *made = NULL, *there;
	int err = ori_comm_check(c, "oriel_buffer_register");

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	if (!ptr || !bytes || !out)
		return ori_fail(ORIEL_EINVAL, "oriel_buffer_register: %s",
				!ptr   ? "null pointer" :
				!bytes ? "0 bytes" :
					 "no place for the buffer");
	err = ori_memory_check(c, "oriel_buffer_register", ptr, bytes);
	if (err)
		return err;
	err = new_buffer(c, ptr, bytes, &made);
	if (err)
		return err;
	/* One lock for search and insertion: two threads that register a range get one buffer. */
	pthread_mutex_lock(&c->lock);
	there = find_buffer(c, made);
	if (there) {
		there->refs++;
	} else {
		made->child.next = c->children;
		c->children = &made->child;
	}
	pthread_mutex_unlock(&c->lock);
	if (there)
		destroy_buffer(&made->child);
	*out = there ? there : made;
	return 0;
}

/* Registers once per buffer: keys that peers have stay valid after later exchanges. */
static int register_buffer(struct oriel_buffer *b, struct exchange_record *mine)
{
	int err = 0;

	if (!b->has_remote_key) {
		err = ori_register_remote(b->comm, b->ptr, b->bytes, &mine->export, b->remote_key,
					  &b->tell);
		b->has_remote_key = !err;
	}
	memcpy(mine->key, b->remote_key, sizeof(mine->key));
	mine->tell = b->tell;
	return err;
}

static int map_peers(struct oriel_buffer *b, const struct exchange_record *all)
{
	struct oriel_comm *c = b->comm;
	int err = 0;

	b->mapped = calloc((size_t)c->nranks, sizeof(*b->mapped));
	b->imports = calloc((size_t)c->nranks, sizeof(*b->imports));
	b->remotes = calloc((size_t)c->nranks, sizeof(*b->remotes));
	if (!b->mapped || !b->imports || !b->remotes)
		return ori_fail(ORIEL_ENOMEM, "oriel_buffer_exchange: no memory");
	for (int r = 0; !err && r < c->nranks; r++) {
		b->remotes[r].address = all[r].export.address & ORI_IOVA_MASK;
		b->remotes[r].bytes = all[r].export.bytes;
		memcpy(b->remotes[r].key, all[r].key, sizeof(all[r].key));
		if (is_queued(b, r))
			err = ori_peer_memory(c, r, all[r].key, &all[r].tell);
		else
			err = ori_import_range(c, r, &all[r].export, &b->mapped[r], &b->imports[r]);
	}
	return err;
}

static int is_held(struct oriel_buffer *b)
{
	int users;

	pthread_mutex_lock(&b->comm->lock);
	users = b->users;
	pthread_mutex_unlock(&b->comm->lock);
	return users > 0;
}

int oriel_buffer_exchange(struct oriel_comm *c, struct oriel_buffer *b)
{
	struct exchange_record mine = { 0 }, *all;
	int status, err = ori_comm_check(c, "oriel_buffer_exchange");

	if (!err)
		err = ori_comm_failed(c);
	if (err)
		return err;
	ori_comm_call_begin(c, ORI_CALL_BUFFER_EXCHANGE);
	status = ori_live_check(b, ORI_LIVE_BUFFER, "oriel_buffer_exchange");
	if (!status && b->comm != c)
		status = ori_fail(ORIEL_EINVAL, "oriel_buffer_exchange: buffer of another comm");
	if (!status && is_held(b))
		status = ori_fail(ORIEL_EBUSY, "oriel_buffer_exchange: requests use the buffer");
	if (!status && !b->memory)
		status = ori_memory_adopt(c, b->ptr, b->bytes, &b->memory);
	if (!status)
		status = ori_memory_export(c, b->ptr, b->bytes, b->memory, &mine.export);
	if (!status)
		status = register_buffer(b, &mine);
	all = calloc((size_t)c->nranks, sizeof(*all));
	if (!status && !all)
		status = ori_fail(ORIEL_ENOMEM, "oriel_buffer_exchange: no memory");
	err = ori_comm_agree(c, status, &mine, all, all ? sizeof(mine) : 0);
	if (err)
		goto out;
	forget_peers(b); /* of an earlier exchange */
	status = map_peers(b, all);
	err = ori_comm_agree(c, status, NULL, NULL, 0);
	if (err)
		forget_peers(b);
out:
	free(all);
	return err;
}

void *oriel_buffer_mapped(struct oriel_buffer *b, int rank)
{
	if (ori_live_check(b, ORI_LIVE_BUFFER, "oriel_buffer_mapped"))
		return NULL;
	if (ori_comm_check_rank(b->comm, rank, "oriel_buffer_mapped"))
		return NULL;
	return b->mapped ? b->mapped[rank] : NULL;
}

int oriel_buffer_remote(struct oriel_buffer *b, int rank, struct oriel_remote *out)
{
	int err = ori_live_check(b, ORI_LIVE_BUFFER, "oriel_buffer_remote");

	if (!err)
		err = ori_comm_check_rank(b->comm, rank, "oriel_buffer_remote");
	if (err)
		return err;
	if (!out || !b->remotes)
		return ori_fail(ORIEL_EINVAL, "oriel_buffer_remote: %s",
				out ? "the buffer was not exchanged" : "no place for the answer");
	if (b->comm->peers[rank].pair.kind != ORIEL_PEER_QUEUED)
		return ori_fail(ORIEL_ENOTCONN,
				"oriel_buffer_remote: rank %d is not a queued peer of rank %d; "
				"oriel_buffer_mapped() reaches it",
				rank, b->comm->rank);
	*out = b->remotes[rank];
	return 0;
}

/*
 * Registers the buffer under its real addresses.  A companion queue may count into the buffer
 * through the loopback, so the key needs the access rights of a remote peer.
 */
static int register_local(struct oriel_buffer *b, uint32_t key[ORIEL_NICS_MAX])
{
	struct ori_engine *e = b->comm->engine;
	struct ori_engine_memory memory = {
		.base = b->ptr, .iova = (uint64_t)(uintptr_t)b->ptr, .bytes = b->bytes, .remote = 1
	};
	struct ori_device *device = b->comm->device;

	if (!e)
		return 0;
	memory.device = device->ops->holds(device, b->ptr);
	/* Engines of peers do not map memory that the user allocated: describe() in sources.c. */
	if (b->memory && !b->memory->allocation.identity) {
		memory.export_id = b->memory->id;
		memory.export_offset =
			(uint64_t)((char *)b->ptr - (char *)b->memory->allocation.base);
	}
	return e->ops->memory_add(e, &memory, key, NULL);
}

/*
 * If two threads register at the same time, the first key stays.  The lock is not held meanwhile:
 * a thread that drives the engine may need it.
 */
static int keep_local_key(struct oriel_buffer *b)
{
	uint32_t key[ORIEL_NICS_MAX] = { 0 };
	int there, err;

	pthread_mutex_lock(&b->comm->lock);
	there = b->has_local_key;
	pthread_mutex_unlock(&b->comm->lock);
	if (there)
		return 0;
	err = register_local(b, key);
	if (err)
		return err;
	pthread_mutex_lock(&b->comm->lock);
	there = b->has_local_key;
	if (!there)
		memcpy(b->local_key, key, sizeof(key));
	b->has_local_key = 1;
	pthread_mutex_unlock(&b->comm->lock);
	if (there)
		ori_unregister(b->comm, key);
	return 0;
}

int oriel_buffer_source(struct oriel_buffer *b, struct oriel_source *out)
{
	int err = ori_live_check(b, ORI_LIVE_BUFFER, "oriel_buffer_source");

	if (err)
		return err;
	if (!out)
		return ori_fail(ORIEL_EINVAL, "oriel_buffer_source: no place for the answer");
	err = keep_local_key(b);
	if (err)
		return err;
	out->address = (uint64_t)(uintptr_t)b->ptr;
	out->bytes = b->bytes;
	memcpy(out->key, b->local_key, sizeof(out->key));
	return 0;
}

/* The buffer has left the list and has no users. */
static int end_buffer(struct oriel_buffer *b)
{
	int err = 0;

	ori_attachments_forget(b->comm, b);
	if (b->has_local_key || b->has_remote_key || b->mapped)
		err = ori_comm_settle(b->comm);
	destroy_buffer(&b->child);
	return err;
}

int oriel_buffer_release(struct oriel_buffer *b)
{
	int last, gone, err;

	if (!b)
		return 0;
	err = ori_live_check(b, ORI_LIVE_BUFFER, "oriel_buffer_release");
	/* A stale handle means that the last release has been made. */
	if (err == ORIEL_ESTALE)
		return ori_fail(ORIEL_EINVAL,
				"oriel_buffer_release: released more often than registered");
	if (err)
		return err;
	ori_attachments_reap(b->comm);
	/* Under one lock: no thread finds a buffer in the list that has no references. */
	pthread_mutex_lock(&b->comm->lock);
	last = --b->refs == 0;
	gone = last && !b->users;
	if (gone)
		ori_child_unlink(b->comm, &b->child);
	b->child.along = last;
	pthread_mutex_unlock(&b->comm->lock);
	if (last)
		ori_live_remove(b);
	return gone ? end_buffer(b) : 0;
}

/* ---- for layers above ----------------------------------------------------------------------- */

void ori_buffer_hold(struct oriel_buffer *b)
{
	pthread_mutex_lock(&b->comm->lock);
	b->users++;
	pthread_mutex_unlock(&b->comm->lock);
}

void ori_buffer_unhold(struct oriel_buffer *b)
{
	int gone;

	pthread_mutex_lock(&b->comm->lock);
	gone = --b->users == 0 && !b->refs;
	if (gone)
		ori_child_unlink(b->comm, &b->child);
	pthread_mutex_unlock(&b->comm->lock);
	if (gone)
		(void)end_buffer(b);
}

int ori_buffer_is_exchanged(struct oriel_buffer *b)
{
	return b->mapped != NULL;
}

size_t ori_buffer_range(struct oriel_buffer *b, void **ptr)
{
	*ptr = b->ptr;
	return b->bytes;
}

struct oriel_comm *ori_buffer_comm(struct oriel_buffer *b)
{
	return b->comm;
}

struct oriel_buffer *ori_buffer_covering(struct oriel_comm *c, const void *ptr, size_t bytes)
{
	uintptr_t begin = (uintptr_t)ptr, base;
	struct oriel_buffer *found = NULL;

	pthread_mutex_lock(&c->lock);
	for (struct ori_child *child = c->children; child && !found; child = child->next) {
		struct oriel_buffer *b = (struct oriel_buffer *)child;

		if (child->destroy != destroy_buffer || !b->refs || !b->mapped)
			continue;
		base = (uintptr_t)b->ptr;
		if (begin >= base && begin - base <= b->bytes && bytes <= b->bytes - (begin - base))
			found = b;
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}
