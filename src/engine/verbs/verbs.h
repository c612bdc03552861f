/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/verbs/verbs.h - what the files of the verbs fabric share: one NIC (a device and a port),
 * its links (RC queue pairs) and regions, and each other's calls.
 *
 * The engine holds its lock around every call but opening, so there are no locks here.
 */
#ifndef ORI_VERBS_H
#define ORI_VERBS_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/device/wqe.h>

#include "../proxied/fabric.h"
#include "choice.h"
#include "library.h"

/* reading events is a system call, so it is done once per this many looks */
#define VERBS_LOOKS_PER_EVENT 64u

/* The values of the ORIEL_IB_* variables, checked. */
struct verbs_settings {
	struct verbs_hca hca;
	int gid_index; /* -1: choose */
	uint32_t mtu;  /* enum ibv_mtu; 0: the port's */
	uint8_t traffic_class, service_level, hop_limit, timeout, retry_count;
	uint16_t pkey_index;
};

/*
 * How another rank's NIC is reached: the address that ranks exchange.  An incoming one is
 * untrusted.
 */
struct verbs_address {
	uint32_t magic;
	uint8_t link_layer; /* IBV_LINK_LAYER_* */
	uint8_t gid_type;   /* enum verbs_gid_type */
	uint8_t mtu;        /* enum ibv_mtu */
	uint8_t reads;      /* reads and atomics that it answers at once, per queue pair */
	uint16_t lid;
	uint8_t atomics;
	uint8_t reserved;
	uint8_t gid[16];
};

struct verbs_fabric;

/* One end of a connection: a queue pair. */
struct verbs_link {
	struct verbs_fabric *fabric;
	struct ibv_qp *qp;
	uint32_t tag;
	int rank; /* rank of the other end; -1: not connected */
	uint32_t open, room;
	int broken; /* takes no more posts */
	/*
	 * Places of open posts, in the order posted, linked by `next`.  Not every post is
	 * signalled.  The completion of a signalled one stands for all before it.  If any post is
	 * open, a signalled one is open.
	 */
	uint32_t first, last;
	uint32_t signalled; /* open and signalled */
	uint32_t since;     /* posts since the last signalled one */
	/* If the device takes no inline data: `room` pieces of registered memory, used in turn. */
	uint8_t *bounce;
	struct ibv_mr *bounce_mr;
	uint64_t posts;
	struct verbs_link *next;
};

struct verbs_region {
	struct ibv_mr *mr;
	struct verbs_region *next, **link; /* link: the pointer that points to it */
};

#define VERBS_NONE UINT32_MAX

/* A post without its completion.  Its place is the work request's id. */
struct verbs_op {
	uint64_t cookie;
	struct verbs_link *link; /* NULL: free */
	uint32_t next;           /* the next free place, or the next place of the link */
	uint8_t signalled;
	uint8_t marker; /* a marker, not an operation of the proxy: nobody is told */
};

struct verbs_fabric {
	struct ori_fabric base;
	struct ori_fabric_world world;
	const struct verbs_library *lib;
	struct verbs_settings settings;

	/* ---- the device and its port ---- */
	struct ibv_context *context;
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	char name[VERBS_HCA_NAME];
	uint8_t port;
	struct verbs_gid gid;
	uint8_t hop_limit;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	int wake_fd; /* epoll of completions and events; -1: none */

	/* ---- others ---- */
	struct verbs_address *peers; /* one per rank; magic 0: not known */

	/* ---- work ---- */
	uint32_t depth; /* largest number of open posts per link */
	struct verbs_link *links;
	struct verbs_region *regions;
	int told_way;         /* it was logged how GPU memory is registered */
	struct verbs_op *ops; /* as many as CQ entries, so the CQ cannot overrun */
	uint32_t ops_room, ops_free;
	uint32_t looks; /* progress calls without a completion, since events were last read */
	int kept;       /* kept_wc was polled and is not handled yet */
	struct ibv_wc kept_wc;
	/*
	 * A completion that stands for more posts than there was room to report: up to `upto` of
	 * that link.
	 */
	struct verbs_link *ending;
	uint32_t upto, upto_syndrome;
	uint32_t unmarked; /* number of links whose marker found no room */
};

/* settings.c: ORIEL_ECONFIG with a log line that names the variable. */
int verbs_settings_read(const struct ori_config *, struct verbs_settings *);

/*
 * device.c.  open: opens the `nic`-th best port and learns its abilities, or logs why there is
 * none.  probe: only looks for a port.  `why` gets one line: the choice, or why there is none.
 */
int verbs_device_open(struct verbs_fabric *f, const struct ori_config *, uint32_t nic);
int verbs_device_probe(const struct ori_config *, char *why, size_t bytes);

/* link.c */
int verbs_link_create(struct verbs_fabric *, uint32_t tag, struct verbs_link **);
void verbs_link_destroy(struct verbs_link *);
/* Sets a new queue pair to INIT: port, partition key, rights of peers. */
int verbs_link_init(struct verbs_link *);
/* Connects the queue pair to queue pair `number` at that address. */
int verbs_link_ready(struct verbs_link *, const struct verbs_address *, uint32_t number);
/* Both ends compute the first PSN from their numbers alone. */
uint32_t verbs_first_psn(uint32_t from, uint32_t to);
void verbs_fill_address(const struct verbs_fabric *, const struct verbs_address *,
			struct ibv_ah_attr *);
/* The device flushes everything open. */
void verbs_link_break(struct verbs_link *);

/* probe.c: executes a fetch-add and a compare-swap from this NIC to itself. */
int verbs_probe_atomics(struct verbs_fabric *, char *why, size_t bytes);

/* memory.c */
int verbs_memory_add(struct ori_fabric *, const struct ori_engine_memory *,
		     struct ori_fabric_region *);
void verbs_memory_remove(struct ori_fabric *, const struct ori_fabric_region *);
/*
 * GPU memory as a dma-buf, under addresses from `iova` on.  The memory and `iova` have the same
 * offset in a page.  NULL: the reason is in errno; EOPNOTSUPP if one side has no dma-bufs.
 */
struct ibv_mr *verbs_dmabuf_add(struct verbs_fabric *, const struct ori_engine_memory *,
				uint64_t iova);
/* Logs how GPU memory is registered.  `error`: why not by dma-buf. */
void verbs_tell_way(struct verbs_fabric *, int by_dmabuf, int error);

/* post.c */
int verbs_ops_create(struct verbs_fabric *, uint32_t room);
int verbs_post_write(void *, const struct ori_proxy_op *);
int verbs_post_write_inline(void *, const struct ori_proxy_op *);
int verbs_post_read(void *, const struct ori_proxy_op *);
int verbs_post_fetch_add(void *, const struct ori_proxy_op *);
int verbs_post_compare_swap(void *, const struct ori_proxy_op *);
int verbs_progress(void *, struct ori_proxy_completion *, int room);
void verbs_flush(void *, void *link);

/* events.c: tells the engine of links that are lost. */
void verbs_events_take(struct verbs_fabric *);
int verbs_events_open(struct verbs_fabric *);
int verbs_arm(struct ori_fabric *, int *fd);

/* status.c: ORI_SYNDROME_*.  0 for success, and for events that end nothing. */
uint32_t verbs_status_syndrome(enum ibv_wc_status);
uint32_t verbs_event_syndrome(enum ibv_event_type);

/* address.c: the address of this NIC, as peers get it. */
#define VERBS_ADDRESS_MAGIC 0x4f564230u /* "OVB0": differs in another byte order */
void verbs_address_own(const struct verbs_fabric *, struct verbs_address *);

#endif
