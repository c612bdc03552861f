/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/registrations.c - keys by which WQEs name memory, and the sources that are registered.
 *
 * Owns the tree of sources, searched by address, and the list of retired ones.  Knows addresses,
 * keys and identities, but not allocations: memory.c drops the sources of memory that is freed, and
 * sources.c finds the allocation of a range.  Without an engine every key is 0.
 *
 * Called on user threads; takes the comm's lock.
 */
#include <stdlib.h>
#include <string.h>

#include "object.h"
#include "registrations.h"

/* ---- keys ----------------------------------------------------------------------------------- */

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

/*
 * After a failure, peers that have not heard of it may still write to the memory.  A silent engine
 * does not answer them: an answer "no such key" would look like a failure of its own.
 */
void ori_unregister(struct oriel_comm *c, const uint32_t key[ORIEL_NICS_MAX])
{
	if (!c->engine)
		return;
	if (ori_comm_has_failed(c))
		c->engine->ops->silence(c->engine);
	c->engine->ops->memory_remove(c->engine, key);
}

/* ---- the tree and its lists; under the comm's lock ------------------------------------------ */

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

/* Did a device give this identity?  Then it distinguishes this memory from all other memory. */
static int is_device_identity(uint64_t identity)
{
	return identity && !(identity & ORI_IDENTITY_OURS);
}

/*
 * Retires all sources of older memory that had the addresses of `now`.  The first source in new
 * memory does that for the whole memory.  So if there already is a source with the identity of
 * `now`, no older sources are left, and the search ends.
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

/* ---- making and counting -------------------------------------------------------------------- */

int ori_registration_make(struct oriel_comm *c, const struct ori_engine_memory *memory,
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

void ori_registration_list(struct oriel_comm *c, struct ori_registration *r,
			   const struct ori_identity *now)
{
	pthread_mutex_lock(&c->lock);
	retire_others(c, now);
	ori_span_add(&c->sources, &r->span);
	enlist(r->owner, r);
	pthread_mutex_unlock(&c->lock);
}

/* The keys are copied under the lock: another thread may release the source right after. */
int ori_registration_again(struct oriel_comm *c, struct ori_registration **owner, uintptr_t begin,
			   size_t bytes, uint64_t identity, uint32_t key[ORIEL_NICS_MAX])
{
	struct ori_registration *r = NULL;

	pthread_mutex_lock(&c->lock);
	if (identity)
		r = find_same(c, owner, begin, bytes, identity);
	if (r) {
		r->refs++;
		memcpy(key, r->key, sizeof(r->key));
	}
	pthread_mutex_unlock(&c->lock);
	return r != NULL;
}

int ori_registration_less(struct oriel_comm *c, struct ori_registration **owner,
			  const struct oriel_source *s, struct ori_registration **last)
{
	struct ori_registration *r;

	*last = NULL;
	pthread_mutex_lock(&c->lock);
	r = find_key(c, s);
	if (r && r->owner != owner)
		r = NULL;
	if (r && --r->refs == 0) {
		unlist(c, r);
		*last = r;
	}
	pthread_mutex_unlock(&c->lock);
	return r != NULL;
}

/* ---- ending --------------------------------------------------------------------------------- */

static void drop_list(struct oriel_comm *c, struct ori_registration *list)
{
	while (list) {
		struct ori_registration *r = list;

		list = r->next;
		ori_unregister(c, r->key);
		free(r);
	}
}

void ori_registration_drop(struct oriel_comm *c, struct ori_registration *r)
{
	r->next = NULL;
	drop_list(c, r);
}

void ori_registration_retire(struct oriel_comm *c, struct ori_registration *r)
{
	pthread_mutex_lock(&c->lock);
	enlist(&c->retired, r);
	pthread_mutex_unlock(&c->lock);
}

/*
 * Drops registrations of memory that the user has freed.  A NIC that retransmits a message must
 * still find its key, and this call must not wait.  So it drops them only if the engine is idle;
 * otherwise a later call does.
 */
void ori_registrations_reap(struct oriel_comm *c)
{
	struct ori_registration *gone;

	/* Taken before idle(): a source that another thread retires later may still be in use. */
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
