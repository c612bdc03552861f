/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/registrations.c - memory the engine may touch, and the keys by which WQEs name it.
 *
 * Local registrations are kept and found again by range, so that asking twice costs nothing; they go when
 * the memory is freed by oriel_free or with the comm.  Without an engine every key is 0.
 */
#include <stdlib.h>
#include <string.h>

#include "comm.h"

struct ori_registration {
	void *ptr;
	size_t bytes;
	uint32_t key[ORIEL_NICS_MAX];
	struct ori_memory *memory; /* the user's own that peers were told of; else NULL */
	struct ori_registration *next;
};

/* Returns the memory it is part of, in use; NULL if that is not one of ours. */
static struct ori_memory *describe(struct oriel_comm *c, void *ptr, size_t bytes,
				   struct ori_engine_memory *out)
{
	struct ori_memory *m = NULL;

	memset(out, 0, sizeof(*out));
	out->base = ptr;
	out->bytes = bytes;
	out->device = c->device->ops->holds(c->device, ptr);
	/* Memory that cannot be exported still goes, through the engine's hands. */
	if (ori_memory_adopt(c, ptr, bytes, &m) || !m)
		return NULL;
	out->export_id = m->id;
	out->export_offset = (uint64_t)((char *)ptr - (char *)m->allocation.base);
	return m;
}

int ori_register_local(struct oriel_comm *c, void *ptr, size_t bytes, uint32_t key[ORIEL_NICS_MAX])
{
	struct ori_engine_memory memory;
	struct ori_registration *r;
	struct ori_memory *m;
	int err;

	memset(key, 0, sizeof(uint32_t) * ORIEL_NICS_MAX);
	if (!c->engine || !bytes)
		return 0;
	pthread_mutex_lock(&c->lock);
	for (r = c->registrations; r; r = r->next)
		if (r->ptr == ptr && r->bytes == bytes)
			break;
	if (r)
		memcpy(key, r->key, sizeof(r->key));
	pthread_mutex_unlock(&c->lock);
	if (r)
		return 0;
	r = calloc(1, sizeof(*r));
	if (!r)
		return ori_fail(ORIEL_ENOMEM, "no memory to register %zu bytes", bytes);
	m = describe(c, ptr, bytes, &memory);
	memory.iova = (uint64_t)(uintptr_t)ptr;
	err = c->engine->ops->memory_add(c->engine, &memory, r->key, NULL);
	/* oriel_alloc's memory may be freed while it is registered, and takes this along then. */
	if (err || !m || !m->described) {
		ori_memory_unuse(c, m);
		m = NULL;
	}
	if (err) {
		free(r);
		return err;
	}
	r->memory = m;
	r->ptr = ptr;
	r->bytes = bytes;
	memcpy(key, r->key, sizeof(r->key));
	pthread_mutex_lock(&c->lock);
	r->next = c->registrations;
	c->registrations = r;
	pthread_mutex_unlock(&c->lock);
	return 0;
}

int ori_register_remote(struct oriel_comm *c, void *ptr, size_t bytes,
			const struct ori_export *export, uint32_t key[ORIEL_NICS_MAX],
			struct ori_engine_blob *tell)
{
	struct ori_engine_memory memory = { .base = ptr,
					    .iova = (uintptr_t)ptr & ORI_IOVA_MASK,
					    .bytes = bytes,
					    .remote = 1,
					    .device = c->device->ops->holds(c->device, ptr),
					    .export_id = export->id,
					    .export_offset = export->offset };

	memset(key, 0, sizeof(uint32_t) * ORIEL_NICS_MAX);
	if (!c->engine || !bytes)
		return 0;
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

void ori_registrations_drop(struct oriel_comm *c, const void *ptr, size_t bytes)
{
	struct ori_registration **at = &c->registrations, *gone = NULL, *r;
	const char *begin = ptr;

	pthread_mutex_lock(&c->lock);
	while ((r = *at)) {
		const char *start = r->ptr;

		if (bytes && (start >= begin + bytes || begin >= start + r->bytes)) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		r->next = gone;
		gone = r;
	}
	pthread_mutex_unlock(&c->lock);
	while ((r = gone)) {
		gone = r->next;
		ori_unregister(c, r->key);
		ori_memory_unuse(c, r->memory);
		free(r);
	}
}
