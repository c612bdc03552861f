/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/registrations.c - memory the engine may touch, and the keys by which WQEs name it.
 *
 * Sources are counted registrations of local memory, found by address in a tree.  One is never
 * given to memory that only has the address of what was registered (docs/decisions/0029).  Memory
 * that peers write to is registered by whoever tells them of it, who keeps the keys.  Without an
 * engine every key is 0.
 */
#include <stdlib.h>
#include <string.h>

#include "comm.h"

/* Identities beside those that a device gives. */
#define OURS (1ull << 63)  /* memory of oriel_alloc, by its id */
#define LASTING UINT64_MAX /* the owner's own memory */

struct ori_registration {
	struct ori_span span; /* first; its name is key[0], which no other one has */
	struct ori_registration **owner, *next, **link; /* the owner's list */
	uint64_t identity; /* of the memory; 0: it cannot be told from what may come after it */
	int refs;
	uint32_t key[ORIEL_NICS_MAX];
};

/* ---- lists; under the comm's lock ------------------------------------------------------------ */

static void enlist(struct ori_registration **list, struct ori_registration *r)
{
	r->next = *list;
	r->link = list;
	if (r->next)
		r->next->link = &r->next;
	*list = r;
}

static void unlist(struct oriel_comm *c, struct ori_registration *r)
{
	ori_span_remove(&c->sources, &r->span);
	*r->link = r->next;
	if (r->next)
		r->next->link = r->link;
	r->owner = NULL;
}

static struct ori_registration *find_key(struct oriel_comm *c, const struct oriel_source *s)
{
	struct ori_span *at = ori_span_at(c->sources, (uintptr_t)s->address, s->key[0]);

	if (!at || at->name != s->key[0] || at->end - at->begin != s->bytes)
		return NULL;
	return (struct ori_registration *)at;
}

/* The same range of the same memory. */
static struct ori_registration *find_same(struct oriel_comm *c, struct ori_registration **owner,
					  uintptr_t begin, size_t bytes, uint64_t identity)
{
	struct ori_span *at = ori_span_at(c->sources, begin, 0);

	while (at && at->begin == begin) {
		struct ori_registration *r = (struct ori_registration *)at;

		if (r->owner == owner && r->identity == identity && at->end - begin == bytes)
			return r;
		at = ori_span_at(c->sources, begin, at->name + 1);
	}
	return NULL;
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void drop_list(struct oriel_comm *c, struct ori_registration *list)
{
	while (list) {
		struct ori_registration *r = list;

		list = r->next;
		ori_unregister(c, r->key);
		free(r);
	}
}

/*
 * Registrations of memory that the user has freed.  Nobody may wait here, but a NIC that sends a
 * message again must find its key: they go when nothing is under way, now or at a later call.
 */
static void reap(struct oriel_comm *c)
{
	struct ori_registration *gone;

	/* taken before the question: what another thread retires meanwhile may be under way */
	pthread_mutex_lock(&c->lock);
	gone = c->retired;
	c->retired = NULL;
	pthread_mutex_unlock(&c->lock);
	if (gone && c->engine->ops->idle(c->engine)) {
		drop_list(c, gone);
		return;
	}
	pthread_mutex_lock(&c->lock);
	while (gone) {
		struct ori_registration *r = gone;

		gone = r->next;
		enlist(&c->retired, r);
	}
	pthread_mutex_unlock(&c->lock);
}

/* Is it of memory that a device tells from all other? */
static int is_device_identity(uint64_t identity)
{
	return identity && !(identity & OURS);
}

/*
 * Sources in allocations that had these addresses before go at the first source in the new one,
 * wherever in it they are: so if one of those that a device tells apart is the new allocation's,
 * all are.  Lock held.
 */
static void retire_others(struct oriel_comm *c, const struct ori_identity *now)
{
	uintptr_t begin = (uintptr_t)now->base, end = begin + now->bytes;
	struct ori_span *at = NULL;

	if (is_device_identity(now->number))
		at = ori_span_overlapping(c->sources, begin, end, NULL);
	while (at) {
		struct ori_registration *r = (struct ori_registration *)at;

		if (r->identity == now->number)
			return;
		at = ori_span_overlapping(c->sources, begin, end, at);
		if (is_device_identity(r->identity)) {
			unlist(c, r);
			enlist(&c->retired, r);
		}
	}
}

/* ---- sources --------------------------------------------------------------------------------- */

/*
 * Returns the memory of oriel_alloc that it is part of, in use; NULL if there is none.  Peers' engines map
 * that and read it themselves.  Other memory goes through this rank's engine: a peer would have to unmap it
 * when the user frees it, and the driver's call that does so waits for kernels, which may wait for that engine.
 */
static struct ori_memory *describe(struct oriel_comm *c, void *ptr, size_t bytes,
				   struct ori_engine_memory *out)
{
	struct ori_memory *m;

	memset(out, 0, sizeof(*out));
	out->base = ptr;
	out->iova = (uint64_t)(uintptr_t)ptr;
	out->bytes = bytes;
	out->device = c->device->ops->holds(c->device, ptr);
	m = ori_memory_use(c, ptr, bytes);
	if (m && (m->described || m->borrowed)) {
		ori_memory_unuse(c, m);
		m = NULL;
	}
	if (!m)
		return NULL;
	out->export_id = m->id;
	out->export_offset = (uint64_t)((char *)ptr - (char *)m->allocation.base);
	return m;
}

static uint64_t identity_of(const struct ori_memory *m, const struct ori_identity *now, int lasting)
{
	if (lasting)
		return LASTING;
	if (m && !m->allocation.identity)
		return OURS | m->id;
	return now->number;
}

static int register_new(struct oriel_comm *c, const struct ori_engine_memory *memory,
			struct ori_registration **out)
{
	struct ori_registration *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return ori_fail(ORIEL_ENOMEM, "no memory to register %llu bytes",
				(unsigned long long)memory->bytes);
	err = c->engine->ops->memory_add(c->engine, memory, r->key, NULL);
	if (err) {
		free(r);
		return err;
	}
	r->span.begin = (uintptr_t)memory->base;
	r->span.end = r->span.begin + memory->bytes;
	r->span.name = r->key[0];
	r->refs = 1;
	*out = r;
	return 0;
}

static struct ori_registration *find_and_count(struct oriel_comm *c,
					       struct ori_registration **owner, uintptr_t begin,
					       size_t bytes, uint64_t identity,
					       struct oriel_source *out)
{
	struct ori_registration *r = NULL;

	pthread_mutex_lock(&c->lock);
	if (identity)
		r = find_same(c, owner, begin, bytes, identity);
	if (r) {
		r->refs++;
		memcpy(out->key, r->key, sizeof(out->key));
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}

int ori_source_take(struct oriel_comm *c, struct ori_registration **owner, void *ptr, size_t bytes,
		    int lasting, struct oriel_source *out)
{
	struct ori_registration *r = NULL;
	struct ori_engine_memory memory;
	struct ori_identity now;
	struct ori_memory *m;
	uint64_t identity;
	int err = 0;

	out->address = (uint64_t)(uintptr_t)ptr;
	out->bytes = bytes;
	memset(out->key, 0, sizeof(out->key));
	if (!c->engine || !bytes)
		return 0;
	m = describe(c, ptr, bytes, &memory);
	c->device->ops->identify(c->device, ptr, &now);
	identity = identity_of(m, &now, lasting);
	if (find_and_count(c, owner, (uintptr_t)ptr, bytes, identity, out))
		goto out_memory;
	err = register_new(c, &memory, &r);
	if (err)
		goto out_memory;
	memcpy(out->key, r->key, sizeof(out->key));
	r->identity = identity;
	r->owner = owner;
	pthread_mutex_lock(&c->lock);
	retire_others(c, &now);
	ori_span_add(&c->sources, &r->span);
	enlist(owner, r);
	pthread_mutex_unlock(&c->lock);
out_memory:
	/* it may be freed while it is registered, and takes this along then */
	ori_memory_unuse(c, m);
	reap(c);
	return err;
}

int ori_source_give(struct oriel_comm *c, struct ori_registration **owner,
		    const struct oriel_source *s)
{
	struct ori_registration *r;
	int last = 0, err;

	if (!c->engine || !s->bytes)
		return 0;
	pthread_mutex_lock(&c->lock);
	r = find_key(c, s);
	if (r && r->owner != owner)
		r = NULL;
	if (r) {
		last = --r->refs == 0;
		if (last)
			unlist(c, r);
	}
	pthread_mutex_unlock(&c->lock);
	if (!r)
		return ori_fail(ORIEL_EINVAL,
				"oriel_window_source_release: %llu bytes at %p are no source of "
				"this window: released before, or gone with their memory",
				(unsigned long long)s->bytes, (void *)(uintptr_t)s->address);
	if (!last)
		return 0;
	err = ori_comm_settle(c);
	if (err && !ori_comm_ask(c)) { /* something still names it: it goes later */
		pthread_mutex_lock(&c->lock);
		enlist(&c->retired, r);
		pthread_mutex_unlock(&c->lock);
		return err;
	}
	r->next = NULL;
	drop_list(c, r);
	return 0;
}

static void drop_where(struct oriel_comm *c, uintptr_t begin, uintptr_t end)
{
	struct ori_registration *gone = NULL;
	struct ori_span *at;

	pthread_mutex_lock(&c->lock);
	while ((at = ori_span_overlapping(c->sources, begin, end, NULL))) {
		struct ori_registration *r = (struct ori_registration *)at;

		unlist(c, r);
		enlist(&gone, r);
	}
	pthread_mutex_unlock(&c->lock);
	drop_list(c, gone);
}

void ori_sources_end(struct oriel_comm *c, struct ori_registration **owner)
{
	struct ori_registration *gone = NULL, *r;

	pthread_mutex_lock(&c->lock);
	while ((r = *owner)) {
		unlist(c, r);
		enlist(&gone, r);
	}
	pthread_mutex_unlock(&c->lock);
	drop_list(c, gone);
}

void ori_sources_drop(struct oriel_comm *c, const void *ptr, size_t bytes)
{
	drop_where(c, (uintptr_t)ptr, (uintptr_t)ptr + bytes);
}

void ori_sources_drop_all(struct oriel_comm *c)
{
	struct ori_registration *gone;

	drop_where(c, 0, UINTPTR_MAX);
	pthread_mutex_lock(&c->lock);
	gone = c->retired;
	c->retired = NULL;
	pthread_mutex_unlock(&c->lock);
	drop_list(c, gone);
}

/* ---- memory of and for peers ----------------------------------------------------------------- */

/* Peers' engines map oriel_alloc's memory alone; see describe(). */
int ori_register_remote(struct oriel_comm *c, void *ptr, size_t bytes,
			const struct ori_export *export, uint32_t key[ORIEL_NICS_MAX],
			struct ori_engine_blob *tell)
{
	struct ori_engine_memory memory = {
		.base = ptr, .iova = (uintptr_t)ptr & ORI_IOVA_MASK, .bytes = bytes, .remote = 1
	};
	struct ori_memory *m;

	memset(key, 0, sizeof(uint32_t) * ORIEL_NICS_MAX);
	if (!c->engine || !bytes)
		return 0;
	memory.device = c->device->ops->holds(c->device, ptr);
	m = memory.device ? ori_memory_use(c, ptr, bytes) : NULL;
	if (!memory.device || (m && !m->allocation.identity)) {
		memory.export_id = export->id;
		memory.export_offset = export->offset;
	}
	ori_memory_unuse(c, m);
	return c->engine->ops->memory_add(c->engine, &memory, key, tell);
}

int ori_peer_memory(struct oriel_comm *c, int rank, const uint32_t key[ORIEL_NICS_MAX],
		    const struct ori_engine_blob *told)
{
	return key[0] ? c->engine->ops->memory_told(c->engine, rank, key, told) : 0;
}

void ori_peer_memory_forget(struct oriel_comm *c, int rank, const uint32_t key[ORIEL_NICS_MAX])
{
	if (c->engine && key[0])
		(void)c->engine->ops->memory_told(c->engine, rank, key, NULL);
}

/* Peers that have not heard of a failure yet may still write there. */
void ori_unregister(struct oriel_comm *c, const uint32_t key[ORIEL_NICS_MAX])
{
	if (!c->engine)
		return;
	if (__atomic_load_n(&c->control->failure, __ATOMIC_ACQUIRE))
		c->engine->ops->silence(c->engine);
	c->engine->ops->memory_remove(c->engine, key);
}
