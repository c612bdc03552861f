/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/fabric.c - libfabric as a fabric: its table, memory, peers and links.
 *
 * One reliable-datagram endpoint serves all peers and lanes.  A link is not a connection: it only
 * combines a queue with its peer's address.  Called by the proxied engine, under its lock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/device/wqe.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "../../util/util.h"
#include "ofi.h"
#include "ofi_engine.h"

#define STUCK_LIMIT_S 30.0

/* ---- memory ---------------------------------------------------------------------------------- */

static int memory_add(struct ori_fabric *fabric, const struct ori_engine_memory *m,
		      struct ori_fabric_region *out)
{
	struct ofi_fabric *f = (struct ofi_fabric *)fabric;
	struct ofi_region *r;
	int err;

	if (m->device && !(f->end.info->caps & FI_HMEM))
		return ori_fail(ORIEL_EUNSUPPORTED,
				"ofi: provider %s cannot reach device memory (no FI_HMEM)",
				f->end.info->fabric_attr->prov_name);
	r = calloc(1, sizeof(*r));
	if (!r)
		return ori_fail(ORIEL_ENOMEM, "no memory for a registration");
	err = ori_ofi_region_add(&f->end, m->base, m->bytes, m->remote, m->device, r);
	if (err) {
		free(r);
		return ori_fail(ORIEL_ESYSTEM, "ofi: cannot register %llu bytes at %p: %s",
				(unsigned long long)m->bytes, m->base,
				ori_ofi_error(f->end.lib, err));
	}
	r->next = f->regions;
	r->from = &f->regions;
	if (r->next)
		r->next->from = &r->next;
	f->regions = r;
	out->handle = r;
	out->cookie = (uint64_t)(uintptr_t)r->desc;
	out->address = r->address;
	out->key = r->key;
	return 0;
}

static void drop_region(struct ofi_region *r)
{
	*r->from = r->next;
	if (r->next)
		r->next->from = r->from;
	ori_ofi_region_remove(r);
	free(r);
}

static void memory_remove(struct ori_fabric *fabric, const struct ori_fabric_region *region)
{
	(void)fabric;
	if (region->handle)
		drop_region(region->handle);
}

/* ---- peers and links ------------------------------------------------------------------------- */

/* What a rank tells the others about its endpoint. */
struct ofi_address {
	uint64_t ping, ping_key;
	uint8_t name[ORI_FABRIC_ADDRESS_BYTES - 16];
};
_Static_assert(sizeof(struct ofi_address) == ORI_FABRIC_ADDRESS_BYTES, "");

static int address(struct ori_fabric *fabric, uint8_t out[ORI_FABRIC_ADDRESS_BYTES],
		   uint32_t *bytes)
{
	struct ofi_fabric *f = (struct ofi_fabric *)fabric;
	struct ofi_address a = { .ping = f->ping_region.address, .ping_key = f->ping_region.key };
	size_t length = sizeof(a.name);
	int err = fi_getname(&f->end.ep->fid, a.name, &length);

	if (err || length > sizeof(a.name))
		return ori_fail(ORIEL_ESYSTEM, "ofi: no address of the endpoint (%zu bytes): %s",
				length, ori_ofi_error(f->end.lib, err));
	memcpy(out, &a, sizeof(a));
	*bytes = (uint32_t)(offsetof(struct ofi_address, name) + length);
	return 0;
}

static int peer_add(struct ori_fabric *fabric, int rank, const uint8_t *bytes, uint32_t length)
{
	struct ofi_fabric *f = (struct ofi_fabric *)fabric;
	uint8_t own[ORI_FABRIC_ADDRESS_BYTES];
	struct ofi_address theirs = { 0 };
	struct ofi_peer *p = &f->peers[rank];
	uint32_t own_length = 0;
	int err = address(fabric, own, &own_length), n;

	if (err)
		return err;
	/*
	 * All endpoints of a provider have addresses of the same length; fi_av_insert() reads that
	 * many bytes.
	 */
	if (length != own_length)
		return ori_fail(ORIEL_EPROTO, "ofi: the address of rank %d has %u bytes, not %u",
				rank, length, own_length);
	memcpy(&theirs, bytes, length);
	if (p->address != FI_ADDR_UNSPEC)
		(void)fi_av_remove(f->end.av, &p->address, 1, 0);
	p->address = FI_ADDR_UNSPEC;
	n = fi_av_insert(f->end.av, theirs.name, 1, &p->address, 0, NULL);
	if (n != 1) {
		p->address = FI_ADDR_UNSPEC;
		return ori_fail(ORIEL_ESYSTEM,
				"ofi: libfabric does not accept the address of rank %d: %s", rank,
				ori_ofi_error(f->end.lib, n < 0 ? n : -FI_EINVAL));
	}
	p->ping = theirs.ping;
	p->ping_key = theirs.ping_key;
	return 0;
}

static int link_add(struct ori_fabric *fabric, uint32_t tag, void **link, uint32_t *number)
{
	struct ofi_fabric *f = (struct ofi_fabric *)fabric;
	struct ofi_link *l = calloc(1, sizeof(*l));

	if (!l)
		return ori_fail(ORIEL_ENOMEM, "no memory for a link");
	l->tag = tag;
	l->rank = -1;
	l->next = f->links;
	f->links = l;
	*link = l;
	*number = 0;
	return 0;
}

static int link_connect(struct ori_fabric *fabric, void *link, int rank, uint32_t remote_number)
{
	struct ofi_fabric *f = (struct ofi_fabric *)fabric;
	struct ofi_link *l = link;

	(void)remote_number;
	if (rank < 0 || rank >= f->world.nranks || f->peers[rank].address == FI_ADDR_UNSPEC)
		return ori_fail(ORIEL_EINVAL, "ofi: rank %d has no address", rank);
	l->rank = rank;
	l->peer = &f->peers[rank];
	return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int arm(struct ori_fabric *fabric, int *fd)
{
	struct ofi_fabric *f = (struct ofi_fabric *)fabric;
	struct fid *fids[1] = { &f->end.cq->fid };

	if (f->end.fd < 0)
		return -1;
	if (fi_trywait(f->end.fabric, fids, 1))
		return 0;
	*fd = f->end.fd;
	return 1;
}

static void fabric_close(struct ori_fabric *fabric)
{
	struct ofi_fabric *f = (struct ofi_fabric *)fabric;

	ori_ofi_endpoint_stop(&f->end);
	while (f->regions) {
		struct ofi_region *next = f->regions->next;

		ori_ofi_region_remove(f->regions);
		free(f->regions);
		f->regions = next;
	}
	ori_ofi_region_remove(&f->ops_region);
	ori_ofi_region_remove(&f->ping_region);
	ori_ofi_endpoint_close(&f->end);
	while (f->links) {
		struct ofi_link *next = f->links->next;

		free(f->links);
		f->links = next;
	}
	free(f->ops);
	free(f->peers);
	free(f);
}

static const struct ori_fabric_ops ofi_ops = {
	.posts = { .post_write = ori_ofi_post_write,
		   .post_write_inline = ori_ofi_post_write_inline,
		   .post_read = ori_ofi_post_read,
		   .post_fetch_add = ori_ofi_post_fetch_add,
		   .post_compare_swap = ori_ofi_post_compare_swap,
		   .submit = ori_ofi_confirm_ask,
		   .progress = ori_ofi_progress,
		   .flush = ori_ofi_flush },
	.memory_add = memory_add,
	.memory_remove = memory_remove,
	.address = address,
	.peer_add = peer_add,
	.link_add = link_add,
	.link_connect = link_connect,
	.arm = arm,
	.close = fabric_close,
};

static int make_tables(struct ofi_fabric *f)
{
	size_t nranks = (size_t)f->world.nranks;

	f->peers = calloc(nranks, sizeof(*f->peers));
	f->ops = calloc(OFI_OPS, sizeof(*f->ops));
	if (!f->peers || !f->ops)
		return ori_fail(ORIEL_ENOMEM, "no memory for the ofi engine");
	for (size_t i = 0; i < nranks; i++)
		f->peers[i].address = FI_ADDR_UNSPEC;
	for (int i = OFI_OPS - 1; i >= 0; i--) {
		f->ops[i].next = f->free_ops;
		f->free_ops = &f->ops[i];
	}
	return 0;
}

static int open_endpoint(struct ofi_fabric *f, const struct ofi_library *lib,
			 const struct ofi_choice *choice)
{
	const char *step;
	int err = ori_ofi_endpoint_open(&f->end, lib, choice->info, &step);

	if (err)
		return ori_fail(ORIEL_ESYSTEM, "ofi: %s of provider %s: %s", step,
				choice->info->fabric_attr->prov_name, ori_ofi_error(lib, err));
	err = ori_ofi_region_add(&f->end, f->ops, OFI_OPS * sizeof(*f->ops), 0, 0, &f->ops_region);
	if (!err)
		err = ori_ofi_region_add(&f->end, &f->ping_word, sizeof(f->ping_word), 1, 0,
					 &f->ping_region);
	if (err)
		return ori_fail(ORIEL_ESYSTEM, "ofi: cannot register memory for operands: %s",
				ori_ofi_error(lib, err));
	return 0;
}

static void take_abilities(struct ofi_fabric *f, const struct ofi_choice *choice)
{
	const struct fi_info *info = f->end.info;

	f->atomics = choice->atomics;
	f->ordered = choice->ordered;
	f->lazy = choice->lazy;
	f->base.link_flags = (choice->atomics ? ORIEL_LINK_ATOMICS : 0) |
			     (choice->ordered ? ORIEL_LINK_ORDERED | ORIEL_LINK_WRITES_ORDERED : 0);
	f->base.message_bytes = ORI_WQE_MESSAGE_BYTES;
	if (info->ep_attr->max_msg_size < f->base.message_bytes)
		f->base.message_bytes = info->ep_attr->max_msg_size;
	f->base.passive_progress = info->domain_attr->data_progress != FI_PROGRESS_AUTO;
	f->base.passive_fd = f->end.fd;
	memcpy(f->base.text, choice->text, sizeof(f->base.text));
}

int ori_ofi_fabric_open(const struct ori_config *config, const struct ori_fabric_world *world,
			struct ori_fabric **fabric)
{
	struct ofi_choice choice;
	char why[256];
	const struct ofi_library *lib;
	struct ofi_fabric *f;
	int err = ori_ofi_choose(config, world->nic, world->device_memory, &choice, why,
				 sizeof(why));

	if (err)
		return ori_fail(err, "ofi engine: %s", why);
	lib = ori_ofi_library(NULL);
	f = calloc(1, sizeof(*f));
	if (!f) {
		lib->freeinfo(choice.info);
		return ori_fail(ORIEL_ENOMEM, "no memory for the ofi engine");
	}
	f->base.ops = &ofi_ops;
	f->world = *world;
	f->end.fd = -1;
	f->stuck_limit_ns =
		(uint64_t)((config->timeout < STUCK_LIMIT_S ? config->timeout : STUCK_LIMIT_S) *
			   (double)ORI_NS_PER_S);
	err = make_tables(f);
	if (!err)
		err = open_endpoint(f, lib, &choice);
	if (!err)
		take_abilities(f, &choice);
	lib->freeinfo(choice.info);
	if (err)
		fabric_close(&f->base);
	else
		*fabric = &f->base;
	return err;
}

/* ---- for engine.c ---------------------------------------------------------------------------- */

int ori_ofi_engine_probe(const struct ori_config *config, char *reason, size_t bytes)
{
	struct ofi_choice choice;
	int err = ori_ofi_choose(config, 0, 0, &choice, reason, bytes);

	if (err)
		return err;
	snprintf(reason, bytes, "%s", choice.text);
	ori_ofi_library(NULL)->freeinfo(choice.info);
	return 0;
}

int ori_ofi_engine_open(const struct ori_config *config, const struct ori_engine_world *world,
			struct ori_engine **engine)
{
	static const struct ori_fabric_kind kind = { "ofi", ori_ofi_fabric_open };

	return ori_proxied_open(config, world, &kind, engine);
}
