/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxied/fabric.h - the table of a fabric, which the proxied engine uses.
 *
 * A fabric is one opened NIC (a libibverbs device and port, a libfabric endpoint).  verbs/ and ofi/
 * implement it; only proxied/ uses it.  The engine holds its lock around every call after open, so
 * a fabric needs no locks of its own.
 *
 * Data from a peer (addresses, numbers, keys) are untrusted.  The engine has checked lengths, and
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

/* Calls from a fabric into its engine. */
struct ori_fabric_world {
	void *ctx;
	int rank, nranks;
	uint32_t nic; /* number of this NIC in its rank, from 0 */
	/* device memory, which only a device's copies may touch, will be registered too */
	int device_memory;
	/*
	 * A link is lost and no completion will report it (asynchronous events).  Called from
	 * progress() only.  `tag` is that of link_add.  Open operations of the link still complete,
	 * each once.
	 */
	void (*link_lost)(void *ctx, uint32_t tag, uint32_t syndrome);
	/* As ori_engine_world.dmabuf. */
	int (*dmabuf)(void *ctx, const void *base, uint64_t bytes, uint64_t *offset);
};

/* Memory of this rank, registered. */
struct ori_fabric_region {
	void *handle;     /* for memory_remove; private to the fabric */
	uint64_t cookie;  /* local_cookie of posts: lkey, descriptor */
	uint64_t address; /* the address of its first byte for peers: virtual address, or 0 */
	uint64_t key;     /* the key in posts of peers: rkey.  Their remote_cookie. */
};

struct ori_fabric_ops {
	/*
	 * The back end of the proxy.  Its ctx is the struct ori_fabric, and op->link is the link of
	 * link_add.  The end of docs/protocols/proxy.md lists its guarantees.
	 */
	struct ori_proxy_backend posts;
	/* Registers memory->bytes at memory->base, for peers too if memory->remote. */
	int (*memory_add)(struct ori_fabric *, const struct ori_engine_memory *,
			  struct ori_fabric_region *);
	/* No posted operation uses the region any more. */
	void (*memory_remove)(struct ori_fabric *, const struct ori_fabric_region *);
	/* How peers reach this NIC; *bytes bytes are used.  The same for all peers and links. */
	int (*address)(struct ori_fabric *, uint8_t out[ORI_FABRIC_ADDRESS_BYTES], uint32_t *bytes);
	/*
	 * The address of the same NIC of another rank.  Called before links to it are connected.  A
	 * second call replaces it.
	 */
	int (*peer_add)(struct ori_fabric *, int rank, const uint8_t *address, uint32_t bytes);
	/*
	 * Makes one end of a connection that carries one queue.  The other end's link_connect gets
	 * *number (verbs: queue pair number; 0 if there is none).
	 */
	int (*link_add)(struct ori_fabric *, uint32_t tag, void **link, uint32_t *number);
	int (*link_connect)(struct ori_fabric *, void *link, int rank, uint32_t remote_number);
	/*
	 * Called before a sleep.  1: *fd becomes readable when progress() has something to do.  0:
	 * there is something to do now.  -1: there is no descriptor, so look again soon.
	 */
	int (*arm)(struct ori_fabric *, int *fd);
	/*
	 * Stops a NIC that answers peers by itself: see ori_engine_ops.silence.  NULL: not needed.
	 */
	void (*silence)(struct ori_fabric *);
	/* Ends all remaining links and regions.  Accepts a fabric that is only partly opened. */
	void (*close)(struct ori_fabric *);
};

/* First member of every implementation's struct. */
struct ori_fabric {
	const struct ori_fabric_ops *ops;
	uint32_t link_flags;    /* ORIEL_LINK_* */
	uint64_t message_bytes; /* longest write or read; at most ORI_WQE_MESSAGE_BYTES */
	/*
	 * Operations of peers on this rank's memory need calls of progress() here (tcp).  Otherwise
	 * the hardware or the kernel executes them.
	 */
	int passive_progress;
	int passive_fd; /* with passive_progress: readable while such operations wait; -1: none */
	char text[160]; /* one line for logs and oriel-info: what was chosen and why */
};

/* One kind of fabric, for ori_proxied_open(). */
struct ori_fabric_kind {
	const char *name; /* as in ORIEL_ENGINE */
	int (*open)(const struct ori_config *, const struct ori_fabric_world *,
		    struct ori_fabric **);
};

/* engine.c: makes an engine over config->nics fabrics of this kind. */
int ori_proxied_open(const struct ori_config *, const struct ori_engine_world *,
		     const struct ori_fabric_kind *, struct ori_engine **);

#endif
