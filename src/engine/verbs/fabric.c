/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/fabric.c - one NIC of libibverbs as a fabric of the proxied engine: open, address,
 * close, and the table.
 *
 * Owns the fabric.  Its parts are in device.c, link.c, memory.c, post.c and events.c.  Called by
 * proxied/ under its lock.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../util/util.h"
#include "verbs.h"
#include "verbs_engine.h"

#define OPEN_OPS 8192u /* open posts of all links together; more find no room */

_Static_assert(sizeof(struct verbs_address) <= ORI_FABRIC_ADDRESS_BYTES, "an address fits");

/* ---- addresses ------------------------------------------------------------------------------- */

static int verbs_address(struct ori_fabric *fabric, uint8_t out[ORI_FABRIC_ADDRESS_BYTES],
			 uint32_t *bytes)
{
	struct verbs_address own;

	verbs_address_own((struct verbs_fabric *)fabric, &own);
	memcpy(out, &own, sizeof(own));
	*bytes = sizeof(own);
	return 0;
}

static const char *layer_text(int layer)
{
	return layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet (RoCE)" : "InfiniBand";
}

static const char *gid_type_text(uint32_t type)
{
	return type == VERBS_GID_ROCE_V2 ? "RoCE v2" : type == VERBS_GID_ROCE_V1 ? "RoCE v1" : "IB";
}

static int verbs_peer_add(struct ori_fabric *fabric, int rank, const uint8_t *address,
			  uint32_t bytes)
{
	struct verbs_fabric *f = (struct verbs_fabric *)fabric;
	struct verbs_address a;

	if (rank < 0 || rank >= f->world.nranks || bytes != sizeof(a))
		return ori_fail(ORIEL_EPROTO, "verbs: rank %d sent no address", rank);
	memcpy(&a, address, sizeof(a));
	if (a.magic != VERBS_ADDRESS_MAGIC || a.mtu < IBV_MTU_256 || a.mtu > IBV_MTU_4096 ||
	    !a.reads)
		return ori_fail(ORIEL_EPROTO, "verbs: rank %d sent an invalid address", rank);
	if (a.link_layer != f->port_attr.link_layer)
		return ori_fail(ORIEL_EMISMATCH,
				"verbs: %s is %s, the port of rank %d is %s: see ORIEL_IB_HCA",
				f->name, layer_text(f->port_attr.link_layer), rank,
				layer_text(a.link_layer));
	if (a.gid_type != f->gid.type)
		return ori_fail(ORIEL_EMISMATCH,
				"verbs: %s speaks %s, the port of rank %d %s: see ORIEL_IB_GID_INDEX",
				f->name, gid_type_text(f->gid.type), rank,
				gid_type_text(a.gid_type));
	f->peers[rank] = a;
	return 0;
}

/* ---- links ----------------------------------------------------------------------------------- */

static int verbs_link_add(struct ori_fabric *fabric, uint32_t tag, void **link, uint32_t *number)
{
	struct verbs_fabric *f = (struct verbs_fabric *)fabric;
	struct verbs_link *l;
	int err = verbs_link_create(f, tag, &l);

	if (err)
		return err;
	l->next = f->links;
	f->links = l;
	*link = l;
	*number = l->qp->qp_num;
	return 0;
}

static int verbs_link_connect(struct ori_fabric *fabric, void *link, int rank,
			      uint32_t remote_number)
{
	struct verbs_fabric *f = (struct verbs_fabric *)fabric;
	struct verbs_link *l = link;

	if (rank < 0 || rank >= f->world.nranks || !f->peers[rank].magic)
		return ori_fail(ORIEL_EPROTO, "verbs: the address of rank %d is not known", rank);
	if (!remote_number || remote_number >> 24)
		return ori_fail(ORIEL_EPROTO,
				"verbs: rank %d sent an invalid queue pair number (0x%x)", rank,
				remote_number);
	l->rank = rank;
	return verbs_link_ready(l, &f->peers[rank], remote_number);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* A queue pair in error drops incoming packets. */
static void verbs_silence(struct ori_fabric *fabric)
{
	struct verbs_fabric *f = (struct verbs_fabric *)fabric;

	for (struct verbs_link *l = f->links; l; l = l->next)
		verbs_link_break(l);
}

static void verbs_close(struct ori_fabric *fabric)
{
	struct verbs_fabric *f = (struct verbs_fabric *)fabric;
	struct verbs_link *l;

	while ((l = f->links)) {
		f->links = l->next;
		verbs_link_destroy(l);
	}
	while (f->regions) {
		struct ori_fabric_region region = { .handle = f->regions };

		verbs_memory_remove(fabric, &region);
	}
	if (f->wake_fd >= 0)
		close(f->wake_fd);
	if (f->cq)
		f->lib->cq_destroy(f->cq);
	if (f->channel)
		f->lib->channel_destroy(f->channel);
	if (f->pd)
		f->lib->pd_free(f->pd);
	if (f->context)
		f->lib->close(f->context);
	free(f->ops);
	free(f->peers);
	free(f);
}

static int make_work(struct verbs_fabric *f, int depth)
{
	uint32_t room = OPEN_OPS;

	if (f->attr.max_cqe > 0 && (uint32_t)f->attr.max_cqe < room)
		room = (uint32_t)f->attr.max_cqe;
	f->depth = (uint32_t)depth;
	if (f->attr.max_qp_wr > 1 && (uint32_t)f->attr.max_qp_wr <= f->depth)
		f->depth = (uint32_t)f->attr.max_qp_wr - 1;
	f->pd = f->lib->pd_alloc(f->context);
	if (!f->pd)
		return ori_fail_errno(errno, "%s: no protection domain", f->name);
	f->channel = f->lib->channel_create(f->context);
	if (!f->channel)
		return ori_fail_errno(errno, "%s: no channel for completions", f->name);
	f->cq = f->lib->cq_create(f->context, (int)room, NULL, f->channel, 0);
	if (!f->cq)
		return ori_fail_errno(errno, "%s: no completion queue of %u entries", f->name,
				      room);
	return verbs_ops_create(f, room);
}

static void describe(struct verbs_fabric *f, const char *atomics)
{
	char gid[INET6_ADDRSTRLEN] = "";

	inet_ntop(AF_INET6, f->gid.raw, gid, sizeof(gid));
	snprintf(f->base.text, sizeof(f->base.text), "%.40s port %d, %s, GID %u %s, MTU %d, %s",
		 f->name, f->port, gid_type_text(f->gid.type), f->gid.index, gid,
		 128 << f->settings.mtu, atomics);
}

static const struct ori_fabric_ops verbs_ops = {
	.posts = { .post_write = verbs_post_write,
		   .post_write_inline = verbs_post_write_inline,
		   .post_read = verbs_post_read,
		   .post_fetch_add = verbs_post_fetch_add,
		   .post_compare_swap = verbs_post_compare_swap,
		   .progress = verbs_progress,
		   .flush = verbs_flush },
	.memory_add = verbs_memory_add,
	.memory_remove = verbs_memory_remove,
	.address = verbs_address,
	.peer_add = verbs_peer_add,
	.link_add = verbs_link_add,
	.link_connect = verbs_link_connect,
	.arm = verbs_arm,
	.silence = verbs_silence,
	.close = verbs_close,
};

static int verbs_open(const struct ori_config *config, const struct ori_fabric_world *world,
		      struct ori_fabric **out)
{
	struct verbs_fabric *f = calloc(1, sizeof(*f));
	char atomics[96] = "";
	int err;

	if (!f)
		return ori_fail(ORIEL_ENOMEM, "no memory for an RDMA device");
	f->base.ops = &verbs_ops;
	f->world = *world;
	f->wake_fd = f->base.passive_fd = -1;
	f->peers = calloc((size_t)world->nranks, sizeof(*f->peers));
	err = f->peers ? verbs_device_open(f, config, world->nic) :
			 ori_fail(ORIEL_ENOMEM, "no memory for %d ranks", world->nranks);
	if (!err)
		err = make_work(f, config->depth);
	if (!err)
		err = verbs_events_open(f);
	if (!err)
		err = verbs_probe_atomics(f, atomics, sizeof(atomics));
	if (err) {
		verbs_close(&f->base);
		return err;
	}
	/*
	 * RC executes reads and atomics after the writes before them.  Writes are placed in order
	 * only if the fabric does not route adaptively, which cannot be queried.
	 */
	f->base.link_flags |= ORIEL_LINK_ORDERED;
	f->base.message_bytes = f->port_attr.max_msg_sz < ORI_WQE_MESSAGE_BYTES ?
					f->port_attr.max_msg_sz :
					ORI_WQE_MESSAGE_BYTES;
	describe(f, atomics);
	*out = &f->base;
	return 0;
}

/* ---- the engine ------------------------------------------------------------------------------ */

const struct ori_fabric_kind ori_verbs_fabric = { "verbs", verbs_open };

int ori_verbs_engine_probe(const struct ori_config *config, char *reason, size_t bytes)
{
	return verbs_device_probe(config, reason, bytes);
}

int ori_verbs_engine_open(const struct ori_config *config, const struct ori_engine_world *world,
			  struct ori_engine **engine)
{
	return ori_proxied_open(config, world, &ori_verbs_fabric, engine);
}
