/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/offer.c - the addresses at which a hub can be reached, and which one a rank connects to.
 *
 * A launcher such as PMIx tells ranks their numbers, but not where rank 0 listens.  Rank 0 offers
 * the addresses of its host.  A rank takes one on a network that it is on itself.  Owns no state.
 * Called by: pmix.c, on the rank's thread.
 */
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

static const char offer_magic[8] = "ORIELOF1";

/* The bytes of an address; NULL: neither IPv4 nor IPv6. */
static const unsigned char *address_bytes(const struct sockaddr *addr, size_t *size)
{
	if (addr->sa_family == AF_INET) {
		*size = 4;
		return (const unsigned char *)&((const struct sockaddr_in *)addr)->sin_addr;
	}
	if (addr->sa_family == AF_INET6) {
		*size = 16;
		return (const unsigned char *)&((const struct sockaddr_in6 *)addr)->sin6_addr;
	}
	return NULL;
}

static uint16_t prefix_of(const struct sockaddr *mask)
{
	const unsigned char *bytes;
	uint16_t bits = 0;
	size_t size;

	bytes = mask ? address_bytes(mask, &size) : NULL;
	for (size_t i = 0; bytes && i < size; i++)
		bits = (uint16_t)(bits + __builtin_popcount(bytes[i]));
	return bits;
}

static void add(struct ori_offer *offer, const struct sockaddr *addr, uint16_t prefix)
{
	struct ori_offer_address *a = &offer->address[offer->count];
	const unsigned char *bytes;
	size_t size;

	bytes = address_bytes(addr, &size);
	if (!bytes || offer->count == ORI_OFFER_ADDRESSES)
		return;
	memset(a, 0, sizeof(*a));
	a->family = addr->sa_family;
	a->prefix = prefix;
	memcpy(a->bytes, bytes, size);
	offer->count++;
}

/* Link-local addresses need the name of an interface, which another host cannot know. */
static int is_useful(const struct ifaddrs *i, int family)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)i->ifa_addr;

	if (!i->ifa_addr || i->ifa_addr->sa_family != family)
		return 0;
	if (!(i->ifa_flags & IFF_UP) || i->ifa_flags & IFF_LOOPBACK)
		return 0;
	return family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

static int add_interfaces(struct ori_offer *offer)
{
	static const int families[] = { AF_INET, AF_INET6 };
	struct ifaddrs *list;

	if (getifaddrs(&list))
		return ori_fail(ORIEL_ESYSTEM,
				"the addresses of this host are not known; set ORIEL_BOOT_ADDR");
	for (size_t f = 0; f < ORI_COUNT(families); f++) {
		for (struct ifaddrs *i = list; i; i = i->ifa_next) {
			if (is_useful(i, families[f]))
				add(offer, i->ifa_addr, prefix_of(i->ifa_netmask));
		}
	}
	freeifaddrs(list);
	if (!offer->count)
		return ori_fail(ORIEL_ECONFIG, "this host has no address that other hosts can "
					       "reach; set ORIEL_BOOT_ADDR");
	return 0;
}

int ori_offer_addresses(const struct ori_config *config, int local, struct ori_offer *offer)
{
	struct tcp_place place;
	int err;

	memcpy(offer->magic, offer_magic, sizeof(offer->magic));
	offer->count = 0;
	if (!local && !ori_environment_get("ORIEL_BOOT_ADDR"))
		return add_interfaces(offer);
	err = ori_tcp_resolve("ORIEL_BOOT_ADDR", local ? "127.0.0.1" : config->boot_addr, 0,
			      &place);
	if (!err)
		add(offer, (struct sockaddr *)&place.addr, 0);
	return err;
}

static int same_network(const struct ori_offer_address *a, const struct sockaddr *mine, int prefix)
{
	const unsigned char *bytes;
	size_t size;
	int bits = a->prefix < prefix ? a->prefix : prefix;

	bytes = address_bytes(mine, &size);
	if (!bytes || a->family != mine->sa_family || !bits || bits > (int)size * 8)
		return 0;
	if (memcmp(bytes, a->bytes, (size_t)bits / 8))
		return 0;
	return !(bits % 8) || !((bytes[bits / 8] ^ a->bytes[bits / 8]) >> (8 - bits % 8));
}

/* The index of the first address on a network of this host, or 0 if there is none. */
static uint32_t nearest(const struct ori_offer *offer)
{
	struct ifaddrs *list;
	uint32_t found = 0;

	if (offer->count == 1 || getifaddrs(&list))
		return 0;
	for (uint32_t a = offer->count; a-- > 0;) {
		for (struct ifaddrs *i = list; i; i = i->ifa_next) {
			if (i->ifa_addr && i->ifa_flags & IFF_UP &&
			    same_network(&offer->address[a], i->ifa_addr,
					 prefix_of(i->ifa_netmask)))
				found = a;
		}
	}
	freeifaddrs(list);
	return found;
}

int ori_offer_take(const struct ori_offer *offer, struct tcp_place *place)
{
	const struct ori_offer_address *a;

	memset(place, 0, sizeof(*place));
	if (memcmp(offer->magic, offer_magic, sizeof(offer->magic)) || !offer->port ||
	    offer->port > 65535 || !offer->count || offer->count > ORI_OFFER_ADDRESSES)
		return ori_fail(ORIEL_EPROTO, "the address record of rank 0 is damaged");
	a = &offer->address[nearest(offer)];
	if (ori_tcp_addr_unpack(a->family, (uint16_t)offer->port, a->bytes, &place->addr,
				&place->addr_bytes))
		return ori_fail(ORIEL_EPROTO, "rank 0 has an address of an unknown family");
	memcpy(place->secret, offer->secret, sizeof(place->secret));
	ori_tcp_place_name(place);
	return 0;
}
