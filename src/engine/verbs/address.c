/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/address.c - the address of one NIC, as peers get it.
 *
 * Called by fabric.c and probe.c, and by mlx5/.
 */
#include <string.h>

#include "verbs.h"

void verbs_address_own(const struct verbs_fabric *f, struct verbs_address *out)
{
	int reads = f->attr.max_qp_rd_atom;

	memset(out, 0, sizeof(*out));
	out->magic = VERBS_ADDRESS_MAGIC;
	out->link_layer = f->port_attr.link_layer;
	out->gid_type = (uint8_t)f->gid.type;
	out->mtu = (uint8_t)f->settings.mtu;
	out->reads = (uint8_t)(reads < 255 ? reads : 255);
	out->lid = f->port_attr.lid;
	out->atomics = (f->base.link_flags & ORIEL_LINK_ATOMICS) != 0;
	memcpy(out->gid, f->gid.raw, sizeof(out->gid));
}
