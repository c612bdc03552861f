/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxied/fabric.h - the table of a fabric: what the proxied engine stands on.
 *
 * A fabric is one opened NIC (a libibverbs device and port, a libfabric endpoint).  verbs/ and ofi/
 * implement it; proxied/ is the only user.  The engine holds its lock around every call after open,
 * so a fabric needs no locks of its own.
 *
 * What comes from a peer (addresses, numbers, keys) is untrusted: the engine has checked lengths,
 * the fabric checks the rest.
 */
#ifndef ORI_FABRIC_H
#define ORI_FABRIC_H

#include <stddef.h>
#include <stdint.h>

#include "../engine.h"
#include "../proxy/proxy.h"

#define ORI_FABRIC_ADDRESS_BYTES 120

struct ori_fabric;

/* What a fabric may ask of its engine. */
struct ori_fabric_world {
	void *ctx;
	int rank, nranks;
	uint32_t nic;      /* counts from 0: which one of this rank's this is to be */
	int device_memory; /* memory that only a device's copies may touch will be registered too */
	/*
	 * A link is lost and no completion will say so (asynchronous events).  From within
	 * progress() only. `tag` is that of link_add; what is open on the link is still completed,
	 * each operation once.
	 */
	void (*link_lost)(void *ctx, uint32_t tag, uint32_t syndrome);
	/* As ori_engine_world.dmabuf. */
	int (*dmabuf)(void *ctx, const void *base, uint64_t bytes, uint64_t *offset);
};

/* Memory of this rank, registered. */
struct ori_fabric_region {
	void *handle;     /* the fabric's own, for memory_remove */
	uint64_t cookie;  /* local_cookie of posts: lkey, descriptor */
	uint64_t address; /* what peers call its first byte: virtual address, or 0 */
	uint64_t key;     /* what peers' posts name it by: rkey.  Their remote_cookie. */
};

struct ori_fabric_ops {
	/*
	 * The back end of the proxy; its ctx is the struct ori_fabric.  What it promises is listed
	 * at the end of docs/protocols/proxy.md; op->link is what link_add gave.
	 */
	struct ori_proxy_backend posts;
	/* Registers memory->bytes at memory->base, for peers too if memory->remote. */
	int (*memory_add)(struct ori_fabric *, const struct ori_engine_memory *,
			  struct ori_fabric_region *);
	/* Nothing posted names it any more. */
	void (*memory_remove)(struct ori_fabric *, const struct ori_fabric_region *);
	/* How peers reach this NIC; *bytes of them are used.  The same for all peers and links. */
	int (*address)(struct ori_fabric *, uint8_t out[ORI_FABRIC_ADDRESS_BYTES], uint32_t *bytes);
	/* The same NIC of another rank; before links to it are connected.  Again: replaces it. */
	int (*peer_add)(struct ori_fabric *, int rank, const uint8_t *address, uint32_t bytes);
	/*
	 * One end of a connection that is to carry one queue.  *number is what the other end's
	 * link_connect is given (verbs: queue pair number; 0 where there is none).
	 */
	int (*link_add)(struct ori_fabric *, uint32_t tag, void **link, uint32_t *number);
	int (*link_connect)(struct ori_fabric *, void *link, int rank, uint32_t remote_number);
	/*
	 * Before a sleep.  1: *fd becomes readable when progress() has something to do, so one may
	 * poll() it; 0: there is something to do now; -1: nothing to sleep on, look again soon.
	 */
	int (*arm)(struct ori_fabric *, int *fd);
	/*
	 * A NIC that answers peers by itself stops that: ori_engine_ops.silence.  NULL: none does.
	 */
	void (*silence)(struct ori_fabric *);
	/* Ends all links and regions that are left.  Takes half-built ones. */
	void (*close)(struct ori_fabric *);
};

/* First member of every implementation's struct. */
struct ori_fabric {
	const struct ori_fabric_ops *ops;
	uint32_t link_flags;    /* ORIEL_LINK_* */
	uint64_t message_bytes; /* longest write or read; at most ORI_WQE_MESSAGE_BYTES */
	/*
	 * Peers' operations on this rank's memory need calls of progress() here (tcp); else the
	 * hardware or the kernel executes them alone.
	 */
	int passive_progress;
	int passive_fd; /* with the above: readable while such operations wait; -1: none */
	char text[160]; /* one line for logs and oriel-info: what was chosen and why */
};

/* One kind of fabric, for ori_proxied_open(). */
struct ori_fabric_kind {
	const char *name; /* as in ORIEL_ENGINE */
	int (*open)(const struct ori_config *, const struct ori_fabric_world *,
		    struct ori_fabric **);
};

/* engine.c: an engine over config->nics fabrics of the kind. */
int ori_proxied_open(const struct ori_config *, const struct ori_engine_world *,
		     const struct ori_fabric_kind *, struct ori_engine **);

#endif
