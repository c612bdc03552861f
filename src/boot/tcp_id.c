/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/tcp_id.c - the 128 bytes of oriel_boot_make_id: made together with a hub, and parsed to join
 * it.
 *
 * Owns the layout of the id.  An id contains a random secret, so whoever has the id may join.
 * Called by: boot.c and user.c, on any thread.
 */
#include <string.h>

#include "tcp.h"

#define ID_SECRET_BYTES 32

static const char id_magic[8] = "ORIELID1";

struct id_layout {
	char magic[8];
	uint16_t family, port; /* AF_*; port in host order */
	uint32_t pad;
	unsigned char addr[16];
	unsigned char secret[ID_SECRET_BYTES];
	unsigned char zero[56];
	uint64_t sum;
};

_Static_assert(sizeof(struct id_layout) == sizeof(struct oriel_boot_id), "the id travels");

/* FNV-1a: detects damage, not forgery. */
static uint64_t checksum(const struct id_layout *id)
{
	const unsigned char *at = (const unsigned char *)id;
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < offsetof(struct id_layout, sum); i++)
		h = (h ^ at[i]) * 0x100000001b3ull;
	return h;
}

static void pack(const struct tcp_place *place, struct oriel_boot_id *out)
{
	struct id_layout id;

	memset(&id, 0, sizeof(id));
	memcpy(id.magic, id_magic, sizeof(id.magic));
	ori_tcp_addr_pack(&place->addr, &id.family, id.addr);
	id.port = (uint16_t)ori_tcp_port(place);
	memcpy(id.secret, place->secret, sizeof(id.secret));
	id.sum = checksum(&id);
	memcpy(out->bytes, &id, sizeof(id));
}

static int unpack(const struct oriel_boot_id *in, struct tcp_place *place)
{
	struct id_layout id;

	memcpy(&id, in->bytes, sizeof(id));
	memset(place, 0, sizeof(*place));
	if (memcmp(id.magic, id_magic, sizeof(id.magic)) || id.sum != checksum(&id) || !id.port ||
	    ori_tcp_addr_unpack(id.family, id.port, id.addr, &place->addr, &place->addr_bytes))
		return ori_fail(
			ORIEL_EINVAL,
			"oriel_boot_join: the id was not made by oriel_boot_make_id, or is damaged");
	memcpy(place->secret, id.secret, sizeof(id.secret));
	ori_tcp_place_name(place);
	return 0;
}

int ori_boot_id_make(const struct ori_config *config, struct oriel_boot_id *id)
{
	struct tcp_place place;
	struct tcp_hub *hub;
	int err;

	memset(&place, 0, sizeof(place));
	err = ori_tcp_resolve("ORIEL_BOOT_ADDR", config->boot_addr, 0, &place);
	if (!err)
		err = ori_random_bytes(place.secret, ID_SECRET_BYTES);
	if (!err)
		err = ori_tcp_hub_start(&place, 0, 1, ori_boot_seconds_ns(config->timeout), &hub);
	if (!err)
		pack(&place, id);
	return err;
}

int ori_boot_id_join(const struct ori_config *config, const struct oriel_boot_id *id, int rank,
		     int nranks, struct oriel_boot **boot)
{
	struct tcp_place place;
	struct tcp_join join = { .place = &place, .rank = rank, .nranks = nranks };
	int err = unpack(id, &place);

	if (err)
		return err;
	join.timeout_ns = ori_boot_seconds_ns(config->timeout);
	join.late_ns = ori_boot_seconds_ns(config->late);
	join.hub = ori_tcp_hub_find(&place);
	return ori_tcp_join_create(&join, boot);
}
