/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxy/keys.c - the meaning of keys in WQEs: own memory, and memory of other ranks.
 *
 * An own key is (slot << 8 | tag).  A freed slot goes to the end of the free list and its tag moves
 * on.  So a removed key refers to no other memory until its slot has been used 256 times more.
 * Keys of other ranks come from their proxies.  They are kept in a sorted table, because their
 * slots have no meaning here.
 *
 * Called by the engine (add, remove) and within ori_proxy_step() (find); the caller serialises.
 */
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "state.h"

#define FIRST_ROOM 16u
#define KEYS_MAX (1u << 24)

/* ---- own memory ------------------------------------------------------------------------------ */

static int grow_keys(struct ori_proxy *p)
{
	uint32_t old = p->key_room, room = old ? old * 2 : FIRST_ROOM;
	struct proxy_key *table;

	if (room > KEYS_MAX)
		return ori_fail(ORIEL_ENOMEM, "proxy: all of its %u keys are in use", KEYS_MAX);
	table = realloc(p->keys, room * sizeof(*table));
	if (!table)
		return ori_fail(ORIEL_ENOMEM, "proxy: no memory for %u keys", room);
	p->keys = table;
	memset(table + old, 0, (room - old) * sizeof(*table));
	for (uint32_t i = old ? old : 1; i < room; i++) {
		int err = ori_random_bytes(&table[i].tag, 1); /* so that keys cannot be guessed */

		if (err)
			return err;
		table[i].next_free = i + 1 < room ? i + 1 : 0;
	}
	p->key_room = room;
	p->key_free = old ? old : 1;
	p->key_free_last = room - 1;
	return 0;
}

int ori_proxy_keys_setup(struct ori_proxy *p)
{
	return grow_keys(p);
}

void ori_proxy_keys_free(struct ori_proxy *p)
{
	free(p->keys);
	free(p->remotes);
}

int ori_proxy_key_add(struct ori_proxy *p, const struct ori_proxy_memory *m, uint32_t *key)
{
	struct proxy_key *k;
	uint32_t slot;
	int err;

	if (!m->base || !m->bytes || m->iova > UINT64_MAX - m->bytes ||
	    (uint64_t)(uintptr_t)m->base > UINT64_MAX - m->bytes)
		return ori_fail(ORIEL_EINVAL, "proxy: memory needs a base and 1 byte at least");
	if (!p->key_free) {
		err = grow_keys(p);
		if (err)
			return err;
	}
	slot = p->key_free;
	k = &p->keys[slot];
	p->key_free = k->next_free;
	if (!p->key_free)
		p->key_free_last = 0;
	k->memory = *m;
	k->live = 1;
	*key = slot << 8 | k->tag;
	return 0;
}

static struct proxy_key *find_key(const struct ori_proxy *p, uint32_t key)
{
	uint32_t slot = key >> 8;
	struct proxy_key *k;

	if (slot >= p->key_room)
		return NULL;
	k = &p->keys[slot];
	return k->live && k->tag == (key & 0xff) ? k : NULL;
}

void ori_proxy_key_remove(struct ori_proxy *p, uint32_t key)
{
	struct proxy_key *k = find_key(p, key);
	uint32_t slot = key >> 8;

	if (!k)
		return;
	k->live = 0;
	k->tag++;
	k->next_free = 0;
	if (p->key_free_last)
		p->keys[p->key_free_last].next_free = slot;
	else
		p->key_free = slot;
	p->key_free_last = slot;
}

/* In this order nothing overflows, whatever the WQE contains. */
static int inside(uint64_t start, uint64_t room, uint64_t address, uint64_t bytes)
{
	if (address < start || address - start > room)
		return 0;
	return bytes <= room - (address - start);
}

void *ori_proxy_key_find(const struct ori_proxy *p, uint32_t key, uint32_t access, uint64_t address,
			 uint64_t bytes, uint64_t *cookie)
{
	const struct proxy_key *k = find_key(p, key);
	const struct ori_proxy_memory *m;

	if (!k)
		return NULL;
	m = &k->memory;
	if ((m->access & access) != access || !inside(m->iova, m->bytes, address, bytes))
		return NULL;
	if (cookie)
		*cookie = m->cookie;
	return (uint8_t *)m->base + (address - m->iova);
}

/* ---- memory of other ranks ------------------------------------------------------------------- */

/* The index of `name`, or where it would be inserted. */
static uint32_t lower_bound(const struct ori_proxy *p, uint64_t name)
{
	uint32_t from = 0, to = p->remote_count;

	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (p->remotes[middle].name < name)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static uint64_t name_of(int rank, uint32_t key)
{
	return (uint64_t)(uint32_t)rank << 32 | key;
}

static struct proxy_remote *find_remote(const struct ori_proxy *p, int rank, uint32_t key)
{
	uint64_t name = name_of(rank, key);
	uint32_t at = lower_bound(p, name);

	return at < p->remote_count && p->remotes[at].name == name ? &p->remotes[at] : NULL;
}

static int grow_remotes(struct ori_proxy *p)
{
	uint32_t room = p->remote_room ? p->remote_room * 2 : FIRST_ROOM;
	struct proxy_remote *table;

	if (p->remote_room >= KEYS_MAX)
		return ori_fail(ORIEL_ENOMEM, "proxy: all of its %u keys of other ranks are in use",
				KEYS_MAX);
	table = realloc(p->remotes, room * sizeof(*table));
	if (!table)
		return ori_fail(ORIEL_ENOMEM, "proxy: no memory for %u keys of other ranks", room);
	p->remotes = table;
	p->remote_room = room;
	return 0;
}

int ori_proxy_remote_add(struct ori_proxy *p, int rank, uint32_t key,
			 const struct ori_proxy_remote *m)
{
	struct proxy_remote *known;
	uint32_t at;
	int err;

	if (rank < 0 || rank >= p->attr.nranks || !m->bytes || m->iova > UINT64_MAX - m->bytes ||
	    m->address > UINT64_MAX - m->bytes)
		return ori_fail(ORIEL_EINVAL, "proxy: key 0x%x of rank %d describes no memory", key,
				rank);
	known = find_remote(p, rank, key);
	if (known) {
		known->memory = *m;
		return 0;
	}
	if (p->remote_count == p->remote_room) {
		err = grow_remotes(p);
		if (err)
			return err;
	}
	at = lower_bound(p, name_of(rank, key));
	memmove(&p->remotes[at + 1], &p->remotes[at], (p->remote_count - at) * sizeof(*p->remotes));
	p->remotes[at].name = name_of(rank, key);
	p->remotes[at].memory = *m;
	p->remote_count++;
	return 0;
}

void ori_proxy_remote_remove(struct ori_proxy *p, int rank, uint32_t key)
{
	struct proxy_remote *known = find_remote(p, rank, key);
	uint32_t at;

	if (!known)
		return;
	at = (uint32_t)(known - p->remotes);
	p->remote_count--;
	memmove(known, known + 1, (p->remote_count - at) * sizeof(*known));
}

int ori_proxy_remote_find(const struct ori_proxy *p, int rank, uint32_t key, uint32_t access,
			  uint64_t iova, uint64_t bytes, uint64_t *address, uint64_t *cookie)
{
	const struct proxy_remote *r = find_remote(p, rank, key);

	if (!r || (r->memory.access & access) != access ||
	    !inside(r->memory.iova, r->memory.bytes, iova, bytes))
		return 0;
	*address = r->memory.address + (iova - r->memory.iova);
	*cookie = r->memory.cookie;
	return 1;
}
