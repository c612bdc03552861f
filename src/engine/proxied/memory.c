/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxied/memory.c - keys of the proxied engine, what peers learn about them, and addresses.
 *
 * The proxy makes its own keys, one per NIC.  Behind each key is a registration of the fabric.
 * Peers learn about it by a blob: the range as WQEs name it, and for each NIC the fabric's address
 * and key.  Blobs come from other ranks and are checked before use.  All ranks run on machines of
 * one byte order.
 *
 * Called by the comm through the table, on any thread; takes the engine's lock.
 */
#include <stdlib.h>
#include <string.h>

#include "../../util/util.h"
#include "proxied.h"

#define BLOB_MAGIC 0x6f72696du /* "orim" */
#define ADDRESS_MAGIC 0x6f726961u

struct memory_blob {
	uint32_t magic, nics;
	uint64_t iova, bytes;
	struct {
		uint64_t address, key;
	} nic[ORIEL_NICS_MAX];
};
_Static_assert(sizeof(struct memory_blob) <= sizeof(struct ori_engine_blob), "a blob is too small");

struct address_blob {
	uint32_t magic;
	uint16_t nics;
	uint8_t bytes[ORIEL_NICS_MAX]; /* bytes used of each address */
	uint8_t address[ORIEL_NICS_MAX][ORI_FABRIC_ADDRESS_BYTES];
};
_Static_assert(sizeof(struct address_blob) <= sizeof(struct ori_engine_address),
	       "an address is too small");

/* ---- own memory ------------------------------------------------------------------------------ */

/* Makes room for the region of a key. */
static int region_room(struct proxied_nic *n, uint32_t slot)
{
	uint32_t room = n->region_room ? n->region_room : 16;
	struct ori_fabric_region *made;

	if (slot < n->region_room)
		return 0;
	while (room <= slot)
		room *= 2;
	made = realloc(n->regions, room * sizeof(*made));
	if (!made)
		return ori_fail(ORIEL_ENOMEM, "no memory for %u registrations", room);
	memset(made + n->region_room, 0, (room - n->region_room) * sizeof(*made));
	n->regions = made;
	n->region_room = room;
	return 0;
}

static int add_one(struct proxied_nic *n, const struct ori_engine_memory *m, uint32_t *key,
		   struct ori_fabric_region *region)
{
	struct ori_proxy_memory memory = {
		.base = m->base, .iova = m->iova, .bytes = m->bytes, .access = ORI_PROXY_LOCAL_WRITE
	};
	uint32_t made;
	int err = n->fabric->ops->memory_add(n->fabric, m, region);

	if (err)
		return err;
	if (m->remote)
		memory.access |= ORI_PROXY_REMOTE_WRITE | ORI_PROXY_REMOTE_READ |
				 ORI_PROXY_REMOTE_ATOMIC;
	memory.cookie = region->cookie;
	err = ori_proxy_key_add(n->proxy, &memory, &made);
	if (err)
		goto err_region;
	err = region_room(n, made >> 8);
	if (err)
		goto err_key;
	n->regions[made >> 8] = *region;
	*key = made;
	return 0;
err_key:
	ori_proxy_key_remove(n->proxy, made);
err_region:
	n->fabric->ops->memory_remove(n->fabric, region);
	return err;
}

static void remove_all(struct proxied_engine *e, const uint32_t key[ORIEL_NICS_MAX])
{
	for (uint32_t i = 0; i < e->base.nics; i++) {
		struct proxied_nic *n = &e->nic[i];

		if (!key[i] || key[i] >> 8 >= n->region_room)
			continue;
		ori_proxy_key_remove(n->proxy, key[i]);
		n->fabric->ops->memory_remove(n->fabric, &n->regions[key[i] >> 8]);
		memset(&n->regions[key[i] >> 8], 0, sizeof(n->regions[0]));
	}
}

int ori_proxied_memory_add(struct ori_engine *engine, const struct ori_engine_memory *m,
			   uint32_t key[ORIEL_NICS_MAX], struct ori_engine_blob *tell)
{
	struct proxied_engine *e = (struct proxied_engine *)engine;
	struct memory_blob blob = {
		.magic = BLOB_MAGIC, .nics = engine->nics, .iova = m->iova, .bytes = m->bytes
	};
	int err = 0;

	memset(key, 0, sizeof(uint32_t) * ORIEL_NICS_MAX);
	ori_proxied_lock(e);
	for (uint32_t i = 0; i < engine->nics && !err; i++) {
		struct ori_fabric_region region = { 0 };

		err = add_one(&e->nic[i], m, &key[i], &region);
		blob.nic[i].address = region.address;
		blob.nic[i].key = region.key;
	}
	if (err) {
		remove_all(e, key);
		memset(key, 0, sizeof(uint32_t) * ORIEL_NICS_MAX);
	}
	ori_proxied_unlock(e);
	if (!err && tell) {
		memset(tell, 0, sizeof(*tell));
		/* memory that peers cannot use has nothing to tell */
		if (m->remote)
			memcpy(tell->bytes, &blob, sizeof(blob));
	}
	return err;
}

void ori_proxied_memory_remove(struct ori_engine *engine, const uint32_t key[ORIEL_NICS_MAX])
{
	struct proxied_engine *e = (struct proxied_engine *)engine;

	ori_proxied_lock(e);
	remove_all(e, key);
	ori_proxied_unlock(e);
}

/* ---- memory of other ranks ------------------------------------------------------------------- */

static void forget(struct proxied_engine *e, int rank, const uint32_t key[ORIEL_NICS_MAX])
{
	ori_proxied_lock(e);
	for (uint32_t i = 0; i < e->base.nics; i++)
		ori_proxy_remote_remove(e->nic[i].proxy, rank, key[i]);
	ori_proxied_unlock(e);
}

int ori_proxied_memory_told(struct ori_engine *engine, int rank, const uint32_t key[ORIEL_NICS_MAX],
			    const struct ori_engine_blob *told)
{
	struct proxied_engine *e = (struct proxied_engine *)engine;
	struct memory_blob blob;
	int err = 0;

	if (!told) {
		forget(e, rank, key);
		return 0;
	}
	memcpy(&blob, told->bytes, sizeof(blob));
	if (blob.magic != BLOB_MAGIC || blob.nics != engine->nics || !blob.bytes)
		return ori_fail(ORIEL_EPROTO,
				"%s engine: rank %d sent an invalid description of its memory",
				e->table.name, rank);
	ori_proxied_lock(e);
	for (uint32_t i = 0; i < engine->nics && !err; i++) {
		struct ori_proxy_remote remote = { .iova = blob.iova,
						   .bytes = blob.bytes,
						   .access = ORI_PROXY_REMOTE_WRITE |
							     ORI_PROXY_REMOTE_READ |
							     ORI_PROXY_REMOTE_ATOMIC,
						   .address = blob.nic[i].address,
						   .cookie = blob.nic[i].key };

		err = ori_proxy_remote_add(e->nic[i].proxy, rank, key[i], &remote);
	}
	ori_proxied_unlock(e);
	if (err)
		forget(e, rank, key);
	return err;
}

/* ---- addresses ------------------------------------------------------------------------------- */

int ori_proxied_address(struct ori_engine *engine, struct ori_engine_address *out)
{
	struct proxied_engine *e = (struct proxied_engine *)engine;
	struct address_blob blob = { .magic = ADDRESS_MAGIC, .nics = (uint16_t)engine->nics };
	int err = 0;

	ori_proxied_lock(e);
	for (uint32_t i = 0; i < engine->nics && !err; i++) {
		uint32_t bytes = 0;

		err = e->nic[i].fabric->ops->address(e->nic[i].fabric, blob.address[i], &bytes);
		blob.bytes[i] = (uint8_t)bytes;
	}
	ori_proxied_unlock(e);
	if (err)
		return err;
	memset(out, 0, sizeof(*out));
	memcpy(out->bytes, &blob, sizeof(blob));
	return 0;
}

int ori_proxied_peer(struct ori_engine *engine, int rank, const struct ori_engine_address *address)
{
	struct proxied_engine *e = (struct proxied_engine *)engine;
	struct address_blob blob;
	int bad, err = 0;

	memcpy(&blob, address->bytes, sizeof(blob));
	bad = blob.magic != ADDRESS_MAGIC || blob.nics != engine->nics || rank < 0 ||
	      rank >= e->world.nranks;
	for (uint32_t i = 0; i < engine->nics && !bad; i++)
		bad = blob.bytes[i] > ORI_FABRIC_ADDRESS_BYTES;
	if (bad)
		return ori_fail(ORIEL_EPROTO, "%s engine: rank %d sent an invalid address",
				e->table.name, rank);
	ori_proxied_lock(e);
	for (uint32_t i = 0; i < engine->nics && !err; i++)
		err = e->nic[i].fabric->ops->peer_add(e->nic[i].fabric, rank, blob.address[i],
						      blob.bytes[i]);
	ori_proxied_unlock(e);
	return err;
}
