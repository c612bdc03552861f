/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm/sources.c - registers local memory for puts and gets, and memory that peers write to.
 *
 * Finds the allocation of a range.  So a new allocation at the address of a freed one is never
 * taken for the registered one (docs/decisions/0029).  The keys of memory that peers write to
 * belong to the caller, a window or buffer.  Without an engine every key is 0.
 *
 * Does not own the registrations (registrations.c).  Called on user threads.
 */
#include <string.h>

#include "failure.h"
#include "memory.h"
#include "settle.h"
#include "sources.h"

/*
 * Returns the memory of oriel_alloc that contains the range, with one more user; NULL if there is
 * none.
 *
 * Engines of peers map memory of oriel_alloc and read it themselves.  The data of other memory goes
 * through this rank's engine.  If peers mapped that, too, they would have to unmap it when the user
 * frees it.  The driver's unmap waits for kernels, and these may wait for the same peer's engine:
 * a deadlock.
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
		return ORI_IDENTITY_LASTING;
	if (m && !m->allocation.identity)
		return ORI_IDENTITY_OURS | m->id;
	return now->number;
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
	if (ori_registration_again(c, owner, (uintptr_t)ptr, bytes, identity, out->key))
		goto out_memory;
	err = ori_registration_make(c, &memory, &r);
	if (err)
		goto out_memory;
	memcpy(out->key, r->key, sizeof(out->key));
	r->identity = identity;
	r->owner = owner;
	ori_registration_list(c, r, &now);
out_memory:
	/* The source is no user of the memory: oriel_free() may free it, and drops the source. */
	ori_memory_unuse(c, m);
	ori_registrations_reap(c);
	return err;
}

int ori_source_give(struct oriel_comm *c, struct ori_registration **owner,
		    const struct oriel_source *s)
{
	struct ori_registration *r;
	int err;

	if (!c->engine || !s->bytes)
		return 0;
	if (!ori_registration_less(c, owner, s, &r))
		return ori_fail(ORIEL_EINVAL,
				"oriel_window_source_release: %llu bytes at %p are no source of "
				"this window: released before, or gone with their memory",
				(unsigned long long)s->bytes, (void *)(uintptr_t)s->address);
	if (!r)
		return 0;
	err = ori_comm_settle(c);
	if (err && !ori_comm_ask(c)) { /* a queue may still use the key: drop it later */
		ori_registration_retire(c, r);
		return err;
	}
	ori_registration_drop(c, r);
	return 0;
}

/* ---- memory for peers ----------------------------------------------------------------------- */

/* Engines of peers map only memory of oriel_alloc: see describe(). */
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
