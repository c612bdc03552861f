/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/proxy/state.h - what the files of the proxy share: its objects and each other's calls.
 *
 * WQE indices have 64 bits inside and 16 in the queue, so no comparison here can wrap.  For a queue
 *
 *      ci <= next <= pi <= ci + depth
 *
 * WQEs before ci have their CQE, WQEs before next were posted or executed, WQEs before pi were
 * rung.
 */
#ifndef ORI_PROXY_STATE_H
#define ORI_PROXY_STATE_H

#include <oriel/device/wqe.h>

#include "../wqe_decode.h"
#include "proxy.h"

#define PROXY_CQN_BIT 0x800000u /* number of a queue's CQ: this bit and the queue's number */
#define PROXY_INDEX_BITS 40     /* low bits of a cookie: WQE index; above: the queue's number */

enum proxy_slot_state { SLOT_FREE, SLOT_POSTED, SLOT_COMPLETE };

/* A WQE between its start and its CQE. */
struct proxy_slot {
	uint32_t bytes; /* for the CQE of a READ or atomic */
	uint8_t opcode;
	uint8_t flags;    /* fm_ce_se */
	uint8_t state;    /* proxy_slot_state */
	uint8_t syndrome; /* SLOT_COMPLETE: 0, or why it failed */
};

enum proxy_state { QUEUE_RESET, QUEUE_READY, QUEUE_ERROR };

struct proxy_queue {
	/* ---- fixed ---- */
	const struct ori_wqe *sq;
	struct ori_cqe *cq;
	const uint64_t *doorbell;
	uint32_t depth;
	uint32_t number;
	uint32_t place; /* in the proxy's table */
	int rank;       /* rank of the other end */
	int core_direct;
	void *link;

	/* ---- send queue ---- */
	uint64_t bell_seen;
	uint64_t pi, next, ci;
	/* posted but not complete; how many of them are reads and atomics */
	uint32_t open, open_reads;
	uint8_t state;   /* proxy_state */
	uint8_t taken;   /* WQE `next` is decoded in `head`, but not started */
	uint8_t failing; /* a WQE failed: nothing behind it starts */
	uint8_t stalled; /* counted as stalled, until something moves */
	uint8_t head_syndrome;
	struct ori_wqe_op head;
	struct proxy_slot *slots; /* depth entries */

	/* ---- completion ---- */
	uint8_t told;      /* failed() was called */
	uint8_t error;     /* syndrome of the first CQE after QUEUE_ERROR; then FLUSHED */
	uint8_t bad;       /* an error CQE was written; its number is first_bad */
	uint64_t cq_count; /* number of CQEs written, from the first index on */
	uint64_t first_bad;
	struct proxy_queue *waiters;  /* queues stalled in WAIT on this CQ */
	struct proxy_queue *waits_on; /* the queue in whose list this one is */
	struct proxy_queue *next_waiter;
};

struct proxy_key {
	struct ori_proxy_memory memory;
	uint8_t live;
	uint8_t tag; /* low 8 bits of the key */
	uint32_t next_free;
};

struct proxy_remote {
	uint64_t name; /* rank << 32 | key; the table is sorted by it */
	struct ori_proxy_remote memory;
};

struct ori_proxy {
	struct ori_proxy_attr attr;
	struct ori_proxy_backend backend;
	int left;   /* budget of the running step */
	int posted; /* something was posted since the last submit */

	struct proxy_queue **queues; /* by place; place 0 is never used */
	uint16_t *generations;
	uint32_t queue_room, queue_count;
	uint64_t *active;     /* bit per place: has work now */
	uint64_t *again;      /* bit per place: has work in the next step */
	uint32_t run_first;   /* the place that the next step runs first */
	uint64_t outstanding; /* rung WQEs without CQE */

	struct proxy_key *keys; /* slot 0 is never used */
	uint32_t key_room, key_free, key_free_last;
	struct proxy_remote *remotes;
	uint32_t remote_room, remote_count;

	struct ori_proxy_stats stats;
};

static inline struct proxy_slot *proxy_slot_at(const struct proxy_queue *q, uint64_t idx)
{
	return &q->slots[idx & (q->depth - 1)];
}

static inline void proxy_activate(struct ori_proxy *p, const struct proxy_queue *q)
{
	p->active[q->place / 64] |= 1ull << (q->place % 64);
}

/* A CQE's syndrome has 8 bits and is not 0. */
static inline uint8_t proxy_syndrome(uint32_t syndrome)
{
	return (uint8_t)(syndrome && syndrome <= 0xff ? syndrome : ORI_SYNDROME_LOCAL_QP_OP);
}

/* A queue's place in the table is the low bits of its number. */
#define PROXY_PLACE_BITS 14
#define PROXY_PLACES (1u << PROXY_PLACE_BITS)

static inline struct proxy_queue *proxy_queue_find(const struct ori_proxy *p, uint32_t number)
{
	uint32_t place = number % PROXY_PLACES;
	struct proxy_queue *q = place < p->queue_room ? p->queues[place] : NULL;

	return q && q->number == number ? q : NULL;
}

/* keys.c */
int ori_proxy_keys_setup(struct ori_proxy *);
void ori_proxy_keys_free(struct ori_proxy *);
/* Own memory.  NULL if key, access or range is wrong. */
void *ori_proxy_key_find(const struct ori_proxy *, uint32_t key, uint32_t access, uint64_t address,
			 uint64_t bytes, uint64_t *cookie);
/* The same for another rank's memory.  *address is the back end's. */
int ori_proxy_remote_find(const struct ori_proxy *, int rank, uint32_t key, uint32_t access,
			  uint64_t iova, uint64_t bytes, uint64_t *address, uint64_t *cookie);

/* queue.c */
void ori_proxy_queues_free(struct ori_proxy *);

/* start.c */
void ori_proxy_doorbell(struct ori_proxy *, struct proxy_queue *);
/* Starts WQEs in order, as far as they may start now. */
void ori_proxy_start(struct ori_proxy *, struct proxy_queue *);

/* post.c */
enum proxy_executed { EXECUTED, POSTED, TRY_AGAIN, REFUSED };
/* Executes or posts q->head.  Sets *syndrome if the result is REFUSED. */
enum proxy_executed ori_proxy_execute(struct ori_proxy *, const struct proxy_queue *,
				      uint32_t *syndrome);

/* cq.c */
void ori_proxy_cq_init(struct proxy_queue *);
/* Removes a queue from the list of the CQ that it waits for. */
void ori_proxy_cq_unwait(struct proxy_queue *);
void ori_proxy_cq_run(struct ori_proxy *, struct proxy_queue *);
/* Sets the queue to error.  The first WQE without CQE gets `syndrome`. */
void ori_proxy_cq_error(struct ori_proxy *, struct proxy_queue *, uint32_t syndrome);
void ori_proxy_cq_completed(struct ori_proxy *, const struct ori_proxy_completion *);

#endif
