/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot/launcher.h - shared by env.c (finds the launcher), pmix.c (one launcher) and offer.c (the
 * addresses of a hub).  For src/boot only.
 */
#ifndef ORI_BOOT_LAUNCHER_H
#define ORI_BOOT_LAUNCHER_H

#include "tcp.h"

/* ---- addresses (offer.c) -------------------------------------------------------------------- */

#define ORI_OFFER_ADDRESSES 8

/* One address of a host, as sent to other ranks. */
struct ori_offer_address {
	uint16_t family; /* AF_INET or AF_INET6 */
	uint16_t prefix; /* bits of its network */
	unsigned char bytes[16];
};

/*
 * The place of rank 0's hub, as rank 0 tells the others.  It comes over the network, so the
 * receiver checks it.
 */
struct ori_offer {
	char magic[8];
	int32_t status; /* 0, or why there is no hub */
	uint32_t port, count;
	unsigned char secret[TCP_SECRET_BYTES];
	struct ori_offer_address address[ORI_OFFER_ADDRESSES];
};

_Static_assert(sizeof(struct ori_offer) == 84 + ORI_OFFER_ADDRESSES * 20, "the offer travels");

/*
 * Writes this host's addresses to offer->address.  `local`: loopback alone.  ORIEL_BOOT_ADDR set:
 * that address.  Otherwise: all interfaces that are up, IPv4 first.
 */
int ori_offer_addresses(const struct ori_config *, int local, struct ori_offer *);
/*
 * Chooses the address to connect to: one on a network of this host if there is one, else the first.
 */
int ori_offer_take(const struct ori_offer *, struct tcp_place *);

/* ---- PMIx (pmix.c) -------------------------------------------------------------------------- */

/* Has a PMIx server started this process? */
int ori_boot_pmix_present(void);
int ori_boot_pmix_create(const struct ori_config *, struct oriel_boot **boot);

#endif
