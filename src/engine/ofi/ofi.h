/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/ofi.h - what the files of the libfabric fabric share.
 *
 * library.c finds libfabric, choose.c the provider, probe.c tries it out, endpoint.c opens and
 * closes one, fabric.c is the table: memory, peers, links; post.c operations and completions;
 * confirm.c tells when writes are placed; lost.c finds the peers and operations that a provider
 * silently gave up.
 */
#ifndef ORI_OFI_H
#define ORI_OFI_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "../proxied/fabric.h"
#include "library.h"

#define OFI_OPS 1024 /* operations open at a time, of all links */

/* ---- endpoint.c ------------------------------------------------------------------------------ */

/* One endpoint and what it stands on. */
struct ofi_endpoint {
	const struct ofi_library *lib;
	struct fi_info *info; /* as opened */
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	int fd; /* readable when the CQ has something; -1: the provider offers none */
};

/*
 * Takes a copy of the info.  0, or a negative FI_E* and what failed in *step; nothing is left then.
 */
int ori_ofi_endpoint_open(struct ofi_endpoint *, const struct ofi_library *, const struct fi_info *,
			  const char **step);
/* Nothing moves any more: what was open is dropped.  Regions and the rest stay. */
void ori_ofi_endpoint_stop(struct ofi_endpoint *);
/* After the regions.  Takes half-built ones. */
void ori_ofi_endpoint_close(struct ofi_endpoint *);

struct ofi_region {
	struct fid_mr *mr;
	void *desc;
	uint64_t address, key;           /* for peers */
	struct ofi_region **from, *next; /* in the fabric's list */
};

/* Registers; 0 or a negative FI_E*. */
int ori_ofi_region_add(struct ofi_endpoint *, void *base, uint64_t bytes, int remote, int device,
		       struct ofi_region *);
void ori_ofi_region_remove(struct ofi_region *);

/* ---- choose.c -------------------------------------------------------------------------------- */

struct ofi_choice {
	struct fi_info *info; /* of the NIC asked for; the caller's, by lib->freeinfo() */
	int atomics;          /* the probe executed them */
	int ordered;          /* writes and atomics of an endpoint take effect in order */
	int lazy;       /* an answer of the peer confirms the writes before it, and costs less */
	char text[160]; /* provider, address, abilities */
};

/*
 * The provider of ORIEL_OFI_PROVIDER, or the best that passes the probe.  What passed once in this
 * process is not tried again.  ORIEL_EUNSUPPORTED: none; `why` has the reason, nothing is logged.
 */
int ori_ofi_choose(const struct ori_config *, uint32_t nic, int device_memory, struct ofi_choice *,
		   char *why, size_t why_bytes);
/* The address to bind where addresses are of IP: "" leaves it to the provider. */
void ori_ofi_address(const struct ori_config *, char *out, size_t bytes);

/* ---- probe.c --------------------------------------------------------------------------------- */

/*
 * Executes, from an endpoint to itself: write, read, and with `atomics` fetch-add, compare-swap and
 * an atomic write; looks at what they did.  0, or ORIEL_EUNSUPPORTED and which of them failed.
 */
int ori_ofi_probe(const struct ofi_library *, const struct fi_info *, int atomics, char *why,
		  size_t why_bytes);

/* ---- fabric.c -------------------------------------------------------------------------------- */

/*
 * Another rank.  Providers keep one connection a peer, so what is lost is lost for all its links.
 */
struct ofi_peer {
	fi_addr_t address;          /* FI_ADDR_UNSPEC: not known */
	uint64_t ping, ping_key;    /* 8 bytes of its memory that may always be read */
	uint32_t open;              /* operations that the provider has */
	uint64_t ended, ended_seen; /* operations that ended, no pings; when last looked at */
	uint64_t quiet_ns;          /* since when none has ended though some are open; 0: not */
	uint64_t stuck_ns;          /* since when the provider takes none; 0: it does */
	uint64_t broken_ns;         /* when the first operation failed; 0: none has */
	uint64_t answer_ns;         /* when a ping of this silence was answered; 0: none was */
	uint8_t pinged;             /* a ping is open */
	uint8_t lost;
};

/* One queue's way to a peer. */
struct ofi_link {
	uint32_t tag;
	int rank; /* -1: not connected */
	struct ofi_peer *peer;
	int dead; /* it or its queue has failed: no more lines about it */
	struct ofi_link *next;
	/* confirm.c; operations of a link are numbered from 1 */
	uint64_t posted, last_write; /* number of the last one, and of the last write */
	uint64_t asked, answered; /* of the last one that the peer answers; that it has answered */
	struct ofi_op *sent, *sent_last; /* writes that left, in their order */
	uint8_t unasked;                 /* it is in the fabric's list */
	uint8_t asking;                  /* a question of our own is open */
	struct ofi_link *next_unasked;
};

/* The last two are this fabric's own, and reported to nobody. */
enum ofi_kind {
	OFI_FREE,
	OFI_WRITE,
	OFI_WORD,
	OFI_READ,
	OFI_FETCH_ADD,
	OFI_COMPARE_SWAP,
	OFI_CONFIRM,
	OFI_PING
};

/* A write that the provider has ended: in its link's list, or in the fabric's, to be reported. */
enum ofi_left { OFI_SENT = 1, OFI_READY };

/* An operation the provider has.  The context is first: completions name it. */
struct ofi_op {
	struct fi_context2 context;
	uint64_t cookie;
	struct ofi_link *link; /* NULL: of none */
	struct ofi_peer *peer;
	struct ofi_op *next; /* in a list: of free ones, of writes that left, of those to report */
	uint64_t number;     /* of its link's */
	uint64_t operand, compare;
	uint8_t data[32]; /* of an inline write; where the answer to our own reads goes */
	uint8_t kind;     /* ofi_kind */
	uint8_t left;     /* 0: the provider has it; else ofi_left */
	uint8_t lost;     /* given up: to be reported as failed */
	uint8_t reported; /* has been; a late completion only frees it */
};

struct ofi_fabric {
	struct ori_fabric base;
	struct ori_fabric_world world;
	struct ofi_endpoint end;
	int atomics, ordered;
	int lazy; /* writes are confirmed by later answers */
	uint64_t stuck_limit_ns;
	struct ofi_peer *peers; /* [rank] */
	struct ofi_link *links;
	struct ofi_op *ops, *free_ops; /* OFI_OPS of them */
	struct ofi_region ops_region;  /* inline data and operands lie in the ops */
	struct ofi_region *regions;
	uint64_t ping_word; /* what peers read to see that this rank answers */
	struct ofi_region ping_region;
	struct ofi_link *unasked;          /* links whose last write nothing behind it confirms */
	struct ofi_op *ready, *ready_last; /* writes that are placed, to be reported */
	uint32_t looks;                    /* calls of progress, for lost.c */
	int lost_ops;                      /* to be reported */
};

/* ---- confirm.c ------------------------------------------------------------------------------- */

/* An operation of a link was posted. */
void ori_ofi_confirm_posted(struct ofi_fabric *, struct ofi_op *);
/* One has ended well; 1: report it now, 0: it is kept. */
int ori_ofi_confirm_ended(struct ofi_fabric *, struct ofi_op *);
/* The next write that is placed; NULL: none.  The caller's now. */
struct ofi_op *ori_ofi_confirm_ready(struct ofi_fabric *);
/* An OFI_SENT one out of its link's list, as it ends otherwise. */
void ori_ofi_confirm_drop(struct ofi_op *);
/* Asks peers about writes that nothing else will confirm; the back end's submit. */
void ori_ofi_confirm_ask(void *fabric);

/* ---- lost.c ---------------------------------------------------------------------------------- */

/* Now and then, by progress(). */
void ori_ofi_lost_check(struct ofi_fabric *);
/* Up to `room` operations that were given up, as failed. */
int ori_ofi_lost_report(struct ofi_fabric *, struct ori_proxy_completion *, int room);
/* The peer takes no operation though none is open: since too long? */
int ori_ofi_lost_stuck(struct ofi_fabric *, struct ofi_peer *);
/* A ping has ended. */
void ori_ofi_lost_answered(struct ofi_peer *, int good);

/* ---- ops.c ----------------------------------------------------------------------------------- */

struct ofi_op *ori_ofi_op_take(struct ofi_fabric *, enum ofi_kind, struct ofi_peer *);
void ori_ofi_op_give(struct ofi_fabric *, struct ofi_op *);
/* What the provider says of a link's first failure; the comm's line only has the syndrome. */
void ori_ofi_tell(struct ofi_fabric *, struct ofi_link *, const char *what, int err,
		  const char *detail);

/* ---- post.c ---------------------------------------------------------------------------------- */

int ori_ofi_post_write(void *fabric, const struct ori_proxy_op *);
int ori_ofi_post_write_inline(void *fabric, const struct ori_proxy_op *);
int ori_ofi_post_read(void *fabric, const struct ori_proxy_op *);
int ori_ofi_post_fetch_add(void *fabric, const struct ori_proxy_op *);
int ori_ofi_post_compare_swap(void *fabric, const struct ori_proxy_op *);
int ori_ofi_progress(void *fabric, struct ori_proxy_completion *, int room);
void ori_ofi_flush(void *fabric, void *link);
/* The syndrome for a positive FI_E* code. */
uint32_t ori_ofi_syndrome(int err);

int ori_ofi_fabric_open(const struct ori_config *, const struct ori_fabric_world *,
			struct ori_fabric **);

#endif
