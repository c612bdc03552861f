/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxy/proxy.h - the part that engines without a device-driven NIC share: it reads the WQEs
 * a device wrote, hands each operation to a back end (libibverbs, libfabric), and writes the CQEs.
 *
 * The core is ori_proxy_step(): no threads, no locks, no clock.  The caller serialises all calls on
 * one proxy.  Owns: key tables, queue state, CQ memory from queue_add on.  Does not own: queue and
 * payload memory, connections (the back end's).  What a WQE says is untrusted: checked before use.
 *
 * Protocol: docs/protocols/proxy.md
 */
#ifndef ORI_PROXY_H
#define ORI_PROXY_H

#include <stdint.h>

#include <oriel/device/types.h>

struct ori_proxy;

/* ---- the back end ---------------------------------------------------------------------------- */

/*
 * One checked operation.  Valid during the call only, `data` too; memory behind `local` until
 * completion.
 */
struct ori_proxy_op {
	uint64_t cookie;            /* names the operation in its completion */
	void *link;                 /* of ori_proxy_queue_connect() */
	void *local;                /* source; target of a read; where an atomic's old value goes */
	uint64_t local_cookie;      /* of ori_proxy_key_add() */
	uint64_t remote;            /* address, as the peer's back end calls it */
	uint64_t remote_cookie;     /* of ori_proxy_remote_add() */
	const uint8_t *data;        /* inline write: `bytes` bytes, 1 to 28 */
	uint64_t swap_add, compare; /* atomics, on 8 aligned bytes */
	uint32_t bytes;
};

struct ori_proxy_completion {
	uint64_t cookie;
	uint32_t syndrome; /* 0, or ORI_SYNDROME_* */
};

/*
 * A post returns 0: taken, and its completion will be reported exactly once; -EAGAIN: no room now,
 * nothing happened, ask again; or a syndrome: refused, nothing happened and none will be reported.
 * A missing post answers REMOTE_INVALID, the others do nothing.
 */
struct ori_proxy_backend {
	int (*post_write)(void *ctx, const struct ori_proxy_op *);
	int (*post_write_inline)(void *ctx, const struct ori_proxy_op *);
	int (*post_read)(void *ctx, const struct ori_proxy_op *);
	int (*post_fetch_add)(void *ctx, const struct ori_proxy_op *);
	int (*post_compare_swap)(void *ctx, const struct ori_proxy_op *);
	/* What posts of this step held back for one another must go out now. */
	void (*submit)(void *ctx);
	/* Makes progress; up to `room` completions, in any order; returns how many. */
	int (*progress)(void *ctx, struct ori_proxy_completion *out, int room);
	/*
	 * The link's queue failed: takes no more posts, and what is open must complete soon,
	 * somehow.
	 */
	void (*flush)(void *ctx, void *link);
};

struct ori_proxy_attr {
	int rank, nranks;
	int strict; /* what no correct device writes is logged too, not only answered */
	const struct ori_proxy_backend *backend; /* copied */
	void *backend_ctx;
	/*
	 * First error of a queue: told once, from within step, before its CQE is visible.  May call
	 * ori_proxy_queue_fail().
	 */
	void (*failed)(void *ctx, uint32_t qpn, uint64_t wqe, uint32_t syndrome);
	void *failed_ctx;
};

int ori_proxy_create(const struct ori_proxy_attr *, struct ori_proxy **);
/* After the back end has let go of all operations.  Takes NULL. */
void ori_proxy_destroy(struct ori_proxy *);

/* ---- keys ------------------------------------------------------------------------------------ */

#define ORI_PROXY_LOCAL_WRITE 1u
#define ORI_PROXY_REMOTE_WRITE 2u
#define ORI_PROXY_REMOTE_READ 4u
#define ORI_PROXY_REMOTE_ATOMIC 8u

struct ori_proxy_memory {
	void *base;
	uint64_t iova; /* what WQEs call `base` */
	uint64_t bytes;
	uint32_t access;
	uint64_t cookie; /* for the back end: lkey, descriptor */
};

int ori_proxy_key_add(struct ori_proxy *, const struct ori_proxy_memory *, uint32_t *key);
/* WQEs not yet posted that name it fail; those posted are the back end's to end first. */
void ori_proxy_key_remove(struct ori_proxy *, uint32_t key);

/* Memory of another rank, known by the key that its proxy gave it. */
struct ori_proxy_remote {
	uint64_t iova, bytes;
	uint32_t access;
	uint64_t address; /* what the back end calls iova */
	uint64_t cookie;  /* for the back end: rkey */
};

/* The same rank and key again replaces what was known. */
int ori_proxy_remote_add(struct ori_proxy *, int rank, uint32_t key,
			 const struct ori_proxy_remote *);
void ori_proxy_remote_remove(struct ori_proxy *, int rank, uint32_t key);

/* ---- queues ---------------------------------------------------------------------------------- */

/*
 * Serves the queue from index q->produced on; sets q->qpn and q->cqn and fresh CQ entries.  The
 * doorbell word is 0 until the device rings.  core_direct: it may WAIT.
 */
int ori_proxy_queue_add(struct ori_proxy *, struct oriel_queue *q, int core_direct);
/*
 * Starts it.  `link` is the back end's way to `rank`.  With the own rank it is a loopback, which
 * never reaches the back end: the proxy executes its atomics itself, and refuses writes and reads.
 */
int ori_proxy_queue_connect(struct ori_proxy *, uint32_t qpn, int rank, void *link);
/* To error: outstanding and later WQEs are flushed; for asynchronous events. */
void ori_proxy_queue_fail(struct ori_proxy *, uint32_t qpn, uint32_t syndrome);
/* Completions that still come for it are ignored. */
void ori_proxy_queue_remove(struct ori_proxy *, uint32_t qpn);

/* ---- driving --------------------------------------------------------------------------------- */

/*
 * Does up to `budget` units of work (a completion taken, a WQE started, a CQE written); returns how
 * many.
 */
int ori_proxy_step(struct ori_proxy *, int budget);
/*
 * Are there rung WQEs without CQE?  If not, and no peer needs this side's progress, one may sleep.
 */
int ori_proxy_busy(const struct ori_proxy *);

struct ori_proxy_stats {
	uint64_t wqes, cqes, posts, again, local_atomics, stalls, strays, errors;
};
void ori_proxy_stats(const struct ori_proxy *, struct ori_proxy_stats *);

#endif
