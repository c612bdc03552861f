/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel/device/types.h - the structs that host code, CPU kernels and CUDA kernels share.
 *
 * The host builds them (src/window/handle.c, src/comm/comm.c).  Device code only reads the handles
 * and follows their pointers.  Layouts are the same for every compiler and are asserted below.
 * Members have fixed widths: no enum, no bool, no bit-field.
 *
 * The comment of each member says who writes the words behind its pointer.
 */
#ifndef ORIEL_DEVICE_TYPES_H
#define ORIEL_DEVICE_TYPES_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

struct ori_block;
struct ori_engine;

/* oriel_group.scope */
#define ORIEL_GROUP_THREAD 0
#define ORIEL_GROUP_WARP 1
#define ORIEL_GROUP_BLOCK 2

/* The threads that make a call together; passed by value.  Made by oriel_group_thread() etc. */
struct oriel_group {
	uint32_t thread; /* this thread's index in the group */
	uint32_t size;
	uint32_t block; /* block of the launch the group belongs to */
	uint32_t nblocks;
	uint32_t scope;           /* ORIEL_GROUP_* */
	uint32_t timeout_ms;      /* 0, or the deadline of its waits: oriel_group_within() */
	struct ori_block *shared; /* CPU: where the threads of the block meet */
};

/* How a peer is reached; the value of oriel_comm_peer.kind. */
#define ORIEL_PEER_NONE 0   /* not reachable yet; operations return ORIEL_ENOTCONN */
#define ORIEL_PEER_SELF 1   /* this rank */
#define ORIEL_PEER_MAPPED 2 /* load and store */
#define ORIEL_PEER_QUEUED 3 /* work queues */

/* What a mapped peer lacks. */
#define ORIEL_PEER_NO_ATOMICS 1u /* this GPU loads and stores its memory, but cannot add to it */

/* What a signal does to its word. */
#define ORIEL_ADD 1
#define ORIEL_SET 2

/* Comparisons of a wait: "the word <cmp> the value"; values less than 2^63 apart are in order. */
#define ORIEL_EQ 1
#define ORIEL_NE 2
#define ORIEL_GT 3
#define ORIEL_GE 4
#define ORIEL_LT 5
#define ORIEL_LE 6

/* What an atomic does with the word: oriel_atomic(). */
#define ORIEL_ATOMIC_FETCH 1
#define ORIEL_ATOMIC_SET 2
#define ORIEL_ATOMIC_SWAP 3
#define ORIEL_ATOMIC_COMPARE_SWAP 4
#define ORIEL_ATOMIC_ADD 5
#define ORIEL_ATOMIC_AND 6
#define ORIEL_ATOMIC_OR 7
#define ORIEL_ATOMIC_XOR 8

/* What a group waits for: oriel_board_slot.op, and the words in its reports. */
#define ORIEL_OP_SIGNAL 1
#define ORIEL_OP_SIGNAL_SUM 2
#define ORIEL_OP_COUNTER 3
#define ORIEL_OP_BARRIER 4
#define ORIEL_OP_SEND 5
#define ORIEL_OP_RECV 6
#define ORIEL_OP_WORD 7
#define ORIEL_OP_GROUP 8
#define ORIEL_OP_QUEUE 9
#define ORIEL_OP_GRID 10
#define ORIEL_OP_PACKET_SEND 11
#define ORIEL_OP_PACKET_RECV 12

/*
 * The user's call that a wait belongs to, in the bits of oriel_board_slot.op above the operation.
 * It is part of a constant, so it costs a wait nothing.  0: the one call that waits like this.
 */
#define ORIEL_CALL_SHIFT 8
#define ORIEL_CALL_PUT 1
#define ORIEL_CALL_GET 2
#define ORIEL_CALL_SIGNAL 3
#define ORIEL_CALL_ATOMIC 4
#define ORIEL_CALL_FENCE 5
#define ORIEL_CALL_FLUSH 6
#define ORIEL_CALL_WAIT_LOCAL 7
#define ORIEL_CALL_SEND 8
#define ORIEL_CALL_RECV 9
#define ORIEL_CALL_PACKET_SEND 10
#define ORIEL_CALL_PACKET_RECV 11
#define ORIEL_CALL_TYPED_ATOMIC 12
#define ORIEL_CALL_BARRIERS 16 /* + the parts of the barrier: barrier.h */
/* Added by the host library: host code waits, not a kernel. */
#define ORIEL_CALL_BY_HOST (1 << 16)
/* The call notes its wait in the trace itself. */
#define ORIEL_CALL_NOTED (1 << 17)
#define ORIEL_OP_OF(op) ((op)&0xff)
#define ORIEL_CALL_OF(op) (((op) >> ORIEL_CALL_SHIFT) & 0xff)

/* Bits of oriel_window_dev.checked. */
#define ORIEL_WINDOW_CHECKED 1 /* calls test ranks, ids and ranges */
#define ORIEL_WINDOW_TRACED 2  /* calls are noted in comm.trace */

/* Rows of words that different ranks write lie at least this far apart. */
#define ORIEL_LINE_BYTES 128
/* Peers whose entries travel inside the window handle. */
#define ORIEL_INLINE_PEERS 8
#define ORIEL_BOARD_SLOTS 64

/*
 * The futex for all sleeping waits of one rank, in that rank's control memory.  A waiter that stops
 * spinning raises `sleepers`, checks its word once more and sleeps on `epoch`.  A thread that
 * writes a word of this rank then reads `sleepers`.  If there are any, it increments `epoch` and
 * wakes them.  No fence orders this read.  A missed wake only costs one timed sleep, at most 1 ms.
 */
struct oriel_waiters {
	uint32_t sleepers; /* written by this rank's waiting threads */
	uint32_t epoch;    /* written by any waker; runs for ever */
	uint8_t pad[ORIEL_LINE_BYTES - 8];
};

/*
 * One waiting group.  Every mapped peer can read it, so that a report about a late rank can say
 * what that rank waits for.  Only the waiting thread writes it, `state` last (release).
 */
struct oriel_board_slot {
	uint32_t state; /* 0 free, 1 taken and being filled, 2 valid */
	int32_t op;     /* ORIEL_OP_*, and ORIEL_CALL_* << ORIEL_CALL_SHIFT */
	int32_t peer;   /* who is waited for; < 0: several */
	int32_t id;     /* word of a window: with `peer` its offset, see device/word.h */
	int32_t window; /* window number, -1: none */
	int32_t block;
	uint64_t have;
	uint64_t want;
	uint64_t since_ns; /* monotonic clock */
	uint8_t pad[16];
};

struct oriel_board {
	struct oriel_board_slot slot[ORIEL_BOARD_SLOTS];
};

/*
 * A failure word: 0, or the first failure; set once by CAS.  It holds three fields of 16 bits: the
 * status, the rank that failed, and the rank that gave up waiting for it, if any.  Ranks are stored
 * plus one.
 */
#define ORIEL_FAILURE(status, rank)                                                                \
	((uint64_t)(uint32_t)(-(status)) | ((uint64_t)(((uint32_t)(rank) + 1u) & 0xffffu) << 16))
#define ORIEL_FAILURE_LATE(status, rank, by)                                                       \
	(ORIEL_FAILURE(status, rank) | ((uint64_t)(((uint32_t)(by) + 1u) & 0xffffu) << 32))
#define ORIEL_FAILURE_STATUS(word) (-(int)((word)&0xffff))
#define ORIEL_FAILURE_RANK(word) ((int)(((word) >> 16) & 0xffff) - 1)
#define ORIEL_FAILURE_BY(word) ((int)(((word) >> 32) & 0xffff) - 1) /* -1: nobody gave up */

/* ---- what kernels return --------------------------------------------------------------------- */

/*
 * The first status other than 0 that a kernel of this comm returned since the host last asked.  It
 * exists in both halves of control memory.  A thread whose kernel fails compares `claims` with
 * `taken`.  Only if they are equal, it raises `claims` and stores `first`.  So the first failure is
 * kept.
 */
struct oriel_kernel_report {
	uint64_t claims; /* device's half: reports so far; by the thread that makes one */
	uint64_t taken;  /* host's half: reports that the host has read; by the host */
	uint64_t first; /* host's half: ORIEL_REPORT(); by that thread, and back to 0 by the host */
	uint8_t pad[ORIEL_LINE_BYTES - 24];
};
#define ORIEL_REPORT(status, kernel, block)                                                        \
	((uint64_t)(uint32_t)(status) | ((uint64_t)((kernel)&0xfffu) << 32) |                      \
	 ((uint64_t)((block)&0xfffffu) << 44))
#define ORIEL_REPORT_STATUS(word) ((int32_t)(uint32_t)(word))
#define ORIEL_REPORT_KERNEL(word) ((uint32_t)((word) >> 32) & 0xfffu)
#define ORIEL_REPORT_BLOCK(word) ((uint32_t)((word) >> 44))

/*
 * The last parameter of every kernel on a GPU.  oriel_launch() passes it; the body does not see it.
 */
struct oriel_launch_dev {
	struct oriel_kernel_report *report; /* the device's half; NULL: nobody asks */
	int64_t host_shift;                 /* from there to the host's half */
	uint32_t kernel;                    /* its number in the comm */
	uint32_t reserved;
};

/* ---- traces (docs/tracing.md) ---------------------------------------------------------------- */

/* What a trace event is about. */
#define ORIEL_TRACE_PUT 1
#define ORIEL_TRACE_GET 2
#define ORIEL_TRACE_SIGNAL 3
#define ORIEL_TRACE_WAIT_SIGNAL 4 /* of one source */
#define ORIEL_TRACE_WAIT_SUM 5    /* of all sources */
#define ORIEL_TRACE_BARRIER 6
#define ORIEL_TRACE_POST 7   /* WQEs handed over to a queue */
#define ORIEL_TRACE_CQE 8    /* a WQE is complete */
#define ORIEL_TRACE_WAIT 9   /* any other wait; the op is its ORIEL_OP_* */
#define ORIEL_TRACE_COLL 10  /* a collective of a team */
#define ORIEL_TRACE_ROUND 11 /* a round of one: all ranks meet */
#define ORIEL_TRACE_CALL 12  /* a call of the host: a launch, or a collective with a request */
/* Beside the kind: the times of the event are ori_ticks(), otherwise nanoseconds. */
#define ORIEL_TRACE_TICKS 0x80

/*
 * One event, written once.  Words: begin, end (ns of the writer's clock), peer and id, window and
 * block, bytes, value, base; the last holds kind, op, status and a checksum (trace.h).
 */
struct oriel_trace_event {
	uint64_t word[8];
};

/* Where events go.  The first `capacity` events are kept; later ones are only counted. */
struct oriel_trace_dev {
	uint64_t *count; /* events so far; by every writer */
	struct oriel_trace_event *events;
	uint64_t capacity;
	uint64_t ticks; /* not 0: calls on the CPU are timed with ori_ticks() */
};

/* ---- queues ---------------------------------------------------------------------------------- */

#define ORIEL_NICS_MAX 2
#define ORIEL_RESULT_SLOTS 64

/*
 * One send queue with its completion queue.  Indices are 64-bit counts of WQEs that never restart.
 * The slot is the index modulo the depth.
 */
struct oriel_queue {
	/* set when the queue is made */
	uint8_t *sq;        /* depth blocks of 64 bytes */
	uint8_t *cq;        /* depth entries of 64 bytes */
	uint32_t *record;   /* doorbell record: [1] is the send queue's */
	uint64_t *doorbell; /* where the 8 bytes are rung */
	uint32_t qpn, cqn;
	uint32_t depth, log_depth;
	int32_t peer;
	uint32_t lane;
	uint32_t mmio; /* `doorbell` is a register of a NIC, not memory */
	uint32_t bare; /* the engine goes by the doorbell alone: a GPU need not write the record */
	uint8_t pad0[ORIEL_LINE_BYTES - 64];
	/* written by producers: WQEs reserved; may lead `produced` by one burst per group */
	uint64_t reserved;
	uint8_t pad1[ORIEL_LINE_BYTES - 8];
	/* written by the producer that has the turn: WQEs rung, in index order */
	uint64_t produced;
	uint8_t pad2[ORIEL_LINE_BYTES - 8];
	/* written by any thread that polled a CQE: WQEs known to be complete; only grows */
	uint64_t completed;
	uint8_t pad3[ORIEL_LINE_BYTES - 8];
	/* 0, or a failure word: set once by the engine, or by a producer that gave up its slots */
	uint64_t error;
	uint8_t pad4[ORIEL_LINE_BYTES - 8];
};

/*
 * A main queue to a peer, and the companion queue that counts its completions by WAIT and loopback
 * add.
 */
struct oriel_lane {
	struct oriel_queue *main;
	struct oriel_queue *companion;
	uint32_t sink_key; /* 8 bytes at address 0 of this key, for unused results of atomics */
	uint32_t nic;
};

#define ORIEL_LINK_ATOMICS 1u /* the NIC adds to remote words */
#define ORIEL_LINK_ORDERED 2u /* a queue's adds and reads are executed after its earlier writes */
#define ORIEL_LINK_SILENT 4u  /* a failure is reported only by its CQE */
/* A queue's plain writes are executed in order too.  Not on a fabric that routes adaptively. */
#define ORIEL_LINK_WRITES_ORDERED 8u

/* How this rank reaches one queued peer. */
struct oriel_link {
	const struct oriel_lane *lanes;
	uint32_t nlanes;
	uint32_t flags;
	uint64_t message_bytes; /* longest transfer of one WQE */
	uint64_t *last_signal;  /* lane 0: index of the last word written, in turn */
};

/* Memory as queues address it: of a peer after an exchange, or of this rank. */
struct oriel_remote {
	uint64_t address;
	uint64_t bytes;
	uint32_t key[ORIEL_NICS_MAX];
};

/* A place for values fetched from queued peers.  The group that waits for a value holds `lock`. */
struct oriel_result {
	uint64_t lock;
	uint64_t words[4];
	uint8_t pad[24];
};

/* One peer, as the transport layer sees it. */
struct oriel_comm_peer {
	int32_t kind; /* ORIEL_PEER_* */
	int32_t node;
	struct oriel_waiters *waiters;   /* mapped: the peer's sleepers */
	const struct oriel_board *board; /* mapped, on this host: the peer's board */
	uint64_t *failure;               /* mapped, on this host: the peer's comm failure word */
	const struct oriel_link *link;   /* queued: its lanes */
	uint32_t flags;                  /* ORIEL_PEER_NO_ATOMICS */
	uint32_t reserved;
};

/*
 * Handle of the transport layer.  It is flat and never changes; all changing words are behind its
 * pointers.
 */
struct oriel_comm_dev {
	int32_t rank;
	int32_t nranks;
	uint64_t timeout_ns; /* a wait fails after this long */
	uint64_t late_ns;    /* a wait logs which rank is late after this long */
	/* polls before a wait first tests clock and failures; few when ranks outnumber cores */
	uint32_t spin_polls;
	uint32_t flags;                /* of any mapped peer: ORIEL_PEER_NO_ATOMICS */
	const uint64_t *failure;       /* comm failure word of this rank; host and peers write it */
	struct oriel_waiters *waiters; /* own sleepers */
	struct oriel_board *board;     /* own board */
	const struct oriel_comm_peer *peers; /* nranks entries */
	struct ori_engine *engine;    /* CPU: what executes the queues; NULL without queued peers */
	struct oriel_result *results; /* ORIEL_RESULT_SLOTS, for values fetched through queues */
	uint32_t result_key[ORIEL_NICS_MAX];
	/*
	 * Control memory has two halves with the same layout.  Words that devices write lie in
	 * device memory.  Words that engines write lie in host memory, this many bytes further on.
	 * 0 if both are the same memory.
	 */
	int64_t host_shift;
	const struct oriel_trace_dev *trace; /* NULL: this rank writes no trace */
};

/* Local memory as the source of puts or the target of gets. */
struct oriel_source {
	uint64_t address;
	uint64_t bytes;
	uint32_t key[ORIEL_NICS_MAX]; /* for queued peers, one per NIC */
};

/*
 * Words of this rank's own window buffer, one after the other, and what to compare them with:
 * oriel_wait_any_word().
 */
struct oriel_words {
	uint64_t offset; /* of the first word */
	uint64_t count;
	int32_t type;       /* an integer: ORIEL_TYPE_INT8 to ORIEL_TYPE_UINT64 */
	int32_t cmp;        /* ORIEL_EQ ... */
	uint64_t value;     /* what every word is compared with, if `values` is NULL */
	const void *values; /* NULL, or [count] elements of the type: one per word */
	const int *skip;    /* NULL, or [count]: a word with a number other than 0 is left out */
};

/* All operations that a block had posted to a peer when the ticket was taken. */
struct oriel_ticket {
	int32_t peer;
	uint32_t lane;
	uint64_t index;
};

/*
 * One direction of a staged stream between two ranks, as seen by one end.  The sender writes
 * `ready` and `lengths`, the receiver `free_count`.  Both counts only grow.  `cursor` belongs to
 * this end; one group at a time uses it.
 */
struct oriel_mapped_channel {
	uint8_t *slots;       /* depth * slot_bytes in the receiver's memory */
	uint64_t *lengths;    /* depth words there: bytes of the message from that slot on */
	uint64_t *ready;      /* in the receiver's memory: slots filled */
	uint64_t *free_count; /* in the sender's memory: slots emptied */
	uint64_t *cursor;     /* this end's count of slots done */
	uint64_t slot_bytes;
	uint32_t depth;
	int32_t peer;
};

/*
 * One peer, as a window sees it.  The row pointers already point to this rank's row in the peer's
 * memory: signals[id] is the word "from me, id" there.
 */
struct oriel_window_peer {
	int32_t kind;
	uint32_t flags;                /* ORIEL_PEER_NO_ATOMICS */
	uint8_t *buffer;               /* mapped: the peer's window buffer */
	uint64_t *signals;             /* mapped: my row of its signal words */
	uint64_t *arrivals;            /* mapped: my row of its barrier words */
	struct oriel_waiters *waiters; /* mapped: its sleepers */
	uint8_t *staging;              /* mapped: my slots at the peer */
	uint64_t *staging_words;       /* mapped: lengths and ready words of my slots at the peer */
	uint64_t *staging_free; /* mapped: free words of the peer's slots at me, in its memory */
	const struct oriel_window_link *link; /* queued */
	uint64_t *failure;                    /* mapped: the peer's failure word of this window */
};

/* Adds to one word of a mapped peer without atomics: turn.h. */
struct oriel_turn {
	uint64_t total, asked, served; /* by this rank's blocks */
	uint64_t reserved;
};

/* Where the blocks of a launch meet: grid.h.  Both words count blocks and run for ever. */
struct oriel_grid {
	uint64_t arrived; /* by every block that comes */
	uint64_t start;   /* `arrived` at the start of the round; by its last block */
};

/*
 * A queued peer of a window: keys of its memory, and this rank's rows as offsets in its control
 * memory.
 */
struct oriel_window_link {
	const struct oriel_link *link;
	uint32_t buffer_key[ORIEL_NICS_MAX];
	uint32_t control_key[ORIEL_NICS_MAX];
	uint64_t signals, arrivals, staging, staging_words, staging_free;
	uint64_t buffer_skew; /* address of the first byte under its key: its own low 12 bits */
};

/*
 * The device handle of a window.  It is flat, never changes, has at most 1,088 bytes, and may be
 * passed by value or by pointer.  Row strides are in words.  All arrays below are in this rank's
 * memory.
 */
struct oriel_window_dev {
	struct oriel_comm_dev comm;
	uint64_t bytes;                  /* of the window buffer, alike on every rank */
	uint8_t *buffer;                 /* own window buffer */
	uint64_t *failure;               /* first failure of this window, set once */
	const uint64_t *generation_word; /* == generation while the window lives */
	uint64_t generation;
	int32_t number;        /* window number in its comm, for reports */
	int32_t checked;       /* ORIEL_WINDOW_* bits; 0: the fast paths */
	uint32_t queued_peers; /* how many peers are not mapped */
	uint32_t absent_peers; /* how many of these had no queues when the window was made */
	uint64_t first_count;  /* initial value of all words: 0 except in tests of wrap-around */
	uint32_t signals, counters, barriers;
	uint32_t signal_stride; /* words from one source's row to the next */
	uint32_t counter_stride;
	uint32_t barrier_stride;
	uint64_t *signal_words; /* [nic][source][id]: written by that source only; mapped: nic 0 */
	uint64_t *signal_base;  /* [source][id]: written by this rank's resets */
	uint64_t *signal_sum_base; /* [id]: written by this rank's advances of a sum */
	uint64_t *counter_words;   /* [peer][lane][id]: completions of my operations to the peer */
	uint64_t *counter_base;    /* [peer][id] */
	uint64_t *arrival_words; /* [nic][source][id]: arrivals from that source; it writes them */
	uint64_t *arrival_sent;  /* [peer][id]: my arrivals at the peer */
	uint32_t *barrier_users; /* [id]: groups inside a barrier call on this id (checked) */
	uint64_t *staging_cursors; /* [peer][channel][send, recv] */
	uint8_t *staging;          /* [source][channel][slot]: written by that source */
	uint64_t *staging_words;   /* [source][channel]: depth lengths, then ready */
	uint64_t *staging_free;    /* [peer][channel]: written by that peer */
	uint8_t *staging_out;      /* messages being sent to a queued peer */
	uint64_t *staging_posted;  /* [peer][channel][slot]: the queue's count that ends its use */
	uint64_t *signal_totals;   /* [peer][id]: sum of all ADDs, for NICs that cannot add */
	struct oriel_turn *signal_turns; /* [peer][id]; NULL: every mapped peer has atomics */
	uint8_t *control;                /* this window's control memory; offset 0 of its keys */
	uint32_t control_key[ORIEL_NICS_MAX];
	uint64_t staging_slot_bytes;
	uint32_t staging_depth;
	uint32_t staging_channels;
	uint32_t counter_lanes;   /* rows of counter words per peer: a NIC never shares a word */
	uint32_t word_nics;       /* words of a (queued source, id): a NIC adds to its own only */
	uint64_t *signal_ops;     /* [peer][id]: the op this rank used first (checked) */
	struct oriel_grid *grids; /* [barrier id] */
	const struct oriel_window_peer *peers; /* nranks entries */
	struct oriel_window_peer inline_peers[ORIEL_INLINE_PEERS];
	/* packets: box.h */
	uint8_t *box_memory; /* [peer][box]: struct oriel_box, then cells or slots */
	int64_t box_shift;   /* from my signals at a peer to my boxes there */
	uint32_t boxes;      /* per peer */
	uint32_t box_bytes;  /* the longest message */
	uint32_t box_stride; /* bytes from one box to the next */
	uint32_t box_marked; /* 1: mapped peers use marked cells; 0: slots */
	uint32_t cell_mask;  /* cells of a ring - 1 */
	uint32_t cell_laps;  /* a count of cells, shifted right by this, is its lap of the ring */
	uint32_t slot_bytes; /* of one slot: its header and the longest message */
	uint32_t slot_mask;  /* slots of a box - 1 */
};

/*
 * The head of a box.  Each rank has one box per (peer, number): its slots or cells take the peer's
 * messages, and its counts are about both directions.  All counts run for ever.  They count cells
 * where the peer writes cells, and messages where it writes slots.
 */
struct oriel_box {
	uint64_t credit; /* by the peer: how much of what this rank sent it has taken */
	uint8_t pad0[ORIEL_LINE_BYTES - 8];
	/* by the group of this rank that sends */
	uint64_t sent;
	uint64_t freed; /* `credit` as a sender last saw it */
	uint8_t pad1[ORIEL_LINE_BYTES - 16];
	/* by the group of this rank that receives */
	uint64_t taken;
	uint64_t returned; /* the credit that the peer was last given */
	uint8_t pad2[ORIEL_LINE_BYTES - 16];
};

static_assert(sizeof(void *) == 8, "Oriel needs a 64-bit machine");
static_assert(sizeof(struct oriel_waiters) == 128, "layout");
static_assert(sizeof(struct oriel_board_slot) == 64, "layout");
static_assert(sizeof(struct oriel_comm_peer) == 48, "layout");
static_assert(sizeof(struct oriel_comm_dev) == 104, "layout");
static_assert(sizeof(struct oriel_queue) == 5 * ORIEL_LINE_BYTES, "layout");
static_assert(sizeof(struct oriel_result) == 64, "layout");
static_assert(sizeof(struct oriel_turn) == 32, "layout");
static_assert(sizeof(struct oriel_grid) == 16, "layout");
static_assert(sizeof(struct oriel_kernel_report) == ORIEL_LINE_BYTES, "layout");
static_assert(sizeof(struct oriel_launch_dev) == 24, "layout");
static_assert(sizeof(struct oriel_trace_event) == 64, "layout");
static_assert(sizeof(struct oriel_trace_dev) == 32, "layout");
static_assert(sizeof(struct oriel_source) == 24, "layout");
static_assert(sizeof(struct oriel_ticket) == 16, "layout");
static_assert(sizeof(struct oriel_words) == 48, "layout");
static_assert(sizeof(struct oriel_mapped_channel) == 56, "layout");
static_assert(sizeof(struct oriel_window_peer) == 80, "layout");
static_assert(sizeof(struct oriel_window_dev) <= 1088, "the handle travels by value");
static_assert(sizeof(struct oriel_box) == 3 * ORIEL_LINE_BYTES, "layout");
static_assert(offsetof(struct oriel_window_dev, bytes) == 104, "layout");

#endif
