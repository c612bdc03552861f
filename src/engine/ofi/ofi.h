/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ofi/ofi.h - what the files of the libfabric fabric share.
 *
 * library.c finds libfabric, choose.c the provider, probe.c tests it.  endpoint.c opens and closes
 * an endpoint.  fabric.c has the table: memory, peers, links.  post.c has operations and
 * completions.  confirm.c finds out when writes are placed.  lost.c finds peers and operations that
 * a provider silently dropped.
 */
#ifndef ORI_OFI_H
#define ORI_OFI_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "../proxied/fabric.h"
#include "library.h"

#define OFI_OPS 1024 /* open operations of all links together */

/* ---- endpoint.c ------------------------------------------------------------------------------ */

/* One endpoint and the objects it needs. */
struct ofi_endpoint {
	const struct ofi_library *lib;
	struct fi_info *info; /* as opened */
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	int fd; /* readable when the CQ has something; -1: the provider has none */
};

/*
 * Takes a copy of the info.  Returns 0, or a negative FI_E* and the failed step in *step; nothing
 * is left open then.
 */
int ori_ofi_endpoint_open(struct ofi_endpoint *, const struct ofi_library *, const struct fi_info *,
			  const char **step);
/* Stops all transfers: open operations are dropped.  Regions and the rest stay. */
void ori_ofi_endpoint_stop(struct ofi_endpoint *);
/* Called after the regions are gone.  Accepts an endpoint that is only partly opened. */
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
	struct fi_info *info; /* of the requested NIC; the caller frees it by lib->freeinfo() */
	int atomics;          /* the probe executed atomics */
	int ordered;          /* writes and atomics of an endpoint take effect in order */
	int lazy;       /* an answer of the peer confirms the writes before it, and is cheaper */
	char text[160]; /* provider, address, abilities */
};

/*
 * The provider of ORIEL_OFI_PROVIDER, or the best that passes the probe.  A provider that passed
 * once in this process is not tested again.  ORIEL_EUNSUPPORTED: none; `why` has the reason,
 * nothing is logged.
 */
int ori_ofi_choose(const struct ori_config *, uint32_t nic, int device_memory, struct ofi_choice *,
		   char *why, size_t why_bytes);
/* The address to bind for IP addresses.  "" leaves the choice to the provider. */
void ori_ofi_address(const struct ori_config *, char *out, size_t bytes);

/* ---- probe.c --------------------------------------------------------------------------------- */

/*
 * Executes operations from an endpoint to itself and checks the results: write, read, and with
 * `atomics` fetch-add, compare-swap and an atomic write.  Returns 0, or ORIEL_EUNSUPPORTED and
 * which of them failed.
 */
int ori_ofi_probe(const struct ofi_library *, const struct fi_info *, int atomics, char *why,
		  size_t why_bytes);

/* ---- fabric.c -------------------------------------------------------------------------------- */

/* Another rank.  Providers keep one connection per peer, so a loss concerns all its links. */
struct ofi_peer {
	fi_addr_t address;       /* FI_ADDR_UNSPEC: not known */
	uint64_t ping, ping_key; /* 8 bytes of its memory that may always be read */
	uint32_t open;           /* operations that the provider has not completed */
	/* operations that ended, without pings; the same at the last check */
	uint64_t ended, ended_seen;
	uint64_t quiet_ns;  /* since when none has ended although some are open; 0: not */
	uint64_t stuck_ns;  /* since when the provider takes no operation; 0: it does */
	uint64_t broken_ns; /* when the first operation failed; 0: none has */
	uint64_t answer_ns; /* when a ping of this silence was answered; 0: none was */
	uint8_t pinged;     /* a ping is open */
	uint8_t lost;
};

/* One queue's connection to a peer. */
struct ofi_link {
	uint32_t tag;
	int rank; /* -1: not connected */
	struct ofi_peer *peer;
	int dead; /* the link or its queue has failed: no more log lines about it */
	struct ofi_link *next;
	/* For confirm.c.  Operations of a link are numbered from 1. */
	uint64_t posted, last_write; /* number of the last one, and of the last write */
	/* of the last operation that the peer answers; of the last one it has answered */
	uint64_t asked, answered;
	struct ofi_op *sent, *sent_last; /* writes that left, in order */
	uint8_t unasked;                 /* it is in the fabric's list `unasked` */
	uint8_t asking;                  /* a question (confirm.c) is open */
	struct ofi_link *next_unasked;
};

/* The last two belong to this fabric and are reported to nobody. */
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

/*
 * A write that the provider has ended.  It is in its link's list, or in the fabric's list of writes
 * to report.
 */
enum ofi_left { OFI_SENT = 1, OFI_READY };

/* An operation of the provider.  The context is the first member, because completions name it. */
struct ofi_op {
	struct fi_context2 context;
	uint64_t cookie;
	struct ofi_link *link; /* NULL: no link */
	struct ofi_peer *peer;
	struct ofi_op *next; /* in a list: free operations, writes that left, writes to report */
	uint64_t number;     /* number in its link */
	uint64_t operand, compare;
	uint8_t data[32]; /* data of an inline write; target of our own reads */
	uint8_t kind;     /* ofi_kind */
	uint8_t left;     /* 0: the provider has it; else ofi_left */
	uint8_t lost;     /* given up: will be reported as failed */
	uint8_t reported; /* was reported; a late completion only frees it */
};

struct ofi_fabric {
	struct ori_fabric base;
	struct ori_fabric_world world;
	struct ofi_endpoint end;
	int atomics, ordered;
	int lazy; /* later answers confirm writes */
	uint64_t stuck_limit_ns;
	struct ofi_peer *peers; /* [rank] */
	struct ofi_link *links;
	struct ofi_op *ops, *free_ops; /* OFI_OPS of them */
	struct ofi_region ops_region;  /* inline data and operands lie in the ops */
	struct ofi_region *regions;
	uint64_t ping_word; /* peers read it to see that this rank answers */
	struct ofi_region ping_region;
	/* links whose last write has nothing behind it that confirms it */
	struct ofi_link *unasked;
	struct ofi_op *ready, *ready_last; /* writes that are placed, to be reported */
	uint32_t looks;                    /* calls of progress(), for lost.c */
	int lost_ops;                      /* lost operations to be reported */
};

/* ---- confirm.c ------------------------------------------------------------------------------- */

/* An operation of a link was posted. */
void ori_ofi_confirm_posted(struct ofi_fabric *, struct ofi_op *);
/* An operation has succeeded.  Returns 1: report it now, 0: it is kept. */
int ori_ofi_confirm_ended(struct ofi_fabric *, struct ofi_op *);
/* The next write that is placed, or NULL.  It now belongs to the caller. */
struct ofi_op *ori_ofi_confirm_ready(struct ofi_fabric *);
/* Removes an OFI_SENT operation from its link's list, because it ends in another way. */
void ori_ofi_confirm_drop(struct ofi_op *);
/* Asks peers about writes that nothing else will confirm.  This is the back end's submit(). */
void ori_ofi_confirm_ask(void *fabric);

/* ---- lost.c ---------------------------------------------------------------------------------- */

/* Called by progress() from time to time. */
void ori_ofi_lost_check(struct ofi_fabric *);
/* Reports up to `room` operations that were given up, as failed. */
int ori_ofi_lost_report(struct ofi_fabric *, struct ori_proxy_completion *, int room);
/* The peer takes no operation although none is open: for too long? */
int ori_ofi_lost_stuck(struct ofi_fabric *, struct ofi_peer *);
/* A ping has ended. */
void ori_ofi_lost_answered(struct ofi_peer *, int good);

/* ---- ops.c ----------------------------------------------------------------------------------- */

struct ofi_op *ori_ofi_op_take(struct ofi_fabric *, enum ofi_kind, struct ofi_peer *);
void ori_ofi_op_give(struct ofi_fabric *, struct ofi_op *);
/*
 * Logs what the provider says about a link's first failure.  The comm's line has only the syndrome.
 */
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
