/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/state.h - what the files of the software NIC share: its objects and each other's
 * calls.
 *
 * Sequence numbers have 64 bits inside and 24 on the wire.  WQE indices have 64 bits inside and 16
 * in the queue.  So no comparison here can wrap.  For a send queue
 *
 *      ci <= una_idx <= next <= pi <= ci + depth      and   next - ci <= window
 *
 * WQEs before ci have their CQE, WQEs before una_idx have their answer, WQEs before next were
 * started, WQEs before pi were rung.  For packets  una <= send_psn <= sent_psn <= end_psn.
 *
 * Everything is used within soft_nic_step(), or by a call that the caller serialises with it.
 */
#ifndef ORI_SOFT_STATE_H
#define ORI_SOFT_STATE_H

#include "../wqe_decode.h"
#include "nic.h"
#include "wire.h"

#define SOFT_WINDOW_WQES 64u  /* started and not completed, per queue pair */
#define SOFT_WINDOW_PSN 128u  /* sent and not answered, per queue pair */
#define SOFT_READ_PACKETS 16u /* sequence numbers per READ request; longer reads take several */
#define SOFT_ACK_EVERY 16u    /* packets, inside a long message or burst */
#define SOFT_AHEAD_PSN 256u   /* ooo: how far ahead of the expected number a packet is taken */
#define SOFT_PSN_MASK 0xffffffu
#define SOFT_LOST_PSN 16u      /* ooo: overtaken by this many packets, a packet counts as lost */
#define SOFT_CQN_BIT 0x800000u /* number of a queue pair's CQ: this bit and its own number */

struct soft_mr {
	struct soft_mr_attr attr;
	uint8_t live;
	uint8_t tag; /* low 8 bits of the key */
	uint32_t next_free;
};

enum soft_kind {
	SOFT_KIND_LOCAL = ORI_WQE_KIND_LOCAL,
	SOFT_KIND_WRITE = ORI_WQE_KIND_WRITE,
	SOFT_KIND_READ = ORI_WQE_KIND_READ,
	SOFT_KIND_ATOMIC = ORI_WQE_KIND_ATOMIC,
};

/* A WQE, from its fetch until its CQE is written. */
struct soft_request {
	uint64_t first_psn;
	uint64_t first_read; /* READ, atomics: count of such requests before it */
	uint64_t remote, local;
	uint32_t packets, packet_bytes;
	uint32_t bytes; /* WAIT: index of the CQE */
	uint32_t got;   /* READ: bytes placed, from the start */
	uint32_t rkey;  /* WAIT: number of the CQ */
	uint32_t lkey;
	uint8_t opcode;
	uint8_t kind;     /* soft_kind */
	uint8_t flags;    /* fm_ce_se */
	uint8_t inlined;  /* payload is in u.data */
	uint8_t answered; /* atomics */
	uint8_t syndrome; /* why it failed; 0 */
	union {
		uint8_t data[ORI_WQE_INLINE_BYTES];
		struct {
			uint64_t swap_add, compare;
		} atomic;
	} u;
};

/*
 * A READ or atomic that the responder has executed.  A second copy of the request is answered from
 * here, so an atomic is never executed twice.
 */
struct soft_replay {
	uint64_t psn;
	uint64_t address;
	uint64_t value; /* atomics: the old value of the word */
	uint32_t packets, packet_bytes;
	uint32_t bytes;
	uint32_t sent; /* READ: bytes answered */
	uint32_t key;
	uint8_t op;
	uint8_t pending; /* an answer is still to be sent */
	uint8_t again;   /* ... at least for the second time */
	uint8_t held;    /* hca_atomics: answer only after the word is stored */
};

enum soft_state { SOFT_RESET, SOFT_RTS, SOFT_ERR };

struct soft_qp {
	/* ---- fixed ---- */
	struct soft_qp_attr attr;
	uint32_t number, remote_number;
	uint32_t slot; /* in the NIC's table */
	int rank;      /* rank of the other end */
	int reached;   /* the NIC of that rank can resolve device memory of this rank */
	uint32_t window;
	uint8_t state; /* soft_state */

	/* ---- completion ---- */
	uint8_t told;  /* world.error was called */
	uint8_t error; /* syndrome for the first CQE after ERR; then FLUSHED */
	uint8_t torn;  /* body of the next CQE is written, its last word is not yet */
	uint32_t torn_word;
	uint64_t cq_count;        /* number of CQEs written, from first_index on */
	struct soft_qp *waiters;  /* queue pairs stalled in WAIT on this CQ */
	struct soft_qp *waits_on; /* the queue pair in whose list this one is */
	struct soft_qp *next_waiter;

	/* ---- send queue ---- */
	uint64_t pi, next, una_idx, ci;
	uint8_t taken;   /* request `next` is decoded, but not started */
	uint8_t failing; /* a request failed: nothing behind it starts or is sent */
	uint8_t late;    /* the record will be read, at late_step */
	uint8_t stalled; /* counted as stalled, until something moves */
	uint64_t late_step;
	struct soft_request *requests; /* window entries */
	struct ori_wqe *shadow;        /* strict: a copy of what was fetched */

	/* ---- requester ---- */
	uint64_t send_idx;
	uint64_t una, send_psn, sent_psn, end_psn;
	uint64_t acked;    /* the responder has executed everything before this number */
	uint64_t lost_psn; /* this loss was already resent */
	uint64_t una_read, end_read;
	uint32_t open_reads; /* READs and atomics started and not answered */
	/* ooo: READ data placed ahead; by psn modulo its size */
	uint64_t got_ahead[SOFT_WINDOW_PSN / 64];
	uint64_t last_slot; /* slots filled in the wire when this queue pair last sent a request */
	uint32_t retries;   /* timeouts since the last progress */
	uint32_t doublings; /* of the timeout: plus one per timeout, minus one per progress */
	uint64_t deadline_ns; /* 0: timer not armed */
	uint64_t taken_slot;  /* slots that the peer had taken when the timer was armed */
	uint64_t unread_slot; /* timer expired; packets before this slot are read first; 0: not */

	/* ---- responder ---- */
	uint64_t expected;
	uint64_t nak_for; /* `expected` of the last NAK for a gap */
	/* ooo: packets taken ahead of `expected`; by psn modulo its size */
	uint64_t ahead[SOFT_AHEAD_PSN / 64];
	uint32_t ahead_count;
	uint32_t unacked; /* packets executed since the last ACK */
	uint8_t ack_due;  /* a message ended, or a duplicate came */
	uint8_t nak_due;
	uint8_t refusal_due;
	uint8_t refusal;            /* syndrome for every later request; 0: none */
	uint32_t pending;           /* number of answers to send */
	uint64_t replay_next;       /* never wraps; entry = replay_next % max_reads */
	struct soft_replay *replay; /* max_reads entries */
};

struct soft_peer {
	struct soft_rx rx;
	struct soft_tx tx;
	int rank;
	uint8_t wired;
	uint8_t kick; /* something was put into the ring since the last kick */
};

struct soft_late;

/* A packet that faults hold back on the wire. */
struct soft_held {
	uint64_t release_step;
	int rank;
	uint32_t bytes;
	uint8_t used;
	struct soft_packet packet;
	uint8_t payload[SOFT_SLOT_BYTES];
};

#define SOFT_HELD 32u

/* hca_atomics: an atomic between its read and its store. */
struct soft_open_atomic {
	uint64_t *word; /* NULL: none */
	uint64_t value;
	uint64_t release_step;
	struct soft_qp *qp;
	struct soft_replay *answer; /* held back until the word is stored */
	int device;
};

/* A doorbell.  Recently rung ones are near the front of the table: fetch.c. */
struct soft_bell {
	const uint64_t *word;
	uint64_t seen;
	struct soft_qp *qp;
};

struct soft_nic {
	struct soft_config config;
	struct soft_world world;
	int rank, nranks;
	int left; /* budget of the running step */
	uint8_t stalled;
	uint8_t faulty;  /* the wire drops, duplicates or holds back packets */
	uint32_t copied; /* device copies in the running step */
	/* slot of the queue pair that last sent from device memory in this step; 0 */
	uint32_t copier;
	uint64_t steps;
	uint64_t random;
	uint32_t timer_ticks;

	struct soft_bell *bells; /* of the queue pairs with a send queue */
	uint32_t bell_count, bell_room;
	uint32_t bell_turn; /* where the next look at the rest of the table begins */

	struct soft_qp **qps; /* slot 0 is never used */
	uint16_t *generations;
	uint32_t qp_room, qp_count;
	uint64_t *active;     /* bit per slot: has work now */
	uint64_t *timed;      /* bit per slot: has unanswered packets */
	uint64_t outstanding; /* rung WQEs without CQE */

	struct soft_mr *mrs; /* slot 0 is never used */
	uint32_t mr_room, mr_free, mr_free_last;

	struct soft_peer *peers; /* by rank */
	int *wired;              /* ranks that are wired */
	int wired_count, wired_first;
	int *kicks; /* ranks to kick at the end of the step */
	int kick_count;
	uint32_t run_first; /* slot that the next step runs first */

	struct soft_late *late; /* late.c: writes into device memory that are not visible yet */

	struct soft_held *held; /* SOFT_HELD entries, or NULL if nothing is ever held back */
	uint32_t held_count;
	struct soft_open_atomic open_atomic;
	uint64_t rate_ns;
	int64_t rate_bytes;

	struct soft_stats stats;
	/* device memory, or data of a repeated answer, on its way into a slot */
	uint8_t bounce[SOFT_SLOT_BYTES];
};

static inline struct soft_request *soft_request_at(const struct soft_qp *qp, uint64_t idx)
{
	return &qp->requests[idx & (qp->window - 1)];
}

static inline void soft_set_pending(struct soft_qp *qp, struct soft_replay *e, int pending)
{
	qp->pending += (uint32_t)pending - e->pending;
	e->pending = (uint8_t)pending;
}

static inline void soft_activate(struct soft_nic *nic, const struct soft_qp *qp)
{
	nic->active[qp->slot / 64] |= 1ull << (qp->slot % 64);
}

/* The 64-bit number nearest to `near` whose low 24 bits are `psn`. */
static inline uint64_t soft_psn_near(uint64_t near, uint32_t psn)
{
	uint32_t ahead = (psn - (uint32_t)near) & SOFT_PSN_MASK;

	return near + ahead - (ahead & 0x800000u ? 0x1000000u : 0);
}

/* nic.c */
struct soft_qp *soft_qp_find(const struct soft_nic *, uint32_t number);

/* mr.c */
/*
 * The bytes, or NULL if key, protection domain, access or range is wrong.  Device memory may only
 * be touched by soft_place_move().
 */
void *soft_mr_find(const struct soft_nic *, uint32_t key, uint32_t pd, uint32_t access,
		   uint64_t address, uint64_t bytes, const struct soft_mr **mr);
int soft_mr_setup(struct soft_nic *);

/* fetch.c */
void soft_fetch_doorbells(struct soft_nic *);
void soft_fetch_late_record(struct soft_nic *, struct soft_qp *);
/* Decodes WQE `next` into its request, with its syndrome. */
void soft_fetch_wqe(struct soft_nic *, struct soft_qp *);

/* strict.c */
/* Returns LOCAL_QP_OP, after a line in strict mode. */
uint32_t soft_strict_violation(const struct soft_nic *, const struct soft_qp *, uint64_t idx,
			       const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Strict mode: 0, or LOCAL_QP_OP if the slot of this WQE was overwritten before its completion. */
uint32_t soft_strict_check_slot(const struct soft_nic *, const struct soft_qp *, uint64_t idx);

/* requester.c */
void soft_requester_run(struct soft_nic *, struct soft_qp *);
void soft_requester_advance(struct soft_qp *);
/* Something was answered: restarts the timer. */
void soft_requester_progress(struct soft_qp *);
/* This request gets the syndrome after those before it have completed.  Requests behind it stop. */
void soft_requester_fail(struct soft_nic *, struct soft_qp *, struct soft_request *,
			 uint32_t syndrome);
/* Sends everything again from the first unanswered packet on. */
void soft_requester_go_back(struct soft_nic *, struct soft_qp *);
void soft_requester_timer(struct soft_nic *, struct soft_qp *, uint64_t now_ns);

/* answer.c */
void soft_requester_answer(struct soft_nic *, struct soft_qp *, const struct soft_packet *,
			   const struct soft_slot *);

/* responder.c */
void soft_responder_request(struct soft_nic *, struct soft_qp *, const struct soft_packet *,
			    const struct soft_slot *);

/* atomic.c */
/*
 * Executes an atomic on a word and keeps its answer in the entry.  Returns other than 0 if a device
 * copy failed.
 */
int soft_atomic_execute(struct soft_nic *, struct soft_qp *, uint64_t *word, int device,
			const struct soft_packet *, struct soft_replay *);
/* Executes the store of an atomic that has only read its word. */
void soft_atomic_end(struct soft_nic *);

/* reply.c */
void soft_reply_run(struct soft_nic *, struct soft_qp *);

/* cq.c */
void soft_cq_init(struct soft_qp *);
void soft_cq_run(struct soft_nic *, struct soft_qp *);
/* Sets the queue pair to ERR.  The first WQE without CQE gets `syndrome`. */
void soft_cq_error(struct soft_nic *, struct soft_qp *, uint32_t syndrome);
/*
 * Sets the queue pair to ERR.  This and every later request of the peer is answered with the
 * syndrome.
 */
void soft_cq_refuse(struct soft_nic *, struct soft_qp *, uint32_t syndrome);
/* The queue pair waits for no CQ any more. */
void soft_cq_unwait(struct soft_qp *);

/* place.c */
/* Payload of a packet, or NULL if it is not available now.  *device: it is device memory. */
const void *soft_place_source(struct soft_nic *, const struct soft_qp *, const struct soft_packet *,
			      const struct soft_slot *, int *device);

/* Bytes of a message at `address` of a region.  `mr` is NULL for data inside a WQE. */
struct soft_payload {
	const void *from;
	const struct soft_mr *mr;
	uint64_t address;
	uint32_t key;
	uint32_t bytes;
	int again; /* of a READ's answer that was sent before */
};
/*
 * Chooses how a payload crosses the wire, and records it in the packet.  *behind: the bytes behind
 * the header, or NULL.  Returns 0, or the status of a failed device copy.
 */
int soft_place_carry(struct soft_nic *, const struct soft_qp *, struct soft_packet *,
		     const struct soft_payload *, const void **behind);
/*
 * May this many bytes of the region be sent now?  Not if that needs a device copy that would be
 * wasted, or if this step has already made many copies.  Then another queue pair has its turn in
 * the next step.
 */
int soft_place_may_carry(struct soft_nic *, const struct soft_qp *, const struct soft_mr *,
			 uint32_t bytes);
/* Can the other end of the queue pair read this region directly? */
int soft_place_is_shared(const struct soft_nic *, const struct soft_qp *, const struct soft_mr *);
/* Payload bytes per packet from this region to the other end of the queue pair. */
uint32_t soft_place_packet_bytes(const struct soft_nic *, const struct soft_qp *,
				 const struct soft_mr *);

/* place_copy.c */
/* Host memory to host memory. */
void soft_place_copy(void *to, const void *from, uint32_t bytes);
/*
 * The same for data of an answer that was sent before.  The requester may have that answer, and the
 * program may write to `from` meanwhile; then the requester ignores this one.  So this is no error
 * of the program, and ThreadSanitizer does not look at it.  `to` is the NIC's own memory.
 */
void soft_place_copy_again(void *to, const void *from, uint32_t bytes);
/* The same if either may be device memory.  Returns 0, or the status of a failed device copy. */
int soft_place_move(struct soft_nic *, void *to, const void *from, uint32_t bytes, int device);

/* late.c */
/* As soft_place_move(), but late_device=1 delays writes into device memory. */
int soft_late_move(struct soft_nic *, void *to, const void *from, uint32_t bytes, int device,
		   int to_device);
/* Writes delayed data that is due.  all: writes all of it, as a read of the memory would cause. */
void soft_late_release(struct soft_nic *, int all);
void soft_late_drop(struct soft_nic *);

/* random.c */
uint64_t soft_random(struct soft_nic *);
/* Returns 1 with this probability. */
int soft_chance(struct soft_nic *, double chance);

/* faults.c */
int soft_faults_setup(struct soft_nic *);
/* Is there room, and does the rate allow it?  Asked before work that would otherwise be wasted. */
int soft_send_ready(struct soft_nic *, const struct soft_qp *, uint32_t carried);
/* Sends the packet, subject to faults.  Returns 0 if there is no room now. */
int soft_send(struct soft_nic *, struct soft_qp *, const struct soft_packet *, const void *payload,
	      uint32_t bytes);
void soft_faults_release(struct soft_nic *);
/* Faults at the n-th WQE.  Returns the syndrome that it must fail with, or 0. */
uint32_t soft_faults_take(struct soft_nic *, uint32_t lkey);

#endif
