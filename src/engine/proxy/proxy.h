/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxy/proxy.h - shared by engines whose NIC is not driven by the device.  Reads the WQEs
 * that a device wrote, passes each operation to a back end (libibverbs, libfabric), and writes the
 * CQEs.
 *
 * The core is ori_proxy_step(): no threads, no locks, no clock.  The caller serialises all calls on
 * one proxy.  Owns: key tables, queue state, CQ memory from queue_add on.  Does not own: queue and
 * payload memory, and connections, which belong to the back end.  WQEs are untrusted and are
 * checked before use.
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
 * One checked operation.  It is valid during the call only, and so is `data`.  The memory behind
 * `local` stays valid until completion.
 */
struct ori_proxy_op {
	uint64_t cookie;            /* identifies the operation in its completion */
	void *link;                 /* of ori_proxy_queue_connect() */
	void *local;                /* source; target of a read; place for an atomic's old value */
	uint64_t local_cookie;      /* of ori_proxy_key_add() */
	uint64_t remote;            /* the peer's address in terms of the back end */
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
 * A post returns 0 if it is taken; its completion is then reported exactly once.  It returns
 * -EAGAIN if there is no room now: nothing happened, try again.  Or it returns a syndrome: it is
 * refused, nothing happened, and no completion is reported.  If a post function is missing, the
 * result is REMOTE_INVALID.  Other missing functions do nothing.
 */
struct ori_proxy_backend {
	int (*post_write)(void *ctx, const struct ori_proxy_op *);
	int (*post_write_inline)(void *ctx, const struct ori_proxy_op *);
	int (*post_read)(void *ctx, const struct ori_proxy_op *);
	int (*post_fetch_add)(void *ctx, const struct ori_proxy_op *);
	int (*post_compare_swap)(void *ctx, const struct ori_proxy_op *);
	/* Sends the posts of this step that the back end has held back to batch them. */
	void (*submit)(void *ctx);
	/* Makes progress.  Returns the number of completions, up to `room`, in any order. */
	int (*progress)(void *ctx, struct ori_proxy_completion *out, int room);
	/*
	 * The link's queue has failed: it takes no more posts, and its open operations must
	 * complete soon, with success or error.
	 */
	void (*flush)(void *ctx, void *link);
};

struct ori_proxy_attr {
	int rank, nranks;
	int strict; /* what no correct device writes is logged, not only refused */
	const struct ori_proxy_backend *backend; /* copied */
	void *backend_ctx;
	/*
	 * The first error of a queue.  Called once, from within step, before its CQE is visible.
	 * May call ori_proxy_queue_fail().
	 */
	void (*failed)(void *ctx, uint32_t qpn, uint64_t wqe, uint32_t syndrome);
	void *failed_ctx;
	/* A CQE is about to be written; gets failed_ctx.  NULL: nobody asks. */
	void (*completed)(void *ctx, uint32_t qpn, uint64_t wqe);
};

int ori_proxy_create(const struct ori_proxy_attr *, struct ori_proxy **);
/* Called after the back end has dropped all operations.  Accepts NULL. */
void ori_proxy_destroy(struct ori_proxy *);

/* ---- keys ------------------------------------------------------------------------------------ */

#define ORI_PROXY_LOCAL_WRITE 1u
#define ORI_PROXY_REMOTE_WRITE 2u
#define ORI_PROXY_REMOTE_READ 4u
#define ORI_PROXY_REMOTE_ATOMIC 8u

struct ori_proxy_memory {
	void *base;
	uint64_t iova; /* the address of `base` in WQEs */
	uint64_t bytes;
	uint32_t access;
	uint64_t cookie; /* for the back end: lkey, descriptor */
};

int ori_proxy_key_add(struct ori_proxy *, const struct ori_proxy_memory *, uint32_t *key);
/* WQEs that use it and are not posted yet fail.  The back end must first end the posted ones. */
void ori_proxy_key_remove(struct ori_proxy *, uint32_t key);

/* Memory of another rank, known by the key that its proxy gave it. */
struct ori_proxy_remote {
	uint64_t iova, bytes;
	uint32_t access;
	uint64_t address; /* the back end's address of iova */
	uint64_t cookie;  /* for the back end: rkey */
};

/* A second call with the same rank and key replaces the first. */
int ori_proxy_remote_add(struct ori_proxy *, int rank, uint32_t key,
			 const struct ori_proxy_remote *);
void ori_proxy_remote_remove(struct ori_proxy *, int rank, uint32_t key);

/* ---- queues ---------------------------------------------------------------------------------- */

/*
 * Serves the queue from index q->produced on.  Sets q->qpn, q->cqn and fresh CQ entries.  The
 * doorbell word is 0 until the device rings.  core_direct: the queue may WAIT.
 */
int ori_proxy_queue_add(struct ori_proxy *, struct oriel_queue *q, int core_direct);
/*
 * Starts the queue.  `link` is the back end's connection to `rank`.  For the own rank it is a
 * loopback, which never reaches the back end: the proxy executes its atomics itself, and refuses
 * writes and reads.
 */
int ori_proxy_queue_connect(struct ori_proxy *, uint32_t qpn, int rank, void *link);
/* Sets the queue to error: outstanding and later WQEs are flushed.  For asynchronous events. */
void ori_proxy_queue_fail(struct ori_proxy *, uint32_t qpn, uint32_t syndrome);
/* Later completions for the queue are ignored. */
void ori_proxy_queue_remove(struct ori_proxy *, uint32_t qpn);

/* ---- driving --------------------------------------------------------------------------------- */

/*
 * Does up to `budget` units of work (a completion taken, a WQE started, a CQE written).  Returns
 * how many.
 */
int ori_proxy_step(struct ori_proxy *, int budget);
/*
 * Are there rung WQEs without CQE?  If not, and no peer needs progress here, the caller may sleep.
 */
int ori_proxy_busy(const struct ori_proxy *);

struct ori_proxy_stats {
	uint64_t wqes, cqes, posts, again, local_atomics, stalls, strays, errors;
};
void ori_proxy_stats(const struct ori_proxy *, struct ori_proxy_stats *);

#endif
