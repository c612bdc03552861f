/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/soft/wire.h - the wire of the software NIC: packets, and rings of them in shared memory.
 *
 * A ring is one direction between two NICs: one producer, one consumer, a fixed number of slots.
 * Both ends keep their own position in private memory.  Shared memory has a number in each slot,
 * which tells the consumer that the slot is filled.  It also has the consumer's count of slots
 * taken, which tells the producer that slots are free.  So a small packet costs one cache line, not
 * two.
 *
 * The other end may be broken or hostile.  No value read here is used as an index, and an
 * impossible count means "no room".
 */
#ifndef ORI_SOFT_WIRE_H
#define ORI_SOFT_WIRE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define SOFT_RING_SLOTS 64u
#define SOFT_SLOT_BYTES 4096u /* payload behind the header */
#define SOFT_SMALL_BYTES 32u  /* payload inside the header */

enum soft_op {
	SOFT_OP_WRITE = 1,
	SOFT_OP_READ,
	SOFT_OP_FETCH_ADD,
	SOFT_OP_COMPARE_SWAP,
	SOFT_OP_ACK, /* from here on: responder to requester */
	SOFT_OP_NAK, /* syndrome 0: a gap, send again from `ack` on */
	SOFT_OP_READ_DATA,
	SOFT_OP_ATOMIC_VALUE,
};

#define SOFT_PACKET_LAST 1u /* last packet of its message: an ACK is due */
/* Where the payload is. */
#define SOFT_PACKET_SMALL 2u /* u.data */
#define SOFT_PACKET_SLOT 4u  /* behind the header */
#define SOFT_PACKET_REF 8u   /* u.ref: an exported region of the sender's rank */
#define SOFT_PACKET_KEY 16u  /* u.local: loopback, a region of this very NIC */

/* 64 bytes.  Host order: both ends are on one machine. */
struct soft_packet {
	uint32_t seq;       /* written last: [WIRE1] */
	uint32_t op_qpn;    /* soft_op 31:24, receiving queue pair 23:0 */
	uint32_t flags_psn; /* SOFT_PACKET_* 31:24, sequence number 23:0 */
	uint32_t bytes;     /* of the payload; READ: of the answer */
	uint64_t address;   /* in the receiver's region */
	union {
		uint32_t key; /* requests: key of that region */
		uint32_t ack; /* answers: everything before this number was executed */
	} u1;
	union {
		uint32_t packet_bytes; /* READ: payload bytes per sequence number */
		/* READ_DATA: offset of the first byte in this sequence number */
		uint32_t offset;
		uint32_t syndrome; /* NAK */
	} u2;
	union {
		uint8_t data[SOFT_SMALL_BYTES];
		struct {
			uint64_t swap_add, compare;
		} atomic;
		struct {
			uint64_t id, offset;
		} ref;
		struct {
			uint64_t address;
			uint32_t key;
		} local;
		uint64_t value; /* ATOMIC_VALUE */
	} u;
};

struct soft_slot {
	struct soft_packet packet;
	uint8_t payload[SOFT_SLOT_BYTES];
};

struct soft_ring {
	uint64_t taken; /* slots emptied, never wraps; the consumer writes: [WIRE3] */
	uint8_t pad[120];
	struct soft_slot slot[SOFT_RING_SLOTS];
};

static_assert(sizeof(struct soft_packet) == 64, "one cache line");
static_assert(offsetof(struct soft_packet, u) == 32, "layout");
static_assert(offsetof(struct soft_ring, slot) == 128, "layout");

/* Called once, before either end uses the ring.  The memory is 64-byte aligned. */
void soft_ring_init(struct soft_ring *);

/* The private position of one end.  A NIC has one of each per peer. */
struct soft_tx {
	struct soft_ring *ring;
	uint64_t next;  /* slots filled */
	uint64_t taken; /* the consumer's count when last read */
};

struct soft_rx {
	struct soft_ring *ring;
	uint64_t next; /* slots emptied */
};

/* Free slots.  Reads the consumer's count only if fewer than `want` are known to be free. */
uint32_t soft_tx_room(struct soft_tx *, uint32_t want);
/* Has the consumer taken the first `count` slots ever filled? */
int soft_tx_passed(struct soft_tx *, uint64_t count);
/* There must be room.  `payload` goes behind the header; at most SOFT_SLOT_BYTES. */
void soft_tx_put(struct soft_tx *, const struct soft_packet *, const void *payload, uint32_t bytes);

/* The next filled slot, or NULL.  Its content may change at any time: copy, then check. */
struct soft_slot *soft_rx_peek(const struct soft_rx *);
/* Returns all slots before rx->next to the producer. */
void soft_rx_publish(struct soft_rx *);

static inline uint32_t soft_packet_op(const struct soft_packet *p)
{
	return p->op_qpn >> 24;
}

static inline uint32_t soft_packet_qpn(const struct soft_packet *p)
{
	return p->op_qpn & 0xffffffu;
}

static inline uint32_t soft_packet_flags(const struct soft_packet *p)
{
	return p->flags_psn >> 24;
}

static inline uint32_t soft_packet_psn(const struct soft_packet *p)
{
	return p->flags_psn & 0xffffffu;
}

#endif
